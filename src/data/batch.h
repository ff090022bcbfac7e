/* Batches: examples packed behind each other, without padding, and what is asked of them. */
#ifndef ZEST_DATA_BATCH_H
#define ZEST_DATA_BATCH_H

#include "data/examples.h"
#include "models/losses.h"

typedef enum {
    ZEST_BATCH_TRAIN, /* the loss that training minimises */
    ZEST_BATCH_SCORE  /* every option, to choose between them */
} zest_batch_purpose;

/* Grows to what is needed and is used again from batch to batch. Start with {0}. */
typedef struct {
    zest_model_batch batch;
    zest_model_objective objective;
    uint32_t *room; /* everything the two point to */
    size_t room_count;
} zest_batch;

/* Packs the examples which[0 .. count-1]. Options that share their first tokens share them in the batch
 * (causal models), so options of one token cost nothing beside the prompt. */
zest_status zest_batch_make(zest_batch *batch, const zest_examples *examples, const uint32_t *which,
                            size_t count, zest_batch_purpose purpose, zest_error *error);
void zest_batch_free(zest_batch *batch);

#endif
