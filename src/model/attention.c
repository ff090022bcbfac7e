/* Queries against keys: those of the rows themselves, of their parents too, or of a cache. */
#include <math.h>
#include <string.h>

#include "model/forward_pass.h"

static int attend(zest_forward_pass *pass, const zest_attention_args *a) {
    const zest_model_config *config = pass->config;
    zest_attention job = {.q = a->q,
                          .k = a->kv,
                          .v = zest_model_offset(pass->runner, a->kv, pass->kv_width),
                          .out = a->out,
                          .q_stride = a->q_stride,
                          .kv_stride = a->kv_stride,
                          .out_stride = pass->q_width,
                          .q_start = a->q_start,
                          .kv_start = a->kv_start,
                          .sequences = a->sequences,
                          .heads = config->heads,
                          .kv_heads = config->kv_heads,
                          .head_dim = config->head_dim,
                          .causal = config->causal,
                          .scale = 1.0f / sqrtf((float)config->head_dim),
                          .compute = pass->runner->compute,
                          .kv_end = a->kv_end,
                          .max_queries = a->longest,
                          .lanes = a->lanes,
                          .q_lane = a->q_lane,
                          .kv_lane = a->kv_lane,
                          .out_lane = a->out_lane,
                          .rows = a->rows,
                          .kv_rows = a->kv_rows};
    return pass->runner->operations->attention(&job, pass->runner->threads, &pass->runner->scratch);
}

/* Keys and values side by side, as many rows as asked for, out of rows of q, k and v. */
static void copy_keys(const zest_forward_pass *pass, const float *qkv, size_t first, size_t count,
                      float *out) {
    size_t width = 2 * pass->kv_width;
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, qkv + (first + i) * pass->qkv_stride + pass->q_width, width * sizeof *out);
}

/* The same on a device: row source[i] of q, k and v, or row i, to row i or target[i]. */
static int send_keys(const zest_forward_pass *pass, const zest_attention_args *a, void *to, size_t count,
                     const uint32_t *source, const uint32_t *target) {
    zest_model_runner *runner = pass->runner;
    zest_copy_rows job = {.from = zest_model_offset(runner, a->q, pass->q_width),
                          .to = to,
                          .lanes = a->lanes,
                          .from_lane = a->q_lane,
                          .to_lane = a->kv_lane,
                          .from_stride = pass->qkv_stride,
                          .to_stride = 2 * pass->kv_width,
                          .width = 2 * pass->kv_width,
                          .count = count,
                          .source = source,
                          .target = target};
    return runner->operations->device->copy_rows(runner->device, &job);
}

/* The children's keys behind a copy of their parent's. */
static int attend_with_parents(zest_forward_pass *pass, zest_attention_args *a) {
    const zest_model_batch *batch = pass->request->batch;
    size_t width = 2 * pass->kv_width;
    void *past = pass->runner->prefix_kv.data; /* (keys, 2 kv_heads head_dim) */
    a->kv = past;
    a->kv_stride = width;
    a->kv_lane = pass->runner->prefix_kv.lane_stride;
    a->kv_rows = pass->key_rows;
    a->kv_start = pass->at.key_starts;
    if (pass->runner->device && send_keys(pass, a, past, pass->key_rows, pass->at.key_sources, NULL))
        return -1;
    for (size_t s = 0; !pass->runner->device && s < batch->sequences; s++) {
        float *here = (float *)past + pass->key_starts[s] * width;
        uint32_t parent = batch->prefix_of[s];
        if (parent != ZEST_MODEL_NO_PREFIX) {
            size_t count = batch->starts[parent + 1] - batch->starts[parent];
            copy_keys(pass, a->q, batch->starts[parent], count, here);
            here += count * width;
        }
        copy_keys(pass, a->q, batch->starts[s], batch->starts[s + 1] - batch->starts[s], here);
    }
    return attend(pass, a);
}

static int attend_with_cache(zest_forward_pass *pass, size_t layer, zest_attention_args *a) {
    const zest_model_batch *batch = pass->request->batch;
    const zest_model_cache *cache = pass->request->cache;
    size_t width = 2 * pass->kv_width;
    void *kept = zest_model_offset(pass->runner, cache->data, layer * cache->rows * width);
    a->kv_stride = width;
    if (pass->runner->device) {
        a->kv = kept;
        a->kv_rows = cache->rows;
        a->kv_start = pass->at.key_starts;
        a->kv_end = pass->at.key_ends;
        return send_keys(pass, a, kept, pass->rows, NULL, pass->at.key_targets) || attend(pass, a);
    }
    int failed = 0;
    const zest_attention_args all = *a;
    for (size_t s = 0; s < batch->sequences && !failed; s++) {
        size_t slot = cache->slots[s], length = cache->lengths[slot], first = batch->starts[s];
        size_t count = batch->starts[s + 1] - first;
        float *kv = (float *)kept + cache->slot_start[slot] * width;
        copy_keys(pass, all.q, first, count, kv + length * width);
        uint32_t q_start[2] = {0, (uint32_t)count}, kv_start[2] = {0, (uint32_t)(length + count)};
        zest_attention_args one = {.q = (const float *)all.q + first * pass->qkv_stride,
                                   .kv = kv,
                                   .out = (float *)all.out + first * pass->q_width,
                                   .q_stride = pass->qkv_stride,
                                   .kv_stride = width,
                                   .q_start = q_start,
                                   .kv_start = kv_start,
                                   .sequences = 1};
        failed = attend(pass, &one);
    }
    return failed;
}

zest_status zest_model_attend(zest_forward_pass *pass, size_t layer, const zest_lane_group *lanes,
                              zest_attention_args a, void *const q[2], void *const kv[2],
                              void *const out[2]) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation);
    a.sequences = pass->request->batch->sequences;
    a.lanes = runner->device ? count : 1;
    a.q_lane = zest_model_lane_stride(runner, ZEST_CONST2(q));
    a.kv_lane = zest_model_lane_stride(runner, ZEST_CONST2(kv));
    a.out_lane = zest_model_lane_stride(runner, ZEST_CONST2(out));
    for (size_t l = 0; l < count; l += a.lanes) {
        zest_attention_args here = a;
        here.q = q[l], here.kv = kv[l], here.out = out[l];
        int failed = pass->request->cache              ? attend_with_cache(pass, layer, &here)
                     : pass->request->batch->prefix_of ? attend_with_parents(pass, &here)
                                                       : attend(pass, &here);
        if (failed) return zest_model_device_error(runner, pass->error);
    }
    return ZEST_OK;
}

/* The first half of a layer: queries, keys and values, attention, and what it adds to the hidden states. The
 * last layer does it for the asked rows alone, as far as their order allows it. */

/* ---- Queries, keys and values ---- */

/* On a device: one product for all parts. */
static zest_status project_together(zest_forward_pass *pass, const zest_lane_group *lanes,
                                    const zest_model_affine *const *parts, size_t count,
                                    const void *const a[2], void *const out[2], size_t stride) {
    zest_model_runner *runner = pass->runner;
    zest_linear_part more[ZEST_LINEAR_MORE];
    for (size_t i = 1; i < count; i++) more[i - 1] = (zest_linear_part){parts[i]->weight, parts[i]->bias};
    zest_linear job = zest_model_linear_job(runner, parts[0], &lanes->perturbation, 0, a, pass->rows,
                                            pass->config->hidden_size, out, stride, NULL);
    job.more = more, job.more_count = count - 1;
    return zest_model_linear_run(runner, &job, pass->error);
}

/* Maps of all rows, their results side by side. */
static zest_status project(zest_forward_pass *pass, const zest_lane_group *lanes,
                           const zest_model_affine *const *parts, size_t count, const void *const a[2],
                           void *const out[2], size_t stride) {
    zest_model_runner *runner = pass->runner;
    int transposed = pass->config->transposed;
    if (runner->device && !transposed) return project_together(pass, lanes, parts, count, a, out, stride);
    zest_status status = ZEST_OK;
    size_t at = 0;
    for (size_t i = 0; i < count && !status; i++) {
        void *const here[2] = {zest_model_offset(runner, out[0], at), zest_model_offset(runner, out[1], at)};
        status = zest_model_layer_linear(pass, lanes, parts[i], a, pass->rows, pass->config->hidden_size,
                                         here, stride, NULL, ZEST_ACT_NONE);
        at += transposed ? parts[i]->weight.columns : parts[i]->weight.rows;
    }
    return status;
}

zest_status zest_model_project_qkv(zest_forward_pass *pass, const zest_model_layer *layer,
                                   const zest_lane_group *lanes, const void *const a[2], void *const qkv[2]) {
    const zest_model_affine *const parts[] = {&layer->q, &layer->k, &layer->v};
    if (pass->config->fused_qkv)
        return zest_model_layer_linear(pass, lanes, &layer->qkv, a, pass->rows, pass->config->hidden_size,
                                       qkv, pass->qkv_stride, NULL, ZEST_ACT_NONE);
    return project(pass, lanes, parts, 3, a, qkv, pass->qkv_stride);
}

static void rotate(zest_forward_pass *pass, const zest_lane_group *lanes, void *const x[2], size_t rows,
                   size_t stride, size_t heads, const uint32_t *positions) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation);
    for (size_t l = 0; !pass->config->position_rows && l < count; l++)
        runner->operations->rotary(zest_model_lane_at(ZEST_CONST2(x), l), rows, stride, heads,
                                   pass->config->head_dim, positions, runner->cosines.data,
                                   runner->sines.data, runner->threads, &runner->scratch);
}

/* ---- Asked rows ---- */

/* Rows of x, out of rows without gaps, into room and back to the front of x. */
static void pick_here(const zest_forward_pass *pass, float *x, size_t width, float *room) {
    const uint32_t *rows = pass->request->out_rows;
    for (size_t r = 0; r < pass->out_rows; r++)
        memcpy(room + r * width, x + rows[r] * width, width * sizeof *x);
    memcpy(x, room, pass->out_rows * width * sizeof *x);
}

/* Rows without gaps on a device, in all lanes; source NULL: those at the front. */
static int copy_there(const zest_forward_pass *pass, const zest_lane_group *lanes, const void *const x[2],
                      size_t width, const uint32_t *source, void *const out[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_copy_rows job = {.from = x[0],
                                .to = out[0],
                                .lanes = zest_perturbation_lanes(&lanes->perturbation),
                                .from_lane = zest_model_lane_stride(runner, x),
                                .to_lane = zest_model_lane_stride(runner, ZEST_CONST2(out)),
                                .from_stride = width,
                                .to_stride = width,
                                .width = width,
                                .count = pass->out_rows,
                                .source = source};
    return runner->operations->device->copy_rows(runner->device, &job);
}

int zest_model_gather_out_rows(const zest_forward_pass *pass, const zest_lane_group *lanes,
                               const void *const x[2], size_t width, void *const out[2]) {
    return copy_there(pass, lanes, x, width, pass->at.rows, out);
}

/* As pick_here. */
static int pick_there(const zest_forward_pass *pass, const zest_lane_group *lanes, void *const x[2],
                      size_t width, void *const room[2]) {
    return zest_model_gather_out_rows(pass, lanes, ZEST_CONST2(x), width, room) ||
           copy_there(pass, lanes, ZEST_CONST2(room), width, NULL, x);
}

static zest_status pick(const zest_forward_pass *pass, const zest_lane_group *lanes, void *const x[2],
                        size_t width, void *const room[2]) {
    if (pass->runner->device)
        return pick_there(pass, lanes, x, width, room) ? zest_model_device_error(pass->runner, pass->error)
                                                       : ZEST_OK;
    for (int l = 0; l < lanes->perturbation.lanes; l++) pick_here(pass, x[l], width, room[l]);
    return ZEST_OK;
}

/* ---- The block ---- */

/* Whether a layer ends with the asked rows alone. */
static int narrows(const zest_forward_pass *pass, size_t i) {
    return i + 1 == pass->config->layers && pass->request->out_rows;
}

/* Whether it needs neither keys nor values for that. */
static int absorbs(const zest_forward_pass *pass) {
    const zest_device *device = pass->runner->device;
    return device && pass->out_starts &&
           zest_model_absorbs(pass->config, device->max_head_dim, pass->rows, pass->out_rows);
}

static zest_status norm1(zest_forward_pass *pass, const zest_model_layer *layer, const zest_lane_group *lanes,
                         const void *const x[2], void *const out[2], size_t rows) {
    return zest_model_norm(pass->runner, &layer->norm1, &lanes->perturbation, x, out, rows,
                           pass->config->hidden_size, pass->error);
}

/* Attention of all rows. Behind it the last layer goes on with the asked ones alone: no other row looks at
 * the rest again. */
static zest_status attend_all(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                              const void *const in[2], void *const context[2]) {
    const zest_model_config *config = pass->config;
    void *qkv[2];
    zest_model_first_lanes(&pass->runner->work, 0, qkv);
    zest_status status = zest_model_project_qkv(pass, &pass->runner->model->layers[i], lanes, in, qkv);
    if (status) return status;
    /* keys stand behind the queries: heads all the same */
    rotate(pass, lanes, qkv, pass->rows, pass->qkv_stride, config->heads + config->kv_heads,
           pass->at.positions);
    void *const kv[2] = {zest_model_offset(pass->runner, qkv[0], pass->q_width),
                         zest_model_offset(pass->runner, qkv[1], pass->q_width)};
    zest_attention_args a = {.q_stride = pass->qkv_stride,
                             .kv_stride = pass->qkv_stride,
                             .q_start = pass->at.starts,
                             .kv_start = pass->at.starts,
                             .longest = pass->longest,
                             .rows = pass->rows,
                             .kv_rows = pass->rows};
    status = zest_model_attend(pass, i, lanes, a, qkv, kv, context);
    if (status || !narrows(pass, i)) return status;
    status = pick(pass, lanes, context, pass->q_width, qkv);
    return status ? status : pick(pass, lanes, lanes->x, config->hidden_size, qkv);
}

/* The last layer's attention where the asked rows alone are its queries: all others are but keys and values.
 * a: what norm1 gave, where it stands before attention. Of the asked rows it is computed again, which costs
 * no more than to move it and leaves the room to pick in. */
static zest_status attend_asked(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                void *const a[2], void *const context[2]) {
    const zest_model_config *config = pass->config;
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_affine *const parts[] = {&layer->k, &layer->v};
    const void *const in[2] = {config->post_norm ? lanes->x[0] : a[0],
                               config->post_norm ? lanes->x[1] : a[1]};
    size_t kv_stride = 2 * pass->kv_width;
    void *kv[2], *q[2];
    zest_model_first_lanes(&pass->runner->work, 0, kv);
    zest_model_first_lanes(&pass->runner->work, pass->max_rows * kv_stride, q);
    zest_status status = project(pass, lanes, parts, 2, in, kv, kv_stride);
    if (!status) status = pick(pass, lanes, lanes->x, config->hidden_size, a);
    if (!status && !config->post_norm)
        status = norm1(pass, layer, lanes, ZEST_CONST2(lanes->x), a, pass->out_rows);
    if (!status)
        status = zest_model_layer_linear(pass, lanes, &layer->q, in, pass->out_rows, config->hidden_size, q,
                                         pass->q_width, NULL, ZEST_ACT_NONE);
    if (status) return status;
    rotate(pass, lanes, kv, pass->rows, kv_stride, config->kv_heads, pass->at.positions);
    rotate(pass, lanes, q, pass->out_rows, pass->q_width, config->heads, pass->at.out_positions);
    zest_attention_args job = {.q_stride = pass->q_width,
                               .kv_stride = kv_stride,
                               .q_start = pass->at.out_starts,
                               .kv_start = pass->at.starts,
                               .kv_end = pass->at.out_key_ends,
                               .longest = pass->out_longest,
                               .rows = pass->out_rows,
                               .kv_rows = pass->rows};
    return zest_model_attend(pass, i, lanes, job, q, kv, context);
}

/* The same without keys and values of its own. */
static zest_status attend_absorbed(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                   void *const a[2], void *const context[2]) {
    const int last = pass->config->post_norm;
    const void *const in[2] = {last ? lanes->x[0] : a[0], last ? lanes->x[1] : a[1]};
    zest_status status = zest_model_absorb(pass, &pass->runner->model->layers[i], lanes, in, context);
    return status ? status : pick(pass, lanes, lanes->x, pass->config->hidden_size, a);
}

zest_status zest_model_attention_block(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                       size_t *rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_config *config = pass->config;
    void *a[2], *context[2];
    zest_model_first_lanes(&pass->runner->norm_out, 0, a);
    zest_model_first_lanes(&pass->runner->work, pass->max_rows * pass->span, context);
    zest_status status = ZEST_OK;
    if (!config->post_norm) status = norm1(pass, layer, lanes, ZEST_CONST2(lanes->x), a, pass->rows);
    if (status) return status;
    if (narrows(pass, i) && absorbs(pass))
        status = attend_absorbed(pass, i, lanes, a, context);
    else if (narrows(pass, i) && pass->out_starts)
        status = attend_asked(pass, i, lanes, a, context);
    else
        status =
            attend_all(pass, i, lanes, config->post_norm ? ZEST_CONST2(lanes->x) : ZEST_CONST2(a), context);
    if (status) return status;
    *rows = narrows(pass, i) ? pass->out_rows : pass->rows;
    if (config->post_norm)
        return zest_model_layer_linear_norm(pass, lanes, &layer->out, &layer->norm1, ZEST_CONST2(context),
                                            *rows, pass->q_width, a, ZEST_CONST2(lanes->x));
    return zest_model_layer_linear(pass, lanes, &layer->out, ZEST_CONST2(context), *rows, pass->q_width,
                                   lanes->x, config->hidden_size, ZEST_CONST2(lanes->x), ZEST_ACT_NONE);
}

/* The last layer's attention where few rows are asked for: keys and values of the others are never made. The
 * score of a key is q'(K x + b) = (K'q)'x + q'b, of which the last term is the same for all keys, so that
 * softmax does not see it; and the sum of p (V x + b) is V (the sum of p x) + b. So the queries go through K'
 * and look at the hidden states themselves, and what they see there goes through V. All heads look at the
 * same hidden states; a query that went through its head of K' is as wide as they are. */

/* Both products have a row for each head of each asked row, of which all but that head's part is 0 or not
 * looked at: still much less work than a row for each token, where those are so many times as many. */
enum { TIMES = 4 };

/* Where things lie in a lane's room for a layer. By TIMES they end before the rows of q, k and v would,
 * behind which the context stands: asked (width + q) + asked heads (kv + 2 width) <= rows (3 width + q + kv)
 * / 4. */
typedef struct {
    size_t picked, q, spread, queries, seen;
} places;

static size_t rows_of_heads(const zest_forward_pass *pass) { return pass->out_rows * pass->config->heads; }

static places places_of(const zest_forward_pass *pass) {
    size_t rows = rows_of_heads(pass), width = pass->config->hidden_size;
    places at = {.q = pass->out_rows * width};
    at.spread = at.q + pass->out_rows * pass->q_width;
    at.queries = at.spread + rows * pass->kv_width;
    at.seen = at.queries + rows * width;
    return at;
}

int zest_model_absorbs(const zest_model_config *config, size_t widest, size_t rows, size_t asked) {
    size_t q_width = config->heads * config->head_dim, kv_width = config->kv_heads * config->head_dim;
    return config->position_rows && !config->fused_qkv && !config->transposed &&
           config->hidden_size <= widest && (config->hidden_size | q_width | kv_width) % 8 == 0 &&
           TIMES * asked * config->heads <= rows;
}

static int turn_heads(zest_forward_pass *pass, size_t lanes, int back, void *const from[2],
                      void *const to[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_head_rows job = {.from = from[0],
                                .to = to[0],
                                .rows = pass->out_rows,
                                .heads = pass->config->heads,
                                .kv_heads = pass->config->kv_heads,
                                .head_size = pass->config->head_dim,
                                .back = back,
                                .lanes = lanes,
                                .from_lane = zest_model_lane_stride(runner, ZEST_CONST2(from)),
                                .to_lane = zest_model_lane_stride(runner, ZEST_CONST2(to))};
    return runner->operations->device->head_rows(runner->device, &job);
}

static int look(zest_forward_pass *pass, size_t lanes, void *const queries[2], const void *const in[2],
                void *const out[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_config *config = pass->config;
    const zest_attention job = {.q = queries[0],
                                .k = in[0],
                                .v = in[0],
                                .out = out[0],
                                .q_stride = config->heads * config->hidden_size,
                                .kv_stride = config->hidden_size,
                                .out_stride = config->heads * config->hidden_size,
                                .q_start = pass->at.out_starts,
                                .kv_start = pass->at.starts,
                                .sequences = pass->request->batch->sequences,
                                .heads = config->heads,
                                .kv_heads = 1,
                                .head_dim = config->hidden_size,
                                .causal = config->causal,
                                .scale = 1.0f / sqrtf((float)config->head_dim),
                                .compute = runner->compute,
                                .kv_end = pass->at.out_key_ends,
                                .max_queries = pass->out_longest,
                                .lanes = lanes,
                                .q_lane = zest_model_lane_stride(runner, ZEST_CONST2(queries)),
                                .kv_lane = zest_model_lane_stride(runner, in),
                                .out_lane = zest_model_lane_stride(runner, ZEST_CONST2(out)),
                                .rows = pass->out_rows,
                                .kv_rows = pass->rows};
    return runner->operations->attention(&job, runner->threads, &runner->scratch);
}

zest_status zest_model_absorb(zest_forward_pass *pass, const zest_model_layer *layer,
                              const zest_lane_group *lanes, const void *const in[2], void *const context[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_affine keys = {.weight = layer->k.weight};
    const zest_perturbation *p = &lanes->perturbation;
    const places at = places_of(pass);
    size_t count = zest_perturbation_lanes(p), width = pass->config->hidden_size, rows = rows_of_heads(pass);
    void *picked[2], *q[2], *spread[2], *queries[2], *seen[2];
    zest_model_first_lanes(&runner->work, at.picked, picked);
    zest_model_first_lanes(&runner->work, at.q, q);
    zest_model_first_lanes(&runner->work, at.spread, spread);
    zest_model_first_lanes(&runner->work, at.queries, queries);
    zest_model_first_lanes(&runner->work, at.seen, seen);
    if (zest_model_gather_out_rows(pass, lanes, in, width, picked))
        return zest_model_device_error(runner, pass->error);
    zest_status status = zest_model_layer_linear(pass, lanes, &layer->q, ZEST_CONST2(picked), pass->out_rows,
                                                 width, q, pass->q_width, NULL, ZEST_ACT_NONE);
    if (status) return status;
    if (turn_heads(pass, count, 0, q, spread)) return zest_model_device_error(runner, pass->error);
    status = zest_model_linear(runner, &keys, p, 1, ZEST_CONST2(spread), rows, pass->kv_width, queries, width,
                               NULL, ZEST_ACT_NONE, pass->error);
    if (status) return status;
    if (look(pass, count, queries, in, seen)) return zest_model_device_error(runner, pass->error);
    status = zest_model_layer_linear(pass, lanes, &layer->v, ZEST_CONST2(seen), rows, width, spread,
                                     pass->kv_width, NULL, ZEST_ACT_NONE);
    if (!status && turn_heads(pass, count, 1, spread, context))
        status = zest_model_device_error(runner, pass->error);
    return status;
}
