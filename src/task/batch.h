/* Batches: examples packed behind each other, without padding, and what is asked of them. */
#ifndef ZEST_TASK_BATCH_H
#define ZEST_TASK_BATCH_H

#include "task/examples.h"
#include "model/loss.h"

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

#endif
