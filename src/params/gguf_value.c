/* Metadata values of GGUF: reading and looking at them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "params/gguf_internal.h"

#define NESTING_LIMIT 4 /* arrays within arrays; nothing known goes beyond two */

static const unsigned char kind_sizes[ZEST_GGUF_KINDS] = {
    [ZEST_GGUF_U8] = 1,  [ZEST_GGUF_I8] = 1,  [ZEST_GGUF_U16] = 2, [ZEST_GGUF_I16] = 2,
    [ZEST_GGUF_U32] = 4, [ZEST_GGUF_I32] = 4, [ZEST_GGUF_F32] = 4, [ZEST_GGUF_BOOL] = 1,
    [ZEST_GGUF_U64] = 8, [ZEST_GGUF_I64] = 8, [ZEST_GGUF_F64] = 8, /* strings and arrays: 0, no fixed size */
};

/* ---- Reading ---- */

zest_status zest_gguf_value_take(zest_gguf_cursor *cursor, size_t size, const unsigned char **bytes) {
    if (size > cursor->size - cursor->at)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: cut short or damaged at byte %zu of %zu",
                              cursor->path, cursor->at, cursor->size);
    *bytes = cursor->bytes + cursor->at;
    cursor->at += size;
    return ZEST_OK;
}

zest_status zest_gguf_value_take_u32(zest_gguf_cursor *cursor, uint32_t *out) {
    const unsigned char *bytes = NULL;
    zest_status status = zest_gguf_value_take(cursor, sizeof *out, &bytes);
    if (!status) memcpy(out, bytes, sizeof *out);
    return status;
}

zest_status zest_gguf_value_take_u64(zest_gguf_cursor *cursor, uint64_t *out) {
    const unsigned char *bytes = NULL;
    zest_status status = zest_gguf_value_take(cursor, sizeof *out, &bytes);
    if (!status) memcpy(out, bytes, sizeof *out);
    return status;
}

zest_status zest_gguf_value_take_string(zest_gguf_cursor *cursor, const unsigned char **begin) {
    uint64_t length = 0;
    const unsigned char *text;
    size_t at = cursor->at;
    zest_status status = zest_gguf_value_take_u64(cursor, &length);
    if (status) return status;
    if (length > cursor->size - cursor->at)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: a string of %" PRIu64 " bytes at byte %zu runs past the end", cursor->path,
                              length, at);
    *begin = cursor->bytes + at;
    return zest_gguf_value_take(cursor, (size_t)length, &text);
}

static zest_status check_bools(zest_gguf_cursor *cursor, const zest_gguf_value *value) {
    for (size_t i = 0; i < value->count; i++)
        if (value->data[i] > 1)
            return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                                  "%s: a truth value before byte %zu is neither 0 "
                                  "nor 1",
                                  cursor->path, cursor->at);
    return ZEST_OK;
}

static zest_status read_value(zest_gguf_cursor *cursor, uint32_t kind, int depth, zest_gguf_value *value);

/* Each element takes at least 8 (string) or 12 (array) bytes of the file, so a count that was checked against
 * what is left cannot make us allocate much more than the file's own size. */
static zest_status read_table(zest_gguf_cursor *cursor, int depth, zest_gguf_value *value) {
    zest_status status = ZEST_OK;
    if (value->kind == ZEST_GGUF_STRING) {
        value->strings = malloc((value->count + 1) * sizeof *value->strings);
        if (!value->strings)
            return zest_error_memory(cursor->error, cursor->path, value->count * sizeof *value->strings);
        for (size_t i = 0; i < value->count && !status; i++)
            status = zest_gguf_value_take_string(cursor, &value->strings[i]);
        return status;
    }
    value->children = calloc(value->count + 1, sizeof *value->children);
    if (!value->children)
        return zest_error_memory(cursor->error, cursor->path, value->count * sizeof *value->children);
    for (size_t i = 0; i < value->count && !status; i++)
        status = read_value(cursor, ZEST_GGUF_ARRAY, depth + 1, &value->children[i]);
    return status;
}

static zest_status read_array(zest_gguf_cursor *cursor, int depth, zest_gguf_value *value) {
    uint32_t kind = 0;
    uint64_t count = 0;
    size_t at = cursor->at;
    zest_status status = zest_gguf_value_take_u32(cursor, &kind);
    if (!status) status = zest_gguf_value_take_u64(cursor, &count);
    if (status) return status;
    if (kind >= ZEST_GGUF_KINDS)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: an array of unknown kind %u at byte %zu",
                              cursor->path, kind, at);
    size_t least = kind_sizes[kind] ? kind_sizes[kind] : kind == ZEST_GGUF_STRING ? 8 : 12;
    if (count > (cursor->size - cursor->at) / least)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: an array of %" PRIu64 " elements at byte %zu runs past the end",
                              cursor->path, count, at);
    value->kind = (zest_gguf_kind)kind;
    value->is_array = 1;
    if (kind_sizes[kind]) {
        value->count = (size_t)count;
        return zest_gguf_value_take(cursor, (size_t)count * kind_sizes[kind], &value->data);
    }
    if (depth >= NESTING_LIMIT)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT, "%s: arrays nested too deep at byte %zu",
                              cursor->path, at);
    value->count = (size_t)count;
    return read_table(cursor, depth, value);
}

static zest_status read_value(zest_gguf_cursor *cursor, uint32_t kind, int depth, zest_gguf_value *value) {
    *value = (zest_gguf_value){.count = 1};
    zest_status status;
    if (kind >= ZEST_GGUF_KINDS)
        return zest_error_set(cursor->error, ZEST_ERROR_FORMAT,
                              "%s: a value of unknown kind %u before byte %zu", cursor->path, kind,
                              cursor->at);
    value->kind = (zest_gguf_kind)kind;
    if (kind == ZEST_GGUF_ARRAY) {
        value->count = 0; /* until its table is there: clear walks it */
        status = read_array(cursor, depth, value);
    } else if (kind == ZEST_GGUF_STRING) {
        status = zest_gguf_value_take_string(cursor, &value->data);
    } else {
        status = zest_gguf_value_take(cursor, kind_sizes[kind], &value->data);
    }
    return !status && value->kind == ZEST_GGUF_BOOL ? check_bools(cursor, value) : status;
}

zest_status zest_gguf_value_read(zest_gguf_cursor *cursor, uint32_t kind, zest_gguf_value *value) {
    return read_value(cursor, kind, 0, value);
}

void zest_gguf_value_clear(zest_gguf_value *value) {
    for (size_t i = 0; value->children && i < value->count; i++) zest_gguf_value_clear(&value->children[i]);
    free(value->children);
    free(value->strings);
    *value = (zest_gguf_value){0};
}

/* ---- Looking ---- */

zest_gguf_kind zest_gguf_value_kind(const zest_gguf_value *value) { return value->kind; }
int zest_gguf_value_is_array(const zest_gguf_value *value) { return value->is_array; }
size_t zest_gguf_value_count(const zest_gguf_value *value) { return value->count; }

static int has(const zest_gguf_value *value, size_t i) { return value && i < value->count; }

/* A whole number as sign and magnitude's two's complement: *negative tells how to read *bits. */
static int whole(const zest_gguf_value *value, size_t i, uint64_t *bits, int *negative) {
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
    if (!whole(value, i, &bits, &negative) || negative) return 0;
    *out = bits;
    return 1;
}

int zest_gguf_value_i64(const zest_gguf_value *value, size_t i, int64_t *out) {
    uint64_t bits;
    int negative;
    if (!whole(value, i, &bits, &negative) || (!negative && bits > INT64_MAX)) return 0;
    memcpy(out, &bits, sizeof *out);
    return 1;
}

int zest_gguf_value_f64(const zest_gguf_value *value, size_t i, double *out) {
    uint64_t bits;
    int negative;
    if (whole(value, i, &bits, &negative)) {
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
