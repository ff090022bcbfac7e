/* A layer, from its end to its beginning. The stream's gradient stands in the first third of grad->d; what
 * branches off it in the other two. */
#include "grad/grad_internal.h"

/* The gradient of what was added to the stream: the stream's, dropped where that was. */
static const float *added(const zest_grad_pass *pass, size_t layer, zest_dropout_site site, size_t rows) {
    const zest_dropout *dropout = pass->job->dropout;
    zest_model_runner *runner = pass->grad->runner;
    zest_mask mask = zest_dropout_mask(dropout, dropout ? dropout->added : 0, layer, site);
    float *d = zest_grad_stream(pass, 0), *branch = zest_grad_stream(pass, 1);
    if (!mask.threshold) return d;
    pass->grad->backward->drop(branch, d, NULL, rows * pass->pass.is->width, &mask, runner->threads,
                               &runner->scratch);
    return branch;
}

static zest_status mlp_backward(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_description *is = pass->pass.is;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = zest_grad_layer_rows(pass, i), inner = is->inner, width = is->width;
    int threads = runner->threads, turned = is->transposed;
    float *d = zest_grad_stream(pass, 0), *branch = zest_grad_stream(pass, 1), *a = pass->grad->a.data;
    float *dh = pass->grad->wide.data, *h = zest_model_at(runner, dh, pass->pass.room_rows * inner);
    const float *from = is->gated ? kept->gate : kept->up, *times = is->gated ? kept->up : NULL;
    zest_status status = ZEST_OK;
    if (is->norm_after) status = zest_grad_norm_backward(pass, &layer->norm2, kept->end, d, rows, d, 0);
    if (status) return status;
    pass->grad->backward->activate(h, from, times, rows * inner, is->activation, threads, &runner->scratch);
    status = zest_grad_map_backward(pass, &layer->down, turned, h, added(pass, i, ZEST_DROPOUT_MLP, rows),
                                    width, rows, dh, 0);
    if (status) return status;
    pass->grad->backward->activate_back(dh, h, from, times, rows * inner, is->activation, threads,
                                        &runner->scratch);
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

/* ---- Attention ---- */

static zest_status collect(const zest_grad_pass *pass, const zest_collect *job) {
    zest_model_runner *runner = pass->grad->runner;
    return zest_grad_done(pass, pass->grad->backward->collect(job, runner->threads, &runner->scratch));
}

/* The asked rows' gradients go back to where the rows came from; several may come from one. */
static zest_status widen(const zest_grad_pass *pass, const float *from, size_t width, float *to) {
    zest_collect job = {pass->by_rows, from, to, width, width, width, 0};
    return collect(pass, &job);
}

/* Gradients of keys and values that were written out for children are added up where they came from. */
static zest_status gather_keys(const zest_grad_pass *pass, const float *written, float *dqkv) {
    const zest_model_pass *p = &pass->pass;
    size_t width = 2 * p->kv_width;
    zest_collect job = {
        pass->by_keys, written, zest_model_at(pass->grad->runner, dqkv, p->q_width), width, p->stride,
        width,         0};
    return collect(pass, &job);
}

/* A rotation's gradient is the rotation back: sines with the other sign. */
static zest_status rotate_back(const zest_grad_pass *pass, float *dqkv) {
    zest_grad *grad = pass->grad;
    zest_model_runner *runner = grad->runner;
    size_t count = runner->angles * (pass->pass.is->head_size / 2);
    if (pass->pass.is->position_rows) return ZEST_OK;
    if (grad->angles != runner->angles) {
        zest_status status = zest_model_room_floats(runner, &grad->sines, 1, count, pass->error);
        if (status) return status;
        grad->backward->negate(grad->sines.data, runner->sines.data, count, runner->threads,
                               &runner->scratch);
        grad->angles = runner->angles;
    }
    zest_grad_rotate(pass, dqkv, grad->sines.data);
    return ZEST_OK;
}

/* dqkv out of the context's gradient */
static zest_status attend_back(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept,
                               const float *d_context, float *dqkv) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    const zest_dropout *dropout = pass->job->dropout;
    int parents = pass->request.batch->parents != NULL;
    zest_status status = parents ? zest_grad_write_out_keys(pass, kept->qkv) : ZEST_OK;
    if (status) return status;
    zest_mask mask = zest_dropout_mask(dropout, dropout ? dropout->attention : 0, i, ZEST_DROPOUT_ATTENTION);
    float *written = zest_model_at(runner, dqkv, p->room_rows * p->stride);
    float *dk = parents ? written : zest_model_at(runner, dqkv, p->q_width);
    zest_attention_backward job = {.forward = zest_grad_attention(pass, kept->qkv, NULL),
                                   .d_out = d_context,
                                   .dq = dqkv,
                                   .dk = dk,
                                   .dv = zest_model_at(runner, dk, p->kv_width),
                                   .mask = mask.threshold ? &mask : NULL,
                                   .longest = p->is->positions,
                                   .keys = pass->longest_keys,
                                   .rows = pass->rows};
    status = zest_grad_done(pass, pass->grad->backward->attention(&job, runner->threads, &runner->scratch));
    if (!status && parents) status = gather_keys(pass, written, dqkv);
    return status ? status : rotate_back(pass, dqkv);
}

/* The last layer's gradients of asked rows become those of all rows. */
static zest_status widen_both(zest_grad_pass *pass, const float *d_context, float *full) {
    size_t width = pass->pass.is->width;
    float *d = zest_grad_stream(pass, 0), *branch = zest_grad_stream(pass, 1);
    zest_status status = widen(pass, d_context, pass->pass.q_width, full);
    if (!status) status = zest_grad_copy(pass, d, branch, NULL, pass->asked, width);
    return status ? status : widen(pass, branch, width, d);
}

static zest_status attention_block_backward(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_pass *p = &pass->pass;
    const zest_model_description *is = p->is;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = zest_grad_layer_rows(pass, i), width = is->width, q = p->q_width;
    float *d = zest_grad_stream(pass, 0), *branch = zest_grad_stream(pass, 1);
    float *d_context = pass->grad->wide.data, *full = zest_model_at(runner, d_context, p->room_rows * q);
    float *dqkv = zest_model_at(runner, full, p->room_rows * q);
    zest_status status =
        zest_grad_map_backward(pass, &layer->out, is->transposed, kept->context,
                               added(pass, i, ZEST_DROPOUT_ATTENDED, rows), width, rows, d_context, 0);
    if (!status && i + 1 == is->layers) {
        status = widen_both(pass, d_context, full);
        d_context = full;
    }
    if (!status) status = attend_back(pass, i, kept, d_context, dqkv);
    if (!status && is->norm_after) return zest_grad_qkv_backward(pass, layer, kept->x, dqkv, d, 1);
    float *a = pass->grad->a.data;
    if (!status) status = zest_grad_normed(pass, &layer->norm1, kept->x, p->rows, a);
    if (!status) status = zest_grad_qkv_backward(pass, layer, a, dqkv, branch, 0);
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
