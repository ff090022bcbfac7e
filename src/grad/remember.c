/* The forward pass once more, with what the backward pass needs kept. The operations are those of
 * models/layers.c in the same order, so the losses are the same bits. */
#include <math.h>
#include <string.h>

#include "grad/grad_internal.h"

zest_status zest_grad_map(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                          const float *a, size_t rows, size_t inputs, float *out, size_t out_stride,
                          const float *residual) {
    const float *const from[2] = {a, a}, *const base[2] = {residual, residual};
    float *const to[2] = {out, out};
    return zest_model_linear(pass->grad->runner, affine, &pass->lane.perturbation, transposed, from, rows,
                             inputs, to, out_stride, residual ? base : NULL, ZEST_ACT_NONE, pass->error);
}

zest_status zest_grad_normed(zest_grad_pass *pass, const zest_model_affine *norm, const float *x, size_t rows,
                             float *out) {
    return zest_model_norm(pass->grad->runner, norm, &pass->lane.perturbation, (const float *const[2]){x, x},
                           (float *const[2]){out, out}, rows, pass->pass.is->width, pass->error);
}

/* ---- Where things lie ---- */

size_t zest_grad_layer_rows(const zest_grad_pass *pass, size_t i) {
    return i + 1 == pass->pass.is->layers ? pass->asked : pass->rows;
}

zest_grad_layer zest_grad_kept(const zest_grad_pass *pass, size_t i) {
    const zest_model_description *is = pass->pass.is;
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.room_rows;
    float *next = grad->tape.data + (grad->recompute ? 0 : i) * rows * pass->row_floats;
    zest_grad_layer kept = {0};
    if (grad->recompute)
        kept.x = grad->inputs.data + i * rows * is->width;
    else
        kept.x = next, next += rows * is->width;
    kept.qkv = next, next += rows * pass->pass.stride;
    kept.context = next, next += rows * pass->pass.q_width;
    kept.middle = next, next += rows * is->width;
    kept.up = next, next += rows * is->inner;
    if (is->gated) kept.gate = next, next += rows * is->inner;
    if (is->norm_after) kept.end = next;
    float *last = grad->tape.data + (grad->recompute ? 1 : is->layers) * rows * pass->row_floats;
    kept.input = i + 1 == is->layers ? last : kept.x;
    return kept;
}

static zest_status make_room(zest_grad_pass *pass) {
    const zest_model_description *is = pass->pass.is;
    zest_grad *grad = pass->grad;
    size_t rows = pass->pass.room_rows, q = pass->pass.q_width;
    size_t widest = is->width > is->embedding_width ? is->width : is->embedding_width;
    size_t within = 2 * q + pass->pass.stride, keys = 0;
    if (within < 2 * is->inner) within = 2 * is->inner;
    if (pass->request.batch->parents) keys = pass->pass.key_rows * 2 * pass->pass.kv_width;
    pass->row_floats = (grad->recompute ? 0 : is->width) + pass->pass.stride + q + is->width +
                       is->inner * (is->gated ? 2 : 1) + (is->norm_after ? is->width : 0);
    size_t slots = grad->recompute ? 1 : is->layers;
    zest_status status = zest_model_room_for(grad->runner, &grad->tape, 1,
                                             rows * (slots * pass->row_floats + is->width), pass->error);
    if (!status && grad->recompute)
        status =
            zest_model_room_for(grad->runner, &grad->inputs, 1, is->layers * rows * is->width, pass->error);
    if (!status) status = zest_model_room_for(grad->runner, &grad->d, 1, 3 * rows * widest, pass->error);
    if (!status) status = zest_model_room_for(grad->runner, &grad->a, 1, rows * widest, pass->error);
    if (!status)
        status = zest_model_room_for(grad->runner, &grad->runner->a, 1, rows * widest,
                                     pass->error); /* for embed */
    if (!status && pass->request.batch->parents)
        status = zest_model_room_for(grad->runner, &grad->runner->past, 1,
                                     pass->pass.key_rows * 2 * pass->pass.kv_width, pass->error);
    if (!status)
        status = zest_model_room_for(grad->runner, &grad->wide, 1, rows * within + keys, pass->error);
    if (!status)
        status = zest_model_room_for(grad->runner, &grad->head, 1, pass->asked * 5 * widest, pass->error);
    return status;
}

/* ---- Attention ---- */

zest_attention zest_grad_attention(const zest_grad_pass *pass, const float *qkv, float *out) {
    const zest_model_pass *p = &pass->pass;
    const zest_model_batch *batch = pass->request.batch;
    const float *past = pass->grad->runner->past.data;
    return (zest_attention){.q = qkv,
                            .k = batch->parents ? past : qkv + p->q_width,
                            .v = (batch->parents ? past : qkv + p->q_width) + p->kv_width,
                            .out = out,
                            .q_stride = p->stride,
                            .kv_stride = batch->parents ? 2 * p->kv_width : p->stride,
                            .out_stride = p->q_width,
                            .q_start = batch->starts,
                            .kv_start = batch->parents ? p->key_starts : batch->starts,
                            .sequences = batch->sequences,
                            .heads = p->is->heads,
                            .kv_heads = p->is->kv_heads,
                            .head_size = p->is->head_size,
                            .causal = p->is->causal,
                            .scale = 1.0f / sqrtf((float)p->is->head_size),
                            .compute = pass->grad->runner->compute};
}

void zest_grad_write_out_keys(const zest_grad_pass *pass, const float *qkv) {
    const zest_model_pass *p = &pass->pass;
    const zest_model_batch *batch = pass->request.batch;
    size_t width = 2 * p->kv_width;
    float *to = pass->grad->runner->past.data;
    for (size_t s = 0; s < batch->sequences; s++) {
        uint32_t from[2] = {batch->parents[s], (uint32_t)s}; /* the parent's keys, then its own */
        for (int part = 0; part < 2; part++) {
            if (from[part] == ZEST_MODEL_NO_PARENT) continue;
            for (size_t row = batch->starts[from[part]]; row < batch->starts[from[part] + 1]; row++) {
                memcpy(to, qkv + row * p->stride + p->q_width, width * sizeof *to);
                to += width;
            }
        }
    }
}

static void rotate(const zest_grad_pass *pass, float *qkv) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    if (p->is->position_rows) return;
    for (int k = 0; k < 2; k++)
        runner->operations->rotary(qkv + (k ? p->q_width : 0), p->rows, p->stride,
                                   k ? p->is->kv_heads : p->is->heads, p->is->head_size, p->positions,
                                   runner->cosines.data, runner->sines.data, runner->threads,
                                   &runner->scratch);
}

static zest_status attend(zest_grad_pass *pass, size_t i, const float *qkv, float *out) {
    zest_model_runner *runner = pass->grad->runner;
    if (pass->request.batch->parents) zest_grad_write_out_keys(pass, qkv);
    zest_attention job = zest_grad_attention(pass, qkv, out);
    const zest_dropout *dropout = pass->job->dropout;
    zest_mask mask = zest_dropout_mask(dropout, dropout ? dropout->attention : 0, i, ZEST_DROPOUT_ATTENTION);
    zest_attention_backward masked = {.forward = job, .mask = &mask, .longest = pass->pass.is->positions};
    int failed = mask.threshold
                     ? pass->grad->backward->attention_masked(&masked, runner->threads, &runner->scratch)
                     : runner->operations->attention(&job, runner->threads, &runner->scratch);
    return failed ? zest_model_no_scratch(pass->grad->runner, pass->error) : ZEST_OK;
}

/* ---- A layer ---- */

static zest_status project_qkv(zest_grad_pass *pass, const zest_model_layer *layer, const float *a,
                               float *qkv) {
    const zest_model_pass *p = &pass->pass;
    size_t width = p->is->width;
    int transposed = p->is->transposed;
    if (p->is->fused_qkv)
        return zest_grad_map(pass, &layer->qkv, transposed, a, p->rows, width, qkv, p->stride, NULL);
    const zest_model_affine *maps[3] = {&layer->q, &layer->k, &layer->v};
    size_t at[3] = {0, p->q_width, p->q_width + p->kv_width};
    zest_status status = ZEST_OK;
    for (int m = 0; m < 3 && !status; m++)
        status = zest_grad_map(pass, maps[m], transposed, a, p->rows, width, qkv + at[m], p->stride, NULL);
    return status;
}

/* out = residual + drop(a W' + b) */
static zest_status add_to_stream(zest_grad_pass *pass, const zest_model_affine *affine, size_t layer,
                                 zest_dropout_site site, const float *a, size_t rows, size_t inputs,
                                 const float *residual, float *out) {
    const zest_dropout *dropout = pass->job->dropout;
    size_t width = pass->pass.is->width;
    zest_mask mask = zest_dropout_mask(dropout, dropout ? dropout->added : 0, layer, site);
    zest_status status = zest_grad_map(pass, affine, pass->pass.is->transposed, a, rows, inputs, out, width,
                                       mask.threshold ? NULL : residual);
    if (!status && mask.threshold)
        pass->grad->backward->drop(out, out, residual, rows * width, &mask, pass->grad->runner->threads);
    return status;
}

/* The last layer goes on with the asked rows alone. */
static void narrow(const zest_grad_pass *pass, const zest_grad_layer *kept, const float *context) {
    size_t q = pass->pass.q_width, width = pass->pass.is->width;
    for (size_t r = 0; r < pass->asked; r++) {
        size_t from = pass->request.rows[r];
        memcpy(kept->context + r * q, context + from * q, q * sizeof(float));
        memcpy(kept->input + r * width, kept->x + from * width, width * sizeof(float));
    }
}

static zest_status attention_block(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_description *is = pass->pass.is;
    int last = i + 1 == is->layers;
    float *context = last ? pass->grad->wide.data : kept->context, *a = pass->grad->a.data;
    zest_status status = ZEST_OK;
    if (!is->norm_after) status = zest_grad_normed(pass, &layer->norm1, kept->x, pass->rows, a);
    if (!status) status = project_qkv(pass, layer, is->norm_after ? kept->x : a, kept->qkv);
    if (status) return status;
    rotate(pass, kept->qkv);
    status = attend(pass, i, kept->qkv, context);
    if (status) return status;
    if (last) narrow(pass, kept, context);
    return add_to_stream(pass, &layer->out, i, ZEST_DROPOUT_ATTENDED, kept->context,
                         zest_grad_layer_rows(pass, i), pass->pass.q_width, kept->input, kept->middle);
}

static zest_status mlp_block(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept, float *out) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_description *is = pass->pass.is;
    size_t rows = zest_grad_layer_rows(pass, i), width = is->width, inner = is->inner;
    float *a = pass->grad->a.data, *h = pass->grad->wide.data;
    zest_status status =
        zest_grad_normed(pass, is->norm_after ? &layer->norm1 : &layer->norm2, kept->middle, rows, a);
    if (!status && is->gated)
        status = zest_grad_map(pass, &layer->gate, is->transposed, a, rows, width, kept->gate, inner, NULL);
    if (!status)
        status = zest_grad_map(pass, &layer->up, is->transposed, a, rows, width, kept->up, inner, NULL);
    if (status || (!out && !is->norm_after)) return status;
    pass->grad->backward->activate(h, is->gated ? kept->gate : kept->up, is->gated ? kept->up : NULL,
                                   rows * inner, is->activation, pass->grad->runner->threads);
    status = add_to_stream(pass, &layer->down, i, ZEST_DROPOUT_MLP, h, rows, inner,
                           is->norm_after ? a : kept->middle, is->norm_after ? kept->end : out);
    if (!status && is->norm_after && out)
        status = zest_grad_normed(pass, &layer->norm2, kept->end, rows, out);
    return status;
}

zest_status zest_grad_remember_layer(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept,
                                     float *out) {
    zest_status status = attention_block(pass, i, kept);
    return status ? status : mlp_block(pass, i, kept, out);
}

/* ---- The whole ---- */

/* Behind the layers: final norm, projection, the head's transform. */
static zest_status finish(zest_grad_pass *pass, float *last) {
    const zest_model *model = &pass->grad->view;
    const zest_model_description *is = pass->pass.is;
    size_t rows = pass->asked, widest = is->width > is->embedding_width ? is->width : is->embedding_width;
    float *next = last + rows * widest;
    zest_status status = ZEST_OK;
    pass->h = last;
    if (is->final_norm) {
        status = zest_grad_normed(pass, &model->final_norm, last, rows, next);
        pass->normed = pass->h = next, next += rows * widest;
    }
    if (!status && model->project_out.weight.data) {
        status = zest_grad_map(pass, &model->project_out, 0, pass->h, rows, is->width, next,
                               is->embedding_width, NULL);
        pass->h = next, next += rows * widest;
    }
    pass->features = pass->h;
    if (status || !is->head_transform) return status;
    pass->dense = next, pass->features = next + rows * widest;
    status =
        zest_grad_map(pass, &model->head_dense, 0, pass->h, rows, is->width, pass->dense, is->width, NULL);
    if (status) return status;
    float *a = pass->grad->a.data;
    pass->grad->backward->activate(a, pass->dense, NULL, rows * is->width, is->head_activation,
                                   pass->grad->runner->threads);
    return zest_grad_normed(pass, &model->head_norm, a, rows, pass->features);
}

zest_status zest_grad_remember(zest_grad_pass *pass) {
    size_t layers = pass->pass.is->layers, count = pass->rows * pass->pass.is->width;
    zest_status status = make_room(pass);
    if (status) return status;
    float *last = pass->grad->head.data;
    float *x = layers ? zest_grad_kept(pass, 0).x : last;
    pass->lane.x[0] = pass->lane.x[1] = x;
    status = zest_model_embed(&pass->pass, &pass->lane);
    const zest_dropout *dropout = pass->job->dropout;
    zest_mask mask =
        zest_dropout_mask(dropout, dropout ? dropout->embeddings : 0, 0, ZEST_DROPOUT_EMBEDDINGS);
    if (!status && mask.threshold)
        pass->grad->backward->drop(x, x, NULL, count, &mask, pass->grad->runner->threads);
    for (size_t i = 0; i < layers && !status; i++) {
        zest_grad_layer kept = zest_grad_kept(pass, i);
        float *out = i + 1 == layers ? last : zest_grad_kept(pass, i + 1).x;
        status = zest_grad_remember_layer(pass, i, &kept, out);
    }
    return status ? status : finish(pass, last);
}
