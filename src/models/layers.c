/* Embeddings and layers of one pair. */
#include <math.h>
#include <string.h>

#include "models/forward_internal.h"

/* A linear map within a layer, between rows without gaps. */
static zest_status map(zest_model_pass *pass, const zest_model_pair *lanes, const zest_model_affine *affine,
                       const float *const a[2], size_t rows, size_t inputs, float *const out[2],
                       size_t outputs, const float *const residual[2], zest_activation activation) {
    return zest_model_linear(pass->runner, affine, &lanes->perturbation, pass->is->transposed, a, rows,
                             inputs, out, outputs, residual, activation, pass->error);
}

/* ---- Embeddings ---- */

static zest_status gather(zest_model_pass *pass, const zest_model_pair *lanes, const zest_weight *table,
                          const uint32_t *ids, float *const out[2], int add) {
    zest_model_runner *runner = pass->runner;
    int failed =
        runner->operations->gather(table, &lanes->perturbation, ids, pass->rows, out, add, runner->threads);
    return failed ? zest_model_no_scratch(pass->error) : ZEST_OK;
}

zest_status zest_model_embed(zest_model_pass *pass, const zest_model_pair *lanes) {
    const zest_model *model = pass->runner->model;
    const zest_model_description *is = pass->is;
    float *a[2];
    zest_model_halves(&pass->runner->a, 0, a);
    int projected = model->project_in.weight.data != NULL;
    float *const *x = is->embedding_norm ? a : (float *const *)lanes->x;
    zest_status status =
        gather(pass, lanes, &model->tokens, pass->request->batch->tokens, projected ? a : x, 0);
    if (!status && projected) /* not transposed in any family, whatever the layers are */
        status = zest_model_linear(pass->runner, &model->project_in, &lanes->perturbation, 0, ZEST_CONST2(a),
                                   pass->rows, is->embedding_width, lanes->x, is->width, NULL, ZEST_ACT_NONE,
                                   pass->error);
    if (!status && is->token_types) status = gather(pass, lanes, &model->types, pass->types, x, 1);
    if (!status && is->position_rows) status = gather(pass, lanes, &model->positions, pass->table_rows, x, 1);
    if (!status && is->embedding_norm)
        status = zest_model_norm(pass->runner, &model->embedding_norm, &lanes->perturbation, ZEST_CONST2(a),
                                 lanes->x, pass->rows, is->width, pass->error);
    return status;
}

/* ---- Attention ---- */

static int attend(zest_model_pass *pass, const float *q, const float *kv, size_t kv_stride, float *out,
                  const uint32_t *q_start, const uint32_t *kv_start, size_t sequences) {
    const zest_model_description *is = pass->is;
    zest_attention job = {.q = q,
                          .k = kv,
                          .v = kv + pass->kv_width,
                          .out = out,
                          .q_stride = pass->stride,
                          .kv_stride = kv_stride,
                          .out_stride = pass->q_width,
                          .q_start = q_start,
                          .kv_start = kv_start,
                          .sequences = sequences,
                          .heads = is->heads,
                          .kv_heads = is->kv_heads,
                          .head_size = is->head_size,
                          .causal = is->causal,
                          .scale = 1.0f / sqrtf((float)is->head_size),
                          .compute = pass->runner->compute};
    return pass->runner->operations->attention(&job, pass->runner->threads, &pass->runner->scratch);
}

/* Keys and values side by side, as many rows as asked for, out of rows of q, k and v. */
static void copy_keys(const zest_model_pass *pass, const float *qkv, size_t first, size_t count, float *out) {
    size_t width = 2 * pass->kv_width;
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, qkv + (first + i) * pass->stride + pass->q_width, width * sizeof *out);
}

/* The children's keys behind a copy of their parent's. */
static int attend_with_parents(zest_model_pass *pass, const float *qkv, float *out) {
    const zest_model_batch *batch = pass->request->batch;
    size_t width = 2 * pass->kv_width;
    float *past = pass->runner->past.data;
    for (size_t s = 0; s < batch->sequences; s++) {
        float *here = past + pass->key_starts[s] * width;
        uint32_t parent = batch->parents[s];
        if (parent != ZEST_MODEL_NO_PARENT) {
            size_t count = batch->starts[parent + 1] - batch->starts[parent];
            copy_keys(pass, qkv, batch->starts[parent], count, here);
            here += count * width;
        }
        copy_keys(pass, qkv, batch->starts[s], batch->starts[s + 1] - batch->starts[s], here);
    }
    return attend(pass, qkv, past, width, out, batch->starts, pass->key_starts, batch->sequences);
}

static int attend_with_cache(zest_model_pass *pass, size_t layer, const float *qkv, float *out) {
    const zest_model_batch *batch = pass->request->batch;
    const zest_model_cache *cache = pass->request->cache;
    size_t width = 2 * pass->kv_width;
    int failed = 0;
    for (size_t s = 0; s < batch->sequences && !failed; s++) {
        size_t slot = cache->slots[s], length = cache->lengths[slot], first = batch->starts[s];
        size_t count = batch->starts[s + 1] - first;
        float *kv = cache->data + (layer * cache->rows + cache->slot_start[slot]) * width;
        copy_keys(pass, qkv, first, count, kv + length * width);
        uint32_t q_start[2] = {0, (uint32_t)count}, kv_start[2] = {0, (uint32_t)(length + count)};
        failed = attend(pass, qkv + first * pass->stride, kv, width, out + first * pass->q_width, q_start,
                        kv_start, 1);
    }
    return failed;
}

static zest_status attention(zest_model_pass *pass, size_t layer, const zest_model_pair *lanes,
                             float *const qkv[2], float *const out[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_description *is = pass->is;
    const zest_model_batch *batch = pass->request->batch;
    for (int l = 0; l < lanes->perturbation.lanes; l++) {
        if (!is->position_rows) {
            runner->operations->rotary(qkv[l], pass->rows, pass->stride, is->heads, is->head_size,
                                       pass->positions, runner->cosines.data, runner->sines.data,
                                       runner->threads);
            runner->operations->rotary(qkv[l] + pass->q_width, pass->rows, pass->stride, is->kv_heads,
                                       is->head_size, pass->positions, runner->cosines.data,
                                       runner->sines.data, runner->threads);
        }
        int failed = pass->request->cache ? attend_with_cache(pass, layer, qkv[l], out[l])
                     : batch->parents     ? attend_with_parents(pass, qkv[l], out[l])
                                          : attend(pass, qkv[l], qkv[l] + pass->q_width, pass->stride, out[l],
                                                   batch->starts, batch->starts, batch->sequences);
        if (failed) return zest_model_no_scratch(pass->error);
    }
    return ZEST_OK;
}

/* ---- A layer ---- */

static zest_status project_qkv(zest_model_pass *pass, const zest_model_layer *layer,
                               const zest_model_pair *lanes, const float *const a[2], float *const qkv[2]) {
    size_t width = pass->is->width, second = pass->q_width, third = second + pass->kv_width;
    if (pass->is->fused_qkv)
        return map(pass, lanes, &layer->qkv, a, pass->rows, width, qkv, pass->stride, NULL, ZEST_ACT_NONE);
    float *const k[2] = {qkv[0] + second, qkv[1] + second}, *const v[2] = {qkv[0] + third, qkv[1] + third};
    zest_status status =
        map(pass, lanes, &layer->q, a, pass->rows, width, qkv, pass->stride, NULL, ZEST_ACT_NONE);
    if (!status)
        status = map(pass, lanes, &layer->k, a, pass->rows, width, k, pass->stride, NULL, ZEST_ACT_NONE);
    if (!status)
        status = map(pass, lanes, &layer->v, a, pass->rows, width, v, pass->stride, NULL, ZEST_ACT_NONE);
    return status;
}

/* Behind its attention, the last layer goes on with the asked rows alone: no other row looks at the rest
 * again. */
static void narrow(zest_model_pass *pass, const zest_model_pair *lanes, float *const context[2],
                   float *const room[2]) {
    const uint32_t *rows = pass->request->rows;
    for (int l = 0; l < lanes->perturbation.lanes; l++) {
        float *const from[2] = {context[l], lanes->x[l]};
        size_t const widths[2] = {pass->q_width, pass->is->width};
        for (int i = 0; i < 2; i++) {
            for (size_t r = 0; r < pass->asked; r++)
                memcpy(room[l] + r * widths[i], from[i] + rows[r] * widths[i], widths[i] * sizeof(float));
            memcpy(from[i], room[l], pass->asked * widths[i] * sizeof(float));
        }
    }
}

static zest_status attention_block(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                                   size_t *rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_description *is = pass->is;
    float *a[2], *qkv[2], *context[2];
    zest_model_halves(&pass->runner->a, 0, a);
    zest_model_halves(&pass->runner->work, 0, qkv);
    zest_model_halves(&pass->runner->work, pass->room_rows * pass->span, context);
    zest_status status = ZEST_OK;
    if (!is->norm_after)
        status = zest_model_norm(pass->runner, &layer->norm1, &lanes->perturbation, ZEST_CONST2(lanes->x), a,
                                 pass->rows, is->width, pass->error);
    if (!status)
        status =
            project_qkv(pass, layer, lanes, is->norm_after ? ZEST_CONST2(lanes->x) : ZEST_CONST2(a), qkv);
    if (!status) status = attention(pass, i, lanes, qkv, context);
    if (status) return status;
    *rows = pass->rows;
    if (i + 1 == is->layers && pass->request->rows) {
        narrow(pass, lanes, context, qkv);
        *rows = pass->asked;
    }
    status = map(pass, lanes, &layer->out, ZEST_CONST2(context), *rows, pass->q_width,
                 is->norm_after ? a : lanes->x, is->width, ZEST_CONST2(lanes->x), ZEST_ACT_NONE);
    if (!status && is->norm_after)
        status = zest_model_norm(pass->runner, &layer->norm1, &lanes->perturbation, ZEST_CONST2(a), lanes->x,
                                 *rows, is->width, pass->error);
    return status;
}

static zest_status mlp_block(zest_model_pass *pass, size_t i, const zest_model_pair *lanes, size_t rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_description *is = pass->is;
    float *a[2], *up[2], *gate[2];
    zest_model_halves(&pass->runner->a, 0, a);
    zest_model_halves(&pass->runner->work, 0, up);
    zest_model_halves(&pass->runner->work, pass->room_rows * is->inner, gate);
    zest_status status = ZEST_OK;
    if (!is->norm_after)
        status = zest_model_norm(pass->runner, &layer->norm2, &lanes->perturbation, ZEST_CONST2(lanes->x), a,
                                 rows, is->width, pass->error);
    const float *in[2] = {is->norm_after ? lanes->x[0] : a[0], is->norm_after ? lanes->x[1] : a[1]};
    if (!status && is->gated)
        status = map(pass, lanes, &layer->gate, in, rows, is->width, gate, is->inner, NULL, ZEST_ACT_NONE);
    if (!status)
        status = map(pass, lanes, &layer->up, in, rows, is->width, up, is->inner, NULL,
                     is->gated ? ZEST_ACT_NONE : is->activation);
    if (status) return status;
    for (int l = 0; is->gated && l < lanes->perturbation.lanes; l++)
        pass->runner->operations->gate(gate[l], up[l], rows * is->inner, is->activation,
                                       pass->runner->threads);
    status = map(pass, lanes, &layer->down, is->gated ? ZEST_CONST2(gate) : ZEST_CONST2(up), rows, is->inner,
                 is->norm_after ? a : lanes->x, is->width, ZEST_CONST2(lanes->x), ZEST_ACT_NONE);
    if (!status && is->norm_after)
        status = zest_model_norm(pass->runner, &layer->norm2, &lanes->perturbation, ZEST_CONST2(a), lanes->x,
                                 rows, is->width, pass->error);
    return status;
}

zest_status zest_model_pass_layer(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                                  size_t *rows) {
    zest_status status = attention_block(pass, i, lanes, rows);
    return status ? status : mlp_block(pass, i, lanes, *rows);
}
