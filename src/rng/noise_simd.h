/* Shared by the vector versions of the noise: slices from whole groups, and signs. */
#ifndef ZEST_RNG_NOISE_SIMD_H
#define ZEST_RNG_NOISE_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rng/normal.h"

/* A group: make(out, key, position) writes `size` elements of `bytes` each, from the Philox blocks starting at
 * position, which have `per_block` elements each. */
typedef struct {
    void (*make)(void *out, uint64_t key, uint64_t position);
    size_t size, per_block, bytes;
} zest_noise_group;

enum { ZEST_NOISE_GROUP_BYTES = 256 };

/* Incomplete groups at the ends of the slice are made in a small buffer and copied. */
static inline __attribute__((always_inline)) void
zest_noise_groups(const zest_noise_group g, void *out, uint64_t seed, uint64_t first, size_t count) {
    unsigned char edge[ZEST_NOISE_GROUP_BYTES], *next = out;
    size_t lead = (size_t)(first % g.per_block);
    if (lead && count) {
        size_t here = count < g.size - lead ? count : g.size - lead;
        g.make(edge, seed, first / g.per_block);
        memcpy(next, edge + lead * g.bytes, here * g.bytes);
        next += here * g.bytes, first += here, count -= here;
    }
    for (; count >= g.size; next += g.size * g.bytes, first += g.size, count -= g.size)
        g.make(next, seed, first / g.per_block);
    if (count) {
        g.make(edge, seed, first / g.per_block);
        memcpy(next, edge, count * g.bytes);
    }
}

/* ---- Signs from bits. Each noise file compiles this code with its own flags ---- */

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
        if (from == 0 && count - i >= 128) { /* a complete block: loops of fixed length are vectorised */
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
