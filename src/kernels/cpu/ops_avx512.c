/* The forward pass with AVX-512; bf16 operands are rounded to bf16 and multiplied as floats. Bit-identical to
 * ops_plain.c. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"

#include "kernels/cpu/simd_avx512.h"

#define PAIRS 0
enum { TILE_ROWS = 14, TILE_VECTORS = 2, LINEAR_OUTPUTS = 128, LINEAR_CHUNK = 1024 };
#define LINEAR_BLOCK tile_block
#include "kernels/cpu/pack.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"

int zest_levels_linear(const zest_linear *job, int threads, zest_workspace *scratch) {
    return linear(job, threads, scratch);
}

int zest_levels_norm(const zest_norm *job, int threads, zest_workspace *scratch) {
    return norm(job, threads, scratch);
}

int zest_levels_attention(const zest_attention *job, int threads, zest_workspace *scratch) {
    return attention(job, threads, scratch);
}

void zest_levels_rotary(float *x, size_t rows, size_t stride, size_t heads, size_t head_size,
                        const uint32_t *positions, const float *cosines, const float *sines, int threads,
                        zest_workspace *scratch) {
    rotary(x, rows, stride, heads, head_size, positions, cosines, sines, threads, scratch);
}

void zest_levels_gate(float *x, const float *up, size_t count, zest_activation activation, int threads,
                      zest_workspace *scratch) {
    gate(x, up, count, activation, threads, scratch);
}

int zest_levels_gather(const zest_gather *job, int threads, zest_workspace *scratch) {
    return gather(job, threads, scratch);
}

const zest_ops zest_ops_avx512 = ZEST_LEVELS_TABLE(ZEST_CPU_AVX512, linear);
#endif
