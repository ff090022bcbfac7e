/* Batches: examples packed behind each other, without padding, and what is asked of them. */
#ifndef ZEST_TASK_BATCH_H
#define ZEST_TASK_BATCH_H

#include <stddef.h>

#include "task/examples.h"
#include "model/loss.h"
#include "rng/philox.h"

typedef enum {
    ZEST_BATCH_TRAIN, /* the loss that training minimises */
    ZEST_BATCH_SCORE  /* every option, to choose between them */
} zest_batch_purpose;

/* What is asked:
 *                      TRAIN                               SCORE
 *   masked             WORDS                               WORDS
 *   classes, choices   OPTIONS                             OPTIONS
 *   as_text choices    TOKENS of the right option          OPTIONS
 *   TEXT               TOKENS of the first right text      the same
 *
 * Grows to what is needed and is used again from batch to batch; the objective points into it, so it is not
 * to be copied. Start with {0}. */
typedef struct {
    zest_model_batch batch;
    zest_model_objective objective;
    const zest_examples *examples; /* which must outlive the batch */
    const uint32_t *which;         /* the number of each example of the batch: a copy */
    size_t count;
    uint32_t *room; /* everything the two point to */
    size_t room_count;
} zest_batch;

/* Packs the examples which[0 .. count-1], at least one. Options share their common first tokens in the batch
 * (causal models): these are a sequence, which every option that goes on continues; the last token of a text
 * is only a target and never part of the batch. So options of one token cost nothing beside the prompt. */
zest_status zest_batch_make(zest_batch *batch, const zest_examples *examples, const uint32_t *which,
                            size_t count, zest_batch_purpose purpose, zest_error *error);
void zest_batch_free(zest_batch *batch);

/* How many tokens an example adds to a batch. */
size_t zest_batch_tokens(const zest_examples *examples, uint32_t which, zest_batch_purpose purpose);

/* Whole numbers from a counter generator: for the order of examples, for resampling and for masking them. */

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
