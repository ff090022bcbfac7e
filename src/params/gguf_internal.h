/* What gguf.c, gguf_value.c and gguf_dequantise.c share. */
#ifndef ZEST_PARAMS_GGUF_INTERNAL_H
#define ZEST_PARAMS_GGUF_INTERNAL_H

#include "params/gguf.h"
#include "params/map.h"

/* The place where reading has got to. */
typedef struct {
    const unsigned char *bytes;
    size_t size, at;
    const char *path;
    zest_error *error;
} zest_gguf_cursor;

struct zest_gguf_value {
    zest_gguf_kind kind; /* of the elements */
    int is_array;
    size_t count;
    const unsigned char *data;     /* numbers, or the one string (its length first), in the file */
    const unsigned char **strings; /* an array of strings: where each begins, with its length */
    zest_gguf_value *children;     /* an array of arrays */
};

/* Steps over `size` bytes and points *bytes at them. */
zest_status zest_gguf_value_take(zest_gguf_cursor *cursor, size_t size, const unsigned char **bytes);
zest_status zest_gguf_value_take_u32(zest_gguf_cursor *cursor, uint32_t *out);
zest_status zest_gguf_value_take_u64(zest_gguf_cursor *cursor, uint64_t *out);
/* Steps over a string; *begin is where its length lies. */
zest_status zest_gguf_value_take_string(zest_gguf_cursor *cursor, const unsigned char **begin);

/* Reads a value of this kind; what it allocated is freed by clear, after an error too. */
zest_status zest_gguf_value_read(zest_gguf_cursor *cursor, uint32_t kind, zest_gguf_value *value);
void zest_gguf_value_clear(zest_gguf_value *value);

/* Elements and bytes of a block; 0: an unknown type. */
int zest_gguf_dequantise_block(uint32_t type, size_t *elements, size_t *bytes);

#endif
