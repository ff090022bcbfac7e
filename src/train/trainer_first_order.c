/* First-order runs: gradients of the batch, an update by the optimizer, and checkpoints of weights and state. A step
 * is a function of weights, state, seed and its number, so a resumed run repeats the steps after the last checkpoint
 * and gives the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/trainer_internal.h"

static zest_status check_objective(const zest_options *options, zest_error *error) {
    char methods[64];
    if (zest_options_whole(options, ZEST_OPTION_OBJECTIVE) == ZEST_CHOICE_LOSS) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "accuracy and F1 have no gradient: --objective accuracy and f1 are for %s",
                          zest_option_name_methods(ZEST_METHODS_FORWARD, "and", methods, sizeof methods));
}

#ifdef ZEST_GRAD

#include "base/clock.h"
#include "base/cpu.h"
#include "optim/step.h"
#include "baselines/optimizer.h"
#include "model/forward_pass.h"
#include "train/trainer_parts.h"

struct zest_trainer_gradients {
    zest_grad *grad;
    zest_optimizer *optimizer;
    zest_optimizer_batch batch;
    zest_trainer_parts parts; /* with --accumulate, instead of batch */
    zest_dropout dropout;
    zest_tensor arrays[ZEST_OPTIMIZER_ARRAYS]; /* for describe_state */
};

static size_t parts_of(const zest_trainer *t) {
    return (size_t)zest_options_whole(t->options, ZEST_OPTION_ACCUMULATE);
}

/* ---- Preparing ---- */

/* Where the family's own training has dropout: see grad/grad.h. */
static zest_dropout dropout_of(const zest_trainer *t) {
    double rate = zest_options_number(t->options, ZEST_OPTION_DROPOUT);
    const zest_model_config *config = &t->loaded.model->config;
    int everywhere = !config->causal || !strcmp(config->family, "gpt2");
    return (zest_dropout){.embeddings = everywhere ? rate : 0,
                          .added = rate,
                          .attention = everywhere ? rate : 0,
                          .seed = zest_options_whole(t->options, ZEST_OPTION_SEED)};
}

static zest_optimizer_options method_options(const zest_options *o) {
    zest_optimizer_kind kind =
        (zest_optimizer_kind)(zest_options_whole(o, ZEST_OPTION_METHOD) - ZEST_CHOICE_SGD);
    return (zest_optimizer_options){
        .kind = kind,
        .momentum = zest_options_number(o, ZEST_OPTION_MOMENTUM),
        .decay = zest_options_number(o, ZEST_OPTION_WEIGHT_DECAY),
        .clip = zest_options_number(o, ZEST_OPTION_CLIP),
        .radius = zest_options_number(o, ZEST_OPTION_RADIUS),
        .random = zest_options_whole(o, ZEST_OPTION_SAM_SEARCH) == ZEST_CHOICE_RANDOM,
        .k = (size_t)zest_options_whole(o, ZEST_OPTION_K),
        .tilt = zest_options_number(o, ZEST_OPTION_T),
        .ascent = zest_options_number(o, ZEST_OPTION_ASCENT),
        .beta1 = zest_options_number(o, ZEST_OPTION_BETA1),
        .beta2 = zest_options_number(o, ZEST_OPTION_BETA2),
        .epsilon = zest_options_number(o, ZEST_OPTION_ADAM_EPSILON),
        .seed = zest_options_whole(o, ZEST_OPTION_SEED),
        .threads = (int)zest_options_whole(o, ZEST_OPTION_THREADS),
        .nearest = zest_options_whole(o, ZEST_OPTION_ROUNDING) == ZEST_CHOICE_NEAREST};
}

static zest_status open_grad(zest_trainer *t, zest_trainer_gradients *g) {
    zest_cpu cpu;
    zest_grad_options passes = {.compute = (zest_compute)zest_options_whole(t->options, ZEST_OPTION_COMPUTE),
                                .threads = (int)zest_options_whole(t->options, ZEST_OPTION_THREADS),
                                .recompute = (int)zest_options_whole(t->options, ZEST_OPTION_RECOMPUTE),
                                .runner = t->loaded.runner};
    zest_status status = zest_cpu_detect(&cpu, t->error);
    if (status) return status;
    status = zest_grad_new(t->loaded.model, zest_ops_for(cpu), &passes, &g->grad, t->error);
    g->dropout = dropout_of(t);
    g->batch = (zest_optimizer_batch){.grad = g->grad, .dropout = g->dropout.added > 0 ? &g->dropout : NULL};
    return status;
}

/* The optimizer updates the weights that the passes read: of a run on a device, in its memory. */
static zest_status open_optimizer(zest_trainer *t, zest_trainer_gradients *g) {
    const zest_model_runner *runner = t->loaded.runner;
    zest_optimizer_options options = method_options(t->options);
    options.device = zest_model_runner_device(runner);
    return zest_optimizer_new(zest_model_runner_params(runner), t->ctx->ops, &options, &g->optimizer,
                              t->error);
}

/* The optimizer's state as parameters, in host memory; free it with zest_optimizer_drop. */
static zest_status describe_state(zest_trainer_gradients *g, zest_params *state, zest_error *error) {
    zest_optimizer_array arrays[ZEST_OPTIMIZER_ARRAYS];
    zest_status status = zest_optimizer_download(g->optimizer, error);
    *state = (zest_params){g->arrays, zest_optimizer_arrays(g->optimizer, arrays), 0};
    for (size_t i = 0; i < state->count; i++) {
        g->arrays[i] = (zest_tensor){arrays[i].name,  ZEST_DTYPE_F32, state->dimension,
                                     arrays[i].count, arrays[i].data, {0}};
        state->dimension += arrays[i].count;
    }
    return status;
}

static zest_status restore_state(zest_trainer *t, zest_trainer_gradients *g) {
    zest_params state;
    zest_status status = describe_state(g, &state, t->error);
    if (!status) status = zest_checkpoint_read_state(&t->resumed_from, &state, t->error);
    if (!status) status = zest_optimizer_upload(g->optimizer, t->error);
    zest_optimizer_drop(g->optimizer);
    return status;
}

static zest_status share(zest_trainer *t) {
    zest_params state;
    zest_status status = describe_state(t->gradients, &state, t->error);
    for (size_t i = 0; i < state.count && !status; i++)
        status = zest_comm_broadcast_block(t->comm, state.tensors[i].data,
                                           (size_t)state.tensors[i].count * sizeof(float), t->error);
    if (!status) status = zest_optimizer_upload(t->gradients->optimizer, t->error);
    zest_optimizer_drop(t->gradients->optimizer);
    return status;
}

static zest_status prepare(zest_trainer *t) {
    zest_trainer_gradients *g = t->gradients = calloc(1, sizeof *g);
    if (!g) return zest_error_memory(t->error, "an optimizer", sizeof *g);
    zest_status status = open_optimizer(t, g);
    if (!status) status = open_grad(t, g);
    if (!status && parts_of(t) > 1 && zest_model_runner_device(t->loaded.runner))
        status = zest_error_set(t->error, ZEST_ERROR_ARGUMENT,
                                "--accumulate works on the CPU alone; leave it out with --device cuda");
    if (!status && parts_of(t) > 1) status = zest_trainer_parts_new(t, &g->batch, &g->parts);
    return !status && t->resumed_from.path ? restore_state(t, g) : status;
}

static void release(zest_trainer *t) {
    zest_trainer_gradients *g = t->gradients;
    t->gradients = NULL;
    if (!g) return;
    zest_trainer_parts_free(&g->parts);
    zest_optimizer_free(g->optimizer);
    zest_grad_free(g->grad);
    free(g);
}

/* ---- Checkpoints ---- */

static zest_status save_last(zest_trainer *t) {
    zest_trainer_gradients *g = t->gradients;
    zest_params state;
    zest_status status = zest_log_sync(t->log, t->error);
    if (!status) status = describe_state(g, &state, t->error);
    if (!status)
        status = zest_checkpoint_write_state(t->folder.last, &t->loaded, &state, t->step, t->journal.checksum,
                                             t->error);
    zest_optimizer_drop(g->optimizer);
    if (!status) t->saved_step = t->step;
    return status;
}

/* `last` is written before `best`, so `best` is never of a step after `last`; and the log before both, so every
 * evaluation up to a checkpoint is on disk. */
static zest_status save(zest_trainer *t, zest_save_reason reason) {
    uint64_t every = zest_options_whole(t->options, ZEST_OPTION_SAVE_EVERY);
    if (reason == ZEST_SAVE_STEP && (!every || t->step % every)) return ZEST_OK;
    zest_status status = zest_model_download(t->loaded.runner, t->error);
    if (!status && t->gradients && t->saved_step != t->step) status = save_last(t);
    if (!status && reason == ZEST_SAVE_BEST)
        status = zest_checkpoint_write_state(t->folder.best, &t->loaded, NULL, t->step, t->journal.checksum,
                                             t->error);
    return status;
}

static zest_status load_step(zest_trainer *t, uint64_t step) {
    char text[32];
    uint64_t at;
    snprintf(text, sizeof text, "%llu", (unsigned long long)step);
    zest_load_free(&t->loaded);
    return zest_rebuild_checkpoint(&t->folder, t->options, t->record, text, &at, &t->loaded, t->error);
}

/* From the last checkpoint; where there is none yet, from the start. */
static zest_status restore(zest_trainer *t) {
    zest_status status =
        zest_checkpoint_load(t->folder.last, t->options, &t->loaded, &t->resumed_from, t->error);
    if (status) return status;
    if (!t->resumed_from.path) {
        uint64_t lost;
        if (zest_checkpoint_step(t->folder.last, &lost) && t->hooks->on_note)
            t->hooks->on_note("the checkpoint of this run is damaged: it begins again from its start",
                              t->hooks->user);
        t->step = 0;
        return load_step(t, 0);
    }
    t->step = t->saved_step = t->resumed_from.step;
    if (t->loaded.model->params.dimension != t->record->dimension)
        return zest_error_set(t->error, ZEST_ERROR_FORMAT, "%s: holds another model than the run's",
                              t->resumed_from.path);
    status = zest_checkpoint_recover(t->folder.last, &t->resumed_from, t->error);
    /* the folder may have another name now, from which the next checkpoint gets its tokenizer */
    char *home = status || !t->loaded.model->folder ? NULL : strdup(t->resumed_from.path);
    if (status || !t->loaded.model->folder) return status;
    if (!home) return zest_error_memory(t->error, t->folder.last, strlen(t->folder.last));
    free(t->loaded.model->folder);
    t->loaded.model->folder = home;
    return ZEST_OK;
}

/* ---- Memory ---- */

/* Weights, gradient, state, and the activations of a batch. On a device the first three are there already. */
static uint64_t memory(zest_trainer *t, size_t tokens, size_t *live) {
    const zest_device *device = zest_model_runner_device(t->loaded.runner);
    const zest_trainer_gradients *g = t->gradients;
    size_t batch = (size_t)zest_options_whole(t->options, ZEST_OPTION_BATCH),
           outputs = t->source == &zest_trainer_text ? tokens : batch;
    *live = 0;
    tokens = (tokens + parts_of(t) - 1) / parts_of(t);
    outputs = (outputs + parts_of(t) - 1) / parts_of(t);
    uint64_t activations =
        zest_grad_plan_memory(g->grad, tokens, outputs) + zest_trainer_parts_memory(&g->parts);
    if (device) return device->operations->device->bytes_allocated(device, NULL) + activations;
    size_t operands = zest_model_plan_memory(&t->loaded.model->config, tokens, 1).operands;
    return t->loaded.model->arena_size + zest_optimizer_memory(g->optimizer) + activations + operands;
}

/* ---- The step ---- */

/* A step without a finite loss and gradient; an error after too many in a row. */
static zest_status count_bad(zest_trainer *t, int bad) {
    t->bad_in_a_row = bad ? t->bad_in_a_row + 1 : 0;
    if (t->bad_in_a_row < zest_options_whole(t->options, ZEST_OPTION_MAX_BAD)) return ZEST_OK;
    return zest_error_set(
        t->error, ZEST_ERROR_OBJECTIVE,
        "%llu steps in a row without a finite loss and gradient: the weights are where they "
        "were before them; try a smaller --lr or --radius",
        (unsigned long long)t->bad_in_a_row);
}

static zest_status step(zest_trainer *t, zest_step_stats *stats) {
    double began = zest_clock_now(), lr = zest_step_lr(t->options, t->step);
    zest_optimizer_batch *batch = &t->gradients->batch;
    zest_optimizer_report report;
    zest_status status = t->source->batch(t);
    if (status) return status;
    batch->objective = t->objective;
    batch->step = t->step;
    zest_optimizer_closure closure = {zest_optimizer_evaluate_batch, batch};
    if (parts_of(t) > 1)
        closure = (zest_optimizer_closure){zest_trainer_parts_evaluate, &t->gradients->parts};
    status = zest_optimizer_step(t->gradients->optimizer, &closure, t->step, lr, &report, t->error);
    if (status) return status;
    t->step++;
    t->dropped += report.dropped;
    *stats = (zest_step_stats){.loss = report.loss,
                               .lr = lr,
                               .effective = NAN,
                               .spread = NAN,
                               .slope = NAN,
                               .curvature = NAN,
                               .t = NAN,
                               .scale = NAN,
                               .norm = report.norm,
                               .dropped = report.dropped,
                               .passes = report.evaluations,
                               .seconds = zest_clock_now() - began};
    return count_bad(t, !report.moved);
}

#else /* a library without gradients */

static zest_status refuse_first_order(zest_error *error) {
    char methods[64];
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "this zest was built without gradients (GRAD=off), which %s, and pretraining, need; "
        "build it without GRAD=off",
        zest_option_name_methods(ZEST_METHODS_GRADIENT, "and", methods, sizeof methods));
}

static zest_status none(zest_trainer *t) { return refuse_first_order(t->error); }

static zest_status restore(zest_trainer *t) { return none(t); }
static zest_status prepare(zest_trainer *t) { return none(t); }
static zest_status share(zest_trainer *t) { return none(t); }
static zest_status load_step(zest_trainer *t, uint64_t at) { return (void)at, none(t); }
static zest_status step(zest_trainer *t, zest_step_stats *stats) { return (void)stats, none(t); }
static zest_status save(zest_trainer *t, zest_save_reason reason) { return (void)reason, none(t); }
static uint64_t memory(zest_trainer *t, size_t tokens, size_t *live) {
    return (void)t, (void)tokens, *live = 0;
}
static void release(zest_trainer *t) { (void)t; }

#endif

static zest_status check(const zest_options *options, zest_error *error) {
    zest_status status = check_objective(options, error);
#ifndef ZEST_GRAD
    if (!status) status = refuse_first_order(error);
#endif
    return status;
}

const zest_trainer_ops zest_trainer_first_order = {check, restore, load_step, prepare, share,
                                                   step,  save,    memory,    release};
