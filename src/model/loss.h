/* Losses of lanes on a batch: what a step of training or an evaluation asks of the model. Logits are fp32;
 * what is made of them is fp64. */
#ifndef ZEST_MODEL_LOSS_H
#define ZEST_MODEL_LOSS_H

#include "model/transformer.h"

/* An item is what gets one score. Its rows are rows of the packed batch, not of a sequence: items may share
 * them, as options share the last row of their prompt. Only the asked rows enter the head. */
typedef enum {
    /* Cross-entropy over the logits of a few words, one row an item (the mask). Only those words' rows of the
     * head are read. Examples are the items; scores: the logits, words for each item. */
    ZEST_LOSS_LABEL_WORDS,
    /* Language modelling: minus the log-likelihood of the targets, each at its row, over the whole
     * vocabulary. Examples are the items, the loss of one is its sum; scores: minus that. The mean is over
     * all tokens, not over examples. */
    ZEST_LOSS_TOKENS,
    /* Choosing between options: an item's score is the mean log-likelihood of its targets, an example's loss
     * the cross-entropy of its items' scores. */
    ZEST_LOSS_CHOICES
} zest_model_objective_kind;

typedef struct {
    zest_model_objective_kind kind;
    const zest_model_batch *batch;
    size_t items;
    const uint32_t *item_starts; /* TOKENS and OPTIONS: items + 1 offsets into rows and targets */
    const uint32_t *rows;        /* WORDS: one an item */
    const uint32_t *targets;     /* TOKENS and OPTIONS: the token that should follow the row */
    const uint32_t *words;       /* WORDS: ids in the vocabulary */
    size_t word_count;
    size_t examples;                /* OPTIONS; else the items are the examples */
    const uint32_t *example_starts; /* OPTIONS: examples + 1 offsets into the items */
    const uint32_t *answers;        /* WORDS and OPTIONS: the right word or option of each example, from 0 */
} zest_model_objective;

/* losses: lanes × examples. means, of each lane's losses in order: lanes, or NULL. scores: lanes × items,
 * times words for WORDS; or NULL. */
zest_status zest_model_losses(zest_model_runner *runner, const zest_model_lane *lanes, size_t lane_count,
                              const zest_model_objective *objective, double *losses, double *means,
                              double *scores, zest_error *error);

#endif
