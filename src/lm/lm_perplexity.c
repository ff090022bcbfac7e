/* Perplexity of long texts, for include/zest_lm.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"

enum { LARGEST_WINDOW = 2048 };

typedef struct {
    zest_lm *lm;
    const int32_t *ids;
    size_t count, window, stride;
    size_t *positions; /* of a window */
    zest_lm_batch *batch;
} sweep;

/* Adds the log-probabilities of ids[first .. end) in the window that begins at `begin`; first > begin. */
static zest_status add_window(sweep *s, size_t begin, size_t first, size_t end,
                              zest_lm_perplexity_result *sum) {
    const zest_model_objective *objective;
    size_t targets = end - first;
    for (size_t i = 0; i < targets; i++) s->positions[i] = first - begin - 1 + i;
    zest_lm_batch_clear(s->batch);
    zest_status status = zest_lm_batch_add_sequence(s->batch, s->ids + begin, end - begin, s->positions,
                                                    s->ids + first, targets, 1);
    if (!status) status = zest_lm_batch_objective(s->batch, &objective);
    double loss = 0;
    if (!status) status = zest_lm_losses(s->lm, NULL, s->batch, &loss, NULL);
    sum->log_probability -= loss;
    sum->tokens += targets;
    sum->windows++;
    return status;
}

static zest_status check(sweep *s, const zest_lm_perplexity_options *o) {
    zest_error *error = zest_lm_sink(s->lm);
    zest_status status = zest_lm_check(s->lm);
    if (status) return status;
    const zest_model_config *config = &s->lm->loaded.model->config;
    s->window = o->window;
    if (!s->window)
        s->window = config->max_positions < LARGEST_WINDOW ? config->max_positions : LARGEST_WINDOW;
    s->stride = o->stride ? o->stride : (s->window + 1) / 2;
    if (!config->causal)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a %s model fills masks: the perplexity of a text is that of causal models",
                              config->family);
    if (s->window < 2 || s->window > config->max_positions)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a window has 2 to %zu tokens, as many as the model reads, not %zu",
                              config->max_positions, s->window);
    if (s->stride > s->window)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the stride is %zu and the window %zu: tokens between windows would be left out", s->stride,
            s->window);
    if (!s->ids || s->count < 2)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "the text is too short: there is no token to predict");
    for (size_t i = 0; i < s->count; i++)
        if (s->ids[i] < 0 || (size_t)s->ids[i] >= config->vocab_size)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "the text: token %zu is %d, which is outside the vocabulary of %zu", i,
                                  (int)s->ids[i], config->vocab_size);
    return ZEST_OK;
}

zest_status zest_lm_perplexity(zest_lm *lm, const int32_t *ids, size_t count,
                               const zest_lm_perplexity_options *options, zest_lm_perplexity_result *result) {
    static const zest_lm_perplexity_options defaults = {0};
    const zest_lm_perplexity_options *o = options ? options : &defaults;
    sweep s = {.lm = lm, .ids = ids, .count = count};
    if (!lm || zest_lm_need(lm->ctx, result, "result")) return ZEST_ERROR_ARGUMENT;
    *result = (zest_lm_perplexity_result){.perplexity = NAN};
    zest_status status = check(&s, o);
    if (status) return status;
    s.positions = malloc(s.window * sizeof *s.positions);
    s.batch = zest_lm_batch_new(lm);
    if (!s.positions || !s.batch)
        status = zest_error_memory(zest_lm_sink(lm), "a window", s.window * sizeof *s.positions);
    for (size_t begin = 0, done = 0; done < count && !status; begin += s.stride) {
        size_t end = count - begin < s.window ? count : begin + s.window,
               first = done > begin ? done : begin + 1;
        if (first < end) status = add_window(&s, begin, first, end, result);
        done = end;
        if (o->on_progress) o->on_progress(done, count, o->user);
    }
    if (!status) result->perplexity = exp(-result->log_probability / (double)result->tokens);
    zest_lm_batch_free(s.batch);
    free(s.positions);
    return status;
}
