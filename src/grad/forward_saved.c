/* The forward pass once more, with what the backward pass needs kept. The operations are those of
 * model/transformer.c in the same order, so on the CPU the losses are the same bits. */
#include <math.h>

#include "grad/grad_internal.h"

zest_status zest_grad_linear(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                             const void *a, size_t rows, size_t inputs, void *out, size_t out_stride,
                             const void *residual) {
    const void *const from[2] = {a, a}, *const base[2] = {residual, residual};
    void *const to[2] = {out, out};
    return zest_model_linear(pass->grad->runner, affine, &pass->lane.perturbation, transposed, from, rows,
                             inputs, to, out_stride, residual ? base : NULL, ZEST_ACT_NONE, pass->error);
}

zest_status zest_grad_normed(zest_grad_pass *pass, const zest_model_affine *norm, const void *x, size_t rows,
                             void *out) {
    return zest_model_norm(pass->grad->runner, norm, &pass->lane.perturbation, (const void *const[2]){x, x},
                           (void *const[2]){out, out}, rows, pass->pass.config->hidden_size, pass->error);
}

zest_status zest_grad_copy(const zest_grad_pass *pass, const void *from, void *to, const uint32_t *source,
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
    return i + 1 == pass->pass.config->layers ? pass->asked : pass->rows;
}

/* ---- Attention ---- */

zest_attention zest_grad_attention(const zest_grad_pass *pass, const void *qkv, void *out) {
    const zest_forward_pass *p = &pass->pass;
    const zest_model_runner *runner = pass->grad->runner;
    int prefix_of = pass->request.batch->prefix_of != NULL;
    const void *keys = prefix_of ? runner->prefix_kv.data : zest_model_offset(runner, qkv, p->q_width);
    return (zest_attention){.q = qkv,
                            .k = keys,
                            .v = zest_model_offset(runner, keys, p->kv_width),
                            .out = out,
                            .q_stride = p->qkv_stride,
                            .kv_stride = prefix_of ? 2 * p->kv_width : p->qkv_stride,
                            .out_stride = p->q_width,
                            .q_start = p->at.starts,
                            .kv_start = prefix_of ? p->at.key_starts : p->at.starts,
                            .sequences = pass->request.batch->sequences,
                            .heads = p->config->heads,
                            .kv_heads = p->config->kv_heads,
                            .head_dim = p->config->head_dim,
                            .causal = p->config->causal,
                            .scale = 1.0f / sqrtf((float)p->config->head_dim),
                            .compute = runner->compute,
                            .max_queries = p->longest,
                            .lanes = 1,
                            .rows = p->rows,
                            .kv_rows = prefix_of ? p->key_rows : p->rows};
}

zest_status zest_grad_write_out_keys(const zest_grad_pass *pass, const void *qkv) {
    const zest_forward_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    size_t width = 2 * p->kv_width;
    zest_copy_rows job = {.from = zest_model_offset(runner, qkv, p->q_width),
                          .to = runner->prefix_kv.data,
                          .from_stride = p->qkv_stride,
                          .to_stride = width,
                          .width = width,
                          .count = p->key_rows,
                          .source = pass->key_sources,
                          .lanes = 1};
    return zest_grad_done(pass, pass->grad->backward->copy(&job, runner->threads, &runner->scratch));
}

void zest_grad_rotate(const zest_grad_pass *pass, void *qkv, const float *sines) {
    const zest_forward_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    if (p->config->position_rows) return;
    runner->operations->rotary(qkv, p->rows, p->qkv_stride, p->config->heads + p->config->kv_heads,
                               p->config->head_dim, p->at.positions, runner->cosines.data, sines,
                               runner->threads,
                               &runner->scratch); /* keys stand behind the queries: heads all the same */
}

static zest_status attend(zest_grad_pass *pass, size_t i, const void *qkv, void *out) {
    zest_model_runner *runner = pass->grad->runner;
    const zest_dropout *dropout = pass->job->dropout;
    zest_status status = pass->request.batch->prefix_of ? zest_grad_write_out_keys(pass, qkv) : ZEST_OK;
    if (status) return status;
    zest_attention job = zest_grad_attention(pass, qkv, out);
    zest_mask mask = mask_of(pass, dropout ? dropout->attention : 0, i, ZEST_DROPOUT_ATTENTION);
    zest_attention_backward masked = {.forward = job,
                                      .mask = &mask,
                                      .longest = pass->pass.config->max_positions,
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
                                 zest_dropout_site site, const void *a, size_t rows, size_t inputs,
                                 const void *residual, void *out) {
    const zest_dropout *dropout = pass->job->dropout;
    zest_model_runner *runner = pass->grad->runner;
    size_t width = pass->pass.config->hidden_size;
    zest_mask mask = mask_of(pass, dropout ? dropout->added : 0, layer, site);
    zest_status status = zest_grad_linear(pass, affine, pass->pass.config->transposed, a, rows, inputs, out,
                                          width, mask.threshold ? NULL : residual);
    if (!status && mask.threshold)
        pass->grad->backward->drop(out, out, residual, rows * width, &mask, runner->threads,
                                   &runner->scratch);
    return status;
}

/* The last layer goes on with the asked rows alone. */
static zest_status narrow(const zest_grad_pass *pass, const zest_grad_layer *kept, const void *context) {
    const uint32_t *rows = pass->pass.at.rows;
    zest_status status = zest_grad_copy(pass, context, kept->context, rows, pass->asked, pass->pass.q_width);
    return status ? status
                  : zest_grad_copy(pass, kept->x, kept->input, rows, pass->asked,
                                   pass->pass.config->hidden_size);
}

static zest_status attention_block(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_config *config = pass->pass.config;
    zest_model_runner *runner = pass->grad->runner;
    int last = i + 1 == config->layers;
    void *context = last ? pass->grad->wide.data : kept->context, *a = pass->grad->a.data;
    const void *from = config->post_norm ? kept->x : a;
    zest_status status = ZEST_OK;
    if (!config->post_norm) status = zest_grad_normed(pass, &layer->norm1, kept->x, pass->rows, a);
    if (!status)
        status = zest_model_project_qkv(&pass->pass, layer, &pass->lane, (const void *const[2]){from, from},
                                        (void *const[2]){kept->qkv, kept->qkv});
    if (status) return status;
    zest_grad_rotate(pass, kept->qkv, runner->sines.data);
    status = attend(pass, i, kept->qkv, context);
    if (!status && last) status = narrow(pass, kept, context);
    if (status) return status;
    return add_to_stream(pass, &layer->out, i, ZEST_DROPOUT_ATTENDED, kept->context,
                         zest_grad_layer_rows(pass, i), pass->pass.q_width, kept->input, kept->middle);
}

static zest_status mlp_block(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept, void *out) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_config *config = pass->pass.config;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = zest_grad_layer_rows(pass, i), width = config->hidden_size, inner = config->ffn_size;
    void *a = pass->grad->a.data, *h = pass->grad->wide.data;
    zest_status status =
        zest_grad_normed(pass, config->post_norm ? &layer->norm1 : &layer->norm2, kept->middle, rows, a);
    if (!status && config->gated)
        status =
            zest_grad_linear(pass, &layer->gate, config->transposed, a, rows, width, kept->gate, inner, NULL);
    if (!status)
        status =
            zest_grad_linear(pass, &layer->up, config->transposed, a, rows, width, kept->up, inner, NULL);
    if (status || (!out && !config->post_norm)) return status;
    pass->grad->backward->activate(h, config->gated ? kept->gate : kept->up, config->gated ? kept->up : NULL,
                                   rows * inner, config->activation, runner->threads, &runner->scratch);
    status = add_to_stream(pass, &layer->down, i, ZEST_DROPOUT_MLP, h, rows, inner,
                           config->post_norm ? a : kept->middle, config->post_norm ? kept->end : out);
    if (!status && config->post_norm && out)
        status = zest_grad_normed(pass, &layer->norm2, kept->end, rows, out);
    return status;
}

zest_status zest_grad_forward_layer_saved(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept,
                                          void *out) {
    zest_status status = attention_block(pass, i, kept);
    return status ? status : mlp_block(pass, i, kept, out);
}

/* ---- The whole ---- */

/* Behind the layers: final norm, projection, the head's transform. */
static zest_status finish(zest_grad_pass *pass, void *last) {
    const zest_model *model = &pass->grad->view;
    const zest_model_config *config = pass->pass.config;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = pass->asked, room = rows * zest_grad_max_width(pass);
    void *next = zest_model_offset(runner, last, room);
    zest_status status = ZEST_OK;
    pass->h = last;
    if (config->final_norm) {
        status = zest_grad_normed(pass, &model->final_norm, last, rows, next);
        pass->normed = pass->h = next, next = zest_model_offset(runner, next, room);
    }
    if (!status && model->project_out.weight.data) {
        status = zest_grad_linear(pass, &model->project_out, 0, pass->h, rows, config->hidden_size, next,
                                  config->embedding_size, NULL);
        pass->h = next, next = zest_model_offset(runner, next, room);
    }
    pass->features = pass->h;
    if (status || !config->head_transform) return status;
    pass->dense = next, pass->features = zest_model_offset(runner, next, room);
    status = zest_grad_linear(pass, &model->head_dense, 0, pass->h, rows, config->hidden_size, pass->dense,
                              config->hidden_size, NULL);
    if (status) return status;
    void *a = pass->grad->a.data;
    pass->grad->backward->activate(a, pass->dense, NULL, rows * config->hidden_size, config->head_activation,
                                   runner->threads, &runner->scratch);
    return zest_grad_normed(pass, &model->head_norm, a, rows, pass->features);
}

zest_status zest_grad_forward_saved(zest_grad_pass *pass) {
    zest_model_runner *runner = pass->grad->runner;
    size_t layers = pass->pass.config->layers, count = pass->rows * pass->pass.config->hidden_size;
    zest_status status = zest_grad_alloc(pass);
    if (!status) status = zest_grad_list_keys(pass);
    if (status) return status;
    void *last = pass->grad->head.data;
    void *x = layers ? zest_grad_saved(pass, 0).x : last;
    pass->lane.x[0] = pass->lane.x[1] = x;
    status = zest_model_embed(&pass->pass, &pass->lane);
    const zest_dropout *dropout = pass->job->dropout;
    zest_mask mask = mask_of(pass, dropout ? dropout->embeddings : 0, 0, ZEST_DROPOUT_EMBEDDINGS);
    if (!status && mask.threshold)
        pass->grad->backward->drop(x, x, NULL, count, &mask, runner->threads, &runner->scratch);
    for (size_t i = 0; i < layers && !status; i++) {
        zest_grad_layer kept = zest_grad_saved(pass, i);
        void *out = i + 1 == layers ? last : zest_grad_saved(pass, i + 1).x;
        status = zest_grad_forward_layer_saved(pass, i, &kept, out);
    }
    return status ? status : finish(pass, last);
}
