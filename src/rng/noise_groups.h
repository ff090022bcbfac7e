/* From whole groups of noise to any slice: shared by the vector versions. */
#ifndef ZEST_RNG_NOISE_GROUPS_H
#define ZEST_RNG_NOISE_GROUPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What a group is: group(out, key, position) writes `size` elements of `bytes` each, those of the Philox
 * blocks from position on, which hold `per_block` elements each. */
typedef struct {
    void (*make)(void *out, uint64_t key, uint64_t position);
    size_t size, per_block, bytes;
} zest_noise_group;

enum { ZEST_NOISE_GROUP_BYTES = 256 };

/* The ends of the slice that do not fill a group are made in a small buffer and copied. */
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

#endif
