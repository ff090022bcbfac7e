#include "task/permutation.h"

#include "task/examples.h"

static uint32_t next_word(zest_permutation *d) {
    if (!d->left) {
        zest_philox_block at = {{d->counter++, (uint32_t)d->number, d->stream, (uint32_t)(d->number >> 32)}};
        d->block = zest_philox(at, d->key);
        d->left = 4;
    }
    return d->block.word[4 - d->left--];
}

/* The high half of word × bound. Of the 2^32 words some values get one more than others: the low half tells
 * which those are, and they are drawn again (Lemire, "Fast random integer generation in an interval", 2019).
 */
uint32_t zest_permutation_below(zest_permutation *draw, uint32_t bound) {
    uint64_t product = (uint64_t)next_word(draw) * bound;
    if ((uint32_t)product < bound) {
        uint32_t surplus = (0u - bound) % bound;
        while ((uint32_t)product < surplus) product = (uint64_t)next_word(draw) * bound;
    }
    return (uint32_t)(product >> 32);
}

void zest_permutation_fill(uint64_t seed, uint64_t epoch, uint32_t *order, size_t count) {
    zest_permutation draw = {.key = seed, .number = epoch, .stream = ZEST_EXAMPLES_ORDER};
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count; i-- > 1;) {
        uint32_t j = zest_permutation_below(&draw, (uint32_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

void zest_examples_order(const zest_examples *examples, uint64_t seed, uint64_t epoch, uint32_t *order) {
    zest_permutation_fill(seed, epoch, order, examples->count);
}
