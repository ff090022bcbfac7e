/* Slices of raw noise: z_i for i = first .. first+count-1, with the same bits for every slice and every
 * instruction set. */
#ifndef ZEST_RNG_NOISE_H
#define ZEST_RNG_NOISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

typedef void zest_noise_fill(float *out, uint64_t seed, uint64_t first, size_t count);

typedef struct zest_noise_law zest_noise_law; /* rng/noise_law.h */

/* One table per instruction set; the plain one is the definition. */
typedef struct {
    zest_noise_fill *normal; /* standard normals, four per Philox block */
    zest_noise_fill *sign;   /* +1 or -1, 128 per Philox block */
    void (*round)(uint16_t *out, uint64_t seed, uint64_t first, size_t count); /* 16 random bits each */
    /* The noise of elements of one tensor: signs or normals, by the tensor's law. */
    void (*by_law)(const zest_noise_law *law, int signs, float *out, uint64_t seed, uint64_t first,
                   size_t count);
    /* Of a law of low rank: elements of the vector of factor j over the rows (side 0) or columns (1). */
    void (*vector)(const zest_noise_law *law, int signs, int side, uint64_t j, float *out, uint64_t seed,
                   uint64_t first, size_t count);
} zest_noise;

const zest_noise *zest_noise_for(zest_cpu cpu);

/* The tables themselves, for noise.c; a level the compiler could not build is NULL there. */
extern const zest_noise zest_noise_plain, zest_noise_avx2, zest_noise_avx512;

/* ---- Seeds of directions ---- */

/* A bijection of the 64-bit numbers that mixes every bit into every other (Stafford's variant 13 of the
 * MurmurHash3 finaliser). */
static inline uint64_t zest_seed_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#define ZEST_SEED_INDEX_BITS 24

/* The index, in a step, of the seed of its stochastic rounding. No direction has it: k and the ball pairs end
 * below. */
enum { ZEST_SEED_ROUNDING = (1 << ZEST_SEED_INDEX_BITS) - 1 };

#endif
