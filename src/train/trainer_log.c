/* What a run writes down for people: log.jsonl and TensorBoard's events; and what it tells its caller. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/trainer_internal.h"

static double wall_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static zest_status scalar(zest_trainer *t, const char *tag, double value) {
    if (isnan(value)) return ZEST_OK;
    return zest_tensorboard_scalar(t->events, tag, t->step, wall_time(), value, t->error);
}

/* ---- Start ---- */

zest_status zest_trainer_log_start(zest_trainer *t, int resumed) {
    zest_log_option options[ZEST_OPTION_COUNT];
    size_t count = 0;
    if (!t->has_output_dir) return ZEST_OK;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (zest_option_row_at((zest_option_id)id)->users & t->users)
            options[count++] = (zest_log_option){zest_option_row_at((zest_option_id)id)->name,
                                                 zest_options_text(t->options, (zest_option_id)id)};
    const zest_model *model = t->loaded.model;
    uint64_t parameters = 0;
    for (size_t i = 0; i < model->tensor_count; i++) parameters += model->tensors[i].count;
    zest_log_start start = {
        .time = wall_time(),
        .version = ZEST_VERSION,
        .options = options,
        .option_count = count,
        .model = {.family = model->config.family,
                  .weights = zest_dtype_name(model->tensors[0].dtype),
                  .compute = zest_options_text(t->options, ZEST_OPTION_COMPUTE),
                  .device = zest_options_text(t->options, ZEST_OPTION_DEVICE),
                  .parameters = parameters,
                  .trained = model->params.dimension},
        .task = {.name = t->task, .metric = zest_metric_name(t->metric), .classes = t->classes},
        .train = t->counts[ZEST_PART_TRAIN],
        .dev = t->counts[ZEST_PART_DEV],
        .test = t->counts[ZEST_PART_TEST],
        .resumed = resumed,
        .resumed_at = t->step};
    return zest_log_write_start(t->log, &start, t->error);
}

/* ---- Steps and evaluations ---- */

static void tell(zest_trainer *t, const zest_trainer_progress *news) {
    if (t->hooks->on_progress) t->hooks->on_progress(news, t->hooks->user);
}

static zest_trainer_progress news_of(const zest_trainer *t) {
    return (zest_trainer_progress){.step = t->step,
                                   .steps = zest_options_whole(t->options, ZEST_OPTION_STEPS),
                                   .seconds = zest_trainer_seconds(t),
                                   .dev = t->dev,
                                   .dev_seconds = t->dev_seconds,
                                   .dev_step = t->dev_step};
}

static zest_status step_scalars(zest_trainer *t, const zest_step_stats *stats, double speed) {
    const struct {
        const char *tag;
        double value;
    } all[] = {{"train/loss", stats->loss},
               {"train/lr", stats->lr},
               {"train/effective_sample_size", stats->effective},
               {"train/loss_spread", stats->spread},
               {"train/gradient_norm", stats->norm},
               {"speed/tokens_per_second", speed}};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = scalar(t, all[i].tag, all[i].value);
    return status;
}

zest_status zest_trainer_log_step(zest_trainer *t, const zest_step_stats *stats) {
    const zest_model_batch *batch = t->objective->batch;
    uint32_t tokens = batch->starts[batch->sequences];
    zest_trainer_progress news = news_of(t);
    news.loss = stats->loss;
    news.lr = stats->lr;
    news.effective = stats->effective;
    news.spread = stats->spread;
    news.norm = stats->norm;
    news.tokens_per_second = (double)tokens * (double)stats->passes / stats->seconds;
    zest_status status = ZEST_OK;
    if (t->has_output_dir) {
        zest_log_step line = {.step = t->step,
                              .loss = stats->loss,
                              .lr = stats->lr,
                              .ess = stats->effective,
                              .spread = stats->spread,
                              .norm = stats->norm,
                              .dropped = stats->dropped,
                              .seconds = zest_trainer_seconds(t),
                              .tokens = tokens,
                              .passes = stats->passes};
        status = zest_log_write_step(t->log, &line, t->error);
        if (!status) status = step_scalars(t, stats, news.tokens_per_second);
    }
    tell(t, &news);
    return status;
}

static zest_log_eval eval_line(const zest_trainer *t, const char *part, uint64_t step,
                               const zest_metrics *m) {
    zest_log_eval line = zest_log_eval_none();
    if (!m->n) return line;
    line.step = step;
    strncpy(line.part, part, sizeof line.part - 1);
    line.loss = m->loss;
    line.accuracy = m->accuracy;
    line.f1 = m->f1;
    line.em = m->em;
    if (t->source == &zest_trainer_text) line.perplexity = exp(m->loss);
    line.value = m->value;
    line.low = m->low;
    line.high = m->high;
    line.n = m->n;
    line.seconds = zest_trainer_seconds(t);
    return line;
}

/* What the losses so far say about t; once a session. */
static zest_status advise(zest_trainer *t, zest_tilt_advice *advice, zest_trainer_progress *news) {
    size_t steps = t->recent_count < ZEST_TILT_ADVICE_STEPS ? t->recent_count : ZEST_TILT_ADVICE_STEPS;
    if (t->advised || !steps) return ZEST_OK;
    const zest_tilt_options *tilt = &t->tuner->step.tilt;
    t->advised = 1;
    news->advice = advice;
    return zest_choose_t(tilt, t->recent, steps, 2 * (tilt->k + tilt->ball_pairs), advice, t->error);
}

zest_status zest_trainer_log_eval(zest_trainer *t, const zest_metrics *metrics, int best) {
    zest_trainer_progress news = news_of(t);
    zest_tilt_advice advice;
    zest_status status = advise(t, &advice, &news);
    if (status) return status;
    news.evaluated = 1;
    news.best = best;
    news.loss = NAN;
    if (t->has_output_dir) {
        zest_log_eval line = eval_line(t, "dev", t->step, metrics);
        line.best = best;
        status = zest_log_write_eval(t->log, &line, t->error);
        if (!status) status = scalar(t, "dev/loss", metrics->loss);
        if (!status) status = scalar(t, "dev/accuracy", metrics->accuracy);
        if (!status) status = scalar(t, "dev/f1", metrics->f1);
        if (!status) status = scalar(t, "dev/em", metrics->em);
        if (!status) status = zest_tensorboard_flush(t->events, t->error);
    }
    tell(t, &news);
    return status;
}

zest_status zest_trainer_log_end(zest_trainer *t, const zest_trainer_result *result) {
    if (!t->has_output_dir) return ZEST_OK;
    zest_log_end end = {.reason = zest_trainer_reason(result->reason),
                        .step = result->step,
                        .best_step = result->best_step,
                        .dev = eval_line(t, "dev", result->best_step, &result->dev),
                        .test = eval_line(t, "test", result->best_step, &result->test),
                        .seconds = result->seconds,
                        .peak_bytes = result->peak_bytes,
                        .device_peak_bytes = result->device_peak_bytes};
    return zest_log_write_end(t->log, &end, t->error);
}
