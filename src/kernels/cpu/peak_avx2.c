#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/peak.h"

double zest_ceiling_avx2(long loops, const float *data, float *sink) {
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
