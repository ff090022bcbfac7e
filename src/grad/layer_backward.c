/* A layer, from its end to its beginning. The stream's gradient stands in the first third of grad->d; what
 * branches off it in the other two. */
#include <string.h>

#include "grad/grad_internal.h"

static float *third(const zest_grad_pass *pass, size_t which) {
    const zest_model_description *is = pass->pass.is;
    size_t widest = is->width > is->embedding_width ? is->width : is->embedding_width;
    return pass->grad->d.data + which * pass->pass.room_rows * widest;
}

/* The gradient of what was added to the stream: the stream's, dropped where that was. */
static const float *added(const zest_grad_pass *pass, size_t layer, zest_dropout_site site, size_t rows) {
    const zest_dropout *dropout = pass->job->dropout;
    zest_mask mask = zest_dropout_mask(dropout, dropout ? dropout->added : 0, layer, site);
    if (!mask.threshold) return third(pass, 0);
    pass->grad->backward->drop(third(pass, 1), third(pass, 0), NULL, rows * pass->pass.is->width, &mask,
                               pass->grad->runner->threads);
    return third(pass, 1);
}

static zest_status mlp_backward(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_description *is = pass->pass.is;
    size_t rows = zest_grad_layer_rows(pass, i), inner = is->inner, width = is->width;
    int threads = pass->grad->runner->threads, turned = is->transposed;
    float *d = third(pass, 0), *branch = third(pass, 1), *a = pass->grad->a.data;
    float *dh = pass->grad->wide.data, *h = dh + pass->pass.room_rows * inner;
    const float *from = is->gated ? kept->gate : kept->up, *times = is->gated ? kept->up : NULL;
    zest_status status = ZEST_OK;
    if (is->norm_after) status = zest_grad_norm_backward(pass, &layer->norm2, kept->end, d, rows, d, 0);
    if (status) return status;
    pass->grad->backward->activate(h, from, times, rows * inner, is->activation, threads);
    status = zest_grad_map_backward(pass, &layer->down, turned, h, added(pass, i, ZEST_DROPOUT_MLP, rows),
                                    width, rows, dh, 0);
    if (status) return status;
    pass->grad->backward->activate_back(dh, h, from, times, rows * inner, is->activation, threads);
    status = zest_grad_normed(pass, is->norm_after ? &layer->norm1 : &layer->norm2, kept->middle, rows, a);
    /* Norms behind: what the MLP saw is the stream itself. Norms before: a branch of it. */
    float *to = is->norm_after ? d : branch;
    if (!status)
        status = zest_grad_map_backward(pass, &layer->up, turned, a, is->gated ? h : dh, inner, rows, to,
                                        is->norm_after);
    if (!status && is->gated)
        status = zest_grad_map_backward(pass, &layer->gate, turned, a, dh, inner, rows, to, 1);
    if (status) return status;
    return is->norm_after ? zest_grad_norm_backward(pass, &layer->norm1, kept->middle, d, rows, d, 0)
                          : zest_grad_norm_backward(pass, &layer->norm2, kept->middle, branch, rows, d, 1);
}

/* The asked rows' gradients go back to where the rows came from; several may come from one. */
static void widen(const zest_grad_pass *pass, const float *from, size_t width, float *to) {
    memset(to, 0, pass->rows * width * sizeof *to);
    for (size_t r = 0; r < pass->asked; r++) {
        float *row = to + pass->request.rows[r] * width;
        for (size_t i = 0; i < width; i++) row[i] += from[r * width + i];
    }
}

/* Gradients of keys and values that were written out for children are added up where they came from. */
static void gather_keys(const zest_grad_pass *pass, const float *written, float *dqkv) {
    const zest_model_pass *p = &pass->pass;
    const zest_model_batch *batch = pass->request.batch;
    size_t width = 2 * p->kv_width;
    for (size_t row = 0; row < p->rows; row++)
        memset(dqkv + row * p->stride + p->q_width, 0, width * sizeof *dqkv);
    for (size_t s = 0; s < batch->sequences; s++) {
        uint32_t to[2] = {batch->parents[s], (uint32_t)s};
        for (int part = 0; part < 2; part++) {
            if (to[part] == ZEST_MODEL_NO_PARENT) continue;
            for (size_t row = batch->starts[to[part]]; row < batch->starts[to[part] + 1]; row++) {
                float *d = dqkv + row * p->stride + p->q_width;
                for (size_t i = 0; i < width; i++) d[i] += written[i];
                written += width;
            }
        }
    }
}

/* A rotation's gradient is the rotation back: sines with the other sign. */
static zest_status rotate_back(const zest_grad_pass *pass, float *dqkv) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    size_t count = runner->angles * (p->is->head_size / 2);
    if (p->is->position_rows) return ZEST_OK;
    zest_status status = zest_model_room_for(pass->grad->runner, &pass->grad->small, 1, count, pass->error);
    if (status) return status;
    for (size_t i = 0; i < count; i++) pass->grad->small.data[i] = -runner->sines.data[i];
    for (int k = 0; k < 2; k++)
        runner->operations->rotary(dqkv + (k ? p->q_width : 0), p->rows, p->stride,
                                   k ? p->is->kv_heads : p->is->heads, p->is->head_size, p->positions,
                                   runner->cosines.data, pass->grad->small.data, runner->threads,
                                   &runner->scratch);
    return ZEST_OK;
}

/* dqkv out of the context's gradient */
static zest_status attend_back(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept,
                               const float *d_context, float *dqkv) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    const zest_dropout *dropout = pass->job->dropout;
    int parents = pass->request.batch->parents != NULL;
    if (parents) zest_grad_write_out_keys(pass, kept->qkv);
    zest_mask mask = zest_dropout_mask(dropout, dropout ? dropout->attention : 0, i, ZEST_DROPOUT_ATTENTION);
    float *written = dqkv + p->room_rows * p->stride, *dk = parents ? written : dqkv + p->q_width;
    zest_attention_backward job = {.forward = zest_grad_attention(pass, kept->qkv, NULL),
                                   .d_out = d_context,
                                   .dq = dqkv,
                                   .dk = dk,
                                   .dv = dk + p->kv_width,
                                   .mask = mask.threshold ? &mask : NULL,
                                   .longest = p->is->positions};
    if (pass->grad->backward->attention(&job, runner->threads, &runner->scratch))
        return zest_model_no_scratch(pass->grad->runner, pass->error);
    if (parents) gather_keys(pass, written, dqkv);
    return rotate_back(pass, dqkv);
}

static zest_status qkv_backward(zest_grad_pass *pass, const zest_model_layer *layer, const float *a,
                                const float *dqkv, float *to, int add) {
    const zest_model_pass *p = &pass->pass;
    int turned = p->is->transposed;
    if (p->is->fused_qkv)
        return zest_grad_map_backward(pass, &layer->qkv, turned, a, dqkv, p->stride, p->rows, to, add);
    const zest_model_affine *maps[3] = {&layer->q, &layer->k, &layer->v};
    size_t at[3] = {0, p->q_width, p->q_width + p->kv_width};
    zest_status status = ZEST_OK;
    for (int m = 0; m < 3 && !status; m++)
        status =
            zest_grad_map_backward(pass, maps[m], turned, a, dqkv + at[m], p->stride, p->rows, to, add || m);
    return status;
}

static zest_status attention_block_backward(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_pass *p = &pass->pass;
    const zest_model_description *is = p->is;
    size_t rows = zest_grad_layer_rows(pass, i), width = is->width, q = p->q_width;
    float *d = third(pass, 0), *branch = third(pass, 1);
    float *d_context = pass->grad->wide.data, *full = d_context + p->room_rows * q;
    float *dqkv = full + p->room_rows * q;
    zest_status status =
        zest_grad_map_backward(pass, &layer->out, is->transposed, kept->context,
                               added(pass, i, ZEST_DROPOUT_ATTENDED, rows), width, rows, d_context, 0);
    if (status) return status;
    if (i + 1 == is->layers) {
        widen(pass, d_context, q, full);
        d_context = full;
        memcpy(branch, d, rows * width * sizeof *d);
        widen(pass, branch, width, d);
    }
    status = attend_back(pass, i, kept, d_context, dqkv);
    if (!status && is->norm_after) return qkv_backward(pass, layer, kept->x, dqkv, d, 1);
    float *a = pass->grad->a.data;
    if (!status) status = zest_grad_normed(pass, &layer->norm1, kept->x, p->rows, a);
    if (!status) status = qkv_backward(pass, layer, a, dqkv, branch, 0);
    if (!status) status = zest_grad_norm_backward(pass, &layer->norm1, kept->x, branch, p->rows, d, 1);
    return status;
}

zest_status zest_grad_layer_backward(zest_grad_pass *pass, size_t i) {
    zest_grad_layer kept = zest_grad_kept(pass, i);
    zest_status status = ZEST_OK;
    if (pass->grad->recompute && i + 1 != pass->pass.is->layers)
        status = zest_grad_remember_layer(pass, i, &kept, NULL);
    if (!status) status = mlp_backward(pass, i, &kept);
    return status ? status : attention_block_backward(pass, i, &kept);
}
