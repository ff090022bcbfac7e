/* zest info: what a run is and where it stands; what a model is and what memory it wants. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "optim/choose_t.h"
#include "cli/target.h"
#include "cli/output.h"
#include "optim/journal.h"
#include "train/run_folder.h"
#include "train/log.h"

/* The mean loss of the perturbed points of a step. */
static double loss_of(zest_journal *journal, uint64_t step, double *lr) {
    zest_record record;
    double sum = 0;
    size_t n = 0;
    if (zest_journal_read(journal, step, &record)) return NAN;
    size_t pairs = 2 * strtoul(zest_journal_option(journal, "k"), NULL, 10);
    for (size_t i = 0; i < pairs && i < record.count; i++)
        if (isfinite(record.losses[i])) sum += record.losses[i], n++;
    *lr = record.lr;
    return n ? sum / (double)n : NAN;
}

typedef struct {
    uint64_t steps;
    double first, last, best, lr;
    uint64_t best_step;
} course;

static course follow(zest_journal *journal) {
    course c = {.first = NAN, .last = NAN, .best = HUGE_VAL, .lr = NAN};
    c.steps = zest_journal_steps(journal);
    for (uint64_t step = 1; step <= zest_journal_steps(journal); step++) {
        c.last = loss_of(journal, step, &c.lr);
        if (step == 1) c.first = c.last;
        if (c.last < c.best) c.best = c.last, c.best_step = step;
    }
    return c;
}

/* A first-order run has no losses in its journal: its log tells. */
static course follow_log(const zest_log *log) {
    course c = {.first = NAN, .last = NAN, .best = HUGE_VAL, .lr = NAN};
    for (size_t i = 0; i < log->step_count; i++) {
        const zest_log_step *step = &log->steps[i];
        c.steps = step->step;
        c.last = step->loss;
        if (i == 0) c.first = c.last;
        if (c.last < c.best) c.best = c.last, c.best_step = step->step;
    }
    return c;
}

/* ---- Runs ---- */

static json_t *eval_json(const zest_log_eval *e) {
    json_t *object = json_pack("{s:I, s:I}", "step", (json_int_t)e->step, "n", (json_int_t)e->n);
    zest_output_set(&object, "value", zest_output_real(e->value));
    zest_output_set(&object, "low", zest_output_real(e->low));
    zest_output_set(&object, "high", zest_output_real(e->high));
    return object;
}

/* The best dev evaluation so far; NULL: there is none. */
static const zest_log_eval *best_eval(const zest_log *log) {
    const zest_log_eval *best = NULL;
    for (size_t i = 0; i < log->eval_count; i++)
        if (log->evals[i].best) best = &log->evals[i];
    return best;
}

static const char *state_of(const zest_log *log) { return log->end ? log->end->reason : "not finished"; }

static void add_memory(json_t **object, const zest_log_end *end) {
    if (end->peak_bytes) zest_output_set(object, "peak_bytes", json_integer((json_int_t)end->peak_bytes));
    if (end->device_peak_bytes)
        zest_output_set(object, "device_peak_bytes", json_integer((json_int_t)end->device_peak_bytes));
}

/* What the log of a training run adds. */
static void add_training(json_t **object, const zest_log *log) {
    const zest_log_start *start = &log->starts[log->start_count - 1];
    const zest_log_eval *best = best_eval(log);
    zest_output_set(object, "state", json_string(state_of(log)));
    zest_output_set(object, "task", json_string(start->task.name ? start->task.name : ""));
    zest_output_set(object, "metric", json_string(start->task.metric ? start->task.metric : ""));
    if (best) zest_output_set(object, "dev", eval_json(best));
    if (log->end && log->end->test.n) zest_output_set(object, "test", eval_json(&log->end->test));
    if (log->end) add_memory(object, log->end);
}

static json_t *advice_json(const zest_tilt_advice *a) {
    const struct {
        const char *name;
        double value;
    } all[] = {{"t", a->t},
               {"rho", a->rho},
               {"spread", a->spread},
               {"slope", a->slope},
               {"curvature", a->curvature},
               {"effective", a->effective},
               {"effective_slope", a->effective_slope},
               {"effective_curvature", a->effective_curvature},
               {"change", a->change},
               {"change_slope", a->change_slope},
               {"change_curvature", a->change_curvature},
               {"t_low", a->low},
               {"t_half", a->half},
               {"t_high", a->high},
               {"t_finite", a->finite},
               {"better_rho", a->better_rho}};
    json_t *object = json_pack("{s:I}", "steps", (json_int_t)a->steps);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        zest_output_set(&object, all[i].name, zest_output_real(all[i].value));
    return object;
}

static int print_json(zest_journal *journal, const course *c, const zest_log *log,
                      const zest_tilt_advice *advice) {
    zest_option option;
    json_t *options = json_object();
    for (size_t i = 0; zest_tuner_option(i, &option); i++)
        zest_output_set(&options, option.name, zest_output_string(zest_journal_option(journal, option.name)));
    json_t *object =
        json_pack("{s:I, s:I, s:s, s:I, s:o, s:o, s:o, s:I, s:o}", "steps", (json_int_t)c->steps, "dimension",
                  (json_int_t)zest_journal_dimension(journal), "type", zest_dtype_name(journal->dtype),
                  "torn_bytes", (json_int_t)zest_journal_torn(journal), "first_loss",
                  zest_output_real(c->first), "last_loss", zest_output_real(c->last), "best_loss",
                  zest_output_real(c->best), "best_step", (json_int_t)c->best_step, "options", options);
    if (log->start_count) add_training(&object, log);
    if (advice->steps) zest_output_set(&object, "tilt", advice_json(advice));
    return zest_output_json(object);
}

static void print_eval(zest_buffer *out, const char *part, const char *metric, const zest_log_eval *e,
                       int with_step) {
    zest_buffer_format(out, "%s%s %.4f", part, metric, e->value);
    if (isfinite(e->low)) zest_buffer_format(out, " (%.4f to %.4f)", e->low, e->high);
    if (isfinite(e->perplexity)) zest_buffer_format(out, ", perplexity %.2f", e->perplexity);
    if (with_step) zest_buffer_format(out, " at step %llu", (unsigned long long)e->step);
    zest_buffer_format(out, "\n");
}

static double mebibytes(uint64_t bytes) { return (double)bytes / 1048576; }

static void print_memory(zest_buffer *out, const zest_log_end *end) {
    if (!end->peak_bytes) return;
    zest_buffer_format(out, "memory     %.1f MiB at most", mebibytes(end->peak_bytes));
    if (end->device_peak_bytes)
        zest_buffer_format(out, ", and %.1f MiB of the GPU's", mebibytes(end->device_peak_bytes));
    zest_buffer_format(out, "\n");
}

/* "method     zest-n, lr = 1e-5, k = 5, rho = 0.002, t = 1, seed = 42": what the method takes. */
static void print_method(zest_buffer *out, const zest_log *log) {
    static const zest_option_id ids[] = {ZEST_OPTION_LR,     ZEST_OPTION_K, ZEST_OPTION_RHO,
                                         ZEST_OPTION_RADIUS, ZEST_OPTION_T, ZEST_OPTION_SEED};
    const char *method = zest_log_find_option(log, "method");
    unsigned const number = method ? zest_option_find_method(method) : ZEST_CHOICE_COUNT;
    if (number == ZEST_CHOICE_COUNT) return;
    zest_buffer_format(out, "method     %s", method);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const zest_option_row *row = zest_option_row_at(ids[i]);
        const char *value = zest_log_find_option(log, row->name);
        if (value && zest_option_takes(row, number)) zest_buffer_format(out, ", %s = %s", row->name, value);
    }
    zest_buffer_text(out, "\n");
}

static void print_training(zest_buffer *out, const zest_log *log) {
    const zest_log_start *start = &log->starts[log->start_count - 1];
    const zest_log_eval *best = best_eval(log);
    zest_buffer_format(out, "task       %s: %llu examples to train on, %llu dev, %llu test\n",
                       start->task.name, (unsigned long long)start->train, (unsigned long long)start->dev,
                       (unsigned long long)start->test);
    const char *model = zest_log_find_option(log, "model");
    zest_buffer_text(out, "model      ");
    zest_cli_model_name(model ? model : "", out);
    zest_buffer_format(out, " (%s): %llu parameters (%llu trained), %s\n", start->model.family,
                       (unsigned long long)start->model.parameters, (unsigned long long)start->model.trained,
                       start->model.weights);
    print_method(out, log);
    zest_buffer_format(out, "state      %s\n", state_of(log));
    if (best) print_eval(out, "best dev   ", start->task.metric, best, 1);
    if (log->end && log->end->test.n) print_eval(out, "test       ", start->task.metric, &log->end->test, 0);
    if (log->end) print_memory(out, log->end);
}

static int print_text(zest_journal *journal, const course *c, const zest_log *log,
                      const zest_tilt_advice *advice) {
    zest_option option;
    zest_buffer text = {0}, *out = &text;
    zest_buffer_format(out, "steps      %llu\n", (unsigned long long)c->steps);
    zest_buffer_format(out, "dimension  %llu (%s)\n", (unsigned long long)zest_journal_dimension(journal),
                       zest_dtype_name(journal->dtype));
    if (log->start_count) print_training(out, log);
    if (zest_journal_torn(journal))
        zest_buffer_format(out,
                           "torn       %llu bytes behind the last whole record; resuming cuts them off\n",
                           (unsigned long long)zest_journal_torn(journal));
    if (c->steps)
        zest_buffer_format(out,
                           "loss       %.6g in the first step, %.6g in the last, %.6g at best (step %llu)\n",
                           c->first, c->last, c->best, (unsigned long long)c->best_step);
    if (advice->steps) {
        zest_buffer_text(out, "tilt       ");
        zest_choose_t_text(advice, out);
        zest_buffer_text(out, "\n");
    }
    zest_buffer_text(out, "options   ");
    for (size_t i = 0; zest_tuner_option(i, &option); i++)
        if (strcmp(option.fallback, zest_journal_option(journal, option.name)))
            zest_buffer_format(out, " %s=%s", option.name, zest_journal_option(journal, option.name));
    zest_buffer_text(out, "\n");
    return zest_output_buffer(out);
}

/* A run that was killed early has no log yet, and a damaged one keeps its journal: both are shown without
 * what the log says. */
static zest_status read_log(const zest_run_folder *folder, int first_order, zest_log *log,
                            zest_error *error) {
    if (!zest_run_folder_is_training(folder) || access(folder->log, F_OK)) return ZEST_OK;
    zest_status status = /* other steps are in the journal */
        zest_log_read_parts(folder->log, first_order ? ZEST_LOG_ALL : ZEST_LOG_WITHOUT_STEPS, log, error);
    if (status != ZEST_ERROR_FORMAT) return status;
    zest_output_note("%s; what it holds is left out", error->message);
    return ZEST_OK;
}

static int show_run(const zest_options *options, const zest_run_folder *folder, zest_journal *journal) {
    zest_error error = {0};
    zest_log log = {0};
    zest_tilt_advice advice = {0};
    int first_order = zest_options_first_order(&journal->options);
    zest_status status = read_log(folder, first_order, &log, &error);
    if (!status) status = zest_choose_t_journal(journal, &advice, &error);
    course c = first_order ? follow_log(&log) : follow(journal);
    int code = status                                          ? zest_output_fail(status, error.message)
               : zest_options_whole(options, ZEST_OPTION_JSON) ? print_json(journal, &c, &log, &advice)
                                                               : print_text(journal, &c, &log, &advice);
    zest_log_free(&log);
    return code;
}

static int run_run(const zest_options *options, const char *path) {
    zest_error error = {0};
    zest_run_folder folder;
    zest_status status = zest_run_folder_of(path, &folder, &error);
    if (status) return zest_output_fail(status, error.message);
    zest_ctx *ctx = zest_output_context();
    zest_journal *journal = ctx ? zest_journal_open(ctx, folder.journal) : NULL;
    int code = ZEST_EXIT_FAILURE;
    if (journal && zest_run_folder_is_training(&folder)) status = zest_run_check(&folder, journal, &error);
    if (status)
        code = zest_output_fail(status, error.message);
    else if (journal)
        code = show_run(options, &folder, journal);
    else if (ctx)
        code = zest_output_fail(ZEST_ERROR_FORMAT, zest_ctx_error(ctx));
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    zest_run_folder_free(&folder);
    return code;
}

/* ---- Models ---- */

static int print_model(const zest_options *options, const char *path, const zest_model *model) {
    const zest_model_config *config = &model->config;
    size_t batch = (size_t)zest_options_whole(options, ZEST_OPTION_BATCH),
           k = (size_t)zest_options_whole(options, ZEST_OPTION_K);
    size_t tokens = batch * (size_t)zest_options_whole(options, ZEST_OPTION_TOKENS);
    size_t live = (size_t)zest_options_whole(options, ZEST_OPTION_LIVE);
    zest_model_plan plan = zest_model_plan_memory(config, tokens, live && live < k ? live : k);
    size_t operands = plan.operands, all = model->arena_size + plan.hidden + plan.work + operands;
    const char *type = zest_dtype_name(model->tensors[0].dtype);
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack(
            "{s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:{s:I, s:I, s:I, s:I, s:I}}", "family",
            config->family, "parameters", (json_int_t)model->params.dimension, "tensors",
            (json_int_t)model->params.count, "type", type, "hidden_size", (json_int_t)config->hidden_size,
            "layers", (json_int_t)config->layers, "heads", (json_int_t)config->heads, "ffn_size",
            (json_int_t)config->ffn_size, "vocab_size", (json_int_t)config->vocab_size, "causal",
            config->causal, "tied", config->tied_head, "memory", "weights", (json_int_t)model->arena_size,
            "hidden", (json_int_t)plan.hidden, "layer", (json_int_t)plan.work, "operands",
            (json_int_t)operands, "all", (json_int_t)all));
    zest_buffer text = {0}, *out = &text;
    zest_cli_model_name(path, out);
    zest_buffer_format(out, ": %s, %llu parameters in %zu tensors, %s in memory (%.1f MiB)\n", config->family,
                       (unsigned long long)model->params.dimension, model->params.count, type,
                       mebibytes(model->arena_size));
    zest_buffer_format(out,
                       "hidden size %zu, %zu layers, %zu heads (%zu key-value heads) of %zu, FFN size %zu, "
                       "vocabulary %zu, %zu positions\n",
                       config->hidden_size, config->layers, config->heads, config->kv_heads, config->head_dim,
                       config->ffn_size, config->vocab_size, config->max_positions);
    zest_buffer_format(out, "%s, %s positions, %s head\n", config->causal ? "causal" : "masked",
                       config->position_rows ? "learned" : "rotary", config->tied_head ? "tied" : "separate");
    zest_buffer_format(
        out,
        "a step with batch %zu, %zu tokens in all, k = %zu, %zu pairs live: weights %.1f + hidden states "
        "%.1f + one layer %.1f + operands about %.1f = %.1f MiB\n",
        batch, tokens, k, live && live < k ? live : k, mebibytes(model->arena_size), mebibytes(plan.hidden),
        mebibytes(plan.work), mebibytes(operands), mebibytes(all));
    return zest_output_buffer(out);
}

static int run_model(const zest_options *options, const char *path) {
    zest_error error = {0};
    zest_model *model;
    zest_model_options load = zest_load_model_options(options);
    zest_status status = zest_model_load(path, &load, &model, &error);
    int code = status ? zest_output_fail(status, error.message) : print_model(options, path, model);
    zest_model_free(model);
    return code;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    return zest_target_is_model(words[0]) ? run_model(options, words[0]) : run_run(options, words[0]);
}

const zest_command zest_command_info = {
    .name = "info",
    .words = "RUN|MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "show the state of a run, or the size and memory of a model",
    .description =
        "A run (a folder or its journal): checks every record and prints the number of steps, the losses, "
        "the results so far, and the options that differ from the defaults.\n\n"
        "A model (a Hugging Face folder or a GGUF file): prints its family and sizes, and the memory of a "
        "training step with --batch sequences of --tokens tokens, --k directions, and --live pairs of lanes "
        "at once.",
    .examples = "zest info run1\thow far it is\nzest info FacebookAI/roberta-base --batch 64 --tokens 64 --k "
                "5 --live 1\twhat a step would take",
    .options = "batch\tsequences in a batch",
    .defaults = "",
    .users = ZEST_FOR_INFO,
    .run = run,
};
