/* Batches: examples packed contiguously, without padding, with their training or scoring objective. */
#ifndef ZEST_TASK_BATCH_H
#define ZEST_TASK_BATCH_H

#include <stddef.h>

#include "model/loss.h"
#include "rng/philox.h"
#include "task/examples.h"

typedef enum {
    ZEST_BATCH_TRAIN, /* the training loss */
    ZEST_BATCH_SCORE  /* scores of all options, to choose between them */
} zest_batch_purpose;

/* The objective:
 *                      TRAIN                               SCORE
 * masked             label-word loss                     the same
 * classes, choices   multiple-choice loss                the same
 * as_text choices    token loss of the right option      multiple-choice loss
 * TEXT               token loss of the first answer      the same
 * CHAT               token loss of the assistant's turns the same
 *
 * The buffer grows as needed and is reused. The objective points into it, so a batch must not be copied.
 * Start with {0}. */
typedef struct {
    zest_model_batch batch;
    zest_model_objective objective;
    const zest_examples *examples; /* must outlive the batch */
    const uint32_t *which;         /* indices of the examples: a copy */
    size_t count;
    uint32_t *buffer; /* memory of the batch and the objective */
    size_t buffer_count;
} zest_batch;

/* Packs the examples which[0 .. count-1], at least one. The options of an example share their common
 * prefix (causal models): it is one sequence, which the others continue. The last token of a text is only
 * a target and not part of the batch, so options of one token add no tokens to the prompt. */
zest_status zest_batch_make(zest_batch *batch, const zest_examples *examples, const uint32_t *which,
                            size_t count, zest_batch_purpose purpose, zest_error *error);
void zest_batch_free(zest_batch *batch);

/* The number of tokens that an example adds to a batch. */
size_t zest_batch_tokens(const zest_examples *examples, uint32_t which, zest_batch_purpose purpose);

/* ---- Random integers from a counter-based generator: order of examples, resampling, masking ---- */

/* Disjoint from the streams in rng/philox.h. */
enum {
    ZEST_EXAMPLES_ORDER = 16,
    ZEST_EXAMPLES_RESAMPLE = 17,
    ZEST_CORPUS_MASKS = 18,    /* number: step and index in the batch */
    ZEST_CORPUS_HELD_OUT = 19, /* selects held-out documents; number: the document */
    ZEST_CORPUS_FIXED = 20,    /* masks of held-out text; number: the sequence */
};

/* The words of Philox under a key, at the counters {0, 1, ...; low half of number; stream; high half}. */
typedef struct {
    uint64_t key, number;
    uint32_t stream, counter;
    int left; /* remaining words of the block */
    zest_philox_block block;
} zest_permutation;

/* Uniform below `bound`, which is at least 1. */
uint32_t zest_permutation_below(zest_permutation *draw, uint32_t bound);
/* The order of an epoch: a permutation of 0 .. count-1 that depends only on seed, epoch and count. Fisher-Yates
 * shuffle from the end; each index is drawn without bias (Lemire's method, with rejection) from the words of Philox
 * under the key `seed`, at the counters {0, 1, ...; low half of epoch; 16; high half of epoch}. */
void zest_permutation_fill(uint64_t seed, uint64_t epoch, uint32_t *order, size_t count);

#endif
