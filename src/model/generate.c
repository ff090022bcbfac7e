#include "model/generate.h"

#include <math.h>
#include <stdlib.h>

#include "model/forward_pass.h"

typedef struct {
    zest_model_runner *runner;
    const zest_model_lane *lane;
    const zest_generate_options *options;
    zest_model_cache cache;
    size_t active; /* sequences that go on */
    size_t *limits, *counts;
    uint32_t *out;
    uint32_t *slots, *tokens, *starts, *rows; /* of the active ones */
    zest_logit_best *choices;
    size_t row_count;
    zest_error *error;
} generating;

static zest_status choose(void *user, int lane, size_t first, size_t count, const float *logits,
                          zest_error *error) {
    const generating *job = user;
    zest_model_runner *runner = job->runner;
    (void)lane;
    if (runner->device) {
        zest_logit_block block = {logits, job->row_count, first, count, NULL};
        int failed =
            runner->operations->device->best_logits(runner->device, &block, (void *)runner->results.data);
        return failed ? zest_model_device_error(runner, error) : ZEST_OK;
    }
    for (size_t r = 0; r < job->row_count; r++) {
        zest_logit_best *best = &job->choices[r];
        for (size_t i = 0; i < count; i++)
            if (logits[r * count + i] > best->logit)
                *best = (zest_logit_best){logits[r * count + i], (uint32_t)(first + i)};
    }
    return ZEST_OK;
}

static zest_status visit(zest_model_runner *runner, const zest_group_output *unit, void *user,
                         zest_error *error) {
    generating *job = user;
    const void *h[2];
    size_t bytes = unit->rows * sizeof *job->choices;
    job->row_count = unit->rows;
    for (size_t r = 0; r < unit->rows; r++) job->choices[r] = (zest_logit_best){-INFINITY, 0};
    zest_status status = ZEST_OK;
    if (runner->device)
        status = zest_model_buffer_reserve_f32(runner, &runner->results, 1, bytes / sizeof(float), error);
    if (!status) status = zest_model_head_transform(runner, unit, h, error);
    if (!status) status = zest_model_head_blocks(runner, unit, h, choose, job, error);
    if (!status && runner->device &&
        runner->operations->device->download(runner->device, job->choices, runner->results.data, bytes))
        status = zest_model_device_error(runner, error);
    return status;
}

static int is_stop(const zest_generate_options *options, uint32_t token) {
    for (size_t i = 0; i < options->stop_count; i++)
        if (options->stops[i] == token) return 1;
    return 0;
}

/* One pass over the batch, a new token for each of its sequences; the unfinished ones become the next batch.
 */
static zest_status step(generating *job, const zest_model_batch *batch) {
    zest_forward_request request = {.lanes = job->lane,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .out_rows = job->rows,
                                    .out_row_count = job->active,
                                    .depth = job->runner->model->config.layers,
                                    .cache = &job->cache,
                                    .on_group = visit,
                                    .user = job};
    for (size_t i = 0; i < job->active; i++) job->rows[i] = batch->starts[i + 1] - 1;
    zest_status status = zest_model_forward(job->runner, &request, job->error);
    if (status) return status;
    for (size_t i = 0; i < job->active; i++)
        job->cache.lengths[job->slots[i]] += batch->starts[i + 1] - batch->starts[i];
    size_t left = 0;
    for (size_t i = 0; i < job->active; i++) {
        uint32_t slot = job->slots[i], token = job->choices[i].token;
        job->out[slot * job->options->most + job->counts[slot]++] = token;
        if (is_stop(job->options, token) || job->counts[slot] == job->limits[slot]) continue;
        job->slots[left] = slot;
        job->tokens[left++] = token;
    }
    job->active = left;
    for (size_t i = 0; i <= left; i++) job->starts[i] = (uint32_t)i;
    return ZEST_OK;
}

static zest_status make_room(generating *job, const zest_model_batch *prompts) {
    const zest_model_config *config = &job->runner->model->config;
    size_t n = prompts->sequences;
    job->limits = calloc(n, sizeof *job->limits);
    job->slots = calloc(n, sizeof *job->slots);
    job->tokens = calloc(n, sizeof *job->tokens);
    job->rows = calloc(n, sizeof *job->rows);
    job->starts = calloc(n + 1, sizeof *job->starts);
    job->choices = calloc(n, sizeof *job->choices);
    job->cache.slot_start = calloc(n, sizeof *job->cache.slot_start);
    job->cache.lengths = calloc(n, sizeof *job->cache.lengths);
    if (!job->limits || !job->slots || !job->tokens || !job->rows || !job->starts || !job->choices ||
        !job->cache.slot_start || !job->cache.lengths)
        return zest_error_memory(job->error, "generation", n * sizeof *job->choices);
    for (size_t s = 0; s < n; s++) {
        if (prompts->starts[s + 1] <= prompts->starts[s] ||
            prompts->starts[s + 1] - prompts->starts[s] > config->max_positions)
            return zest_error_set(job->error, ZEST_ERROR_ARGUMENT,
                                  "prompt %zu is empty or longer than %zu tokens", s, config->max_positions);
        size_t length = prompts->starts[s + 1] - prompts->starts[s], left = config->max_positions - length;
        job->limits[s] = job->options->most < left ? job->options->most : left;
        job->cache.slot_start[s] = job->cache.rows;
        job->cache.rows += length + job->limits[s];
        job->counts[s] = 0;
    }
    size_t bytes = config->layers * job->cache.rows * 2 * config->kv_heads * config->head_dim *
                   zest_model_element_size(job->runner);
    job->cache.data = zest_model_alloc(job->runner, bytes);
    if (job->cache.data) return ZEST_OK;
    return job->runner->device ? zest_model_device_error(job->runner, job->error)
                               : zest_error_memory(job->error, "keys and values", bytes);
}

/* The prompts, less those that have no room for a further token. */
static zest_status start(generating *job, const zest_model_batch *prompts) {
    uint32_t *tokens = malloc((prompts->starts[prompts->sequences] + 1) * sizeof *tokens);
    if (!tokens) return zest_error_memory(job->error, "prompts", 0);
    uint32_t count = 0;
    for (size_t s = 0; s < prompts->sequences; s++) {
        if (!job->limits[s]) continue;
        job->slots[job->active] = (uint32_t)s;
        for (size_t i = prompts->starts[s]; i < prompts->starts[s + 1]; i++)
            tokens[count++] = prompts->tokens[i];
        job->starts[++job->active] = count;
    }
    job->cache.slots = job->slots;
    zest_model_batch batch = {.tokens = tokens, .starts = job->starts, .sequences = job->active};
    zest_status status = job->active ? step(job, &batch) : ZEST_OK;
    free(tokens);
    return status;
}

zest_status zest_generate_greedy(zest_model_runner *runner, const zest_model_lane *lane,
                                 const zest_model_batch *prompts, const zest_generate_options *options,
                                 uint32_t *tokens, size_t *counts, zest_error *error) {
    static const zest_model_lane itself = {{0, 0, 0, ZEST_GAUSSIAN}, 0};
    if (!runner->model->config.causal || prompts->prefix_of || !prompts->sequences || prompts->starts[0])
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "generation needs a causal model and a batch of prompts without parents");
    generating job = {.runner = runner,
                      .lane = lane ? lane : &itself,
                      .options = options,
                      .counts = counts,
                      .out = tokens,
                      .error = error};
    zest_status status = make_room(&job, prompts);
    if (!status) status = start(&job, prompts);
    for (size_t made = 1; !status && job.active; made++) {
        zest_progress_call(options->progress, made, options->most);
        if (options->stop && *options->stop) break;
        zest_model_batch batch = {.tokens = job.tokens, .starts = job.starts, .sequences = job.active};
        status = step(&job, &batch);
    }
    free(job.limits);
    free(job.slots);
    free(job.tokens);
    free(job.rows);
    free(job.starts);
    free(job.choices);
    free(job.cache.slot_start);
    free(job.cache.lengths);
    zest_model_dealloc(runner, job.cache.data);
    return status;
}
