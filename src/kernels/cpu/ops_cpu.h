/* What the levels of the CPU share: their tables, and the operations that the bf16 levels take over from
 * AVX-512. */
#ifndef ZEST_KERNELS_CPU_OPS_CPU_H
#define ZEST_KERNELS_CPU_OPS_CPU_H

#include "kernels/ops.h"

extern const zest_ops zest_ops_avx512bf16, zest_ops_amx;

int zest_levels_linear(const zest_linear *job, int threads, zest_workspace *scratch);
int zest_levels_norm(const zest_norm *job, int threads, zest_workspace *scratch);
int zest_levels_attention(const zest_attention *job, int threads, zest_workspace *scratch);
void zest_levels_rotary(float *x, size_t rows, size_t stride, size_t heads, size_t head_size,
                        const uint32_t *positions, const float *cosines, const float *sines, int threads,
                        zest_workspace *scratch);
void zest_levels_gate(float *gate, const float *up, size_t count, zest_activation activation, int threads,
                      zest_workspace *scratch);
int zest_levels_gather(const zest_gather *job, int threads, zest_workspace *scratch);

/* A table with its own linear. */
#define ZEST_LEVELS_TABLE(level, linear)                                                              \
    {                                                                                                 \
        level, linear, zest_levels_norm, zest_levels_attention, zest_levels_rotary, zest_levels_gate, \
            zest_levels_gather, NULL                                                                  \
    }

#endif
