/* Whole numbers from a counter generator: for the order of examples and for resampling them. */
#ifndef ZEST_DATA_EXAMPLES_DRAW_H
#define ZEST_DATA_EXAMPLES_DRAW_H

#include "rng/philox.h"

/* Apart from the streams of rng/philox.h. */
enum { ZEST_EXAMPLES_ORDER = 16, ZEST_EXAMPLES_RESAMPLE = 17 };

/* The words of Philox under a key, at the counters {0, 1, ...; low half of number; stream; high half}. */
typedef struct {
    uint64_t key, number;
    uint32_t stream, counter;
    int left; /* of the block */
    zest_philox_block block;
} zest_examples_draw;

/* Uniform below `bound`, which is at least 1. */
uint32_t zest_examples_draw_below(zest_examples_draw *draw, uint32_t bound);

#endif
