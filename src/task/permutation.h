/* Whole numbers from a counter generator: for the order of examples, for resampling and for masking them. */
#ifndef ZEST_TASK_PERMUTATION_H
#define ZEST_TASK_PERMUTATION_H

#include <stddef.h>

#include "rng/philox.h"

/* Apart from the streams of rng/philox.h. */
enum {
    ZEST_EXAMPLES_ORDER = 16,
    ZEST_EXAMPLES_RESAMPLE = 17,
    ZEST_CORPUS_MASKS = 18,    /* number: step and place in the batch */
    ZEST_CORPUS_HELD_OUT = 19, /* which documents are; number: the document */
    ZEST_CORPUS_FIXED = 20,    /* masks of what is held out; number: the sequence */
};

/* The words of Philox under a key, at the counters {0, 1, ...; low half of number; stream; high half}. */
typedef struct {
    uint64_t key, number;
    uint32_t stream, counter;
    int left; /* of the block */
    zest_philox_block block;
} zest_permutation;

/* Uniform below `bound`, which is at least 1. */
uint32_t zest_permutation_below(zest_permutation *draw, uint32_t bound);
/* The order of an epoch: see zest_examples_order. */
void zest_permutation_fill(uint64_t seed, uint64_t epoch, uint32_t *order, size_t count);

#endif
