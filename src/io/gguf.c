/* Reading of GGUF files: header, metadata values, tensor descriptors. The conversion of quantised tensors
 * is in gguf_dequantize.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/gguf.h"

#define ALIGNMENT_KEY "general.alignment"
#define MIN_KEY_SIZE 13    /* bytes: name length, kind, the smallest value */
#define MIN_TENSOR_SIZE 24 /* bytes: name length, rank, type, offset */

/* Read position. */
typedef struct {
    const unsigned char *bytes;
    size_t size, at;
    const char *path;
    zest_error *error;
} cursor_state;

struct zest_gguf_value {
    zest_gguf_kind kind; /* of the elements */
    int is_array;
    size_t count;
    const unsigned char *data;     /* numbers, or a single string (length first), in the file */
    const unsigned char **strings; /* an array of strings: pointers to each (length first) */
    zest_gguf_value *children;     /* an array of arrays */
};

typedef struct {
    char *key;
    zest_gguf_value value;
} entry;

struct zest_gguf {
    zest_mapped_file map; /* empty for open_memory */
    char *path;
    entry *entries; /* in the file's order */
    size_t entry_count;
    const entry **by_key; /* sorted */
    zest_gguf_tensor *tensors;
    size_t tensor_count;
    const zest_gguf_tensor **by_name;
};

static int compare_entries(const void *left, const void *right) {
    const entry *const *a = left, *const *b = right;
    return strcmp((*a)->key, (*b)->key);
}

static int compare_tensors(const void *left, const void *right) {
    const zest_gguf_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* ---- Metadata values ---- */

#define NESTING_LIMIT 4 /* levels of nested arrays; known files have at most two */

static const unsigned char kind_sizes[ZEST_GGUF_KINDS] = {
    [ZEST_GGUF_U8] = 1,
    [ZEST_GGUF_I8] = 1,
    [ZEST_GGUF_U16] = 2,
    [ZEST_GGUF_I16] = 2,
    [ZEST_GGUF_U32] = 4,
    [ZEST_GGUF_I32] = 4,
    [ZEST_GGUF_F32] = 4,
    [ZEST_GGUF_BOOL] = 1,
    /* strings and arrays have no fixed size: 0 */
    [ZEST_GGUF_U64] = 8,
    [ZEST_GGUF_I64] = 8,
    [ZEST_GGUF_F64] = 8,
};

/* Advances by `size` bytes; *bytes points at them. */
static zest_status take_bytes(cursor_state *cursor, size_t size, const unsigned char **bytes) {
    if (size > cursor->size - cursor->at)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: truncated or damaged at byte %zu of %zu",
                              cursor->path, cursor->at, cursor->size);
    *bytes = cursor->bytes + cursor->at;
    cursor->at += size;
    return ZEST_OK;
}

static zest_status take_u32(cursor_state *cursor, uint32_t *out) {
    const unsigned char *bytes = NULL;
    zest_status status = take_bytes(cursor, sizeof *out, &bytes);
    if (!status) memcpy(out, bytes, sizeof *out);
    return status;
}

static zest_status take_u64(cursor_state *cursor, uint64_t *out) {
    const unsigned char *bytes = NULL;
    zest_status status = take_bytes(cursor, sizeof *out, &bytes);
    if (!status) memcpy(out, bytes, sizeof *out);
    return status;
}

/* Advances past a string; *begin points at its length field. */
static zest_status take_string(cursor_state *cursor, const unsigned char **begin) {
    uint64_t length = 0;
    const unsigned char *text;
    size_t at = cursor->at;
    zest_status status = take_u64(cursor, &length);
    if (status) return status;
    if (length > cursor->size - cursor->at)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: a string of %" PRIu64 " bytes at byte %zu runs past the end", cursor->path,
                              length, at);
    *begin = cursor->bytes + at;
    return take_bytes(cursor, (size_t)length, &text);
}

static zest_status check_bools(cursor_state *cursor, const zest_gguf_value *value) {
    for (size_t i = 0; i < value->count; i++)
        if (value->data[i] > 1)
            return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                                  "%s: a boolean before byte %zu is neither 0 nor 1", cursor->path,
                                  cursor->at);
    return ZEST_OK;
}

static zest_status read_value(cursor_state *cursor, uint32_t kind, int depth, zest_gguf_value *value);

/* Each element occupies at least 8 (string) or 12 (array) bytes of the file, so a count that was checked
 * against the remaining bytes cannot make us allocate much more than the size of the file. */
static zest_status read_table(cursor_state *cursor, int depth, zest_gguf_value *value) {
    zest_status status = ZEST_OK;
    if (value->kind == ZEST_GGUF_STRING) {
        value->strings = malloc((value->count + 1) * sizeof *value->strings);
        if (!value->strings)
            return zest_error_memory(cursor->error, cursor->path, value->count * sizeof *value->strings);
        for (size_t i = 0; i < value->count && !status; i++) status = take_string(cursor, &value->strings[i]);
        return status;
    }
    value->children = calloc(value->count + 1, sizeof *value->children);
    if (!value->children)
        return zest_error_memory(cursor->error, cursor->path, value->count * sizeof *value->children);
    for (size_t i = 0; i < value->count && !status; i++)
        status = read_value(cursor, ZEST_GGUF_ARRAY, depth + 1, &value->children[i]);
    return status;
}

static zest_status read_array(cursor_state *cursor, int depth, zest_gguf_value *value) {
    uint32_t kind = 0;
    uint64_t count = 0;
    size_t at = cursor->at;
    zest_status status = take_u32(cursor, &kind);
    if (!status) status = take_u64(cursor, &count);
    if (status) return status;
    if (kind >= ZEST_GGUF_KINDS)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: an array of unknown kind %u at byte %zu",
                              cursor->path, kind, at);
    size_t min_size = kind_sizes[kind] ? kind_sizes[kind] : kind == ZEST_GGUF_STRING ? 8 : 12;
    if (count > (cursor->size - cursor->at) / min_size)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: an array of %" PRIu64 " elements at byte %zu runs past the end",
                              cursor->path, count, at);
    value->kind = (zest_gguf_kind)kind;
    value->is_array = 1;
    if (kind_sizes[kind]) {
        value->count = (size_t)count;
        return take_bytes(cursor, (size_t)count * kind_sizes[kind], &value->data);
    }
    if (depth >= NESTING_LIMIT)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: arrays nested too deep at byte %zu",
                              cursor->path, at);
    value->count = (size_t)count;
    return read_table(cursor, depth, value);
}

static zest_status read_value(cursor_state *cursor, uint32_t kind, int depth, zest_gguf_value *value) {
    *value = (zest_gguf_value){.count = 1};
    zest_status status;
    if (kind >= ZEST_GGUF_KINDS)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: a value of unknown kind %u before byte %zu", cursor->path, kind,
                              cursor->at);
    value->kind = (zest_gguf_kind)kind;
    if (kind == ZEST_GGUF_ARRAY) {
        value->count = 0; /* until the elements are allocated: clear walks them */
        status = read_array(cursor, depth, value);
    } else if (kind == ZEST_GGUF_STRING) {
        status = take_string(cursor, &value->data);
    } else {
        status = take_bytes(cursor, kind_sizes[kind], &value->data);
    }
    return !status && value->kind == ZEST_GGUF_BOOL ? check_bools(cursor, value) : status;
}

static void clear_value(zest_gguf_value *value) {
    for (size_t i = 0; value->children && i < value->count; i++) clear_value(&value->children[i]);
    free(value->children);
    free(value->strings);
    *value = (zest_gguf_value){0};
}

zest_gguf_kind zest_gguf_value_kind(const zest_gguf_value *value) { return value->kind; }
int zest_gguf_value_is_array(const zest_gguf_value *value) { return value->is_array; }
size_t zest_gguf_value_count(const zest_gguf_value *value) { return value->count; }

static int has(const zest_gguf_value *value, size_t i) { return value && i < value->count; }

/* An integer of any kind as 64 bits of two's complement; *negative tells how to interpret *bits. */
static int integer_bits(const zest_gguf_value *value, size_t i, uint64_t *bits, int *negative) {
    if (!has(value, i)) return 0;
    size_t size = kind_sizes[value->kind];
    uint64_t raw = 0;
    switch (value->kind) {
    case ZEST_GGUF_U8:
    case ZEST_GGUF_U16:
    case ZEST_GGUF_U32:
    case ZEST_GGUF_U64:
        memcpy(&raw, value->data + i * size, size);
        *negative = 0;
        break;
    case ZEST_GGUF_I8:
    case ZEST_GGUF_I16:
    case ZEST_GGUF_I32:
    case ZEST_GGUF_I64:
        memcpy(&raw, value->data + i * size, size);
        *negative = (int)(raw >> (8 * size - 1));
        if (*negative && size < 8) raw |= ~UINT64_C(0) << 8 * size;
        break;
    default: return 0;
    }
    *bits = raw;
    return 1;
}

int zest_gguf_value_u64(const zest_gguf_value *value, size_t i, uint64_t *out) {
    uint64_t bits;
    int negative;
    if (!integer_bits(value, i, &bits, &negative) || negative) return 0;
    *out = bits;
    return 1;
}

int zest_gguf_value_i64(const zest_gguf_value *value, size_t i, int64_t *out) {
    uint64_t bits;
    int negative;
    if (!integer_bits(value, i, &bits, &negative) || (!negative && bits > INT64_MAX)) return 0;
    memcpy(out, &bits, sizeof *out);
    return 1;
}

int zest_gguf_value_f64(const zest_gguf_value *value, size_t i, double *out) {
    uint64_t bits;
    int negative;
    if (integer_bits(value, i, &bits, &negative)) {
        int64_t number;
        memcpy(&number, &bits, sizeof number);
        *out = negative ? (double)number : (double)bits;
        return 1;
    }
    if (!has(value, i)) return 0;
    if (value->kind == ZEST_GGUF_F32) {
        float number;
        memcpy(&number, value->data + i * sizeof number, sizeof number);
        *out = (double)number;
        return 1;
    }
    if (value->kind != ZEST_GGUF_F64) return 0;
    memcpy(out, value->data + i * sizeof *out, sizeof *out);
    return 1;
}

int zest_gguf_value_bool(const zest_gguf_value *value, size_t i, int *out) {
    if (!has(value, i) || value->kind != ZEST_GGUF_BOOL) return 0;
    *out = value->data[i];
    return 1;
}

int zest_gguf_value_string(const zest_gguf_value *value, size_t i, const char **bytes, size_t *size) {
    if (!has(value, i) || value->kind != ZEST_GGUF_STRING) return 0;
    const unsigned char *begin = value->strings ? value->strings[i] : value->data;
    uint64_t length = 0;
    memcpy(&length, begin, sizeof length);
    *bytes = (const char *)begin + sizeof length;
    *size = (size_t)length;
    return 1;
}

const zest_gguf_value *zest_gguf_value_array(const zest_gguf_value *value, size_t i) {
    return has(value, i) && value->children ? &value->children[i] : NULL;
}

/* ---- Header and tensor descriptors ---- */

/* Reads a name as a NUL-terminated string, to be freed. what: "key" or "tensor". */
static zest_status read_name(cursor_state *cursor, const char *what, char **out) {
    const unsigned char *begin;
    uint64_t length;
    size_t at = cursor->at;
    zest_status status = take_string(cursor, &begin);
    if (status) return status;
    memcpy(&length, begin, sizeof length);
    const char *text = (const char *)begin + sizeof length;
    if (!zest_text_is_printable(text, (size_t)length))
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: the name of a %s at byte %zu contains a control character", cursor->path,
                              what, at);
    char *copy = malloc((size_t)length + 1);
    if (!copy) return zest_error_memory(cursor->error, cursor->path, (size_t)length + 1);
    memcpy(copy, text, (size_t)length);
    copy[length] = '\0';
    *out = copy;
    return ZEST_OK;
}

static zest_status read_preamble(cursor_state *cursor, uint64_t *tensors, uint64_t *keys) {
    const unsigned char *magic;
    uint32_t version = 0;
    if (cursor->size < 4 || memcmp(cursor->bytes, "GGUF", 4) != 0)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: not a GGUF file", cursor->path);
    zest_status status = take_bytes(cursor, 4, &magic);
    if (!status) status = take_u32(cursor, &version);
    if (status) return status;
    if (version && (version & 0xffff) == 0)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: a big-endian GGUF file, which zest does not read", cursor->path);
    if (version != 2 && version != 3)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: GGUF version %u; zest reads versions 2 and 3", cursor->path, version);
    status = take_u64(cursor, tensors);
    if (!status) status = take_u64(cursor, keys);
    if (status) return status;
    size_t left = cursor->size - cursor->at;
    if (*keys > left / MIN_KEY_SIZE || *tensors > left / MIN_TENSOR_SIZE)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: truncated or damaged: %" PRIu64 " keys and %" PRIu64
                              " tensors in %zu bytes",
                              cursor->path, *keys, *tensors, left);
    return ZEST_OK;
}

static zest_status read_entries(zest_gguf *file, cursor_state *cursor, size_t count) {
    zest_status status = ZEST_OK;
    file->entries = calloc(count + 1, sizeof *file->entries);
    file->by_key = malloc((count + 1) * sizeof *file->by_key);
    if (!file->entries || !file->by_key)
        return zest_error_memory(cursor->error, cursor->path, count * sizeof *file->entries);
    for (size_t i = 0; i < count && !status; i++) {
        entry *next = &file->entries[i];
        uint32_t kind = 0;
        file->by_key[i] = next;
        status = read_name(cursor, "key", &next->key);
        if (status) break;
        file->entry_count++;
        status = take_u32(cursor, &kind);
        if (!status) status = read_value(cursor, kind, 0, &next->value);
    }
    if (status) return status;
    qsort(file->by_key, count, sizeof *file->by_key, compare_entries);
    for (size_t i = 1; i < count; i++)
        if (strcmp(file->by_key[i - 1]->key, file->by_key[i]->key) == 0)
            return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: key '%.200s' appears twice",
                                  cursor->path, file->by_key[i]->key);
    return ZEST_OK;
}

/* The file stores the fastest dimension first; shape has the slowest first. */
static zest_status read_shape(cursor_state *cursor, zest_gguf_tensor *tensor) {
    uint32_t rank = 0;
    zest_status status = take_u32(cursor, &rank);
    if (status) return status;
    if (rank > 4)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: tensor '%.200s': %u dimensions, more than 4", cursor->path, tensor->name,
                              rank);
    tensor->rank = rank;
    for (size_t i = rank; i-- > 0;) {
        uint64_t dimension = 0;
        status = take_u64(cursor, &dimension);
        if (status) return status;
        if (dimension > SIZE_MAX)
            return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: tensor '%.200s': too large",
                                  cursor->path, tensor->name);
        tensor->shape[i] = (size_t)dimension;
    }
    tensor->columns = rank ? tensor->shape[rank - 1] : 1;
    tensor->rows = 1;
    for (size_t i = 0; i + 1 < rank; i++)
        if (__builtin_mul_overflow(tensor->rows, tensor->shape[i], &tensor->rows))
            return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                                  "%s: tensor '%.200s': its shape is too large: the product overflows",
                                  cursor->path, tensor->name);
    return ZEST_OK;
}

static zest_status read_layout(cursor_state *cursor, zest_gguf_tensor *tensor) {
    uint32_t type = 0;
    uint64_t offset = 0;
    size_t elements, bytes, size;
    zest_status status = take_u32(cursor, &type);
    if (!status) status = take_u64(cursor, &offset);
    if (status) return status;
    if (!zest_gguf_block_size(type, &elements, &bytes))
        return zest_error_set(
            cursor->error, ZEST_ERROR_FORMAT,
            "%s: tensor '%.200s' is of type %u (%s), which zest does not read; it reads F32, F16, BF16, "
            "F64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K",
            cursor->path, tensor->name, type, zest_gguf_type_name((zest_gguf_type)type));
    tensor->type = (zest_gguf_type)type;
    if (tensor->columns % elements)
        return zest_error_set(
            cursor->error, ZEST_ERROR_FORMAT,
            "%s: tensor '%.200s': rows of %zu elements are not a multiple of the block size of %s",
            cursor->path, tensor->name, tensor->columns, zest_gguf_type_name(tensor->type));
    if (offset > SIZE_MAX || __builtin_mul_overflow(tensor->columns / elements, bytes, &tensor->row_size) ||
        __builtin_mul_overflow(tensor->row_size, tensor->rows, &size))
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: tensor '%.200s': its shape is too large: the size in bytes overflows",
                              cursor->path, tensor->name);
    tensor->offset = (size_t)offset;
    return ZEST_OK;
}

static zest_status read_tensors(zest_gguf *file, cursor_state *cursor, size_t count) {
    zest_status status = ZEST_OK;
    file->tensors = calloc(count + 1, sizeof *file->tensors);
    file->by_name = malloc((count + 1) * sizeof *file->by_name);
    if (!file->tensors || !file->by_name)
        return zest_error_memory(cursor->error, cursor->path, count * sizeof *file->tensors);
    for (size_t i = 0; i < count && !status; i++) {
        zest_gguf_tensor *tensor = &file->tensors[i];
        char *name;
        file->by_name[i] = tensor;
        status = read_name(cursor, "tensor", &name);
        if (status) break;
        tensor->name = name;
        file->tensor_count++;
        status = read_shape(cursor, tensor);
        if (!status) status = read_layout(cursor, tensor);
    }
    if (status) return status;
    qsort(file->by_name, count, sizeof *file->by_name, compare_tensors);
    for (size_t i = 1; i < count; i++)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: tensor '%.200s' appears twice",
                                  cursor->path, file->by_name[i]->name);
    return ZEST_OK;
}

static zest_status find_alignment(const zest_gguf *file, cursor_state *cursor, size_t *alignment) {
    const zest_gguf_value *value = zest_gguf_find(file, ALIGNMENT_KEY);
    uint64_t number = 32;
    if (value && (zest_gguf_value_is_array(value) || zest_gguf_value_kind(value) != ZEST_GGUF_U32 ||
                  !zest_gguf_value_u64(value, 0, &number) || !number || (number & (number - 1))))
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: " ALIGNMENT_KEY " is not a power of two",
                              cursor->path);
    *alignment = (size_t)number;
    return ZEST_OK;
}

static int compare_offsets(const void *left, const void *right) {
    const zest_gguf_tensor *a = *(const zest_gguf_tensor *const *)left,
                           *b = *(const zest_gguf_tensor *const *)right;
    size_t x = a->row_size * a->rows, y = b->row_size * b->rows;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return x < y ? -1 : x > y; /* empty tensors before the one that starts at the same offset */
}

static zest_status check_overlaps(const zest_gguf *file, cursor_state *cursor) {
    size_t count = file->tensor_count, end = 0;
    const zest_gguf_tensor **list = malloc((count + 1) * sizeof *list);
    if (!list) return zest_error_memory(cursor->error, cursor->path, count * sizeof *list);
    for (size_t i = 0; i < count; i++) list[i] = &file->tensors[i];
    qsort(list, count, sizeof *list, compare_offsets);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (list[i]->offset < end)
            status =
                zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                               "%s: tensor '%.200s' overlaps another tensor", cursor->path, list[i]->name);
        end = list[i]->offset + list[i]->row_size * list[i]->rows;
    }
    free(list);
    return status;
}

/* The data section starts at the next multiple of the alignment; each tensor must lie inside it. */
static zest_status assign_data(zest_gguf *file, cursor_state *cursor) {
    size_t alignment = 0;
    zest_status status = find_alignment(file, cursor, &alignment);
    if (status) return status;
    size_t padding = (alignment - cursor->at % alignment) % alignment, left = cursor->size - cursor->at;
    size_t available = left > padding ? left - padding : 0;
    const unsigned char *data = cursor->bytes + (available ? cursor->at + padding : cursor->size);
    for (size_t i = 0; i < file->tensor_count; i++) {
        zest_gguf_tensor *tensor = &file->tensors[i];
        size_t size = tensor->row_size * tensor->rows;
        if (tensor->offset % alignment)
            return zest_error_set(
                cursor->error, ZEST_ERROR_FORMAT,
                "%s: tensor '%.200s': its offset %zu is not a multiple of the alignment %zu", cursor->path,
                tensor->name, tensor->offset, alignment);
        if (tensor->offset > available || size > available - tensor->offset)
            return zest_error_set(
                cursor->error, ZEST_ERROR_FORMAT,
                "%s: tensor '%.200s': %zu bytes at %zu of the data, which has only %zu (file truncated?)",
                cursor->path, tensor->name, size, tensor->offset, available);
        tensor->data = data + tensor->offset;
    }
    return check_overlaps(file, cursor);
}

static zest_status read_bytes(zest_gguf *file, const unsigned char *bytes, size_t size, zest_error *error) {
    cursor_state cursor = {.bytes = bytes, .size = size, .path = file->path, .error = error};
    uint64_t tensors = 0, keys = 0;
    zest_status status = read_preamble(&cursor, &tensors, &keys);
    if (!status) status = read_entries(file, &cursor, (size_t)keys);
    if (!status) status = read_tensors(file, &cursor, (size_t)tensors);
    return status ? status : assign_data(file, &cursor);
}

static zest_gguf *create(const char *path, zest_error *error) {
    zest_gguf *file = calloc(1, sizeof *file);
    if (file) file->path = strdup(path);
    if (file && file->path) return file;
    zest_gguf_close(file);
    zest_error_memory(error, path, sizeof *file);
    return NULL;
}

static zest_status finish(zest_gguf *file, zest_status status, zest_gguf **out) {
    if (status) {
        zest_gguf_close(file);
        file = NULL;
    }
    *out = file;
    return status;
}

zest_status zest_gguf_open_memory(const void *bytes, size_t size, const char *name, zest_gguf **file,
                                  zest_error *error) {
    *file = NULL;
    zest_gguf *opened = create(name, error);
    if (!opened) return ZEST_ERROR_MEMORY;
    return finish(opened, read_bytes(opened, bytes, size, error), file);
}

zest_status zest_gguf_open(const char *path, zest_gguf **file, zest_error *error) {
    *file = NULL;
    zest_gguf *opened = create(path, error);
    if (!opened) return ZEST_ERROR_MEMORY;
    zest_status status = zest_mapped_file_open(path, &opened->map, error);
    if (!status) status = read_bytes(opened, opened->map.bytes, opened->map.size, error);
    return finish(opened, status, file);
}

void zest_gguf_close(zest_gguf *file) {
    if (!file) return;
    for (size_t i = 0; i < file->entry_count; i++) {
        free(file->entries[i].key);
        clear_value(&file->entries[i].value);
    }
    for (size_t i = 0; i < file->tensor_count; i++) free((char *)(uintptr_t)file->tensors[i].name);
    zest_mapped_file_close(&file->map);
    free(file->entries);
    free(file->by_key);
    free(file->tensors);
    free(file->by_name);
    free(file->path);
    free(file);
}

/* ---- Lookup by key and by tensor name ---- */

size_t zest_gguf_key_count(const zest_gguf *file) { return file->entry_count; }

const char *zest_gguf_key_at(const zest_gguf *file, size_t i) {
    return i < file->entry_count ? file->entries[i].key : NULL;
}

const zest_gguf_value *zest_gguf_find(const zest_gguf *file, const char *key) {
    entry key_entry = {.key = (char *)(uintptr_t)key};
    const entry *pointer = &key_entry;
    const entry **found =
        bsearch(&pointer, file->by_key, file->entry_count, sizeof *file->by_key, compare_entries);
    return found ? &(*found)->value : NULL;
}

size_t zest_gguf_count(const zest_gguf *file) { return file->tensor_count; }

size_t zest_gguf_header_size(const zest_gguf *file) {
    if (!file->tensor_count) return file->map.size;
    const unsigned char *first = file->tensors[0].data;
    return (size_t)(first - file->map.bytes) - file->tensors[0].offset;
}

const zest_gguf_tensor *zest_gguf_at(const zest_gguf *file, size_t i) {
    return i < file->tensor_count ? &file->tensors[i] : NULL;
}

const zest_gguf_tensor *zest_gguf_find_tensor(const zest_gguf *file, const char *name) {
    zest_gguf_tensor key_entry = {.name = name};
    const zest_gguf_tensor *pointer = &key_entry;
    const zest_gguf_tensor **found =
        bsearch(&pointer, file->by_name, file->tensor_count, sizeof *file->by_name, compare_tensors);
    return found ? *found : NULL;
}

/* The error for a key that is missing or has another type. */
static zest_status missing(const zest_gguf *file, const char *key, const char *key_entry, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: key '%s' %s", file->path, key,
                          zest_gguf_find(file, key) ? key_entry : "is missing");
}

/* The value of a key that must be a scalar; NULL for arrays, too. */
static const zest_gguf_value *scalar(const zest_gguf *file, const char *key) {
    const zest_gguf_value *value = zest_gguf_find(file, key);
    return value && !zest_gguf_value_is_array(value) ? value : NULL;
}

zest_status zest_gguf_get_u64(const zest_gguf *file, const char *key, uint64_t *out, zest_error *error) {
    if (zest_gguf_value_u64(scalar(file, key), 0, out)) return ZEST_OK;
    return missing(file, key, "is not an integer", error);
}

zest_status zest_gguf_get_f64(const zest_gguf *file, const char *key, double *out, zest_error *error) {
    if (zest_gguf_value_f64(scalar(file, key), 0, out)) return ZEST_OK;
    return missing(file, key, "is not a number", error);
}

zest_status zest_gguf_get_bool(const zest_gguf *file, const char *key, int *out, zest_error *error) {
    if (zest_gguf_value_bool(scalar(file, key), 0, out)) return ZEST_OK;
    return missing(file, key, "is not a boolean", error);
}

zest_status zest_gguf_get_string(const zest_gguf *file, const char *key, const char **bytes, size_t *size,
                                 zest_error *error) {
    if (zest_gguf_value_string(scalar(file, key), 0, bytes, size)) return ZEST_OK;
    return missing(file, key, "is not a string", error);
}

zest_status zest_gguf_get_array(const zest_gguf *file, const char *key, zest_gguf_kind kind,
                                const zest_gguf_value **out, zest_error *error) {
    const zest_gguf_value *value = zest_gguf_find(file, key);
    if (!value || !zest_gguf_value_is_array(value) || zest_gguf_value_kind(value) != kind)
        return missing(file, key, "is not an array of the expected type", error);
    *out = value;
    return ZEST_OK;
}
