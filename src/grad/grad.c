/* The gradient of a model's loss: the model at an evaluation point, one forward and one backward pass, and
 * the scatter indexes that the backward pass needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grad/grad.h"
#include "grad/grad_internal.h"
#include "optim/lanes.h"
#include "base/text.h"

/* A runner over the view: with a CPU of its own, or on the device of another runner. */
static zest_status runner_for(zest_grad *grad, const zest_ops *operations, const zest_grad_options *options,
                              const zest_model_runner *device_runner, zest_error *error) {
    zest_model_runner_options run = {.compute = options->compute, .threads = options->threads};
    if (!device_runner) return zest_model_runner_new(&grad->view, operations, &run, &grad->runner, error);
    return zest_model_runner_borrow(device_runner, &grad->view, &grad->runner, error);
}

zest_status zest_grad_new(const zest_model *model, const zest_ops *operations,
                          const zest_grad_options *options, zest_grad **grad, zest_error *error) {
    static const zest_grad_options defaults = {0};
    if (!options) options = &defaults;
    zest_model_runner *device_runner = options->runner && options->runner->device ? options->runner : NULL;
    *grad = NULL;
    if (zest_model_refuse_quantized(model, "gradients are computed", error)) return ZEST_ERROR_ARGUMENT;
    if (device_runner && device_runner->compute == ZEST_COMPUTE_F16)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "gradients are too small for fp16: use --compute bf16 or f32");
    *grad = calloc(1, sizeof **grad);
    if (!*grad) return zest_error_memory(error, "a gradient", sizeof **grad);
    (*grad)->model = device_runner ? device_runner->model : model;
    (*grad)->backward = zest_backward_for(device_runner ? device_runner->operations : operations);
    (*grad)->recompute = options->recompute;
    zest_status status = zest_grad_view_new(*grad, error);
    if (!status) status = runner_for(*grad, operations, options, device_runner, error);
    if (!status && model->config.transposed && !model->config.fused_qkv)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "gradients of projections stored inputs first need q, k and v as one tensor");
    if (!status) return ZEST_OK;
    zest_grad_free(*grad);
    *grad = NULL;
    return status;
}

void zest_grad_free(zest_grad *grad) {
    if (!grad) return;
    zest_model_buffer *buffers[] = {&grad->saved,      &grad->inputs,           &grad->d_stream,
                                    &grad->layer_work, &grad->norm_out,         &grad->head_saved,
                                    &grad->small_work, &grad->negated_sines[0], &grad->negated_sines[1]};
    for (size_t i = 0; grad->runner && i < sizeof buffers / sizeof *buffers; i++)
        zest_model_dealloc(grad->runner, buffers[i]->data);
    for (size_t i = 0; i < ZEST_GRAD_LISTS; i++) free(grad->lists[i]);
    free(grad->key_sources);
    free(grad->sums);
    free(grad->scores);
    free(grad->d_logits);
    free(grad->weights);
    free(grad->view.layers);
    zest_model_runner_free(grad->runner);
    free(grad);
}

size_t zest_grad_memory(const zest_grad *grad) {
    size_t elements = grad->saved.count + grad->inputs.count + grad->d_stream.count + grad->layer_work.count +
                      grad->norm_out.count + grad->head_saved.count + grad->small_work.count;
    size_t lists = grad->key_count;
    for (size_t i = 0; i < ZEST_GRAD_LISTS; i++) lists += grad->list_counts[i];
    return elements * zest_model_element_size(grad->runner) +
           (grad->negated_sines[0].count + grad->negated_sines[1].count) * sizeof(float) +
           lists * sizeof(uint32_t) + zest_model_runner_memory(grad->runner) +
           grad->scores_count * (sizeof *grad->scores + sizeof *grad->d_logits) +
           grad->sums_count * (sizeof *grad->sums + sizeof *grad->weights);
}

static zest_status run_backward(zest_grad_pass *pass, double factor) {
    zest_status status = zest_grad_index(pass, ZEST_GRAD_OUT_ROWS, pass->request.out_rows, pass->out_rows,
                                         pass->rows, 1, &pass->by_rows);
    if (!status) status = zest_grad_head_backward(pass, factor, zest_grad_d_stream(pass, 0));
    if (!status) status = zest_grad_finish_backward(pass);
    for (size_t i = pass->forward.config->layers; i-- > 0 && !status;)
        status = zest_grad_layer_backward(pass, i);
    if (!status) status = zest_grad_embed_backward(pass);
    const zest_device *device = pass->grad->runner->device; /* some operations cannot return an error */
    return status || !device ? status : zest_grad_check(pass, device->error.status != ZEST_OK);
}

zest_status zest_grad_losses(zest_grad *grad, const zest_grad_job *job, double *losses, double *mean,
                             zest_error *error) {
    const zest_model_objective *objective = job->objective;
    static const zest_direction none = {0, 0, 0, ZEST_GAUSSIAN};
    const zest_direction *direction = job->at.direction ? job->at.direction : &none;
    zest_status status = zest_model_objective_check(grad->model, objective, error);
    if (status) return status;
    zest_grad_view_at(grad, &job->at);
    zest_model_lane lane = {*direction, job->at.point ? 0 : job->at.scale};
    zest_grad_pass pass = {.grad = grad, .job = job, .error = error};
    pass.request = (zest_forward_request){.lanes = &lane,
                                          .lane_count = 1,
                                          .batch = objective->batch,
                                          .out_rows = objective->rows,
                                          .out_row_count = zest_loss_rows(objective),
                                          .depth = grad->model->config.layers};
    pass.lane.perturbation = (zest_perturbation){.seed = lane.direction.seed, .lanes = 1};
    pass.lane.perturbation.signs = lane.direction.distribution == ZEST_RADEMACHER;
    pass.lane.perturbation.scale[0] = (float)(lane.scale * lane.direction.gain);
    status = zest_forward_prepare(grad->runner, &pass.request, &pass.forward, error);
    if (!status) status = zest_model_stage_pass(&pass.forward);
    if (status) return status;
    pass.rows = pass.forward.rows;
    pass.out_rows = pass.forward.out_rows;
    double value;
    status = zest_grad_forward(&pass);
    if (!status) status = zest_grad_head(&pass, losses, &value);
    if (status) return status;
    if (mean) *mean = value;
    double factor = job->weigh ? job->weigh(job->user, value) : job->factor;
    return job->gradient && factor != 0 ? run_backward(&pass, factor) : ZEST_OK;
}

/* ---- The model at an evaluation point: the same config, weights that may point elsewhere ---- */

static void point_weight(zest_weight *weight, void *point) {
    if (!weight->data || weight->frozen) return;
    weight->data = (const float *)point + weight->first;
    weight->dtype = ZEST_DTYPE_F32;
}

zest_status zest_grad_view_new(zest_grad *grad, zest_error *error) {
    size_t bytes = (grad->model->config.layers + 1) * sizeof(zest_model_layer);
    grad->view = *grad->model;
    grad->view.layers = malloc(bytes);
    return grad->view.layers ? ZEST_OK : zest_error_memory(error, "a view of the model", bytes);
}

void zest_grad_view_at(zest_grad *grad, const zest_eval_point *at) {
    zest_model_layer *layers = grad->view.layers;
    grad->view = *grad->model;
    grad->view.layers = layers;
    memcpy(layers, grad->model->layers, grad->model->config.layers * sizeof *layers);
    if (at->point) zest_model_each_weight(&grad->view, point_weight, (void *)(uintptr_t)at->point);
}

float *zest_grad_weight_grad(const zest_grad_pass *pass, const zest_weight *weight) {
    return weight->data && !weight->frozen ? pass->job->gradient + weight->first : NULL;
}

enum { SLICE = 2048 };

void zest_eval_point_read(const zest_eval_point *at, const zest_vector_ops *ops, const zest_tensor *tensor,
                          uint64_t first, size_t count, float *out) {
    if (at->point) {
        memcpy(out, at->point + tensor->first + first, count * sizeof *out);
        return;
    }
    size_t size = zest_dtype_size(tensor->dtype);
    (void)zest_dtype_to_float(tensor->dtype, (const char *)tensor->data + first * size, count, out);
    if (!at->direction || at->scale == 0) return;
    float c = (float)(at->scale * at->direction->gain), noise[SLICE];
    for (size_t i = 0; i < count; i += SLICE) {
        size_t here = count - i < SLICE ? count - i : SLICE;
        zest_direction_noise(ops, at->direction, tensor, first + i, here, noise);
        ops->fma_f32(out + i, out + i, c, noise, here);
    }
}

/* ---- Scatter indexes ---- */

zest_status zest_grad_check(const zest_grad_pass *pass, int failed) {
    return failed ? zest_model_device_error(pass->grad->runner, pass->error) : ZEST_OK;
}

const void *zest_grad_stage(zest_grad_pass *pass, const void *table, size_t bytes) {
    zest_model_runner *runner = pass->grad->runner;
    return runner->device && bytes ? runner->operations->device->stage(runner->device, table, bytes) : table;
}

static zest_status grow(zest_grad_pass *pass, uint32_t **list, size_t *capacity, size_t count) {
    if (count <= *capacity) return ZEST_OK;
    free(*list);
    *list = malloc(count * sizeof **list);
    *capacity = *list ? count : 0;
    return *list ? ZEST_OK : zest_error_memory(pass->error, "lists of rows", count * sizeof **list);
}

/* Positions in the list, sorted by the row they read and then in order; ends[r] is the end of row r's. */
static void sort_by_row(const uint32_t *list, size_t count, size_t rows, uint32_t *ends, uint32_t *sorted) {
    memset(ends, 0, (rows + 1) * sizeof *ends);
    for (size_t i = 0; i < count; i++) ends[list[i] + 1]++;
    for (size_t r = 0; r < rows; r++) ends[r + 1] += ends[r];
    for (size_t i = 0; i < count; i++) sorted[ends[list[i]]++] = (uint32_t)i;
}

/* One allocation: the ends of all rows, then targets, starts, runs and sources without gaps, so that they are
 * uploaded as one table. */
zest_status zest_grad_index(zest_grad_pass *pass, zest_grad_list which, const uint32_t *list, size_t count,
                            size_t rows, int all, zest_scatter_index *index) {
    zest_grad *grad = pass->grad;
    size_t max_sums = all || rows < count ? rows : count, max_runs = count / ZEST_SCATTER_RUN + max_sums + 1;
    zest_status status = grow(pass, &grad->lists[which], &grad->list_counts[which],
                              rows + 1 + 2 * max_sums + 1 + max_runs + count);
    if (status) return status;
    uint32_t *ends = grad->lists[which], *targets = ends + rows + 1, *starts = targets + max_sums;
    uint32_t *runs = starts + max_sums + 1, *sorted = runs + max_runs;
    size_t sums = 0, run = 0;
    *index = (zest_scatter_index){0};
    sort_by_row(list, count, rows, ends, sorted);
    for (size_t r = 0; r < rows; r++) {
        uint32_t first = r ? ends[r - 1] : 0, end = ends[r];
        if (first == end && !all) continue;
        targets[sums] = (uint32_t)r;
        starts[sums++] = (uint32_t)run;
        for (uint32_t s = first; s < end; s += ZEST_SCATTER_RUN) runs[run++] = s;
        index->divided |= end - first > ZEST_SCATTER_RUN;
    }
    starts[sums] = (uint32_t)run;
    runs[run] = (uint32_t)count;
    memmove(targets + sums, starts, (sums + 1) * sizeof *starts);
    memmove(targets + 2 * sums + 1, runs, (run + 1) * sizeof *runs);
    memmove(targets + 2 * sums + run + 2, sorted, count * sizeof *sorted);
    const uint32_t *staged = zest_grad_stage(pass, targets, (2 * sums + run + 2 + count) * sizeof *targets);
    if (!staged) return zest_grad_check(pass, 1);
    index->targets = all ? NULL : staged;
    index->starts = staged + sums;
    index->runs = staged + 2 * sums + 1;
    index->sources = staged + 2 * sums + run + 2;
    index->count = sums;
    index->run_count = run;
    return ZEST_OK;
}

zest_status zest_grad_list_keys(zest_grad_pass *pass) {
    const zest_model_batch *batch = pass->request.batch;
    zest_grad *grad = pass->grad;
    for (size_t s = 0; s < batch->sequences; s++) {
        size_t keys = pass->forward.key_starts[s + 1] - pass->forward.key_starts[s];
        if (keys > pass->longest_keys) pass->longest_keys = keys;
    }
    if (!batch->prefix_of) return ZEST_OK;
    zest_status status = grow(pass, &grad->key_sources, &grad->key_count, pass->forward.key_rows);
    if (status) return status;
    zest_model_list_key_sources(&pass->forward, grad->key_sources);
    return zest_grad_index(pass, ZEST_GRAD_KEYS, grad->key_sources, pass->forward.key_rows, pass->rows, 1,
                           &pass->by_keys);
}
