/* Forward passes of include/zest_lm.h: losses of lanes, choices, logits, scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"
#include "optim/lanes.h"
#include "task/metric.h"

static const zest_model_lane itself = {.direction = {.gain = 1}, .scale = 0};

static zest_status no_memory(const zest_lm *lm, const char *what, size_t bytes) {
    return zest_error_memory(zest_lm_sink(lm), what, bytes);
}

/* ---- Lanes ---- */

/* The lanes as the forward pass wants them: the model itself when there are none. */
static zest_status read_lanes(zest_lm *lm, const zest_lanes *lanes, const zest_model_lane **out,
                              size_t *count) {
    *out = &itself;
    *count = 1;
    if (!lanes) return ZEST_OK;
    if (lanes->params != &lm->loaded.model->params)
        return zest_error_set(
            zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
            "the lanes are those of another tuner; take one from zest_lm_tuner of this model");
    *count = zest_lanes_count(lanes);
    if (*count > lm->lane_capacity) {
        zest_model_lane *more = realloc(lm->lanes, *count * sizeof *more);
        if (!more) return no_memory(lm, "lanes", *count * sizeof *more);
        lm->lanes = more;
        lm->lane_capacity = *count;
    }
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < *count && !status; i++)
        status = zest_lanes_describe(lanes, i, &lm->lanes[i].direction, &lm->lanes[i].scale);
    *out = lm->lanes;
    return status;
}

typedef struct {
    const zest_model_objective *objective;
    const zest_model_lane *lanes;
    size_t lane_count;
} request;

static zest_status prepare(zest_lm *lm, const zest_lanes *lanes, zest_lm_batch *batch, request *r) {
    zest_status status = zest_lm_check(lm);
    if (!status) status = zest_lm_need(lm->ctx, batch, "batch");
    if (!status && batch->lm != lm)
        status =
            zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT, "the batch was made for another model");
    if (!status) status = zest_lm_batch_objective(batch, &r->objective);
    if (!status) status = read_lanes(lm, lanes, &r->lanes, &r->lane_count);
    return status;
}

zest_status zest_lm_losses(zest_lm *lm, const zest_lanes *lanes, zest_lm_batch *batch, double *losses,
                           double *means) {
    request r = {0};
    zest_status status = prepare(lm, lanes, batch, &r);
    if (status) return status;
    size_t bytes = r.lane_count * batch->count * sizeof *losses;
    double *own = losses ? NULL : malloc(bytes);
    if (!losses && !own) return no_memory(lm, "losses", bytes);
    status = zest_model_losses(lm->loaded.runner, r.lanes, r.lane_count, r.objective, losses ? losses : own,
                               means, NULL, zest_lm_sink(lm));
    free(own);
    return status;
}

/* scores: of one lane's items, and of an item's words. */
static void choose(const zest_model_objective *o, size_t examples, const double *scores, int32_t *choices) {
    for (size_t i = 0; i < examples; i++) {
        int words = o->kind == ZEST_LOSS_LABEL_WORDS;
        size_t first = words ? i * o->word_count : o->example_starts[i],
               count = words ? o->word_count : o->example_starts[i + 1] - first;
        uint32_t best = zest_metric_choose(scores + first, count);
        choices[i] = best == ZEST_METRIC_NO_CHOICE ? -1 : (int32_t)best;
    }
}

zest_status zest_lm_choose(zest_lm *lm, const zest_lanes *lanes, zest_lm_batch *batch, int32_t *choices) {
    request r = {0};
    zest_status status = prepare(lm, lanes, batch, &r);
    if (status) return status;
    if (r.objective->kind == ZEST_LOSS_TOKENS || !choices)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "only choices and masked examples with label words have something to choose");
    size_t width =
        r.objective->items * (r.objective->kind == ZEST_LOSS_LABEL_WORDS ? r.objective->word_count : 1);
    double *losses = malloc(r.lane_count * batch->count * sizeof *losses),
           *scores = malloc(r.lane_count * width * sizeof *scores);
    status = losses && scores ? zest_model_losses(lm->loaded.runner, r.lanes, r.lane_count, r.objective,
                                                  losses, NULL, scores, zest_lm_sink(lm))
                              : no_memory(lm, "scores", r.lane_count * width * sizeof *scores);
    for (size_t lane = 0; lane < r.lane_count && !status; lane++)
        choose(r.objective, batch->count, scores + lane * width, choices + lane * batch->count);
    free(losses);
    free(scores);
    return status;
}

/* ---- One text ---- */

zest_status zest_lm_logits(zest_lm *lm, const int32_t *ids, size_t count, const size_t *rows,
                           size_t row_count, float *logits) {
    zest_status status = zest_lm_check_ids(lm, ids, count, "the text");
    if (status) return status;
    if (!rows || !row_count || !logits)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "there are no rows to compute logits of");
    for (size_t i = 0; i < row_count; i++)
        if (rows[i] >= count)
            return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                                  "row %zu is behind the %zu tokens of the text", rows[i], count);
    uint32_t *tokens = malloc(count * sizeof *tokens), *at = malloc(row_count * sizeof *at),
             starts[2] = {0, (uint32_t)count};
    if (!tokens || !at) status = no_memory(lm, "a text", (count + row_count) * sizeof *tokens);
    for (size_t i = 0; i < count && !status; i++) tokens[i] = (uint32_t)ids[i];
    for (size_t i = 0; i < row_count && !status; i++) at[i] = (uint32_t)rows[i];
    zest_model_batch batch = {.tokens = tokens, .starts = starts, .sequences = 1};
    if (!status)
        status = zest_model_logits(lm->loaded.runner, NULL, &batch, at, row_count, logits, zest_lm_sink(lm));
    free(tokens);
    free(at);
    return status;
}

/* A causal model sees the text once and predicts every token but the first. */
static zest_status add_causal(zest_lm_batch *batch, const int32_t *ids, size_t count, size_t *positions) {
    for (size_t i = 1; i < count; i++) positions[i - 1] = i - 1;
    return count < 2 ? ZEST_OK
                     : zest_lm_batch_add_sequence(batch, ids, count, positions, ids + 1, count - 1, 0);
}

/* A masked model sees the text once for every token that is not special, with that token masked. */
static zest_status add_masked(zest_lm_batch *batch, int32_t *ids, size_t count) {
    const zest_lm *lm = batch->lm;
    int32_t mask = zest_lm_special_token(lm, ZEST_LM_MASK);
    zest_status status = ZEST_OK;
    if (mask < 0)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_FORMAT,
                              "the tokenizer has no mask token to score a text with");
    for (size_t i = 0; i < count && !status; i++) {
        int32_t token = ids[i];
        if (zest_lm_token_is_special(lm, token)) continue;
        ids[i] = mask;
        status = zest_lm_batch_add_sequence(batch, ids, count, &i, &token, 1, 0);
        ids[i] = token;
    }
    return status;
}

static zest_status score(zest_lm *lm, zest_lm_batch *batch, const int32_t *ids, size_t count, double *out) {
    const zest_model_objective *objective;
    zest_status status = zest_lm_batch_objective(batch, &objective);
    double *losses = status ? NULL : malloc(batch->count * sizeof *losses);
    if (!status && !losses) status = no_memory(lm, "scores", batch->count * sizeof *losses);
    if (!status)
        status =
            zest_model_losses(lm->loaded.runner, &itself, 1, objective, losses, NULL, NULL, zest_lm_sink(lm));
    int causal = lm->loaded.model->config.causal;
    for (size_t i = 0, next = 0; i < count && !status; i++)
        if (causal ? i > 0 : !zest_lm_token_is_special(lm, ids[i])) out[i] = -losses[next++];
    free(losses);
    return status;
}

zest_status zest_lm_score(zest_lm *lm, const int32_t *ids, size_t count, double *log_probabilities) {
    zest_status status = zest_lm_check_ids(lm, ids, count, "the text");
    if (status) return status;
    status = zest_lm_need(lm->ctx, log_probabilities, "log_probabilities");
    if (status) return status;
    zest_lm_batch *batch = zest_lm_batch_new(lm);
    size_t *positions = malloc(count * sizeof *positions);
    int32_t *copy = malloc(count * sizeof *copy);
    if (!batch || !positions || !copy) status = no_memory(lm, "a text", count * sizeof *positions);
    if (!status) {
        memcpy(copy, ids, count * sizeof *copy);
        status = lm->loaded.model->config.causal ? add_causal(batch, ids, count, positions)
                                                 : add_masked(batch, copy, count);
    }
    for (size_t i = 0; i < count; i++) log_probabilities[i] = NAN;
    if (!status && batch->count) status = score(lm, batch, ids, count, log_probabilities);
    free(positions);
    free(copy);
    zest_lm_batch_free(batch);
    return status;
}
