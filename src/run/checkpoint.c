#include "run/checkpoint.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

zest_status zest_checkpoint_write(const char *folder, const zest_loaded *loaded, uint64_t step,
                                  zest_error *error) {
    char text[128];
    zest_status status = zest_load_save(loaded, folder, error);
    if (status) return status;
    snprintf(text, sizeof text, "{\"step\": %" PRIu64 ", \"fingerprint\": \"%016" PRIx64 "\"}\n", step,
             zest_params_fingerprint(&loaded->model->params));
    char *path = zest_file_join(folder, "zest.json");
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    status = zest_file_write(path, text, strlen(text), error);
    free(path);
    return status;
}

int zest_checkpoint_read(const char *folder, uint64_t *step, uint64_t *fingerprint) {
    char *path = zest_file_join(folder, "zest.json");
    json_t *note = path ? json_load_file(path, 0, NULL) : NULL;
    const char *print = json_string_value(json_object_get(note, "fingerprint"));
    json_t *number = json_object_get(note, "step");
    int good = print && json_is_integer(number) && json_integer_value(number) >= 0;
    if (good) {
        *step = (uint64_t)json_integer_value(number);
        *fingerprint = strtoull(print, NULL, 16);
    }
    json_decref(note);
    free(path);
    return good;
}
