/* Thrift's compact protocol: the metadata of Parquet files. */
#include <stddef.h>

#include "io/parquet_internal.h"

int zest_parquet_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;
        if (shift == 63 && byte > 1) return 0;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static uint64_t fail(zest_thrift *t) {
    t->failed = 1;
    t->at = t->end;
    return 0;
}

static unsigned next_byte(zest_thrift *t) { return t->at < t->end ? *t->at++ : (unsigned)fail(t); }

static uint64_t next_varint(zest_thrift *t) {
    uint64_t value;
    return zest_parquet_varint(&t->at, t->end, &value) ? value : fail(t);
}

int zest_thrift_next(zest_thrift *t, zest_thrift_field *field) {
    unsigned header = next_byte(t);
    if (!header || t->failed) return 0;
    int64_t id = header >> 4 ? field->id + (int64_t)(header >> 4) : zest_parquet_unzigzag(next_varint(t));
    field->type = header & 15;
    if (id < 0 || id > 32767 || field->type < ZEST_THRIFT_TRUE || field->type > ZEST_THRIFT_STRUCT) fail(t);
    field->id = (int)(t->failed ? 0 : id);
    return !t->failed;
}

int64_t zest_thrift_integer(zest_thrift *t, int type) {
    if (type == ZEST_THRIFT_I8) return (signed char)next_byte(t);
    if (type == ZEST_THRIFT_I16 || type == ZEST_THRIFT_I32 || type == ZEST_THRIFT_I64)
        return zest_parquet_unzigzag(next_varint(t));
    return (int64_t)fail(t);
}

int64_t zest_thrift_bounded(zest_thrift *t, int type, int64_t least, int64_t most) {
    int64_t value = zest_thrift_integer(t, type);
    if (t->failed || value < least || value > most) return fail(t), least;
    return value;
}

const char *zest_thrift_text(zest_thrift *t, int type, size_t *size) {
    uint64_t length = type == ZEST_THRIFT_BINARY ? next_varint(t) : fail(t);
    if (length > (size_t)(t->end - t->at)) length = fail(t);
    const unsigned char *text = t->at;
    t->at += length;
    *size = (size_t)length;
    return (const char *)text;
}

size_t zest_thrift_list(zest_thrift *t, int type, int *element) {
    unsigned header = type == ZEST_THRIFT_LIST || type == ZEST_THRIFT_SET ? next_byte(t) : (unsigned)fail(t);
    uint64_t count = header >> 4 == 15 ? next_varint(t) : header >> 4;
    *element = header & 15;
    if (count > (size_t)(t->end - t->at)) count = fail(t); /* an element has a byte at least */
    return (size_t)count;
}

static void skip(zest_thrift *t, int type, int depth);

/* In a list or a map a boolean is a byte; elsewhere it is in the type of its field. */
static void skip_element(zest_thrift *t, int type, int depth) {
    if (type == ZEST_THRIFT_TRUE || type == ZEST_THRIFT_FALSE)
        next_byte(t);
    else
        skip(t, type, depth);
}

static void skip_list(zest_thrift *t, int type, int depth) {
    int element;
    size_t count = zest_thrift_list(t, type, &element);
    for (size_t i = 0; i < count && !t->failed; i++) skip_element(t, element, depth);
}

static void skip_map(zest_thrift *t, int depth) {
    uint64_t count = next_varint(t);
    unsigned types = count ? next_byte(t) : 0;
    for (; count && !t->failed; count--) {
        skip_element(t, (int)(types >> 4), depth);
        skip_element(t, (int)(types & 15), depth);
    }
}

static void skip(zest_thrift *t, int type, int depth) {
    size_t size;
    if (depth > ZEST_PARQUET_MAX_DEPTH) fail(t);
    switch (type) {
    case ZEST_THRIFT_TRUE:
    case ZEST_THRIFT_FALSE: break;
    case ZEST_THRIFT_I8: next_byte(t); break;
    case ZEST_THRIFT_I16:
    case ZEST_THRIFT_I32:
    case ZEST_THRIFT_I64: next_varint(t); break;
    case ZEST_THRIFT_DOUBLE:
        if (t->end - t->at < 8)
            fail(t);
        else
            t->at += 8;
        break;
    case ZEST_THRIFT_BINARY: zest_thrift_text(t, type, &size); break;
    case ZEST_THRIFT_LIST:
    case ZEST_THRIFT_SET: skip_list(t, type, depth + 1); break;
    case ZEST_THRIFT_MAP: skip_map(t, depth + 1); break;
    case ZEST_THRIFT_STRUCT:
        for (zest_thrift_field field = {0}; zest_thrift_next(t, &field);) skip(t, field.type, depth + 1);
        break;
    default: fail(t);
    }
}

void zest_thrift_skip(zest_thrift *t, int type) { skip(t, type, 0); }
