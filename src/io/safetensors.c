/* Reading of safetensors: one file, or the shards of a Hugging Face folder. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "io/safetensors.h"

#define HEADER_LIMIT 100000000u /* as in the reference implementation */
#define METADATA "__metadata__"

/* State while a file is opened. */
typedef struct {
    zest_safetensors *file;
    const char *path;
    const unsigned char *data; /* the data section */
    size_t data_size;
    char *next_text;
    size_t *next_shape;
    zest_error *error;
} reader;

static int compare_names(const void *left, const void *right) {
    const zest_safetensors_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Fills by_name from tensors. */
static zest_status sort_by_name(zest_safetensors *file, const char *path, zest_error *error) {
    file->by_name = malloc((file->count + 1) * sizeof *file->by_name);
    if (!file->by_name) return zest_error_memory(error, path, file->count * sizeof *file->by_name);
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    return ZEST_OK;
}

/* Other file types given by mistake, recognised by their first bytes; NULL: none of them. Only for files
 * that are not safetensors: the length field of a valid file may match by chance. */
static const char *other_kind(const unsigned char *bytes, size_t size) {
    if (size >= 4 && memcmp(bytes, "GGUF", 4) == 0) return "a GGUF file (its name should end in .gguf)";
    if ((size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0) || (size >= 2 && bytes[0] == 0x80 && bytes[1] == 2))
        return "a PyTorch pickle; convert it with Python's safetensors.torch.save_model or with "
               "transformers' save_pretrained";
    if (size >= 8 && memcmp(bytes, "version ", 8) == 0)
        return "a Git LFS pointer, not the model itself; fetch it with: git lfs pull";
    return NULL;
}

/* Finds the header; *length is the number in the first eight bytes. */
static zest_status find_header(reader *r, const unsigned char *bytes, size_t size, uint64_t *length) {
    const char *kind = other_kind(bytes, size);
    size_t rest = size < sizeof *length ? 0 : size - sizeof *length;
    if (rest) memcpy(length, bytes, sizeof *length);
    if (rest && *length && *length <= HEADER_LIMIT && *length <= rest && bytes[sizeof *length] == '{')
        return ZEST_OK;
    if (kind) return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: is %s", r->path, kind);
    if (!rest)
        return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: not a safetensors file: only %zu bytes",
                              r->path, size);
    if (*length > HEADER_LIMIT)
        return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                              "%s: not a safetensors file: header of %" PRIu64
                              " bytes, more than the %u allowed",
                              r->path, *length, HEADER_LIMIT);
    if (*length > rest)
        return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                              "%s: truncated: header of %" PRIu64 " bytes, but only %zu follow", r->path,
                              *length, rest);
    return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                          "%s: not a safetensors file: its header is not a JSON object", r->path);
}

static zest_status parse_header(reader *r, const unsigned char *bytes, size_t size, json_t **json) {
    uint64_t length = 0;
    zest_status status = find_header(r, bytes, size, &length);
    if (status) return status;
    r->data = bytes + sizeof length + length;
    r->data_size = size - sizeof length - (size_t)length;
    char where[512];
    snprintf(where, sizeof where, "%.400s: the header", r->path);
    return zest_json_parse((const char *)bytes + sizeof length, (size_t)length, where, json, r->error);
}

/* Allocates the arrays for all tensors, names, shapes and metadata at their final size, so that pointers
 * into them stay valid. */
static zest_status reserve(reader *r, json_t *header) {
    size_t tensors = 0, dimensions = 0, text = 0, pairs = 0;
    const char *key, *name;
    json_t *value, *string;
    json_object_foreach(header, key, value) {
        if (strcmp(key, METADATA) == 0) {
            pairs = json_object_size(value);
            json_object_foreach(value, name, string) text += strlen(name) + json_string_length(string) + 2;
            continue;
        }
        tensors++;
        text += strlen(key) + 1;
        dimensions += json_array_size(json_object_get(value, "shape"));
    }
    zest_safetensors *file = r->file;
    file->tensors = calloc(tensors + 1, sizeof *file->tensors);
    file->shapes = calloc(dimensions + 1, sizeof *file->shapes);
    file->metadata = calloc(pairs + 1, sizeof *file->metadata);
    file->text = malloc(text + 1);
    if (!file->tensors || !file->shapes || !file->metadata || !file->text)
        return zest_error_memory(r->error, r->path, tensors * sizeof *file->tensors + text);
    r->next_text = file->text;
    r->next_shape = file->shapes;
    return ZEST_OK;
}

static const char *copy_text(reader *r, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = memcpy(r->next_text, text, size);
    r->next_text += size;
    return copy;
}

static zest_status read_metadata(reader *r, json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: " METADATA " is not an object", r->path);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                                  "%s: " METADATA " has a value that is not a string", r->path);
        zest_safetensors_pair *pair = &r->file->metadata[r->file->metadata_count++];
        pair->key = copy_text(r, key);
        pair->value = copy_text(r, json_string_value(value));
    }
    return ZEST_OK;
}

/* A non-negative integer that fits into size_t; 0: it is not. */
static int parse_size(const json_t *json, size_t *out) {
    if (!json_is_integer(json)) return 0;
    json_int_t value = json_integer_value(json);
    if (value < 0 || (uint64_t)value > SIZE_MAX) return 0;
    *out = (size_t)value;
    return 1;
}

static zest_status bad_tensor(reader *r, const char *name, const char *what) {
    return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: tensor '%.200s': %s", r->path, name, what);
}

static zest_status read_shape(reader *r, const json_t *shape, zest_safetensors_tensor *tensor) {
    if (!json_is_array(shape)) return bad_tensor(r, tensor->name, "no shape");
    tensor->rank = json_array_size(shape);
    tensor->shape = r->next_shape;
    tensor->count = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        size_t dimension;
        if (!parse_size(json_array_get(shape, i), &dimension))
            return bad_tensor(r, tensor->name, "its shape is not a list of non-negative integers");
        *r->next_shape++ = dimension;
        if (__builtin_mul_overflow(tensor->count, dimension, &tensor->count))
            return bad_tensor(r, tensor->name, "its shape is too large: the product overflows");
    }
    if (__builtin_mul_overflow(tensor->count, zest_dtype_size(tensor->dtype), &tensor->size))
        return bad_tensor(r, tensor->name, "its shape is too large: the size in bytes overflows");
    return ZEST_OK;
}

static zest_status read_offsets(reader *r, const json_t *offsets, zest_safetensors_tensor *tensor) {
    size_t begin, end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !parse_size(json_array_get(offsets, 0), &begin) || !parse_size(json_array_get(offsets, 1), &end))
        return bad_tensor(r, tensor->name, "data_offsets is not a pair of non-negative integers");
    if (begin > end) return bad_tensor(r, tensor->name, "data_offsets run backwards");
    if (end > r->data_size)
        return zest_error_set(
            r->error, ZEST_ERROR_FORMAT,
            "%s: tensor '%.200s': ends at byte %zu of the data, which has only %zu (file truncated?)",
            r->path, tensor->name, end, r->data_size);
    if (end - begin != tensor->size)
        return zest_error_set(
            r->error, ZEST_ERROR_FORMAT,
            "%s: tensor '%.200s': its shape needs %zu bytes of %s, its data_offsets give %zu", r->path,
            tensor->name, tensor->size, zest_dtype_name(tensor->dtype), end - begin);
    tensor->data = r->data + begin;
    return ZEST_OK;
}

static zest_status read_tensor(reader *r, const char *name, const json_t *json) {
    if (!zest_text_is_printable(name, strlen(name)))
        return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                              "%s: the name of a tensor contains a control character", r->path);
    zest_safetensors_tensor *tensor = &r->file->tensors[r->file->count++];
    tensor->name = copy_text(r, name);
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!dtype) return bad_tensor(r, name, "no dtype");
    if (!zest_dtype_find(dtype, &tensor->dtype)) {
        int safe = zest_text_is_printable(dtype, strlen(dtype));
        return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: tensor '%.200s': unknown dtype '%.20s'",
                              r->path, name, safe ? dtype : "?");
    }
    zest_status status = read_shape(r, json_object_get(json, "shape"), tensor);
    return status ? status : read_offsets(r, json_object_get(json, "data_offsets"), tensor);
}

static int compare_offsets(const void *left, const void *right) {
    const zest_safetensors_tensor *a = left, *b = right;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y) return x < y ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1; /* empty tensors before the one that starts at the same offset */
    return strcmp(a->name, b->name);
}

/* The format requires that the tensors tile the data section, so that no data is hidden between them. */
static zest_status check_tiling(reader *r) {
    zest_safetensors *file = r->file;
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_offsets);
    const unsigned char *end = r->data;
    for (size_t i = 0; i < file->count; i++) {
        const unsigned char *begin = file->tensors[i].data;
        if (begin < end) return bad_tensor(r, file->tensors[i].name, "overlaps another tensor");
        if (begin > end) return bad_tensor(r, file->tensors[i].name, "there is a gap before its data");
        end = begin + file->tensors[i].size;
    }
    size_t left = r->data_size - (size_t)(end - r->data);
    if (!left) return ZEST_OK;
    return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: %zu bytes after the last tensor belong to none",
                          r->path, left);
}

static zest_status read_header(reader *r, json_t *header) {
    zest_status status = reserve(r, header);
    const char *key;
    json_t *value;
    json_object_foreach(header, key, value) {
        if (status) return status;
        status = strcmp(key, METADATA) == 0 ? read_metadata(r, value) : read_tensor(r, key, value);
    }
    if (!status) status = check_tiling(r);
    return status ? status : sort_by_name(r->file, r->path, r->error);
}

/* Reads into a file object that the caller closes on error. */
static zest_status read_bytes(zest_safetensors *file, const char *path, const unsigned char *bytes,
                              size_t size, zest_error *error) {
    reader r = {.file = file, .path = path, .error = error};
    json_t *header = NULL;
    zest_status status = parse_header(&r, bytes, size, &header);
    if (!status) status = read_header(&r, header);
    json_decref(header);
    return status;
}

static zest_status finish(zest_safetensors *file, zest_status status, zest_safetensors **out) {
    if (status) {
        zest_safetensors_close(file);
        file = NULL;
    }
    *out = file;
    return status;
}

zest_status zest_safetensors_open_memory(const void *bytes, size_t size, const char *name,
                                         zest_safetensors **file, zest_error *error) {
    *file = NULL;
    zest_safetensors *opened = calloc(1, sizeof *opened);
    if (!opened) return zest_error_memory(error, name, sizeof *opened);
    return finish(opened, read_bytes(opened, name, bytes, size, error), file);
}

zest_status zest_safetensors_open(const char *path, zest_safetensors **file, zest_error *error) {
    *file = NULL;
    zest_safetensors *opened = calloc(1, sizeof *opened);
    if (!opened) return zest_error_memory(error, path, sizeof *opened);
    zest_status status = zest_mapped_file_open(path, &opened->map, error);
    if (!status) status = read_bytes(opened, path, opened->map.bytes, opened->map.size, error);
    return finish(opened, status, file);
}

void zest_safetensors_close(zest_safetensors *file) {
    if (!file) return;
    for (size_t i = 0; i < file->shard_count; i++) zest_safetensors_close(file->shards[i]);
    zest_mapped_file_close(&file->map);
    free(file->shards);
    free(file->metadata);
    free(file->shapes);
    free(file->text);
    free(file->by_name);
    free(file->tensors);
    free(file);
}

size_t zest_safetensors_count(const zest_safetensors *file) { return file->count; }

const zest_safetensors_tensor *zest_safetensors_at(const zest_safetensors *file, size_t i) {
    return i < file->count ? &file->tensors[i] : NULL;
}

const zest_safetensors_tensor *zest_safetensors_find(const zest_safetensors *file, const char *name) {
    zest_safetensors_tensor target = {.name = name};
    const zest_safetensors_tensor *key = &target;
    const zest_safetensors_tensor **found =
        bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

const char *zest_safetensors_metadata(const zest_safetensors *file, const char *key) {
    const char *name, *value;
    for (size_t i = 0; zest_safetensors_metadata_at(file, i, &name, &value); i++)
        if (strcmp(name, key) == 0) return value;
    return NULL;
}

int zest_safetensors_metadata_at(const zest_safetensors *file, size_t i, const char **key,
                                 const char **value) {
    if (file->shard_count) return zest_safetensors_metadata_at(file->shards[0], i, key, value);
    if (i >= file->metadata_count) return 0;
    *key = file->metadata[i].key;
    *value = file->metadata[i].value;
    return 1;
}

/* ---- Hugging Face folders: one file, or the shards of an index ---- */

#define INDEX_NAME "model.safetensors.index.json"
#define INDEX_LIMIT 100000000u

/* State while an index is read. */
typedef struct {
    const char *folder;
    json_t *weight_map; /* tensor -> file name */
    const char **names; /* the distinct file names, sorted; owned by weight_map */
    size_t name_count;
    zest_error *error;
} index_reader;

static int compare_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* An index may come from anywhere: it must not make us open a file outside its folder. */
static int is_plain_name(const char *name) {
    return name[0] && !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..") &&
           strcmp(name, ".") != 0 && zest_text_is_printable(name, strlen(name));
}

/* names: all file names of the weight map, sorted, without duplicates. */
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
        if (!name || !is_plain_name(name))
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
    model->shards = calloc(r->name_count, sizeof *model->shards);
    if (!model->shards) return zest_error_memory(r->error, INDEX_NAME, r->name_count * sizeof *model->shards);
    for (size_t i = 0; i < r->name_count; i++) {
        char *path = zest_file_join(r->folder, r->names[i]);
        if (!path) return zest_error_memory(r->error, r->names[i], strlen(r->folder));
        zest_status status = zest_safetensors_open(path, &model->shards[i], r->error);
        free(path);
        if (status) return status;
        model->shard_count++;
        model->count += zest_safetensors_count(model->shards[i]);
    }
    return ZEST_OK;
}

/* Joins the tensors of all shards into one list. Every tensor must be in the file that the index names,
 * and there must be no others; so none is missing or duplicated. */
static zest_status join_shards(index_reader *r, zest_safetensors *model) {
    model->tensors = malloc((model->count + 1) * sizeof *model->tensors);
    if (!model->tensors)
        return zest_error_memory(r->error, INDEX_NAME, model->count * sizeof *model->tensors);
    size_t n = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        for (size_t j = 0; j < model->shards[i]->count; j++) {
            model->tensors[n] = model->shards[i]->tensors[j];
            const char *name = model->tensors[n++].name;
            const char *listed = json_string_value(json_object_get(r->weight_map, name));
            if (!listed || strcmp(listed, r->names[i]) != 0)
                return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                                      "%s/%s: contains tensor '%.200s', which " INDEX_NAME " lists %s",
                                      r->folder, r->names[i], name, listed ? "in another file" : "nowhere");
        }
    }
    zest_status status = sort_by_name(model, INDEX_NAME, r->error);
    const char *name;
    json_t *value;
    if (status || n == json_object_size(r->weight_map)) return status;
    json_object_foreach(r->weight_map, name, value) {
        if (zest_safetensors_find(model, name)) continue;
        int safe = zest_text_is_printable(name, strlen(name));
        return zest_error_set(r->error, ZEST_ERROR_FORMAT,
                              "%s/%s: tensor '%.200s' is missing, but " INDEX_NAME " names it", r->folder,
                              json_string_value(value), safe ? name : "?");
    }
    return ZEST_OK;
}

/* Parses an index and lists its shards. *index owns the names. */
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

/* The smallest file name in the folder with one of these suffixes; "": none. */
static void find_suffix(const char *folder, const char *const *suffixes, char *name, size_t size) {
    name[0] = '\0';
    DIR *listing = opendir(folder);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        for (const char *const *end = suffixes; *end; end++) {
            int matches = ends_with(entry->d_name, *end) &&
                          zest_text_is_printable(entry->d_name, strlen(entry->d_name));
            if (matches && (!name[0] || strcmp(entry->d_name, name) < 0))
                snprintf(name, size, "%s", entry->d_name);
        }
    }
    closedir(listing);
}

static zest_status explain_missing(const char *folder, const char *auto_class, zest_error *error) {
    static const char *const pickles[] = {".bin", ".pt", ".pth", ".ckpt", NULL};
    static const char *const ggufs[] = {".gguf", NULL};
    char name[256];
    find_suffix(folder, ggufs, name, sizeof name);
    if (name[0])
        return zest_error_set(error, ZEST_ERROR_FILE,
                              "%s: has no model.safetensors, but %s: use the path of that file", folder,
                              name);
    find_suffix(folder, pickles, name, sizeof name);
    if (name[0])
        return zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: has no model.safetensors, but %s, a PyTorch pickle, which zest does not read because "
            "it can run code. Convert it once, with PyTorch and transformers: python3 -c 'import sys; from "
            "transformers import %s as M; M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])' '%s'",
            folder, name, auto_class, folder);
    return zest_error_set(error, ZEST_ERROR_FILE, "%s: has neither model.safetensors nor " INDEX_NAME,
                          folder);
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
    char *single = zest_file_join(folder, "model.safetensors"), *index = zest_file_join(folder, INDEX_NAME);
    zest_status status;
    if (!single || !index)
        status = zest_error_memory(error, folder, strlen(folder));
    else if (exists(single))
        status = zest_safetensors_open(single, file, error);
    else if (exists(index))
        status = open_index(folder, index, file, error);
    else
        status = explain_missing(folder, auto_class, error);
    free(single);
    free(index);
    return status;
}
