/* Noise in plain C, which defines the bits; dispatch to the vector versions; seeds of directions. */
#include "rng/noise.h"
#include "rng/noise_law.h"
#include "rng/noise_simd.h"
#include "rng/normal.h"
#include "zest.h"

static void fill_normal(float *out, uint64_t seed, uint64_t first, size_t count) {
    float block[4];
    for (size_t i = 0; i < count;) {
        uint64_t element = first + i;
        zest_normal4(seed, ZEST_STREAM_NORMAL, element / 4, block);
        for (unsigned word = (unsigned)(element % 4); word < 4 && i < count; word++) out[i++] = block[word];
    }
}

/* Sixteen random bits for every element, for stochastic rounding. */
static void fill_round(uint16_t *out, uint64_t seed, uint64_t first, size_t count) {
    for (size_t i = 0; i < count;) {
        uint64_t element = first + i;
        zest_philox_block bits = zest_philox_at(seed, ZEST_STREAM_ROUND, element / 8);
        for (unsigned half = (unsigned)(element % 8); half < 8 && i < count; half++)
            out[i++] = (uint16_t)(bits.word[half / 2] >> 16 * (half % 2));
    }
}

ZEST_NOISE_LAW_FUNCTION(fill_normal, zest_noise_sign_fill)

const zest_noise zest_noise_plain = {fill_normal, zest_noise_sign_fill, fill_round, fill_by_law, fill_vector};

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

/* For a given run this is a chain of bijections of (step, index), so no two directions of a run can collide. */
uint64_t zest_seed(uint64_t run, uint64_t step, uint64_t index) {
    uint64_t counter = (step << ZEST_SEED_INDEX_BITS) | (index & ((1u << ZEST_SEED_INDEX_BITS) - 1));
    return zest_seed_mix(counter ^ zest_seed_mix(run + 0x9E3779B97F4A7C15u));
}
