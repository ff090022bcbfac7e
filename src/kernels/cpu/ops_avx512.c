/* The operations with AVX-512; bf16 operands are rounded to bf16 and multiplied as floats. Bit-identical to
 * ops_plain.c. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"

#include "kernels/cpu/simd_avx512.h"

#define PAIRS 0
enum { TILE_ROWS = 14, TILE_VECTORS = 2, LINEAR_OUTPUTS = 128, LINEAR_CHUNK = 1024 };
#define LINEAR_BLOCK tile_block
#include "kernels/cpu/pack.h"
#include "kernels/cpu/gemm_tile.h"
#define LINEAR_QUANTIZED zest_quantized_avx2
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_ops.h"

int zest_avx512_linear(const zest_linear *job, int threads, zest_workspace *scratch) {
    return linear(job, threads, scratch);
}

int zest_avx512_norm(const zest_norm *job, int threads, zest_workspace *scratch) {
    return norm(job, threads, scratch);
}

int zest_avx512_attention(const zest_attention *job, int threads, zest_workspace *scratch) {
    return attention(job, threads, scratch);
}

void zest_avx512_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_dim, size_t rotary_dim,
                        const uint32_t *positions, const float *cosines, const float *sines, int threads,
                        zest_workspace *scratch) {
    rotary(x, rows, stride, heads, head_dim, rotary_dim, positions, cosines, sines, threads, scratch);
}

void zest_avx512_gate(void *x, const void *up, size_t count, zest_activation activation, int threads,
                      zest_workspace *scratch) {
    gate(x, up, count, activation, threads, scratch);
}

int zest_avx512_gather(const zest_gather *job, int threads, zest_workspace *scratch) {
    return gather(job, threads, scratch);
}

void zest_avx512_add_scaled(void *out, const void *x, float factor, const void *y, size_t count, int threads,
                            zest_workspace *scratch) {
    add_scaled(out, x, factor, y, count, threads, scratch);
}

void zest_avx512_soft_cap(float *x, size_t count, float cap, int threads, zest_workspace *scratch) {
    soft_cap(x, count, cap, threads, scratch);
}

const zest_ops zest_ops_avx512 = ZEST_AVX512_TABLE(ZEST_CPU_AVX512, linear);

const zest_vector_ops zest_vector_ops_avx512 = ZEST_VECTOR_OPS(ZEST_CPU_AVX512, &zest_noise_avx512);

/* ---- Peak ---- */

/* Twelve independent sums hide the latency of the fused multiply-add. */
double zest_peak_avx512(long loops, const float *data, float *sink) {
    __m512 sums[12], a = _mm512_loadu_ps(data), b = _mm512_loadu_ps(data + 16);
    for (int j = 0; j < 12; j++) sums[j] = _mm512_loadu_ps(data + 16 * (j + 2));
    for (long i = 0; i < loops; i++) {
        for (int j = 0; j < 12; j++) sums[j] = _mm512_fmadd_ps(a, b, sums[j]);
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* not a constant: nothing may be hoisted */
    }
    for (int j = 0; j < 12; j++) *sink += _mm512_reduce_add_ps(sums[j]);
    return 12.0 * 16 * 2 * (double)loops;
}
#endif
