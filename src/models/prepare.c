/* Before a pass: the batch is checked, its rows are numbered, and there is room for what they become. */
#include <math.h>
#include <stdlib.h>

#include "models/forward_internal.h"

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
    pass->asked_longest = zest_model_larger(pass->asked_longest, r - first);
    return r;
}

/* They can when they stand in the order of their sequences, and keys where the rows left them. A fused matrix
 * gives all queries anyway. */
void zest_model_number_asked(zest_model_pass *pass) {
    const zest_model_batch *batch = pass->request->batch;
    if (!pass->request->rows || pass->request->cache || batch->parents || pass->is->fused_qkv) return;
    pass->asked_starts = pass->key_starts + batch->sequences + 1;
    pass->asked_ends = pass->asked_starts + batch->sequences + 1;
    pass->asked_positions = pass->asked_ends + batch->sequences;
    size_t r = 0;
    for (size_t s = 0; s < batch->sequences && r != SIZE_MAX; s++) r = number_asked_of(pass, s, r);
    pass->asked_starts[batch->sequences] = (uint32_t)r;
    if (r != pass->asked) pass->asked_starts = pass->asked_ends = pass->asked_positions = NULL;
}

/* Room for what is numbered, the asked rows included. */
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
    if (pass->key_rows > UINT32_MAX)
        return zest_error_set(pass->error, ZEST_ERROR_ARGUMENT, "the batch is too large");
    return reach_position(runner, pass->end_position, pass->error);
}

/* Floats a row: of what a norm gives, and of the widest thing inside a layer (q, k, v and context; or the
 * MLP). */
static size_t behind_norm(const zest_model_description *is) {
    return zest_model_larger(is->width, is->embedding_width);
}

static size_t inside_layer(const zest_model_description *is) {
    size_t q = is->heads * is->head_size, qkv = q + 2 * is->kv_heads * is->head_size;
    size_t widest = zest_model_larger(zest_model_larger(qkv, is->width) + q, is->inner * (is->gated ? 2 : 1));
    return zest_model_larger(widest, behind_norm(is));
}

/* Packed operands of one operation: at most 32 MiB a lane and some for every thread (backend/cpu/linear.h).
 */
static size_t operand_bytes(const zest_model_description *is, size_t tokens) {
    size_t lane = tokens * zest_model_larger(is->inner, is->width) * sizeof(float), most = (size_t)32 << 20;
    return 2 * (lane < most ? lane : most) + ((size_t)4 << 20);
}

zest_model_plan zest_model_plan_memory(const zest_model_description *is, size_t tokens, size_t live_pairs) {
    return (zest_model_plan){.hidden = 2 * live_pairs * tokens * is->width * sizeof(float),
                             .work = 2 * tokens * (behind_norm(is) + inside_layer(is)) * sizeof(float),
                             .operands = operand_bytes(is, tokens)};
}

zest_status zest_model_make_room(zest_model_pass *pass) {
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
    pass->room_rows = zest_model_larger(pass->rows, pass->asked);
    pass->q_width = is->heads * is->head_size;
    pass->kv_width = is->kv_heads * is->head_size;
    pass->stride = pass->q_width + 2 * pass->kv_width;
    pass->span = zest_model_larger(pass->stride, is->width);
    return number_rows(pass);
}
