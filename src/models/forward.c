#include "models/forward.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "models/forward_internal.h"

/* ---- Operations ---- */

zest_status zest_model_linear(zest_model_runner *runner, const zest_model_affine *affine,
                              const zest_perturbation *p, int transposed, const float *const a[2],
                              size_t rows, size_t a_stride, float *const out[2], size_t out_stride,
                              const float *const residual[2], zest_activation activation, zest_error *error) {
    zest_linear job = {.weight = affine->weight,
                       .bias = affine->bias,
                       .transposed = transposed,
                       .perturbation = *p,
                       .a = {a[0], a[1]},
                       .rows = rows,
                       .a_stride = a_stride,
                       .out = {out[0], out[1]},
                       .out_stride = out_stride,
                       .residual = {residual ? residual[0] : NULL, residual ? residual[1] : NULL},
                       .residual_stride = out_stride,
                       .activation = activation,
                       .compute = runner->compute,
                       .steady = runner->steady};
    return runner->operations->linear(&job, runner->threads, &runner->scratch)
               ? zest_model_no_scratch(runner, error)
               : ZEST_OK;
}

zest_status zest_model_norm(zest_model_runner *runner, const zest_model_affine *affine,
                            const zest_perturbation *p, const float *const x[2], float *const out[2],
                            size_t rows, size_t width, zest_error *error) {
    zest_norm job = {.gain = affine->weight,
                     .bias = affine->bias,
                     .rms = runner->model->is.rms,
                     .epsilon = runner->model->is.epsilon,
                     .perturbation = *p,
                     .x = {x[0], x[1]},
                     .out = {out[0], out[1]},
                     .rows = rows,
                     .width = width};
    return runner->operations->norm(&job, runner->threads, &runner->scratch)
               ? zest_model_no_scratch(runner, error)
               : ZEST_OK;
}

/* ---- Behind the layers ---- */

static zest_status finish(zest_model_pass *pass, const zest_model_pair *lanes) {
    zest_model_runner *runner = pass->runner;
    const zest_model *model = runner->model;
    const zest_model_description *is = pass->is;
    size_t rows = pass->request->rows ? pass->asked : pass->rows;
    float *a[2], *work[2];
    zest_model_halves(&runner->a, 0, a);
    zest_model_halves(&runner->work, 0, work);
    zest_model_unit unit = {lanes->first, lanes->perturbation, rows, {lanes->x[0], lanes->x[1]}};
    zest_status status = ZEST_OK;
    if (pass->request->depth == is->layers && is->final_norm) {
        status = zest_model_norm(runner, &model->final_norm, &lanes->perturbation, unit.h, a, rows, is->width,
                                 pass->error);
        unit.h[0] = a[0], unit.h[1] = a[1];
    }
    if (!status && pass->request->depth == is->layers && model->project_out.weight.data) {
        status = zest_model_linear(runner, &model->project_out, &lanes->perturbation, 0, unit.h, rows,
                                   is->width, work, is->embedding_width, NULL, ZEST_ACT_NONE, pass->error);
        unit.h[0] = work[0], unit.h[1] = work[1];
    }
    return status ? status : pass->request->visit(runner, &unit, pass->request->user, pass->error);
}

/* ---- Pairs ---- */

/* The lanes from `first` on that go together: two with opposite scales along one direction, or one. */
static zest_model_pair pair_of(const zest_model_request *request, size_t first) {
    const zest_model_lane *lane = &request->lanes[first];
    zest_model_pair out = {.first = first, .perturbation = {.seed = lane->direction.seed, .lanes = 1}};
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

static zest_status pass_groups(zest_model_pass *pass, const zest_model_pair *pairs, size_t count) {
    zest_status status = ZEST_OK;
    size_t rows = pass->rows;
    for (size_t i = 0; i < count && !status; i++) status = zest_model_embed(pass, &pairs[i]);
    for (size_t layer = 0; layer < pass->request->depth; layer++)
        for (size_t i = 0; i < count && !status; i++)
            status = zest_model_pass_layer(pass, layer, &pairs[i], &rows);
    for (size_t i = 0; i < count && !status; i++) status = finish(pass, &pairs[i]);
    return status;
}

/* Pairs of one kind can go together. */
static int alike(const zest_perturbation *a, const zest_perturbation *b) {
    return a->lanes == 2 && b->lanes == 2 && a->signs == b->signs && a->scale[0] != 0 && b->scale[0] != 0;
}

/* Puts neighbours together; further: the perturbations of all pairs, which groups point into. */
static size_t form_groups(const zest_model_pass *pass, zest_model_pair *pairs, size_t count,
                          const zest_perturbation *further) {
    size_t groups = 0;
    for (size_t i = 0; i < count; groups++) {
        size_t here = 1;
        while (here < pass->group && i + here < count && alike(&further[i], &further[i + here])) here++;
        pairs[groups] = pairs[i];
        pairs[groups].perturbation.more = here > 1 ? &further[i + 1] : NULL;
        pairs[groups].perturbation.more_count = here - 1;
        i += here;
    }
    return groups;
}

/* A turn of as many pairs as are live. */
static zest_status pass_live(zest_model_pass *pass, zest_model_pair *pairs, size_t count,
                             const zest_perturbation *further) {
    zest_model_runner *runner = pass->runner;
    size_t per_lane = pass->room_rows * pass->is->width;
    float *next = runner->x.data;
    for (zest_model_pair *lane = pairs; lane < pairs + count; lane++) {
        lane->x[0] = next;
        lane->x[1] = lane->perturbation.lanes == 2 ? zest_model_at(runner, next, per_lane) : next;
        next = zest_model_at(runner, next, per_lane * (size_t)lane->perturbation.lanes);
    }
    return pass_groups(pass, pairs, form_groups(pass, pairs, count, further));
}

static zest_status pass_lanes(zest_model_pass *pass) {
    zest_model_runner *runner = pass->runner;
    size_t lanes = pass->request->lane_count, per_lane = pass->room_rows * pass->is->width;
    size_t most = 2 * pass->live < lanes ? 2 * pass->live : lanes, count = pass->pair_count;
    zest_perturbation *further = malloc(count * sizeof *further);
    if (!further) return zest_error_memory(pass->error, "lanes", count * sizeof *further);
    for (size_t i = 0; i < count; i++) further[i] = pass->pairs[i].perturbation;
    zest_status status = zest_model_room_for(runner, &runner->x, 1, most * per_lane, pass->error);
    for (size_t first = 0; first < count && !status; first += pass->live) {
        size_t here = count - first < pass->live ? count - first : pass->live;
        status = pass_live(pass, pass->pairs + first, here, further + first);
    }
    free(further);
    return status;
}

static zest_status list_pairs(zest_model_pass *pass) {
    const zest_model_request *request = pass->request;
    zest_model_pair *pairs = pass->pairs = malloc(request->lane_count * sizeof *pairs);
    if (!pairs) return zest_error_memory(pass->error, "lanes", request->lane_count * sizeof *pairs);
    size_t count = 0;
    for (size_t i = 0; i < request->lane_count; i += (size_t)pairs[count++].perturbation.lanes)
        pairs[count] = pair_of(request, i);
    pass->pair_count = count;
    pass->live = pass->runner->live && pass->runner->live < count ? pass->runner->live : count;
    pass->group = 1;
    return ZEST_OK;
}

/* ---- Preparing a pass ---- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static zest_status refuse(zest_error *error, const char *why, size_t sequence) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "sequence %zu of the batch %s", sequence, why);
}

/* Tokens that stand before a sequence's own: its parent's, or those in the cache. */
static size_t before(const zest_model_request *request, size_t s) {
    const zest_model_batch *batch = request->batch;
    if (request->cache) return request->cache->lengths[request->cache->slots[s]];
    if (!batch->parents || batch->parents[s] == ZEST_MODEL_NO_PARENT) return 0;
    return batch->starts[batch->parents[s] + 1] - batch->starts[batch->parents[s]];
}

static zest_status check_sequence(const zest_model_description *is, const zest_model_request *request,
                                  size_t s, zest_error *error) {
    const zest_model_batch *batch = request->batch;
    if (batch->starts[s + 1] <= batch->starts[s]) return refuse(error, "is empty", s);
    uint32_t parent = batch->parents ? batch->parents[s] : ZEST_MODEL_NO_PARENT;
    if (parent != ZEST_MODEL_NO_PARENT) {
        if (!is->causal) return refuse(error, "continues another, which only a causal model can", s);
        if (parent >= s || batch->parents[parent] != ZEST_MODEL_NO_PARENT)
            return refuse(error, "has a parent that does not stand before it, or that has one itself", s);
    }
    size_t length = before(request, s) + batch->starts[s + 1] - batch->starts[s];
    if (length > is->positions)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "sequence %zu of the batch has %zu tokens; the model has room for %zu", s,
                              length, is->positions);
    for (size_t i = batch->starts[s]; i < batch->starts[s + 1]; i++) {
        if (batch->tokens[i] >= is->vocabulary)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "token %u is outside the vocabulary of %zu",
                                  (unsigned)batch->tokens[i], is->vocabulary);
        if (batch->types && is->token_types && batch->types[i] >= is->token_types)
            return refuse(error, "has a token type that the model lacks", s);
    }
    return ZEST_OK;
}

static zest_status check_batch(const zest_model_description *is, const zest_model_request *request,
                               zest_error *error) {
    const zest_model_batch *batch = request->batch;
    if (!request->lane_count || !batch->sequences || batch->starts[0] != 0)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a forward pass needs a lane and a batch that starts at 0");
    zest_status status = ZEST_OK;
    for (size_t s = 0; s < batch->sequences && !status; s++) status = check_sequence(is, request, s, error);
    for (size_t i = 0; request->rows && i < request->row_count && !status; i++)
        if (request->rows[i] >= batch->starts[batch->sequences])
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "row %u is asked for, of %u in the batch",
                                    (unsigned)request->rows[i], (unsigned)batch->starts[batch->sequences]);
    return status;
}

/* Cosines and sines up to the position asked for. The angle is rounded to float, as in training. */
static zest_status reach_position(zest_model_runner *runner, size_t positions, zest_error *error) {
    size_t half = runner->model->is.head_size / 2, count = positions * half;
    if (runner->model->is.position_rows || positions <= runner->angles) return ZEST_OK;
    runner->angles = 0;
    zest_status status = zest_model_room_floats(runner, &runner->cosines, 1, count, error);
    if (!status) status = zest_model_room_floats(runner, &runner->sines, 1, count, error);
    float *tables = runner->device && !status ? malloc(2 * count * sizeof *tables) : NULL;
    if (!status && runner->device && !tables)
        status = zest_error_memory(error, "angles", 2 * count * sizeof *tables);
    if (status) return status;
    float *cosines = tables ? tables : runner->cosines.data,
          *sines = tables ? tables + count : runner->sines.data;
    for (size_t p = 0; p < positions; p++)
        for (size_t i = 0; i < half; i++) {
            float angle = (float)p * runner->model->rotary[i];
            cosines[p * half + i] = (float)cos((double)angle);
            sines[p * half + i] = (float)sin((double)angle);
        }
    if (tables) {
        const zest_device_table *device = runner->operations->device;
        if (device->upload(runner->device, runner->cosines.data, cosines, count * sizeof *tables) ||
            device->upload(runner->device, runner->sines.data, sines, count * sizeof *tables))
            status = zest_model_no_scratch(runner, error);
        free(tables);
    }
    if (!status) runner->angles = positions;
    return status;
}

/* The asked rows of sequence s, which begin at number `first` of them. Their end; SIZE_MAX: attention cannot
 * take them for the queries of the sequence, of which a causal one sees a key more than the one before. */
static size_t number_asked_of(zest_model_pass *pass, size_t s, size_t first) {
    const uint32_t *rows = pass->request->rows, *starts = pass->request->batch->starts;
    int causal = pass->is->causal;
    size_t r = first;
    for (; r < pass->asked && rows[r] >= starts[s] && rows[r] < starts[s + 1]; r++) {
        if (causal && r > first && rows[r] != rows[r - 1] + 1) return SIZE_MAX;
        pass->asked_positions[r] = pass->positions[rows[r]];
    }
    pass->asked_starts[s] = (uint32_t)first;
    pass->asked_ends[s] = !causal ? starts[s + 1] : r > first ? rows[r - 1] + 1 : starts[s];
    pass->asked_longest = larger(pass->asked_longest, r - first);
    return r;
}

/* Whether the asked rows can be the last layer's only queries: they stand in the order of their sequences,
 * and keys where the rows left them. A fused matrix gives all queries anyway. */
static int number_asked(zest_model_pass *pass) {
    const zest_model_batch *batch = pass->request->batch;
    if (!pass->request->rows || pass->request->cache || batch->parents || pass->is->fused_qkv) return 0;
    size_t r = 0;
    for (size_t s = 0; s < batch->sequences && r != SIZE_MAX; s++) r = number_asked_of(pass, s, r);
    pass->asked_starts[batch->sequences] = (uint32_t)r;
    return r == pass->asked;
}

static zest_status make_tables(zest_model_pass *pass) {
    zest_model_runner *runner = pass->runner;
    size_t sequences = pass->request->batch->sequences;
    size_t need = 3 * pass->rows + 3 * sequences + 2 + (pass->request->rows ? pass->asked : 0);
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
    pass->asked_starts = pass->key_starts + sequences + 1;
    pass->asked_ends = pass->asked_starts + sequences + 1;
    pass->asked_positions = pass->asked_ends + sequences;
    return ZEST_OK;
}

/* Positions, rows of the position table, token types and offsets of the keys. */
static zest_status number_rows(zest_model_pass *pass) {
    zest_model_runner *runner = pass->runner;
    const zest_model_batch *batch = pass->request->batch;
    zest_status status = make_tables(pass);
    if (status) return status;
    pass->first_position = SIZE_MAX;
    for (size_t s = 0; s < batch->sequences; s++) {
        size_t past = before(pass->request, s), count = batch->starts[s + 1] - batch->starts[s];
        pass->key_starts[s] = (uint32_t)pass->key_rows;
        pass->key_rows += past + count;
        if (past < pass->first_position) pass->first_position = past;
        if (past + count > pass->end_position) pass->end_position = past + count;
        if (count > pass->longest) pass->longest = count;
        for (size_t i = 0; i < count; i++) {
            size_t row = batch->starts[s] + i;
            pass->positions[row] = (uint32_t)(past + i);
            pass->table_rows[row] = (uint32_t)(past + i + pass->is->position_offset);
            pass->types[row] = batch->types ? batch->types[row] : 0;
        }
    }
    pass->key_starts[batch->sequences] = (uint32_t)pass->key_rows;
    if (!number_asked(pass)) pass->asked_starts = pass->asked_ends = pass->asked_positions = NULL;
    if (pass->key_rows > UINT32_MAX)
        return zest_error_set(pass->error, ZEST_ERROR_ARGUMENT, "the batch is too large");
    return reach_position(runner, pass->end_position, pass->error);
}

/* Floats a row: of what a norm gives, and of the widest thing inside a layer (q, k, v and context; or the
 * MLP). */
static size_t behind_norm(const zest_model_description *is) { return larger(is->width, is->embedding_width); }

static size_t inside_layer(const zest_model_description *is) {
    size_t q = is->heads * is->head_size, qkv = q + 2 * is->kv_heads * is->head_size;
    size_t widest = larger(larger(qkv, is->width) + q, is->inner * (is->gated ? 2 : 1));
    return larger(widest, behind_norm(is));
}

zest_model_plan zest_model_plan_memory(const zest_model_description *is, size_t tokens, size_t live_pairs) {
    return (zest_model_plan){.hidden = 2 * live_pairs * tokens * is->width * sizeof(float),
                             .work = 2 * tokens * (behind_norm(is) + inside_layer(is)) * sizeof(float)};
}

static zest_status make_room(zest_model_pass *pass) {
    zest_model_runner *runner = pass->runner;
    const zest_model_description *is = pass->is;
    size_t lanes = 2 * pass->group;
    zest_status status =
        zest_model_room_for(runner, &runner->a, lanes, pass->room_rows * behind_norm(is), pass->error);
    if (!status)
        status = zest_model_room_for(runner, &runner->work, lanes, pass->room_rows * inside_layer(is),
                                     pass->error);
    if (!status && pass->request->batch->parents) /* a device takes all lanes at once */
        status = zest_model_room_for(runner, &runner->past, runner->device ? lanes : 1,
                                     pass->key_rows * 2 * pass->kv_width, pass->error);
    return status;
}

zest_status zest_model_prepare(zest_model_runner *runner, const zest_model_request *request,
                               zest_model_pass *pass, zest_error *error) {
    const zest_model_description *is = &runner->model->is;
    zest_status status = check_batch(is, request, error);
    if (status) return status;
    *pass = (zest_model_pass){.runner = runner, .request = request, .is = is, .error = error};
    pass->rows = request->batch->starts[request->batch->sequences];
    pass->asked = request->rows ? request->row_count : pass->rows;
    pass->room_rows = larger(pass->rows, pass->asked);
    pass->q_width = is->heads * is->head_size;
    pass->kv_width = is->kv_heads * is->head_size;
    pass->stride = pass->q_width + 2 * pass->kv_width;
    pass->span = larger(pass->stride, is->width);
    status = number_rows(pass);
    return status;
}

zest_status zest_model_forward(zest_model_runner *runner, const zest_model_request *request,
                               zest_error *error) {
    zest_model_pass pass;
    zest_status status = zest_model_prepare(runner, request, &pass, error);
    if (status) return status;
    status = list_pairs(&pass);
    if (!status) status = zest_model_fit(&pass);
    if (!status) status = make_room(&pass);
    if (!status) status = zest_model_stage_pass(&pass);
    if (!status) status = pass_lanes(&pass);
    free(pass.pairs);
    return status;
}

/* ---- The runner ---- */

zest_status zest_model_runner_new(const zest_model *model, const zest_forward *operations,
                                  const zest_model_runner_options *options, zest_model_runner **runner,
                                  zest_error *error) {
    static const zest_model_runner_options plain = {0};
    if (!options) options = &plain;
    *runner = NULL;
    if (options->compute == ZEST_COMPUTE_F16 && options->device == ZEST_DEVICE_CPU)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "fp16 arithmetic needs a GPU: use --device cuda, or --compute bf16 or f32");
    *runner = calloc(1, sizeof **runner);
    if (!*runner) return zest_error_memory(error, "a runner", sizeof **runner);
    (*runner)->model = (*runner)->owner = model;
    (*runner)->operations = operations;
    (*runner)->compute = options->compute;
    (*runner)->threads = options->threads > 0 ? options->threads : omp_get_max_threads();
    (*runner)->live = options->live_pairs;
    if (options->device == ZEST_DEVICE_CPU) return ZEST_OK;
    zest_status status = zest_device_open(options->device, options->compute, &(*runner)->device, error);
    if (!status) status = zest_model_place(*runner, error);
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
    if (!zest_cpu_detect(&cpu))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "ZEST_CPU must be amx, avx512bf16, avx512, avx2 or plain");
    return zest_model_runner_new(model, zest_forward_for(cpu), options, runner, error);
}

zest_status zest_model_runner_borrow(const zest_model_runner *from, const zest_model *view,
                                     zest_model_runner **runner, zest_error *error) {
    *runner = calloc(1, sizeof **runner);
    if (!*runner) return zest_error_memory(error, "a runner", sizeof **runner);
    (*runner)->model = (*runner)->owner = view;
    (*runner)->device = from->device;
    (*runner)->borrowed = 1;
    (*runner)->operations = from->operations;
    (*runner)->compute = from->compute;
    (*runner)->threads = from->threads;
    (*runner)->scratch.device = from->device;
    return ZEST_OK;
}

size_t zest_model_runner_memory(const zest_model_runner *runner) {
    const zest_model_room *rooms[] = {&runner->x,       &runner->a,       &runner->work,
                                      &runner->past,    &runner->logits,  &runner->words,
                                      &runner->results, &runner->cosines, &runner->sines};
    size_t bytes = runner->rows_count * sizeof(uint32_t) + runner->scratch.size;
    if (runner->device && !runner->borrowed)
        return bytes + runner->operations->device->held(runner->device, NULL);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) bytes += rooms[i]->count * rooms[i]->cell;
    return bytes;
}

zest_device *zest_model_runner_device(const zest_model_runner *runner) { return runner->device; }

const zest_params *zest_model_runner_params(const zest_model_runner *runner) {
    return &runner->model->params;
}

void zest_model_runner_free(zest_model_runner *runner) {
    if (!runner) return;
    zest_model_room *rooms[] = {&runner->x,       &runner->a,       &runner->work,
                                &runner->past,    &runner->logits,  &runner->words,
                                &runner->results, &runner->cosines, &runner->sines};
    for (size_t i = 0; (!runner->device || runner->borrowed) && i < sizeof rooms / sizeof *rooms; i++)
        zest_model_memory_free(runner, rooms[i]->data);
    free(runner->scratch.data);
    free(runner->rows);
    if (runner->placed) {
        free(runner->placed->layers);
        free(runner->placed->tensors);
        free(runner->placed);
    }
    if (!runner->borrowed) zest_device_close(runner->device); /* and with it all of its memory */
    free(runner);
}
