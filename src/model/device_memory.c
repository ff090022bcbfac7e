/* Where the weights, activations and tables of a pass lie: in the host's memory, or in a device's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/forward_pass.h"

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

static zest_status room_of(zest_model_runner *runner, zest_model_buffer *room, size_t lanes, size_t each,
                           size_t cell, zest_error *error) {
    /* Every lane starts on a cache line; on a device, where matrix products like it. */
    const size_t unit = runner->device ? 256 : 16;
    size_t lane = (each + unit - 1) / unit * unit, count = lanes * lane;
    room->lane_stride = lane;
    if (count <= room->count) return ZEST_OK;
    zest_model_dealloc(runner, room->data);
    *room = (zest_model_buffer){.lane_stride = lane};
    room->data = zest_model_alloc(runner, count * cell);
    if (!room->data)
        return runner->device ? zest_model_device_error(runner, error)
                              : zest_error_memory(error, "activations", count * cell);
    room->count = count;
    room->element_size = cell;
    return ZEST_OK;
}

zest_status zest_model_buffer_reserve(zest_model_runner *runner, zest_model_buffer *room, size_t lanes,
                                      size_t each, zest_error *error) {
    return room_of(runner, room, lanes, each, zest_model_element_size(runner), error);
}

zest_status zest_model_buffer_reserve_f32(zest_model_runner *runner, zest_model_buffer *room, size_t lanes,
                                          size_t each, zest_error *error) {
    return room_of(runner, room, lanes, each, sizeof(float), error);
}

static size_t bytes_of(const zest_model_buffer *room) { return room->count * room->element_size; }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

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

/* Rows of the tables of types and positions that a device makes for the lanes. */
static size_t made_rows(const zest_model_config *config, size_t positions, size_t tokens) {
    if (!config->position_rows) positions = 0;
    return (zest_gather_makes(config->token_types, tokens) ? config->token_types : 0) +
           (zest_gather_makes(positions, tokens) ? positions : 0);
}

/* The largest matrix as two lanes see it, or those rows; twice: a device makes the next one while the one
 * before is multiplied. */
static size_t weight_bytes(const zest_model_runner *runner, size_t positions, size_t tokens) {
    const zest_model_config *config = &runner->model->config;
    size_t q = (config->heads + 2 * config->kv_heads) * config->head_dim,
           widest = zest_max_size(config->ffn_size, q);
    size_t matrix = widest * zest_model_element_size(runner),
           rows = made_rows(config, positions, tokens) * sizeof(float);
    return 2 * 2 * config->hidden_size * zest_max_size(matrix, rows);
}

/* What a group's way through a layer may take: beyond, fewer pairs go together. Larger groups gain a little;
 * beside small weights, and where there is plenty of memory, they may. */
static size_t group_budget(zest_model_runner *runner) {
    if (runner->group_budget) return runner->group_budget;
    const size_t mib = (size_t)1 << 20, least = 512 * mib, most = 2048 * mib, whole = 3072 * mib;
    size_t weights = runner->host_model->arena_size, beside = weights < whole ? whole - weights : 0;
    size_t room = runner->operations->device->available(runner->device);
    size_t budget = smaller(smaller(most, beside), room / 16);
    runner->group_budget = budget > least ? budget : least;
    return runner->group_budget;
}

/* Pairs of a group, of which each takes `each` bytes, when `live` are in memory. */
static size_t group_of(size_t budget, size_t each, size_t live) {
    size_t most = budget / each;
    size_t group = smaller(smaller(most ? most : 1, 1 + ZEST_PAIRS_MORE), live);
    size_t groups = (live + group - 1) / group; /* of about the same size */
    return (live + groups - 1) / groups;
}

/* Bytes of a pair: hidden states, and what a layer adds to them. */
typedef struct {
    size_t hidden, work, each; /* each: work and perturbed weights */
} pair_bytes;

static pair_bytes bytes_of_pair(const zest_model_runner *runner, size_t positions, size_t rows) {
    zest_model_plan plan = zest_model_plan_memory(&runner->model->config, rows, 1);
    size_t cell = zest_model_element_size(runner), work = plan.work / sizeof(float) * cell;
    return (pair_bytes){plan.hidden / sizeof(float) * cell, work,
                        work + weight_bytes(runner, positions, rows)};
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
    pair_bytes pair = bytes_of_pair(runner, config->max_positions, tokens);
    size_t group = group_of(group_budget(runner), pair.each, live),
           all = group_of(group_budget(runner), pair.each, pairs);
    size_t held = runner->operations->device->bytes_allocated(runner->device, NULL);
    return (zest_model_budget){live, held + live * pair.hidden + group * pair.each,
                               held + pairs * pair.hidden + all * pair.each};
}

zest_status zest_model_plan_groups(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    if (!runner->device) return ZEST_OK;
    if (!runner->live)
        pass->live = zest_model_choose_live(pass->config, runner->compute, runner->device->multiprocessors,
                                            pass->max_rows, pass->pair_count);
    pair_bytes pair = bytes_of_pair(runner, pass->end_position - pass->first_position, pass->max_rows);
    size_t had = bytes_of(&runner->hidden) + bytes_of(&runner->norm_out) + bytes_of(&runner->work);
    pass->group = group_of(group_budget(runner), pair.each, pass->live);
    if (pass->group * pair.work + pass->live * pair.hidden <= had) return ZEST_OK; /* as before */
    size_t room = runner->operations->device->available(runner->device) + had;
    while (pass->group > 1 && pass->group * pair.each + pass->live * pair.hidden > room) pass->group--;
    while (pass->live > 1 && pair.each + pass->live * pair.hidden > room) pass->live--;
    if (pair.each + pair.hidden <= room) return ZEST_OK;
    size_t row = (pair.work + pair.hidden) / pass->max_rows, weights = pair.each - pair.work;
    size_t rows = room > weights ? (room - weights) / row : 0;
    return zest_error_set(
        pass->error, ZEST_ERROR_MEMORY,
        "a batch of %zu tokens needs %.1f MiB of the device's memory beside the weights, and %.1f "
        "are free: about %zu tokens would fit",
        pass->max_rows, (double)(pair.each + pair.hidden) / 1048576, (double)room / 1048576, rows);
}

/* ---- Weights ---- */

/* From an arena to its copy. */
typedef struct {
    const char *from;
    char *to;
} move;

static void rebase(zest_weight *weight, void *user) {
    const move *m = user;
    if (weight->data) weight->data = m->to + ((const char *)weight->data - m->from);
}

static void rebase_all(zest_model *model, move m) {
    zest_model_each_weight(model, rebase, &m);
    for (size_t i = 0; i < model->params.count; i++)
        model->tensors[i].data = m.to + ((char *)model->tensors[i].data - m.from);
}

zest_status zest_model_to_device(zest_model_runner *runner, zest_error *error) {
    const zest_model *owner = runner->host_model;
    runner->operations = runner->device->operations;
    runner->scratch.device = runner->device;
    const zest_device_table *device = runner->operations->device;
    zest_model *placed = runner->device_model = malloc(sizeof *placed);
    if (!placed) return zest_error_memory(error, "the model's description", sizeof *placed);
    *placed = *owner;
    placed->layers = malloc(owner->config.layers * sizeof *placed->layers);
    placed->tensors = malloc(owner->params.count * sizeof *placed->tensors);
    if (!placed->layers || !placed->tensors)
        return zest_error_memory(error, "the model's description",
                                 owner->params.count * sizeof *placed->tensors);
    memcpy(placed->layers, owner->layers, owner->config.layers * sizeof *placed->layers);
    memcpy(placed->tensors, owner->params.tensors, owner->params.count * sizeof *placed->tensors);
    placed->params.tensors = placed->tensors;
    if (owner->arena_size > device->available(runner->device))
        return zest_error_set(
            error, ZEST_ERROR_MEMORY,
            "the weights take %.1f MiB and the device has %.1f free: use 16-bit weights (--weights "
            "bf16), a smaller model, or --device cpu",
            (double)owner->arena_size / 1048576, (double)device->available(runner->device) / 1048576);
    placed->arena = device->allocate(runner->device, owner->arena_size);
    if (!placed->arena || device->upload(runner->device, placed->arena, owner->arena, owner->arena_size))
        return zest_model_device_error(runner, error);
    rebase_all(placed, (move){owner->arena, placed->arena});
    runner->model = placed;
    return ZEST_OK;
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

static zest_status stage_parents(zest_forward_pass *pass) {
    uint32_t *sources = malloc(pass->key_rows * sizeof *sources);
    if (!sources) return zest_error_memory(pass->error, "keys", pass->key_rows * sizeof *sources);
    zest_model_list_key_sources(pass, sources);
    zest_status status =
        zest_model_stage(pass->runner, sources, pass->key_rows, &pass->at.key_sources, pass->error);
    free(sources);
    return status;
}

/* Where the new keys go in the cache, and from where to where a sequence's keys reach. */
static zest_status stage_cache(zest_forward_pass *pass) {
    const zest_model_cache *cache = pass->request->cache;
    const zest_model_batch *batch = pass->request->batch;
    size_t n = batch->sequences;
    uint32_t *targets = malloc((pass->rows + 2 * n) * sizeof *targets), *begins = targets + pass->rows,
             *ends = begins + n;
    if (!targets) return zest_error_memory(pass->error, "keys", pass->rows * sizeof *targets);
    for (size_t s = 0; s < n; s++) {
        size_t slot = cache->slots[s], first = batch->starts[s], count = batch->starts[s + 1] - first;
        begins[s] = (uint32_t)cache->slot_start[slot];
        ends[s] = (uint32_t)(cache->slot_start[slot] + cache->lengths[slot] + count);
        for (size_t i = 0; i < count; i++) targets[first + i] = (uint32_t)(ends[s] - count + i);
    }
    zest_status status =
        zest_model_stage(pass->runner, targets, pass->rows, &pass->at.key_targets, pass->error);
    if (!status) status = zest_model_stage(pass->runner, begins, n, &pass->at.key_starts, pass->error);
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
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = zest_model_stage(runner, all[i].table, all[i].count, all[i].at, pass->error);
    if (!status && runner->device && batch->prefix_of) status = stage_parents(pass);
    if (!status && runner->device && request->cache) status = stage_cache(pass);
    return status;
}

/* ---- Back to the host ---- */

zest_status zest_model_read(zest_model_runner *runner, const void *from, size_t count, int wide, float *out,
                            zest_error *error) {
    size_t cell = wide ? sizeof(float) : zest_model_element_size(runner);
    uint16_t *halves = cell == sizeof *halves ? malloc(count * sizeof *halves + 1) : NULL;
    if (cell == sizeof *halves && !halves)
        return zest_error_memory(error, "a result", count * sizeof *halves);
    void *to = halves ? (void *)halves : out;
    zest_status status = ZEST_OK;
    if (runner->operations->device->download(runner->device, to, from, count * cell))
        status = zest_model_device_error(runner, error);
    else if (halves)
        status = zest_dtype_to_float(runner->compute == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16,
                                     halves, count, out);
    free(halves);
    return status;
}
