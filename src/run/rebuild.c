#include "run/rebuild.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "models/move.h"
#include "run/checkpoint.h"

/* A checkpoint keeps its types: what the run's options say was done when the run began. */
static zest_status load_checkpoint(const zest_rebuild_job *job, const char *folder, zest_loaded *loaded,
                                   zest_error *error) {
    zest_options as_stored;
    zest_status status = zest_options_copy(&as_stored, job->options, error);
    if (!status) status = zest_options_set_id(&as_stored, ZEST_OPTION_WEIGHTS, "stored", error);
    if (!status) status = zest_options_set_id(&as_stored, ZEST_OPTION_UNTIE_HEAD, "no", error);
    if (!status)
        status = zest_load_model(loaded, folder, zest_options_text(job->options, ZEST_OPTION_MODEL),
                                 &as_stored, error);
    zest_options_free(&as_stored);
    return status;
}

/* The latest of the run's checkpoints that is not behind the step and fits its note; 0: none. */
static int start_from_checkpoint(const zest_rebuild_job *job, uint64_t step, zest_loaded *loaded,
                                 uint64_t *at) {
    const char *folders[] = {job->folder->last, job->folder->best};
    uint64_t steps[2] = {0}, prints[2] = {0};
    int good[2];
    for (int i = 0; i < 2; i++)
        good[i] = zest_checkpoint_read(folders[i], &steps[i], &prints[i]) && steps[i] <= step;
    int first = good[1] && (!good[0] || steps[1] > steps[0]);
    for (int i = 0; i < 2; i++) {
        int which = i ? !first : first;
        zest_error ignored = {0};
        if (!good[which]) continue;
        zest_status status = load_checkpoint(job, folders[which], loaded, &ignored);
        if (!status && loaded->model->params.dimension == job->journal->dimension &&
            zest_params_fingerprint(&loaded->model->params) == prints[which]) {
            *at = steps[which];
            return 1;
        }
        zest_load_free(loaded);
    }
    return 0;
}

/* One step on record, taken again where the weights are. */
static zest_status redo(const zest_rebuild_job *job, uint64_t step, const zest_loaded *loaded,
                        zest_error *error) {
    zest_record record;
    zest_tilt_report report;
    zest_update update;
    zest_status status = zest_journal_read(job->journal, step, &record);
    if (status) return zest_error_set(error, status, "%s", zest_ctx_error(job->journal->ctx));
    status = zest_stepper_aim(job->stepper, step - 1, loaded->model->params.dimension, 0, error);
    if (status) return status;
    zest_stepper_tilt(job->stepper, record.losses, &report);
    if (!zest_stepper_update(job->stepper, record.lr, &report, &update)) return ZEST_OK;
    return zest_model_move(loaded->runner, &update, error);
}

zest_status zest_rebuild(const zest_rebuild_job *job, uint64_t step, zest_loaded *loaded, zest_error *error) {
    uint64_t at = 0;
    zest_status status = ZEST_OK;
    *loaded = (zest_loaded){0};
    if (!start_from_checkpoint(job, step, loaded, &at)) {
        const char *model = zest_options_text(job->options, ZEST_OPTION_MODEL);
        status = zest_load_model(loaded, model, NULL, job->options, error);
        if (!status) status = zest_journal_check_start(job->journal, &loaded->model->params, error);
    }
    while (at < step && !status) {
        status = redo(job, ++at, loaded, error);
        if (job->watch) job->watch(at, step, job->user);
    }
    return status ? status : zest_model_fetch(loaded->runner, error);
}

zest_status zest_rebuild_step(const zest_folder *folder, const zest_journal *journal, const char *text,
                              uint64_t *step, zest_error *error) {
    uint64_t last = zest_journal_steps(journal), print;
    char *end;
    if (!strcmp(text, "last")) return *step = last, ZEST_OK;
    if (!strcmp(text, "best")) {
        if (zest_checkpoint_read(folder->best, step, &print) && *step <= last) return ZEST_OK;
        return zest_error_set(error, ZEST_ERROR_FILE,
                              "%s: the run keeps no best weights yet; use --step last", folder->path);
    }
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || number > last)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--step takes a number from 0 to %llu for this run, 'last' or 'best'",
                              (unsigned long long)last);
    *step = number;
    return ZEST_OK;
}

zest_status zest_rebuild_run(zest_ctx *ctx, const zest_folder *folder, const zest_options *options,
                             const char *step_text, uint64_t *step, zest_loaded *loaded, zest_error *error) {
    zest_stepper stepper = {0};
    *loaded = (zest_loaded){0};
    zest_journal *journal = zest_journal_open(ctx, folder->journal);
    if (!journal) return zest_error_set(error, ctx->error.status, "%s", ctx->error.message);
    zest_rebuild_job job = {.folder = folder, .options = options, .journal = journal, .stepper = &stepper};
    zest_status status = zest_rebuild_step(folder, journal, step_text, step, error);
    if (!status) status = zest_stepper_init(&stepper, ctx->ops, &journal->options, error);
    if (!status) status = zest_rebuild(&job, *step, loaded, error);
    zest_stepper_free(&stepper);
    zest_journal_close(journal);
    return status;
}
