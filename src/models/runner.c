/* Who runs a model: its operations, its device, and the memory that passes share. */
#include <omp.h>
#include <stdlib.h>

#include "models/forward_internal.h"

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
    zest_status status = zest_cpu_detect(&cpu, error);
    return status ? status : zest_model_runner_new(model, zest_forward_for(cpu), options, runner, error);
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
