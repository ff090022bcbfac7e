/* What a run reports: the summary of its plan, for the start and for --dry-run; log.jsonl and TensorBoard's events;
 * progress for its caller. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "task/batch.h"
#include "train/trainer_internal.h"

/* ---- The summary ---- */

typedef struct {
    double mean;    /* tokens of an example */
    size_t longest; /* of all */
    double all;
} token_count;

static token_count count_tokens(const zest_examples *examples, zest_batch_purpose purpose) {
    token_count c = {0};
    for (size_t i = 0; i < examples->count; i++) {
        size_t tokens = zest_batch_tokens(examples, (uint32_t)i, purpose);
        c.all += (double)tokens;
        if (tokens > c.longest) c.longest = tokens;
    }
    c.mean = examples->count ? c.all / (double)examples->count : 0;
    return c;
}

/* Of text all sequences have the same length. */
static token_count count_part(const zest_trainer *t, zest_task_part part) {
    if (t->source == &zest_trainer_text) {
        size_t length = (size_t)zest_options_whole(t->options, ZEST_OPTION_LENGTH);
        return (token_count){(double)length, length, (double)length * (double)t->counts[part]};
    }
    int scored = part != ZEST_PART_TRAIN || zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE);
    return count_tokens(&t->data.parts[part], scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* A batch of an evaluation, in one lane. */
static uint64_t evaluation_bytes(const zest_trainer *t, double tokens) {
    const zest_model_config *config = &t->loaded.model->config;
    size_t most = tokens < ZEST_TRAINER_EVAL_TOKENS ? (size_t)tokens : ZEST_TRAINER_EVAL_TOKENS;
    if (zest_model_runner_device(t->loaded.runner))
        return zest_model_runner_budget(t->loaded.runner, most, 1).bytes;
    zest_model_plan plan = zest_model_plan_memory(config, most, 1);
    return t->loaded.model->arena_size + (plan.hidden + plan.work) / 2 + plan.operands;
}

static uint64_t evaluations(const zest_trainer *t) {
    uint64_t steps = zest_options_whole(t->options, ZEST_OPTION_STEPS),
             every = zest_options_whole(t->options, ZEST_OPTION_EVAL_EVERY);
    if (!t->counts[ZEST_PART_DEV]) return 0;
    return 1 + (every ? steps / every + (steps % every != 0) : steps > 0);
}

/* From one step that was taken: evaluations are forward passes, a pass with a gradient takes about three
 * times as long. At the end dev and test are answered once more. */
static void estimate_time(const zest_trainer *t, const zest_step_stats *stats, zest_trainer_summary *s) {
    const zest_model_batch *batch = t->objective->batch;
    double tokens = (double)batch->starts[batch->sequences] * (double)stats->passes,
           speed = tokens / stats->seconds * (zest_options_first_order(t->options) ? 3 : 1),
           dev = count_part(t, ZEST_PART_DEV).all / speed, test = count_part(t, ZEST_PART_TEST).all / speed;
    s->step_seconds = stats->seconds;
    s->total_seconds = (double)zest_options_whole(t->options, ZEST_OPTION_STEPS) * stats->seconds +
                       (double)(s->evaluations + 1) * dev + test;
}

static uint64_t parameters_of(const zest_model *model) {
    uint64_t count = 0;
    for (size_t i = 0; i < model->tensor_count; i++) count += model->tensors[i].count;
    return count;
}

/* What the run is going to be, once prepare has been called. */
static zest_trainer_summary summarize(zest_trainer *t) {
    const zest_options *o = t->options;
    const zest_model *model = t->loaded.model;
    double batch = (double)zest_options_whole(o, ZEST_OPTION_BATCH),
           train = (double)t->counts[ZEST_PART_TRAIN];
    token_count tokens = count_part(t, ZEST_PART_TRAIN), dev = count_part(t, ZEST_PART_DEV);
    if (batch > train) batch = train;
    zest_trainer_summary s = {.options = o,
                              .family = model->config.family,
                              .weights = zest_dtype_name(model->tensors[0].dtype),
                              .parameters = parameters_of(model),
                              .trained = model->params.dimension,
                              .task = t->task,
                              .select = zest_metric_name(zest_trainer_selection(t)),
                              .train = t->counts[ZEST_PART_TRAIN],
                              .dev = t->counts[ZEST_PART_DEV],
                              .test = t->counts[ZEST_PART_TEST],
                              .cut = t->cut,
                              .step = t->step,
                              .evaluations = evaluations(t),
                              .batch_tokens = batch * tokens.mean,
                              .step_seconds = NAN,
                              .total_seconds = NAN};
    s.epochs = (double)zest_options_whole(o, ZEST_OPTION_STEPS) / ceil(train / batch);
    size_t most = (size_t)fmin(batch * (double)tokens.longest, tokens.all);
    s.memory = t->ops->memory(t, most ? most : 1, &s.live);
    if (dev.all > 0) s.memory = larger(s.memory, evaluation_bytes(t, dev.all));
    s.on_device = zest_model_runner_device(t->loaded.runner) != NULL;
    return s;
}

void zest_trainer_report_start(zest_trainer *t) {
    if (!t->hooks->on_start) return;
    zest_trainer_summary s = summarize(t);
    t->hooks->on_start(&s, t->hooks->user);
}

/* ---- --dry-run ---- */

/* A folder that cannot be used is an error of the dry run too. */
static zest_status check_folder(const zest_trainer *t) {
    const char *out = zest_options_text(t->options, ZEST_OPTION_OUT);
    if (!*out) return ZEST_OK;
    char *journal = zest_file_join(out, "journal");
    zest_status status = journal ? ZEST_OK : zest_error_memory(t->error, out, strlen(out));
    if (!status && !access(journal, F_OK))
        status =
            zest_error_set(t->error, ZEST_ERROR_FILE,
                           "%s: there is a journal already; resume it, or choose another folder", journal);
    free(journal);
    return status;
}

zest_status zest_trainer_time_steps(zest_trainer *t) {
    zest_step_stats stats;
    struct rusage usage;
    zest_status status = check_folder(t);
    if (status) return status;
    zest_trainer_summary s = summarize(t);
    status = t->ops->step(t, &stats);
    if (status) return status;
    /* the first step also allocates and warms up: time a second one where it costs little */
    int again = stats.seconds < 5;
    status = t->comm->table->broadcast(t->comm, &again, sizeof again, 0, t->error);
    if (!status && again) status = t->ops->step(t, &stats);
    if (status) return status;
    estimate_time(t, &stats, &s);
    s.peak_bytes = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
    const zest_device *device = zest_model_runner_device(t->loaded.runner);
    size_t peak = 0;
    if (device) (void)device->operations->device->bytes_allocated(device, &peak);
    s.device_peak_bytes = peak;
    if (t->hooks->on_start) t->hooks->on_start(&s, t->hooks->user);
    return ZEST_OK;
}

/* ---- log.jsonl and TensorBoard: the start ---- */

static double wall_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static zest_status scalar(zest_trainer *t, const char *tag, double value) {
    if (isnan(value)) return ZEST_OK;
    return zest_tensorboard_scalar(t->events, tag, t->step, wall_time(), value, t->error);
}

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

static void report(zest_trainer *t, const zest_trainer_progress *progress) {
    if (t->hooks->on_progress) t->hooks->on_progress(progress, t->hooks->user);
}

static zest_trainer_progress progress_of(const zest_trainer *t) {
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
               {"train/loss_slope", stats->slope},
               {"train/loss_curvature", stats->curvature},
               {"train/t", stats->t},
               {"train/step_scale", stats->scale},
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
    zest_trainer_progress progress = progress_of(t);
    progress.loss = stats->loss;
    progress.lr = stats->lr;
    progress.effective = stats->effective;
    progress.spread = stats->spread;
    progress.slope = stats->slope;
    progress.curvature = stats->curvature;
    progress.norm = stats->norm;
    progress.tokens_per_second = (double)tokens * (double)stats->passes / stats->seconds;
    zest_status status = ZEST_OK;
    if (t->has_output_dir) {
        zest_log_step line = {.step = t->step,
                              .loss = stats->loss,
                              .lr = stats->lr,
                              .ess = stats->effective,
                              .spread = stats->spread,
                              .slope = stats->slope,
                              .curvature = stats->curvature,
                              .t = stats->t,
                              .scale = stats->scale,
                              .norm = stats->norm,
                              .dropped = stats->dropped,
                              .seconds = zest_trainer_seconds(t),
                              .tokens = tokens,
                              .passes = stats->passes};
        status = zest_log_write_step(t->log, &line, t->error);
        if (!status) status = step_scalars(t, stats, progress.tokens_per_second);
    }
    report(t, &progress);
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
static zest_status advise(zest_trainer *t, zest_tilt_advice *advice, zest_trainer_progress *progress) {
    size_t steps = t->recent_count < ZEST_TILT_ADVICE_STEPS ? t->recent_count : ZEST_TILT_ADVICE_STEPS;
    if (t->advised || !steps) return ZEST_OK;
    const zest_tilt_options *tilt = &t->tuner->step.tilt;
    t->advised = 1;
    progress->advice = advice;
    return zest_choose_t(tilt, t->recent, steps, 2 * (tilt->k + tilt->ball_pairs), advice, t->error);
}

zest_status zest_trainer_log_eval(zest_trainer *t, const zest_metrics *metrics, int best) {
    zest_trainer_progress progress = progress_of(t);
    zest_tilt_advice advice;
    zest_status status = advise(t, &advice, &progress);
    if (status) return status;
    progress.evaluated = 1;
    progress.best = best;
    progress.loss = NAN;
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
    report(t, &progress);
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
