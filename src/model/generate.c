/* Generation: one pass over the prompts, then one a token, with a KV cache. */
#include "model/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/forward_pass.h"

typedef struct {
    zest_model_runner *runner;
    const zest_model_lane *lane;
    const zest_generate_options *options;
    const zest_model_batch *prompts;
    zest_sampler *sampler;  /* NULL: the largest logit is taken */
    float *logits;          /* (rows, vocab_size), for the sampler */
    zest_model_cache cache; /* its memory is the kept one where there is that */
    size_t active;          /* sequences that have not ended */
    size_t *limits, *counts;
    uint32_t *out;
    uint32_t *slots, *tokens, *starts, *rows; /* of the active ones */
    zest_logit_best *choices;
    size_t row_count;
    zest_error *error;
} generate_ctx;

enum { BLOCK_LOGITS = 1 << 18 }; /* of all rows, on the CPU */

static zest_status choose_tokens(void *user, int lane, size_t first, size_t count, const float *logits,
                                 zest_error *error) {
    const generate_ctx *ctx = user;
    zest_model_runner *runner = ctx->runner;
    (void)lane;
    if (runner->device) {
        zest_logit_block block = {logits, ctx->row_count, first, count, NULL};
        int failed =
            runner->operations->device->best_logits(runner->device, &block, (void *)runner->results.data);
        return failed ? zest_model_device_error(runner, error) : ZEST_OK;
    }
    for (size_t r = 0; r < ctx->row_count; r++) {
        zest_logit_best *best = &ctx->choices[r];
        for (size_t i = 0; i < count; i++)
            if (logits[r * count + i] > best->logit)
                *best = (zest_logit_best){logits[r * count + i], (uint32_t)(first + i)};
    }
    return ZEST_OK;
}

/* Greedy choices need no more of the logits than the largest. */
static zest_status choose_largest(generate_ctx *ctx, const zest_group_output *group, zest_error *error) {
    zest_model_runner *runner = ctx->runner;
    const void *h[2];
    size_t bytes = group->rows * sizeof *ctx->choices;
    ctx->row_count = group->rows;
    for (size_t r = 0; r < group->rows; r++) ctx->choices[r] = (zest_logit_best){-INFINITY, 0};
    zest_status status = ZEST_OK;
    if (runner->device)
        status = zest_model_buffer_reserve_f32(runner, &runner->results, 1, bytes / sizeof(float), error);
    if (!status) status = zest_model_head_transform(runner, group, h, error);
    if (!status)
        status =
            zest_model_head_blocks(runner, group, h, BLOCK_LOGITS / group->rows, choose_tokens, ctx, error);
    if (!status && runner->device &&
        runner->operations->device->download(runner->device, ctx->choices, runner->results.data, bytes))
        status = zest_model_device_error(runner, error);
    return status;
}

/* The stream of a draw is the prompt's number, its position that of the token in the text. */
static void sample(generate_ctx *ctx, size_t row) {
    const zest_sampling *sampling = ctx->options->sampling;
    uint32_t slot = ctx->slots[row], first = ctx->prompts->starts[slot];
    zest_sampler_text text = {.prompt = ctx->prompts->tokens + first,
                              .prompt_count = ctx->prompts->starts[slot + 1] - first,
                              .new_tokens = ctx->out + slot * ctx->options->max_new_tokens,
                              .new_count = ctx->counts[slot]};
    double uniform =
        zest_sampling_uniform(sampling->seed, slot, (uint32_t)(text.prompt_count + text.new_count));
    size_t vocab_size = ctx->runner->model->config.vocab_size;
    ctx->choices[row].token =
        zest_sampler_pick(ctx->sampler, sampling, ctx->logits + row * vocab_size, &text, uniform);
}

static zest_status on_group(zest_model_runner *runner, const zest_group_output *group, void *user,
                            zest_error *error) {
    generate_ctx *ctx = user;
    if (!ctx->sampler) return choose_largest(ctx, group, error);
    zest_status status = zest_model_copy_logits(runner, group, ctx->logits, error);
    for (size_t r = 0; r < group->rows && !status; r++) sample(ctx, r);
    return status;
}

static int is_stop(const zest_generate_options *options, uint32_t token) {
    for (size_t i = 0; i < options->stop_count; i++)
        if (options->stops[i] == token) return 1;
    return 0;
}

/* One pass over the batch, a new token for each of its sequences; the unfinished ones become the next batch. */
static zest_status step(generate_ctx *ctx, const zest_model_batch *batch) {
    zest_forward_request request = {.lanes = ctx->lane,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .out_rows = ctx->rows,
                                    .out_row_count = ctx->active,
                                    .depth = ctx->runner->model->config.layers,
                                    .cache = &ctx->cache,
                                    .on_group = on_group,
                                    .user = ctx};
    for (size_t i = 0; i < ctx->active; i++) ctx->rows[i] = batch->starts[i + 1] - 1;
    zest_status status = zest_model_forward(ctx->runner, &request, ctx->error);
    if (status) return status;
    for (size_t i = 0; i < ctx->active; i++)
        ctx->cache.lengths[ctx->slots[i]] += batch->starts[i + 1] - batch->starts[i];
    size_t left = 0;
    for (size_t i = 0; i < ctx->active; i++) {
        uint32_t slot = ctx->slots[i], token = ctx->choices[i].token;
        ctx->out[slot * ctx->options->max_new_tokens + ctx->counts[slot]++] = token;
        if (is_stop(ctx->options, token) || ctx->counts[slot] == ctx->limits[slot]) continue;
        ctx->slots[left] = slot;
        ctx->tokens[left++] = token;
    }
    ctx->active = left;
    for (size_t i = 0; i <= left; i++) ctx->starts[i] = (uint32_t)i;
    return ZEST_OK;
}

/* ---- Kept keys and values ---- */

void zest_generate_kept_free(zest_generate_kept *kept, zest_model_runner *runner) {
    zest_model_dealloc(runner, kept->data);
    free(kept->tokens);
    *kept = (zest_generate_kept){0};
}

static zest_status no_cache(generate_ctx *ctx, size_t bytes) {
    return ctx->runner->device ? zest_model_device_error(ctx->runner, ctx->error)
                               : zest_error_memory(ctx->error, "keys and values", bytes);
}

static size_t cache_row_bytes(const generate_ctx *ctx) {
    const zest_model_config *config = &ctx->runner->model->config;
    return 2 * config->kv_heads * config->head_dim * zest_model_element_size(ctx->runner);
}

/* How many tokens of the prompt are there already; of the last one the logits are still to be computed. */
static size_t count_kept(const generate_ctx *ctx) {
    const zest_generate_kept *kept = ctx->options->kept;
    size_t length = ctx->prompts->starts[1], same = 0;
    if (kept->changes != ctx->runner->changes) return 0;
    while (same < kept->count && same + 1 < length && kept->tokens[same] == ctx->prompts->tokens[same])
        same++;
    return same;
}

/* Memory for ctx->cache.rows rows in every layer, the first `count` of which stay. On the CPU alone: a device starts
 * again. */
static zest_status grow_kept(generate_ctx *ctx, size_t count) {
    zest_generate_kept *kept = ctx->options->kept;
    const size_t bytes = cache_row_bytes(ctx), layers = ctx->runner->model->config.layers;
    const size_t rows = 2 * ctx->cache.rows;
    char *data = zest_model_alloc(ctx->runner, layers * rows * bytes);
    uint32_t *tokens = realloc(kept->tokens, rows * sizeof *tokens);
    if (tokens) kept->tokens = tokens;
    if (!data || !tokens) {
        zest_model_dealloc(ctx->runner, data);
        return no_cache(ctx, layers * rows * bytes);
    }
    for (size_t layer = 0; layer < layers && count; layer++)
        memcpy(data + layer * rows * bytes, (char *)kept->data + layer * kept->rows * bytes, count * bytes);
    zest_model_dealloc(ctx->runner, kept->data);
    kept->data = data;
    kept->rows = rows;
    return ZEST_OK;
}

static zest_status open_kept(generate_ctx *ctx) {
    zest_generate_kept *kept = ctx->options->kept;
    size_t count = count_kept(ctx);
    zest_status status = ZEST_OK;
    if (kept->rows < ctx->cache.rows) {
        if (ctx->runner->device) count = 0;
        status = grow_kept(ctx, count);
    }
    kept->count = status ? 0 : count;
    kept->changes = ctx->runner->changes;
    ctx->cache.data = kept->data;
    ctx->cache.rows = kept->rows;
    ctx->cache.lengths[0] = kept->count;
    return status;
}

/* What the cache holds now: the prompt and all new tokens but the last. After an error nothing. */
static void close_kept(generate_ctx *ctx, zest_status status) {
    zest_generate_kept *kept = ctx->options->kept;
    size_t length = ctx->prompts->starts[1];
    ctx->cache.data = NULL;
    kept->count = status ? 0 : ctx->cache.lengths[0];
    for (size_t i = 0; i < kept->count; i++)
        kept->tokens[i] = i < length ? ctx->prompts->tokens[i] : ctx->out[i - length];
}

/* ---- Memory ---- */

static zest_status alloc_sampler(generate_ctx *ctx, size_t rows) {
    size_t vocab_size = ctx->runner->model->config.vocab_size, bytes = vocab_size * sizeof *ctx->logits;
    if (!zest_sampling_needs_logits(ctx->options->sampling)) return ZEST_OK;
    ctx->sampler = zest_sampler_new(vocab_size, ctx->error);
    if (!ctx->sampler) return ctx->error->status;
    ctx->logits = calloc(rows, bytes);
    return ctx->logits ? ZEST_OK : zest_error_memory(ctx->error, "logits", rows * bytes);
}

static zest_status alloc(generate_ctx *ctx, const zest_model_batch *prompts) {
    const zest_model_config *config = &ctx->runner->model->config;
    size_t n = prompts->sequences;
    ctx->limits = calloc(n, sizeof *ctx->limits);
    ctx->slots = calloc(n, sizeof *ctx->slots);
    ctx->tokens = calloc(n, sizeof *ctx->tokens);
    ctx->rows = calloc(n, sizeof *ctx->rows);
    ctx->starts = calloc(n + 1, sizeof *ctx->starts);
    ctx->choices = calloc(n, sizeof *ctx->choices);
    ctx->cache.slot_start = calloc(n, sizeof *ctx->cache.slot_start);
    ctx->cache.lengths = calloc(n, sizeof *ctx->cache.lengths);
    if (!ctx->limits || !ctx->slots || !ctx->tokens || !ctx->rows || !ctx->starts || !ctx->choices ||
        !ctx->cache.slot_start || !ctx->cache.lengths)
        return zest_error_memory(ctx->error, "generation", n * sizeof *ctx->choices);
    for (size_t s = 0; s < n; s++) {
        if (prompts->starts[s + 1] <= prompts->starts[s] ||
            prompts->starts[s + 1] - prompts->starts[s] > config->max_positions)
            return zest_error_set(ctx->error, ZEST_ERROR_ARGUMENT,
                                  "prompt %zu is empty or longer than %zu tokens", s, config->max_positions);
        size_t length = prompts->starts[s + 1] - prompts->starts[s], left = config->max_positions - length;
        ctx->limits[s] = ctx->options->max_new_tokens < left ? ctx->options->max_new_tokens : left;
        ctx->cache.slot_start[s] = ctx->cache.rows;
        ctx->cache.rows += length + ctx->limits[s];
        ctx->counts[s] = 0;
    }
    zest_status status = alloc_sampler(ctx, n);
    if (status) return status;
    if (ctx->options->kept) return open_kept(ctx);
    size_t bytes = config->layers * ctx->cache.rows * cache_row_bytes(ctx);
    ctx->cache.data = zest_model_alloc(ctx->runner, bytes);
    return ctx->cache.data ? ZEST_OK : no_cache(ctx, bytes);
}

/* The prompts, as far as the cache does not have them, without those that are as long as the model allows. */
static zest_status start(generate_ctx *ctx, const zest_model_batch *prompts) {
    uint32_t *tokens = malloc((prompts->starts[prompts->sequences] + 1) * sizeof *tokens);
    if (!tokens) return zest_error_memory(ctx->error, "prompts", 0);
    uint32_t count = 0;
    for (size_t s = 0; s < prompts->sequences; s++) {
        if (!ctx->limits[s]) continue;
        ctx->slots[ctx->active] = (uint32_t)s;
        for (size_t i = prompts->starts[s] + ctx->cache.lengths[s]; i < prompts->starts[s + 1]; i++)
            tokens[count++] = prompts->tokens[i];
        ctx->starts[++ctx->active] = count;
    }
    ctx->cache.slots = ctx->slots;
    zest_model_batch batch = {.tokens = tokens, .starts = ctx->starts, .sequences = ctx->active};
    zest_status status = ctx->active ? step(ctx, &batch) : ZEST_OK;
    free(tokens);
    return status;
}

zest_status zest_generate(zest_model_runner *runner, const zest_model_lane *lane,
                          const zest_model_batch *prompts, const zest_generate_options *options,
                          uint32_t *tokens, size_t *counts, zest_error *error) {
    static const zest_model_lane unperturbed = {{0, 0, 0, ZEST_GAUSSIAN}, 0};
    if (!runner->model->config.causal || prompts->prefix_of || !prompts->sequences || prompts->starts[0])
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "generation needs a causal model and a batch of prompts without shared prefixes");
    if (options->kept && (prompts->sequences != 1 || (lane && lane->scale != 0)))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "keys and values are kept of a single prompt to the model itself");
    generate_ctx ctx = {.runner = runner,
                        .lane = lane ? lane : &unperturbed,
                        .options = options,
                        .prompts = prompts,
                        .counts = counts,
                        .out = tokens,
                        .error = error};
    zest_status status = alloc(&ctx, prompts);
    if (!status) status = start(&ctx, prompts);
    for (size_t new_tokens = 1; !status && ctx.active; new_tokens++) {
        zest_progress_call(options->progress, new_tokens, options->max_new_tokens);
        if (options->stop && *options->stop) break;
        zest_model_batch batch = {.tokens = ctx.tokens, .starts = ctx.starts, .sequences = ctx.active};
        status = step(&ctx, &batch);
    }
    if (options->kept && ctx.cache.data) close_kept(&ctx, status);
    free(ctx.limits);
    free(ctx.slots);
    free(ctx.tokens);
    free(ctx.rows);
    free(ctx.starts);
    free(ctx.choices);
    free(ctx.logits);
    zest_sampler_free(ctx.sampler);
    free(ctx.cache.slot_start);
    free(ctx.cache.lengths);
    zest_model_dealloc(runner, ctx.cache.data);
    return status;
}
