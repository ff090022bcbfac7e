#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/peak.h"

double zest_ceiling_avx512bf16(long loops, const float *data, float *sink) {
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
