#include "cli/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/output.h"
#include "hub/hub.h"

static zest_status find_option(const zest_command *command, zest_options *options, zest_error *error) {
    const char *given = zest_options_text(options, ZEST_OPTION_MODEL);
    char *path = NULL;
    if (!*given || !(zest_option_row_at(ZEST_OPTION_MODEL)->users & command->users)) return ZEST_OK;
    zest_status status = zest_hub_find(given, &path, error);
    if (!status && strcmp(path, given)) status = zest_options_set_id(options, ZEST_OPTION_MODEL, path, error);
    free(path);
    return status;
}

zest_status zest_cli_model_find(const zest_command *command, zest_options *options,
                                const zest_arguments *arguments, char ***words, zest_error *error) {
    int models = strstr(command->words, "MODEL") != NULL;
    *words = calloc((size_t)arguments->count + 1, sizeof **words);
    if (!*words) return zest_error_memory(error, "the command line", 0);
    zest_status status = find_option(command, options, error);
    for (int i = 0; i < arguments->count && !status; i++) {
        const char *given = arguments->words[i];
        if (models)
            status = zest_hub_find(given, &(*words)[i], error);
        else if (!((*words)[i] = strdup(given)))
            status = zest_error_memory(error, given, strlen(given));
    }
    return status;
}

int zest_cli_model_is(const char *path) {
    size_t length = strlen(path);
    if (length > 5 && !strcmp(path + length - 5, ".gguf")) return 1;
    char *config = zest_file_join(path, "config.json");
    int found = config && access(config, F_OK) == 0;
    free(config);
    return found;
}

int zest_cli_model_run(const zest_options *options, const char *path, zest_option_id given,
                       zest_cli_work *work) {
    zest_error error = {0};
    zest_lines lines = {0};
    zest_loaded m = {0};
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *results = json ? json_array() : NULL;
    zest_status status = zest_lines_read(&lines, options, given, &error);
    if (!status) status = zest_load_model(&m, path, NULL, options, &error);
    if (!status) status = work(&m, options, &lines, json ? &results : NULL, &error);
    int code = lines.failed ? ZEST_EXIT_FAILURE : ZEST_EXIT_OK, printed = ZEST_EXIT_OK;
    zest_load_free(&m);
    zest_lines_free(&lines);
    if (!status && json) printed = zest_output_json(json_pack("{s:o}", "results", results));
    if (status) json_decref(results);
    return status ? zest_output_fail(status, error.message) : printed ? printed : code;
}
