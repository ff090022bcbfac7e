/* Matrix products and norms. y = x W' + b, W of outputs × inputs:
 *
 *     dx = dy W      dW = dy' x      db = sum over rows of dy
 *
 * and where W is stored inputs × outputs, dx = dy W', dW = x' dy. All of them are the forward pass's own
 * product: dx takes the stored weight the other way round; dW takes dy (or x) lying the other way round as
 * activations and x (or dy) as a weight of rows × inputs, and adds to the gradient as to a residual. Every
 * element of dW is one chain over the rows, so it does not depend on the number of threads. */
#include "grad/grad_internal.h"

static zest_status run(zest_grad_pass *pass, zest_linear *job) {
    zest_model_runner *runner = pass->grad->runner;
    job->compute = runner->compute;
    int failed = runner->operations->linear(job, runner->threads, &runner->scratch);
    return failed ? zest_model_no_scratch(pass->grad->runner, pass->error) : ZEST_OK;
}

/* out += left' right; both have `rows` rows. right lies without gaps. */
static zest_status outer(zest_grad_pass *pass, const float *left, size_t left_stride, size_t left_width,
                         const float *right, size_t right_width, size_t rows, float *out) {
    zest_linear job = {.weight = {right, ZEST_DTYPE_F32, rows, right_width, 0, 1},
                       .transposed = 1,
                       .perturbation = {.lanes = 1},
                       .a = {left, left},
                       .a_stride = left_stride,
                       .a_transposed = 1,
                       .rows = left_width,
                       .out = {out, out},
                       .out_stride = right_width,
                       .residual = {out, out},
                       .residual_stride = right_width};
    return run(pass, &job);
}

static zest_status inputs_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                   const float *dy, size_t dy_stride, size_t rows, size_t inputs, float *dx,
                                   int add) {
    zest_linear job = {.weight = affine->weight,
                       .transposed = !transposed,
                       .perturbation = pass->lane.perturbation,
                       .a = {dy, dy},
                       .a_stride = dy_stride,
                       .rows = rows,
                       .out = {dx, dx},
                       .out_stride = inputs,
                       .residual = {add ? dx : NULL, add ? dx : NULL},
                       .residual_stride = inputs};
    return run(pass, &job);
}

zest_status zest_grad_map_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                   const float *x, const float *dy, size_t dy_stride, size_t rows, float *dx,
                                   int add) {
    zest_model_runner *runner = pass->grad->runner;
    size_t outputs = transposed ? affine->weight.columns : affine->weight.rows;
    size_t inputs = transposed ? affine->weight.rows : affine->weight.columns;
    float *d_weight = zest_grad_of(pass, &affine->weight), *d_bias = zest_grad_of(pass, &affine->bias);
    if (d_bias && pass->grad->backward->sum_columns(dy, dy_stride, rows, outputs, d_bias, runner->threads,
                                                    &runner->scratch))
        return zest_model_no_scratch(pass->grad->runner, pass->error);
    zest_status status = ZEST_OK;
    if (d_weight && transposed) /* only fused projections are stored so: dy has no gaps */
        status = outer(pass, x, inputs, inputs, dy, outputs, rows, d_weight);
    else if (d_weight)
        status = outer(pass, dy, dy_stride, outputs, x, inputs, rows, d_weight);
    if (!status && dx)
        status = inputs_backward(pass, affine, transposed, dy, dy_stride, rows, inputs, dx, add);
    return status;
}

zest_status zest_grad_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm, const float *x,
                                    const float *dy, size_t rows, float *dx, int add) {
    zest_grad *grad = pass->grad;
    zest_model_runner *runner = grad->runner;
    const zest_model_description *is = pass->pass.is;
    zest_status status = zest_model_room_for(grad->runner, &grad->small, 1, is->width, pass->error);
    if (status) return status;
    float *gain[2] = {grad->small.data, grad->small.data};
    uint32_t row = 0; /* a gain is a table of one row: gathering it gives its values at the place */
    if (norm->weight.data && runner->operations->gather(&norm->weight, &pass->lane.perturbation, &row, 1,
                                                        gain, 0, 1, &runner->scratch))
        return zest_model_no_scratch(pass->grad->runner, pass->error);
    zest_norm_backward job = {.x = x,
                              .dy = dy,
                              .gain = norm->weight.data ? gain[0] : NULL,
                              .dx = dx,
                              .add = add,
                              .d_gain = zest_grad_of(pass, &norm->weight),
                              .d_bias = zest_grad_of(pass, &norm->bias),
                              .rms = is->rms,
                              .epsilon = is->epsilon,
                              .rows = rows,
                              .width = is->width};
    return grad->backward->norm(&job, runner->threads, &runner->scratch)
               ? zest_model_no_scratch(pass->grad->runner, pass->error)
               : ZEST_OK;
}
