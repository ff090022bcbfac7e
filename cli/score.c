/* zest score: the log-probability of texts under a model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/target.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "model/loss.h"

/* One text as a batch: a causal model sees it once and is asked for every token but the first; a masked model
 * sees it once for every token, with that token masked (the pseudo-log-likelihood). */
typedef struct {
    uint32_t *tokens, *starts, *rows, *targets, *item_starts;
    size_t sequences, asked;
} question;

static void free_question(question *q) {
    free(q->tokens);
    free(q->starts);
    free(q->rows);
    free(q->targets);
    free(q->item_starts);
}

static int make_room(question *q, size_t tokens, size_t sequences, size_t asked) {
    q->tokens = malloc((tokens + 1) * sizeof *q->tokens);
    q->starts = calloc(sequences + 1, sizeof *q->starts);
    q->rows = malloc((asked + 1) * sizeof *q->rows);
    q->targets = malloc((asked + 1) * sizeof *q->targets);
    q->item_starts = calloc(asked + 2, sizeof *q->item_starts);
    q->sequences = sequences;
    return q->tokens && q->starts && q->rows && q->targets && q->item_starts;
}

static zest_status ask_causal(question *q, const zest_ids *ids, zest_error *error) {
    if (!make_room(q, ids->count, 1, ids->count)) return zest_error_memory(error, "a text", ids->count * 16);
    for (size_t i = 0; i < ids->count; i++) q->tokens[i] = (uint32_t)ids->data[i];
    q->starts[1] = (uint32_t)ids->count;
    for (size_t i = 1; i < ids->count; i++) {
        q->rows[q->asked] = (uint32_t)i - 1;
        q->targets[q->asked++] = (uint32_t)ids->data[i];
        q->item_starts[q->asked] = (uint32_t)q->asked;
    }
    return ZEST_OK;
}

static zest_status ask_masked(question *q, const zest_tokenizer *tokenizer, const zest_ids *ids,
                              zest_error *error) {
    int32_t mask = zest_tokenizer_special(tokenizer, ZEST_TOKEN_MASK);
    size_t asked = 0, length = ids->count;
    for (size_t i = 0; i < length; i++) asked += !zest_tokenizer_is_special(tokenizer, ids->data[i]);
    if (!make_room(q, asked * length, asked, asked))
        return zest_error_memory(error, "a text", asked * length * 4);
    for (size_t i = 0; i < length; i++) {
        if (zest_tokenizer_is_special(tokenizer, ids->data[i])) continue;
        size_t first = q->asked * length;
        for (size_t j = 0; j < length; j++) q->tokens[first + j] = (uint32_t)(j == i ? mask : ids->data[j]);
        q->rows[q->asked] = (uint32_t)(first + i);
        q->targets[q->asked++] = (uint32_t)ids->data[i];
        q->starts[q->asked] = (uint32_t)(first + length);
        q->item_starts[q->asked] = (uint32_t)q->asked;
    }
    return ZEST_OK;
}

typedef struct {
    double log_probability;
    size_t tokens;
} answer;

static zest_status score(const zest_loaded *m, const char *text, answer *a, zest_error *error) {
    zest_ids ids = {0};
    question q = {0};
    *a = (answer){0};
    zest_status status =
        zest_tokenizer_encode(m->tokenizer, text, strlen(text), ZEST_ENCODE_TEMPLATE, &ids, error);
    if (!status && ids.count > m->model->config.max_positions)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "has %zu tokens, and the model reads at most %zu; cut it into pieces",
                                ids.count, m->model->config.max_positions);
    if (!status)
        status =
            m->model->config.causal ? ask_causal(&q, &ids, error) : ask_masked(&q, m->tokenizer, &ids, error);
    if (!status && !q.asked)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "is too short: there is no token to predict");
    double *losses = malloc((q.asked + 1) * sizeof *losses);
    if (!status && !losses) status = zest_error_memory(error, "the scores", q.asked * sizeof *losses);
    if (!status) {
        zest_model_batch batch = {.tokens = q.tokens, .starts = q.starts, .sequences = q.sequences};
        zest_model_objective objective = {.kind = ZEST_LOSS_TOKENS,
                                          .batch = &batch,
                                          .items = q.asked,
                                          .item_starts = q.item_starts,
                                          .rows = q.rows,
                                          .targets = q.targets};
        zest_model_lane itself = {.direction = {.gain = 1}, .scale = 0};
        status = zest_model_losses(m->runner, &itself, 1, &objective, losses, NULL, NULL, error);
    }
    for (size_t i = 0; i < q.asked && !status; i++) a->log_probability -= losses[i];
    a->tokens = q.asked;
    free(losses);
    free_question(&q);
    zest_ids_free(&ids);
    return status;
}

static void print_one(const answer *a, const char *text, size_t line, json_t **results) {
    double each = exp(-a->log_probability / (double)a->tokens);
    if (results)
        zest_output_append(results, json_pack("{s:I, s:o, s:o, s:I, s:o}", "line", (json_int_t)line, "text",
                                              zest_output_string(text), "log_probability",
                                              zest_output_real(a->log_probability), "tokens",
                                              (json_int_t)a->tokens, "perplexity", zest_output_real(each)));
    else
        zest_output_print("%14.6f  %5zu tokens  perplexity %10.4f  %s\n", a->log_probability, a->tokens, each,
                          text);
}

static zest_status score_all(const zest_loaded *m, const zest_options *options, zest_lines *lines,
                             json_t **results, zest_error *error) {
    zest_progress progress;
    if (!m->model->config.causal && zest_tokenizer_special(m->tokenizer, ZEST_TOKEN_MASK) < 0)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "the tokenizer has no mask token to score a text with");
    zest_progress_begin(&progress, "score", "texts", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    for (size_t i = 0; i < lines->count && !zest_output_broken(); i++) {
        answer a;
        zest_status status = score(m, lines->text[i], &a, error);
        zest_progress_clear(&progress);
        if (status)
            zest_lines_refuse(lines, i, error->message, results);
        else
            print_one(&a, lines->text[i], lines->number[i], results);
        zest_progress_update(&progress, (double)i + 1, (double)lines->count, NULL);
    }
    zest_progress_end(&progress);
    return ZEST_OK;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    return zest_cli_model_run(options, words[0], ZEST_OPTION_TEXT, score_all);
}

const zest_command zest_command_score = {
    .name = "score",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "compute the log-probability of texts",
    .description =
        "Prints the natural logarithm of the probability of each text, its number of tokens and its "
        "perplexity. A causal model predicts every token from those before it (without a start token, the "
        "first token is given). A masked model predicts every token from all others, one mask at a time: the "
        "pseudo-log-likelihood.\n\nA line that cannot be scored, for example because it is longer than the "
        "model reads, is named on stderr with its number (with --json also as an \"error\"). The others are "
        "scored, and the exit status is 1.",
    .examples = "zest score roberta-base --text 'The cat sat on the mat.'\tone text\n"
                "zest score smollm2.gguf --json < texts.txt\ta text a line",
    .defaults = "",
    .users = ZEST_FOR_SCORE,
    .run = run,
};
