/* Inside the reader of Parquet files: parquet_thrift.c knows Thrift, parquet_schema.c the columns, parquet_codec.c
 * compression, parquet_levels.c and parquet_values.c encodings, parquet_column.c pages, and parquet.c puts rows together
 * from columns (Dremel's repetition and definition levels). */
#ifndef ZEST_IO_PARQUET_INTERNAL_H
#define ZEST_IO_PARQUET_INTERNAL_H

#include <stdint.h>

#include "base/memory.h"
#include "io/parquet.h"

/* ---- Thrift's compact protocol (parquet_thrift.c) ---- */

enum {
    ZEST_THRIFT_TRUE = 1,
    ZEST_THRIFT_FALSE,
    ZEST_THRIFT_I8,
    ZEST_THRIFT_I16,
    ZEST_THRIFT_I32,
    ZEST_THRIFT_I64,
    ZEST_THRIFT_DOUBLE,
    ZEST_THRIFT_BINARY,
    ZEST_THRIFT_LIST,
    ZEST_THRIFT_SET,
    ZEST_THRIFT_MAP,
    ZEST_THRIFT_STRUCT
};

/* Once something was wrong, failed is set, there are no more fields, and values are 0. */
typedef struct {
    const unsigned char *at, *end;
    int failed;
} zest_thrift;

/* A field of a struct; {0} before the first. */
typedef struct {
    int type, id;
} zest_thrift_field;

/* Goes on to the next field; 0: the struct has ended. The value of a field must be read or skipped. */
int zest_thrift_next(zest_thrift *t, zest_thrift_field *field);
int64_t zest_thrift_integer(zest_thrift *t, int type);
/* The same within limits; anything else fails. */
int64_t zest_thrift_bounded(zest_thrift *t, int type, int64_t least, int64_t most);
const char *zest_thrift_text(zest_thrift *t, int type, size_t *size);
/* The number of elements, which are at most as many as bytes are left, and their type. */
size_t zest_thrift_list(zest_thrift *t, int type, int *element);
void zest_thrift_skip(zest_thrift *t, int type);

/* LEB128, as in Thrift, Snappy and the encodings; 0: it does not end, or has more than 64 bits. */
int zest_parquet_varint(const unsigned char **at, const unsigned char *end, uint64_t *value);

static inline int64_t zest_parquet_unzigzag(uint64_t n) {
    return (int64_t)(n >> 1 ^ (~(n & 1) + 1)); /* two's complement, as the rest of zest assumes */
}

static inline uint64_t zest_parquet_little(const unsigned char *bytes, size_t size) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* ---- Schema (parquet_schema.c) ---- */

enum { ZEST_PARQUET_MAX_DEPTH = 64, ZEST_PARQUET_MAX_COLUMNS = 16384 };

/* What a column stores, with the numbers of the format. */
enum {
    ZEST_PARQUET_BOOLEAN,
    ZEST_PARQUET_INT32,
    ZEST_PARQUET_INT64,
    ZEST_PARQUET_INT96,
    ZEST_PARQUET_FLOAT,
    ZEST_PARQUET_DOUBLE,
    ZEST_PARQUET_BYTE_ARRAY,
    ZEST_PARQUET_FIXED_BYTES
};

/* What its values are. */
typedef enum {
    ZEST_PARQUET_PLAIN, /* the number, the boolean; bytes are text */
    ZEST_PARQUET_UNSIGNED,
    ZEST_PARQUET_FLOAT16,
    ZEST_PARQUET_OTHER /* not read; see .what */
} zest_parquet_meaning;

typedef enum { ZEST_PARQUET_LEAF, ZEST_PARQUET_STRUCT, ZEST_PARQUET_LISTING } zest_parquet_kind;

/* The schema is a tree; its nodes are stored with each one before its children. */
typedef struct {
    char *name, *path; /* path: of a leaf, for messages and selection */
    size_t end;        /* the children are the nodes from this one's number + 1 to end */
    zest_parquet_kind kind;
    int optional, repeated;
    int wrapper;  /* repeated child of a listing that only has the element in it */
    int def, rep; /* levels at which the node is there */
    int type, width;
    zest_parquet_meaning meaning;
    const char *what; /* name of a type that is not read */
    int selected;
    size_t column; /* of a leaf; of another node its first selected leaf's */
} zest_parquet_node;

typedef struct {
    zest_parquet_node *nodes;
    size_t count, leaves;
} zest_parquet_schema;

zest_status zest_parquet_schema_read(zest_parquet_schema *schema, zest_thrift *t, int type, const char *name,
                                     zest_error *error);
zest_status zest_parquet_schema_select(zest_parquet_schema *schema, const char *const *paths,
                                       size_t path_count, const char *name, zest_error *error);
void zest_parquet_schema_free(zest_parquet_schema *schema);

/* ---- Codecs (parquet_codec.c) ---- */

/* NULL, or why these bytes do not unpack to exactly as many. */
const char *zest_parquet_unpack(int codec, const unsigned char *in, size_t size, unsigned char *out,
                                size_t out_size);
/* Whether the codec leaves bytes as they are. */
static inline int zest_parquet_is_plain(int codec) { return codec == 0; }

/* ---- Levels and indices: runs of equal numbers, and packed ones (parquet_levels.c) ---- */

typedef struct {
    const unsigned char *at, *end;
    unsigned width;       /* bits of a number, at most 32 */
    uint64_t run, packed; /* numbers that are left of a run */
    uint32_t value;
    const unsigned char *bits;
    uint64_t bit;
} zest_parquet_runs;

/* 0: there are no more. */
int zest_parquet_runs_next(zest_parquet_runs *r, uint32_t *value);

/* ---- DELTA_BINARY_PACKED (parquet_levels.c) ---- */

typedef struct {
    const unsigned char *at, *end;
    uint64_t block, left; /* numbers in a block, numbers left in all */
    unsigned minis;       /* parts of a block, each with a width of its own */
    int first;
    uint64_t value, step; /* modulo 2^64 */
    const unsigned char *widths;
    unsigned mini;                  /* the part behind the current one */
    uint64_t block_left, mini_left; /* numbers left in the block and in the part */
    const unsigned char *bits;
    uint64_t bit;
    unsigned width;
} zest_parquet_delta;

/* 0: damaged. */
int zest_parquet_delta_begin(zest_parquet_delta *d, const unsigned char *at, const unsigned char *end);
int zest_parquet_delta_next(zest_parquet_delta *d, int64_t *value);
/* The byte behind the last number, found without unpacking them; NULL: damaged. */
const unsigned char *zest_parquet_delta_end(const zest_parquet_delta *d);

/* ---- Values (parquet_values.c) ---- */

/* A value as it is stored: the bits of a number, or bytes. */
typedef struct {
    uint64_t bits;
    const unsigned char *bytes;
    size_t size;
} zest_parquet_value;

typedef struct {
    zest_buffer page; /* unpacked */
    const unsigned char *bytes, *end;
    size_t *offsets; /* of texts */
    size_t count;
} zest_parquet_dictionary;

typedef struct {
    int encoding, type;
    size_t width; /* bytes of a value of fixed size */
    const unsigned char *at, *end;
    size_t index, count; /* of booleans, and for BYTE_STREAM_SPLIT */
    zest_parquet_runs runs;
    zest_parquet_delta lengths, prefixes;
    zest_buffer text; /* DELTA_BYTE_ARRAY: the last value */
    const zest_parquet_dictionary *dictionary;
} zest_parquet_values;

/* NULL, or what is wrong. count: the values in these bytes, or more. */
const char *zest_parquet_dictionary_read(zest_parquet_dictionary *d, int type, size_t width, size_t count);
const char *zest_parquet_values_begin(zest_parquet_values *v, int encoding, const unsigned char *at,
                                      const unsigned char *end, size_t count);
const char *zest_parquet_values_next(zest_parquet_values *v, zest_parquet_value *value);

/* ---- Columns: pages of one row group (parquet_column.c) ---- */

/* Bytes that a file may need: at a time, and over all its pages and values. What is used is counted down. */
typedef struct {
    size_t live, work;
} zest_parquet_budget;

typedef struct {
    const zest_parquet_node *node;
    const char *file; /* its name */
    zest_parquet_budget *budget;
    int codec;
    const unsigned char *at, *end; /* pages that are left */
    uint64_t left;                 /* entries in them */
    int has_pages;
    size_t page_left; /* entries left in the page */
    zest_parquet_runs reps, defs;
    zest_parquet_values values;
    zest_parquet_dictionary dictionary;
    zest_buffer page;
    int loaded, ended; /* whether rep and def are those of the next entry; whether there is none */
    int rep, def;
} zest_parquet_column;

/* Reads the Thrift struct of a column chunk, and goes to its first page. bytes: the file up to its footer. */
zest_status zest_parquet_column_open(zest_parquet_column *c, zest_thrift *t, const unsigned char *bytes,
                                     size_t size, zest_error *error);
/* Sets rep and def of the next entry, or ended. */
zest_status zest_parquet_column_peek(zest_parquet_column *c, zest_error *error);
/* Goes on behind the entry that was peeked at. *has: whether it is a value. */
zest_status zest_parquet_column_take(zest_parquet_column *c, int *has, zest_parquet_value *value,
                                     zest_error *error);
void zest_parquet_column_close(zest_parquet_column *c);
zest_status zest_parquet_column_refuse(const zest_parquet_column *c, zest_error *error, const char *format,
                                       ...) __attribute__((format(printf, 3, 4)));

#endif
