/* The first half of a layer: queries, keys and values, attention, and what it adds to the hidden states. The
 * last layer does it for the asked rows alone, as far as their order allows it. */
#include <string.h>

#include "models/forward_internal.h"

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

/* Rows without gaps on a device, in all lanes; source NULL: those at the front. */
static int copy_there(const zest_model_pass *pass, const zest_model_pair *lanes, const float *const x[2],
                      size_t width, const uint32_t *source, float *const out[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_copy_rows job = {.from = x[0],
                                .to = out[0],
                                .lanes = zest_perturbation_lanes(&lanes->perturbation),
                                .from_lane = zest_model_apart(runner, x),
                                .to_lane = zest_model_apart(runner, ZEST_CONST2(out)),
                                .from_stride = width,
                                .to_stride = width,
                                .width = width,
                                .count = pass->asked,
                                .source = source};
    return runner->operations->device->copy_rows(runner->device, &job);
}

int zest_model_copy_asked(const zest_model_pass *pass, const zest_model_pair *lanes, const float *const x[2],
                          size_t width, float *const out[2]) {
    return copy_there(pass, lanes, x, width, pass->at.rows, out);
}

/* As pick_here. */
static int pick_there(const zest_model_pass *pass, const zest_model_pair *lanes, float *const x[2],
                      size_t width, float *const room[2]) {
    return zest_model_copy_asked(pass, lanes, ZEST_CONST2(x), width, room) ||
           copy_there(pass, lanes, ZEST_CONST2(room), width, NULL, x);
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

/* Whether it needs neither keys nor values for that. */
static int absorbs(const zest_model_pass *pass) {
    const zest_device *device = pass->runner->device;
    return device && pass->asked_starts &&
           zest_model_absorbs(pass->is, device->widest, pass->rows, pass->asked);
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
    zest_model_attending a = {.q_stride = pass->stride,
                              .kv_stride = pass->stride,
                              .q_start = pass->at.starts,
                              .kv_start = pass->at.starts,
                              .longest = pass->longest,
                              .rows = pass->rows,
                              .kv_rows = pass->rows};
    status = zest_model_attend_lanes(pass, i, lanes, a, qkv, kv, context);
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
    zest_model_attending job = {.q_stride = pass->q_width,
                                .kv_stride = kv_stride,
                                .q_start = pass->at.asked_starts,
                                .kv_start = pass->at.starts,
                                .kv_end = pass->at.asked_ends,
                                .longest = pass->asked_longest,
                                .rows = pass->asked,
                                .kv_rows = pass->rows};
    return zest_model_attend_lanes(pass, i, lanes, job, q, kv, context);
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
    if (narrows(pass, i) && absorbs(pass))
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
