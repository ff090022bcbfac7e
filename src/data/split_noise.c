/* Label noise: exactly round(fraction·count) of the labels, chosen uniformly without replacement, are each
 * replaced by one of the other classes, uniformly. The draws are the words of Philox under the key
 * seed + 2^32·part (0 train, 1 dev), stream 17, in order: one number below count-i for the i-th label
 * chosen (a Fisher-Yates shuffle from the front, stopped early), then one below classes-1 for what it
 * becomes. A number below n is a word's low bits, drawn again while they are n or more. */
#include <math.h>
#include <stdlib.h>

#include "data/split_internal.h"
#include "rng/philox.h"

enum { STREAM = 17 }; /* beside those of rng/philox.h, and 16 for the order of examples */

typedef struct {
    uint64_t key, drawn;
    zest_philox_block block;
} words;

static uint32_t next_word(words *w) {
    if (w->drawn % 4 == 0) w->block = zest_philox_at(w->key, STREAM, w->drawn / 4);
    return w->block.word[w->drawn++ % 4];
}

static uint32_t draw_below(words *w, uint32_t n) {
    uint32_t mask = n - 1, value;
    if (!mask) return 0;
    for (unsigned shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    do value = next_word(w) & mask;
    while (value >= n);
    return value;
}

static zest_status check(const zest_split *split, size_t classes, double fraction, zest_error *error) {
    if (!(fraction >= 0 && fraction <= 1))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "label noise %g: must be a fraction from 0 to 1, as 0.3", fraction);
    if (!split->answers && split->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "label noise: the split has no classes");
    if (classes < 2)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "label noise: one class has no other to switch to");
    return ZEST_OK;
}

zest_status zest_split_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                             zest_split_noise_part part, zest_error *error) {
    zest_status status = check(split, classes, fraction, error);
    if (status) return status;
    size_t count = split->count, wanted = (size_t)round(fraction * (double)count);
    uint32_t *order = malloc((count + 1) * sizeof *order);
    if (!order) return zest_error_memory(error, "label noise", count * sizeof *order);
    words w = {.key = seed | (uint64_t)part << 32};
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = 0; i < wanted; i++) {
        size_t chosen = i + draw_below(&w, (uint32_t)(count - i));
        uint32_t *answer = &split->answers[order[chosen]];
        order[chosen] = order[i];
        uint32_t other = draw_below(&w, (uint32_t)(classes - 1));
        *answer = other + (other >= *answer);
    }
    free(order);
    return ZEST_OK;
}

zest_status zest_split_add_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                                 zest_error *error) {
    return zest_split_noise(split, classes, fraction, seed, ZEST_SPLIT_NOISE_TRAIN, error);
}
