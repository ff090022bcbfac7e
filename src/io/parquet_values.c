/* The encodings of values in Parquet pages, one value after the other. */
#include <string.h>

#include "io/parquet_internal.h"

enum {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    BIT_PACKED = 4,
    DELTA_BINARY_PACKED = 5,
    DELTA_LENGTH_BYTE_ARRAY = 6,
    DELTA_BYTE_ARRAY = 7,
    RLE_DICTIONARY = 8,
    BYTE_STREAM_SPLIT = 9
};

static const char *const early = "its values end early";

/* ---- Plain ---- */

/* A text or a fixed number of bytes; width is 0 for texts, which have their length before them. */
static const char *next_bytes(const unsigned char **at, const unsigned char *end, size_t width,
                              zest_parquet_value *value) {
    size_t rest = (size_t)(end - *at), size = width;
    if (!width) {
        if (rest < 4) return early;
        size = (size_t)zest_parquet_little(*at, 4);
        *at += 4;
        rest -= 4;
    }
    if (size > rest) return early;
    value->bytes = *at;
    value->size = size;
    *at += size;
    return NULL;
}

static int is_number(int type) { return type != ZEST_PARQUET_BYTE_ARRAY && type != ZEST_PARQUET_FIXED_BYTES; }

static const char *next_plain(zest_parquet_values *v, zest_parquet_value *value) {
    if (v->type == ZEST_PARQUET_BOOLEAN) {
        if (v->index / 8 >= (size_t)(v->end - v->at)) return early;
        value->bits = v->at[v->index / 8] >> v->index % 8 & 1;
        v->index++;
        return NULL;
    }
    const char *problem = next_bytes(&v->at, v->end, v->width, value);
    if (!problem && is_number(v->type)) value->bits = zest_parquet_little(value->bytes, value->size);
    return problem;
}

/* ---- Dictionaries ---- */

const char *zest_parquet_dictionary_read(zest_parquet_dictionary *d, int type, size_t width, size_t count) {
    size_t least = width ? width : 4; /* bytes of a value */
    if (type == ZEST_PARQUET_BOOLEAN) return "has a dictionary of booleans, which the format does not allow";
    if (count > (size_t)(d->end - d->bytes) / least) return "its dictionary ends early";
    d->count = count;
    if (width) return NULL;
    d->offsets = malloc((count + 1) * sizeof *d->offsets);
    if (!d->offsets) return "there is not enough memory for its dictionary";
    const unsigned char *at = d->bytes;
    zest_parquet_value value;
    for (size_t i = 0; i < count; i++) {
        d->offsets[i] = (size_t)(at - d->bytes);
        if (next_bytes(&at, d->end, 0, &value)) return "its dictionary ends early";
    }
    return NULL;
}

static const char *next_of_dictionary(zest_parquet_values *v, zest_parquet_value *value) {
    const zest_parquet_dictionary *d = v->dictionary;
    uint32_t index;
    if (!zest_parquet_runs_next(&v->runs, &index)) return early;
    if (index >= d->count) return "a value is not in its dictionary";
    const unsigned char *at = d->bytes + (v->width ? index * v->width : d->offsets[index]);
    const char *problem = next_bytes(&at, d->end, v->width, value);
    if (!problem && is_number(v->type)) value->bits = zest_parquet_little(value->bytes, value->size);
    return problem;
}

/* ---- Differences ---- */

static const char *next_difference(zest_parquet_values *v, zest_parquet_value *value) {
    int64_t number;
    if (!zest_parquet_delta_next(&v->lengths, &number)) return early;
    value->bits = (uint64_t)number;
    return NULL;
}

/* Lengths first, then the bytes of all texts. */
static const char *next_of_lengths(zest_parquet_values *v, zest_parquet_value *value) {
    int64_t size;
    if (!zest_parquet_delta_next(&v->lengths, &size)) return early;
    if (size < 0 || size > v->end - v->at) return early;
    value->bytes = v->at;
    value->size = (size_t)size;
    v->at += size;
    return NULL;
}

/* A text begins as the last one, for so many bytes. */
static const char *next_of_prefixes(zest_parquet_values *v, zest_parquet_value *value) {
    int64_t shared;
    const char *problem = next_of_lengths(v, value);
    if (problem) return problem;
    if (!zest_parquet_delta_next(&v->prefixes, &shared)) return early;
    if (shared < 0 || (uint64_t)shared > v->text.size)
        return "a value begins as the last one, which is shorter";
    v->text.size = (size_t)shared;
    zest_buffer_add(&v->text, value->bytes, value->size);
    if (v->text.failed) return "there is not enough memory for a value";
    value->bytes = (const unsigned char *)v->text.data;
    value->size = v->text.size;
    return NULL;
}

static const char *begin_lengths(zest_parquet_values *v, zest_parquet_delta *lengths) {
    if (!zest_parquet_delta_begin(lengths, v->at, v->end)) return "its lengths are damaged";
    v->at = zest_parquet_delta_end(lengths);
    return v->at ? NULL : "its lengths are damaged";
}

/* ---- The first bytes of all values, the second ones, ... ---- */

static const char *next_split(zest_parquet_values *v, zest_parquet_value *value) {
    if (v->index >= v->count) return early;
    v->text.size = 0;
    for (size_t i = 0; i < v->width; i++) zest_buffer_add(&v->text, v->at + i * v->count + v->index, 1);
    if (v->text.failed) return "there is not enough memory for a value";
    v->index++;
    value->bytes = (const unsigned char *)v->text.data;
    value->size = v->width;
    if (is_number(v->type)) value->bits = zest_parquet_little(value->bytes, v->width);
    return NULL;
}

/* ---- All ---- */

/* Booleans as runs, behind the size of these. */
static const char *begin_booleans(zest_parquet_values *v) {
    size_t rest = (size_t)(v->end - v->at), size = rest < 4 ? 0 : (size_t)zest_parquet_little(v->at, 4);
    if (rest < 4 || size > rest - 4) return early;
    v->runs = (zest_parquet_runs){.at = v->at + 4, .end = v->at + 4 + size, .width = 1};
    return NULL;
}

static const char *begin_dictionary(zest_parquet_values *v, size_t count) {
    if (!v->dictionary) return "refers to a dictionary, but has none";
    if (v->at == v->end) return count ? early : NULL;
    if (*v->at > 32) return "its indices have more than 32 bits";
    v->runs = (zest_parquet_runs){.at = v->at + 1, .end = v->end, .width = *v->at};
    return NULL;
}

static const char *begin_split(zest_parquet_values *v) {
    if (!v->width) return "has texts in the encoding BYTE_STREAM_SPLIT, which the format does not allow";
    v->count = (size_t)(v->end - v->at) / v->width;
    v->text.size = 0;
    return NULL;
}

const char *zest_parquet_values_begin(zest_parquet_values *v, int encoding, const unsigned char *at,
                                      const unsigned char *end, size_t count) {
    static const char *const wrong = "has an encoding that the format does not allow for its type";
    int integer = v->type == ZEST_PARQUET_INT32 || v->type == ZEST_PARQUET_INT64,
        text = v->type == ZEST_PARQUET_BYTE_ARRAY;
    v->encoding = encoding;
    v->at = at;
    v->end = end;
    v->index = v->text.size = 0;
    const char *problem;
    switch (encoding) {
    case PLAIN: return NULL;
    case RLE: return v->type == ZEST_PARQUET_BOOLEAN ? begin_booleans(v) : wrong;
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY: return begin_dictionary(v, count);
    case BYTE_STREAM_SPLIT: return v->type == ZEST_PARQUET_BOOLEAN ? wrong : begin_split(v);
    case DELTA_BINARY_PACKED:
        if (!integer) return wrong;
        return zest_parquet_delta_begin(&v->lengths, at, end) ? NULL : "its values are damaged";
    case DELTA_LENGTH_BYTE_ARRAY: return text ? begin_lengths(v, &v->lengths) : wrong;
    case DELTA_BYTE_ARRAY:
        if (!text && v->type != ZEST_PARQUET_FIXED_BYTES) return wrong;
        problem = begin_lengths(v, &v->prefixes);
        return problem ? problem : begin_lengths(v, &v->lengths);
    default: return "has an encoding that zest does not read";
    }
}

const char *zest_parquet_values_next(zest_parquet_values *v, zest_parquet_value *value) {
    uint32_t bit;
    *value = (zest_parquet_value){0};
    switch (v->encoding) {
    case PLAIN: return next_plain(v, value);
    case RLE:
        if (!zest_parquet_runs_next(&v->runs, &bit)) return early;
        value->bits = bit;
        return NULL;
    case DELTA_BINARY_PACKED: return next_difference(v, value);
    case DELTA_LENGTH_BYTE_ARRAY: return next_of_lengths(v, value);
    case DELTA_BYTE_ARRAY: return next_of_prefixes(v, value);
    case BYTE_STREAM_SPLIT: return next_split(v, value);
    default: return next_of_dictionary(v, value);
    }
}
