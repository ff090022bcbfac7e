#include "backend/ceiling.h"

#include <math.h>

#include "base/clock.h"

enum { FLOATS = 1024, ROUNDS = 25, LOOPS = 1000000 };

double zest_ceiling_plain(long loops, const float *data, float *sink) {
    float sums[8] = {0};
    for (long i = 0; i < loops; i++)
        for (int j = 0; j < 8; j++) sums[j] += data[j] * data[8 + j];
    for (int j = 0; j < 8; j++) *sink += sums[j];
    return 16.0 * (double)loops;
}

static zest_ceiling_round *round_for(zest_cpu cpu, zest_compute compute) {
#if defined(__x86_64__)
    if (compute == ZEST_COMPUTE_BF16 && cpu >= ZEST_CPU_AMX) return zest_ceiling_amx;
    if (compute == ZEST_COMPUTE_BF16 && cpu >= ZEST_CPU_AVX512BF16) return zest_ceiling_avx512bf16;
    if (cpu >= ZEST_CPU_AVX512) return zest_ceiling_avx512;
    if (cpu >= ZEST_CPU_AVX2) return zest_ceiling_avx2;
#endif
    (void)cpu, (void)compute;
    return zest_ceiling_plain;
}

double zest_ceiling_measure(zest_cpu cpu, zest_compute compute, int threads) {
    zest_ceiling_round *round = round_for(cpu, compute);
    _Alignas(64) float data[FLOATS];
    double best = 0;
    zest_noise_for(cpu)->normal(data, 1, 0, FLOATS);
    for (int i = 0; i < ROUNDS; i++) {
        double done = 0, began = zest_clock_now();
        float kept = 0;
#pragma omp parallel num_threads(threads) reduction(+ : done, kept)
        done += round(LOOPS, data, &kept);
        double rate = done / (zest_clock_now() - began);
        /* kept depends on every product; it is never NaN, but the compiler cannot know */
        if (rate > best && !isnan(kept)) best = rate;
    }
    return best;
}
