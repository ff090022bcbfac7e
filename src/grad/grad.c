#include "grad/grad.h"

#include <stdlib.h>

#include "grad/grad_internal.h"

zest_status zest_grad_new(const zest_model *model, const zest_forward *operations,
                          const zest_grad_options *options, zest_grad **grad, zest_error *error) {
    zest_model_runner_options run = {.compute = options ? options->compute : ZEST_COMPUTE_F32,
                                     .threads = options ? options->threads : 0};
    *grad = NULL;
    if (options && options->runner && zest_model_runner_device(options->runner))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "gradients are made on the CPU in this version: use --device cpu");
    *grad = calloc(1, sizeof **grad);
    if (!*grad) return zest_error_memory(error, "a gradient", sizeof **grad);
    (*grad)->model = model;
    (*grad)->backward = zest_backward_for(operations->cpu);
    (*grad)->recompute = options && options->recompute;
    zest_status status = zest_grad_view_new(*grad, error);
    if (!status) status = zest_model_runner_new(&(*grad)->view, operations, &run, &(*grad)->runner, error);
    if (!status && model->is.transposed && !model->is.fused_qkv)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "gradients of projections stored inputs first need q, k and v as one tensor");
    if (!status) return ZEST_OK;
    zest_grad_free(*grad);
    *grad = NULL;
    return status;
}

void zest_grad_free(zest_grad *grad) {
    if (!grad) return;
    zest_model_room *rooms[] = {&grad->tape, &grad->inputs, &grad->d,    &grad->wide,
                                &grad->a,    &grad->head,   &grad->small};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]->data);
    free(grad->sums);
    free(grad->scores);
    free(grad->weights);
    free(grad->view.layers);
    zest_model_runner_free(grad->runner);
    free(grad);
}

size_t zest_grad_memory(const zest_grad *grad) {
    size_t floats = grad->tape.count + grad->inputs.count + grad->d.count + grad->wide.count + grad->a.count +
                    grad->head.count + grad->small.count;
    return floats * sizeof(float) + zest_model_runner_memory(grad->runner) +
           grad->scores_count * sizeof *grad->scores +
           grad->sums_count * (sizeof *grad->sums + sizeof *grad->weights);
}

static zest_status go_back(zest_grad_pass *pass, double factor) {
    zest_status status = zest_grad_head_backward(pass, factor, pass->grad->d.data);
    if (!status) status = zest_grad_finish_backward(pass);
    for (size_t i = pass->pass.is->layers; i-- > 0 && !status;) status = zest_grad_layer_backward(pass, i);
    return status ? status : zest_grad_embed_backward(pass);
}

zest_status zest_grad_losses(zest_grad *grad, const zest_grad_job *job, double *losses, double *mean,
                             zest_error *error) {
    const zest_model_objective *objective = job->objective;
    static const zest_direction none = {0, 0, 0, ZEST_GAUSSIAN};
    const zest_direction *direction = job->at.direction ? job->at.direction : &none;
    zest_status status = zest_model_objective_check(grad->model, objective, error);
    if (status) return status;
    zest_grad_view_place(grad, &job->at);
    zest_model_lane lane = {*direction, job->at.point ? 0 : job->at.scale};
    size_t items = objective->items;
    zest_grad_pass pass = {.grad = grad, .job = job, .error = error};
    pass.request = (zest_model_request){
        .lanes = &lane,
        .lane_count = 1,
        .batch = objective->batch,
        .rows = objective->rows,
        .row_count = objective->kind == ZEST_MODEL_WORDS ? items : objective->item_starts[items],
        .depth = grad->model->is.layers};
    pass.lane.perturbation = (zest_perturbation){.seed = lane.direction.seed, .lanes = 1};
    pass.lane.perturbation.signs = lane.direction.distribution == ZEST_RADEMACHER;
    pass.lane.perturbation.scale[0] = (float)(lane.scale * lane.direction.gain);
    status = zest_model_prepare(grad->runner, &pass.request, &pass.pass, error);
    if (!status) status = zest_model_stage_pass(&pass.pass);
    if (status) return status;
    pass.rows = pass.pass.rows;
    pass.asked = pass.pass.asked;
    double value;
    status = zest_grad_remember(&pass);
    if (!status) status = zest_grad_head(&pass, losses, &value);
    if (status) return status;
    if (mean) *mean = value;
    double factor = job->weigh ? job->weigh(job->user, value) : job->factor;
    return job->gradient && factor != 0 ? go_back(&pass, factor) : ZEST_OK;
}
