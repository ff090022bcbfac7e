/* zest score: the log-probability of texts under a model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"

typedef struct {
    double log_probability;
    size_t tokens;
} answer;

/* Adds up the tokens that are predicted. */
static zest_status sum_up(zest_cli_lm *m, const zest_cli_tokens *tokens, answer *a, zest_error *error) {
    double *each = malloc((tokens->count + 1) * sizeof *each);
    if (!each) return zest_error_memory(error, "the scores", tokens->count * sizeof *each);
    zest_status status = ZEST_OK;
    if (tokens->count)
        status = zest_cli_lm_error(m, zest_lm_score(m->lm, tokens->data, tokens->count, each), error);
    for (size_t i = 0; i < tokens->count && !status; i++) {
        int predicted = m->info.causal ? i > 0 : !zest_lm_token_is_special(m->lm, tokens->data[i]);
        if (predicted) a->log_probability += each[i];
        a->tokens += (size_t)predicted;
    }
    free(each);
    if (!status && !a->tokens)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "is too short: there is no token to predict");
    return status;
}

static zest_status score(zest_cli_lm *m, const char *text, answer *a, zest_error *error) {
    zest_cli_tokens tokens = {0};
    *a = (answer){0};
    zest_status status = zest_cli_lm_encode(m, text, ZEST_LM_ADD_SPECIAL, &tokens, error);
    if (!status && tokens.count > m->info.max_positions)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "has %zu tokens, and the model reads at most %zu; cut it into pieces",
                                tokens.count, m->info.max_positions);
    if (!status) status = sum_up(m, &tokens, a, error);
    free(tokens.data);
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

static zest_status score_all(zest_cli_lm *m, const zest_options *options, zest_lines *lines, json_t **results,
                             zest_error *error) {
    zest_progress progress;
    if (!m->info.causal && zest_lm_special_token(m->lm, ZEST_LM_MASK) < 0)
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
    return zest_cli_lm_run(options, words[0], ZEST_OPTION_TEXT, score_all);
}

const zest_command zest_command_score = {
    .name = "score",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "compute the log-probability of texts",
    .description =
        "Prints the natural logarithm of the probability of each text, its number of tokens and its "
        "perplexity. A causal model predicts every token from those before it (without a start token, the "
        "first token is given). A masked model predicts every token from all others, one mask at a time: "
        "the pseudo-log-likelihood.\n\n"
        "A line that cannot be scored, for example because it is longer than the model reads, is named on "
        "stderr with its number (with --json also as an \"error\"). The others are scored, and the exit "
        "status is 1.",
    .examples = "zest score FacebookAI/roberta-base --text 'The cat sat on the mat.'\tone text\n"
                "zest score smollm2.gguf --json < texts.txt\ta text a line",
    .defaults = "",
    .users = ZEST_FOR_SCORE,
    .run = run,
};
