/* Signs from bits. One text for every instruction set: each noise file compiles
 * it with its own flags. */
#ifndef ZEST_RNG_NOISE_SIGN_H
#define ZEST_RNG_NOISE_SIGN_H

#include <stddef.h>

#include "rng/normal.h"

/* Bit b of word as +1 (clear) or -1 (set). */
static inline float zest_noise_sign_of(uint32_t word, unsigned b) {
    return zest_normal_float(0x3F800000u | ((word << (31 - b)) & 0x80000000u));
}

static void zest_noise_sign_fill(float *out, uint64_t seed, uint64_t first, size_t count) {
    size_t i = 0;
    while (i < count) {
        uint64_t element = first + i;
        zest_philox_block bits = zest_philox_at(seed, ZEST_STREAM_SIGN, element / 128);
        unsigned from = (unsigned)(element % 128);
        if (from == 0 && count - i >= 128) { /* a whole block: loops of fixed length become vector code */
            for (unsigned w = 0; w < 4; w++)
                for (unsigned b = 0; b < 32; b++) out[i + 32 * w + b] = zest_noise_sign_of(bits.word[w], b);
            i += 128;
        } else {
            for (unsigned b = from; b < 128 && i < count; b++)
                out[i++] = zest_noise_sign_of(bits.word[b / 32], b % 32);
        }
    }
}

#endif
