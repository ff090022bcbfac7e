/* The best weights of a run that has no folder. A zeroth-order run keeps the losses of its steps, some bytes
 * each, and takes the steps up to the best one again from the start: memory stays that of inference. A run with
 * gradients cannot, and keeps a copy of the weights. */
#include <stdlib.h>
#include <string.h>

#include "models/move.h"
#include "run/trainer_internal.h"

static size_t lanes_of(const zest_trainer *t) { return 2 * (t->stepper.tilt.k + t->stepper.tilt.ball_pairs); }

void zest_trainer_memory_begin(zest_trainer *t) {
    if (!zest_options_first_order(t->options))
        t->memory.start = zest_params_fingerprint(&t->loaded.model->params);
}

zest_status zest_trainer_memory_step(zest_trainer *t, double lr, const double *losses) {
    zest_buffer *steps = &t->memory.steps;
    zest_buffer_add(steps, &lr, sizeof lr);
    zest_buffer_add(steps, losses, lanes_of(t) * sizeof *losses);
    return steps->failed ? zest_error_memory(t->error, "the losses of the run", steps->size) : ZEST_OK;
}

/* ---- Copies ---- */

static size_t bytes_of(const zest_tensor *tensor) {
    return (size_t)tensor->count * zest_dtype_size(tensor->dtype);
}

/* Between the trained tensors and the copy, which lie behind each other there. */
static void copy(const zest_params *params, char *bytes, int back) {
    for (size_t i = 0; i < params->count; i++) {
        size_t size = bytes_of(&params->tensors[i]);
        if (back)
            memcpy(params->tensors[i].data, bytes, size);
        else
            memcpy(bytes, params->tensors[i].data, size);
        bytes += size;
    }
}

static zest_status copy_best(zest_trainer *t) {
    const zest_params *params = &t->loaded.model->params;
    size_t size = 0;
    for (size_t i = 0; i < params->count; i++) size += bytes_of(&params->tensors[i]);
    if (!t->memory.weights) t->memory.weights = malloc(size + 1);
    if (!t->memory.weights)
        return zest_error_set(t->error, ZEST_ERROR_MEMORY,
                              "not enough memory for a copy of the best weights (%zu bytes); with --out RUN "
                              "they are kept on disk",
                              size);
    zest_status status = zest_model_fetch(t->loaded.runner, t->error);
    if (!status) copy(params, t->memory.weights, 0);
    return status;
}

zest_status zest_trainer_memory_best(zest_trainer *t) {
    return zest_options_first_order(t->options) ? copy_best(t) : ZEST_OK;
}

/* ---- Going back ---- */

static zest_status retrace(zest_trainer *t) {
    const double *next = (const double *)(const void *)t->memory.steps.data;
    size_t stride = 1 + lanes_of(t);
    zest_progress_callback watch = {t->hooks->rebuild, t->hooks->user};
    zest_load_free(&t->loaded);
    zest_status status = zest_load_start(&t->loaded, t->options, t->error);
    if (!status && zest_params_fingerprint(&t->loaded.model->params) != t->memory.start)
        status = zest_error_set(t->error, ZEST_ERROR_FILE,
                                "%s: the model changed while the run went on, so the best weights, of step "
                                "%llu, cannot be made again; with --out RUN they are kept",
                                zest_options_text(t->options, ZEST_OPTION_MODEL),
                                (unsigned long long)t->best_step);
    for (uint64_t step = 1; step <= t->best_step && !status; step++, next += stride) {
        status = zest_rebuild_redo(&t->stepper, step, next[0], next + 1, &t->loaded, t->error);
        zest_progress_call(&watch, step, t->best_step);
    }
    return status;
}

zest_status zest_trainer_memory_return(zest_trainer *t) {
    if (!zest_options_first_order(t->options)) return retrace(t);
    copy(&t->loaded.model->params, t->memory.weights, 1);
    return zest_model_send(t->loaded.runner, t->error);
}

void zest_trainer_memory_free(zest_trainer *t) {
    zest_buffer_free(&t->memory.steps);
    free(t->memory.weights);
    t->memory.weights = NULL;
}
