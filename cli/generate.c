/* zest generate: continuation of prompts, and conversations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stream.h"

/* Prompts behind each other, as zest_lm_generate_batch wants them. */
typedef struct {
    int32_t *tokens;
    size_t *starts, *line;
    size_t count, capacity;
} prompts;

static zest_status add(prompts *p, size_t line, const zest_cli_tokens *tokens, zest_error *error) {
    size_t first = p->starts[p->count], needed = first + tokens->count;
    if (needed > p->capacity) {
        int32_t *more = realloc(p->tokens, 2 * needed * sizeof *more);
        if (!more) return zest_error_memory(error, "the prompts", 2 * needed * sizeof *more);
        p->tokens = more;
        p->capacity = 2 * needed;
    }
    memcpy(p->tokens + first, tokens->data, tokens->count * sizeof *p->tokens);
    p->line[p->count++] = line;
    p->starts[p->count] = needed;
    return ZEST_OK;
}

/* What zest_lm_generate_batch would refuse for all of them. */
static zest_status check(const zest_cli_lm *m, size_t count, zest_error *error) {
    size_t most = m->info.max_positions;
    if (count && count <= most) return ZEST_OK;
    return count ? zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "the prompt has %zu tokens, and the model reads at most %zu", count, most)
                 : zest_error_set(error, ZEST_ERROR_ARGUMENT, "the prompt has no token");
}

/* Prompts that are refused are left out of the batch; p->line says which line each of the others is. */
static zest_status encode(zest_cli_lm *m, zest_lines *lines, prompts *p, json_t **results,
                          zest_error *error) {
    zest_cli_tokens tokens = {0};
    zest_status status = ZEST_OK;
    p->starts = calloc(lines->count + 1, sizeof *p->starts);
    p->line = calloc(lines->count + 1, sizeof *p->line);
    if (!p->starts || !p->line)
        return zest_error_memory(error, "the prompts", lines->count * sizeof *p->starts);
    for (size_t i = 0; i < lines->count && !status; i++) {
        zest_status refused = zest_cli_lm_encode(m, lines->text[i], ZEST_LM_ADD_SPECIAL, &tokens, error);
        if (!refused) refused = check(m, tokens.count, error);
        if (refused)
            zest_lines_refuse(lines, i, error->message, results);
        else
            status = add(p, i, &tokens, error);
    }
    free(tokens.data);
    return status;
}

/* The prompt as it was given, and what its tokens and the new ones say beyond it. */
static zest_status print_one(zest_cli_lm *m, const char *prompt, const int32_t *prompt_tokens,
                             size_t prompt_count, const int32_t *tokens, size_t count, json_t **results,
                             zest_error *error) {
    zest_buffer text = {0};
    size_t all = prompt_count + count;
    int32_t *ids = malloc((all + 1) * sizeof *ids);
    if (!ids) return zest_error_memory(error, "the tokens", all * sizeof *ids);
    memcpy(ids, prompt_tokens, prompt_count * sizeof *ids);
    memcpy(ids + prompt_count, tokens, count * sizeof *ids);
    zest_status status = zest_cli_lm_decode(m, ids, prompt_count, all, ZEST_LM_SKIP_SPECIAL, &text, error);
    const char *shown = text.data ? text.data : "";
    if (!status && results)
        zest_output_append(results, json_pack("{s:o, s:o, s:I}", "prompt", zest_output_string(prompt), "text",
                                              zest_output_string(shown), "tokens", (json_int_t)count));
    else if (!status)
        zest_output_print("%s%s\n", prompt, shown);
    zest_buffer_free(&text);
    free(ids);
    return status;
}

/* A single prompt's text is shown as it comes. */
static int on_token(size_t prompt, int32_t token, void *user) {
    (void)prompt;
    zest_cli_stream_token(user, token);
    return zest_output_broken();
}

static zest_status stream_one(zest_cli_lm *m, const char *prompt, const prompts *p, size_t most,
                              zest_error *error) {
    zest_cli_stream stream = {.lm = m->lm};
    zest_lm_generate_options how = {.max_tokens = most, .on_token = on_token, .user = &stream};
    int32_t *tokens = malloc(most * sizeof *tokens);
    size_t count;
    if (!tokens) return zest_error_memory(error, "the new tokens", most * sizeof *tokens);
    zest_output_print("%s", prompt);
    zest_status status = zest_cli_lm_error(
        m, zest_lm_generate(m->lm, p->tokens, p->starts[1], &how, tokens, most, &count), error);
    zest_cli_stream_end(&stream);
    zest_output_print("\n");
    free(tokens);
    return !status && stream.failed ? zest_error_memory(error, "a text", most) : status;
}

static void on_progress(uint64_t done, uint64_t total, void *user) {
    zest_progress_update(user, (double)done, (double)total, NULL);
}

static zest_status generate_all(zest_cli_lm *m, const prompts *p, size_t most, const zest_options *options,
                                int32_t *tokens, size_t *counts, zest_error *error) {
    zest_progress progress;
    zest_progress_begin(&progress, "generate", "tokens", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_lm_generate_options how = {.max_tokens = most, .on_progress = on_progress, .user = &progress};
    zest_status status = ZEST_OK;
    if (p->count)
        status = zest_lm_generate_batch(m->lm, p->tokens, p->starts, p->count, &how, tokens, counts);
    zest_progress_end(&progress);
    return zest_cli_lm_error(m, status, error);
}

static zest_status set_sampling(zest_cli_lm *m, const zest_options *options, zest_error *error) {
    zest_buffer sampling = {0};
    zest_status status = zest_cli_lm_sampling(options, &sampling, error);
    if (!status) status = zest_cli_lm_error(m, zest_lm_set_sampling(m->lm, sampling.data), error);
    zest_buffer_free(&sampling);
    return status;
}

static zest_status generate_batch(zest_cli_lm *m, const zest_options *options, zest_lines *lines,
                                  const prompts *p, json_t **results, zest_error *error) {
    size_t most = (size_t)zest_options_whole(options, ZEST_OPTION_MAX_TOKENS);
    int32_t *tokens = malloc((p->count * most + 1) * sizeof *tokens);
    size_t *counts = malloc((p->count + 1) * sizeof *counts);
    zest_status status = tokens && counts ? generate_all(m, p, most, options, tokens, counts, error)
                                          : zest_error_memory(error, "the new tokens", p->count * most);
    for (size_t i = 0; i < p->count && !status; i++)
        status = print_one(m, lines->text[p->line[i]], p->tokens + p->starts[i],
                           p->starts[i + 1] - p->starts[i], tokens + i * most, counts[i], results, error);
    free(tokens);
    free(counts);
    return status;
}

static zest_status generate(zest_cli_lm *m, const zest_options *options, zest_lines *lines, json_t **results,
                            zest_error *error) {
    prompts p = {0};
    if (!m->info.causal)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a %s model fills masks, it does not continue text",
                              m->info.family);
    zest_status status = set_sampling(m, options, error);
    if (status) return status;
    if (zest_options_whole(options, ZEST_OPTION_CHAT))
        return zest_cli_chat(m, options, lines, results, error);
    status = encode(m, lines, &p, results, error);
    if (!status && p.count == 1 && !results)
        status = stream_one(m, lines->text[p.line[0]], &p,
                            (size_t)zest_options_whole(options, ZEST_OPTION_MAX_TOKENS), error);
    else if (!status)
        status = generate_batch(m, options, lines, &p, results, error);
    free(p.tokens);
    free(p.starts);
    free(p.line);
    return status;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    return zest_cli_lm_run(options, words[0], ZEST_OPTION_PROMPT, generate);
}

const zest_command zest_command_generate = {
    .name = "generate",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "continue prompts, or chat",
    .description =
        "Continues all prompts in one batch, until one of the model's end tokens or --max-tokens. The next "
        "token is the "
        "most probable one, or, with --temperature, drawn at random: logits are changed by "
        "--repetition-penalty and "
        "--temperature, and then --top-k, --top-p and --min-p leave tokens out, in this order. The same "
        "--seed gives the "
        "same text with any number of threads. A single prompt's text is shown as it comes.\n\n"
        "--chat makes a conversation of it, in the text of the model's own chat template: --prompt is the "
        "only turn, or "
        "every line of standard input is one, typed or from a file. A turn ends with the model's end-of-turn "
        "token.\n\n"
        "MODEL is a Hugging Face folder (config.json, safetensors, tokenizer files) or a GGUF file of a "
        "causal model.\n\n"
        "A prompt that is longer than the model reads is named on stderr with its line; the others are "
        "continued, and the exit status is 1.",
    .examples =
        "zest generate smollm2.gguf --prompt 'The capital of France is' --max-tokens 8\tone prompt\n"
        "zest generate smollm2.gguf --chat --temperature 0.7 --top-p 0.9\ta conversation; Ctrl-D ends it\n"
        "zest generate opt-125m < prompts.txt --json\ta prompt a line, results as JSON",
    .defaults = "weights=quantized",
    .users = ZEST_FOR_GENERATE,
    .run = run,
};
