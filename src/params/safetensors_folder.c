/* The model of a Hugging Face folder: one file, or the shards of an index. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "params/safetensors_internal.h"

#define INDEX_NAME "model.safetensors.index.json"
#define INDEX_LIMIT 100000000u

/* An index being followed. */
typedef struct {
    const char *folder;
    json_t *weight_map; /* tensor -> file name */
    const char **names; /* the distinct file names, sorted; they live in weight_map */
    size_t name_count;
    zest_error *error;
} index_reader;

static int compare_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* An index is a stranger's file: it must not make us open anything outside its folder. */
static int stays_inside(const char *name) {
    return name[0] && !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..") &&
           strcmp(name, ".") != 0 && zest_map_printable(name, strlen(name));
}

/* names: every file name of the weight map, then sorted, then each once. */
static zest_status list_shards(index_reader *r) {
    size_t total = json_object_size(r->weight_map);
    if (!json_is_object(r->weight_map) || total == 0)
        return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s/" INDEX_NAME ": no weight_map", r->folder);
    r->names = malloc(total * sizeof *r->names);
    if (!r->names) return zest_error_memory(r->error, INDEX_NAME, total * sizeof *r->names);
    const char *tensor;
    json_t *value;
    size_t n = 0;
    json_object_foreach(r->weight_map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !stays_inside(name))
            return zest_error_set(
                r->error, ZEST_ERROR_FORMAT,
                "%s/" INDEX_NAME ": the weight_map must give plain names of files in this folder", r->folder);
        r->names[n++] = name;
    }
    qsort(r->names, n, sizeof *r->names, compare_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(r->names[r->name_count - 1], r->names[i]) != 0)
            r->names[r->name_count++] = r->names[i];
    return ZEST_OK;
}

static zest_status open_shards(index_reader *r, zest_safetensors *model) {
    model->parts = calloc(r->name_count, sizeof *model->parts);
    if (!model->parts) return zest_error_memory(r->error, INDEX_NAME, r->name_count * sizeof *model->parts);
    for (size_t i = 0; i < r->name_count; i++) {
        char *path = zest_file_join(r->folder, r->names[i]);
        if (!path) return zest_error_memory(r->error, r->names[i], strlen(r->folder));
        zest_status status = zest_safetensors_open(path, &model->parts[i], r->error);
        free(path);
        if (status) return status;
        model->part_count++;
        model->count += zest_safetensors_count(model->parts[i]);
    }
    return ZEST_OK;
}

/* One list over all shards. Every tensor must be where the index says, and there must be no others: then none
 * is missing and none is there twice. */
static zest_status join_shards(index_reader *r, zest_safetensors *model) {
    model->tensors = malloc((model->count + 1) * sizeof *model->tensors);
    if (!model->tensors)
        return zest_error_memory(r->error, INDEX_NAME, model->count * sizeof *model->tensors);
    size_t n = 0;
    for (size_t i = 0; i < model->part_count; i++) {
        for (size_t j = 0; j < model->parts[i]->count; j++) {
            model->tensors[n] = model->parts[i]->tensors[j];
            const char *name = model->tensors[n++].name;
            const char *home = json_string_value(json_object_get(r->weight_map, name));
            if (!home || strcmp(home, r->names[i]) != 0)
                return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                                      "%s/%s: holds tensor '%.200s', which " INDEX_NAME " places %s",
                                      r->folder, r->names[i], name, home ? "in another file" : "nowhere");
        }
    }
    zest_status status = zest_safetensors_sort(model, INDEX_NAME, r->error);
    const char *name;
    json_t *value;
    if (status || n == json_object_size(r->weight_map)) return status;
    json_object_foreach(r->weight_map, name, value) {
        if (zest_safetensors_find(model, name)) continue;
        int safe = zest_map_printable(name, strlen(name));
        return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                              "%s/%s: tensor '%.200s' is missing, but " INDEX_NAME " names it", r->folder,
                              json_string_value(value), safe ? name : "?");
    }
    return ZEST_OK;
}

/* Parses an index and lists its shards. *index owns the texts. */
static zest_status read_index(index_reader *r, const char *path, json_t **index) {
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, INDEX_LIMIT, &text, r->error);
    if (!status) status = zest_json_parse(text.data, text.size, path, index, r->error);
    r->weight_map = json_object_get(*index, "weight_map");
    if (!status) status = list_shards(r);
    zest_buffer_free(&text);
    return status;
}

static zest_status follow_index(index_reader *r, const char *path, zest_safetensors *model) {
    json_t *index = NULL;
    zest_status status = read_index(r, path, &index);
    if (!status) status = open_shards(r, model);
    if (!status) status = join_shards(r, model);
    json_decref(index);
    free(r->names);
    return status;
}

zest_status zest_safetensors_shards(const char *path, const char *folder, char ***names, size_t *count,
                                    zest_error *error) {
    index_reader r = {.folder = folder, .error = error};
    json_t *index = NULL;
    *names = NULL;
    *count = 0;
    zest_status status = read_index(&r, path, &index);
    if (!status) *names = calloc(r.name_count, sizeof **names);
    if (!status && !*names) status = zest_error_memory(error, path, r.name_count * sizeof **names);
    while (!status && *count < r.name_count) {
        (*names)[*count] = strdup(r.names[*count]);
        if (!(*names)[*count])
            status = zest_error_memory(error, path, strlen(r.names[*count]));
        else
            ++*count;
    }
    json_decref(index);
    free(r.names);
    return status;
}

static zest_status open_index(const char *folder, const char *path, zest_safetensors **out,
                              zest_error *error) {
    zest_safetensors *model = calloc(1, sizeof *model);
    if (!model) return zest_error_memory(error, path, sizeof *model);
    index_reader r = {.folder = folder, .error = error};
    zest_status status = follow_index(&r, path, model);
    if (status) {
        zest_safetensors_close(model);
        return status;
    }
    *out = model;
    return ZEST_OK;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The first file in the folder whose name ends in one of these; "" when there is none. */
static void find_ending(const char *folder, const char *const *endings, char *name, size_t size) {
    name[0] = '\0';
    DIR *listing = opendir(folder);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        for (const char *const *end = endings; *end; end++) {
            int fits =
                ends_with(entry->d_name, *end) && zest_map_printable(entry->d_name, strlen(entry->d_name));
            /* The smallest name, so that the message does not depend on the order of the listing. */
            if (fits && (!name[0] || strcmp(entry->d_name, name) < 0))
                snprintf(name, size, "%s", entry->d_name);
        }
    }
    closedir(listing);
}

static zest_status explain(const char *folder, const char *auto_class, zest_error *error) {
    static const char *const pickles[] = {".bin", ".pt", ".pth", ".ckpt", NULL};
    static const char *const ggufs[] = {".gguf", NULL};
    char name[256];
    find_ending(folder, ggufs, name, sizeof name);
    if (name[0])
        return zest_error_set(error, ZEST_ERROR_FILE,
                              "%s: no model.safetensors, but %s: give that file itself", folder, name);
    find_ending(folder, pickles, name, sizeof name);
    if (name[0])
        return zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: no model.safetensors, but %s, a PyTorch pickle, which zest does not read because "
            "it can run code. Convert it once, with PyTorch and transformers: python3 -c 'import sys; from "
            "transformers import %s as M; M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])' '%s'",
            folder, name, auto_class, folder);
    return zest_error_set(error, ZEST_ERROR_FILE,
                          "%s: neither model.safetensors nor " INDEX_NAME " is in this folder", folder);
}

static int exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

zest_status zest_safetensors_open_folder(const char *folder, const char *auto_class, zest_safetensors **file,
                                         zest_error *error) {
    *file = NULL;
    struct stat info;
    if (stat(folder, &info))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", folder);
    if (!S_ISDIR(info.st_mode)) return zest_error_set(error, ZEST_ERROR_FILE, "%s: is not a folder", folder);
    char *whole = zest_file_join(folder, "model.safetensors"), *index = zest_file_join(folder, INDEX_NAME);
    zest_status status;
    if (!whole || !index)
        status = zest_error_memory(error, folder, strlen(folder));
    else if (exists(whole))
        status = zest_safetensors_open(whole, file, error);
    else if (exists(index))
        status = open_index(folder, index, file, error);
    else
        status = explain(folder, auto_class, error);
    free(whole);
    free(index);
    return status;
}
