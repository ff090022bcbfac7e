/* Writing of safetensors files and of sharded model folders. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "io/safetensors.h"

#define CHUNK ((size_t)1 << 20)
#define INDEX_NAME "model.safetensors.index.json"
#define SHARD_LIMIT 99999 /* five digits in the file names */

/* A file that is written under a temporary name and then renamed. */
typedef struct {
    char *path, *temporary;
} pending;

static zest_status tensor_size(const zest_safetensors_source *tensor, size_t *size, zest_error *error) {
    *size = zest_dtype_size(tensor->dtype);
    for (size_t i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(*size, tensor->shape[i], size) || *size > INT64_MAX)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%.200s': its shape is too large",
                                  tensor->name);
    return ZEST_OK;
}

static zest_status check(const zest_safetensors_source *tensor, zest_error *error) {
    const char *name = tensor->name;
    if (!name || !name[0] || strcmp(name, "__metadata__") == 0 || !zest_text_is_printable(name, strlen(name)))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a tensor to be written has no name, or one that is not allowed");
    if (!zest_dtype_size(tensor->dtype))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%.200s': unknown dtype", name);
    size_t size;
    zest_status status = tensor_size(tensor, &size, error);
    if (status) return status;
    if (size && !tensor->data && !tensor->fill)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%.200s': neither data nor fill", name);
    return ZEST_OK;
}

static int compare_sources(const void *left, const void *right) {
    const zest_safetensors_source *const *a = left, *const *b = right;
    if ((*a)->dtype != (*b)->dtype) return (*a)->dtype > (*b)->dtype ? -1 : 1;
    return strcmp((*a)->name, (*b)->name);
}

static int compare_names(const void *left, const void *right) {
    const zest_safetensors_source *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Checks all tensors; *sorted (to be freed) has them in the order of the file. */
static zest_status sort_tensors(const zest_safetensors_source *tensors, size_t count,
                                const zest_safetensors_source ***sorted, zest_error *error) {
    const zest_safetensors_source **list = malloc((count + 1) * sizeof *list);
    if (!list) return zest_error_memory(error, "a list of tensors", count * sizeof *list);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++) {
        list[i] = &tensors[i];
        status = check(&tensors[i], error);
    }
    if (!status) qsort(list, count, sizeof *list, compare_names);
    for (size_t i = 1; i < count && !status; i++)
        if (strcmp(list[i - 1]->name, list[i]->name) == 0)
            status =
                zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%.200s' appears twice", list[i]->name);
    if (!status) qsort(list, count, sizeof *list, compare_sources);
    if (status) free(list);
    *sorted = status ? NULL : list;
    return status;
}

/* {"dtype", "shape", "data_offsets"}; NULL: out of memory. */
static json_t *describe(const zest_safetensors_source *tensor, size_t open_temporary, size_t close_synced) {
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    int complete = json_array_size(shape) == tensor->rank;
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", zest_dtype_name(tensor->dtype), "shape", shape,
                              "data_offsets", (json_int_t)open_temporary, (json_int_t)close_synced);
    if (complete) return entry;
    json_decref(entry);
    return NULL;
}

/* The header with its length and padding, in *out. */
static zest_status make_header(const zest_safetensors_source *const *sorted, size_t count,
                               const char *const *metadata, zest_buffer *out, zest_error *error) {
    json_t *header = json_object(), *extra = json_pack("{s:s}", "format", "pt");
    int failed = 0;
    for (const char *const *pair = metadata; pair && pair[0]; pair += 2)
        failed |= json_object_set_new(extra, pair[0], json_string(pair[1]));
    failed |= json_object_set_new(header, "__metadata__", extra);
    size_t offset = 0, size = 0;
    for (size_t i = 0; i < count && !failed; i++, offset += size) {
        if (tensor_size(sorted[i], &size, error) || size > INT64_MAX - offset) {
            json_decref(header);
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "a model of more than 2^63 bytes cannot be written");
        }
        failed |= json_object_set_new(header, sorted[i]->name, describe(sorted[i], offset, offset + size));
    }
    char *text = failed ? NULL : zest_json_dump(header, JSON_COMPACT);
    json_decref(header);
    /* jansson rejects text that is not UTF-8, as the format does; the other reason is lack of memory. */
    if (!text)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "cannot create the header: a name is not UTF-8, or out of memory");
    uint64_t length = (strlen(text) + 7) / 8 * 8;
    zest_buffer_add(out, &length, sizeof length);
    zest_buffer_text(out, text);
    zest_buffer_add(out, "        ", (size_t)(length - strlen(text)));
    free(text);
    return out->failed ? zest_error_memory(error, "a header", (size_t)length) : ZEST_OK;
}

static zest_status write_tensor(int descriptor, const zest_safetensors_source *tensor, void *chunk,
                                const char *path, zest_error *error) {
    size_t size;
    zest_status status = tensor_size(tensor, &size, error);
    if (status || !size) return status;
    if (tensor->data) return zest_file_write_all(descriptor, tensor->data, size, path, error);
    size_t element = zest_dtype_size(tensor->dtype), count = size / element, step = CHUNK / element;
    for (size_t first = 0; first < count && !status; first += step) {
        size_t now = count - first < step ? count - first : step;
        status = tensor->fill(tensor->user, first, now, chunk, error);
        if (!status) status = zest_file_write_all(descriptor, chunk, now * element, path, error);
    }
    return status;
}

static zest_status write_body(int descriptor, const zest_safetensors_source *const *sorted, size_t count,
                              const char *const *metadata, const char *path, zest_error *error) {
    zest_buffer header = {0};
    void *chunk = malloc(CHUNK);
    zest_status status =
        chunk ? make_header(sorted, count, metadata, &header, error) : zest_error_memory(error, path, CHUNK);
    if (!status) status = zest_file_write_all(descriptor, header.data, header.size, path, error);
    for (size_t i = 0; i < count && !status; i++)
        status = write_tensor(descriptor, sorted[i], chunk, path, error);
    zest_buffer_free(&header);
    free(chunk);
    return status;
}

static void discard(pending *file) {
    if (file->temporary) unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (pending){0};
}

/* Opens the temporary file; *descriptor is -1 on error. */
static zest_status open_temporary(pending *file, const char *path, int *descriptor, zest_error *error) {
    *descriptor = -1;
    file->path = strdup(path);
    if (!file->path) return zest_error_memory(error, path, strlen(path));
    return zest_file_open_temporary(path, &file->temporary, descriptor, error);
}

/* Syncs and closes the file, whatever the status so far. */
static zest_status close_synced(int descriptor, const char *path, zest_status status, zest_error *error) {
    if (descriptor < 0) return status;
    if (!status && fsync(descriptor))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
    if (close(descriptor) && !status)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
    return status;
}

/* Writes the file under its temporary name. */
static zest_status prepare(pending *file, const zest_safetensors_source *tensors, size_t count,
                           const char *const *metadata, const char *path, zest_error *error) {
    const zest_safetensors_source **sorted;
    int descriptor;
    zest_status status = sort_tensors(tensors, count, &sorted, error);
    if (status) return status;
    status = open_temporary(file, path, &descriptor, error);
    if (!status) status = write_body(descriptor, sorted, count, metadata, path, error);
    free(sorted);
    return close_synced(descriptor, path, status, error);
}

static zest_status commit(pending *file, zest_error *error) {
    if (rename(file->temporary, file->path))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be replaced", file->path);
    free(file->temporary);
    file->temporary = NULL; /* so that discard does not delete the file */
    return ZEST_OK;
}

/* A rename is durable only once the folder itself is on disk. */
static void sync_folder(const char *folder) {
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

zest_status zest_safetensors_write(const char *path, const zest_safetensors_source *tensors, size_t count,
                                   const char *const *metadata, zest_error *error) {
    pending file = {0};
    zest_status status = prepare(&file, tensors, count, metadata, path, error);
    if (!status) status = commit(&file, error);
    discard(&file);
    char *folder = status ? NULL : strdup(path);
    if (folder) {
        char *slash = strrchr(folder, '/');
        if (slash) slash[slash == folder] = '\0';
        sync_folder(slash ? folder : ".");
    }
    free(folder);
    return status;
}

/* ---- Folders ---- */

/* The end of shard i in the list: as many tensors as fit, at least one. */
static size_t shard_end(const zest_safetensors_source *tensors, size_t count, size_t first, uint64_t limit) {
    uint64_t used = 0;
    size_t i = first, size;
    for (; i < count; i++) {
        if (tensor_size(&tensors[i], &size, NULL)) break; /* was checked before */
        if (limit && i > first && (size > limit || used > limit - size)) break;
        used += size;
    }
    return i > first ? i : count;
}

static size_t count_shards(const zest_safetensors_source *tensors, size_t count, uint64_t limit) {
    size_t shards = 0;
    for (size_t first = 0; first < count; shards++) first = shard_end(tensors, count, first, limit);
    return shards ? shards : 1;
}

static void shard_name(char *name, size_t capacity, size_t i, size_t shards) {
    if (shards == 1)
        snprintf(name, capacity, "model.safetensors");
    else
        snprintf(name, capacity, "model-%05zu-of-%05zu.safetensors", i + 1, shards);
}

/* The index as from_pretrained expects it: sorted, with the total size. NULL: out of memory. */
static char *make_index(const zest_safetensors_source *tensors, size_t count, uint64_t limit, size_t shards) {
    json_t *map = json_object();
    json_int_t total = 0;
    int failed = 0;
    char name[64];
    for (size_t i = 0, shard = 0, last = shard_end(tensors, count, 0, limit); i < count; i++) {
        size_t size = 0;
        if (i == last) {
            last = shard_end(tensors, count, i, limit);
            shard++;
        }
        tensor_size(&tensors[i], &size, NULL);
        total += (json_int_t)size;
        shard_name(name, sizeof name, shard, shards);
        failed |= json_object_set_new(map, tensors[i].name, json_string(name));
    }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
    char *text = failed ? NULL : zest_json_dump(index, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(index);
    return text;
}

/* files: the shards, then the index when there are several shards. Nothing is renamed yet. */
static zest_status prepare_folder(pending *files, size_t shards, const char *folder,
                                  const zest_safetensors_source *tensors, size_t count, uint64_t limit,
                                  zest_error *error) {
    zest_status status = ZEST_OK;
    char name[64];
    for (size_t i = 0, first = 0; i < shards && !status; i++) {
        shard_name(name, sizeof name, i, shards);
        char *path = zest_file_join(folder, name);
        if (!path) return zest_error_memory(error, folder, strlen(folder));
        size_t last = shard_end(tensors, count, first, limit);
        status = prepare(&files[i], tensors + first, last - first, NULL, path, error);
        first = last;
        free(path);
    }
    if (status || shards == 1) return status;
    char *path = zest_file_join(folder, INDEX_NAME), *text = make_index(tensors, count, limit, shards);
    int descriptor = -1;
    status = path && text ? open_temporary(&files[shards], path, &descriptor, error)
                          : zest_error_memory(error, INDEX_NAME, 0);
    if (!status) status = zest_file_write_all(descriptor, text, strlen(text), path, error);
    status = close_synced(descriptor, path, status, error);
    free(path);
    free(text);
    return status;
}

/* Matches "model-#####-of-#####.safetensors" and returns the total. Strict, since a match may delete the
 * file. */
static int is_shard(const char *name, size_t *of) {
    static const char pattern[] = "model-#####-of-#####.safetensors";
    if (strlen(name) != sizeof pattern - 1) return 0;
    for (size_t i = 0; pattern[i]; i++) {
        int digit = name[i] >= '0' && name[i] <= '9';
        if (pattern[i] == '#' ? !digit : name[i] != pattern[i]) return 0;
    }
    *of = strtoul(name + 15, NULL, 10);
    return 1;
}

/* Deletes files of an older model that would be taken for a part of the new one. model.safetensors comes
 * last: readers prefer it, so until then they read the old model. */
static void remove_stale(const char *folder, size_t shards) {
    DIR *listing = opendir(folder);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        size_t of;
        int old_shard = is_shard(entry->d_name, &of) && (shards == 1 || of != shards);
        int old_index = shards == 1 && strcmp(entry->d_name, INDEX_NAME) == 0;
        if (old_shard || old_index) unlinkat(dirfd(listing), entry->d_name, 0);
    }
    if (shards > 1) unlinkat(dirfd(listing), "model.safetensors", 0);
    closedir(listing);
}

zest_status zest_safetensors_write_folder(const char *folder, const zest_safetensors_source *tensors,
                                          size_t count, uint64_t shard_size, zest_error *error) {
    const zest_safetensors_source **sorted;
    zest_status status = sort_tensors(tensors, count, &sorted, error); /* names must differ over all shards */
    if (status) return status;
    free(sorted);
    size_t shards = count_shards(tensors, count, shard_size), total = shards == 1 ? 1 : shards + 1;
    if (shards > SHARD_LIMIT)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%s: %zu shards, more than the %d allowed: raise their size", folder, shards,
                              SHARD_LIMIT);
    pending *files = calloc(total, sizeof *files);
    if (!files) return zest_error_memory(error, folder, total * sizeof *files);
    zest_file_remove_temporaries(folder); /* of a model's size each */
    status = prepare_folder(files, shards, folder, tensors, count, shard_size, error);
    for (size_t i = 0; i < total && !status; i++) status = commit(&files[i], error);
    for (size_t i = 0; i < total; i++) discard(&files[i]);
    free(files);
    if (status) return status;
    sync_folder(folder);
    remove_stale(folder, shards);
    sync_folder(folder);
    return ZEST_OK;
}
