/* Reader of GGUF files, versions 2 and 3.
 *
 *     "GGUF" / u32 version / u64 tensors / u64 keys / keys and values / tensor infos / padding / data
 *
 * The file is mapped; strings, arrays and tensor data are pointers into it, valid until close. Every
 * length, count and offset is checked at opening against the size of the file and against overflow, so a
 * damaged or hostile file cannot cause reads outside it. All functions on an open file may be called from
 * several threads.
 *
 * Two conventions of the format that a model loader must know:
 * - Dimensions are stored fastest first. Here shapes are slowest first, as everywhere in zest: a linear
 * layer is [outputs, inputs].
 * - For the architecture "llama" (which also covers Mistral) the converter permutes the rows of attn_q
 * and attn_k inside every head, from the half-split rotary layout of Hugging Face (i, i + d/2) to
 * interleaved pairs (2i, 2i + 1). zest_gguf_read_rotary undoes it. Other families, such as "qwen2", are
 * stored unpermuted. */
#ifndef ZEST_IO_GGUF_H
#define ZEST_IO_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

typedef struct zest_gguf zest_gguf;

/* *file is NULL on error. */
zest_status zest_gguf_open(const char *path, zest_gguf **file, zest_error *error);
/* The same for bytes in memory, which must stay valid until close. name is for messages. */
zest_status zest_gguf_open_memory(const void *bytes, size_t size, const char *name, zest_gguf **file,
                                  zest_error *error);
void zest_gguf_close(zest_gguf *file);

/* ---- Metadata ---- */

typedef enum { /* numbered as in the file */
               ZEST_GGUF_U8,
               ZEST_GGUF_I8,
               ZEST_GGUF_U16,
               ZEST_GGUF_I16,
               ZEST_GGUF_U32,
               ZEST_GGUF_I32,
               ZEST_GGUF_F32,
               ZEST_GGUF_BOOL,
               ZEST_GGUF_STRING,
               ZEST_GGUF_ARRAY,
               ZEST_GGUF_U64,
               ZEST_GGUF_I64,
               ZEST_GGUF_F64,
               ZEST_GGUF_KINDS
} zest_gguf_kind;

typedef struct zest_gguf_value zest_gguf_value;

typedef struct {
    const char *data; /* need not be NUL-terminated */
    size_t size;
} zest_gguf_text;

size_t zest_gguf_key_count(const zest_gguf *file);
const char *zest_gguf_key_at(const zest_gguf *file, size_t i); /* in the file's order; NULL: past end */
const zest_gguf_value *zest_gguf_find(const zest_gguf *file, const char *key); /* NULL: none */

/* A value is a list: of one element for a scalar, of any number for an array. kind is that of the elements,
 * which is ZEST_GGUF_ARRAY for arrays of arrays only. */
zest_gguf_kind zest_gguf_value_kind(const zest_gguf_value *value);
int zest_gguf_value_is_array(const zest_gguf_value *value);
size_t zest_gguf_value_count(const zest_gguf_value *value);

/* Element i. 0, and *out untouched: value is NULL, i is past the end, or the element has another type:
 * u64 and i64 accept integers in range, f64 any number, bool and string only their own type. A string is
 * not NUL-terminated and need not be UTF-8. */
int zest_gguf_value_u64(const zest_gguf_value *value, size_t i, uint64_t *out);
int zest_gguf_value_i64(const zest_gguf_value *value, size_t i, int64_t *out);
int zest_gguf_value_f64(const zest_gguf_value *value, size_t i, double *out);
int zest_gguf_value_bool(const zest_gguf_value *value, size_t i, int *out);
int zest_gguf_value_string(const zest_gguf_value *value, size_t i, const char **bytes, size_t *size);
const zest_gguf_value *zest_gguf_value_array(const zest_gguf_value *value,
                                             size_t i); /* of an array of arrays */

/* Required keys; the error names the file and the key. get_array requires elements of this kind. */
zest_status zest_gguf_get_u64(const zest_gguf *file, const char *key, uint64_t *out, zest_error *error);
zest_status zest_gguf_get_f64(const zest_gguf *file, const char *key, double *out, zest_error *error);
zest_status zest_gguf_get_bool(const zest_gguf *file, const char *key, int *out, zest_error *error);
zest_status zest_gguf_get_string(const zest_gguf *file, const char *key, const char **bytes, size_t *size,
                                 zest_error *error);
zest_status zest_gguf_get_array(const zest_gguf *file, const char *key, zest_gguf_kind kind,
                                const zest_gguf_value **out, zest_error *error);

/* ---- Tensors ---- */

typedef enum { /* numbered as in the file; the types whose sizes zest knows */
               ZEST_GGUF_TYPE_F32 = 0,
               ZEST_GGUF_TYPE_F16 = 1,
               ZEST_GGUF_TYPE_Q4_0 = 2,
               ZEST_GGUF_TYPE_Q4_1 = 3,
               ZEST_GGUF_TYPE_Q5_0 = 6,
               ZEST_GGUF_TYPE_Q5_1 = 7,
               ZEST_GGUF_TYPE_Q8_0 = 8,
               ZEST_GGUF_TYPE_Q2_K = 10,
               ZEST_GGUF_TYPE_Q3_K = 11,
               ZEST_GGUF_TYPE_Q4_K = 12,
               ZEST_GGUF_TYPE_Q5_K = 13,
               ZEST_GGUF_TYPE_Q6_K = 14,
               ZEST_GGUF_TYPE_I8 = 24, /* integers are copied, not converted */
               ZEST_GGUF_TYPE_I16 = 25,
               ZEST_GGUF_TYPE_I32 = 26,
               ZEST_GGUF_TYPE_I64 = 27,
               ZEST_GGUF_TYPE_F64 = 28,
               ZEST_GGUF_TYPE_BF16 = 30
} zest_gguf_type;

/* "Q4_K"; those that zest does not read have names, too: "IQ4_XS"; "?" for an unknown number */
const char *zest_gguf_type_name(zest_gguf_type type);

typedef struct {
    const char *name;
    zest_gguf_type type;
    size_t rank;          /* 0 to 4 */
    size_t shape[4];      /* slowest first */
    size_t rows, columns; /* columns: the last dimension; rows: the product of the others */
    size_t row_size;      /* bytes */
    size_t offset;        /* in the data section */
    const void *data;     /* rows * row_size bytes */
} zest_gguf_tensor;

size_t zest_gguf_count(const zest_gguf *file);
/* Bytes of the file before the data of its tensors. */
size_t zest_gguf_header_size(const zest_gguf *file);
const zest_gguf_tensor *zest_gguf_at(const zest_gguf *file,
                                     size_t i); /* in the file's order; NULL: past the end */
const zest_gguf_tensor *zest_gguf_find_tensor(const zest_gguf *file, const char *name); /* NULL: none */

/* Rows first_row .. first_row+rows-1 as floats, columns each. */
zest_status zest_gguf_read(const zest_gguf_tensor *tensor, size_t first_row, size_t rows, float *out,
                           zest_error *error);

/* The same for attn_q and attn_k of architecture "llama", in Hugging Face's order of rows. heads: n_head for
 * q, n_head_kv for k. Of a bias (rank 1), the rows are its elements. */
zest_status zest_gguf_read_rotary(const zest_gguf_tensor *tensor, size_t heads, size_t first_row, size_t rows,
                                  float *out, zest_error *error);

/* `count` elements, a whole number of blocks of a type that has a conversion, as floats. */
void zest_gguf_read_blocks(int type, const void *blocks, size_t count, float *out);

/* The rows as they are: in the file's order, or, with heads, in that of zest_gguf_read_rotary. For matrices. */
zest_status zest_gguf_copy_rows(const zest_gguf_tensor *tensor, size_t heads, void *out, zest_error *error);

/* Elements and bytes of a block; 0: a type that zest does not read. */
int zest_gguf_block_size(uint32_t type, size_t *elements, size_t *bytes);

#endif
