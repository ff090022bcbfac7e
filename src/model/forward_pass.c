/* Prepares a forward pass (checks the batch, fills the tables that its rows need), forms groups of lanes and
 * takes them through the transformer. Runners own the memory of passes. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "model/forward_pass.h"

/* ---- Checks ---- */

static zest_status refuse(zest_error *error, const char *why, size_t sequence) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "sequence %zu of the batch %s", sequence, why);
}

/* Tokens before a sequence's own: those of its prefix, or of the cache. */
static size_t tokens_before(const zest_forward_request *request, size_t s) {
    const zest_model_batch *batch = request->batch;
    if (request->cache) return request->cache->lengths[request->cache->slots[s]];
    if (!batch->prefix_of || batch->prefix_of[s] == ZEST_MODEL_NO_PREFIX) return 0;
    return batch->starts[batch->prefix_of[s] + 1] - batch->starts[batch->prefix_of[s]];
}

static zest_status check_sequence(const zest_model_config *config, const zest_forward_request *request,
                                  size_t s, zest_error *error) {
    const zest_model_batch *batch = request->batch;
    if (batch->starts[s + 1] <= batch->starts[s]) return refuse(error, "is empty", s);
    uint32_t prefix = batch->prefix_of ? batch->prefix_of[s] : ZEST_MODEL_NO_PREFIX;
    if (prefix != ZEST_MODEL_NO_PREFIX) {
        if (!config->causal) return refuse(error, "continues another, which only a causal model can", s);
        if (prefix >= s || batch->prefix_of[prefix] != ZEST_MODEL_NO_PREFIX)
            return refuse(error, "has a prefix that does not come before it, or that has one itself", s);
    }
    size_t length = tokens_before(request, s) + batch->starts[s + 1] - batch->starts[s];
    if (length > config->max_positions)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "sequence %zu of the batch has %zu tokens; the model takes at most %zu", s,
                              length, config->max_positions);
    for (size_t i = batch->starts[s]; i < batch->starts[s + 1]; i++) {
        if (batch->tokens[i] >= config->vocab_size)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "token %u is outside the vocabulary of %zu",
                                  (unsigned)batch->tokens[i], config->vocab_size);
        if (batch->types && config->token_types && batch->types[i] >= config->token_types)
            return refuse(error, "has a token type that the model lacks", s);
    }
    return ZEST_OK;
}

static zest_status check_batch(const zest_model_config *config, const zest_forward_request *request,
                               zest_error *error) {
    const zest_model_batch *batch = request->batch;
    if (!request->lane_count || !batch->sequences || batch->starts[0] != 0)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a forward pass needs a lane and a batch that starts at 0");
    zest_status status = ZEST_OK;
    for (size_t s = 0; s < batch->sequences && !status; s++)
        status = check_sequence(config, request, s, error);
    for (size_t i = 0; request->out_rows && i < request->out_row_count && !status; i++)
        if (request->out_rows[i] >= batch->starts[batch->sequences])
            status = zest_error_set(
                error, ZEST_ERROR_ARGUMENT, "output row %u is out of range (%u rows in the batch)",
                (unsigned)request->out_rows[i], (unsigned)batch->starts[batch->sequences]);
    return status;
}

/* ---- Tables ---- */

/* Fills tables of cosines and sines up to `positions`. The angle is rounded to float, as in training. */
static zest_status fill_angles(zest_model_runner *runner, size_t which, size_t positions, zest_error *error) {
    const zest_model_config *config = &runner->model->config;
    const float *frequencies = runner->model->rotary[which];
    zest_model_buffer *all_cosines = &runner->cosines[which], *all_sines = &runner->sines[which];
    size_t half = zest_model_rotary_dim(config) / 2, count = positions * half;
    zest_status status = zest_model_buffer_reserve_f32(runner, all_cosines, 1, count, error);
    if (!status) status = zest_model_buffer_reserve_f32(runner, all_sines, 1, count, error);
    float *tables = runner->device && !status ? malloc(2 * count * sizeof *tables) : NULL;
    if (!status && runner->device && !tables)
        status = zest_error_memory(error, "angles", 2 * count * sizeof *tables);
    if (status) return status;
    float *cosines = tables ? tables : all_cosines->data, *sines = tables ? tables + count : all_sines->data;
    const float length = (float)(which ? config->local_rope.length : config->rope.length);
    for (size_t p = 0; p < positions; p++)
        for (size_t i = 0; i < half; i++) {
            float angle = (float)p * frequencies[i];
            cosines[p * half + i] = (float)cos((double)angle) * length;
            sines[p * half + i] = (float)sin((double)angle) * length;
        }
    if (tables) {
        const zest_device_table *device = runner->operations->device;
        if (device->upload(runner->device, all_cosines->data, cosines, count * sizeof *tables) ||
            device->upload(runner->device, all_sines->data, sines, count * sizeof *tables))
            status = zest_model_device_error(runner, error);
        free(tables);
    }
    return status;
}

static zest_status reserve_angles(zest_model_runner *runner, size_t positions, zest_error *error) {
    zest_status status = ZEST_OK;
    if (runner->model->config.position_rows || positions <= runner->angles) return ZEST_OK;
    runner->angles = 0;
    for (size_t i = 0; i < 2 && !status; i++)
        if (runner->model->rotary[i]) status = fill_angles(runner, i, positions, error);
    if (!status) runner->angles = positions;
    return status;
}

/* The output rows of sequence s, from number `first` of them on. Returns their end, or SIZE_MAX where attention
 * cannot take them as the queries of the sequence: in a causal model each must see one key more than the one
 * before. */
static size_t index_out_rows_of(zest_forward_pass *pass, size_t s, size_t first) {
    const uint32_t *rows = pass->request->out_rows, *starts = pass->request->batch->starts;
    int causal = pass->config->causal;
    size_t r = first;
    for (; r < pass->out_rows && rows[r] >= starts[s] && rows[r] < starts[s + 1]; r++) {
        if (causal && r > first && rows[r] != rows[r - 1] + 1) return SIZE_MAX;
        pass->out_positions[r] = pass->positions[rows[r]];
    }
    pass->out_starts[s] = (uint32_t)first;
    pass->out_key_ends[s] = !causal ? starts[s + 1] : r > first ? rows[r - 1] + 1 : starts[s];
    pass->out_longest = zest_max_size(pass->out_longest, r - first);
    return r;
}

/* They can be when they come in the order of their sequences, and keys are where the rows left them. A fused
 * matrix gives all queries anyway; and where a window reaches to both sides, attention must know where a query
 * stands. */
void zest_forward_index_out_rows(zest_forward_pass *pass) {
    const zest_model_batch *batch = pass->request->batch;
    if (!pass->request->out_rows || pass->request->cache || batch->prefix_of || pass->config->fused_qkv)
        return;
    if (!pass->config->causal && zest_forward_window(pass, pass->config->layers - 1)) return;
    pass->out_starts = pass->key_starts + batch->sequences + 1;
    pass->out_key_ends = pass->out_starts + batch->sequences + 1;
    pass->out_positions = pass->out_key_ends + batch->sequences;
    size_t r = 0;
    for (size_t s = 0; s < batch->sequences && r != SIZE_MAX; s++) r = index_out_rows_of(pass, s, r);
    pass->out_starts[batch->sequences] = (uint32_t)r;
    if (r != pass->out_rows) pass->out_starts = pass->out_key_ends = pass->out_positions = NULL;
}

static zest_status alloc_tables(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    size_t sequences = pass->request->batch->sequences;
    size_t need = 3 * pass->rows + 3 * sequences + 2 + (pass->request->out_rows ? pass->out_rows : 0);
    if (need > runner->rows_count) {
        free(runner->rows);
        runner->rows = malloc(need * sizeof *runner->rows);
        runner->rows_count = runner->rows ? need : 0;
        if (!runner->rows) return zest_error_memory(pass->error, "positions", need * sizeof *runner->rows);
    }
    pass->positions = runner->rows;
    pass->table_rows = pass->positions + pass->rows;
    pass->types = pass->table_rows + pass->rows;
    pass->key_starts = pass->types + pass->rows;
    return ZEST_OK;
}

/* Positions, rows of the position table, token types and offsets of the keys. */
static zest_status fill_tables(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    const zest_model_batch *batch = pass->request->batch;
    zest_status status = alloc_tables(pass);
    if (status) return status;
    pass->first_position = SIZE_MAX;
    for (size_t s = 0; s < batch->sequences; s++) {
        size_t past = tokens_before(pass->request, s), count = batch->starts[s + 1] - batch->starts[s];
        pass->key_starts[s] = (uint32_t)pass->key_rows;
        pass->key_rows += past + count;
        if (past < pass->first_position) pass->first_position = past;
        if (past + count > pass->end_position) pass->end_position = past + count;
        if (count > pass->longest) pass->longest = count;
        for (size_t i = 0; i < count; i++) {
            size_t row = batch->starts[s] + i;
            pass->positions[row] = (uint32_t)(past + i);
            pass->table_rows[row] = (uint32_t)(past + i + pass->config->position_offset);
            pass->types[row] = batch->types ? batch->types[row] : 0;
        }
    }
    pass->key_starts[batch->sequences] = (uint32_t)pass->key_rows;
    if (pass->key_rows > UINT32_MAX)
        return zest_error_set(pass->error, ZEST_ERROR_ARGUMENT, "the batch is too large");
    return reserve_angles(runner, pass->end_position, pass->error);
}

zest_status zest_forward_prepare(zest_model_runner *runner, const zest_forward_request *request,
                                 zest_forward_pass *pass, zest_error *error) {
    const zest_model_config *config = &runner->model->config;
    zest_status status = check_batch(config, request, error);
    for (size_t i = 0; i < request->lane_count && !status; i++)
        if (request->lanes[i].scale != 0)
            status = zest_model_refuse_quantized(runner->host_model, "weights are perturbed", error);
    if (status) return status;
    *pass = (zest_forward_pass){.runner = runner, .request = request, .config = config, .error = error};
    pass->rows = request->batch->starts[request->batch->sequences];
    pass->out_rows = request->out_rows ? request->out_row_count : pass->rows;
    pass->max_rows = zest_max_size(pass->rows, pass->out_rows);
    pass->q_width = config->heads * config->head_dim;
    pass->kv_width = config->kv_heads * config->head_dim;
    pass->qkv_stride = pass->q_width + 2 * pass->kv_width;
    pass->span = zest_max_size(pass->qkv_stride, config->hidden_size);
    return fill_tables(pass);
}

/* ---- Lanes ---- */

/* The lanes from `first` on that go together: two with opposite scales along one direction, or one. */
static zest_lane_group pair_of(const zest_forward_request *request, size_t first) {
    const zest_model_lane *lane = &request->lanes[first];
    zest_lane_group out = {.first = first, .perturbation = {.seed = lane->direction.seed, .lanes = 1}};
    out.perturbation.signs = lane->direction.distribution == ZEST_RADEMACHER;
    out.perturbation.scale[0] = (float)(lane->scale * lane->direction.gain);
    if (first + 1 == request->lane_count || request->cache) return out;
    const zest_model_lane *next = lane + 1;
    int opposite = next->direction.seed == lane->direction.seed &&
                   next->direction.distribution == lane->direction.distribution &&
                   next->direction.gain == lane->direction.gain && next->scale == -lane->scale;
    if (!opposite) return out;
    out.perturbation.scale[1] = -out.perturbation.scale[0];
    out.perturbation.lanes = 2;
    return out;
}

zest_status zest_forward_groups(zest_forward_pass *pass, zest_lane_group *groups, size_t count) {
    zest_status status = ZEST_OK;
    size_t rows = pass->rows;
    for (size_t i = 0; i < count && !status; i++) status = zest_model_embed(pass, &groups[i]);
    for (size_t layer = 0; layer < pass->request->depth; layer++)
        for (size_t i = 0; i < count && !status; i++)
            status = zest_model_forward_layer(pass, layer, &groups[i], &rows);
    for (size_t i = 0; i < count && !status; i++) status = zest_model_finish(pass, &groups[i]);
    return status;
}

/* Whether two pairs can go through an operation together. */
static int can_group(const zest_perturbation *a, const zest_perturbation *b) {
    return a->lanes == 2 && b->lanes == 2 && a->signs == b->signs && a->scale[0] != 0 && b->scale[0] != 0;
}

/* Puts neighbours together. perturbations: of all pairs; groups point into them. */
static size_t form_groups(const zest_forward_pass *pass, zest_lane_group *pairs, size_t count,
                          const zest_perturbation *perturbations) {
    size_t groups = 0;
    for (size_t i = 0; i < count; groups++) {
        size_t size = 1;
        while (size < pass->group && i + size < count &&
               can_group(&perturbations[i], &perturbations[i + size]))
            size++;
        pairs[groups] = pairs[i];
        pairs[groups].perturbation.more = size > 1 ? &perturbations[i + 1] : NULL;
        pairs[groups].perturbation.more_count = size - 1;
        i += size;
    }
    return groups;
}

/* As many pairs as are live. */
static zest_status pass_live(zest_forward_pass *pass, zest_lane_group *pairs, size_t count,
                             const zest_perturbation *perturbations) {
    zest_model_runner *runner = pass->runner;
    size_t lane_size = pass->max_rows * pass->config->hidden_size;
    void *next = runner->hidden.data;
    for (zest_lane_group *lane = pairs; lane < pairs + count; lane++) {
        lane->x[0] = next;
        lane->x[1] = lane->perturbation.lanes == 2 ? zest_model_offset(runner, next, lane_size) : next;
        next = zest_model_offset(runner, next, lane_size * (size_t)lane->perturbation.lanes);
    }
    return zest_forward_groups(pass, pairs, form_groups(pass, pairs, count, perturbations));
}

static zest_status pass_lanes(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    size_t lanes = pass->request->lane_count, lane_size = pass->max_rows * pass->config->hidden_size;
    size_t live = 2 * pass->live < lanes ? 2 * pass->live : lanes, count = pass->pair_count;
    zest_perturbation *perturbations = malloc(count * sizeof *perturbations);
    if (!perturbations) return zest_error_memory(pass->error, "lanes", count * sizeof *perturbations);
    for (size_t i = 0; i < count; i++) perturbations[i] = pass->pairs[i].perturbation;
    zest_status status = zest_model_buffer_reserve(runner, &runner->hidden, 1, live * lane_size, pass->error);
    for (size_t first = 0; first < count && !status; first += pass->live) {
        size_t here = count - first < pass->live ? count - first : pass->live;
        status = pass_live(pass, pass->pairs + first, here, perturbations + first);
    }
    free(perturbations);
    return status;
}

static zest_status list_pairs(zest_forward_pass *pass) {
    const zest_forward_request *request = pass->request;
    zest_lane_group *pairs = pass->pairs = malloc(request->lane_count * sizeof *pairs);
    if (!pairs) return zest_error_memory(pass->error, "lanes", request->lane_count * sizeof *pairs);
    size_t count = 0;
    for (size_t i = 0; i < request->lane_count; i += (size_t)pairs[count++].perturbation.lanes)
        pairs[count] = pair_of(request, i);
    pass->pair_count = count;
    pass->live = pass->runner->live && pass->runner->live < count ? pass->runner->live : count;
    pass->group = 1;
    return ZEST_OK;
}

zest_status zest_model_forward(zest_model_runner *runner, const zest_forward_request *request,
                               zest_error *error) {
    zest_forward_pass pass;
    zest_status status = zest_forward_prepare(runner, request, &pass, error);
    if (status) return status;
    zest_forward_index_out_rows(&pass);
    status = list_pairs(&pass);
    if (!status) status = zest_model_plan_groups(&pass);
    if (!status) status = zest_model_alloc_activations(&pass);
    if (!status) status = zest_model_stage_pass(&pass);
    if (!status) status = pass_lanes(&pass);
    free(pass.pairs);
    return status;
}

/* ---- Runners ---- */

zest_status zest_model_runner_new(const zest_model *model, const zest_ops *operations,
                                  const zest_model_runner_options *options, zest_model_runner **runner,
                                  zest_error *error) {
    static const zest_model_runner_options defaults = {0};
    if (!options) options = &defaults;
    *runner = NULL;
    if (options->compute == ZEST_COMPUTE_F16 && options->device == ZEST_DEVICE_CPU)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "fp16 arithmetic needs a GPU: use --device cuda, or --compute bf16 or f32");
    *runner = calloc(1, sizeof **runner);
    if (!*runner) return zest_error_memory(error, "a runner", sizeof **runner);
    (*runner)->model = (*runner)->host_model = model;
    (*runner)->operations = operations;
    (*runner)->compute = options->compute;
    (*runner)->threads = options->threads > 0 ? options->threads : omp_get_max_threads();
    (*runner)->live = options->live_pairs;
    if (options->device == ZEST_DEVICE_CPU) return ZEST_OK;
    zest_status status = zest_device_open(options->device, options->compute, &(*runner)->device, error);
    if (!status) status = zest_model_to_device(*runner, error);
    if (status) {
        zest_model_runner_free(*runner);
        *runner = NULL;
    }
    return status;
}

zest_status zest_model_open_runner(const zest_model *model, const zest_model_runner_options *options,
                                   zest_model_runner **runner, zest_error *error) {
    zest_cpu cpu;
    *runner = NULL;
    zest_status status = zest_cpu_detect(&cpu, error);
    return status ? status : zest_model_runner_new(model, zest_ops_for(cpu), options, runner, error);
}

zest_status zest_model_runner_borrow(const zest_model_runner *from, const zest_model *view,
                                     zest_model_runner **runner, zest_error *error) {
    *runner = calloc(1, sizeof **runner);
    if (!*runner) return zest_error_memory(error, "a runner", sizeof **runner);
    (*runner)->model = (*runner)->host_model = view;
    (*runner)->device = from->device;
    (*runner)->borrowed = 1;
    (*runner)->operations = from->operations;
    (*runner)->compute = from->compute;
    (*runner)->threads = from->threads;
    (*runner)->scratch.device = from->device;
    (*runner)->device_base = from->device_base;
    return ZEST_OK;
}

size_t zest_model_runner_memory(const zest_model_runner *runner) {
    const zest_model_buffer *buffers[] = {&runner->hidden,     &runner->norm_out,   &runner->work,
                                          &runner->prefix_kv,  &runner->logits,     &runner->words,
                                          &runner->results,    &runner->cosines[0], &runner->sines[0],
                                          &runner->cosines[1], &runner->sines[1]};
    size_t bytes = runner->rows_count * sizeof(uint32_t) + runner->scratch.size + runner->low_rank.size;
    if (runner->device && !runner->borrowed)
        return bytes + runner->operations->device->bytes_allocated(runner->device, NULL);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        bytes += buffers[i]->count * buffers[i]->element_size;
    return bytes;
}

zest_device *zest_model_runner_device(const zest_model_runner *runner) { return runner->device; }

const zest_params *zest_model_runner_params(const zest_model_runner *runner) {
    return &runner->model->params;
}

void zest_model_runner_free(zest_model_runner *runner) {
    if (!runner) return;
    zest_model_buffer *buffers[] = {&runner->hidden,     &runner->norm_out,   &runner->work,
                                    &runner->prefix_kv,  &runner->logits,     &runner->words,
                                    &runner->results,    &runner->cosines[0], &runner->sines[0],
                                    &runner->cosines[1], &runner->sines[1]};
    for (size_t i = 0; (!runner->device || runner->borrowed) && i < sizeof buffers / sizeof *buffers; i++)
        zest_model_dealloc(runner, buffers[i]->data);
    free(runner->scratch.data);
    free(runner->low_rank.data);
    free(runner->rows);
    if (runner->device_model) {
        free(runner->device_model->layers);
        free(runner->device_model->tensors);
        free(runner->device_model);
    }
    if (!runner->borrowed) zest_device_close(runner->device); /* and with it all of its memory */
    free(runner);
}
