/* NumPy's legacy generator (numpy.random.seed, shuffle and permutation): published splits were drawn with it,
 * so the same draws are needed to have the same rows. Matsumoto and Nishimura's MT19937 of 1998, seeded by
 * init_genrand. Nothing else in zest uses it. */
#ifndef ZEST_RNG_MT19937_H
#define ZEST_RNG_MT19937_H

#include <stddef.h>
#include <stdint.h>

enum { ZEST_MT19937_WORDS = 624 };

typedef struct {
    uint32_t word[ZEST_MT19937_WORDS];
    unsigned next;
} zest_mt19937;

void zest_mt19937_seed(zest_mt19937 *state, uint32_t seed);
uint32_t zest_mt19937_next(zest_mt19937 *state);
/* Uniform in 0 .. max: the low bits of a draw, drawn again while they exceed max. */
uint32_t zest_mt19937_below(zest_mt19937 *state, uint32_t max);
/* numpy.random.shuffle: from the end, each element swapped with one at or before it. */
void zest_mt19937_shuffle(zest_mt19937 *state, uint32_t *values, size_t count);
/* numpy.random.RandomState(seed).permutation(count) */
void zest_mt19937_permutation(uint32_t seed, uint32_t *out, size_t count);

#endif
