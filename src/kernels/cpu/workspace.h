/* Room for one call: the caller's scratch, grown to what the operation needs and handed out in pieces. */
#ifndef ZEST_KERNELS_CPU_WORKSPACE_H
#define ZEST_KERNELS_CPU_WORKSPACE_H

#include "kernels/ops.h"
#include "base/memory.h"

/* A piece never shares a cache line with the next one. */
static inline size_t zest_scratch_round(size_t bytes) {
    return (bytes + ZEST_MEMORY_LINE - 1) / ZEST_MEMORY_LINE * ZEST_MEMORY_LINE;
}

/* 0 when `bytes` are there; what they held before is lost when they had to grow. */
static inline int zest_scratch_reserve(zest_workspace *scratch, size_t bytes) {
    if (bytes <= scratch->size && scratch->data) return 0;
    free(scratch->data);
    scratch->data = zest_memory_new(bytes);
    scratch->size = scratch->data ? bytes : 0;
    return scratch->data ? 0 : -1;
}

/* Keys of the longest sequence: what the room of an attention depends on. */
static inline size_t zest_scratch_keys(const zest_attention *job) {
    size_t longest = 0;
    for (size_t s = 0; s < job->sequences; s++) {
        size_t keys = zest_attention_keys(job, s);
        if (keys > longest) longest = keys;
    }
    return longest;
}

#endif
