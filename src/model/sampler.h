/* Choosing the next token from logits: the largest, or at random.
 *
 * The order is that of transformers' generate: repetition penalty, temperature, top-k, top-p, min-p, draw. The draw is a
 * function of (seed, stream, position) alone, by Philox: the same with any number of threads and whatever else is in a
 * batch. */
#ifndef ZEST_MODEL_SAMPLER_H
#define ZEST_MODEL_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    double temperature; /* logits are divided by it; 0: the largest logit is taken */
    size_t top_k;       /* keep the k largest, of equal ones the smaller tokens; 0: all */
    double top_p;       /* keep the fewest largest with at least this probability together; 1: all */
    double min_p;       /* keep those with at least this times the largest probability; 0: all */
    /* Logits of tokens that the text has are divided by it if positive, else multiplied (Keskar et al., 2019); 1: as they
     * are. */
    double repetition_penalty;
    uint64_t seed;
} zest_sampling;

/* Whether a choice needs all logits of a row, and not the largest alone. */
int zest_sampling_needs_logits(const zest_sampling *sampling);

/* A number in [0, 1), uniform: 53 random bits. */
double zest_sampling_uniform(uint64_t seed, uint32_t stream, uint32_t position);

/* Scratch memory for a vocabulary. */
typedef struct zest_sampler zest_sampler;

zest_sampler *zest_sampler_new(size_t vocab_size, zest_error *error); /* NULL: see error */
void zest_sampler_free(zest_sampler *sampler);

/* The next token. logits: vocab_size of them, changed by the penalty. text: the tokens so far, `count` of them, in two
 * parts. uniform: from zest_sampling_uniform. A NaN is never chosen. */
typedef struct {
    const uint32_t *prompt, *new_tokens;
    size_t prompt_count, new_count;
} zest_sampler_text;

uint32_t zest_sampler_pick(zest_sampler *sampler, const zest_sampling *sampling, float *logits,
                           const zest_sampler_text *text, double uniform);

/* The probabilities that pick draws from, for tests: vocab_size of them; 0 for what was not kept. */
void zest_sampler_probabilities(zest_sampler *sampler, const zest_sampling *sampling, float *logits,
                                const zest_sampler_text *text, double *probabilities);

#endif
