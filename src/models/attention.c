/* The first half of a layer: queries, keys and values, attention, and what it adds to the hidden states. The
 * last layer does it for the asked rows alone, as far as their order allows it. */
#include <math.h>
#include <string.h>

#include "models/forward_internal.h"

/* ---- Queries against keys ---- */

/* Queries against keys, which lie side by side with the values. longest: queries of a sequence. lanes: that a
 * device takes at once, so far apart; rows, kv_rows: that q and kv have in each, for a device too. */
typedef struct {
    const float *q, *kv;
    float *out;
    size_t q_stride, kv_stride;
    const uint32_t *q_start, *kv_start, *kv_end;
    size_t sequences, longest, lanes, q_lane, kv_lane, out_lane, rows, kv_rows;
} attending;

static int attend(zest_model_pass *pass, const attending *a) {
    const zest_model_description *is = pass->is;
    zest_attention job = {.q = a->q,
                          .k = a->kv,
                          .v = zest_model_at(pass->runner, a->kv, pass->kv_width),
                          .out = a->out,
                          .q_stride = a->q_stride,
                          .kv_stride = a->kv_stride,
                          .out_stride = pass->q_width,
                          .q_start = a->q_start,
                          .kv_start = a->kv_start,
                          .sequences = a->sequences,
                          .heads = is->heads,
                          .kv_heads = is->kv_heads,
                          .head_size = is->head_size,
                          .causal = is->causal,
                          .scale = 1.0f / sqrtf((float)is->head_size),
                          .compute = pass->runner->compute,
                          .kv_end = a->kv_end,
                          .longest = a->longest,
                          .lanes = a->lanes,
                          .q_lane = a->q_lane,
                          .kv_lane = a->kv_lane,
                          .out_lane = a->out_lane,
                          .rows = a->rows,
                          .kv_rows = a->kv_rows};
    return pass->runner->operations->attention(&job, pass->runner->threads, &pass->runner->scratch);
}

/* Keys and values side by side, as many rows as asked for, out of rows of q, k and v. */
static void copy_keys(const zest_model_pass *pass, const float *qkv, size_t first, size_t count, float *out) {
    size_t width = 2 * pass->kv_width;
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, qkv + (first + i) * pass->stride + pass->q_width, width * sizeof *out);
}

/* The same on a device: row source[i] of q, k and v, or row i, to row i or target[i]. */
static int send_keys(const zest_model_pass *pass, const attending *a, float *to, size_t count,
                     const uint32_t *source, const uint32_t *target) {
    zest_model_runner *runner = pass->runner;
    zest_copy_rows job = {.from = zest_model_at(runner, a->q, pass->q_width),
                          .to = to,
                          .lanes = a->lanes,
                          .from_lane = a->q_lane,
                          .to_lane = a->kv_lane,
                          .from_stride = pass->stride,
                          .to_stride = 2 * pass->kv_width,
                          .width = 2 * pass->kv_width,
                          .count = count,
                          .source = source,
                          .target = target};
    return runner->operations->device->copy_rows(runner->device, &job);
}

/* The children's keys behind a copy of their parent's. */
static int attend_with_parents(zest_model_pass *pass, attending *a) {
    const zest_model_batch *batch = pass->request->batch;
    size_t width = 2 * pass->kv_width;
    float *past = pass->runner->past.data;
    a->kv = past;
    a->kv_stride = width;
    a->kv_lane = pass->runner->past.lane;
    a->kv_rows = pass->key_rows;
    a->kv_start = pass->at.key_starts;
    if (pass->runner->device && send_keys(pass, a, past, pass->key_rows, pass->at.key_sources, NULL))
        return -1;
    for (size_t s = 0; !pass->runner->device && s < batch->sequences; s++) {
        float *here = past + pass->key_starts[s] * width;
        uint32_t parent = batch->parents[s];
        if (parent != ZEST_MODEL_NO_PARENT) {
            size_t count = batch->starts[parent + 1] - batch->starts[parent];
            copy_keys(pass, a->q, batch->starts[parent], count, here);
            here += count * width;
        }
        copy_keys(pass, a->q, batch->starts[s], batch->starts[s + 1] - batch->starts[s], here);
    }
    return attend(pass, a);
}

static int attend_with_cache(zest_model_pass *pass, size_t layer, attending *a) {
    const zest_model_batch *batch = pass->request->batch;
    const zest_model_cache *cache = pass->request->cache;
    size_t width = 2 * pass->kv_width;
    float *kept = zest_model_at(pass->runner, cache->data, layer * cache->rows * width);
    a->kv_stride = width;
    if (pass->runner->device) {
        a->kv = kept;
        a->kv_rows = cache->rows;
        a->kv_start = pass->at.key_starts;
        a->kv_end = pass->at.key_ends;
        return send_keys(pass, a, kept, pass->rows, NULL, pass->at.key_targets) || attend(pass, a);
    }
    int failed = 0;
    const attending all = *a;
    for (size_t s = 0; s < batch->sequences && !failed; s++) {
        size_t slot = cache->slots[s], length = cache->lengths[slot], first = batch->starts[s];
        size_t count = batch->starts[s + 1] - first;
        float *kv = kept + cache->slot_start[slot] * width;
        copy_keys(pass, all.q, first, count, kv + length * width);
        uint32_t q_start[2] = {0, (uint32_t)count}, kv_start[2] = {0, (uint32_t)(length + count)};
        attending one = {.q = all.q + first * pass->stride,
                         .kv = kv,
                         .out = all.out + first * pass->q_width,
                         .q_stride = pass->stride,
                         .kv_stride = width,
                         .q_start = q_start,
                         .kv_start = kv_start,
                         .sequences = 1};
        failed = attend(pass, &one);
    }
    return failed;
}

/* a has what all lanes share. */
static zest_status attend_lanes(zest_model_pass *pass, size_t layer, const zest_model_pair *lanes,
                                attending a, float *const q[2], float *const kv[2], float *const out[2]) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation);
    a.sequences = pass->request->batch->sequences;
    a.lanes = runner->device ? count : 1;
    a.q_lane = zest_model_apart(runner, ZEST_CONST2(q));
    a.kv_lane = zest_model_apart(runner, ZEST_CONST2(kv));
    a.out_lane = zest_model_apart(runner, ZEST_CONST2(out));
    for (size_t l = 0; l < count; l += a.lanes) {
        attending here = a;
        here.q = q[l], here.kv = kv[l], here.out = out[l];
        int failed = pass->request->cache            ? attend_with_cache(pass, layer, &here)
                     : pass->request->batch->parents ? attend_with_parents(pass, &here)
                                                     : attend(pass, &here);
        if (failed) return zest_model_no_scratch(runner, pass->error);
    }
    return ZEST_OK;
}

/* ---- Queries, keys and values ---- */

/* On a device: one product for all parts. */
static zest_status project_together(zest_model_pass *pass, const zest_model_pair *lanes,
                                    const zest_model_affine *const *parts, size_t count,
                                    const float *const a[2], float *const out[2], size_t stride) {
    zest_model_runner *runner = pass->runner;
    zest_linear_part more[ZEST_LINEAR_MORE];
    for (size_t i = 1; i < count; i++) more[i - 1] = (zest_linear_part){parts[i]->weight, parts[i]->bias};
    zest_linear job = zest_model_linear_job(runner, parts[0], &lanes->perturbation, 0, a, pass->rows,
                                            pass->is->width, out, stride, NULL);
    job.more = more, job.more_count = count - 1;
    return zest_model_linear_run(runner, &job, pass->error);
}

/* Maps of all rows, their results side by side. */
static zest_status project(zest_model_pass *pass, const zest_model_pair *lanes,
                           const zest_model_affine *const *parts, size_t count, const float *const a[2],
                           float *const out[2], size_t stride) {
    zest_model_runner *runner = pass->runner;
    int transposed = pass->is->transposed;
    if (runner->device && !transposed) return project_together(pass, lanes, parts, count, a, out, stride);
    zest_status status = ZEST_OK;
    size_t at = 0;
    for (size_t i = 0; i < count && !status; i++) {
        float *const here[2] = {zest_model_at(runner, out[0], at), zest_model_at(runner, out[1], at)};
        status = zest_model_map(pass, lanes, parts[i], a, pass->rows, pass->is->width, here, stride, NULL,
                                ZEST_ACT_NONE);
        at += transposed ? parts[i]->weight.columns : parts[i]->weight.rows;
    }
    return status;
}

zest_status zest_model_project_qkv(zest_model_pass *pass, const zest_model_layer *layer,
                                   const zest_model_pair *lanes, const float *const a[2],
                                   float *const qkv[2]) {
    const zest_model_affine *const parts[] = {&layer->q, &layer->k, &layer->v};
    if (pass->is->fused_qkv)
        return zest_model_map(pass, lanes, &layer->qkv, a, pass->rows, pass->is->width, qkv, pass->stride,
                              NULL, ZEST_ACT_NONE);
    return project(pass, lanes, parts, 3, a, qkv, pass->stride);
}

static void rotate(zest_model_pass *pass, const zest_model_pair *lanes, float *const x[2], size_t rows,
                   size_t stride, size_t heads, const uint32_t *positions) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation);
    for (size_t l = 0; !pass->is->position_rows && l < count; l++)
        runner->operations->rotary(zest_model_lane_at(ZEST_CONST2(x), l), rows, stride, heads,
                                   pass->is->head_size, positions, runner->cosines.data, runner->sines.data,
                                   runner->threads, &runner->scratch);
}

/* ---- Asked rows ---- */

/* Rows of x, out of rows without gaps, into room and back to the front of x. */
static void pick_here(const zest_model_pass *pass, float *x, size_t width, float *room) {
    const uint32_t *rows = pass->request->rows;
    for (size_t r = 0; r < pass->asked; r++)
        memcpy(room + r * width, x + rows[r] * width, width * sizeof(float));
    memcpy(x, room, pass->asked * width * sizeof(float));
}

/* The same on a device, in all lanes. */
static int pick_there(const zest_model_pass *pass, const zest_model_pair *lanes, float *const x[2],
                      size_t width, float *const room[2]) {
    zest_model_runner *runner = pass->runner;
    size_t from = zest_model_apart(runner, ZEST_CONST2(x)), to = zest_model_apart(runner, ZEST_CONST2(room));
    zest_copy_rows job = {.from = x[0],
                          .to = room[0],
                          .lanes = zest_perturbation_lanes(&lanes->perturbation),
                          .from_lane = from,
                          .to_lane = to,
                          .from_stride = width,
                          .to_stride = width,
                          .width = width,
                          .count = pass->asked,
                          .source = pass->at.rows};
    if (runner->operations->device->copy_rows(runner->device, &job)) return -1;
    job.from = room[0], job.to = x[0], job.source = NULL;
    job.from_lane = to, job.to_lane = from;
    return runner->operations->device->copy_rows(runner->device, &job);
}

static zest_status pick(const zest_model_pass *pass, const zest_model_pair *lanes, float *const x[2],
                        size_t width, float *const room[2]) {
    if (pass->runner->device)
        return pick_there(pass, lanes, x, width, room) ? zest_model_no_scratch(pass->runner, pass->error)
                                                       : ZEST_OK;
    for (int l = 0; l < lanes->perturbation.lanes; l++) pick_here(pass, x[l], width, room[l]);
    return ZEST_OK;
}

/* ---- The block ---- */

/* Whether a layer ends with the asked rows alone. */
static int narrows(const zest_model_pass *pass, size_t i) {
    return i + 1 == pass->is->layers && pass->request->rows;
}

static zest_status norm1(zest_model_pass *pass, const zest_model_layer *layer, const zest_model_pair *lanes,
                         const float *const x[2], float *const out[2], size_t rows) {
    return zest_model_norm(pass->runner, &layer->norm1, &lanes->perturbation, x, out, rows, pass->is->width,
                           pass->error);
}

/* Attention of all rows. Behind it the last layer goes on with the asked ones alone: no other row looks at
 * the rest again. */
static zest_status attend_all(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                              const float *const in[2], float *const context[2]) {
    const zest_model_description *is = pass->is;
    float *qkv[2];
    zest_model_halves(&pass->runner->work, 0, qkv);
    zest_status status = zest_model_project_qkv(pass, &pass->runner->model->layers[i], lanes, in, qkv);
    if (status) return status;
    /* keys stand behind the queries: heads all the same */
    rotate(pass, lanes, qkv, pass->rows, pass->stride, is->heads + is->kv_heads, pass->at.positions);
    float *const kv[2] = {zest_model_at(pass->runner, qkv[0], pass->q_width),
                          zest_model_at(pass->runner, qkv[1], pass->q_width)};
    attending a = {.q_stride = pass->stride,
                   .kv_stride = pass->stride,
                   .q_start = pass->at.starts,
                   .kv_start = pass->at.starts,
                   .longest = pass->longest,
                   .rows = pass->rows,
                   .kv_rows = pass->rows};
    status = attend_lanes(pass, i, lanes, a, qkv, kv, context);
    if (status || !narrows(pass, i)) return status;
    status = pick(pass, lanes, context, pass->q_width, qkv);
    return status ? status : pick(pass, lanes, lanes->x, is->width, qkv);
}

/* The last layer's attention where the asked rows alone are its queries: all others are but keys and values.
 * a: what norm1 gave, where it stands before attention. Of the asked rows it is computed again, which costs
 * no more than to move it and leaves the room to pick in. */
static zest_status attend_asked(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                                float *const a[2], float *const context[2]) {
    const zest_model_description *is = pass->is;
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_affine *const parts[] = {&layer->k, &layer->v};
    const float *const in[2] = {is->norm_after ? lanes->x[0] : a[0], is->norm_after ? lanes->x[1] : a[1]};
    size_t kv_stride = 2 * pass->kv_width;
    float *kv[2], *q[2];
    zest_model_halves(&pass->runner->work, 0, kv);
    zest_model_halves(&pass->runner->work, pass->room_rows * kv_stride, q);
    zest_status status = project(pass, lanes, parts, 2, in, kv, kv_stride);
    if (!status) status = pick(pass, lanes, lanes->x, is->width, a);
    if (!status && !is->norm_after) status = norm1(pass, layer, lanes, ZEST_CONST2(lanes->x), a, pass->asked);
    if (!status)
        status = zest_model_map(pass, lanes, &layer->q, in, pass->asked, is->width, q, pass->q_width, NULL,
                                ZEST_ACT_NONE);
    if (status) return status;
    rotate(pass, lanes, kv, pass->rows, kv_stride, is->kv_heads, pass->at.positions);
    rotate(pass, lanes, q, pass->asked, pass->q_width, is->heads, pass->at.asked_positions);
    attending job = {.q_stride = pass->q_width,
                     .kv_stride = kv_stride,
                     .q_start = pass->at.asked_starts,
                     .kv_start = pass->at.starts,
                     .kv_end = pass->at.asked_ends,
                     .longest = pass->asked_longest,
                     .rows = pass->asked,
                     .kv_rows = pass->rows};
    return attend_lanes(pass, i, lanes, job, q, kv, context);
}

/* The same without keys and values of its own. */
static zest_status attend_absorbed(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                                   float *const a[2], float *const context[2]) {
    const int last = pass->is->norm_after;
    const float *const in[2] = {last ? lanes->x[0] : a[0], last ? lanes->x[1] : a[1]};
    zest_status status = zest_model_absorb(pass, &pass->runner->model->layers[i], lanes, in, context);
    return status ? status : pick(pass, lanes, lanes->x, pass->is->width, a);
}

zest_status zest_model_attention_block(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                                       size_t *rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_description *is = pass->is;
    float *a[2], *context[2];
    zest_model_halves(&pass->runner->a, 0, a);
    zest_model_halves(&pass->runner->work, pass->room_rows * pass->span, context);
    zest_status status = ZEST_OK;
    if (!is->norm_after) status = norm1(pass, layer, lanes, ZEST_CONST2(lanes->x), a, pass->rows);
    if (status) return status;
    if (narrows(pass, i) && zest_model_absorbs(pass))
        status = attend_absorbed(pass, i, lanes, a, context);
    else if (narrows(pass, i) && pass->asked_starts)
        status = attend_asked(pass, i, lanes, a, context);
    else
        status = attend_all(pass, i, lanes, is->norm_after ? ZEST_CONST2(lanes->x) : ZEST_CONST2(a), context);
    if (status) return status;
    *rows = narrows(pass, i) ? pass->asked : pass->rows;
    if (is->norm_after)
        return zest_model_map_and_norm(pass, lanes, &layer->out, &layer->norm1, ZEST_CONST2(context), *rows,
                                       pass->q_width, a, ZEST_CONST2(lanes->x));
    return zest_model_map(pass, lanes, &layer->out, ZEST_CONST2(context), *rows, pass->q_width, lanes->x,
                          is->width, ZEST_CONST2(lanes->x), ZEST_ACT_NONE);
}
