/* The attention half of a layer: queries, keys and values, softmax attention, the output projection. The last
 * layer computes the output rows alone, as far as their order allows it.
 *
 * Shapes: x (lanes, tokens, hidden); q and context (lanes, tokens, heads, head_dim); k and v (lanes, tokens,
 * kv_heads, head_dim). A row of qkv is a token's q, k and v side by side. */
#include <math.h>
#include <string.h>

#include "model/forward_pass.h"

/* ---- Softmax attention ---- */

zest_attention zest_model_attention_job(const zest_forward_pass *pass, size_t i, const void *q,
                                        size_t q_stride, const void *kv, size_t kv_stride, void *out) {
    const zest_model_config *config = pass->config;
    return (zest_attention){.q = q,
                            .k = kv,
                            .v = zest_model_offset(pass->runner, kv, pass->kv_width),
                            .out = out,
                            .q_stride = q_stride,
                            .kv_stride = kv_stride,
                            .out_stride = pass->q_width,
                            .q_start = pass->at.starts,
                            .kv_start = pass->at.starts,
                            .sequences = pass->request->batch->sequences,
                            .heads = config->heads,
                            .kv_heads = config->kv_heads,
                            .head_dim = config->head_dim,
                            .causal = config->causal,
                            .scale = config->attention_scale != 0 ? config->attention_scale
                                                                  : 1.0f / sqrtf((float)config->head_dim),
                            .compute = pass->runner->compute,
                            .max_queries = pass->longest,
                            .lanes = 1,
                            .rows = pass->rows,
                            .kv_rows = pass->rows,
                            .window = zest_forward_window(pass, i),
                            .soft_cap = config->score_cap};
}

static int run_attention(zest_forward_pass *pass, size_t layer, const zest_attention *job) {
    zest_model_runner *runner = pass->runner;
    const zest_forward_save *save = pass->request->save;
    if (save && save->drops[ZEST_DROPOUT_ATTENTION]) return save->attention(save->user, layer, job);
    return runner->operations->attention(job, runner->threads, &runner->scratch);
}

/* ---- Keys and values of a shared prefix, or of a cache ---- */

/* On the CPU: k and v of `count` rows of qkv from `first` on, without gaps. */
static void copy_kv(const zest_forward_pass *pass, const float *qkv, size_t first, size_t count, float *out) {
    size_t width = 2 * pass->kv_width;
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, qkv + (first + i) * pass->qkv_stride + pass->q_width, width * sizeof *out);
}

/* On a device, in all lanes of the job: k and v of row source[i] (NULL: i) to row target[i] (NULL: i). */
static int copy_kv_on_device(const zest_forward_pass *pass, const zest_attention *job, void *to,
                             size_t to_lane, size_t count, const uint32_t *source, const uint32_t *target) {
    zest_model_runner *runner = pass->runner;
    zest_copy_rows copy = {.from = zest_model_offset(runner, job->q, pass->q_width),
                           .to = to,
                           .lanes = job->lanes,
                           .from_lane = job->q_lane,
                           .to_lane = to_lane,
                           .from_stride = pass->qkv_stride,
                           .to_stride = 2 * pass->kv_width,
                           .width = 2 * pass->kv_width,
                           .count = count,
                           .source = source,
                           .target = target};
    return runner->operations->device->copy_rows(runner->device, &copy);
}

static void set_kv(const zest_forward_pass *pass, zest_attention *job, const void *kv) {
    job->k = kv;
    job->v = zest_model_offset(pass->runner, kv, pass->kv_width);
    job->kv_stride = 2 * pass->kv_width;
}

int zest_model_expand_prefix(const zest_forward_pass *pass, zest_attention *job) {
    const zest_model_batch *batch = pass->request->batch;
    zest_model_runner *runner = pass->runner;
    const zest_model_buffer *expanded = &runner->prefix_kv;
    size_t width = 2 * pass->kv_width;
    if (runner->device && copy_kv_on_device(pass, job, expanded->data, expanded->lane_stride, pass->key_rows,
                                            pass->at.key_sources, NULL))
        return -1;
    for (size_t s = 0; !runner->device && s < batch->sequences; s++) {
        float *to = (float *)expanded->data + pass->key_starts[s] * width;
        uint32_t prefix = batch->prefix_of[s];
        if (prefix != ZEST_MODEL_NO_PREFIX) {
            size_t count = batch->starts[prefix + 1] - batch->starts[prefix];
            copy_kv(pass, job->q, batch->starts[prefix], count, to);
            to += count * width;
        }
        copy_kv(pass, job->q, batch->starts[s], batch->starts[s + 1] - batch->starts[s], to);
    }
    set_kv(pass, job, expanded->data);
    job->kv_lane = expanded->lane_stride;
    job->kv_rows = pass->key_rows;
    job->kv_start = pass->at.key_starts;
    return 0;
}

/* On the CPU: the new keys and values go to the slots of their sequences, and the job reads them there. */
static void extend_slots(zest_forward_pass *pass, zest_attention *job, float *cached) {
    const zest_model_batch *batch = pass->request->batch;
    const zest_model_cache *cache = pass->request->cache;
    uint32_t *starts = pass->key_starts + batch->sequences + 1, *ends = starts + batch->sequences + 1;
    for (size_t s = 0; s < batch->sequences; s++) {
        size_t slot = cache->slots[s], first = batch->starts[s], count = batch->starts[s + 1] - first;
        size_t at = cache->slot_start[slot] + cache->lengths[slot];
        copy_kv(pass, job->q, first, count, cached + at * 2 * pass->kv_width);
        starts[s] = (uint32_t)cache->slot_start[slot];
        ends[s] = (uint32_t)(at + count);
    }
    job->kv_start = starts;
    job->kv_end = ends;
}

/* Appends the new keys and values to the cache, then attends to all of it. */
static int attend_with_cache(zest_forward_pass *pass, size_t layer, const zest_attention *all) {
    const zest_model_cache *cache = pass->request->cache;
    void *cached = zest_model_offset(pass->runner, cache->data, layer * cache->rows * 2 * pass->kv_width);
    zest_attention job = *all;
    set_kv(pass, &job, cached);
    job.kv_rows = cache->rows;
    if (!pass->runner->device) {
        extend_slots(pass, &job, cached);
        return run_attention(pass, layer, &job);
    }
    job.kv_start = pass->at.key_starts;
    job.kv_end = pass->at.key_ends;
    return copy_kv_on_device(pass, all, cached, all->kv_lane, pass->rows, NULL, pass->at.key_targets) ||
           run_attention(pass, layer, &job);
}

/* The job for every lane: a device takes all at once. */
static zest_status attend(zest_forward_pass *pass, size_t layer, const zest_lane_group *lanes,
                          zest_attention job, void *const q[2], void *const kv[2], void *const out[2]) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation);
    job.lanes = runner->device ? count : 1;
    job.q_lane = zest_model_lane_stride(runner, ZEST_CONST2(q));
    job.kv_lane = zest_model_lane_stride(runner, ZEST_CONST2(kv));
    job.out_lane = zest_model_lane_stride(runner, ZEST_CONST2(out));
    for (size_t l = 0; l < count; l += job.lanes) {
        zest_attention own = job;
        own.q = q[l], own.out = out[l];
        own.k = kv[l], own.v = zest_model_offset(runner, kv[l], pass->kv_width);
        int failed = 0;
        if (pass->request->cache)
            failed = attend_with_cache(pass, layer, &own);
        else
            failed = (pass->request->batch->prefix_of && zest_model_expand_prefix(pass, &own)) ||
                     run_attention(pass, layer, &own);
        if (failed) return zest_model_device_error(runner, pass->error);
    }
    return ZEST_OK;
}

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

/* Projections of all rows, their results side by side. */
static zest_status project(zest_forward_pass *pass, const zest_lane_group *lanes,
                           const zest_model_affine *const *parts, size_t count, const void *const a[2],
                           void *const out[2], size_t stride) {
    zest_model_runner *runner = pass->runner;
    int transposed = pass->config->transposed;
    if (runner->device && !transposed) return project_together(pass, lanes, parts, count, a, out, stride);
    zest_status status = ZEST_OK;
    size_t offset = 0;
    for (size_t i = 0; i < count && !status; i++) {
        void *const part[2] = {zest_model_offset(runner, out[0], offset),
                               zest_model_offset(runner, out[1], offset)};
        status = zest_model_layer_linear(pass, lanes, parts[i], a, pass->rows, pass->config->hidden_size,
                                         part, stride, NULL, ZEST_ACT_NONE);
        offset += transposed ? parts[i]->weight.columns : parts[i]->weight.rows;
    }
    return status;
}

static zest_status project_qkv(zest_forward_pass *pass, const zest_model_layer *layer,
                               const zest_lane_group *lanes, const void *const a[2], void *const qkv[2]) {
    const zest_model_affine *const parts[] = {&layer->q, &layer->k, &layer->v};
    if (pass->config->fused_qkv)
        return zest_model_layer_linear(pass, lanes, &layer->qkv, a, pass->rows, pass->config->hidden_size,
                                       qkv, pass->qkv_stride, NULL, ZEST_ACT_NONE);
    return project(pass, lanes, parts, 3, a, qkv, pass->qkv_stride);
}

/* ---- Norms and rotation of queries and keys ---- */

/* The norm of `heads` heads of every row, in place. */
static zest_status norm_heads(zest_forward_pass *pass, const zest_lane_group *lanes,
                              const zest_model_affine *affine, void *const x[2], size_t rows, size_t stride,
                              size_t heads) {
    zest_model_runner *runner = pass->runner;
    zest_norm job = {.gain = affine->weight,
                     .bias = affine->bias,
                     .rms = pass->config->rms_norm,
                     .epsilon = pass->config->epsilon,
                     .perturbation = lanes->perturbation,
                     .x = {x[0], x[1]},
                     .out = {x[0], x[1]},
                     .rows = rows,
                     .width = pass->config->head_dim,
                     .heads = heads,
                     .x_stride = stride,
                     .out_stride = stride,
                     .gain_offset = pass->config->norm_offset};
    return runner->operations->norm(&job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, pass->error)
               : ZEST_OK;
}

/* Before its norms in place, the backward pass needs q and k as they were. */
static int save_before_norms(const zest_forward_pass *pass, const void *qkv, void *out) {
    zest_model_runner *runner = pass->runner;
    size_t width = pass->q_width + pass->kv_width;
    if (runner->device) {
        const zest_copy_rows copy = {.from = qkv,
                                     .to = out,
                                     .lanes = 1,
                                     .from_stride = pass->qkv_stride,
                                     .to_stride = width,
                                     .width = width,
                                     .count = pass->rows};
        return runner->operations->device->copy_rows(runner->device, &copy);
    }
    for (size_t i = 0; i < pass->rows; i++)
        memcpy((float *)out + i * width, (const float *)qkv + i * pass->qkv_stride, width * sizeof(float));
    return 0;
}

static void rotate(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes, void *const x[2],
                   size_t rows, size_t stride, size_t heads, const uint32_t *positions) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation), table = zest_model_rope_of(pass->config, i);
    for (size_t l = 0; !pass->config->position_rows && l < count; l++)
        runner->operations->rotary(zest_model_lane_at(ZEST_CONST2(x), l), rows, stride, heads,
                                   pass->config->head_dim, zest_model_rotary_dim(pass->config), positions,
                                   runner->cosines[table].data, runner->sines[table].data, runner->threads,
                                   &runner->scratch);
}

/* ---- Output rows ---- */

/* On a device: rows without gaps, in all lanes. source: of each row; NULL: the first ones. */
static int copy_out_rows_on_device(const zest_forward_pass *pass, const zest_lane_group *lanes,
                                   const void *const x[2], size_t width, const uint32_t *source,
                                   void *const out[2]) {
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

static void gather_out_rows(const zest_forward_pass *pass, const float *x, size_t width, float *out) {
    const uint32_t *rows = pass->request->out_rows;
    for (size_t r = 0; r < pass->out_rows; r++)
        memcpy(out + r * width, x + rows[r] * width, width * sizeof *x);
}

/* out = the output rows of x. In place where out is x, by way of scratch. */
static zest_status select_out_rows(const zest_forward_pass *pass, const zest_lane_group *lanes,
                                   void *const x[2], size_t width, void *const scratch[2],
                                   void *const out[2]) {
    int in_place = out[0] == x[0];
    void *const to[2] = {in_place ? scratch[0] : out[0], in_place ? scratch[1] : out[1]};
    if (pass->runner->device) {
        int failed = copy_out_rows_on_device(pass, lanes, ZEST_CONST2(x), width, pass->at.rows, to);
        if (!failed && in_place)
            failed = copy_out_rows_on_device(pass, lanes, ZEST_CONST2(to), width, NULL, x);
        return failed ? zest_model_device_error(pass->runner, pass->error) : ZEST_OK;
    }
    for (int l = 0; l < lanes->perturbation.lanes; l++) {
        gather_out_rows(pass, x[l], width, to[l]);
        if (in_place) memcpy(x[l], to[l], pass->out_rows * width * sizeof(float));
    }
    return ZEST_OK;
}

/* Whether a layer ends with the output rows alone. */
static int narrows(const zest_forward_pass *pass, size_t i) {
    return i + 1 == pass->config->layers && pass->request->out_rows;
}

/* ---- Attention of all rows, or of the output rows ---- */

static zest_status norm1(zest_forward_pass *pass, const zest_model_layer *layer, const zest_lane_group *lanes,
                         const void *const x[2], void *const out[2], size_t rows) {
    return zest_model_norm(pass->runner, &layer->norm1, &lanes->perturbation, x, out, rows,
                           pass->config->hidden_size, pass->error);
}

static int has_norm_before(const zest_forward_pass *pass, const zest_model_layer *layer) {
    return !pass->config->post_norm && layer->norm1.weight.data;
}

/* Norms and rotation where q, k and v of all rows are side by side. */
static zest_status prepare_heads(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                 const zest_layer_buffers *b) {
    const zest_model_config *config = pass->config;
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    void *const k[2] = {zest_model_offset(pass->runner, b->qkv[0], pass->q_width),
                        zest_model_offset(pass->runner, b->qkv[1], pass->q_width)};
    zest_status status = ZEST_OK;
    if (config->qk_norm) {
        if (b->qk_before_norm[0] && save_before_norms(pass, b->qkv[0], b->qk_before_norm[0]))
            return zest_model_device_error(pass->runner, pass->error);
        status = norm_heads(pass, lanes, &layer->q_norm, b->qkv, pass->rows, pass->qkv_stride, config->heads);
        if (!status)
            status =
                norm_heads(pass, lanes, &layer->k_norm, k, pass->rows, pass->qkv_stride, config->kv_heads);
    }
    /* k follows q in a row, so both are one run of heads */
    if (!status)
        rotate(pass, i, lanes, b->qkv, pass->rows, pass->qkv_stride, config->heads + config->kv_heads,
               pass->at.positions);
    return status;
}

/* Every row is a query. The last layer then goes on with the output rows alone: no other row is read again. */
static zest_status attend_all_rows(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                   const zest_layer_buffers *b, const void *const in[2]) {
    const zest_model_config *config = pass->config;
    zest_status status = project_qkv(pass, &pass->runner->model->layers[i], lanes, in, b->qkv);
    if (!status) status = prepare_heads(pass, i, lanes, b);
    if (status) return status;
    void *const kv[2] = {zest_model_offset(pass->runner, b->qkv[0], pass->q_width),
                         zest_model_offset(pass->runner, b->qkv[1], pass->q_width)};
    zest_attention job = zest_model_attention_job(pass, i, b->qkv[0], pass->qkv_stride, kv[0],
                                                  pass->qkv_stride, b->context_all[0]);
    status = attend(pass, i, lanes, job, b->qkv, kv, b->context_all);
    if (status || !narrows(pass, i)) return status;
    status = select_out_rows(pass, lanes, b->context_all, pass->q_width, b->qkv, b->context);
    return status ? status : select_out_rows(pass, lanes, lanes->x, config->hidden_size, b->qkv, b->residual);
}

/* The last layer where the output rows alone are queries: all others are keys and values only. norm1 of the
 * output rows is computed again, which costs no more than to copy it and leaves its buffer as scratch. */
static zest_status attend_out_rows(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                   const zest_layer_buffers *b, const void *const in[2]) {
    const zest_model_config *config = pass->config;
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_affine *const parts[] = {&layer->k, &layer->v};
    size_t kv_stride = 2 * pass->kv_width;
    void *kv[2], *q[2];
    zest_model_first_lanes(&pass->runner->work, 0, kv);
    zest_model_first_lanes(&pass->runner->work, pass->max_rows * kv_stride, q);
    zest_status status = project(pass, lanes, parts, 2, in, kv, kv_stride);
    if (!status) status = select_out_rows(pass, lanes, lanes->x, config->hidden_size, b->normed, lanes->x);
    if (!status && has_norm_before(pass, layer))
        status = norm1(pass, layer, lanes, ZEST_CONST2(lanes->x), b->normed, pass->out_rows);
    if (!status)
        status = zest_model_layer_linear(pass, lanes, &layer->q, in, pass->out_rows, config->hidden_size, q,
                                         pass->q_width, NULL, ZEST_ACT_NONE);
    if (!status && config->qk_norm)
        status = norm_heads(pass, lanes, &layer->k_norm, kv, pass->rows, kv_stride, config->kv_heads);
    if (!status && config->qk_norm)
        status = norm_heads(pass, lanes, &layer->q_norm, q, pass->out_rows, pass->q_width, config->heads);
    if (status) return status;
    rotate(pass, i, lanes, kv, pass->rows, kv_stride, config->kv_heads, pass->at.positions);
    rotate(pass, i, lanes, q, pass->out_rows, pass->q_width, config->heads, pass->at.out_positions);
    zest_attention job =
        zest_model_attention_job(pass, i, q[0], pass->q_width, kv[0], kv_stride, b->context[0]);
    job.q_start = pass->at.out_starts;
    job.kv_end = pass->at.out_key_ends;
    job.max_queries = pass->out_longest;
    job.rows = pass->out_rows;
    return attend(pass, i, lanes, job, q, kv, b->context);
}

/* ---- The last layer without keys and values ----
 *
 * Where output rows are few, k and v of the other rows need not be computed. The score of a key is
 * q'(K x + b) = (K'q)'x + q'b, of which the last term is the same for all keys, so that softmax does not see
 * it; and the sum of p (V x + b) is V (the sum of p x) + b. So the queries go through K' and attend to the
 * hidden states themselves, and the result goes through V. All heads attend to the same hidden states; a
 * query that went through its head of K' is as wide as they are.
 *
 * Both products have a row for each head of each output row, of which all but that head's part is 0 or
 * ignored: still much less work than a row for each token where there are ABSORB_RATIO times as many. */
enum { ABSORB_RATIO = 4 };

int zest_model_absorbs(const zest_model_config *config, size_t max_head_dim, size_t rows, size_t out_rows) {
    size_t q_width = config->heads * config->head_dim, kv_width = config->kv_heads * config->head_dim;
    return config->position_rows && !config->fused_qkv && !config->transposed &&
           config->hidden_size <= max_head_dim && (config->hidden_size | q_width | kv_width) % 8 == 0 &&
           ABSORB_RATIO * out_rows * config->heads <= rows;
}

/* Not where the inputs of keys and values are to be kept (input_rows.h). */
static int absorbs(const zest_forward_pass *pass) {
    const zest_device *device = pass->runner->device;
    return device && pass->out_starts && !pass->runner->capture &&
           zest_model_absorbs(pass->config, device->max_head_dim, pass->rows, pass->out_rows);
}

/* Buffers in a lane's part of runner->work. By ABSORB_RATIO they end before the context begins: out_rows
 * (hidden + q) + out_rows heads (kv + 2 hidden) <= rows (3 hidden + q + kv) / 4. */
typedef struct {
    void *in[2];      /* (lanes, out_rows, hidden) */
    void *q[2];       /* (lanes, out_rows, heads, head_dim) */
    void *heads[2];   /* (lanes, out_rows heads, kv_heads head_dim): one head a row, zeros around it */
    void *queries[2]; /* (lanes, out_rows heads, hidden) */
    void *seen[2];    /* (lanes, out_rows heads, hidden) */
} absorbed_buffers;

static absorbed_buffers absorbed_buffers_of(const zest_forward_pass *pass) {
    const zest_model_buffer *work = &pass->runner->work;
    size_t hidden = pass->config->hidden_size, head_rows = pass->out_rows * pass->config->heads;
    size_t q = pass->out_rows * hidden, heads = q + pass->out_rows * pass->q_width;
    size_t queries = heads + head_rows * pass->kv_width;
    absorbed_buffers b;
    zest_model_first_lanes(work, 0, b.in);
    zest_model_first_lanes(work, q, b.q);
    zest_model_first_lanes(work, heads, b.heads);
    zest_model_first_lanes(work, queries, b.queries);
    zest_model_first_lanes(work, queries + head_rows * hidden, b.seen);
    return b;
}

/* Spreads heads into rows of their own, or puts them together again. */
static int spread_heads(zest_forward_pass *pass, size_t lanes, int back, void *const from[2],
                        void *const to[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_head_rows job = {.from = from[0],
                                .to = to[0],
                                .rows = pass->out_rows,
                                .heads = pass->config->heads,
                                .kv_heads = pass->config->kv_heads,
                                .head_dim = pass->config->head_dim,
                                .back = back,
                                .lanes = lanes,
                                .from_lane = zest_model_lane_stride(runner, ZEST_CONST2(from)),
                                .to_lane = zest_model_lane_stride(runner, ZEST_CONST2(to))};
    return runner->operations->device->head_rows(runner->device, &job);
}

/* Attention to the hidden states: one key head, as wide as they are. */
static int attend_hidden(zest_forward_pass *pass, size_t lanes, void *const queries[2],
                         const void *const in[2], void *const out[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_config *config = pass->config;
    zest_attention job =
        zest_model_attention_job(pass, config->layers - 1, queries[0], config->heads * config->hidden_size,
                                 in[0], config->hidden_size, out[0]);
    job.v = in[0];
    job.out_stride = config->heads * config->hidden_size;
    job.q_start = pass->at.out_starts;
    job.kv_end = pass->at.out_key_ends;
    job.kv_heads = 1;
    job.head_dim = config->hidden_size;
    job.max_queries = pass->out_longest;
    job.lanes = lanes;
    job.q_lane = zest_model_lane_stride(runner, ZEST_CONST2(queries));
    job.kv_lane = zest_model_lane_stride(runner, in);
    job.out_lane = zest_model_lane_stride(runner, ZEST_CONST2(out));
    job.rows = pass->out_rows;
    return runner->operations->attention(&job, runner->threads, &runner->scratch);
}

static zest_status attend_absorbed(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                   const zest_layer_buffers *buffers, const void *const in[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_layer *layer = &runner->model->layers[i];
    const zest_model_affine keys = {.weight = layer->k.weight};
    const zest_perturbation *p = &lanes->perturbation;
    const absorbed_buffers b = absorbed_buffers_of(pass);
    size_t count = zest_perturbation_lanes(p), hidden = pass->config->hidden_size;
    size_t head_rows = pass->out_rows * pass->config->heads;
    if (copy_out_rows_on_device(pass, lanes, in, hidden, pass->at.rows, b.in))
        return zest_model_device_error(runner, pass->error);
    zest_status status = zest_model_layer_linear(pass, lanes, &layer->q, ZEST_CONST2(b.in), pass->out_rows,
                                                 hidden, b.q, pass->q_width, NULL, ZEST_ACT_NONE);
    if (status) return status;
    if (spread_heads(pass, count, 0, b.q, b.heads)) return zest_model_device_error(runner, pass->error);
    status = zest_model_linear(runner, &keys, p, 1, ZEST_CONST2(b.heads), head_rows, pass->kv_width,
                               b.queries, hidden, NULL, ZEST_ACT_NONE, pass->error);
    if (status) return status;
    if (attend_hidden(pass, count, b.queries, in, b.seen))
        return zest_model_device_error(runner, pass->error);
    status = zest_model_layer_linear(pass, lanes, &layer->v, ZEST_CONST2(b.seen), head_rows, hidden, b.heads,
                                     pass->kv_width, NULL, ZEST_ACT_NONE);
    if (!status && spread_heads(pass, count, 1, b.heads, buffers->context))
        status = zest_model_device_error(runner, pass->error);
    return status ? status : select_out_rows(pass, lanes, lanes->x, hidden, buffers->normed, lanes->x);
}

/* ---- The block ---- */

/* Parallel residuals: the MLP's norm of the same x, before attention is added to it. */
static zest_status norm_for_mlp(zest_forward_pass *pass, const zest_model_layer *layer,
                                const zest_lane_group *lanes, const zest_layer_buffers *b, size_t rows) {
    if (!pass->config->parallel_residual) return ZEST_OK;
    return zest_model_norm(pass->runner, &layer->norm2, &lanes->perturbation, ZEST_CONST2(b->residual),
                           b->normed, rows, pass->config->hidden_size, pass->error);
}

zest_status zest_model_attention_block(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                       const zest_layer_buffers *b, size_t *rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const int post_norm = pass->config->post_norm, plain = !has_norm_before(pass, layer);
    const void *const in[2] = {plain ? lanes->x[0] : b->normed[0], plain ? lanes->x[1] : b->normed[1]};
    zest_status status = ZEST_OK;
    if (!plain) status = norm1(pass, layer, lanes, ZEST_CONST2(lanes->x), b->normed, pass->rows);
    if (status) return status;
    if (narrows(pass, i) && absorbs(pass))
        status = attend_absorbed(pass, i, lanes, b, in);
    else if (narrows(pass, i) && pass->out_starts)
        status = attend_out_rows(pass, i, lanes, b, in);
    else
        status = attend_all_rows(pass, i, lanes, b, in);
    if (status) return status;
    *rows = narrows(pass, i) ? pass->out_rows : pass->rows;
    status = norm_for_mlp(pass, layer, lanes, b, *rows);
    if (status) return status;
    zest_residual_args args = {.affine = &layer->out,
                               .norm = post_norm ? &layer->norm1 : NULL,
                               .branch_norm = pass->config->branch_norms ? &layer->out_norm : NULL,
                               .branch = b->out_branch,
                               .layer = i,
                               .site = ZEST_DROPOUT_ATTENDED,
                               .rows = *rows,
                               .inputs = pass->q_width};
    return zest_model_add_to_residual(pass, lanes, &args, ZEST_CONST2(b->context), ZEST_CONST2(b->residual),
                                      b->attended, b->normed);
}
