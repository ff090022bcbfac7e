/* The same with VNNI, which every CPU with AVX512_BF16 has: one instruction adds four products of bytes. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/simd_avx2.h"

#define Q_DOT(u, s) _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, s)
#define QUANTIZED zest_quantized_vnni
#include "kernels/cpu/quantized_simd.h"
#endif
