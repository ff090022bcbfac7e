/* Seeds of directions. */
#ifndef ZEST_RNG_SEED_H
#define ZEST_RNG_SEED_H

#include <stdint.h>

/* A bijection of the 64-bit numbers that mixes every bit into every other (Stafford's variant 13 of the
 * MurmurHash3 finaliser). */
static inline uint64_t zest_seed_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#define ZEST_SEED_INDEX_BITS 24

#endif
