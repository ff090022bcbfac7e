/* From hidden states to logits: of a few words, or of the whole vocabulary block by block. */
#include <stdlib.h>
#include <string.h>

#include "model/forward_pass.h"

/* Words of a block. A constant: it decides the order in which a row's probabilities are summed. Devices,
 * which sum in an order of their own, take fewer and larger steps. */
enum { BLOCK = 2048, DEVICE_BLOCK = 8192 };

zest_status zest_model_head_transform(zest_model_runner *runner, const zest_group_output *unit,
                                      const float *h[2], zest_error *error) {
    const zest_model *model = runner->model;
    size_t width = model->config.hidden_size;
    h[0] = unit->h[0], h[1] = unit->h[1];
    if (!model->config.head_transform) return ZEST_OK;
    float *first[2], *second[2];
    int taken = h[0] == runner->norm_out.data; /* then its room is the second one */
    zest_model_first_lanes(taken ? &runner->work : &runner->norm_out, 0, first);
    zest_model_first_lanes(taken ? &runner->norm_out : &runner->work, 0, second);
    zest_status status = zest_model_linear(runner, &model->head_dense, &unit->perturbation, 0, h, unit->rows,
                                           width, first, width, NULL, model->config.head_activation, error);
    if (!status)
        status = zest_model_norm(runner, &model->head_norm, &unit->perturbation, ZEST_CONST2(first), second,
                                 unit->rows, width, error);
    h[0] = second[0], h[1] = second[1];
    return status;
}

/* The words' rows of the head as both lanes see them, one behind the other, and their biases. */
static zest_status gather_words(zest_model_runner *runner, const zest_group_output *unit,
                                const uint32_t *words, size_t count, float *const weight[2],
                                float *const bias[2], zest_error *error) {
    const zest_model_affine *head = &runner->model->head;
    int failed = zest_ops_gather_rows(runner->operations, &head->weight, &unit->perturbation, words, count,
                                      weight, runner->threads, &runner->scratch);
    if (!failed && head->bias.data) {
        zest_weight column = head->bias;
        column.rows = head->bias.columns;
        column.columns = 1;
        failed = zest_ops_gather_rows(runner->operations, &column, &unit->perturbation, words, count, bias,
                                      runner->threads, &runner->scratch);
    }
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

static zest_status device_words(zest_model_runner *runner, const zest_group_output *unit,
                                const float *const h[2], const uint32_t *words, size_t count,
                                float *const out[2], zest_error *error) {
    const zest_model_affine *head = &runner->model->head;
    zest_label_logits job = {.weight = head->weight,
                             .bias = head->bias,
                             .perturbation = unit->perturbation,
                             .h = {h[0], h[1]},
                             .rows = unit->rows,
                             .width = runner->model->config.embedding_size,
                             .words = words,
                             .count = count,
                             .out = {out[0], out[1]}};
    return runner->operations->device->label_logits(runner->device, &job)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

zest_status zest_model_head_label_words(zest_model_runner *runner, const zest_group_output *unit,
                                        const float *const h[2], const uint32_t *words, size_t count,
                                        float *const out[2], zest_error *error) {
    size_t width = runner->model->config.embedding_size;
    if (runner->device) return device_words(runner, unit, h, words, count, out, error);
    zest_status status = zest_model_buffer_reserve(runner, &runner->words, 2, count * (width + 1), error);
    if (status) return status;
    float *weight[2], *bias[2];
    zest_model_first_lanes(&runner->words, 0, weight);
    zest_model_first_lanes(&runner->words, count * width, bias);
    status = gather_words(runner, unit, words, count, weight, bias, error);
    static const zest_perturbation none = {.lanes = 1};
    for (int l = 0; l < unit->perturbation.lanes && !status; l++) {
        zest_model_affine made = {{weight[l], ZEST_DTYPE_F32, count, width, 0, 1}, {0}};
        if (runner->model->head.bias.data) made.bias = (zest_weight){bias[l], ZEST_DTYPE_F32, 1, count, 0, 1};
        status = zest_model_linear(runner, &made, &none, 0, (const float *const[2]){h[l], NULL}, unit->rows,
                                   width, (float *const[2]){out[l], NULL}, count, NULL, ZEST_ACT_NONE, error);
    }
    return status;
}

/* Words first .. first+count-1 of the head's matrix (size: elements of a word), or of its bias (size 0). */
static zest_weight slice(const zest_weight *whole, size_t first, size_t count, size_t size) {
    zest_weight part = *whole;
    if (!part.data) return part;
    size_t elements = first * (size ? size : 1);
    part.data = (const char *)whole->data + elements * zest_dtype_size(whole->dtype);
    part.first += elements;
    part.rows = size ? count : 1;
    part.columns = size ? size : count;
    return part;
}

zest_model_affine zest_model_head_block(const zest_model *model, size_t first, size_t count) {
    return (zest_model_affine){slice(&model->head.weight, first, count, model->config.embedding_size),
                               slice(&model->head.bias, first, count, 0)};
}

/* Logits are floats whatever the compute. */
static zest_status multiply_block(zest_model_runner *runner, const zest_group_output *unit,
                                  const float *const h[2], size_t first, size_t count, float *const logits[2],
                                  zest_error *error) {
    const zest_model *model = runner->model;
    size_t width = model->config.embedding_size;
    zest_model_affine block = zest_model_head_block(model, first, count);
    zest_linear job = {.weight = block.weight,
                       .bias = block.bias,
                       .perturbation = unit->perturbation,
                       .a = {h[0], h[1]},
                       .rows = unit->rows,
                       .a_stride = width,
                       .out = {logits[0], logits[1]},
                       .out_stride = count,
                       .compute = runner->compute,
                       .fp32_output = 1,
                       .deterministic = runner->deterministic};
    return runner->operations->linear(&job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

zest_status zest_model_head_blocks(zest_model_runner *runner, const zest_group_output *unit,
                                   const float *const h[2], zest_on_logits visit, void *user,
                                   zest_error *error) {
    size_t words = runner->model->config.vocab_size, step = runner->device ? DEVICE_BLOCK : BLOCK;
    zest_status status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2, unit->rows * step, error);
    float *logits[2];
    zest_model_first_lanes(&runner->logits, 0, logits);
    for (size_t first = 0; first < words && !status; first += step) {
        size_t count = words - first < step ? words - first : step;
        status = multiply_block(runner, unit, h, first, count, logits, error);
        for (int l = 0; l < unit->perturbation.lanes && !status; l++)
            status = visit(user, l, first, count, logits[l], error);
    }
    return status;
}

/* ---- For those who want the numbers themselves ---- */

typedef struct {
    zest_model_runner *runner;
    float *out;
    size_t rows, width;
} copying;

static zest_status copy_block(void *user, int lane, size_t first, size_t count, const float *logits,
                              zest_error *error) {
    const copying *copy = user;
    (void)lane;
    float *read = NULL;
    zest_status status = ZEST_OK;
    if (copy->runner->device) {
        read = malloc(copy->rows * count * sizeof *read);
        if (!read) return zest_error_memory(error, "logits", copy->rows * count * sizeof *read);
        status = zest_model_read(copy->runner, logits, copy->rows * count, 1, read, error);
        logits = read;
    }
    for (size_t r = 0; r < copy->rows && !status; r++)
        memcpy(copy->out + r * copy->width + first, logits + r * count, count * sizeof *logits);
    free(read);
    return status;
}

static zest_status visit_logits(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                zest_error *error) {
    const float *h[2];
    zest_status status = zest_model_head_transform(runner, unit, h, error);
    return status ? status : zest_model_head_blocks(runner, unit, h, copy_block, user, error);
}

static zest_status visit_hidden(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                zest_error *error) {
    const copying *copy = user;
    if (runner->device)
        return zest_model_read(runner, unit->h[0], unit->rows * copy->width, 0, copy->out, error);
    memcpy(copy->out, unit->h[0], unit->rows * copy->width * sizeof(float));
    return ZEST_OK;
}

static const zest_model_lane itself = {{0, 0, 0, ZEST_GAUSSIAN}, 0};

zest_status zest_model_logits(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, const uint32_t *rows, size_t count, float *out,
                              zest_error *error) {
    copying copy = {runner, out, count, runner->model->config.vocab_size};
    zest_forward_request request = {.lanes = lane ? lane : &itself,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .out_rows = rows,
                                    .out_row_count = count,
                                    .depth = runner->model->config.layers,
                                    .on_group = visit_logits,
                                    .user = &copy};
    return count ? zest_model_forward(runner, &request, error) : ZEST_OK;
}

zest_status zest_model_hidden(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, size_t depth, float *out, zest_error *error) {
    const zest_model_config *config = &runner->model->config;
    if (depth > config->layers)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the model has %zu layers, not %zu", config->layers,
                              depth);
    copying copy = {runner, out, 0, depth == config->layers ? config->embedding_size : config->hidden_size};
    zest_forward_request request = {.lanes = lane ? lane : &itself,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .depth = depth,
                                    .on_group = visit_hidden,
                                    .user = &copy};
    return zest_model_forward(runner, &request, error);
}
