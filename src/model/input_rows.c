/* Rows of the inputs of a model's matrices: see input_rows.h. */
#include "model/input_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "io/safetensors.h"
#include "model/scales.h"
#include "rng/noise.h"

/* ---- Which matrices, and where their rows are ---- */

static int is_within(const zest_tensor *tensor, const void *data) {
    const char *begin = tensor->data, *at = data;
    return at && at >= begin && at < begin + tensor->count * zest_dtype_size(tensor->dtype);
}

static int is_layer_matrix(const zest_model *model, const zest_tensor *tensor) {
    for (size_t l = 0; l < model->config.layers; l++) {
        const zest_model_layer *layer = &model->layers[l];
        const zest_model_affine *all[] = {&layer->q,   &layer->k,    &layer->v,  &layer->qkv,
                                          &layer->out, &layer->gate, &layer->up, &layer->down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (is_within(tensor, all[i]->weight.data)) return 1;
    }
    return 0;
}

static int is_other_matrix(const zest_model *model, const zest_tensor *tensor) {
    return is_within(tensor, model->project_in.weight.data) ||
           is_within(tensor, model->project_out.weight.data) ||
           is_within(tensor, model->head_dense.weight.data);
}

static int is_trained(const zest_model *model, const zest_tensor *tensor) {
    for (size_t i = 0; i < model->params.count; i++)
        if (model->params.tensors[i].name == tensor->name) return 1;
    return 0;
}

/* The rows that a tensor has, and where they begin. */
typedef struct zest_input_place {
    size_t count, width, first;
    int transposed; /* the matrix is stored inputs x outputs */
} place;

static place *list_places(const zest_model *model, size_t most) {
    place *places = calloc(model->tensor_count + 1, sizeof *places);
    size_t first = 0;
    for (size_t i = 0; places && i <= model->tensor_count; i++) {
        places[i].first = first;
        if (i == model->tensor_count) break;
        const zest_tensor *tensor = &model->tensors[i];
        int inside = is_layer_matrix(model, tensor);
        if (!tensor->law.rank || !is_trained(model, tensor) || !(inside || is_other_matrix(model, tensor)))
            continue;
        places[i].transposed = inside && model->config.transposed;
        places[i].width = (size_t)(places[i].transposed ? tensor->law.rows : tensor->law.columns);
        places[i].count = places[i].width < most ? places[i].width : most;
        first += places[i].count * places[i].width;
    }
    return places;
}

static zest_status open_places(const zest_model *model, size_t most, place **places, zest_error *error) {
    *places = list_places(model, most);
    return *places ? ZEST_OK
                   : zest_error_memory(error, "rows of inputs", model->tensor_count * sizeof **places);
}

zest_status zest_model_count_inputs(const zest_model *model, size_t most, size_t *count, zest_error *error) {
    place *places;
    zest_status status = open_places(model, most, &places, error);
    if (!status) *count = places[model->tensor_count].first;
    free(places);
    return status;
}

/* ---- Laws ---- */

static int has_numbers(const float *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (rows[i] != 0) return 1;
    return 0;
}

zest_status zest_model_set_inputs(zest_model *model, float *rows, size_t most, zest_error *error) {
    place *places;
    zest_status status = open_places(model, most, &places, error);
    if (status) {
        free(rows);
        return status;
    }
    free(model->inputs);
    model->inputs = rows;
    model->input_most = most;
    model->input_count = places[model->tensor_count].first;
    for (size_t i = 0; i < model->tensor_count; i++) {
        const place *p = &places[i];
        zest_noise_law *law = &model->tensors[i].law;
        if (!p->count || !has_numbers(rows + p->first, p->count * p->width)) continue;
        law->inputs = rows + p->first;
        law->input_count = (uint32_t)p->count;
        law->inputs_are_rows = p->transposed;
    }
    free(places);
    zest_model_spread_laws(model);
    return ZEST_OK;
}

float *zest_model_take_inputs(zest_model *model, size_t *most) {
    float *rows = model->inputs;
    *most = model->input_most;
    model->inputs = NULL;
    model->input_count = 0;
    return rows;
}

uint64_t zest_model_print_inputs(const zest_model *model) {
    return zest_fingerprint_of(model->inputs, model->input_count * sizeof *model->inputs).hash;
}

/* ---- The file ---- */

zest_status zest_model_save_inputs(const zest_model *model, const char *path, zest_error *error) {
    place *places;
    size_t count = 0;
    zest_status status = open_places(model, model->input_most, &places, error);
    zest_safetensors_source *all = status ? NULL : calloc(model->tensor_count, sizeof *all);
    size_t(*shapes)[2] = all ? calloc(model->tensor_count, sizeof *shapes) : NULL;
    if (!status && !shapes) status = zest_error_memory(error, path, model->tensor_count * sizeof *all);
    for (size_t i = 0; i < model->tensor_count && !status; i++) {
        const place *p = &places[i];
        if (!p->count) continue;
        shapes[i][0] = p->count, shapes[i][1] = p->width;
        all[count++] = (zest_safetensors_source){.name = model->tensors[i].name,
                                                 .dtype = ZEST_DTYPE_F32,
                                                 .rank = 2,
                                                 .shape = shapes[i],
                                                 .data = model->inputs + p->first};
    }
    if (!status) status = zest_safetensors_write(path, all, count, NULL, error);
    free(all);
    free(shapes);
    free(places);
    return status;
}

static zest_status foreign(const char *path, const char *why, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: %s: the rows of inputs belong to another run, or the file was changed; put it "
                          "back as it was",
                          path, why);
}

static zest_status read_rows(const zest_model *model, const zest_safetensors *file, const place *places,
                             const char *path, float *rows, zest_error *error) {
    size_t found = 0;
    for (size_t i = 0; i < model->tensor_count; i++) {
        const place *p = &places[i];
        if (!p->count) continue;
        const zest_safetensors_tensor *tensor = zest_safetensors_find(file, model->tensors[i].name);
        if (!tensor || tensor->dtype != ZEST_DTYPE_F32 || tensor->rank != 2 || tensor->shape[0] != p->count ||
            tensor->shape[1] != p->width)
            return foreign(path, model->tensors[i].name, error);
        memcpy(rows + p->first, tensor->data, tensor->size);
        found++;
    }
    return found == zest_safetensors_count(file) ? ZEST_OK : foreign(path, "has other tensors", error);
}

zest_status zest_model_load_inputs(zest_model *model, size_t most, uint64_t print, const char *path,
                                   zest_error *error) {
    place *places = NULL;
    float *rows = NULL;
    zest_safetensors *file;
    zest_status status = zest_safetensors_open(path, &file, error);
    if (!status) status = open_places(model, most, &places, error);
    size_t count = status ? 0 : places[model->tensor_count].first;
    if (!status && !(rows = malloc((count + 1) * sizeof *rows)))
        status = zest_error_memory(error, path, count * sizeof *rows);
    if (!status) status = read_rows(model, file, places, path, rows, error);
    if (!status && zest_fingerprint_of(rows, count * sizeof *rows).hash != print)
        status = foreign(path, "has another fingerprint than the run records", error);
    zest_safetensors_close(file);
    free(places);
    if (!status) return zest_model_set_inputs(model, rows, most, error);
    free(rows);
    return status;
}

/* ---- Keeping the rows of forward passes ---- */

zest_status zest_input_capture_begin(zest_input_capture *capture, zest_model *model, size_t most,
                                     uint64_t seed, zest_error *error) {
    *capture = (zest_input_capture){.model = model, .most = most, .seed = seed};
    zest_status status = open_places(model, most, &capture->places, error);
    if (status) return status;
    size_t count = capture->places[model->tensor_count].first;
    capture->rows = calloc(count + 1, sizeof *capture->rows);
    capture->seen = calloc(model->tensor_count, 1);
    if (capture->rows && capture->seen) return ZEST_OK;
    zest_input_capture_free(capture);
    return zest_error_memory(error, "rows of inputs", count * sizeof(float));
}

void zest_input_capture_free(zest_input_capture *capture) {
    free(capture->rows);
    free(capture->seen);
    free(capture->places);
    *capture = (zest_input_capture){0};
}

void zest_input_capture_next(zest_input_capture *capture, size_t example) {
    capture->example = example;
    memset(capture->seen, 0, capture->model->tensor_count);
}

/* The host's copy of a weight. */
static const void *on_host(const zest_model_runner *runner, const zest_weight *weight) {
    if (!runner->device_model) return weight->data;
    return (const char *)runner->host_model->arena +
           ((const char *)weight->data - (const char *)runner->device_model->arena);
}

/* The row of the job's inputs, for the tensor that a weight is a part of. */
static zest_status take_row(zest_model_runner *runner, const zest_linear *job, const zest_weight *weight,
                            size_t row, zest_error *error) {
    zest_input_capture *capture = runner->capture;
    const void *data = on_host(runner, weight);
    for (size_t i = 0; i < capture->model->tensor_count; i++) {
        const place *p = &capture->places[i];
        if (capture->seen[i] || capture->example >= p->count || !is_within(&capture->model->tensors[i], data))
            continue;
        const void *from = zest_model_offset(runner, job->a[0], row * job->a_stride);
        float *to = capture->rows + p->first + capture->example * p->width;
        capture->seen[i] = 1;
        if (runner->device) return zest_model_read(runner, from, p->width, 0, to, error);
        memcpy(to, from, p->width * sizeof *to);
        break;
    }
    return ZEST_OK;
}

/* All matrices of an example keep the same token, if their inputs are those of all. Where a tensor is read in parts,
 * the first one counts. Several matrices of a job have the same inputs. */
zest_status zest_input_capture_take(zest_model_runner *runner, const zest_linear *job, zest_error *error) {
    const zest_input_capture *capture = runner->capture;
    if (!job->rows) return ZEST_OK;
    size_t row = zest_seed(capture->seed, capture->example, 0) % job->rows;
    zest_status status = take_row(runner, job, &job->weight, row, error);
    for (size_t i = 0; i < job->more_count && !status; i++)
        status = take_row(runner, job, &job->more[i].weight, row, error);
    return status;
}

/* Rows that are all 0 stay so. */
static int scale_rows(float *rows, const place *p) {
    double square = 0;
    size_t count = p->count * p->width;
    for (size_t i = 0; i < count; i++) square += (double)rows[i] * (double)rows[i];
    if (!isfinite(square)) return 0;
    double factor = square > 0 ? sqrt((double)p->width / square) : 0;
    for (size_t i = 0; i < count; i++) rows[i] = (float)((double)rows[i] * factor);
    return 1;
}

zest_status zest_input_capture_end(zest_input_capture *capture, zest_error *error) {
    zest_model *model = capture->model;
    for (size_t i = 0; i < model->tensor_count; i++)
        if (!scale_rows(capture->rows + capture->places[i].first, &capture->places[i]))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "--covariance inputs: the inputs of %s are not finite; train without it",
                                  model->tensors[i].name);
    float *rows = capture->rows;
    capture->rows = NULL;
    return zest_model_set_inputs(model, rows, capture->most, error);
}
