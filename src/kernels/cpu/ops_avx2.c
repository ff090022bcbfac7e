/* The operations with AVX2. Bit-identical to ops_plain.c. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"

#include "kernels/cpu/simd_avx2.h"

#define PAIRS 0
enum { TILE_ROWS = 6, TILE_VECTORS = 2, LINEAR_OUTPUTS = 256, LINEAR_CHUNK = 256 };
#define LINEAR_BLOCK tile_block
#include "kernels/cpu/pack.h"
#include "kernels/cpu/gemm_tile.h"
#define LINEAR_QUANTIZED zest_quantized_avx2
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_ops.h"

const zest_ops zest_ops_avx2 = {ZEST_CPU_AVX2, linear, norm,       attention, rotary,
                                gate,          gather, add_scaled, soft_cap,  NULL};

const zest_vector_ops zest_vector_ops_avx2 = ZEST_VECTOR_OPS(ZEST_CPU_AVX2, &zest_noise_avx2);

/* ---- Peak ---- */

double zest_peak_avx2(long loops, const float *data, float *sink) {
    __m256 sums[12], a = _mm256_loadu_ps(data), b = _mm256_loadu_ps(data + 8);
    float out[8];
    for (int j = 0; j < 12; j++) sums[j] = _mm256_loadu_ps(data + 8 * (j + 2));
    for (long i = 0; i < loops; i++) {
        for (int j = 0; j < 12; j++) sums[j] = _mm256_fmadd_ps(a, b, sums[j]);
        __asm__ volatile("" : "+x"(a), "+x"(b)); /* not a constant: nothing may be hoisted */
    }
    for (int j = 0; j < 12; j++) {
        _mm256_storeu_ps(out, sums[j]);
        *sink += out[0] + out[7];
    }
    return 12.0 * 8 * 2 * (double)loops;
}
#endif
