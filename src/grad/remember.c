/* The forward pass once more, with what the backward pass needs kept. The operations are those of
 * models/layers.c in the same order, so on the CPU the losses are the same bits. */
#include <math.h>

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

zest_status zest_grad_copy(const zest_grad_pass *pass, const float *from, float *to, const uint32_t *source,
                           size_t count, size_t width) {
    zest_model_runner *runner = pass->grad->runner;
    zest_copy_rows job = {.from = from,
                          .to = to,
                          .from_stride = width,
                          .to_stride = width,
                          .width = width,
                          .count = count,
                          .source = source,
                          .lanes = 1};
    return zest_grad_done(pass, pass->grad->backward->copy(&job, runner->threads, &runner->scratch));
}

static zest_mask mask_of(const zest_grad_pass *pass, double rate, size_t layer, zest_dropout_site site) {
    return zest_dropout_mask(pass->job->dropout, rate, layer, site);
}

size_t zest_grad_layer_rows(const zest_grad_pass *pass, size_t i) {
    return i + 1 == pass->pass.is->layers ? pass->asked : pass->rows;
}

/* ---- Attention ---- */

zest_attention zest_grad_attention(const zest_grad_pass *pass, const float *qkv, float *out) {
    const zest_model_pass *p = &pass->pass;
    const zest_model_runner *runner = pass->grad->runner;
    int parents = pass->request.batch->parents != NULL;
    const float *keys = parents ? runner->past.data : zest_model_at(runner, qkv, p->q_width);
    return (zest_attention){.q = qkv,
                            .k = keys,
                            .v = zest_model_at(runner, keys, p->kv_width),
                            .out = out,
                            .q_stride = p->stride,
                            .kv_stride = parents ? 2 * p->kv_width : p->stride,
                            .out_stride = p->q_width,
                            .q_start = p->at.starts,
                            .kv_start = parents ? p->at.key_starts : p->at.starts,
                            .sequences = pass->request.batch->sequences,
                            .heads = p->is->heads,
                            .kv_heads = p->is->kv_heads,
                            .head_size = p->is->head_size,
                            .causal = p->is->causal,
                            .scale = 1.0f / sqrtf((float)p->is->head_size),
                            .compute = runner->compute,
                            .longest = p->longest,
                            .lanes = 1,
                            .rows = p->rows,
                            .kv_rows = parents ? p->key_rows : p->rows};
}

zest_status zest_grad_write_out_keys(const zest_grad_pass *pass, const float *qkv) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    size_t width = 2 * p->kv_width;
    zest_copy_rows job = {.from = zest_model_at(runner, qkv, p->q_width),
                          .to = runner->past.data,
                          .from_stride = p->stride,
                          .to_stride = width,
                          .width = width,
                          .count = p->key_rows,
                          .source = pass->key_sources,
                          .lanes = 1};
    return zest_grad_done(pass, pass->grad->backward->copy(&job, runner->threads, &runner->scratch));
}

void zest_grad_rotate(const zest_grad_pass *pass, float *qkv, const float *sines) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    if (p->is->position_rows) return;
    runner->operations->rotary(qkv, p->rows, p->stride, p->is->heads + p->is->kv_heads, p->is->head_size,
                               p->at.positions, runner->cosines.data, sines, runner->threads,
                               &runner->scratch); /* keys stand behind the queries: heads all the same */
}

static zest_status attend(zest_grad_pass *pass, size_t i, const float *qkv, float *out) {
    zest_model_runner *runner = pass->grad->runner;
    const zest_dropout *dropout = pass->job->dropout;
    zest_status status = pass->request.batch->parents ? zest_grad_write_out_keys(pass, qkv) : ZEST_OK;
    if (status) return status;
    zest_attention job = zest_grad_attention(pass, qkv, out);
    zest_mask mask = mask_of(pass, dropout ? dropout->attention : 0, i, ZEST_DROPOUT_ATTENTION);
    zest_attention_backward masked = {.forward = job,
                                      .mask = &mask,
                                      .longest = pass->pass.is->positions,
                                      .keys = pass->longest_keys,
                                      .rows = pass->rows};
    return zest_grad_done(
        pass, mask.threshold
                  ? pass->grad->backward->attention_masked(&masked, runner->threads, &runner->scratch)
                  : runner->operations->attention(&job, runner->threads, &runner->scratch));
}

/* ---- A layer ---- */

/* out = residual + drop(a W' + b) */
static zest_status add_to_stream(zest_grad_pass *pass, const zest_model_affine *affine, size_t layer,
                                 zest_dropout_site site, const float *a, size_t rows, size_t inputs,
                                 const float *residual, float *out) {
    const zest_dropout *dropout = pass->job->dropout;
    zest_model_runner *runner = pass->grad->runner;
    size_t width = pass->pass.is->width;
    zest_mask mask = mask_of(pass, dropout ? dropout->added : 0, layer, site);
    zest_status status = zest_grad_map(pass, affine, pass->pass.is->transposed, a, rows, inputs, out, width,
                                       mask.threshold ? NULL : residual);
    if (!status && mask.threshold)
        pass->grad->backward->drop(out, out, residual, rows * width, &mask, runner->threads,
                                   &runner->scratch);
    return status;
}

/* The last layer goes on with the asked rows alone. */
static zest_status narrow(const zest_grad_pass *pass, const zest_grad_layer *kept, const float *context) {
    const uint32_t *rows = pass->pass.at.rows;
    zest_status status = zest_grad_copy(pass, context, kept->context, rows, pass->asked, pass->pass.q_width);
    return status ? status
                  : zest_grad_copy(pass, kept->x, kept->input, rows, pass->asked, pass->pass.is->width);
}

static zest_status attention_block(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_description *is = pass->pass.is;
    zest_model_runner *runner = pass->grad->runner;
    int last = i + 1 == is->layers;
    float *context = last ? pass->grad->wide.data : kept->context, *a = pass->grad->a.data;
    const float *from = is->norm_after ? kept->x : a;
    zest_status status = ZEST_OK;
    if (!is->norm_after) status = zest_grad_normed(pass, &layer->norm1, kept->x, pass->rows, a);
    if (!status)
        status = zest_model_project_qkv(&pass->pass, layer, &pass->lane, (const float *const[2]){from, from},
                                        (float *const[2]){kept->qkv, kept->qkv});
    if (status) return status;
    zest_grad_rotate(pass, kept->qkv, runner->sines.data);
    status = attend(pass, i, kept->qkv, context);
    if (!status && last) status = narrow(pass, kept, context);
    if (status) return status;
    return add_to_stream(pass, &layer->out, i, ZEST_DROPOUT_ATTENDED, kept->context,
                         zest_grad_layer_rows(pass, i), pass->pass.q_width, kept->input, kept->middle);
}

static zest_status mlp_block(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept, float *out) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_description *is = pass->pass.is;
    zest_model_runner *runner = pass->grad->runner;
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
                                   rows * inner, is->activation, runner->threads, &runner->scratch);
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
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = pass->asked, room = rows * zest_grad_widest(pass);
    float *next = zest_model_at(runner, last, room);
    zest_status status = ZEST_OK;
    pass->h = last;
    if (is->final_norm) {
        status = zest_grad_normed(pass, &model->final_norm, last, rows, next);
        pass->normed = pass->h = next, next = zest_model_at(runner, next, room);
    }
    if (!status && model->project_out.weight.data) {
        status = zest_grad_map(pass, &model->project_out, 0, pass->h, rows, is->width, next,
                               is->embedding_width, NULL);
        pass->h = next, next = zest_model_at(runner, next, room);
    }
    pass->features = pass->h;
    if (status || !is->head_transform) return status;
    pass->dense = next, pass->features = zest_model_at(runner, next, room);
    status =
        zest_grad_map(pass, &model->head_dense, 0, pass->h, rows, is->width, pass->dense, is->width, NULL);
    if (status) return status;
    float *a = pass->grad->a.data;
    pass->grad->backward->activate(a, pass->dense, NULL, rows * is->width, is->head_activation,
                                   runner->threads, &runner->scratch);
    return zest_grad_normed(pass, &model->head_norm, a, rows, pass->features);
}

zest_status zest_grad_remember(zest_grad_pass *pass) {
    zest_model_runner *runner = pass->grad->runner;
    size_t layers = pass->pass.is->layers, count = pass->rows * pass->pass.is->width;
    zest_status status = zest_grad_make_room(pass);
    if (!status) status = zest_grad_list_keys(pass);
    if (status) return status;
    float *last = pass->grad->head.data;
    float *x = layers ? zest_grad_kept(pass, 0).x : last;
    pass->lane.x[0] = pass->lane.x[1] = x;
    status = zest_model_embed(&pass->pass, &pass->lane);
    const zest_dropout *dropout = pass->job->dropout;
    zest_mask mask = mask_of(pass, dropout ? dropout->embeddings : 0, 0, ZEST_DROPOUT_EMBEDDINGS);
    if (!status && mask.threshold)
        pass->grad->backward->drop(x, x, NULL, count, &mask, runner->threads, &runner->scratch);
    for (size_t i = 0; i < layers && !status; i++) {
        zest_grad_layer kept = zest_grad_kept(pass, i);
        float *out = i + 1 == layers ? last : zest_grad_kept(pass, i + 1).x;
        status = zest_grad_remember_layer(pass, i, &kept, out);
    }
    return status ? status : finish(pass, last);
}
