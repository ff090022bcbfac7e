/* Answers in free text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/metric_internal.h"

typedef struct {
    uint32_t *prompt_tokens, *starts, *tokens;
    size_t *counts;
    int32_t *ids;
} rooms;

static void free_rooms(rooms *r) {
    free(r->prompt_tokens);
    free(r->starts);
    free(r->tokens);
    free(r->counts);
    free(r->ids);
}

/* Texts end with a newline, whose token closes one also behind other whitespace; or with the end token. */
static zest_status find_stops(const zest_tokenizer *tokenizer, uint32_t stops[2], size_t *count,
                              zest_error *error) {
    zest_ids ids = {0};
    zest_status status = zest_tokenizer_encode(tokenizer, "\n", 1, 0, &ids, error);
    int32_t end = zest_tokenizer_special(tokenizer, ZEST_TOKEN_EOS);
    *count = 0;
    if (!status && ids.count) stops[(*count)++] = (uint32_t)ids.data[ids.count - 1];
    if (end >= 0) stops[(*count)++] = (uint32_t)end;
    zest_ids_free(&ids);
    return status;
}

static zest_status judge(const zest_tokenizer *tokenizer, const zest_examples *e, size_t i,
                         const int32_t *ids, size_t count, zest_predictions *p, zest_error *error) {
    zest_buffer text = {0};
    zest_buffer_text(&text, "");
    zest_status status = zest_tokenizer_decode(tokenizer, ids, count, 1, &text, error);
    zest_metric_clean_up(&text);
    if (!status && (text.failed || !text.data)) status = zest_error_memory(error, "an answer", text.size);
    if (status) {
        zest_buffer_free(&text);
        return status;
    }
    p->texts[i] = text.data;
    p->f1[i] = zest_metric_token_f1(text.data, e->gold[i]);
    p->em[i] = zest_metric_exact(text.data, e->gold[i]);
    return isnan(p->f1[i]) || isnan(p->em[i]) ? zest_error_memory(error, "an answer", text.size) : ZEST_OK;
}

/* Examples first .. first+count-1. */
static zest_status generate(zest_model_runner *runner, const zest_model_lane *lane, const zest_examples *e,
                            const zest_tokenizer *tokenizer, const zest_generate_options *options,
                            size_t first, size_t count, rooms *r, zest_predictions *p, zest_error *error) {
    r->starts[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const zest_example_text *prompt = &e->prompts[first + i];
        memcpy(r->prompt_tokens + r->starts[i], e->tokens + prompt->first,
               prompt->length * sizeof *r->prompt_tokens);
        r->starts[i + 1] = r->starts[i] + prompt->length;
    }
    zest_model_batch batch = {.tokens = r->prompt_tokens, .starts = r->starts, .sequences = count};
    zest_status status = zest_generate_greedy(runner, lane, &batch, options, r->tokens, r->counts, error);
    for (size_t i = 0; i < count && !status; i++) {
        for (size_t t = 0; t < r->counts[i]; t++) r->ids[t] = (int32_t)r->tokens[i * options->most + t];
        status = judge(tokenizer, e, first + i, r->ids, r->counts[i], p, error);
    }
    return status;
}

/* How many examples from `first` on fit into a batch, and their prompts' tokens. */
static size_t fit(const zest_examples *e, size_t first, size_t batch_tokens, size_t *tokens) {
    size_t count = 0, sum = 0;
    *tokens = 0;
    while (first + count < e->count) {
        sum += e->prompts[first + count].length + e->max_tokens;
        if (count && sum > batch_tokens) break;
        *tokens += e->prompts[first + count++].length;
    }
    return count;
}

static int make_rooms(const zest_examples *e, size_t batch_tokens, rooms *r) {
    size_t most = 0, most_tokens = 0, tokens;
    for (size_t first = 0, count; first < e->count; first += count) {
        count = fit(e, first, batch_tokens, &tokens);
        if (count > most) most = count;
        if (tokens > most_tokens) most_tokens = tokens;
    }
    r->prompt_tokens = malloc((most_tokens + 1) * sizeof *r->prompt_tokens);
    r->starts = malloc((most + 1) * sizeof *r->starts);
    r->tokens = malloc((most * e->max_tokens + 1) * sizeof *r->tokens);
    r->counts = malloc((most + 1) * sizeof *r->counts);
    r->ids = malloc((e->max_tokens + 1) * sizeof *r->ids);
    return r->prompt_tokens && r->starts && r->tokens && r->counts && r->ids;
}

zest_status zest_metric_generate(zest_model_runner *runner, const zest_model_lane *lane,
                                 const zest_examples *e, const zest_tokenizer *tokenizer, size_t batch_tokens,
                                 const zest_progress_callback *progress, zest_predictions *p,
                                 zest_error *error) {
    uint32_t stops[2];
    rooms r = {0};
    zest_generate_options options = {.most = e->max_tokens, .stops = stops};
    zest_status status = find_stops(tokenizer, stops, &options.stop_count, error);
    if (!status && !make_rooms(e, batch_tokens, &r))
        status = zest_error_memory(error, "generated answers", batch_tokens * sizeof(uint32_t));
    for (size_t first = 0, count, tokens; first < e->count && !status; first += count) {
        count = fit(e, first, batch_tokens, &tokens);
        status = generate(runner, lane, e, tokenizer, &options, first, count, &r, p, error);
        zest_progress_call(progress, first + count, e->count);
    }
    free_rooms(&r);
    return status;
}
