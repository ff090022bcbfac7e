/* A layer of one group of lanes: attention, then the MLP. */
#include "models/forward_internal.h"

zest_status zest_model_map(zest_model_pass *pass, const zest_model_pair *lanes,
                           const zest_model_affine *affine, const float *const a[2], size_t rows,
                           size_t inputs, float *const out[2], size_t outputs, const float *const residual[2],
                           zest_activation activation) {
    return zest_model_linear(pass->runner, affine, &lanes->perturbation, pass->is->transposed, a, rows,
                             inputs, out, outputs, residual, activation, pass->error);
}

zest_status zest_model_map_and_norm(zest_model_pass *pass, const zest_model_pair *lanes,
                                    const zest_model_affine *affine, const zest_model_affine *norm,
                                    const float *const a[2], size_t rows, size_t inputs, float *const out[2],
                                    const float *const residual[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_description *is = pass->is;
    const zest_norm behind = {
        .gain = norm->weight, .bias = norm->bias, .rms = is->rms, .epsilon = is->epsilon, .width = is->width};
    zest_linear job = zest_model_linear_job(runner, affine, &lanes->perturbation, is->transposed, a, rows,
                                            inputs, out, is->width, residual);
    if (runner->device) job.norm = &behind;
    zest_status status = zest_model_linear_run(runner, &job, pass->error);
    return status || runner->device ? status
                                    : zest_model_norm(runner, norm, &lanes->perturbation, ZEST_CONST2(out),
                                                      out, rows, is->width, pass->error);
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
    const float *const in[2] = {a[0], a[1]}; /* the norm's result, or what attention has left there */
    if (!status && is->gated)
        status = zest_model_map(pass, lanes, &layer->gate, in, rows, is->width, gate, is->inner, NULL,
                                ZEST_ACT_NONE);
    if (!status)
        status = zest_model_map(pass, lanes, &layer->up, in, rows, is->width, up, is->inner, NULL,
                                is->gated ? ZEST_ACT_NONE : is->activation);
    if (status) return status;
    for (size_t l = 0; is->gated && l < zest_perturbation_lanes(&lanes->perturbation); l++)
        pass->runner->operations->gate(zest_model_lane_at(ZEST_CONST2(gate), l),
                                       zest_model_lane_at(ZEST_CONST2(up), l), rows * is->inner,
                                       is->activation, pass->runner->threads, &pass->runner->scratch);
    const float *const inner[2] = {is->gated ? gate[0] : up[0], is->gated ? gate[1] : up[1]};
    if (is->norm_after)
        return zest_model_map_and_norm(pass, lanes, &layer->down, &layer->norm2, inner, rows, is->inner,
                                       lanes->x, in);
    return zest_model_map(pass, lanes, &layer->down, inner, rows, is->inner, lanes->x, is->width,
                          ZEST_CONST2(lanes->x), ZEST_ACT_NONE);
}

zest_status zest_model_pass_layer(zest_model_pass *pass, size_t i, const zest_model_pair *lanes,
                                  size_t *rows) {
    zest_status status = zest_model_attention_block(pass, i, lanes, rows);
    return status ? status : mlp_block(pass, i, lanes, *rows);
}
