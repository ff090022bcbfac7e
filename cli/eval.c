/* zest eval: how good a run or a model is at a task. */
#include <stdio.h>
#include <string.h>

#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"

static void on_rebuild(uint64_t done, uint64_t total, void *user) {
    zest_progress_update(user, (double)done, (double)total, NULL);
}

static void on_evaluate(uint64_t done, uint64_t total, void *user) {
    zest_progress *progress = user;
    if (strcmp(progress->label, "eval")) zest_progress_stage(progress, "eval", "examples", 0);
    zest_progress_update(progress, (double)done, (double)total, NULL);
}

static void on_note(const char *sentences, void *user) {
    const zest_progress *progress = user;
    if (progress->active) zest_output_notes(sentences);
}

static int report(const zest_options *options, const zest_lm_evaluation *e) {
    const char *split = zest_options_text(options, ZEST_OPTION_SPLIT);
    if (zest_options_whole(options, ZEST_OPTION_JSON)) {
        json_t *object = zest_metrics_json(&e->metrics);
        zest_output_set(&object, "task", zest_output_string(e->task));
        zest_output_set(&object, "split", json_string(split));
        zest_output_set(&object, "metric", json_string(e->metric));
        if (e->is_run) zest_output_set(&object, "step", json_integer((json_int_t)e->step));
        zest_output_set(&object, "seconds", json_real(e->seconds));
        return zest_output_json(object);
    }
    if (e->is_run) zest_output_print("%s, step %llu\n", e->task, (unsigned long long)e->step);
    zest_metrics_print(split, e->metric, &e->metrics, stdout);
    return ZEST_EXIT_OK;
}

static int run(const zest_options *given, char **words, int count) {
    (void)count;
    zest_lm_evaluation evaluation;
    zest_progress progress;
    zest_ctx *ctx = zest_output_context();
    if (!ctx) return ZEST_EXIT_FAILURE;
    zest_progress_begin(&progress, "rebuild", "steps", (int)zest_options_whole(given, ZEST_OPTION_QUIET));
    zest_lm_callbacks callbacks = {
        .on_rebuild = on_rebuild, .on_evaluate = on_evaluate, .on_note = on_note, .user = &progress};
    zest_lm_options *options = zest_cli_lm_options(ctx, &zest_command_eval, given);
    zest_status status =
        options ? zest_lm_evaluate(ctx, words[0], options, &callbacks, &evaluation) : zest_ctx_status(ctx);
    zest_progress_end(&progress);
    int code = status ? zest_output_fail(status, zest_ctx_error(ctx)) : report(given, &evaluation);
    zest_lm_options_free(options);
    zest_ctx_free(ctx);
    return code;
}

const zest_command zest_command_eval = {
    .name = "eval",
    .words = "RUN|MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "measure a run or a model on a task",
    .description = "Answers the examples of --split and prints accuracy, F1, exact match and loss, as far as "
                   "the task has them, with a 95 % interval (Wilson's for accuracy, a bootstrap for F1). "
                   "When scores are equal, the first class or option counts as the answer.\n\n"
                   "A run brings its own task, data and split. Its weights are those of --step: best, last, "
                   "or any number, for which they are rebuilt from the journal. A model needs --task and "
                   "--data; its splits are those that training with the same --seed and --shots uses.",
    .examples = "zest eval run1\tthe best weights on the test examples\n"
                "zest eval run1 --step 0 --split dev --json\twhere it started\n"
                "zest eval FacebookAI/roberta-base --task SST-2 --data data\tzero-shot",
    .options = "model\tof a run: where its model is now, if it was moved; of weights without a tokenizer: "
               "the model that has it",
    .defaults = ZEST_EVAL_DEFAULTS,
    .users = ZEST_FOR_EVAL,
    .ranks = 1,
    .run = run,
};
