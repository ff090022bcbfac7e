/* bf16 arithmetic with AVX512_BF16: vdpbf16ps multiplies pairs. It adds the second product of a pair, then
 * the first, each with one rounding, so the result equals ops_plain.c but for subnormal numbers, which it
 * takes for zeros. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"

#include "kernels/cpu/simd_avx512.h"

#define PAIRS 1
enum { TILE_ROWS = 14, TILE_VECTORS = 2, LINEAR_OUTPUTS = 128, LINEAR_CHUNK = 2048 };
#define LINEAR_BLOCK tile_block
#include "kernels/cpu/pack.h"
#include "kernels/cpu/gemm_tile.h"
#define LINEAR_QUANTIZED zest_quantized_vnni
#include "kernels/cpu/gemm.h"

static int linear_either(const zest_linear *job, int threads, zest_workspace *scratch) {
    return (job->compute == ZEST_COMPUTE_BF16 || job->weight.block_type ? linear : zest_avx512_linear)(
        job, threads, scratch);
}

const zest_ops zest_ops_avx512bf16 = ZEST_AVX512_TABLE(ZEST_CPU_AVX512BF16, linear_either);

/* ---- Peak ---- */

double zest_peak_avx512bf16(long loops, const float *data, float *sink) {
    __m512 sums[16];
    __m512bh a = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(data), _mm512_loadu_ps(data + 16));
    __m512bh b = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(data + 32), _mm512_loadu_ps(data + 48));
    for (int j = 0; j < 16; j++) sums[j] = _mm512_loadu_ps(data + 16 * (j + 4));
    for (long i = 0; i < loops; i++) {
        for (int j = 0; j < 16; j++) sums[j] = _mm512_dpbf16_ps(sums[j], a, b);
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* not a constant: nothing may be hoisted */
    }
    for (int j = 0; j < 16; j++) *sink += _mm512_reduce_add_ps(sums[j]);
    return 16.0 * 32 * 2 * (double)loops;
}
#endif
