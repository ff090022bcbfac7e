/* The files of a model: where tensors come from (a folder of safetensors, a GGUF file, or random weights), and
 * saving. */
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "model/model_files.h"
#include "base/file.h"
#include "io/hub.h"
#include "base/json.h"
#include "model/model.h"
#include "io/safetensors.h"
#include "rng/noise.h"

enum { CONFIG_LIMIT = 16 << 20, CHUNK = 1 << 18 };

/* ---- Sources ---- */

static zest_status open_folder(const char *path, zest_model_source *source, zest_error *error) {
    source->config_path = zest_file_join(path, "config.json");
    if (!source->config_path) return zest_error_memory(error, path, strlen(path));
    zest_buffer text = {0};
    zest_status status = zest_file_read(source->config_path, CONFIG_LIMIT, &text, error);
    source->config_text = text.data;
    if (status) return status;
    status = zest_json_parse(text.data, text.size, source->config_path, &source->config_json, error);
    const zest_family *family;
    if (!status) status = zest_family_of(source->config_json, source->config_path, &family, error);
    if (status) return status;
    return zest_safetensors_open_folder(path, family->auto_class, &source->folder, error);
}

static zest_status open_gguf(const char *path, zest_model_source *source, zest_error *error) {
    source->config_path = strdup(path);
    if (!source->config_path) return zest_error_memory(error, path, strlen(path));
    zest_status status = zest_gguf_open(path, &source->gguf, error);
    if (!status) status = zest_gguf_configure(source, error);
    if (status) return status;
    source->config_text = zest_json_dump(source->config_json, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    return source->config_text ? ZEST_OK : zest_error_memory(error, path, 0);
}

zest_status zest_model_source_open(const char *path, zest_model_source *source, zest_error *error) {
    source->path = path;
    struct stat info;
    if (stat(path, &info)) return zest_hub_find_missing(path, error);
    return S_ISDIR(info.st_mode) ? open_folder(path, source, error) : open_gguf(path, source, error);
}

void zest_model_source_close(zest_model_source *source) {
    json_decref(source->config_json);
    free(source->config_path);
    free(source->config_text);
    zest_safetensors_close(source->folder);
    zest_gguf_close(source->gguf);
    *source = (zest_model_source){0};
}

static int find_safetensors(const zest_model_source *source, const char *name, zest_model_found *found) {
    const zest_safetensors_tensor *tensor = zest_safetensors_find(source->folder, name);
    if (!tensor) return 0;
    *found = (zest_model_found){.safetensors = tensor, .rank = tensor->rank, .dtype = tensor->dtype};
    for (size_t i = 0; i < tensor->rank && i < 2; i++) found->shape[i] = tensor->shape[i];
    if (found->dtype == ZEST_DTYPE_F64) found->dtype = ZEST_DTYPE_F32;
    return 1;
}

static int find_gguf(const zest_model_source *source, const char *name, zest_model_found *found) {
    char gguf_name[128];
    if (!zest_gguf_name_of(source->architecture, name, gguf_name, sizeof gguf_name)) return 0;
    const zest_gguf_tensor *tensor = zest_gguf_find_tensor(source->gguf, gguf_name);
    if (!tensor) return 0;
    *found = (zest_model_found){.gguf = tensor, .rank = tensor->rank, .dtype = ZEST_DTYPE_F32};
    found->transposed = tensor->rank == 2 && zest_gguf_is_transposed(name);
    for (size_t i = 0; i < tensor->rank && i < 2; i++)
        found->shape[found->transposed ? 1 - i : i] = tensor->shape[i];
    if (tensor->type == ZEST_GGUF_TYPE_F16) found->dtype = ZEST_DTYPE_F16;
    if (tensor->type == ZEST_GGUF_TYPE_BF16) found->dtype = ZEST_DTYPE_BF16;
    found->offset = zest_gguf_offset(source->architecture, name);
    found->rotary_heads = zest_gguf_rotary_heads(source->architecture, name, source->heads, source->kv_heads);
    return 1;
}

int zest_model_source_find(const zest_model_source *source, const char *name, zest_model_found *found) {
    return source->gguf ? find_gguf(source, name, found) : find_safetensors(source, name, found);
}

/* ---- Copies ---- */

/* Drops the pages of a file that are entirely within these bytes. They are read from the file again if needed. */
static void drop_pages(const void *bytes, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)bytes + page - 1) / page * page,
              end = ((uintptr_t)bytes + size) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Elements first .. first+count-1; floats: scratch for them. */
static zest_status copy_safetensors(const zest_safetensors_tensor *from, zest_dtype dtype, size_t first,
                                    size_t count, float *floats, void *out) {
    size_t from_size = zest_dtype_size(from->dtype), to_size = zest_dtype_size(dtype);
    const char *source = (const char *)from->data + first * from_size;
    char *target = (char *)out + first * to_size;
    zest_status status = ZEST_OK;
    if (from->dtype == dtype) {
        memcpy(target, source, count * from_size);
    } else {
        status = zest_dtype_to_float(from->dtype, source, count, floats);
        if (!status) status = zest_dtype_from_float(dtype, floats, count, target);
    }
    drop_pages(source, count * from_size);
    return status;
}

/* Rows of the file are columns of the matrix. */
static zest_status scatter_columns(const zest_gguf_tensor *from, zest_dtype dtype, size_t row, size_t rows,
                                   const float *floats, void *out) {
    size_t size = zest_dtype_size(dtype);
    zest_status status = ZEST_OK;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < from->columns && !status; i++)
            status = zest_dtype_from_float(dtype, floats + r * from->columns + i, 1,
                                           (char *)out + (i * from->rows + row + r) * size);
    return status;
}

static zest_status copy_gguf(const zest_model_found *found, zest_dtype dtype, size_t row, size_t rows,
                             float *floats, void *out, zest_error *error) {
    const zest_gguf_tensor *from = found->gguf;
    size_t columns =
        from->rank == 1 && found->rotary_heads ? 1 : from->columns; /* see zest_gguf_read_rotary */
    zest_status status = found->rotary_heads
                             ? zest_gguf_read_rotary(from, found->rotary_heads, row, rows, floats, error)
                             : zest_gguf_read(from, row, rows, floats, error);
    if (status) return status;
    for (size_t i = 0; found->offset != 0 && i < rows * columns; i++) floats[i] -= found->offset;
    /* Rotary rows are read out of order, but never from outside the head; dropped pages just come back. */
    if (from->rank == 2) drop_pages((const char *)from->data + row * from->row_size, rows * from->row_size);
    if (found->transposed) return scatter_columns(from, dtype, row, rows, floats, out);
    return zest_dtype_from_float(dtype, floats, rows * columns,
                                 (char *)out + row * columns * zest_dtype_size(dtype));
}

typedef struct {
    const zest_model_found *found;
    zest_dtype dtype;
    void *out;
    size_t units, step; /* elements of a safetensors tensor, rows of a GGUF one */
    size_t floats;      /* scratch of a step */
} copy_job;

static zest_status copy_step(const copy_job *job, int64_t i, float *floats, zest_error *error) {
    size_t first = (size_t)i * job->step, left = job->units - first,
           count = left < job->step ? left : job->step;
    if (job->found->safetensors)
        return copy_safetensors(job->found->safetensors, job->dtype, first, count, floats, job->out);
    return copy_gguf(job->found, job->dtype, first, count, floats, job->out, error);
}

static copy_job plan_copy(const zest_model_found *found, zest_dtype dtype, void *out) {
    copy_job job = {found, dtype, out, 0, CHUNK, CHUNK};
    if (found->safetensors) {
        job.units = found->safetensors->count;
        return job;
    }
    int rotary_vector = found->gguf->rank == 1 && found->rotary_heads; /* its elements are the rows */
    size_t columns = rotary_vector ? 1 : found->gguf->columns;
    job.units = rotary_vector ? found->gguf->columns : found->gguf->rows;
    job.step = columns < CHUNK ? CHUNK / columns : 1;
    if (rotary_vector) job.step = job.units;
    job.floats = job.step * columns;
    return job;
}

zest_status zest_model_source_copy(const zest_model_found *found, zest_dtype dtype, int threads, void *out,
                                   zest_error *error) {
    copy_job job = plan_copy(found, dtype, out);
    if (!job.units) return ZEST_OK;
    int64_t steps = (int64_t)((job.units + job.step - 1) / job.step);
    if (steps < threads) threads = (int)steps;
    float *floats = malloc((size_t)threads * job.floats * sizeof *floats);
    if (!floats)
        return zest_error_memory(error, "conversion of a tensor",
                                 (size_t)threads * job.floats * sizeof *floats);
    int64_t failed = -1; /* a step that failed */
#pragma omp parallel for schedule(static) num_threads(threads) reduction(max : failed)
    for (int64_t i = 0; i < steps; i++)
        if (copy_step(&job, i, floats + (size_t)omp_get_thread_num() * job.floats, NULL)) failed = i;
    zest_status status = ZEST_OK;
    if (failed >= 0 && found->safetensors)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "a tensor of type %s cannot become %s",
                                zest_dtype_name(found->safetensors->dtype), zest_dtype_name(dtype));
    else if (failed >= 0)
        status = copy_step(&job, failed, floats, error); /* once more, for its message */
    free(floats);
    return status;
}

zest_status zest_model_source_copy_blocks(const zest_model_found *found, void *out, zest_error *error) {
    const zest_gguf_tensor *from = found->gguf;
    zest_status status = zest_gguf_copy_rows(from, found->rotary_heads, out, error);
    if (!status) drop_pages(from->data, from->rows * from->row_size);
    return status;
}

/* ---- Rows in the order of heads ----
 *
 * A file has (heads, q k v, head_dim) rows, memory (q k v, heads, head_dim). A block is head_dim rows. */

/* The block in memory that is block b of the file. */
static size_t block_in_memory(const zest_model *model, size_t b) {
    return b % 3 * model->config.heads + b / 3;
}

static size_t block_elements(const zest_model *model, size_t i) {
    return (size_t)model->tensors[i].count / (3 * model->config.heads);
}

zest_status zest_model_group_heads(const zest_model *model, size_t i, zest_error *error) {
    const zest_tensor *tensor = &model->tensors[i];
    size_t block = block_elements(model, i) * zest_dtype_size(tensor->dtype),
           all = 3 * model->config.heads * block;
    char *file = malloc(all);
    if (!file) return zest_error_memory(error, tensor->name, all);
    memcpy(file, tensor->data, all);
    for (size_t b = 0; b < 3 * model->config.heads; b++)
        memcpy((char *)tensor->data + block_in_memory(model, b) * block, file + b * block, block);
    free(file);
    return ZEST_OK;
}

typedef struct {
    const zest_model *model;
    size_t i;
} by_heads_args;

/* Elements first .. first+count-1 as a file has them. */
static zest_status fill_by_heads(void *user, size_t first, size_t count, void *out, zest_error *error) {
    const by_heads_args *args = user;
    const zest_tensor *tensor = &args->model->tensors[args->i];
    size_t block = block_elements(args->model, args->i), size = zest_dtype_size(tensor->dtype);
    (void)error;
    for (size_t at = first, here; at < first + count; at += here) {
        size_t within = at % block, left = first + count - at;
        here = block - within < left ? block - within : left;
        size_t from = block_in_memory(args->model, at / block) * block + within;
        memcpy((char *)out + (at - first) * size, (const char *)tensor->data + from * size, here * size);
    }
    return ZEST_OK;
}

/* ---- Random weights ---- */

enum { SLICE = 4096 };

static int is_gain(const zest_tensor *tensor, const zest_model_tensor_shape *shape) {
    size_t length = strlen(tensor->name);
    return shape->rank == 1 && length > 7 && !strcmp(tensor->name + length - 7, ".weight");
}

static void randomize_slice(const zest_noise *noise, const zest_model_source *source,
                            const zest_tensor *tensor, const float *gain, int64_t slice) {
    float values[SLICE];
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    size_t count = left < SLICE ? (size_t)left : SLICE;
    noise->normal(values, source->seed, tensor->first + first, count);
    for (size_t i = 0; i < count; i++) values[i] = gain ? *gain : 0.02f * values[i];
    zest_dtype_from_float(tensor->dtype, values, count,
                          (char *)tensor->data + first * zest_dtype_size(tensor->dtype));
}

zest_status zest_model_source_randomize(const zest_model_source *source, const zest_tensor *tensor,
                                        const zest_model_tensor_shape *shape, float gain, int threads) {
    zest_cpu cpu = ZEST_CPU_PLAIN;
    (void)zest_cpu_detect(&cpu, NULL); /* an unknown ZEST_CPU is reported by what runs the model */
    const zest_noise *noise = zest_noise_for(cpu);
    const float *constant = is_gain(tensor, shape) ? &gain : NULL;
    int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t s = 0; s < slices; s++) randomize_slice(noise, source, tensor, constant, s);
    return ZEST_OK;
}

/* ---- Checkpoints without a language-model head ---- */

static int begins_with(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

/* Heads of transformers' other model classes, by the names of their tensors. */
static const struct {
    const char *start, *what;
} others[] = {
    {"classifier.", "a classification head"},
    {"score.", "a classification head"},
    {"qa_outputs.", "a question-answering head"},
};

static int is_language_head(const char *name) {
    return begins_with(name, "lm_head.") || begins_with(name, "cls.predictions.") ||
           begins_with(name, "embed_out.") || begins_with(name, "decoder.");
}

/* What the file has in place of the language-model head; NULL: it has that, or no head at all. */
static const char *other_head(const zest_safetensors *file, const char **tensor) {
    const char *found = NULL;
    for (size_t i = 0; i < zest_safetensors_count(file); i++) {
        const char *name = zest_safetensors_at(file, i)->name;
        if (is_language_head(name)) return NULL;
        for (size_t k = 0; k < sizeof others / sizeof *others && !found; k++)
            if (begins_with(name, others[k].start)) found = others[k].what, *tensor = name;
    }
    return found;
}

/* A text of config.json that may go into a message. */
static const char *printable(const json_t *text, const char *fallback) {
    const char *value = json_string_value(text);
    return value && *value && zest_text_is_printable(value, strlen(value)) ? value : fallback;
}

static const char *architecture(const zest_model_source *source) {
    return printable(json_array_get(json_object_get(source->config_json, "architectures"), 0),
                     "no architecture");
}

/* " (config.json names NAME)", where it says what the checkpoint was made from and that is no path; else "". */
static void name_base(const zest_model_source *source, char *out, size_t size) {
    const char *base = printable(json_object_get(source->config_json, "_name_or_path"), "");
    *out = '\0';
    if (*base && *base != '/' && *base != '.') snprintf(out, size, " (config.json names %.100s)", base);
}

zest_status zest_model_source_check_head(const zest_model_source *source, zest_error *error) {
    const char *tensor = "", *what = source->folder ? other_head(source->folder, &tensor) : NULL;
    char base[160];
    if (!what) return ZEST_OK;
    name_base(source, base, sizeof base);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: config.json names %.80s, and the weights have %s (tensor '%.80s') but no "
                          "language-model head. zest classifies by the language-model head's scores of label "
                          "words: use the pretrained language model that this one was fine-tuned from%s",
                          source->path, architecture(source), what, tensor, base);
}

zest_status zest_model_source_head_missing(const zest_model_source *source, const char *name,
                                           zest_error *error) {
    char base[160];
    name_base(source, base, sizeof base);
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: tensor '%s' is missing: these are the weights of a model without its "
        "language-model head (config.json names %.80s), as sentence-embedding models have them. "
        "zest needs that head: use the pretrained language model with it%s",
        source->path, name, architecture(source), base);
}

/* ---- Tensors that nothing uses ---- */

/* Buffers that some files have in their layers: they follow from the configuration. */
static int is_buffer(const zest_model_source *source, const char *name) {
    static const char *const safetensors[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                              ".attention.masked_bias", ".rotary_emb.inv_freq"};
    static const char *const gguf[] = {"rope_freqs.weight", ".attn_rot_embd.weight"};
    const char *const *ends = source->gguf ? gguf : safetensors;
    size_t count = source->gguf ? sizeof gguf / sizeof *gguf : sizeof safetensors / sizeof *safetensors;
    size_t length = strlen(name);
    for (size_t i = 0; i < count; i++) {
        size_t end = strlen(ends[i]);
        if (length >= end && !strcmp(name + length - end, ends[i])) return 1;
    }
    return 0;
}

/* The number of the layer that a tensor is of; -1: of none. */
static long layer_of(const zest_model_source *source, const zest_family_names *names, const char *name) {
    const char *start = source->gguf ? "blk." : names->layer;
    size_t prefix = source->gguf ? 0 : strlen(names->prefix);
    if (!begins_with(name, start)) start += prefix; /* as the bare model saves it */
    if (!begins_with(name, start)) return -1;
    const char *digits = name + strlen(start);
    char *end;
    if (*digits < '0' || *digits > '9') return -1;
    long layer = strtol(digits, &end, 10);
    return *end == '.' ? layer : -1;
}

static int compare_pointers(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const void *const *)a, y = (uintptr_t) * (const void *const *)b;
    return x < y ? -1 : x > y;
}

static zest_status refuse_unused(const zest_model_source *source, const char *name, long layer, size_t layers,
                                 zest_error *error) {
    const char *config = source->gguf ? "its metadata" : "config.json";
    if (layer >= 0 && (size_t)layer >= layers)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: tensor '%.100s' is of layer %ld, but %s has only the %zu layers from 0 on: "
            "the number of layers is not that of these weights",
            source->path, name, layer, config, layers);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: tensor '%.100s' is unknown, and without it the model would compute something "
                          "else: either %s is not that of these weights, or zest does not support the model",
                          source->path, name, config);
}

zest_status zest_model_source_check_unused(const zest_model_source *source, const zest_family_names *names,
                                           size_t layers, const zest_model_found *used, size_t count,
                                           zest_error *error) {
    if (source->random) return ZEST_OK;
    const void **sorted = malloc((count ? count : 1) * sizeof *sorted);
    if (!sorted) return zest_error_memory(error, source->path, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = source->gguf ? (const void *)used[i].gguf : (const void *)used[i].safetensors;
    qsort(sorted, count, sizeof *sorted, compare_pointers);
    zest_status status = ZEST_OK;
    size_t all = source->gguf ? zest_gguf_count(source->gguf) : zest_safetensors_count(source->folder);
    for (size_t i = 0; i < all && !status; i++) {
        const zest_gguf_tensor *gguf = source->gguf ? zest_gguf_at(source->gguf, i) : NULL;
        const zest_safetensors_tensor *other = gguf ? NULL : zest_safetensors_at(source->folder, i);
        const void *tensor = gguf ? (const void *)gguf : (const void *)other;
        const char *name = gguf ? gguf->name : other->name;
        if (bsearch(&tensor, sorted, count, sizeof *sorted, compare_pointers)) continue;
        long layer = layer_of(source, names, name);
        /* heads of other tasks and the like are left aside, as transformers does */
        if (layer < 0 && !gguf) continue;
        if (is_buffer(source, name) && layer < (long)layers) continue;
        status = refuse_unused(source, name, layer, layers, error);
    }
    free(sorted);
    return status;
}

/* ---- Saving ---- */

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
    "chat_template.jinja",
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
    by_heads_args *by_heads = calloc(count + 1, sizeof *by_heads);
    if (!sources || !by_heads) {
        free(sources);
        free(by_heads);
        return zest_error_memory(error, folder, count * sizeof *sources);
    }
    for (size_t i = 0; i < count; i++) {
        const zest_tensor *tensor = &model->tensors[i];
        sources[i] = (zest_safetensors_source){.name = tensor->name,
                                               .dtype = tensor->dtype,
                                               .rank = model->shapes[i].rank,
                                               .shape = model->shapes[i].shape,
                                               .data = tensor->data};
        if (!model->shapes[i].by_heads) continue;
        by_heads[i] = (by_heads_args){model, i};
        sources[i].data = NULL, sources[i].fill = fill_by_heads, sources[i].user = &by_heads[i];
    }
    if (model->head_bias_alias) { /* the head's bias is the last tensor */
        sources[count] = sources[count - 1];
        sources[count++].name = model->head_bias_alias;
    }
    zest_status status = zest_safetensors_write_folder(folder, sources, count, 0, error);
    free(sources);
    free(by_heads);
    return status;
}

zest_status zest_model_save(const zest_model *model, const char *folder, zest_error *error) {
    zest_status status = zest_model_refuse_quantized(model, "a model is saved", error);
    if (!status) status = zest_file_make_folder(folder, error);
    if (!status) status = copy_tokenizer(model, folder, error);
    if (!status) status = write_config(model, folder, error);
    if (!status) status = write_weights(model, folder, error);
    return status;
}
