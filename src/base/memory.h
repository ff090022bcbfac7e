/* Large blocks of memory. */
#ifndef ZEST_BASE_MEMORY_H
#define ZEST_BASE_MEMORY_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ZEST_MEMORY_LINE = 64, ZEST_MEMORY_PAGE = 2 << 20 };

/* Starts on a cache line; a block of some megabytes starts on a large page and asks for such pages, since
 * sweeping it through small ones would cost the page table as much as the data. To be freed with free. NULL:
 * there is not enough. */
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

#endif
