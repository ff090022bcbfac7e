/* Option covariance=inputs:S: rows of the inputs of every matrix, of which its directions are made (model/input_rows.h).
 *
 * They are sampled once, at the start of a run: from one token of each of S training examples, those with which the
 * first epoch begins. From then on they are data of the run, not a function of it: RUN/covariance.safetensors has them,
 * the option has their fingerprint, and rank 0 sends them to the others. */
#include <stdlib.h>

#include "model/input_rows.h"
#include "optim/directions.h"
#include "train/trainer_internal.h"

static zest_status pass_over(zest_trainer *t, uint32_t which) {
    const zest_model_lane center = {.direction = {.gain = 1}, .scale = 0};
    zest_status status =
        zest_batch_make(&t->one, &t->data.parts[ZEST_PART_TRAIN], &which, 1, ZEST_BATCH_TRAIN, t->error);
    if (status) return status;
    const zest_model_objective *objective = &t->one.objective;
    double *losses = calloc(objective->items + objective->examples, sizeof *losses);
    if (!losses) return zest_error_memory(t->error, "the losses of an example", objective->items);
    status = zest_model_losses(t->loaded.runner, &center, 1, objective, losses, NULL, NULL, t->error);
    free(losses);
    return status;
}

static zest_status sample(zest_trainer *t, size_t most) {
    zest_input_capture capture;
    uint64_t seed = zest_options_whole(t->options, ZEST_OPTION_SEED);
    size_t examples = t->counts[ZEST_PART_TRAIN];
    zest_status status = zest_input_capture_begin(&capture, t->loaded.model, most, seed, t->error);
    if (status) return status;
    zest_permutation_fill(seed, 0, t->order, examples);
    t->loaded.runner->capture = &capture;
    for (size_t i = 0; i < most && !status; i++) {
        zest_input_capture_next(&capture, i);
        status = pass_over(t, t->order[i % examples]);
    }
    t->loaded.runner->capture = NULL;
    t->epoch = UINT64_MAX; /* the order is that of no epoch now */
    if (!status) status = zest_input_capture_end(&capture, t->error);
    zest_input_capture_free(&capture);
    return status;
}

zest_status zest_trainer_send_inputs(zest_trainer *t) {
    size_t most = zest_directions_of(t->options).inputs, count = 0;
    zest_model *model = t->loaded.model;
    if (!most || t->comm->ranks == 1) return ZEST_OK;
    zest_status status = zest_model_count_inputs(model, most, &count, t->error);
    float *rows = !status && t->comm->rank ? malloc((count + 1) * sizeof *rows) : NULL;
    if (!status && t->comm->rank && !rows)
        status = zest_error_memory(t->error, "rows of inputs", count * sizeof *rows);
    status = zest_comm_agree(t->comm, status, t->error);
    if (!status)
        status =
            zest_comm_broadcast_block(t->comm, rows ? rows : model->inputs, count * sizeof *rows, t->error);
    if (!status && rows) return zest_model_set_inputs(model, rows, most, t->error);
    free(rows);
    return status;
}

zest_status zest_trainer_start_inputs(zest_trainer *t) {
    size_t most = zest_directions_of(t->options).inputs;
    if (!most) return ZEST_OK;
    zest_status status = t->comm->rank ? ZEST_OK : sample(t, most);
    status = zest_comm_agree(t->comm, status, t->error);
    if (!status) status = zest_trainer_send_inputs(t);
    if (status) return status;
    return zest_directions_set_print(t->options, zest_model_print_inputs(t->loaded.model), t->error);
}

zest_status zest_rebuild_inputs(const zest_run_folder *folder, const zest_journal *journal,
                                zest_loaded *loaded, zest_error *error) {
    zest_directions directions = zest_directions_of(&journal->options);
    if (!directions.inputs || loaded->model->inputs) return ZEST_OK;
    return zest_model_load_inputs(loaded->model, directions.inputs, directions.print, folder->covariance,
                                  error);
}
