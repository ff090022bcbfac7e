/* From whole groups of normals to any slice: shared by the vector versions. */
#ifndef ZEST_RNG_NOISE_GROUPS_H
#define ZEST_RNG_NOISE_GROUPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ZEST_NOISE_LARGEST_GROUP = 64 };

/* group(out, key, position) writes `size` normals, those of the Philox blocks from position on. The ends of
 * the slice that do not fill a group are made in a small buffer and copied. */
static inline void zest_noise_groups(void (*group)(float *, uint64_t, uint64_t), size_t size, float *out,
                                     uint64_t seed, uint64_t first, size_t count) {
    float edge[ZEST_NOISE_LARGEST_GROUP];
    size_t lead = (size_t)(first % 4);
    if (lead && count) {
        size_t here = count < size - lead ? count : size - lead;
        group(edge, seed, first / 4);
        memcpy(out, edge + lead, here * sizeof *out);
        out += here, first += here, count -= here;
    }
    for (; count >= size; out += size, first += size, count -= size) group(out, seed, first / 4);
    if (count) {
        group(edge, seed, first / 4);
        memcpy(out, edge, count * sizeof *out);
    }
}

#endif
