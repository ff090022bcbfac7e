/* zest eval: how good a run or a model is at a task, or how well it predicts a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranks.h"

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

/* ---- Perplexity of a text file ---- */

enum { TEXT_LIMIT = 1 << 30 };

static int report_perplexity(const zest_options *options, const zest_lm_perplexity_result *p) {
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack("{s:o, s:o, s:I, s:I}", "perplexity",
                                          zest_output_real(p->perplexity), "log_probability",
                                          zest_output_real(p->log_probability), "tokens",
                                          (json_int_t)p->tokens, "windows", (json_int_t)p->windows));
    zest_output_print("perplexity %.4f  log-probability %.4f  n = %zu tokens in %zu windows\n", p->perplexity,
                      p->log_probability, p->tokens, p->windows);
    return ZEST_EXIT_OK;
}

static zest_status measure(zest_cli_lm *m, const zest_options *options, zest_progress *progress,
                           zest_lm_perplexity_result *result, zest_error *error) {
    zest_buffer text = {0};
    zest_cli_tokens tokens = {0};
    zest_lm_perplexity_options how = {.window = (size_t)zest_options_whole(options, ZEST_OPTION_WINDOW),
                                      .stride = (size_t)zest_options_whole(options, ZEST_OPTION_STRIDE),
                                      .on_progress = on_rebuild,
                                      .user = progress};
    zest_status status =
        zest_file_read_stream(zest_options_text(options, ZEST_OPTION_PLAIN_TEXT), TEXT_LIMIT, &text, error);
    if (!status)
        status = zest_cli_lm_encode(m, text.data ? text.data : "", ZEST_LM_ADD_SPECIAL, &tokens, error);
    if (!status)
        status =
            zest_cli_lm_error(m, zest_lm_perplexity(m->lm, tokens.data, tokens.count, &how, result), error);
    free(tokens.data);
    zest_buffer_free(&text);
    return status;
}

static int run_perplexity(const zest_options *options, const char *path) {
    zest_error error = {0};
    zest_cli_lm m = {0};
    zest_lm_perplexity_result result;
    zest_progress progress;
    if (zest_options_given(options, ZEST_OPTION_TASK))
        return zest_output_fail(ZEST_ERROR_ARGUMENT,
                                "--text measures the perplexity of a text and --task answers "
                                "examples: give one of them");
    if (zest_cli_ranks_comm() && zest_options_whole(options, ZEST_OPTION_BROADCAST))
        return zest_output_fail(ZEST_ERROR_ARGUMENT,
                                "the perplexity of a text is not divided over ranks: start one process, "
                                "or leave out --broadcast");
    zest_status status = zest_cli_lm_open(&m, path, 0, options, &error);
    zest_progress_begin(&progress, "eval", "tokens", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    if (!status) status = measure(&m, options, &progress, &result, &error);
    zest_progress_end(&progress);
    int code = status ? zest_output_fail(status, error.message) : report_perplexity(options, &result);
    zest_cli_lm_close(&m);
    return code;
}

static int run(const zest_options *given, char **words, int count) {
    (void)count;
    if (zest_options_given(given, ZEST_OPTION_PLAIN_TEXT)) return run_perplexity(given, words[0]);
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
    .summary = "measure a run or a model on a task or a text",
    .description =
        "Answers the examples of --split and prints accuracy, F1, exact match and loss, as far as "
        "the task has them, with a 95 % interval (Wilson's for accuracy, a bootstrap for F1). "
        "When scores are equal, the first class or option counts as the answer.\n\n"
        "A run brings its own task, data and split. Its weights are those of --step: best, last, "
        "or any number, for which they are rebuilt from the journal. A model needs --task and "
        "--data; its splits are those that training with the same --seed and --shots uses.\n\n"
        "--text FILE gives the perplexity of a text under a causal model instead. The text is cut into "
        "windows that begin every --stride tokens, and every token is predicted once, in the first window "
        "that has it, from the tokens of that window before it: the sliding window of transformers' "
        "documentation. With --stride as large as --window the windows do not overlap, and the first token "
        "of each is not predicted. (llama.cpp's perplexity also has no overlap, but counts only the second "
        "half of each window.)",
    .examples = "zest eval run1\tthe best weights on the test examples\n"
                "zest eval run1 --step 0 --split dev --json\twhere it started\n"
                "zest eval FacebookAI/roberta-base --task SST-2 --data data\tzero-shot\n"
                "zest eval smollm2.gguf --text book.txt --window 1024 --stride 512\tperplexity of a text",
    .options = "model\tof a run: where its model is now, if it was moved; of weights without a tokenizer: "
               "the model that has it",
    .defaults = ZEST_EVAL_DEFAULTS,
    .users = ZEST_FOR_EVAL,
    .ranks = 1,
    .run = run,
};
