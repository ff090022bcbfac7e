/* What a run is going to be, before its first step: for the summary at the start and for --dry-run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "run/trainer_internal.h"

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
    const zest_model_description *is = &t->loaded.model->is;
    size_t most = tokens < ZEST_TRAINER_EVAL_TOKENS ? (size_t)tokens : ZEST_TRAINER_EVAL_TOKENS;
    if (zest_model_runner_device(t->loaded.runner))
        return zest_model_runner_budget(t->loaded.runner, most, 1).bytes;
    zest_model_plan plan = zest_model_plan_memory(is, most, 1);
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
static void estimate_time(const zest_trainer *t, const zest_trainer_took *took, zest_trainer_summary *s) {
    const zest_model_batch *batch = t->objective->batch;
    double tokens = (double)batch->starts[batch->sequences] * (double)took->passes,
           speed = tokens / took->seconds * (zest_options_first_order(t->options) ? 3 : 1),
           dev = count_part(t, ZEST_PART_DEV).all / speed, test = count_part(t, ZEST_PART_TEST).all / speed;
    s->step_seconds = took->seconds;
    s->total_seconds = (double)zest_options_whole(t->options, ZEST_OPTION_STEPS) * took->seconds +
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
                              .family = model->is.family,
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
    s.memory = t->way->memory(t, most ? most : 1, &s.live);
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
    zest_trainer_took took;
    struct rusage usage;
    zest_status status = check_folder(t);
    if (status) return status;
    zest_trainer_summary s = zest_trainer_summarize(t);
    status = t->way->step(t, &took);
    /* the first step also makes room and warms up; a second one tells more, where it costs little */
    if (!status && took.seconds < 5) status = t->way->step(t, &took);
    if (status) return status;
    estimate_time(t, &took, &s);
    s.peak_bytes = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
    const zest_device *device = zest_model_runner_device(t->loaded.runner);
    size_t peak = 0;
    if (device) (void)device->operations->device->held(device, &peak);
    s.device_peak_bytes = peak;
    if (t->hooks->start) t->hooks->start(&s, t->hooks->user);
    return ZEST_OK;
}
