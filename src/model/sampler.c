/* Choosing the next token from logits. */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exp.h"
#include "rng/philox.h"

/* Of the counter's third word: other streams are listed in rng/philox.h. */
enum { STREAM_SAMPLE = 16 };

typedef struct {
    float logit;
    uint32_t token;
} candidate;

struct zest_sampler {
    size_t vocab_size;
    unsigned char *seen;   /* by token: the penalty was applied */
    candidate *candidates; /* those that are kept come first */
    double *weights;       /* of the candidates, relative to the largest */
};

int zest_sampling_needs_logits(const zest_sampling *sampling) {
    return sampling && (sampling->temperature > 0 || sampling->repetition_penalty != 1);
}

double zest_sampling_uniform(uint64_t seed, uint32_t stream, uint32_t position) {
    zest_philox_block block = zest_philox_at(seed, STREAM_SAMPLE, (uint64_t)stream << 32 | position);
    uint64_t bits = (uint64_t)block.word[0] << 32 | block.word[1];
    return (double)(bits >> 11) * 0x1p-53;
}

zest_sampler *zest_sampler_new(size_t vocab_size, zest_error *error) {
    zest_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->vocab_size = vocab_size;
        s->seen = calloc(vocab_size, sizeof *s->seen);
        s->candidates = malloc(vocab_size * sizeof *s->candidates);
        s->weights = malloc(vocab_size * sizeof *s->weights);
    }
    if (s && s->seen && s->candidates && s->weights) return s;
    zest_sampler_free(s);
    zest_error_memory(error, "a sampler", vocab_size * sizeof *s->weights);
    return NULL;
}

void zest_sampler_free(zest_sampler *sampler) {
    if (!sampler) return;
    free(sampler->seen);
    free(sampler->candidates);
    free(sampler->weights);
    free(sampler);
}

/* ---- Penalty ---- */

static void penalize(zest_sampler *s, double penalty, float *logits, const uint32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t token = tokens[i];
        if (token >= s->vocab_size || s->seen[token]) continue;
        s->seen[token] = 1;
        double logit = (double)logits[token];
        logits[token] = (float)(logit > 0 ? logit / penalty : logit * penalty);
    }
}

static void forget(zest_sampler *s, const uint32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < s->vocab_size) s->seen[tokens[i]] = 0;
}

static void penalize_text(zest_sampler *s, const zest_sampling *sampling, float *logits,
                          const zest_sampler_text *text) {
    if (sampling->repetition_penalty == 1) return;
    penalize(s, sampling->repetition_penalty, logits, text->prompt, text->prompt_count);
    penalize(s, sampling->repetition_penalty, logits, text->new_tokens, text->new_count);
    forget(s, text->prompt, text->prompt_count);
    forget(s, text->new_tokens, text->new_count);
}

/* ---- Candidates in descending order: a heap, since usually few are needed ---- */

static int before(candidate a, candidate b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

static void sift(candidate *heap, size_t count, size_t at) {
    candidate moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void swap(candidate *a, candidate *b) {
    candidate kept = *a;
    *a = *b;
    *b = kept;
}

static void reverse(candidate *list, size_t count) {
    for (size_t i = 0; i < count / 2; i++) swap(&list[i], &list[count - 1 - i]);
}

static double weight(const zest_sampling *sampling, float logit, float largest) {
    return zest_exp(((double)logit - (double)largest) / sampling->temperature);
}

/* Takes the largest one after the other off the heap, until there are top_k of them, and of those until they have top_p
 * of the probability. Leaves them in descending order at the front, and returns how many there are. */
static size_t keep_largest(zest_sampler *s, const zest_sampling *sampling, size_t count, float largest) {
    candidate *heap = s->candidates;
    size_t most = sampling->top_k && sampling->top_k < count ? sampling->top_k : count, taken = 0;
    double total = 0, sum = 0;
    for (size_t i = count / 2; i-- > 0;) sift(heap, count, i);
    if (most == count)
        for (size_t i = 0; i < count; i++) total += weight(sampling, heap[i].logit, largest);
    for (size_t left = count; taken < most; taken++) {
        if (most == count && taken && sum >= sampling->top_p * total) break;
        sum += weight(sampling, heap[0].logit, largest);
        swap(&heap[0], &heap[--left]); /* the largest gathers at the end */
        sift(heap, left, 0);
    }
    memmove(heap, heap + count - taken, taken * sizeof *heap);
    reverse(heap, taken);
    if (most == count) return taken;
    total = sum, sum = 0;
    for (size_t i = 0; i < taken; i++) {
        if (i && sum >= sampling->top_p * total) return i;
        sum += weight(sampling, heap[i].logit, largest);
    }
    return taken;
}

/* The candidates that a draw chooses from, and their weights. Returns their number; 0: every logit is NaN. */
static size_t keep(zest_sampler *s, const zest_sampling *sampling, const float *logits) {
    size_t count = 0, kept = 0;
    float largest = -INFINITY;
    for (size_t i = 0; i < s->vocab_size; i++) {
        if (isnan(logits[i])) continue;
        if (logits[i] > largest) largest = logits[i];
        s->candidates[count++] = (candidate){logits[i], (uint32_t)i};
    }
    if (isinf(largest)) return 0;
    if ((sampling->top_k && sampling->top_k < count) || sampling->top_p < 1)
        count = keep_largest(s, sampling, count, largest);
    for (size_t i = 0; i < count; i++) {
        double w = weight(sampling, s->candidates[i].logit, largest);
        if (w < sampling->min_p) continue;
        s->candidates[kept] = s->candidates[i];
        s->weights[kept++] = w;
    }
    return kept;
}

static uint32_t argmax(const float *logits, size_t count) {
    uint32_t best = 0;
    float largest = -INFINITY;
    for (size_t i = 0; i < count; i++)
        if (logits[i] > largest) largest = logits[i], best = (uint32_t)i;
    return best;
}

uint32_t zest_sampler_pick(zest_sampler *s, const zest_sampling *sampling, float *logits,
                           const zest_sampler_text *text, double uniform) {
    penalize_text(s, sampling, logits, text);
    size_t count = sampling->temperature > 0 ? keep(s, sampling, logits) : 0;
    if (!count) return argmax(logits, s->vocab_size);
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++) total += s->weights[i];
    for (size_t i = 0; i < count; i++) {
        sum += s->weights[i];
        if (sum > uniform * total) return s->candidates[i].token;
    }
    return s->candidates[count - 1].token;
}

void zest_sampler_probabilities(zest_sampler *s, const zest_sampling *sampling, float *logits,
                                const zest_sampler_text *text, double *probabilities) {
    for (size_t i = 0; i < s->vocab_size; i++) probabilities[i] = 0;
    penalize_text(s, sampling, logits, text);
    size_t count = sampling->temperature > 0 ? keep(s, sampling, logits) : 0;
    if (!count) probabilities[argmax(logits, s->vocab_size)] = 1;
    double total = 0;
    for (size_t i = 0; i < count; i++) total += s->weights[i];
    for (size_t i = 0; i < count; i++) probabilities[s->candidates[i].token] = s->weights[i] / total;
}
