#include "cli/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/output.h"

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
