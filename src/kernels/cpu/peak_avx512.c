#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/peak.h"

/* Twelve independent sums hide the latency of the fused multiply-add. */
double zest_ceiling_avx512(long loops, const float *data, float *sink) {
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
