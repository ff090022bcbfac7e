/* Writing of GGUF files: header, metadata, tensor descriptors, data; then reading back. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "io/gguf_write.h"
#include "io/tensor.h"

enum { VERSION = 3, ALIGNMENT = 32, PREAMBLE = 24, CHUNK = 1 << 20 /* elements */ };

/* ---- Metadata ---- */

static void add_u32(zest_buffer *out, uint32_t value) { zest_buffer_add(out, &value, sizeof value); }
static void add_u64(zest_buffer *out, uint64_t value) { zest_buffer_add(out, &value, sizeof value); }

static void add_text(zest_buffer *out, const char *text, size_t size) {
    add_u64(out, size);
    zest_buffer_add(out, text, size);
}

static void begin(zest_gguf_metadata *metadata, const char *key, zest_gguf_kind kind) {
    add_text(&metadata->bytes, key, strlen(key));
    add_u32(&metadata->bytes, (uint32_t)kind);
    metadata->count++;
}

static void begin_array(zest_gguf_metadata *metadata, const char *key, zest_gguf_kind kind, size_t count) {
    begin(metadata, key, ZEST_GGUF_ARRAY);
    add_u32(&metadata->bytes, (uint32_t)kind);
    add_u64(&metadata->bytes, count);
}

void zest_gguf_put_u32(zest_gguf_metadata *metadata, const char *key, uint32_t value) {
    begin(metadata, key, ZEST_GGUF_U32);
    add_u32(&metadata->bytes, value);
}

void zest_gguf_put_f32(zest_gguf_metadata *metadata, const char *key, float value) {
    begin(metadata, key, ZEST_GGUF_F32);
    zest_buffer_add(&metadata->bytes, &value, sizeof value);
}

void zest_gguf_put_bool(zest_gguf_metadata *metadata, const char *key, int value) {
    begin(metadata, key, ZEST_GGUF_BOOL);
    zest_buffer_add(&metadata->bytes, value ? "\1" : "\0", 1);
}

void zest_gguf_put_string(zest_gguf_metadata *metadata, const char *key, const char *text, size_t size) {
    begin(metadata, key, ZEST_GGUF_STRING);
    add_text(&metadata->bytes, text, size);
}

void zest_gguf_put_strings(zest_gguf_metadata *metadata, const char *key, const zest_gguf_text *texts,
                           size_t count) {
    begin_array(metadata, key, ZEST_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) add_text(&metadata->bytes, texts[i].data, texts[i].size);
}

void zest_gguf_put_i32s(zest_gguf_metadata *metadata, const char *key, const int32_t *values, size_t count) {
    begin_array(metadata, key, ZEST_GGUF_I32, count);
    zest_buffer_add(&metadata->bytes, values, count * sizeof *values);
}

void zest_gguf_put_f32s(zest_gguf_metadata *metadata, const char *key, const float *values, size_t count) {
    begin_array(metadata, key, ZEST_GGUF_F32, count);
    zest_buffer_add(&metadata->bytes, values, count * sizeof *values);
}

void zest_gguf_metadata_free(zest_gguf_metadata *metadata) { zest_buffer_free(&metadata->bytes); }

/* ---- Sizes ---- */

typedef struct {
    size_t rows, columns, row_size, size;
} layout;

static zest_status measure(const zest_gguf_source *tensor, layout *out, zest_error *error) {
    size_t elements = 1, bytes = 0, rows = 1;
    if (!tensor->name || !*tensor->name || !zest_text_is_printable(tensor->name, strlen(tensor->name)))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a tensor to be written has no printable name");
    if (!zest_gguf_can_quantize(tensor->type) ||
        !zest_gguf_block_size((uint32_t)tensor->type, &elements, &bytes))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%.200s': zest does not write type %s",
                              tensor->name, zest_gguf_type_name(tensor->type));
    int fits = tensor->rank >= 1 && tensor->rank <= 4;
    for (size_t i = 0; fits && i + 1 < tensor->rank; i++)
        fits = !__builtin_mul_overflow(rows, tensor->shape[i], &rows);
    if (fits) {
        out->rows = rows;
        out->columns = tensor->shape[tensor->rank - 1];
        fits = out->columns && out->columns % elements == 0 &&
               !__builtin_mul_overflow(out->columns / elements, bytes, &out->row_size) &&
               !__builtin_mul_overflow(out->row_size, rows, &out->size) && out->size <= INT64_MAX / 2;
    }
    return fits
               ? ZEST_OK
               : zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%.200s': its shape does not fit type %s",
                                tensor->name, zest_gguf_type_name(tensor->type));
}

static uint64_t padded(uint64_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Everything in front of the data. */
static zest_status make_header(const zest_gguf_metadata *metadata, const zest_gguf_source *tensors,
                               size_t count, zest_buffer *out, zest_error *error) {
    static const char zeros[ALIGNMENT] = {0};
    uint64_t offset = 0;
    zest_status status = ZEST_OK;
    zest_buffer_add(out, "GGUF", 4);
    add_u32(out, VERSION);
    add_u64(out, count);
    add_u64(out, metadata->count);
    zest_buffer_add(out, metadata->bytes.data ? metadata->bytes.data : "", metadata->bytes.size);
    for (size_t i = 0; i < count && !status; i++) {
        const zest_gguf_source *tensor = &tensors[i];
        layout size = {0};
        status = measure(tensor, &size, error);
        if (status) break;
        add_text(out, tensor->name, strlen(tensor->name));
        add_u32(out, (uint32_t)tensor->rank);
        for (size_t d = tensor->rank; d-- > 0;) add_u64(out, tensor->shape[d]); /* fastest first */
        add_u32(out, (uint32_t)tensor->type);
        add_u64(out, offset);
        offset += padded(size.size);
        if (offset > INT64_MAX)
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "the tensors have more than 2^63 bytes");
    }
    zest_buffer_add(out, zeros, (size_t)(padded(out->size) - out->size));
    return !status && out->failed ? zest_error_memory(error, "a GGUF header", out->size) : status;
}

/* ---- Data ---- */

/* Rows in flight: as floats, and as blocks or as read back. */
typedef struct {
    const zest_gguf_source *tensor;
    layout size;
    size_t step; /* rows at a time */
    float *floats;
    void *other;
} chunks;

typedef zest_status (*on_row)(const chunks *c, const float *values, size_t row, size_t i, void *user,
                              zest_error *error);

/* Fills and visits `rows` rows on several threads; a failure is repeated by itself, for its message. */
static zest_status each_row(const chunks *c, size_t first, size_t rows, int threads, on_row visit, void *user,
                            zest_error *error) {
    int64_t failed = INT64_MAX;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(min : failed)
    for (int64_t i = 0; i < (int64_t)rows; i++) {
        zest_error ignored = {0};
        float *values = c->floats + (size_t)i * c->size.columns;
        zest_status status = c->tensor->fill(c->tensor->user, first + (size_t)i, 1, values, &ignored);
        if (!status) status = visit(c, values, first + (size_t)i, (size_t)i, user, &ignored);
        if (status && i < failed) failed = i;
    }
    if (failed == INT64_MAX) return ZEST_OK;
    float *values = c->floats + (size_t)failed * c->size.columns;
    zest_status status = c->tensor->fill(c->tensor->user, first + (size_t)failed, 1, values, error);
    return status ? status : visit(c, values, first + (size_t)failed, (size_t)failed, user, error);
}

static zest_status begin_chunks(chunks *c, const zest_gguf_source *tensor, zest_error *error) {
    *c = (chunks){.tensor = tensor};
    zest_status status = measure(tensor, &c->size, error);
    if (status) return status;
    c->step = c->size.columns < CHUNK ? CHUNK / c->size.columns : 1;
    if (c->step > c->size.rows) c->step = c->size.rows ? c->size.rows : 1;
    size_t bytes = c->step * c->size.columns * sizeof *c->floats;
    c->floats = malloc(bytes);
    c->other = malloc(bytes); /* no type has larger rows than floats */
    return c->floats && c->other ? ZEST_OK : zest_error_memory(error, tensor->name, bytes);
}

static void end_chunks(chunks *c) {
    free(c->floats);
    free(c->other);
}

static zest_status convert_row(const chunks *c, const float *values, size_t row, size_t i, void *user,
                               zest_error *error) {
    (void)user;
    if (zest_gguf_quantize(c->tensor->type, values, c->size.columns, (char *)c->other + i * c->size.row_size))
        return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "tensor '%.200s', row %zu: a value is not finite, or too large for type %s; bf16 and f32 "
        "have the widest range",
        c->tensor->name, row, zest_gguf_type_name(c->tensor->type));
}

static zest_status write_tensor(int descriptor, const zest_gguf_source *tensor, int threads, const char *path,
                                zest_error *error) {
    static const char zeros[ALIGNMENT] = {0};
    chunks c;
    zest_status status = begin_chunks(&c, tensor, error);
    for (size_t row = 0; row < c.size.rows && !status; row += c.step) {
        size_t rows = c.size.rows - row < c.step ? c.size.rows - row : c.step;
        status = each_row(&c, row, rows, threads, convert_row, NULL, error);
        if (!status) status = zest_file_write_all(descriptor, c.other, rows * c.size.row_size, path, error);
    }
    if (!status)
        status =
            zest_file_write_all(descriptor, zeros, (size_t)(padded(c.size.size) - c.size.size), path, error);
    end_chunks(&c);
    return status;
}

static zest_status write_all(int descriptor, const zest_gguf_metadata *metadata,
                             const zest_gguf_source *tensors, size_t count, int threads, const char *path,
                             zest_error *error) {
    zest_buffer header = {0};
    zest_status status = make_header(metadata, tensors, count, &header, error);
    if (!status) status = zest_file_write_all(descriptor, header.data, header.size, path, error);
    zest_buffer_free(&header);
    for (size_t i = 0; i < count && !status; i++)
        status = write_tensor(descriptor, &tensors[i], threads, path, error);
    if (!status && fsync(descriptor))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", path);
    return status;
}

/* ---- Reading back ---- */

/* The error that rounding may make, relative to the tensor's norm. A bound for any values, far above what weights
 * have: what is beyond it was not written as it was meant. */
static double largest_error(zest_gguf_type type) {
    switch (type) {
    case ZEST_GGUF_TYPE_F32: return 0;
    case ZEST_GGUF_TYPE_F16:
    case ZEST_GGUF_TYPE_BF16: return 0x1p-8;
    case ZEST_GGUF_TYPE_Q8_0: return 0.03;
    case ZEST_GGUF_TYPE_Q6_K: return 0.15;
    case ZEST_GGUF_TYPE_Q5_0:
    case ZEST_GGUF_TYPE_Q5_1:
    case ZEST_GGUF_TYPE_Q5_K: return 0.25;
    case ZEST_GGUF_TYPE_Q2_K: return 0.9;
    default: return 0.5;
    }
}

static zest_status compare_row(const chunks *c, const float *values, size_t row, size_t i, void *user,
                               zest_error *error) {
    (void)values;
    return zest_gguf_read(user, row, 1, (float *)c->other + i * c->size.columns, error);
}

static zest_status compare_tensor(const zest_gguf_source *tensor, const zest_gguf_tensor *read, int threads,
                                  const char *path, zest_error *error) {
    chunks c;
    double squared_error = 0, squared_norm = 0;
    zest_status status = begin_chunks(&c, tensor, error);
    for (size_t row = 0; row < c.size.rows && !status; row += c.step) {
        size_t rows = c.size.rows - row < c.step ? c.size.rows - row : c.step;
        const float *got = c.other;
        status = each_row(&c, row, rows, threads, compare_row, (void *)(uintptr_t)read, error);
        for (size_t i = 0; i < rows * c.size.columns && !status; i++) {
            double difference = (double)got[i] - (double)c.floats[i];
            squared_error += difference * difference;
            squared_norm += (double)c.floats[i] * (double)c.floats[i];
        }
    }
    end_chunks(&c);
    double limit = largest_error(tensor->type);
    if (!status && !(squared_error <= limit * limit * squared_norm + 1e-20))
        status = zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: tensor '%.200s' reads back with a relative error of %g as %s, so it cannot be "
            "written; take a wider type",
            path, tensor->name, sqrt(squared_error / squared_norm), zest_gguf_type_name(tensor->type));
    return status;
}

static int same_shape(const zest_gguf_source *tensor, const zest_gguf_tensor *read) {
    return !strcmp(tensor->name, read->name) && tensor->type == read->type && tensor->rank == read->rank &&
           !memcmp(tensor->shape, read->shape, tensor->rank * sizeof *tensor->shape);
}

static zest_status compare_file(const char *temporary, const zest_gguf_metadata *metadata,
                                const zest_gguf_source *tensors, size_t count, int threads, const char *path,
                                zest_error *error) {
    zest_gguf *file = NULL;
    zest_mapped_file map = {0};
    zest_status status = zest_mapped_file_open(temporary, &map, error);
    if (!status) status = zest_gguf_open_memory(map.bytes, map.size, path, &file, error);
    if (!status &&
        (zest_gguf_count(file) != count || zest_gguf_key_count(file) != metadata->count ||
         map.size < PREAMBLE + metadata->bytes.size ||
         (metadata->bytes.size && memcmp(map.bytes + PREAMBLE, metadata->bytes.data, metadata->bytes.size))))
        status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                "%s: reads back with other metadata than were written", path);
    for (size_t i = 0; i < count && !status; i++) {
        const zest_gguf_tensor *read = zest_gguf_at(file, i);
        status = same_shape(&tensors[i], read)
                     ? compare_tensor(&tensors[i], read, threads, path, error)
                     : zest_error_set(error, ZEST_ERROR_FORMAT, "%s: tensor '%.200s' reads back as another",
                                      path, tensors[i].name);
    }
    zest_gguf_close(file);
    zest_mapped_file_close(&map);
    return status;
}

zest_status zest_gguf_write(const char *path, const zest_gguf_metadata *metadata,
                            const zest_gguf_source *tensors, size_t count, int threads, zest_error *error) {
    char *temporary = NULL;
    int descriptor = -1;
    if (metadata->bytes.failed) return zest_error_memory(error, "GGUF metadata", metadata->bytes.size);
    if (threads <= 0) threads = omp_get_max_threads();
    zest_file_remove_temporaries_of(path); /* of a model's size each */
    zest_status status = zest_file_open_temporary(path, &temporary, &descriptor, error);
    if (status) return status;
    status = write_all(descriptor, metadata, tensors, count, threads, path, error);
    if (!status) status = compare_file(temporary, metadata, tensors, count, threads, path, error);
    return zest_file_close_temporary(path, temporary, descriptor, status, error);
}
