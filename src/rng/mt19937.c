/* MT19937 as in NumPy's legacy generator. */
#include "rng/mt19937.h"

enum { N = ZEST_MT19937_WORDS, SHIFT = 397 };

void zest_mt19937_seed(zest_mt19937 *state, uint32_t seed) {
    state->word[0] = seed;
    for (uint32_t i = 1; i < N; i++) {
        uint32_t before = state->word[i - 1];
        state->word[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    state->next = N;
}

/* Generates the next 624 words. */
static void generate(uint32_t *word) {
    for (int i = 0; i < N; i++) {
        uint32_t joined = (word[i] & 0x80000000u) | (word[(i + 1) % N] & 0x7FFFFFFFu);
        word[i] = word[(i + SHIFT) % N] ^ (joined >> 1) ^ (joined & 1 ? 0x9908B0DFu : 0);
    }
}

uint32_t zest_mt19937_next(zest_mt19937 *state) {
    if (state->next == N) {
        generate(state->word);
        state->next = 0;
    }
    uint32_t y = state->word[state->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
}

uint32_t zest_mt19937_below(zest_mt19937 *state, uint32_t max) {
    uint32_t mask = max, value;
    if (!max) return 0; /* NumPy draws nothing here */
    for (unsigned shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    do value = zest_mt19937_next(state) & mask;
    while (value > max);
    return value;
}

void zest_mt19937_shuffle(zest_mt19937 *state, uint32_t *values, size_t count) {
    for (size_t i = count; i-- > 1;) {
        uint32_t j = zest_mt19937_below(state, (uint32_t)i), swapped = values[i];
        values[i] = values[j];
        values[j] = swapped;
    }
}

void zest_mt19937_permutation(uint32_t seed, uint32_t *out, size_t count) {
    zest_mt19937 state;
    zest_mt19937_seed(&state, seed);
    for (size_t i = 0; i < count; i++) out[i] = (uint32_t)i;
    zest_mt19937_shuffle(&state, out, count);
}
