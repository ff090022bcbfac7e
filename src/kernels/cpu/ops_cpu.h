/* What the CPU's instruction sets share: the operations that the bf16 ones take from AVX-512, workspaces, and
 * stored weights with their noise. */
#ifndef ZEST_KERNELS_CPU_OPS_CPU_H
#define ZEST_KERNELS_CPU_OPS_CPU_H

#include "kernels/ops.h"
#include "base/memory.h"

extern const zest_ops zest_ops_avx512bf16, zest_ops_amx;

int zest_avx512_linear(const zest_linear *job, int threads, zest_workspace *scratch);
int zest_avx512_norm(const zest_norm *job, int threads, zest_workspace *scratch);
int zest_avx512_attention(const zest_attention *job, int threads, zest_workspace *scratch);
void zest_avx512_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_dim, size_t rotary_dim,
                        const uint32_t *positions, const float *cosines, const float *sines, int threads,
                        zest_workspace *scratch);
void zest_avx512_gate(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                      zest_workspace *scratch);
int zest_avx512_gather(const zest_gather *job, int threads, zest_workspace *scratch);
void zest_avx512_add_scaled(void *out, const void *x, float factor, const void *y, size_t count, int threads,
                            zest_workspace *scratch);
void zest_avx512_soft_cap(float *x, size_t count, float cap, int threads, zest_workspace *scratch);

/* The AVX-512 table with another linear. */
#define ZEST_AVX512_TABLE(cpu, linear)                                                              \
    {                                                                                               \
        cpu, linear, zest_avx512_norm, zest_avx512_attention, zest_avx512_rotary, zest_avx512_gate, \
            zest_avx512_gather, zest_avx512_add_scaled, zest_avx512_soft_cap, NULL                  \
    }

/* linear with quantised weights: quantized.h. */
int zest_quantized_plain(const zest_linear *job, int threads, zest_workspace *scratch);
int zest_quantized_avx2(const zest_linear *job, int threads, zest_workspace *scratch);
int zest_quantized_vnni(const zest_linear *job, int threads, zest_workspace *scratch);

/* ---- Workspace: the caller's scratch, grown to what an operation needs ---- */

/* Rounds a part of it up, so that no two parts share a cache line. */
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

/* Keys of the longest sequence. */
static inline size_t zest_attention_max_keys(const zest_attention *job) {
    size_t longest = 0;
    for (size_t s = 0; s < job->sequences; s++) {
        size_t keys = zest_attention_keys(job, s);
        if (keys > longest) longest = keys;
    }
    return longest;
}

/* ---- Weights ---- */

static inline const void *zest_weight_at(const zest_weight *weight, size_t element) {
    return (const char *)weight->data + zest_weight_bytes(weight, element);
}

/* Whether lane l sees w + c z and not w. */
static inline int zest_weight_is_perturbed(const zest_weight *weight, const zest_perturbation *p, int lane) {
    return !weight->frozen && p->scale[lane] != 0;
}

static inline int zest_weight_needs_noise(const zest_weight *weight, const zest_perturbation *p) {
    return zest_weight_is_perturbed(weight, p, 0) || (p->lanes > 1 && zest_weight_is_perturbed(weight, p, 1));
}

/* z of `count` elements from `element` on */
static inline void zest_weight_noise(const zest_weight *weight, const zest_perturbation *p,
                                     const zest_noise *noise, size_t element, size_t count, float *z) {
    noise->by_law(&weight->law, p->signs, z, p->seed, weight->first + element, count);
}

#endif
