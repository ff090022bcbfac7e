/* Generation with a KV cache. Gives the tokens that a full forward pass over the text so far would give at every
 * step. */
#ifndef ZEST_MODEL_GENERATE_H
#define ZEST_MODEL_GENERATE_H

#include "base/progress.h"
#include "model/forward_pass.h"
#include "model/sampler.h"

/* Keys and values of a text, kept from one call to the next: a text that begins as it did is computed from where it
 * differs on, which changes no bit on the CPU. Weights that have changed in between empty it. Zero it first; it belongs
 * to one runner, and is freed before that. */
typedef struct {
    void *data; /* (layers, rows, k | v) */
    size_t rows;
    uint32_t *tokens; /* whose keys and values are there */
    size_t count;
    uint64_t changes; /* of the runner's weights */
} zest_generate_kept;

void zest_generate_kept_free(zest_generate_kept *kept, zest_model_runner *runner);

typedef struct {
    size_t max_new_tokens; /* per text; one of config.max_positions tokens ends earlier */
    const uint32_t *stops; /* a text ends after the first of these, which is part of it */
    size_t stop_count;
    const zest_sampling
        *sampling; /* NULL: of every row the largest logit, of equal ones the smallest token */
    const zest_progress_callback *progress; /* gets the number of new tokens so far; or NULL */
    zest_generate_kept *kept;               /* with a single prompt; or NULL */
    const int *stop; /* generation ends when this is not 0: progress may set it; or NULL */
} zest_generate_options;

/* Continues every sequence of the batch (which has no shared prefixes). tokens: (sequences, options->max_new_tokens), of
 * which row s has counts[s]. lane NULL: the model itself. */
zest_status zest_generate(zest_model_runner *runner, const zest_model_lane *lane,
                          const zest_model_batch *prompts, const zest_generate_options *options,
                          uint32_t *tokens, size_t *counts, zest_error *error);

#endif
