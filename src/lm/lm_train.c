/* Training and evaluation on a task, as include/zest_lm.h declares them: the trainer's structures become public
 * ones on their way to the caller's callbacks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lm/lm.h"
#include "lm/target.h"
#include "task/metric.h"
#include "train/trainer.h"

enum { EVAL_TOKENS = 16384 }; /* in a batch of an evaluation */

static zest_lm_metrics public_metrics(const zest_metrics *m) {
    if (!m->n) /* never evaluated */
        return (zest_lm_metrics){.loss = NAN,
                                 .accuracy = NAN,
                                 .f1 = NAN,
                                 .em = NAN,
                                 .perplexity = NAN,
                                 .value = NAN,
                                 .low = NAN,
                                 .high = NAN};
    int plain_text = isnan(m->accuracy) && isnan(m->f1) && isnan(m->em);
    return (zest_lm_metrics){.n = m->n,
                             .bad = m->bad,
                             .loss = m->loss,
                             .accuracy = m->accuracy,
                             .f1 = m->f1,
                             .em = m->em,
                             .perplexity = plain_text ? exp(m->loss) : NAN,
                             .value = m->value,
                             .low = m->low,
                             .high = m->high};
}

/* ---- Callbacks ---- */

typedef struct {
    zest_ctx *ctx;
    const zest_lm_callbacks *callbacks;
    volatile sig_atomic_t *stop, own_stop;
} caller;

static const zest_lm_callbacks silent = {0};

static caller caller_of(zest_ctx *ctx, const zest_lm_callbacks *callbacks) {
    return (caller){.ctx = ctx, .callbacks = callbacks ? callbacks : &silent};
}

static void on_start(const zest_trainer_summary *s, void *user) {
    const caller *c = user;
    zest_lm_options view = {.ctx = c->ctx, .users = ZEST_FOR_TRAINING, .values = *s->options};
    zest_lm_train_summary summary = {.options = &view,
                                     .family = s->family,
                                     .weights = s->weights,
                                     .task = s->task,
                                     .select = s->select,
                                     .parameters = s->parameters,
                                     .trained = s->trained,
                                     .train = s->train,
                                     .dev = s->dev,
                                     .test = s->test,
                                     .cut = s->cut,
                                     .live = s->live,
                                     .steps = zest_options_whole(s->options, ZEST_OPTION_STEPS),
                                     .eval_every = zest_options_whole(s->options, ZEST_OPTION_EVAL_EVERY),
                                     .step = s->step,
                                     .evaluations = s->evaluations,
                                     .memory = s->memory,
                                     .epochs = s->epochs,
                                     .batch_tokens = s->batch_tokens,
                                     .step_seconds = s->step_seconds,
                                     .total_seconds = s->total_seconds,
                                     .peak_bytes = s->peak_bytes,
                                     .device_peak_bytes = s->device_peak_bytes,
                                     .on_device = s->on_device};
    c->callbacks->on_start(&summary, c->callbacks->user);
}

static void on_progress(const zest_trainer_progress *p, void *user) {
    const caller *c = user;
    zest_buffer advice = {0};
    if (p->advice) zest_choose_t_text(p->advice, &advice);
    zest_lm_train_progress progress = {.step = p->step,
                                       .steps = p->steps,
                                       .loss = p->loss,
                                       .lr = p->lr,
                                       .effective = p->effective,
                                       .spread = p->spread,
                                       .slope = p->slope,
                                       .curvature = p->curvature,
                                       .norm = p->norm,
                                       .tokens_per_second = p->tokens_per_second,
                                       .seconds = p->seconds,
                                       .dev = public_metrics(&p->dev),
                                       .dev_step = p->dev_step,
                                       .dev_seconds = p->dev_seconds,
                                       .evaluated = p->evaluated,
                                       .best = p->best,
                                       .advice = advice.failed ? NULL : advice.data};
    if (c->callbacks->on_progress(&progress, c->callbacks->user)) *c->stop = 1;
    zest_buffer_free(&advice);
}

static void on_rebuild(uint64_t done, uint64_t total, void *user) {
    const caller *c = user;
    if (c->callbacks->on_rebuild) c->callbacks->on_rebuild(done, total, c->callbacks->user);
}

static void on_evaluate(uint64_t done, uint64_t total, void *user) {
    const caller *c = user;
    if (c->callbacks->on_evaluate) c->callbacks->on_evaluate(done, total, c->callbacks->user);
}

static void on_note(const char *sentences, void *user) {
    const caller *c = user;
    if (c->callbacks->on_note) c->callbacks->on_note(sentences, c->callbacks->user);
}

static zest_trainer_hooks hooks_of(caller *c) {
    c->stop = c->callbacks->stop ? c->callbacks->stop : &c->own_stop;
    return (zest_trainer_hooks){.on_start = c->callbacks->on_start ? on_start : NULL,
                                .on_progress = c->callbacks->on_progress ? on_progress : NULL,
                                .on_rebuild = on_rebuild,
                                .on_evaluate = on_evaluate,
                                .on_note = on_note,
                                .user = c,
                                .stop = c->stop};
}

/* ---- Training ---- */

const char *zest_lm_stop_reason_name(zest_lm_stop_reason reason) {
    return (unsigned)reason <= ZEST_LM_DIVERGED ? zest_trainer_reason((zest_trained_reason)reason) : "?";
}

static void fill_result(const zest_trainer_result *r, zest_lm_train_result *out) {
    *out = (zest_lm_train_result){.reason = (zest_lm_stop_reason)r->reason,
                                  .step = r->step,
                                  .best_step = r->best_step,
                                  .start = public_metrics(&r->start),
                                  .dev = public_metrics(&r->dev),
                                  .test = public_metrics(&r->test),
                                  .seconds = r->seconds,
                                  .peak_bytes = r->peak_bytes,
                                  .device_peak_bytes = r->device_peak_bytes,
                                  .dropped_pairs = r->dropped_pairs,
                                  .train = r->train,
                                  .dev_count = r->dev_count,
                                  .test_count = r->test_count,
                                  .cut = r->cut,
                                  .first_loss = r->divergence.first,
                                  .latest_loss = r->divergence.latest,
                                  .divergence_limit = zest_divergence_limit(&r->divergence),
                                  .divergence_steps = ZEST_DIVERGENCE_STEPS};
    snprintf(out->metric, sizeof out->metric, "%s", r->metric);
}

/* folder NULL: a new run, else one that goes on. */
static zest_status train(zest_ctx *ctx, const char *folder, const zest_lm_options *given,
                         const zest_lm_callbacks *callbacks, zest_lm_train_result *result) {
    zest_options options;
    zest_trainer_result inner = {0};
    if (!folder && zest_lm_need(ctx, given, "options")) return ZEST_ERROR_ARGUMENT;
    caller c = caller_of(ctx, callbacks);
    zest_trainer_hooks hooks = hooks_of(&c);
    zest_status status = zest_lm_options_copy(given, &options, &ctx->error);
    if (!status)
        status = folder ? zest_trainer_resume(ctx, folder, &options, &hooks, &inner, &ctx->error)
                        : zest_trainer_run(ctx, &options, &hooks, &inner, &ctx->error);
    if (result) fill_result(&inner, result);
    zest_options_free(&options);
    return status;
}

zest_status zest_lm_train(zest_ctx *ctx, const zest_lm_options *options, const zest_lm_callbacks *callbacks,
                          zest_lm_train_result *result) {
    return train(ctx, NULL, options, callbacks, result);
}

zest_status zest_lm_resume(zest_ctx *ctx, const char *folder, const zest_lm_options *options,
                           const zest_lm_callbacks *callbacks, zest_lm_train_result *result) {
    return zest_lm_need(ctx, folder, "folder") ? ZEST_ERROR_ARGUMENT
                                               : train(ctx, folder, options, callbacks, result);
}

zest_status zest_lm_dry_run(zest_ctx *ctx, const zest_lm_options *given, const zest_lm_callbacks *callbacks) {
    zest_options options;
    if (zest_lm_need(ctx, given, "options")) return ZEST_ERROR_ARGUMENT;
    caller c = caller_of(ctx, callbacks);
    zest_trainer_hooks hooks = hooks_of(&c);
    zest_status status = zest_lm_options_copy(given, &options, &ctx->error);
    if (!status) status = zest_trainer_dry_run(ctx, &options, &hooks, &ctx->error);
    zest_options_free(&options);
    return status;
}

/* ---- Evaluation ---- */

static zest_status evaluate(const zest_target *target, zest_task_part part, caller *c, zest_loaded_data *data,
                            zest_lm_evaluation *out, zest_error *error) {
    zest_predictions predictions = {0};
    zest_progress_callback progress = {on_evaluate, c};
    const zest_examples *examples = &data->parts[part];
    zest_metrics metrics;
    data->recorded = &target->inputs;
    data->places = target->sent.places;
    zest_status status = zest_load_data(data, &target->options, &target->loaded, 1u << part, error);
    if (!status && !examples->count)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "task %s has no such examples; choose another --split", data->task.name);
    if (!status)
        status = zest_metric_predict_with(target->loaded.runner, NULL, examples, target->loaded.tokenizer,
                                          EVAL_TOKENS, c->ctx->comm, &progress, &predictions, error);
    if (!status) {
        zest_metric_sum(&data->task, examples, &predictions, &metrics);
        out->metrics = public_metrics(&metrics);
        snprintf(out->metric, sizeof out->metric, "%s", zest_metric_name(data->task.metric));
        snprintf(out->task, sizeof out->task, "%s", data->task.name);
    }
    zest_predictions_free(&predictions);
    return status;
}

zest_status zest_lm_evaluate(zest_ctx *ctx, const char *path, const zest_lm_options *given,
                             const zest_lm_callbacks *callbacks, zest_lm_evaluation *evaluation) {
    zest_options options;
    zest_target target;
    zest_loaded_data data = {0};
    if (zest_lm_need(ctx, path, "path") || zest_lm_need(ctx, given, "options") ||
        zest_lm_need(ctx, evaluation, "evaluation"))
        return ZEST_ERROR_ARGUMENT;
    caller c = caller_of(ctx, callbacks);
    zest_target_callbacks hooks = {.note = on_note, .user = &c, .rebuild = {on_rebuild, &c}};
    *evaluation = (zest_lm_evaluation){0};
    zest_status status = zest_lm_options_copy(given, &options, &ctx->error);
    if (status) {
        zest_options_free(&options);
        return status;
    }
    zest_task_part part = (zest_task_part)zest_options_whole(&options, ZEST_OPTION_SPLIT);
    status = zest_target_open(ctx, &target, path, &options, &hooks, &ctx->error);
    double began = zest_clock_now();
    if (!status) status = evaluate(&target, part, &c, &data, evaluation, &ctx->error);
    evaluation->seconds = zest_clock_now() - began;
    evaluation->is_run = target.is_run;
    evaluation->step = target.step;
    zest_load_free_data(&data);
    zest_target_close(&target);
    zest_options_free(&options);
    return status;
}

/* ---- Tasks ---- */

int zest_lm_task(size_t i, zest_lm_task_info *info) {
    const zest_task *task = zest_task_at(i);
    if (!task || !info) return 0;
    *info = (zest_lm_task_info){.name = task->name,
                                .models = task->masked && task->causal ? "masked, causal"
                                          : task->masked               ? "masked"
                                                                       : "causal",
                                .about = task->about};
    return 1;
}
