/* The last layer's attention where few rows are asked for: keys and values of the others are never made. The
 * score of a key is q'(K x + b) = (K'q)'x + q'b, of which the last term is the same for all keys, so that
 * softmax does not see it; and the sum of p (V x + b) is V (the sum of p x) + b. So the queries go through K'
 * and look at the hidden states themselves, and what they see there goes through V. All heads look at the
 * same hidden states; a query that went through its head of K' is as wide as they are. */
#include <math.h>

#include "models/forward_internal.h"

/* Both products have a row for each head of each asked row, of which all but that head's part is 0 or not
 * looked at: still much less work than a row for each token, where those are so many times as many. */
enum { TIMES = 4 };

/* Where things lie in a lane's room for a layer. By TIMES they end before the rows of q, k and v would,
 * behind which the context stands: asked (width + q) + asked heads (kv + 2 width) <= rows (3 width + q + kv)
 * / 4. */
typedef struct {
    size_t picked, q, spread, queries, seen;
} places;

static size_t rows_of_heads(const zest_model_pass *pass) { return pass->asked * pass->is->heads; }

static places places_of(const zest_model_pass *pass) {
    size_t rows = rows_of_heads(pass), width = pass->is->width;
    places at = {.q = pass->asked * width};
    at.spread = at.q + pass->asked * pass->q_width;
    at.queries = at.spread + rows * pass->kv_width;
    at.seen = at.queries + rows * width;
    return at;
}

int zest_model_absorbs(const zest_model_description *is, size_t widest, size_t rows, size_t asked) {
    size_t q_width = is->heads * is->head_size, kv_width = is->kv_heads * is->head_size;
    return is->position_rows && !is->fused_qkv && !is->transposed && is->width <= widest &&
           (is->width | q_width | kv_width) % 8 == 0 && TIMES * asked * is->heads <= rows;
}

static int turn_heads(zest_model_pass *pass, size_t lanes, int back, float *const from[2],
                      float *const to[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_head_rows job = {.from = from[0],
                                .to = to[0],
                                .rows = pass->asked,
                                .heads = pass->is->heads,
                                .kv_heads = pass->is->kv_heads,
                                .head_size = pass->is->head_size,
                                .back = back,
                                .lanes = lanes,
                                .from_lane = zest_model_apart(runner, ZEST_CONST2(from)),
                                .to_lane = zest_model_apart(runner, ZEST_CONST2(to))};
    return runner->operations->device->head_rows(runner->device, &job);
}

static int look(zest_model_pass *pass, size_t lanes, float *const queries[2], const float *const in[2],
                float *const out[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_description *is = pass->is;
    const zest_attention job = {.q = queries[0],
                                .k = in[0],
                                .v = in[0],
                                .out = out[0],
                                .q_stride = is->heads * is->width,
                                .kv_stride = is->width,
                                .out_stride = is->heads * is->width,
                                .q_start = pass->at.asked_starts,
                                .kv_start = pass->at.starts,
                                .sequences = pass->request->batch->sequences,
                                .heads = is->heads,
                                .kv_heads = 1,
                                .head_size = is->width,
                                .causal = is->causal,
                                .scale = 1.0f / sqrtf((float)is->head_size),
                                .compute = runner->compute,
                                .kv_end = pass->at.asked_ends,
                                .longest = pass->asked_longest,
                                .lanes = lanes,
                                .q_lane = zest_model_apart(runner, ZEST_CONST2(queries)),
                                .kv_lane = zest_model_apart(runner, in),
                                .out_lane = zest_model_apart(runner, ZEST_CONST2(out)),
                                .rows = pass->asked,
                                .kv_rows = pass->rows};
    return runner->operations->attention(&job, runner->threads, &runner->scratch);
}

zest_status zest_model_absorb(zest_model_pass *pass, const zest_model_layer *layer,
                              const zest_model_pair *lanes, const float *const in[2],
                              float *const context[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_affine keys = {.weight = layer->k.weight};
    const zest_perturbation *p = &lanes->perturbation;
    const places at = places_of(pass);
    size_t count = zest_perturbation_lanes(p), width = pass->is->width, rows = rows_of_heads(pass);
    float *picked[2], *q[2], *spread[2], *queries[2], *seen[2];
    zest_model_halves(&runner->work, at.picked, picked);
    zest_model_halves(&runner->work, at.q, q);
    zest_model_halves(&runner->work, at.spread, spread);
    zest_model_halves(&runner->work, at.queries, queries);
    zest_model_halves(&runner->work, at.seen, seen);
    if (zest_model_copy_asked(pass, lanes, in, width, picked))
        return zest_model_no_scratch(runner, pass->error);
    zest_status status = zest_model_map(pass, lanes, &layer->q, ZEST_CONST2(picked), pass->asked, width, q,
                                        pass->q_width, NULL, ZEST_ACT_NONE);
    if (status) return status;
    if (turn_heads(pass, count, 0, q, spread)) return zest_model_no_scratch(runner, pass->error);
    status = zest_model_linear(runner, &keys, p, 1, ZEST_CONST2(spread), rows, pass->kv_width, queries, width,
                               NULL, ZEST_ACT_NONE, pass->error);
    if (status) return status;
    if (look(pass, count, queries, in, seen)) return zest_model_no_scratch(runner, pass->error);
    status = zest_model_map(pass, lanes, &layer->v, ZEST_CONST2(seen), rows, width, spread, pass->kv_width,
                            NULL, ZEST_ACT_NONE);
    if (!status && turn_heads(pass, count, 1, spread, context))
        status = zest_model_no_scratch(runner, pass->error);
    return status;
}
