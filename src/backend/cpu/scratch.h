/* Room for one call: the caller's scratch, grown to what the operation needs and handed out in pieces. */
#ifndef ZEST_BACKEND_CPU_SCRATCH_H
#define ZEST_BACKEND_CPU_SCRATCH_H

#include <stdlib.h>
#include <sys/mman.h>

#include "backend/forward.h"

enum { ZEST_SCRATCH_LINE = 64, ZEST_SCRATCH_PAGE = 2 << 20 };

/* A piece never shares a cache line with the next one. */
static inline size_t zest_scratch_round(size_t bytes) {
    return (bytes + ZEST_SCRATCH_LINE - 1) / ZEST_SCRATCH_LINE * ZEST_SCRATCH_LINE;
}

/* 0 when `bytes` are there; what they held before is lost when they had to grow. Large rooms ask for huge
 * pages: packed operands are walked in many streams at once, and small pages would miss in the TLB. That is a
 * wish, so its failure does not matter. */
static inline int zest_scratch_reserve(zest_scratch *scratch, size_t bytes) {
    if (bytes <= scratch->size && scratch->data) return 0;
    size_t unit = bytes >= ZEST_SCRATCH_PAGE ? ZEST_SCRATCH_PAGE : ZEST_SCRATCH_LINE;
    size_t size = bytes ? (bytes + unit - 1) / unit * unit : unit;
    free(scratch->data);
    scratch->size = 0;
    scratch->data = aligned_alloc(unit, size);
    if (!scratch->data) return -1;
    scratch->size = size;
#ifdef MADV_HUGEPAGE
    if (unit == ZEST_SCRATCH_PAGE) (void)madvise(scratch->data, size, MADV_HUGEPAGE);
#endif
    return 0;
}

#endif
