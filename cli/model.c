#include "cli/model.h"

#include <stdio.h>
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

static zest_status add_line(zest_cli_lines *lines, const char *text, size_t size, zest_error *error) {
    char **grown = realloc(lines->text, (lines->count + 1) * sizeof *grown);
    if (grown) lines->text = grown;
    char *copy = grown ? strndup(text, size) : NULL;
    if (!copy) return zest_error_memory(error, "a line of standard input", size);
    lines->text[lines->count++] = copy;
    return ZEST_OK;
}

zest_status zest_cli_lines_read(zest_cli_lines *lines, const char *given, zest_error *error) {
    *lines = (zest_cli_lines){0};
    if (*given) return add_line(lines, given, strlen(given), error);
    char *line = NULL;
    size_t room = 0;
    ssize_t got;
    zest_status status = ZEST_OK;
    while (!status && (got = getline(&line, &room, stdin)) >= 0) {
        if (got && line[got - 1] == '\n') got--;
        if (got) status = add_line(lines, line, (size_t)got, error);
    }
    free(line);
    if (!status && !lines->count)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "there is no text: give it as an option or on standard input");
    return status;
}

void zest_cli_lines_free(zest_cli_lines *lines) {
    for (size_t i = 0; i < lines->count; i++) free(lines->text[i]);
    free(lines->text);
    *lines = (zest_cli_lines){0};
}

int zest_cli_model_run(const zest_options *options, const char *path, zest_option_id given,
                       zest_cli_work *work) {
    zest_error error = {0};
    zest_cli_lines lines = {0};
    zest_loaded m = {0};
    json_t *results = zest_options_whole(options, ZEST_OPTION_JSON) ? json_array() : NULL;
    zest_status status = zest_cli_lines_read(&lines, zest_options_text(options, given), &error);
    if (!status) status = zest_load_model(&m, path, NULL, options, &error);
    if (!status) status = work(&m, options, &lines, results, &error);
    zest_load_free(&m);
    zest_cli_lines_free(&lines);
    if (!status && results) return zest_output_json(json_pack("{s:o}", "results", results));
    json_decref(results);
    return status ? zest_output_fail(status, error.message) : ZEST_EXIT_OK;
}
