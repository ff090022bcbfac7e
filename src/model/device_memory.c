/* The memory of forward passes, on the host or on a device: buffers for activations, how many lanes fit, the
 * copy of the weights and its updates, and the tables of a pass. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/forward_pass.h"
#include "model/scales.h"

zest_status zest_model_device_error(zest_model_runner *runner, zest_error *error) {
    if (!runner->device) return zest_error_memory(error, "an operation of the model", 0);
    return zest_device_take_error(runner->device, error);
}

/* ---- Memory ---- */

void *zest_model_alloc(zest_model_runner *runner, size_t bytes) {
    return runner->device ? runner->operations->device->allocate(runner->device, bytes)
                          : zest_memory_new(bytes);
}

void zest_model_dealloc(zest_model_runner *runner, void *data) {
    if (runner->device)
        runner->operations->device->release(runner->device, data);
    else
        free(data);
}

static zest_status reserve(zest_model_runner *runner, zest_model_buffer *buffer, size_t lanes,
                           size_t lane_size, size_t element_size, zest_error *error) {
    /* Every lane starts on a cache line; on a device, where matrix products like it. */
    const size_t alignment = runner->device ? 256 : 16;
    size_t stride = (lane_size + alignment - 1) / alignment * alignment, count = lanes * stride;
    buffer->lane_stride = stride;
    if (count <= buffer->count) return ZEST_OK;
    zest_model_dealloc(runner, buffer->data);
    *buffer = (zest_model_buffer){.lane_stride = stride};
    buffer->data = zest_model_alloc(runner, count * element_size);
    if (!buffer->data)
        return runner->device ? zest_model_device_error(runner, error)
                              : zest_error_memory(error, "activations", count * element_size);
    buffer->count = count;
    buffer->element_size = element_size;
    return ZEST_OK;
}

zest_status zest_model_buffer_reserve(zest_model_runner *runner, zest_model_buffer *buffer, size_t lanes,
                                      size_t lane_size, zest_error *error) {
    return reserve(runner, buffer, lanes, lane_size, zest_model_element_size(runner), error);
}

zest_status zest_model_buffer_reserve_f32(zest_model_runner *runner, zest_model_buffer *buffer, size_t lanes,
                                          size_t lane_size, zest_error *error) {
    return reserve(runner, buffer, lanes, lane_size, sizeof(float), error);
}

static size_t buffer_bytes(const zest_model_buffer *buffer) { return buffer->count * buffer->element_size; }

/* ---- Plans ---- */

/* Elements of a row: of a norm's output, and of what a layer needs at most (q, k, v and context; or the MLP). */
static size_t norm_width(const zest_model_config *config) {
    return zest_max_size(config->hidden_size, config->embedding_size);
}

static size_t work_width(const zest_model_config *config) {
    size_t q = config->heads * config->head_dim, qkv = q + 2 * config->kv_heads * config->head_dim;
    size_t widest = zest_max_size(zest_max_size(qkv, config->hidden_size) + q,
                                  config->ffn_size * (config->gated ? 2 : 1));
    return zest_max_size(widest, norm_width(config));
}

/* Packed operands of one operation: at most 32 MiB a lane and some for every thread (kernels/cpu/gemm.h). */
static size_t operand_bytes(const zest_model_config *config, size_t tokens) {
    size_t lane = tokens * zest_max_size(config->ffn_size, config->hidden_size) * sizeof(float),
           limit = (size_t)32 << 20;
    return 2 * (lane < limit ? lane : limit) + ((size_t)4 << 20);
}

zest_model_plan zest_model_plan_memory(const zest_model_config *config, size_t tokens, size_t live_pairs) {
    return (zest_model_plan){.hidden = 2 * live_pairs * tokens * config->hidden_size * sizeof(float),
                             .work = 2 * tokens * (norm_width(config) + work_width(config)) * sizeof(float),
                             .operands = operand_bytes(config, tokens)};
}

zest_status zest_model_alloc_activations(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    const zest_model_config *config = pass->config;
    size_t lanes = 2 * pass->group;
    zest_status status = zest_model_buffer_reserve(runner, &runner->norm_out, lanes,
                                                   pass->max_rows * norm_width(config), pass->error);
    if (!status)
        status = zest_model_buffer_reserve(runner, &runner->work, lanes, pass->max_rows * work_width(config),
                                           pass->error);
    if (!status && pass->request->batch->prefix_of) /* a device takes all lanes at once */
        status = zest_model_buffer_reserve(runner, &runner->prefix_kv, runner->device ? lanes : 1,
                                           pass->key_rows * 2 * pass->kv_width, pass->error);
    return status;
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Multiply-adds of a lane group in one product of hidden_size × hidden_size, for each multiprocessor, from
 * which on a GPU is busy: larger groups saved less than 2 % of a step on an H200 (bench/RESULTS.md). fp32 is
 * six products of bf16. */
static const double busy_multiply_adds = 1.2e8;
enum { F32_PRODUCTS = 6 };

size_t zest_model_choose_live(const zest_model_config *config, zest_compute compute, size_t multiprocessors,
                              size_t tokens, size_t pairs) {
    double each = (double)tokens * (double)config->hidden_size * (double)config->hidden_size;
    if (compute == ZEST_COMPUTE_F32) each *= F32_PRODUCTS;
    double wanted = ceil(busy_multiply_adds * (double)multiprocessors / each);
    size_t live = wanted < (double)pairs ? (size_t)wanted : pairs;
    if (!live) return 1;
    size_t rounds = (pairs + live - 1) / live; /* of about the same size */
    return (pairs + rounds - 1) / rounds;
}

/* Rows of the tables of types and positions that a device perturbs once for all tokens. */
static size_t perturbed_rows(const zest_model_config *config, size_t positions, size_t tokens) {
    if (!config->position_rows) positions = 0;
    return (zest_gather_perturbs_once(config->token_types, tokens) ? config->token_types : 0) +
           (zest_gather_perturbs_once(positions, tokens) ? positions : 0);
}

/* Bytes of the largest perturbed matrix, or of those rows, for two lanes; twice, since a device prepares the
 * next one while it multiplies. */
static size_t weight_bytes(const zest_model_runner *runner, size_t positions, size_t tokens) {
    const zest_model_config *config = &runner->model->config;
    size_t q = (config->heads + 2 * config->kv_heads) * config->head_dim,
           widest = zest_max_size(config->ffn_size, q);
    size_t matrix = widest * zest_model_element_size(runner),
           rows = perturbed_rows(config, positions, tokens) * sizeof(float);
    return 2 * 2 * config->hidden_size * zest_max_size(matrix, rows);
}

/* Bytes of a product and of its factors along the noise, in fp32 for two lanes, where noise has low rank
 * (kernels/cuda/linear_lowrank.cu). */
static size_t low_rank_bytes(const zest_model_runner *runner, size_t tokens) {
    const zest_model_config *config = &runner->model->config;
    size_t rank = zest_model_most_rank(runner->host_model),
           q = (config->heads + 2 * config->kv_heads) * config->head_dim;
    size_t widest = zest_max_size(zest_max_size(config->ffn_size, q), config->hidden_size);
    return rank ? 2 * tokens * (widest + rank) * sizeof(float) : 0;
}

/* Bytes that the activations of a group inside a layer may take; beyond, fewer pairs go together. Larger groups
 * gain a little: they are allowed next to small weights, and on devices with plenty of memory. */
static size_t group_budget(const zest_model_runner *runner) {
    const size_t mib = (size_t)1 << 20, smallest = 512 * mib, largest = 2048 * mib, total = 3072 * mib;
    size_t weights = runner->host_model->arena_size, rest = weights < total ? total - weights : 0;
    size_t capacity = runner->operations->device->capacity(runner->device);
    return zest_max_size(min_size(min_size(largest, rest), capacity / 16), smallest);
}

/* Pairs of a group, each of pair_bytes, when `live` are in memory. */
static size_t choose_group(size_t budget, size_t pair_bytes, size_t live) {
    size_t fit = budget / pair_bytes;
    size_t group = min_size(min_size(fit ? fit : 1, 1 + ZEST_PAIRS_MORE), live);
    size_t groups = (live + group - 1) / group; /* of about the same size */
    return (live + groups - 1) / groups;
}

/* Bytes of a pair. */
typedef struct {
    size_t hidden;   /* hidden states */
    size_t work;     /* activations inside a layer */
    size_t in_layer; /* work and perturbed weights */
} pair_memory;

static pair_memory pair_memory_of(const zest_model_runner *runner, size_t positions, size_t rows) {
    zest_model_plan plan = zest_model_plan_memory(&runner->model->config, rows, 1);
    size_t element = zest_model_element_size(runner), work = plan.work / sizeof(float) * element;
    return (pair_memory){plan.hidden / sizeof(float) * element, work,
                         work + weight_bytes(runner, positions, rows) + low_rank_bytes(runner, rows)};
}

zest_model_budget zest_model_runner_budget(zest_model_runner *runner, size_t tokens, size_t pairs) {
    const zest_model_config *config = &runner->model->config;
    size_t live = runner->live && runner->live < pairs ? runner->live : pairs;
    if (!runner->device) {
        zest_model_plan plan = zest_model_plan_memory(config, tokens, live),
                        all = zest_model_plan_memory(config, tokens, pairs);
        size_t weights = runner->host_model->arena_size;
        return (zest_model_budget){live, weights + plan.hidden + plan.work, weights + all.hidden + all.work};
    }
    if (!runner->live)
        live =
            zest_model_choose_live(config, runner->compute, runner->device->multiprocessors, tokens, pairs);
    pair_memory pair = pair_memory_of(runner, config->max_positions, tokens);
    size_t group = choose_group(group_budget(runner), pair.in_layer, live),
           all = choose_group(group_budget(runner), pair.in_layer, pairs);
    size_t allocated = runner->operations->device->bytes_allocated(runner->device, NULL);
    return (zest_model_budget){live, allocated + live * pair.hidden + group * pair.in_layer,
                               allocated + pairs * pair.hidden + all * pair.in_layer};
}

/* Whether the device has the memory now. */
static zest_status check_memory(const zest_forward_pass *pass, pair_memory pair) {
    const zest_model_runner *runner = pass->runner;
    const double mib = 1048576;
    size_t reserved =
        buffer_bytes(&runner->hidden) + buffer_bytes(&runner->norm_out) + buffer_bytes(&runner->work);
    if (pass->group * pair.work + pass->live * pair.hidden <= reserved) return ZEST_OK;
    size_t free_bytes = runner->operations->device->available(runner->device) + reserved;
    if (runner->device->error.status) return zest_device_take_error(runner->device, pass->error);
    size_t wanted = pass->group * pair.in_layer + pass->live * pair.hidden, one = pair.in_layer + pair.hidden;
    /* perturbed weights of the batch before are there already */
    size_t allocated = runner->operations->device->bytes_allocated(runner->device, NULL),
           others =
               allocated > runner->device_base + reserved ? allocated - runner->device_base - reserved : 0;
    if (wanted - min_size(others, pass->group * (pair.in_layer - pair.work)) <= free_bytes) return ZEST_OK;
    if (one <= free_bytes)
        return zest_error_set(pass->error, ZEST_ERROR_MEMORY,
                              "a batch of %zu tokens with %zu live pairs needs %.1f MiB of the device's "
                              "memory besides the weights, "
                              "and %.1f are free: --live 1 needs %.1f. zest does not choose fewer pairs by "
                              "itself, because losses "
                              "would have other last digits than with the memory free",
                              pass->max_rows, pass->live, (double)wanted / mib, (double)free_bytes / mib,
                              (double)one / mib);
    size_t row = (pair.work + pair.hidden) / pass->max_rows, weights = pair.in_layer - pair.work;
    size_t rows = free_bytes > weights ? (free_bytes - weights) / row : 0;
    return zest_error_set(
        pass->error, ZEST_ERROR_MEMORY,
        "a batch of %zu tokens needs %.1f MiB of the device's memory besides the weights, and %.1f "
        "are free: about %zu tokens would fit",
        pass->max_rows, (double)one / mib, (double)free_bytes / mib, rows);
}

/* Groups shrink first, then fewer pairs are live, until they fit into the device's capacity. What is free at the moment
 * decides nothing: the number of lanes in a GEMM can change the last digits of its result. */
zest_status zest_model_plan_groups(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    if (!runner->device) return ZEST_OK;
    if (!runner->live)
        pass->live = zest_model_choose_live(pass->config, runner->compute, runner->device->multiprocessors,
                                            pass->max_rows, pass->pair_count);
    pair_memory pair = pair_memory_of(runner, pass->end_position - pass->first_position, pass->max_rows);
    const zest_device_table *device = runner->operations->device;
    size_t capacity = device->capacity(runner->device),
           left = capacity > runner->device_base ? capacity - runner->device_base : 0;
    pass->group = choose_group(group_budget(runner), pair.in_layer, pass->live);
    while (pass->group > 1 && pass->group * pair.in_layer + pass->live * pair.hidden > left) pass->group--;
    while (pass->live > 1 && pair.in_layer + pass->live * pair.hidden > left) pass->live--;
    return check_memory(pass, pair);
}

/* ---- Weights ---- */

/* From an arena and its rows of inputs to their copies. */
typedef struct {
    const char *from;
    char *to;
    const float *inputs_from, *inputs_to;
} rebase_args;

static void rebase_law(zest_noise_law *law, const rebase_args *args) {
    if (law->inputs) law->inputs = args->inputs_to + (law->inputs - args->inputs_from);
}

static void rebase(zest_weight *weight, void *user) {
    const rebase_args *args = user;
    if (weight->data) weight->data = args->to + ((const char *)weight->data - args->from);
    rebase_law(&weight->law, args);
}

static void rebase_all(zest_model *model, rebase_args args) {
    zest_model_each_weight(model, rebase, &args);
    for (size_t i = 0; i < model->params.count; i++) {
        model->tensors[i].data = args.to + ((char *)model->tensors[i].data - args.from);
        rebase_law(&model->tensors[i].law, &args);
    }
}

/* The host's model in the device's memory. */
static void describe(zest_model_runner *runner) {
    const zest_model *host = runner->host_model;
    zest_model *copy = runner->device_model, kept = *copy;
    *copy = *host;
    copy->layers = kept.layers, copy->tensors = kept.tensors, copy->arena = kept.arena;
    memcpy(copy->layers, host->layers, host->config.layers * sizeof *copy->layers);
    memcpy(copy->tensors, host->params.tensors, host->params.count * sizeof *copy->tensors);
    copy->params.tensors = copy->tensors;
    rebase_all(copy, (rebase_args){host->arena, copy->arena, host->inputs, runner->inputs});
    runner->laws = host->law_changes;
}

zest_status zest_model_take_laws(zest_model_runner *runner, zest_error *error) {
    const zest_model *host = runner->host_model;
    if (!runner->device_model || runner->laws == host->law_changes) return ZEST_OK;
    const zest_device_table *device = runner->operations->device;
    const size_t bytes = host->inputs ? host->input_count * sizeof *host->inputs : 0;
    if (runner->inputs) device->release(runner->device, runner->inputs);
    runner->inputs = bytes ? device->allocate(runner->device, bytes) : NULL;
    if (bytes && (!runner->inputs || device->upload(runner->device, runner->inputs, host->inputs, bytes)))
        return zest_model_device_error(runner, error);
    describe(runner);
    return ZEST_OK;
}

zest_status zest_model_to_device(zest_model_runner *runner, zest_error *error) {
    const zest_model *host = runner->host_model;
    if (zest_model_refuse_quantized(host, "a device computes", error)) return ZEST_ERROR_ARGUMENT;
    runner->operations = runner->device->operations;
    runner->scratch.device = runner->device;
    const zest_device_table *device = runner->operations->device;
    zest_model *copy = runner->device_model = calloc(1, sizeof *copy);
    if (!copy) return zest_error_memory(error, "the model's description", sizeof *copy);
    copy->layers = malloc(host->config.layers * sizeof *copy->layers);
    copy->tensors = malloc(host->params.count * sizeof *copy->tensors);
    if (!copy->layers || !copy->tensors)
        return zest_error_memory(error, "the model's description",
                                 host->params.count * sizeof *copy->tensors);
    const size_t free_bytes = device->available(runner->device);
    if (runner->device->error.status) return zest_model_device_error(runner, error);
    if (host->arena_size > free_bytes)
        return zest_error_set(
            error, ZEST_ERROR_MEMORY,
            "the weights take %.1f MiB and the device has %.1f free: use 16-bit weights (--weights "
            "bf16), a smaller model, or --device cpu",
            (double)host->arena_size / 1048576, (double)free_bytes / 1048576);
    copy->arena = device->allocate(runner->device, host->arena_size);
    if (!copy->arena || device->upload(runner->device, copy->arena, host->arena, host->arena_size))
        return zest_model_device_error(runner, error);
    runner->laws = host->law_changes - 1;
    zest_status status = zest_model_take_laws(runner, error);
    runner->device_base = device->bytes_allocated(runner->device, NULL);
    runner->model = copy;
    return status;
}

/* The directions with a coefficient other than 0, which is the one that optim/step.c would use. */
static size_t list_terms(const zest_update *update, zest_update_term *terms) {
    size_t count = 0;
    for (size_t i = 0; i < update->k; i++) {
        const zest_direction *direction = &update->directions[i];
        if (update->g[i] == 0) continue;
        double c = -update->lr * update->g[i] * direction->gain;
        terms[count++] = (zest_update_term){.seed = direction->seed,
                                            .c = (float)c,
                                            .signs = direction->distribution == ZEST_RADEMACHER,
                                            .exact = c};
    }
    return count;
}

static zest_status update_on_device(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    const zest_device_table *device = runner->operations->device;
    zest_update_term *terms = malloc((update->k + 1) * sizeof *terms);
    if (!terms) return zest_error_memory(error, "directions", update->k * sizeof *terms);
    zest_status status = zest_model_take_laws(runner, error);
    if (status) {
        free(terms);
        return status;
    }
    size_t count = list_terms(update, terms);
    double keep = 1 - update->lr * update->decay;
    int failed = device->unstage(runner->device) ||
                 device->update(runner->device, &runner->model->params, terms, count,
                                keep != 1 ? (float)keep : 1.0f, update->rounding, update->nearest);
    free(terms);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

zest_status zest_model_apply_update(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    runner->changes++;
    if (runner->device) return update_on_device(runner, update, error);
    zest_status status = zest_model_refuse_quantized(runner->host_model, "weights are trained", error);
    if (status) return status;
    zest_update_apply(zest_vector_ops_for(runner->operations->cpu), runner->threads, &runner->model->params,
                      update);
    return ZEST_OK;
}

zest_status zest_model_download(zest_model_runner *runner, zest_error *error) {
    const zest_model *host = runner->host_model;
    if (!runner->device) return ZEST_OK;
    int failed = runner->operations->device->download(runner->device, host->arena,
                                                      runner->device_model->arena, host->arena_size);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

zest_status zest_model_upload(zest_model_runner *runner, zest_error *error) {
    runner->changes++;
    const zest_model *host = runner->host_model;
    if (!runner->device) return ZEST_OK;
    int failed = runner->operations->device->upload(runner->device, runner->device_model->arena, host->arena,
                                                    host->arena_size);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

/* ---- Tables ---- */

zest_status zest_model_stage(zest_model_runner *runner, const uint32_t *table, size_t count,
                             const uint32_t **out, zest_error *error) {
    *out = table;
    if (!runner->device || !table || !count) return ZEST_OK;
    *out = runner->operations->device->stage(runner->device, table, count * sizeof *table);
    return *out ? ZEST_OK : zest_model_device_error(runner, error);
}

void zest_model_list_key_sources(const zest_forward_pass *pass, uint32_t *sources) {
    const zest_model_batch *batch = pass->request->batch;
    for (size_t s = 0; s < batch->sequences; s++) {
        uint32_t *next = sources + pass->key_starts[s], prefix = batch->prefix_of[s];
        if (prefix != ZEST_MODEL_NO_PREFIX)
            for (uint32_t i = batch->starts[prefix]; i < batch->starts[prefix + 1]; i++) *next++ = i;
        for (uint32_t i = batch->starts[s]; i < batch->starts[s + 1]; i++) *next++ = i;
    }
}

static zest_status stage_key_sources(zest_forward_pass *pass) {
    uint32_t *sources = malloc(pass->key_rows * sizeof *sources);
    if (!sources) return zest_error_memory(pass->error, "keys", pass->key_rows * sizeof *sources);
    zest_model_list_key_sources(pass, sources);
    zest_status status =
        zest_model_stage(pass->runner, sources, pass->key_rows, &pass->at.key_sources, pass->error);
    free(sources);
    return status;
}

/* The rows of the cache for the new keys, and the range of keys of each sequence. */
static zest_status stage_cache(zest_forward_pass *pass) {
    const zest_model_cache *cache = pass->request->cache;
    const zest_model_batch *batch = pass->request->batch;
    size_t n = batch->sequences;
    uint32_t *targets = malloc((pass->rows + 2 * n) * sizeof *targets), *starts = targets + pass->rows,
             *ends = starts + n;
    if (!targets) return zest_error_memory(pass->error, "keys", pass->rows * sizeof *targets);
    for (size_t s = 0; s < n; s++) {
        size_t slot = cache->slots[s], first = batch->starts[s], count = batch->starts[s + 1] - first;
        starts[s] = (uint32_t)cache->slot_start[slot];
        ends[s] = (uint32_t)(cache->slot_start[slot] + cache->lengths[slot] + count);
        for (size_t i = 0; i < count; i++) targets[first + i] = (uint32_t)(ends[s] - count + i);
    }
    zest_status status =
        zest_model_stage(pass->runner, targets, pass->rows, &pass->at.key_targets, pass->error);
    if (!status) status = zest_model_stage(pass->runner, starts, n, &pass->at.key_starts, pass->error);
    if (!status) status = zest_model_stage(pass->runner, ends, n, &pass->at.key_ends, pass->error);
    free(targets);
    return status;
}

zest_status zest_model_stage_pass(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    const zest_forward_request *request = pass->request;
    const zest_model_batch *batch = request->batch;
    const struct {
        const uint32_t *table;
        size_t count;
        const uint32_t **at;
    } all[] = {{batch->tokens, pass->rows, &pass->at.tokens},
               {batch->starts, batch->sequences + 1, &pass->at.starts},
               {pass->positions, pass->rows, &pass->at.positions},
               {pass->table_rows, pass->rows, &pass->at.table_rows},
               {pass->types, pass->rows, &pass->at.types},
               {pass->key_starts, batch->sequences + 1, &pass->at.key_starts},
               {request->out_rows, request->out_row_count, &pass->at.rows},
               {pass->out_starts, batch->sequences + 1, &pass->at.out_starts},
               {pass->out_key_ends, batch->sequences, &pass->at.out_key_ends},
               {pass->out_positions, pass->out_rows, &pass->at.out_positions}};
    zest_status status = ZEST_OK;
    if (runner->device && runner->operations->device->unstage(runner->device))
        return zest_model_device_error(runner, pass->error);
    status = zest_model_take_laws(runner, pass->error);
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = zest_model_stage(runner, all[i].table, all[i].count, all[i].at, pass->error);
    if (!status && runner->device && batch->prefix_of) status = stage_key_sources(pass);
    if (!status && runner->device && request->cache) status = stage_cache(pass);
    return status;
}

/* ---- Back to the host ---- */

zest_status zest_model_read(zest_model_runner *runner, const void *from, size_t count, int fp32, float *out,
                            zest_error *error) {
    size_t element_size = fp32 ? sizeof(float) : zest_model_element_size(runner);
    uint16_t *halves = element_size == sizeof *halves ? malloc(count * sizeof *halves + 1) : NULL;
    if (element_size == sizeof *halves && !halves)
        return zest_error_memory(error, "a result", count * sizeof *halves);
    void *to = halves ? (void *)halves : out;
    zest_status status = ZEST_OK;
    if (runner->operations->device->download(runner->device, to, from, count * element_size))
        status = zest_model_device_error(runner, error);
    else if (halves)
        status = zest_dtype_to_float(runner->compute == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16,
                                     halves, count, out);
    free(halves);
    return status;
}
