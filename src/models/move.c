#include "models/move.h"

#include <stdlib.h>

#include "models/forward_internal.h"

/* The directions that count, with the coefficients that core/update.c would use. */
static size_t list_terms(const zest_update *update, zest_device_term *terms) {
    size_t count = 0;
    for (size_t i = 0; i < update->k; i++) {
        const zest_direction *direction = &update->directions[i];
        if (update->g[i] == 0) continue;
        terms[count++] = (zest_device_term){.seed = direction->seed,
                                            .c = (float)(-update->lr * update->g[i] * direction->gain),
                                            .signs = direction->distribution == ZEST_RADEMACHER};
    }
    return count;
}

static zest_status move_on_device(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    const zest_device_table *device = runner->operations->device;
    zest_device_term *terms = malloc((update->k + 1) * sizeof *terms);
    if (!terms) return zest_error_memory(error, "directions", update->k * sizeof *terms);
    size_t count = list_terms(update, terms);
    double keep = 1 - update->lr * update->decay;
    int failed = device->unstage(runner->device) ||
                 device->update(runner->device, &runner->model->params, terms, count,
                                keep != 1 ? (float)keep : 1.0f, update->rounding, update->nearest);
    free(terms);
    return failed ? zest_model_no_scratch(runner, error) : ZEST_OK;
}

zest_status zest_model_move(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    if (runner->device) return move_on_device(runner, update, error);
    zest_update_apply(zest_ops_for(runner->operations->cpu), runner->threads, &runner->model->params, update);
    return ZEST_OK;
}

zest_status zest_model_fetch(zest_model_runner *runner, zest_error *error) {
    const zest_model *owner = runner->owner;
    if (!runner->device) return ZEST_OK;
    int failed = runner->operations->device->download(runner->device, owner->arena, runner->placed->arena,
                                                      owner->arena_size);
    return failed ? zest_model_no_scratch(runner, error) : ZEST_OK;
}

zest_status zest_model_send(zest_model_runner *runner, zest_error *error) {
    const zest_model *owner = runner->owner;
    if (!runner->device) return ZEST_OK;
    int failed = runner->operations->device->upload(runner->device, runner->placed->arena, owner->arena,
                                                    owner->arena_size);
    return failed ? zest_model_no_scratch(runner, error) : ZEST_OK;
}
