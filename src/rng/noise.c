#include "rng/noise.h"

#include "rng/noise_sign.h"
#include "rng/normal.h"

static void fill_normal(float *out, uint64_t seed, uint64_t first, size_t count) {
    float block[4];
    for (size_t i = 0; i < count;) {
        uint64_t element = first + i;
        zest_normal4(seed, ZEST_STREAM_NORMAL, element / 4, block);
        for (unsigned word = (unsigned)(element % 4); word < 4 && i < count; word++) out[i++] = block[word];
    }
}

const zest_noise zest_noise_plain = {fill_normal, zest_noise_sign_fill, zest_noise_round_fill};

const zest_noise *zest_noise_for(zest_cpu cpu) {
    switch (cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX:
    case ZEST_CPU_AVX512BF16:
    case ZEST_CPU_AVX512: return &zest_noise_avx512;
    case ZEST_CPU_AVX2: return &zest_noise_avx2;
#endif
    default: return &zest_noise_plain;
    }
}
