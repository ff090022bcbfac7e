/* Matrix products and norms. y = x W' + b, W of outputs × inputs:
 *
 *     dx = dy W      dW = dy' x      db = sum over rows of dy
 *
 * and where W is stored inputs × outputs, dx = dy W', dW = x' dy. All of them are the forward pass's own
 * product: dx takes the stored weight the other way round; dW takes dy (or x) lying the other way round as
 * activations and x (or dy) as a weight of rows × inputs, and adds to the gradient as to a residual. On the
 * CPU every element of dW is one chain over the rows, so it does not depend on the number of threads. */
#include "grad/grad_internal.h"

static zest_status run(zest_grad_pass *pass, zest_linear *job) {
    zest_model_runner *runner = pass->grad->runner;
    job->compute = runner->compute;
    job->steady = runner->steady;
    return zest_grad_done(pass, runner->operations->linear(job, runner->threads, &runner->scratch));
}

/* Activations as a product takes them for weights. */
static zest_dtype type_of_cells(const zest_model_runner *runner) {
    if (!runner->device || runner->compute == ZEST_COMPUTE_F32) return ZEST_DTYPE_F32;
    return runner->compute == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16;
}

/* out += left' right; both have `rows` rows. right lies without gaps. */
static zest_status outer(zest_grad_pass *pass, const float *left, size_t left_stride, size_t left_width,
                         const float *right, size_t right_width, size_t rows, float *out) {
    zest_linear job = {.weight = {right, type_of_cells(pass->grad->runner), rows, right_width, 0, 1},
                       .transposed = 1,
                       .perturbation = {.lanes = 1},
                       .a = {left, left},
                       .a_stride = left_stride,
                       .a_transposed = 1,
                       .rows = left_width,
                       .out = {out, out},
                       .out_stride = right_width,
                       .residual = {out, out},
                       .residual_stride = right_width,
                       .wide = 1};
    return run(pass, &job);
}

static zest_linear inputs_job(const zest_grad_pass *pass, const zest_weight *weight, int transposed,
                              const float *dy, size_t dy_stride, size_t rows, size_t inputs, float *dx,
                              int add) {
    return (zest_linear){.weight = *weight,
                         .transposed = !transposed,
                         .perturbation = pass->lane.perturbation,
                         .a = {dy, dy},
                         .a_stride = dy_stride,
                         .rows = rows,
                         .out = {dx, dx},
                         .out_stride = inputs,
                         .residual = {add ? dx : NULL, add ? dx : NULL},
                         .residual_stride = inputs};
}

zest_status zest_grad_map_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                   const float *x, const float *dy, size_t dy_stride, size_t rows, float *dx,
                                   int add) {
    zest_model_runner *runner = pass->grad->runner;
    size_t outputs = transposed ? affine->weight.columns : affine->weight.rows;
    size_t inputs = transposed ? affine->weight.rows : affine->weight.columns;
    float *d_weight = zest_grad_of(pass, &affine->weight), *d_bias = zest_grad_of(pass, &affine->bias);
    zest_status status = ZEST_OK;
    if (d_bias)
        status = zest_grad_done(pass, pass->grad->backward->sum_columns(dy, dy_stride, rows, outputs, d_bias,
                                                                        runner->threads, &runner->scratch));
    if (status) return status;
    if (d_weight && transposed) /* only fused projections are stored so: dy has no gaps */
        status = outer(pass, x, inputs, inputs, dy, outputs, rows, d_weight);
    else if (d_weight)
        status = outer(pass, dy, dy_stride, outputs, x, inputs, rows, d_weight);
    if (status || !dx) return status;
    zest_linear job = inputs_job(pass, &affine->weight, transposed, dy, dy_stride, rows, inputs, dx, add);
    return run(pass, &job);
}

zest_status zest_grad_qkv_backward(zest_grad_pass *pass, const zest_model_layer *layer, const float *x,
                                   const float *dqkv, float *dx, int add) {
    const zest_model_pass *p = &pass->pass;
    zest_model_runner *runner = pass->grad->runner;
    int turned = p->is->transposed, together = runner->device && !turned;
    if (p->is->fused_qkv)
        return zest_grad_map_backward(pass, &layer->qkv, turned, x, dqkv, p->stride, p->rows, dx, add);
    const zest_model_affine *maps[3] = {&layer->q, &layer->k, &layer->v};
    size_t at[3] = {0, p->q_width, p->q_width + p->kv_width};
    zest_status status = ZEST_OK;
    for (int m = 0; m < 3 && !status; m++)
        status = zest_grad_map_backward(pass, maps[m], turned, x, zest_model_at(runner, dqkv, at[m]),
                                        p->stride, p->rows, together ? NULL : dx, add || m);
    if (status || !together) return status;
    /* On a device: one product for all three. */
    const zest_linear_part more[2] = {{layer->k.weight, {0}}, {layer->v.weight, {0}}};
    zest_linear job = inputs_job(pass, &layer->q.weight, 0, dqkv, p->stride, p->rows, p->is->width, dx, add);
    job.more = more;
    job.more_count = 2;
    return run(pass, &job);
}

zest_status zest_grad_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm, const float *x,
                                    const float *dy, size_t rows, float *dx, int add) {
    zest_grad *grad = pass->grad;
    zest_model_runner *runner = grad->runner;
    const zest_model_description *is = pass->pass.is;
    zest_norm_backward job = {.x = x,
                              .dy = dy,
                              .dx = dx,
                              .add = add,
                              .d_gain = zest_grad_of(pass, &norm->weight),
                              .d_bias = zest_grad_of(pass, &norm->bias),
                              .rms = is->rms,
                              .epsilon = is->epsilon,
                              .rows = rows,
                              .width = is->width,
                              .stored = norm->weight,
                              .perturbation = pass->lane.perturbation};
    if (!runner->device && norm->weight.data) {
        uint32_t row = 0; /* a gain is a table of one row: gathering it gives its values at the place */
        zest_status status = zest_model_room_for(runner, &grad->small, 1, is->width, pass->error);
        float *const gain[2] = {grad->small.data, grad->small.data};
        if (!status)
            status = zest_grad_done(pass, zest_forward_rows(runner->operations, &norm->weight,
                                                            &pass->lane.perturbation, &row, 1, gain, 1,
                                                            &runner->scratch));
        if (status) return status;
        job.gain = gain[0];
    }
    return zest_grad_done(pass, grad->backward->norm(&job, runner->threads, &runner->scratch));
}
