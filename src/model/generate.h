/* Greedy generation with keys and values kept from step to step. Gives the tokens that a full forward pass
 * over the text so far would give at every step. */
#ifndef ZEST_MODEL_GENERATE_H
#define ZEST_MODEL_GENERATE_H

#include "base/progress.h"
#include "model/transformer.h"

typedef struct {
    size_t most;           /* new tokens at most; a full model (is.positions) ends a text earlier */
    const uint32_t *stops; /* a text ends behind the first of these, which is kept */
    size_t stop_count;
    const zest_progress_callback *progress; /* told the new tokens of a text so far; or NULL */
    const int *stop; /* generation ends when this is not 0: progress may set it; or NULL */
} zest_generate_options;

/* Continues every sequence of the batch (which has no parents). tokens: sequences × options->most, row by
 * row; counts[s] says how many of row s are there. lane NULL: the model itself. Of equal logits the smallest
 * token wins. */
zest_status zest_generate_greedy(zest_model_runner *runner, const zest_model_lane *lane,
                                 const zest_model_batch *prompts, const zest_generate_options *options,
                                 uint32_t *tokens, size_t *counts, zest_error *error);

#endif
