/* What a run is going to be, before its first step: for the summary at the start and for --dry-run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "train/trainer_internal.h"
#include "task/batch.h"

/* ---- Sizes ---- */

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

/* ---- Times ---- */

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

/* ---- The summary ---- */

static uint64_t parameters_of(const zest_model *model) {
    uint64_t count = 0;
    for (size_t i = 0; i < model->tensor_count; i++) count += model->tensors[i].count;
    return count;
}

zest_trainer_summary zest_trainer_summarize(zest_trainer *t) {
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

void zest_trainer_announce(zest_trainer *t) {
    if (!t->hooks->start) return;
    zest_trainer_summary s = zest_trainer_summarize(t);
    t->hooks->start(&s, t->hooks->user);
}

/* ---- --dry-run ---- */

/* A folder that could not be used is said now, not when the run is started in earnest. */
static zest_status check_folder(const zest_trainer *t) {
    const char *out = zest_options_text(t->options, ZEST_OPTION_OUT);
    if (!*out) return ZEST_OK;
    char *journal = zest_file_join(out, "journal");
    zest_status status = journal ? ZEST_OK : zest_error_memory(t->error, out, strlen(out));
    if (!status && !access(journal, F_OK))
        status =
            zest_error_set(t->error, ZEST_ERROR_FILE,
                           "%s: there is a journal already; resume it, or choose another place", journal);
    free(journal);
    return status;
}

zest_status zest_trainer_try(zest_trainer *t) {
    zest_step_stats stats;
    struct rusage usage;
    zest_status status = check_folder(t);
    if (status) return status;
    zest_trainer_summary s = zest_trainer_summarize(t);
    status = t->ops->step(t, &stats);
    /* the first step also makes room and warms up; a second one tells more, where it costs little */
    if (!status && stats.seconds < 5) status = t->ops->step(t, &stats);
    if (status) return status;
    estimate_time(t, &stats, &s);
    s.peak_bytes = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
    const zest_device *device = zest_model_runner_device(t->loaded.runner);
    size_t peak = 0;
    if (device) (void)device->operations->device->bytes_allocated(device, &peak);
    s.device_peak_bytes = peak;
    if (t->hooks->start) t->hooks->start(&s, t->hooks->user);
    return ZEST_OK;
}

/* A run that goes on. */

/* How long to go on, and where things are: all else stays as it was. */
static int may_change(zest_option_id id) { return zest_option_row_at(id)->changes & ZEST_CHANGES_ON_RESUME; }

static zest_status merge_given(zest_options *options, const zest_options *given, zest_error *error) {
    zest_status status = zest_load_check_length(given, error);
    for (int i = 0; i < ZEST_OPTION_COUNT && !status; i++) {
        zest_option_id id = (zest_option_id)i;
        if (!zest_options_given(given, id)) continue;
        if (!may_change(id) && strcmp(zest_options_text(given, id), zest_options_text(options, id)))
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                    "--%s is '%s' in this run and cannot change any more; start a new run",
                                    zest_option_row_at(id)->name, zest_options_text(options, id));
        else
            status = zest_options_set_id(options, id, zest_options_text(given, id), error);
    }
    /* epochs would have the last word */
    if (!status && zest_options_given(given, ZEST_OPTION_STEPS) &&
        !zest_options_given(given, ZEST_OPTION_EPOCHS))
        status = zest_options_set_id(options, ZEST_OPTION_EPOCHS, "0", error);
    return status;
}

/* The journal's header has the options that its steps were taken with: options that say otherwise were
 * edited, or belong to another run. */
static zest_status check_options(const zest_trainer *t) {
    for (int i = 0; i < ZEST_OPTION_COUNT; i++) {
        zest_option_id id = (zest_option_id)i;
        unsigned users = zest_option_row_at(id)->users;
        if (!(users & ZEST_FOR_TUNER) || !(users & t->users)) continue;
        const char *here = zest_options_text(t->options, id),
                   *there = zest_options_text(&t->record->options, id);
        if (may_change(id) || !strcmp(here, there)) continue;
        return zest_error_set(t->error, ZEST_ERROR_FORMAT,
                              "%s: says %s=%.100s, but the journal's steps were taken with %s=%.100s; put it "
                              "back as it was",
                              t->folder.options, zest_option_row_at(id)->name, here,
                              zest_option_row_at(id)->name, there);
    }
    return ZEST_OK;
}

/* What the run was made from; a task file that was given has to be the same. */
static zest_status recall_inputs(zest_trainer *t, const zest_options *given) {
    zest_buffer notes = {0};
    zest_status status = zest_inputs_read(&t->inputs, &t->folder, t->error);
    t->inputs.allow_changed = (int)zest_options_whole(t->options, ZEST_OPTION_ALLOW_CHANGED);
    t->data.recorded = &t->inputs;
    t->first_of_equals = !t->inputs.recorded;
    if (!status && zest_options_given(given, ZEST_OPTION_TASK))
        status = zest_inputs_check_task(&t->inputs, zest_options_text(given, ZEST_OPTION_TASK), t->error);
    if (status) return status;
    zest_inputs_notes(&t->inputs, &t->folder, zest_options_text(t->options, ZEST_OPTION_TASK), &notes);
    if (notes.size && !notes.failed && t->hooks->note) t->hooks->note(notes.data, t->hooks->user);
    zest_buffer_free(&notes);
    return ZEST_OK;
}

static zest_status read_log(zest_trainer *t, zest_log *log) {
    zest_status status = zest_log_continue(t->folder.log, t->step, &t->before, t->error);
    if (!status && access(t->folder.log, F_OK) == 0 && zest_log_read(t->folder.log, log, NULL))
        *log = (zest_log){0}; /* not even its first line is left */
    return status;
}

/* What the losses so far say about divergence: the journal's, or of a first-order run the log's, which is on
 * disk up to the last snapshot. */
static zest_status recall_losses(zest_trainer *t, const zest_log *log) {
    zest_record record;
    zest_tilt_report report;
    if (zest_options_first_order(t->options)) {
        for (size_t i = 0; i < log->step_count && log->steps[i].step <= t->step; i++)
            zest_divergence_note(&t->divergence, log->steps[i].loss);
        return ZEST_OK;
    }
    const zest_tilt_options *tilt = &t->record->tilt;
    double *coefficients = malloc(tilt->k * sizeof *coefficients);
    zest_status status =
        coefficients ? ZEST_OK : zest_error_memory(t->error, "coefficients", tilt->k * sizeof *coefficients);
    for (uint64_t step = 1; step <= t->step && !status; step++) {
        status = zest_journal_read(t->record, step, &record);
        if (status)
            status = zest_error_set(t->error, status, "%s", zest_ctx_error(t->ctx));
        else
            zest_tilt_compute(tilt, record.losses, coefficients, &report);
        if (!status) zest_divergence_note(&t->divergence, report.mean);
    }
    free(coefficients);
    return status;
}

/* Weights, examples and state as they were behind the last step that is kept. */
static zest_status catch_up(zest_trainer *t) {
    zest_log log = {0};
    zest_status status = zest_journal_continue(&t->journal, t->record, t->error); /* takes the lock */
    if (!status) status = t->ops->restore(t);
    if (!status) status = zest_trainer_load(t);
    if (!status) status = zest_run_folder_write_options(&t->folder, t->users, t->options, t->error);
    if (!status) status = read_log(t, &log);
    if (!status) status = recall_losses(t, &log);
    if (!status) status = zest_trainer_open_logs(t);
    if (!status) status = zest_trainer_log_start(t, 1);
    if (!status) status = zest_trainer_restore_evals(t, &log);
    if (!status) status = t->ops->prepare(t);
    if (!status) zest_trainer_announce(t);
    zest_log_free(&log);
    return status;
}

zest_status zest_trainer_restore(zest_trainer *t, const zest_options *given) {
    zest_status status = merge_given(t->options, given, t->error);
    if (status) return status;
    zest_trainer_select_ops(t);
    status = zest_options_check_method(given, zest_options_whole(t->options, ZEST_OPTION_METHOD), t->error);
    if (!status) status = t->ops->check(t->options, t->error);
    if (!status) status = recall_inputs(t, given);
    if (status) return status;
    t->record = zest_journal_open(t->ctx, t->folder.journal);
    if (!t->record) return zest_error_set(t->error, t->ctx->error.status, "%s", t->ctx->error.message);
    status = check_options(t);
    if (!status) status = catch_up(t);
    zest_journal_close(t->record);
    t->record = NULL;
    return status;
}

/* Training on the examples of a task. */

enum { OBJECTIVE_LOSS }; /* as the option table lists them */

static zest_status load(zest_trainer *t) {
    zest_status status = zest_load_data(&t->data, t->options, &t->loaded,
                                        ZEST_LOAD_TRAIN | ZEST_LOAD_DEV | ZEST_LOAD_TEST, t->error);
    t->task = t->data.task.name;
    t->classes = t->data.task.class_count;
    t->metric = t->data.task.metric;
    t->select = t->data.task.select;
    t->cut = 0;
    for (int i = 0; i < 3; i++) {
        t->counts[i] = t->data.parts[i].count;
        t->cut += t->data.parts[i].cut;
    }
    return status;
}

const uint32_t *zest_trainer_examples(zest_trainer *t, size_t *count) {
    size_t all = t->counts[ZEST_PART_TRAIN], size = (size_t)zest_options_whole(t->options, ZEST_OPTION_BATCH);
    size_t steps = (all + size - 1) / size;
    uint64_t epoch = t->step / steps;
    size_t first = (size_t)(t->step % steps) * size;
    *count = all - first < size ? all - first : size;
    if (epoch != t->epoch)
        zest_permutation_fill(zest_options_whole(t->options, ZEST_OPTION_SEED), epoch, t->order, all);
    t->epoch = epoch;
    return t->order + first;
}

static zest_status make_batch(zest_trainer *t) {
    size_t count;
    const uint32_t *which = zest_trainer_examples(t, &count);
    int scored = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE) != OBJECTIVE_LOSS;
    t->objective = &t->batch.objective;
    return zest_batch_make(&t->batch, &t->data.parts[ZEST_PART_TRAIN], which, count,
                           scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN, t->error);
}

static zest_status evaluate(zest_trainer *t, const zest_loaded *loaded, zest_task_part part, int generate,
                            zest_metrics *metrics) {
    const zest_examples *examples = &t->data.parts[part];
    zest_predictions predictions = {0};
    zest_progress_callback watch = {t->hooks->evaluate, t->hooks->user};
    *metrics = (zest_metrics){0};
    if (!examples->count) return ZEST_OK;
    zest_status status =
        zest_metric_predict_watched(loaded->runner, NULL, examples, generate ? loaded->tokenizer : NULL,
                                    ZEST_TRAINER_EVAL_TOKENS, &watch, &predictions, t->error);
    if (!status) zest_metric_sum(&t->data.task, examples, &predictions, metrics);
    zest_predictions_free(&predictions);
    return status;
}

static void free_all(zest_trainer *t) {
    zest_batch_free(&t->batch);
    zest_load_free_data(&t->data);
}

const zest_trainer_source zest_trainer_task = {load, make_batch, evaluate, free_all};

/* Training on plain text: zest pretrain. What is held out takes the place of dev examples; the loss is what
 * counts. */

static zest_status trainer_text_load(zest_trainer *t) {
    const zest_options *o = t->options;
    zest_corpus_options how = {.length = (size_t)zest_options_whole(o, ZEST_OPTION_LENGTH),
                               .held_out = zest_options_number(o, ZEST_OPTION_HELD_OUT),
                               .seed = zest_options_whole(o, ZEST_OPTION_SEED)};
    zest_status status = zest_corpus_read(zest_options_text(o, ZEST_OPTION_CORPUS), t->loaded.tokenizer,
                                          &t->loaded.model->config, &how, &t->corpus, t->error);
    if (!status)
        status = zest_inputs_check_data(&t->inputs, "text", zest_options_text(o, ZEST_OPTION_CORPUS),
                                        t->corpus.print, t->error);
    t->task = "text";
    t->metric = t->select = ZEST_METRIC_LOSS;
    t->counts[ZEST_PART_TRAIN] = t->corpus.train.sequences;
    t->counts[ZEST_PART_DEV] = t->corpus.held_out.sequences;
    return status;
}

static zest_corpus_masks masks_of(const zest_trainer *t, int fixed) {
    return (zest_corpus_masks){.share = zest_options_number(t->options, ZEST_OPTION_MASK),
                               .seed = zest_options_whole(t->options, ZEST_OPTION_SEED),
                               .number = t->step,
                               .fixed = fixed};
}

static zest_status trainer_text_make_batch(zest_trainer *t) {
    size_t count;
    const uint32_t *which = zest_trainer_examples(t, &count);
    zest_corpus_masks masks = masks_of(t, 0);
    t->objective = &t->text.objective;
    return zest_corpus_make_batch(&t->corpus, &t->corpus.train, which, count, &masks, &t->text, t->error);
}

/* Adds the losses of some held-out sequences, and counts the tokens that were asked for. */
static zest_status add_losses(zest_trainer *t, const zest_loaded *loaded, const uint32_t *which, size_t count,
                              zest_corpus_batch *batch, double *sum, size_t *asked) {
    static const zest_model_lane itself;
    zest_corpus_masks masks = masks_of(t, 1);
    double *losses = malloc(count * sizeof *losses);
    if (!losses) return zest_error_memory(t->error, "losses", count * sizeof *losses);
    zest_status status =
        zest_corpus_make_batch(&t->corpus, &t->corpus.held_out, which, count, &masks, batch, t->error);
    if (!status)
        status =
            zest_model_losses(loaded->runner, &itself, 1, &batch->objective, losses, NULL, NULL, t->error);
    for (size_t i = 0; i < count && !status; i++) *sum += losses[i];
    if (!status) *asked += batch->objective.item_starts[count];
    free(losses);
    return status;
}

static zest_status trainer_text_evaluate(zest_trainer *t, const zest_loaded *loaded, zest_task_part part,
                                         int generate, zest_metrics *metrics) {
    size_t all = t->counts[part], asked = 0;
    size_t most = ZEST_TRAINER_EVAL_TOKENS / (size_t)zest_options_whole(t->options, ZEST_OPTION_LENGTH);
    double sum = 0;
    zest_progress_callback watch = {t->hooks->evaluate, t->hooks->user};
    (void)generate;
    *metrics = (zest_metrics){0};
    if (!all) return ZEST_OK;
    zest_corpus_batch batch = {0};
    uint32_t *which = malloc(all * sizeof *which);
    zest_status status = which ? ZEST_OK : zest_error_memory(t->error, "sequences", all * sizeof *which);
    for (size_t i = 0; i < all && which; i++) which[i] = (uint32_t)i;
    if (!most) most = 1;
    for (size_t i = 0; i < all && !status; i += most) {
        size_t count = all - i < most ? all - i : most;
        status = add_losses(t, loaded, which + i, count, &batch, &sum, &asked);
        zest_progress_call(&watch, i + count, all);
    }
    zest_corpus_batch_free(&batch);
    free(which);
    *metrics = (zest_metrics){.n = asked, .accuracy = NAN, .f1 = NAN, .em = NAN, .low = NAN, .high = NAN};
    metrics->loss = metrics->value = sum / (double)asked;
    return status;
}

static void trainer_text_free_all(zest_trainer *t) {
    zest_corpus_free(&t->corpus);
    zest_corpus_batch_free(&t->text);
}

const zest_trainer_source zest_trainer_text = {trainer_text_load, trainer_text_make_batch,
                                               trainer_text_evaluate, trainer_text_free_all};
