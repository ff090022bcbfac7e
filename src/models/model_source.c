#include "models/model_source.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/hub.h"
#include "base/json.h"
#include "models/family.h"

enum { CONFIG_LIMIT = 16 << 20, CHUNK = 1 << 18 };

static zest_status open_folder(const char *path, zest_model_source *source, zest_error *error) {
    source->config_path = zest_file_join(path, "config.json");
    if (!source->config_path) return zest_error_memory(error, path, strlen(path));
    zest_buffer text = {0};
    zest_status status = zest_file_read(source->config_path, CONFIG_LIMIT, &text, error);
    source->config_text = text.data;
    if (status) return status;
    status = zest_json_parse(text.data, text.size, source->config_path, &source->config, error);
    const zest_family *family;
    if (!status) status = zest_family_of(source->config, source->config_path, &family, error);
    if (status) return status;
    return zest_safetensors_open_folder(path, family->auto_class, &source->folder, error);
}

static zest_status open_gguf(const char *path, zest_model_source *source, zest_error *error) {
    source->config_path = strdup(path);
    if (!source->config_path) return zest_error_memory(error, path, strlen(path));
    zest_status status = zest_gguf_open(path, &source->gguf, error);
    if (!status) status = zest_model_gguf_configure(source, error);
    if (status) return status;
    source->config_text = zest_json_dump(source->config, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    return source->config_text ? ZEST_OK : zest_error_memory(error, path, 0);
}

zest_status zest_model_source_open(const char *path, zest_model_source *source, zest_error *error) {
    source->path = path;
    struct stat info;
    if (stat(path, &info)) return zest_hub_find_missing(path, error);
    return S_ISDIR(info.st_mode) ? open_folder(path, source, error) : open_gguf(path, source, error);
}

void zest_model_source_close(zest_model_source *source) {
    json_decref(source->config);
    free(source->config_path);
    free(source->config_text);
    zest_safetensors_close(source->folder);
    zest_gguf_close(source->gguf);
    *source = (zest_model_source){0};
}

static int find_plain(const zest_model_source *source, const char *name, zest_model_found *found) {
    const zest_safetensors_tensor *tensor = zest_safetensors_find(source->folder, name);
    if (!tensor) return 0;
    *found = (zest_model_found){.plain = tensor, .rank = tensor->rank, .dtype = tensor->dtype};
    for (size_t i = 0; i < tensor->rank && i < 2; i++) found->shape[i] = tensor->shape[i];
    if (found->dtype == ZEST_DTYPE_F64) found->dtype = ZEST_DTYPE_F32;
    return 1;
}

static int find_gguf(const zest_model_source *source, const char *name, zest_model_found *found) {
    char room[128];
    if (!zest_model_gguf_name(name, room, sizeof room)) return 0;
    const zest_gguf_tensor *tensor = zest_gguf_find_tensor(source->gguf, room);
    if (!tensor) return 0;
    *found = (zest_model_found){.gguf = tensor, .rank = tensor->rank, .dtype = ZEST_DTYPE_F32};
    for (size_t i = 0; i < tensor->rank && i < 2; i++) found->shape[i] = tensor->shape[i];
    if (tensor->type == ZEST_GGUF_TYPE_F16) found->dtype = ZEST_DTYPE_F16;
    if (tensor->type == ZEST_GGUF_TYPE_BF16) found->dtype = ZEST_DTYPE_BF16;
    if (source->interleaved && strstr(name, ".q_proj.")) found->rotary_heads = source->heads;
    if (source->interleaved && strstr(name, ".k_proj.")) found->rotary_heads = source->kv_heads;
    return 1;
}

int zest_model_source_find(const zest_model_source *source, const char *name, zest_model_found *found) {
    return source->gguf ? find_gguf(source, name, found) : find_plain(source, name, found);
}

/* The pages of a file that lie wholly within these bytes. They come back from the file if they are read
 * again. */
static void let_go(const void *bytes, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)bytes + page - 1) / page * page,
              end = ((uintptr_t)bytes + size) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Elements first .. first+count-1; room is for floats on the way. */
static zest_status copy_plain(const zest_safetensors_tensor *from, zest_dtype dtype, size_t first,
                              size_t count, float *room, void *out) {
    size_t wide = zest_dtype_size(from->dtype), narrow = zest_dtype_size(dtype);
    const char *source = (const char *)from->data + first * wide;
    char *target = (char *)out + first * narrow;
    zest_status status = ZEST_OK;
    if (from->dtype == dtype) {
        memcpy(target, source, count * wide);
    } else {
        status = zest_dtype_to_float(from->dtype, source, count, room);
        if (!status) status = zest_dtype_from_float(dtype, room, count, target);
    }
    let_go(source, count * wide);
    return status;
}

static zest_status copy_gguf(const zest_model_found *found, zest_dtype dtype, size_t row, size_t rows,
                             float *room, void *out, zest_error *error) {
    const zest_gguf_tensor *from = found->gguf;
    size_t columns =
        from->rank == 1 && found->rotary_heads ? 1 : from->columns; /* see zest_gguf_read_rotary */
    zest_status status = found->rotary_heads
                             ? zest_gguf_read_rotary(from, found->rotary_heads, row, rows, room, error)
                             : zest_gguf_read(from, row, rows, room, error);
    if (status) return status;
    /* Rotary rows are read out of order, but never from outside the head; dropped pages just come back. */
    if (from->rank == 2) let_go((const char *)from->data + row * from->row_size, rows * from->row_size);
    return zest_dtype_from_float(dtype, room, rows * columns,
                                 (char *)out + row * columns * zest_dtype_size(dtype));
}

typedef struct {
    const zest_model_found *found;
    zest_dtype dtype;
    void *out;
    size_t units, step; /* elements of a plain tensor, rows of a GGUF one */
    size_t room;        /* floats that a step needs */
} copying;

static zest_status copy_step(const copying *job, int64_t i, float *room, zest_error *error) {
    size_t first = (size_t)i * job->step, left = job->units - first,
           count = left < job->step ? left : job->step;
    if (job->found->plain) return copy_plain(job->found->plain, job->dtype, first, count, room, job->out);
    return copy_gguf(job->found, job->dtype, first, count, room, job->out, error);
}

static copying plan(const zest_model_found *found, zest_dtype dtype, void *out) {
    copying job = {found, dtype, out, 0, CHUNK, CHUNK};
    if (found->plain) {
        job.units = found->plain->count;
        return job;
    }
    int loose = found->gguf->rank == 1 && found->rotary_heads; /* then the elements are the rows */
    size_t columns = loose ? 1 : found->gguf->columns;
    job.units = loose ? found->gguf->columns : found->gguf->rows;
    job.step = columns < CHUNK ? CHUNK / columns : 1;
    if (loose) job.step = job.units;
    job.room = job.step * columns;
    return job;
}

zest_status zest_model_source_copy(const zest_model_found *found, zest_dtype dtype, int threads, void *out,
                                   zest_error *error) {
    copying job = plan(found, dtype, out);
    if (!job.units) return ZEST_OK;
    int64_t steps = (int64_t)((job.units + job.step - 1) / job.step);
    if (steps < threads) threads = (int)steps;
    float *room = malloc((size_t)threads * job.room * sizeof *room);
    if (!room)
        return zest_error_memory(error, "conversion of a tensor", (size_t)threads * job.room * sizeof *room);
    int64_t failed = -1; /* a step that failed */
#pragma omp parallel for schedule(static) num_threads(threads) reduction(max : failed)
    for (int64_t i = 0; i < steps; i++)
        if (copy_step(&job, i, room + (size_t)omp_get_thread_num() * job.room, NULL)) failed = i;
    zest_status status = ZEST_OK;
    if (failed >= 0 && found->plain)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "a tensor of type %s cannot become %s",
                                zest_dtype_name(found->plain->dtype), zest_dtype_name(dtype));
    else if (failed >= 0)
        status = copy_step(&job, failed, room, error); /* once more, for its message */
    free(room);
    return status;
}
