/* What the levels of the CPU share: their tables, and the operations that the bf16 levels take over from
 * AVX-512. */
#ifndef ZEST_KERNELS_CPU_OPS_CPU_H
#define ZEST_KERNELS_CPU_OPS_CPU_H

#include "kernels/ops.h"
#include "base/memory.h"

extern const zest_ops zest_ops_avx512bf16, zest_ops_amx;

int zest_levels_linear(const zest_linear *job, int threads, zest_workspace *scratch);
int zest_levels_norm(const zest_norm *job, int threads, zest_workspace *scratch);
int zest_levels_attention(const zest_attention *job, int threads, zest_workspace *scratch);
void zest_levels_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_size,
                        const uint32_t *positions, const float *cosines, const float *sines, int threads,
                        zest_workspace *scratch);
void zest_levels_gate(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                      zest_workspace *scratch);
int zest_levels_gather(const zest_gather *job, int threads, zest_workspace *scratch);

/* A table with its own linear. */
#define ZEST_LEVELS_TABLE(level, linear)                                                              \
    {                                                                                                 \
        level, linear, zest_levels_norm, zest_levels_attention, zest_levels_rotary, zest_levels_gate, \
            zest_levels_gather, NULL                                                                  \
    }

/* Room for one call: the caller's scratch, grown to what the operation needs and handed out in pieces. */

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

/* Stored weights as floats, and the noise that goes with them. */

static inline const void *zest_weight_at(const zest_weight *weight, size_t element) {
    return (const char *)weight->data + element * zest_dtype_size(weight->dtype);
}

/* Whether lane l sees anything but the stored weights. */
static inline int zest_weight_moves(const zest_weight *weight, const zest_perturbation *p, int lane) {
    return !weight->frozen && p->scale[lane] != 0;
}

static inline int zest_weight_needs_noise(const zest_weight *weight, const zest_perturbation *p) {
    return zest_weight_moves(weight, p, 0) || (p->lanes > 1 && zest_weight_moves(weight, p, 1));
}

/* z of `count` elements from `element` on */
static inline void zest_weight_noise(const zest_weight *weight, const zest_perturbation *p,
                                     const zest_noise *noise, size_t element, size_t count, float *z) {
    (p->signs ? noise->sign : noise->normal)(z, p->seed, weight->first + element, count);
}

#endif
