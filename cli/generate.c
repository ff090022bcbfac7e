/* zest generate: greedy continuation of prompts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/target.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "model/generate.h"

/* Prompts behind each other, as a batch wants them. */
typedef struct {
    uint32_t *tokens, *starts;
    size_t count, *line;
} prompts;

/* What zest_generate_greedy would refuse for all of them. */
static zest_status check(const zest_loaded *m, size_t count, zest_error *error) {
    size_t most = m->model->config.max_positions;
    if (count && count <= most) return ZEST_OK;
    return count ? zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "the prompt has %zu tokens, and the model reads at most %zu", count, most)
                 : zest_error_set(error, ZEST_ERROR_ARGUMENT, "the prompt has no token");
}

/* Prompts that are refused are left out of the batch; p->line says which line each of the others is. */
static zest_status encode(const zest_loaded *m, zest_lines *lines, prompts *p, json_t **results,
                          zest_error *error) {
    zest_ids ids = {0};
    zest_status status = ZEST_OK;
    p->starts = calloc(lines->count + 1, sizeof *p->starts);
    p->line = calloc(lines->count + 1, sizeof *p->line);
    if (!p->starts || !p->line)
        return zest_error_memory(error, "the prompts", lines->count * sizeof *p->starts);
    for (size_t i = 0; i < lines->count; i++) {
        size_t first = ids.count;
        status = zest_tokenizer_encode(m->tokenizer, lines->text[i], strlen(lines->text[i]),
                                       ZEST_ENCODE_TEMPLATE, &ids, error);
        if (!status) status = check(m, ids.count - first, error);
        if (status) {
            zest_lines_refuse(lines, i, error->message, results);
            ids.count = first;
        } else {
            p->line[p->count++] = i;
            p->starts[p->count] = (uint32_t)ids.count;
        }
    }
    status = ZEST_OK;
    p->tokens = malloc((ids.count + 1) * sizeof *p->tokens);
    if (!status && !p->tokens)
        status = zest_error_memory(error, "the prompts", ids.count * sizeof *p->tokens);
    for (size_t i = 0; i < ids.count && !status; i++) p->tokens[i] = (uint32_t)ids.data[i];
    zest_ids_free(&ids);
    return status;
}

/* The prompt as it was given, and what its tokens and the new ones say beyond it. */
static zest_status print_one(const zest_loaded *m, const char *prompt, const uint32_t *prompt_tokens,
                             size_t prompt_count, const uint32_t *tokens, size_t count, json_t **results,
                             zest_error *error) {
    zest_buffer text = {0};
    size_t all = prompt_count + count;
    int32_t *ids = malloc((all + 1) * sizeof *ids);
    for (size_t i = 0; ids && i < all; i++)
        ids[i] = (int32_t)(i < prompt_count ? prompt_tokens[i] : tokens[i - prompt_count]);
    zest_status status =
        ids ? zest_tokenizer_decode_after(m->tokenizer, ids, prompt_count, all, 1, &text, error)
            : zest_error_memory(error, "the tokens", all * sizeof *ids);
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

static zest_status generate(const zest_loaded *m, const zest_options *options, zest_lines *lines,
                            json_t **results, zest_error *error) {
    prompts p = {0};
    int32_t end = zest_tokenizer_special(m->tokenizer, ZEST_TOKEN_EOS);
    uint32_t stop = (uint32_t)end;
    zest_progress progress;
    zest_progress_begin(&progress, "generate", "tokens", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_progress_callback watch = zest_progress_sink(&progress);
    zest_generate_options how = {.most = (size_t)zest_options_whole(options, ZEST_OPTION_MAX_TOKENS),
                                 .stops = &stop,
                                 .stop_count = end >= 0,
                                 .progress = &watch};
    if (!m->model->config.causal)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a %s model fills masks, it does not continue text",
                              m->model->config.family);
    zest_status status = encode(m, lines, &p, results, error);
    uint32_t *tokens = malloc((p.count * how.most + 1) * sizeof *tokens);
    size_t *counts = malloc((p.count + 1) * sizeof *counts);
    if (!status && (!tokens || !counts))
        status = zest_error_memory(error, "the new tokens", p.count * how.most * sizeof *tokens);
    zest_model_batch batch = {.tokens = p.tokens, .starts = p.starts, .sequences = p.count};
    if (!status && p.count)
        status = zest_generate_greedy(m->runner, NULL, &batch, &how, tokens, counts, error);
    zest_progress_end(&progress);
    for (size_t i = 0; i < p.count && !status; i++)
        status = print_one(m, lines->text[p.line[i]], p.tokens + p.starts[i], p.starts[i + 1] - p.starts[i],
                           tokens + i * how.most, counts[i], results, error);
    free(tokens);
    free(counts);
    free(p.tokens);
    free(p.starts);
    free(p.line);
    return status;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    return zest_cli_model_run(options, words[0], ZEST_OPTION_PROMPT, generate);
}

const zest_command zest_command_generate = {
    .name = "generate",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "continue prompts",
    .description =
        "Greedy generation of all prompts in one batch, until the end-of-text token or --max-tokens. MODEL "
        "is a Hugging Face folder (config.json, safetensors, tokenizer files) or a GGUF file of a causal "
        "model: OPT, GPT-2, Llama, Qwen2.\n\nA prompt that is longer than the model reads is named on stderr "
        "with its line; the others are continued, and the exit status is 1.",
    .examples = "zest generate smollm2.gguf --prompt 'The capital of France is' --max-tokens 8\tone prompt\n"
                "zest generate opt-125m < prompts.txt --json\ta prompt a line, results as JSON",
    .defaults = "",
    .users = ZEST_FOR_GENERATE,
    .run = run,
};
