/* Writer of GGUF files, version 3: metadata, tensors of every type that gguf.h can turn into floats, except F64.
 *
 * A file is written under a temporary name, read back and compared with what was meant: keys, names, types and
 * shapes exactly, tensors as far as their type can hold them. Only then does it replace an older file. */
#ifndef ZEST_IO_GGUF_WRITE_H
#define ZEST_IO_GGUF_WRITE_H

#include "base/memory.h"
#include "io/gguf.h"

/* ---- Metadata: keys in the order in which they are put. Start with {0}. When out of memory, bytes.failed is set; the
 * writer checks it. ---- */

typedef struct {
    zest_buffer bytes;
    uint64_t count;
} zest_gguf_metadata;

void zest_gguf_put_u32(zest_gguf_metadata *metadata, const char *key, uint32_t value);
void zest_gguf_put_f32(zest_gguf_metadata *metadata, const char *key, float value);
void zest_gguf_put_bool(zest_gguf_metadata *metadata, const char *key, int value);
void zest_gguf_put_string(zest_gguf_metadata *metadata, const char *key, const char *text, size_t size);
void zest_gguf_put_strings(zest_gguf_metadata *metadata, const char *key, const zest_gguf_text *texts,
                           size_t count);
void zest_gguf_put_i32s(zest_gguf_metadata *metadata, const char *key, const int32_t *values, size_t count);
void zest_gguf_put_f32s(zest_gguf_metadata *metadata, const char *key, const float *values, size_t count);
void zest_gguf_metadata_free(zest_gguf_metadata *metadata);

/* ---- Tensors ---- */

/* Rows first_row .. first_row+rows-1 as floats. Called from several threads. */
typedef zest_status (*zest_gguf_fill)(void *user, size_t first_row, size_t rows, float *out,
                                      zest_error *error);

typedef struct {
    const char *name;
    zest_gguf_type type;
    size_t rank, shape[4]; /* slowest first; the last is a multiple of the type's block */
    zest_gguf_fill fill;
    void *user;
} zest_gguf_source;

/* threads: that convert; 0: all cores. The bytes do not depend on it. */
zest_status zest_gguf_write(const char *path, const zest_gguf_metadata *metadata,
                            const zest_gguf_source *tensors, size_t count, int threads, zest_error *error);

/* ---- Conversion ---- */

/* Can floats be turned into this type? */
int zest_gguf_can_quantize(zest_gguf_type type);

/* One row, of a multiple of the type's block, as blocks. Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 are those of the format's
 * reference implementation, bit for bit; for the K types it leaves the choice of scales open, and here they minimise
 * the squared error. 0: a value is not finite, or too large for the type. */
int zest_gguf_quantize(zest_gguf_type type, const float *values, size_t columns, void *row);

#endif
