/* Products with quantised weights with AVX2: products of bytes are added in pairs as 16-bit integers, which cannot
 * overflow here (128·127·2), then in fours. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/simd_avx2.h"

#define Q_DOT(u, s) _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1))
#define QUANTIZED zest_quantized_avx2
#include "kernels/cpu/quantized_simd.h"
#endif
