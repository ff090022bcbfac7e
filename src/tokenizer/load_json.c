/* Tokenizers from a Hugging Face tokenizer.json, and the choice of the file that a model folder has. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

static zest_status build_all(zest_tokenizer *tokenizer, json_t *json,
                             const zest_tokenizer_load_settings *settings, zest_error *error) {
    const json_t *model = json_object_get(json, "model");
    zest_tokenizer_load_override_normalizer(json_object_get(json, "normalizer"), settings->config);
    zest_status status = zest_tokenizer_load_model(tokenizer, model, error);
    if (!status)
        status = zest_tokenizer_load_normalizer(tokenizer, json_object_get(json, "normalizer"), error);
    if (!status)
        status = zest_tokenizer_load_pre_tokenizer(tokenizer, json_object_get(json, "pre_tokenizer"), error);
    if (!status) status = zest_tokenizer_load_decoder(tokenizer, json_object_get(json, "decoder"), error);
    if (!status)
        status = zest_tokenizer_load_added_list(tokenizer, json_object_get(json, "added_tokens"), error);
    if (!status) status = zest_tokenizer_load_unknown(tokenizer, model, error);
    if (!status)
        status =
            zest_tokenizer_load_post_processor(tokenizer, json_object_get(json, "post_processor"), error);
    if (!status) status = zest_tokenizer_finish(tokenizer, error);
    if (!status) zest_tokenizer_load_roles(tokenizer, settings);
    return status;
}

static zest_tokenizer *build(const char *bytes, size_t size, const char *name,
                             const zest_tokenizer_load_settings *settings, zest_error *error) {
    zest_error local = {0};
    json_t *json;
    if (zest_json_parse(bytes, size, name, &json, error)) return NULL;
    zest_tokenizer *tokenizer = zest_tokenizer_new(name, error);
    if (tokenizer && build_all(tokenizer, json, settings, error ? error : &local)) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    json_decref(json);
    return tokenizer;
}

zest_tokenizer *zest_tokenizer_from_json(const char *bytes, size_t size, const char *name,
                                         zest_error *error) {
    return build(bytes, size, name, &(zest_tokenizer_load_settings){0}, error);
}

static zest_tokenizer *open_file(const char *path, const char *folder, zest_error *error) {
    zest_buffer bytes = {0};
    zest_tokenizer_load_settings settings = {0};
    zest_tokenizer *tokenizer = NULL;
    if (!zest_file_read(path, ZEST_TOKENIZER_LOAD_FILE_LIMIT, &bytes, error) &&
        !zest_tokenizer_load_read_settings(folder, &settings, error))
        tokenizer = build(bytes.data, bytes.size, path, &settings, error);
    if (tokenizer && zest_tokenizer_load_chat(tokenizer, folder, settings.config, error)) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    zest_tokenizer_load_free_settings(&settings);
    zest_buffer_free(&bytes);
    return tokenizer;
}

static int ends_in(const char *path, const char *end) {
    size_t size = strlen(path), tail = strlen(end);
    return size >= tail && !strcmp(path + size - tail, end);
}

static zest_tokenizer *open_gguf(const char *path, zest_error *error) {
    zest_gguf *file;
    if (zest_gguf_open(path, &file, error)) return NULL;
    zest_tokenizer *tokenizer = zest_tokenizer_from_gguf(file, path, error);
    zest_gguf_close(file);
    return tokenizer;
}

/* The folder of a file, to be freed. */
static char *folder_of(const char *path) {
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        slash[slash == folder] = '\0';
    } else if (folder) {
        free(folder);
        folder = strdup(".");
    }
    return folder;
}

static zest_tokenizer *open_named(const char *path, zest_error *error) {
    if (ends_in(path, ".gguf")) return open_gguf(path, error);
    char *folder = folder_of(path);
    zest_tokenizer *tokenizer = NULL;
    if (!folder)
        zest_error_memory(error, path, strlen(path));
    else if (ends_in(path, ".model"))
        tokenizer = zest_tokenizer_from_sentencepiece(path, folder, error);
    else
        tokenizer = open_file(path, folder, error);
    free(folder);
    return tokenizer;
}

/* tokenizer.json, or else vocab.json or vocab.txt, or else tokenizer.model. */
static zest_tokenizer *open_folder(const char *path, zest_error *error) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"};
    size_t i = 0, count = sizeof names / sizeof *names;
    char *file = NULL;
    for (; i < count; i++) {
        free(file);
        if (!(file = zest_file_join(path, names[i])) || !access(file, F_OK)) break;
    }
    zest_tokenizer *tokenizer = NULL;
    if (!file)
        zest_error_memory(error, path, strlen(path));
    else if (i == 0)
        tokenizer = open_file(file, path, error);
    else if (i == 3)
        tokenizer = zest_tokenizer_from_sentencepiece(file, path, error);
    else
        tokenizer = zest_tokenizer_from_vocab(path, error);
    free(file);
    return tokenizer;
}

zest_tokenizer *zest_tokenizer_open(const char *path, zest_error *error) {
    struct stat info;
    if (stat(path, &info)) {
        zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
        return NULL;
    }
    return S_ISDIR(info.st_mode) ? open_folder(path, error) : open_named(path, error);
}
