/* Generation of include/zest_lm.h. */
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"
#include "model/generate.h"

static zest_status no_memory(const zest_lm *lm, const char *what, size_t bytes) {
    return zest_error_memory(zest_lm_sink(lm), what, bytes);
}

enum { DEFAULT_TOKENS = 64 };

zest_status zest_lm_set_sampling(zest_lm *lm, const char *options) {
    zest_options o;
    if (!lm) return ZEST_ERROR_ARGUMENT;
    zest_options_init(&o);
    zest_status status =
        options ? zest_options_set_all(&o, ZEST_FOR_SAMPLING, options, "sampling", zest_lm_sink(lm))
                : ZEST_OK;
    if (!status) {
        lm->samples = options != NULL;
        lm->sampling = (zest_sampling){
            .temperature = zest_options_number(&o, ZEST_OPTION_TEMPERATURE),
            .top_k = (size_t)zest_options_whole(&o, ZEST_OPTION_TOP_K),
            .top_p = zest_options_number(&o, ZEST_OPTION_TOP_P),
            .min_p = zest_options_number(&o, ZEST_OPTION_MIN_P),
            .repetition_penalty = zest_options_number(&o, ZEST_OPTION_REPETITION_PENALTY),
            .seed = zest_options_whole(&o, ZEST_OPTION_SEED),
        };
    }
    zest_options_free(&o);
    return status;
}

typedef struct {
    zest_lm *lm;
    const zest_lm_generate_options *options;
    size_t prompts;
    size_t max_tokens; /* of the caller's rows */
    size_t most;       /* that a text can have: of the rows here */
    uint32_t *tokens;  /* (prompts, most), as they come */
    size_t *counts, *reported;
    int stop;
} generation;

/* Hands on the tokens that are new. */
static void report_tokens(generation *g) {
    for (size_t p = 0; p < g->prompts && g->options->on_token; p++)
        while (g->reported[p] < g->counts[p] && !g->stop) {
            int32_t token = (int32_t)g->tokens[p * g->most + g->reported[p]++];
            g->stop = g->options->on_token(p, token, g->options->user) != 0;
        }
}

static void on_step(uint64_t done, uint64_t total, void *user) {
    generation *g = user;
    (void)total;
    report_tokens(g);
    if (g->options->on_progress) g->options->on_progress(done, g->max_tokens, g->options->user);
}

/* The model's end tokens and the caller's. */
static zest_status make_stops(const generation *g, uint32_t **stops, size_t *count) {
    const zest_lm_generate_options *o = g->options;
    zest_ids ends = {0};
    *count = 0;
    if (o->stop_count && zest_lm_need(g->lm->ctx, o->stops, "stops")) return ZEST_ERROR_ARGUMENT;
    zest_status status = o->ignore_eos ? ZEST_OK : zest_lm_list_ends(g->lm, &ends);
    *stops = status ? NULL : malloc((ends.count + o->stop_count + 1) * sizeof **stops);
    if (!status && !*stops) status = no_memory(g->lm, "stop tokens", o->stop_count * sizeof **stops);
    for (size_t i = 0; i < ends.count && !status; i++) (*stops)[(*count)++] = (uint32_t)ends.data[i];
    for (size_t i = 0; i < o->stop_count && !status; i++) (*stops)[(*count)++] = (uint32_t)o->stops[i];
    zest_ids_free(&ends);
    return status;
}

static zest_status run_generation(generation *g, const zest_model_batch *batch, int32_t *ids,
                                  size_t *counts) {
    uint32_t *stops = NULL;
    size_t stop_count;
    zest_progress_callback progress = {on_step, g};
    zest_status status = make_stops(g, &stops, &stop_count);
    zest_generate_options how = {.max_new_tokens = g->most,
                                 .stops = stops,
                                 .stop_count = stop_count,
                                 .sampling = g->lm->samples ? &g->lm->sampling : NULL,
                                 .progress = &progress,
                                 .kept = g->options->keep ? &g->lm->kept : NULL,
                                 .stop = &g->stop};
    if (!status)
        status =
            zest_generate(g->lm->loaded.runner, NULL, batch, &how, g->tokens, g->counts, zest_lm_sink(g->lm));
    if (!status) report_tokens(g);
    for (size_t p = 0; p < g->prompts && !status; p++) {
        counts[p] = g->counts[p];
        for (size_t i = 0; i < counts[p]; i++)
            ids[p * g->max_tokens + i] = (int32_t)g->tokens[p * g->most + i];
    }
    free(stops);
    return status;
}

static zest_status check_prompts(zest_lm *lm, const int32_t *ids, const size_t *starts, size_t prompts) {
    zest_status status = zest_lm_check(lm);
    if (status) return status;
    if (!lm->loaded.model->config.causal)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "a %s model fills masks, it does not continue text",
                              lm->loaded.model->config.family);
    if (!ids || !starts || !prompts)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT, "there is no prompt to continue");
    for (size_t p = 0; p < prompts && !status; p++)
        status =
            starts[p + 1] < starts[p]
                ? zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT, "prompt %zu ends before it begins", p)
                : zest_lm_check_ids(lm, ids + starts[p], starts[p + 1] - starts[p], "a prompt");
    return status;
}

zest_status zest_lm_generate_batch(zest_lm *lm, const int32_t *ids, const size_t *starts, size_t prompts,
                                   const zest_lm_generate_options *options, int32_t *new_ids,
                                   size_t *counts) {
    static const zest_lm_generate_options defaults = {0};
    zest_status status = check_prompts(lm, ids, starts, prompts);
    if (status) return status;
    status = zest_lm_need(lm->ctx, new_ids, "new_ids");
    if (!status) status = zest_lm_need(lm->ctx, counts, "counts");
    generation g = {.lm = lm, .options = options ? options : &defaults, .prompts = prompts};
    if (status) return status;
    size_t total = starts[prompts] - starts[0];
    g.max_tokens = g.options->max_tokens ? g.options->max_tokens : DEFAULT_TOKENS;
    g.most = lm->loaded.model->config.max_positions;
    if (g.most > g.max_tokens) g.most = g.max_tokens;
    uint32_t *tokens = malloc(total * sizeof *tokens), *at = malloc((prompts + 1) * sizeof *at);
    g.tokens = calloc(prompts, g.most * sizeof *g.tokens);
    g.counts = calloc(prompts, sizeof *g.counts);
    g.reported = calloc(prompts, sizeof *g.reported);
    if (!tokens || !at || !g.tokens || !g.counts || !g.reported || total > UINT32_MAX / 2)
        status = no_memory(lm, "the new tokens", prompts * g.most * sizeof *g.tokens);
    for (size_t i = 0; i < total && !status; i++) tokens[i] = (uint32_t)ids[starts[0] + i];
    for (size_t p = 0; p <= prompts && !status; p++) at[p] = (uint32_t)(starts[p] - starts[0]);
    zest_model_batch batch = {.tokens = tokens, .starts = at, .sequences = prompts};
    if (!status) status = run_generation(&g, &batch, new_ids, counts);
    free(tokens);
    free(at);
    free(g.tokens);
    free(g.counts);
    free(g.reported);
    return status;
}

zest_status zest_lm_generate(zest_lm *lm, const int32_t *prompt, size_t prompt_count,
                             const zest_lm_generate_options *options, int32_t *ids, size_t capacity,
                             size_t *count) {
    zest_lm_generate_options own = options ? *options : (zest_lm_generate_options){0};
    size_t starts[2] = {0, prompt_count};
    if (!lm || zest_lm_need(lm->ctx, ids, "ids") || zest_lm_need(lm->ctx, count, "count"))
        return ZEST_ERROR_ARGUMENT;
    if (!capacity)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT, "there is no room for a new token");
    if (!own.max_tokens) own.max_tokens = DEFAULT_TOKENS;
    if (own.max_tokens > capacity) own.max_tokens = capacity;
    return zest_lm_generate_batch(lm, prompt, starts, 1, &own, ids, count);
}
