#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "model/model.h"
#include "io/safetensors.h"

static const char *const tokenizer_files[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "generation_config.json",
};

enum { TOKENIZER_LIMIT = 1 << 30 };

/* A file that is not there is left out; one that is copied onto itself is left alone. */
static zest_status copy_file(const char *from, const char *to, zest_error *error) {
    struct stat source, target;
    if (stat(from, &source))
        return errno == ENOENT ? ZEST_OK : zest_error_set_errno(error, ZEST_ERROR_FILE, "%s", from);
    if (!stat(to, &target) && source.st_dev == target.st_dev && source.st_ino == target.st_ino)
        return ZEST_OK;
    zest_buffer bytes = {0};
    zest_status status = zest_file_read(from, TOKENIZER_LIMIT, &bytes, error);
    if (!status) status = zest_file_write(to, bytes.data, bytes.size, error);
    zest_buffer_free(&bytes);
    return status;
}

static zest_status copy_tokenizer(const zest_model *model, const char *folder, zest_error *error) {
    zest_status status = ZEST_OK;
    if (!model->folder) return ZEST_OK;
    for (size_t i = 0; i < sizeof tokenizer_files / sizeof *tokenizer_files && !status; i++) {
        char *from = zest_file_join(model->folder, tokenizer_files[i]),
             *to = zest_file_join(folder, tokenizer_files[i]);
        status = from && to ? copy_file(from, to, error) : zest_error_memory(error, folder, strlen(folder));
        free(from);
        free(to);
    }
    return status;
}

static zest_status write_config(const zest_model *model, const char *folder, zest_error *error) {
    char *path = zest_file_join(folder, "config.json");
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_status status = zest_file_write(path, model->config_json, strlen(model->config_json), error);
    free(path);
    return status;
}

static zest_status write_weights(const zest_model *model, const char *folder, zest_error *error) {
    size_t count = model->tensor_count;
    zest_safetensors_source *sources = calloc(count + 1, sizeof *sources);
    if (!sources) return zest_error_memory(error, folder, count * sizeof *sources);
    for (size_t i = 0; i < count; i++) {
        const zest_tensor *tensor = &model->tensors[i];
        sources[i] = (zest_safetensors_source){.name = tensor->name,
                                               .dtype = tensor->dtype,
                                               .rank = model->shapes[i].rank,
                                               .shape = model->shapes[i].shape,
                                               .data = tensor->data};
    }
    if (model->head_bias_twin) { /* the head's bias is the last tensor */
        sources[count] = sources[count - 1];
        sources[count++].name = model->head_bias_twin;
    }
    zest_status status = zest_safetensors_write_folder(folder, sources, count, 0, error);
    free(sources);
    return status;
}

zest_status zest_model_save(const zest_model *model, const char *folder, zest_error *error) {
    zest_status status = zest_file_make_folder(folder, error);
    if (!status) status = copy_tokenizer(model, folder, error);
    if (!status) status = write_config(model, folder, error);
    if (!status) status = write_weights(model, folder, error);
    return status;
}
