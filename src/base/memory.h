/* Large aligned blocks, and a growing buffer of bytes. */
#ifndef ZEST_BASE_MEMORY_H
#define ZEST_BASE_MEMORY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ZEST_MEMORY_LINE = 64, ZEST_MEMORY_PAGE = 2 << 20 };

/* Aligned to a cache line; a block of several megabytes is aligned to a huge page and requests huge pages, since
 * with small ones page-table misses would cost as much as the data. To be freed with free. NULL: out of memory. */
static inline void *zest_memory_new(size_t bytes) {
    size_t unit = bytes >= 2 * (size_t)ZEST_MEMORY_PAGE ? ZEST_MEMORY_PAGE : ZEST_MEMORY_LINE;
    if (bytes > (size_t)-1 - unit) return NULL;
    size_t size = (bytes + unit - 1) / unit * unit;
    void *data = aligned_alloc(unit, size ? size : unit);
#ifdef MADV_HUGEPAGE
    if (data && unit == ZEST_MEMORY_PAGE) (void)madvise(data, size, MADV_HUGEPAGE);
#endif
    return data;
}

/* A growing buffer: for text under construction, and for the content of files. Start with {0}. data is always
 * NUL-terminated once something was added. When out of memory, failed is set and further additions do nothing,
 * so a caller checks once, at the end. */
typedef struct {
    char *data;
    size_t size, capacity;
    int failed;
} zest_buffer;

void zest_buffer_add(zest_buffer *buffer, const void *bytes, size_t size);
void zest_buffer_text(zest_buffer *buffer, const char *text);
void zest_buffer_format(zest_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void zest_buffer_vformat(zest_buffer *buffer, const char *format, va_list arguments);
void zest_buffer_free(zest_buffer *buffer);

#endif
