/* Who runs a model: its operations, its device, and the memory that passes share. */
#include <omp.h>
#include <stdlib.h>

#include "model/forward_pass.h"
#include "model/transformer.h"

zest_status zest_model_runner_new(const zest_model *model, const zest_ops *operations,
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
    return ZEST_OK;
}

size_t zest_model_runner_memory(const zest_model_runner *runner) {
    const zest_model_buffer *rooms[] = {&runner->hidden,    &runner->norm_out, &runner->work,
                                        &runner->prefix_kv, &runner->logits,   &runner->words,
                                        &runner->results,   &runner->cosines,  &runner->sines};
    size_t bytes = runner->rows_count * sizeof(uint32_t) + runner->scratch.size;
    if (runner->device && !runner->borrowed)
        return bytes + runner->operations->device->bytes_allocated(runner->device, NULL);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        bytes += rooms[i]->count * rooms[i]->element_size;
    return bytes;
}

zest_device *zest_model_runner_device(const zest_model_runner *runner) { return runner->device; }

const zest_params *zest_model_runner_params(const zest_model_runner *runner) {
    return &runner->model->params;
}

void zest_model_runner_free(zest_model_runner *runner) {
    if (!runner) return;
    zest_model_buffer *rooms[] = {&runner->hidden,    &runner->norm_out, &runner->work,
                                  &runner->prefix_kv, &runner->logits,   &runner->words,
                                  &runner->results,   &runner->cosines,  &runner->sines};
    for (size_t i = 0; (!runner->device || runner->borrowed) && i < sizeof rooms / sizeof *rooms; i++)
        zest_model_dealloc(runner, rooms[i]->data);
    free(runner->scratch.data);
    free(runner->rows);
    if (runner->device_model) {
        free(runner->device_model->layers);
        free(runner->device_model->tensors);
        free(runner->device_model);
    }
    if (!runner->borrowed) zest_device_close(runner->device); /* and with it all of its memory */
    free(runner);
}

/* The directions that count, with the coefficients that optim/update.c would use. */
static size_t list_terms(const zest_update *update, zest_update_term *terms) {
    size_t count = 0;
    for (size_t i = 0; i < update->k; i++) {
        const zest_direction *direction = &update->directions[i];
        if (update->g[i] == 0) continue;
        terms[count++] = (zest_update_term){.seed = direction->seed,
                                            .c = (float)(-update->lr * update->g[i] * direction->gain),
                                            .signs = direction->distribution == ZEST_RADEMACHER};
    }
    return count;
}

static zest_status move_on_device(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    const zest_device_table *device = runner->operations->device;
    zest_update_term *terms = malloc((update->k + 1) * sizeof *terms);
    if (!terms) return zest_error_memory(error, "directions", update->k * sizeof *terms);
    size_t count = list_terms(update, terms);
    double keep = 1 - update->lr * update->decay;
    int failed = device->unstage(runner->device) ||
                 device->update(runner->device, &runner->model->params, terms, count,
                                keep != 1 ? (float)keep : 1.0f, update->rounding, update->nearest);
    free(terms);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

zest_status zest_model_apply_update(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    if (runner->device) return move_on_device(runner, update, error);
    zest_update_apply(zest_vector_ops_for(runner->operations->cpu), runner->threads, &runner->model->params,
                      update);
    return ZEST_OK;
}

zest_status zest_model_download(zest_model_runner *runner, zest_error *error) {
    const zest_model *owner = runner->host_model;
    if (!runner->device) return ZEST_OK;
    int failed = runner->operations->device->download(runner->device, owner->arena,
                                                      runner->device_model->arena, owner->arena_size);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

zest_status zest_model_upload(zest_model_runner *runner, zest_error *error) {
    const zest_model *owner = runner->host_model;
    if (!runner->device) return ZEST_OK;
    int failed = runner->operations->device->upload(runner->device, runner->device_model->arena, owner->arena,
                                                    owner->arena_size);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}
