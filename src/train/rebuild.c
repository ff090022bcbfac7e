/* The weights of a run at any step: from a checkpoint or the start, by replaying the journal. */
#include "train/rebuild.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "optim/context.h"
#include "model/forward_pass.h"
#include "train/checkpoint.h"

/* Loads the latest checkpoint at or before the step whose weights match their fingerprint; 0: none. */
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
        zest_status status = zest_load_checkpoint(loaded, folders[which], job->options, &ignored);
        if (!status && loaded->model->params.dimension == job->journal->dimension &&
            zest_params_fingerprint(&loaded->model->params) == prints[which]) {
            *at = steps[which];
            return 1;
        }
        zest_load_free(loaded);
    }
    return 0;
}

/* ---- The start ---- */

static zest_status read_inputs(const zest_run_folder *folder, const zest_options *options,
                               zest_inputs *inputs, zest_error *error) {
    zest_status status = zest_inputs_read(inputs, folder, error);
    inputs->allow_changed = (int)zest_options_whole(options, ZEST_OPTION_ALLOW_CHANGED);
    return status;
}

/* Loads the model that the run started from, if it is unchanged. */
static zest_status open_start(const zest_run_folder *folder, const zest_options *options,
                              const zest_journal *journal, zest_loaded *loaded, zest_error *error) {
    const char *path = zest_options_text(options, ZEST_OPTION_MODEL);
    zest_inputs inputs;
    zest_status status = read_inputs(folder, options, &inputs, error);
    if (!status) status = zest_inputs_check_model(&inputs, path, error);
    if (!status) status = zest_load_start(loaded, options, error);
    if (!status) status = zest_journal_check_start(journal, &loaded->model->params, error);
    if (!status) status = zest_inputs_check_frozen(&inputs, path, loaded->model, error);
    zest_inputs_free(&inputs);
    return status;
}

/* A checkpoint without a tokenizer reads text with that of the start. */
static zest_status check_tokenizer(const zest_run_folder *folder, const zest_options *options,
                                   const zest_loaded *loaded, zest_error *error) {
    zest_inputs inputs;
    if (!loaded->home_tokenizer) return ZEST_OK;
    zest_status status = read_inputs(folder, options, &inputs, error);
    if (!status)
        status = zest_inputs_check_model(&inputs, zest_options_text(options, ZEST_OPTION_MODEL), error);
    zest_inputs_free(&inputs);
    return status;
}

/* ---- Steps ---- */

/* Replays the steps after `at`, up to `step`. */
static zest_status replay(const zest_rebuild_job *job, uint64_t at, uint64_t step, zest_loaded *loaded,
                          zest_error *error) {
    zest_step_storage storage = zest_load_storage(loaded);
    zest_step taken = {0};
    zest_status status =
        zest_step_init(&taken, job->journal->ctx->ops, &job->journal->options, job->journal->format, error);
    if (!status && at < step) status = zest_rebuild_inputs(job->folder, job->journal, loaded, error);
    taken.threads = (int)zest_options_whole(job->options, ZEST_OPTION_THREADS);
    if (!status) status = zest_journal_recall(job->journal, at, &taken, error);
    while (at < step && !status) {
        zest_record record;
        zest_tilt_report report;
        status = zest_journal_read(job->journal, ++at, &record);
        if (status)
            status = zest_error_set(error, status, "%s", zest_ctx_error(job->journal->ctx));
        else
            status = zest_step_replay(&taken, &record, &storage, &report, error);
        zest_progress_call(&job->progress, at, step);
    }
    zest_step_free(&taken);
    return status;
}

zest_status zest_rebuild(const zest_rebuild_job *job, uint64_t step, zest_loaded *loaded, zest_error *error) {
    uint64_t at = 0;
    zest_status status;
    *loaded = (zest_loaded){0};
    status = start_from_checkpoint(job, step, loaded, &at)
                 ? check_tokenizer(job->folder, job->options, loaded, error)
                 : open_start(job->folder, job->options, job->journal, loaded, error);
    if (!status) status = replay(job, at, step, loaded, error);
    return status ? status : zest_model_download(loaded->runner, error);
}

enum { RESULT_LIMIT = 1 << 20 };

/* A finished run says which step was the best, whether its weights are still there or not. */
static int read_best_step(const zest_run_folder *folder, uint64_t *step) {
    json_t *result;
    if (zest_json_read(folder->result, RESULT_LIMIT, &result, NULL)) return 0;
    const json_t *best = json_object_get(result, "best_step");
    int known = json_is_integer(best) && json_integer_value(best) >= 0;
    if (known) *step = (uint64_t)json_integer_value(best);
    json_decref(result);
    return known;
}

zest_status zest_rebuild_step(const zest_run_folder *folder, const zest_journal *journal, const char *text,
                              uint64_t *step, zest_error *error) {
    uint64_t last = zest_journal_steps(journal), print;
    char *end;
    if (!strcmp(text, "last")) return *step = last, ZEST_OK;
    if (!strcmp(text, "best")) {
        if (zest_checkpoint_read(folder->best, step, &print) && *step <= last) return ZEST_OK;
        if (read_best_step(folder, step) && *step <= last) return ZEST_OK;
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

/* ---- First-order runs ---- */

static zest_status not_kept(const zest_run_folder *folder, const char *text, zest_error *error) {
    uint64_t best, last;
    char kept[96] = "";
    int used = 0;
    if (zest_checkpoint_step(folder->best, &best))
        used = snprintf(kept, sizeof kept, ", best (%llu)", (unsigned long long)best);
    if (zest_checkpoint_step(folder->last, &last))
        snprintf(kept + used, sizeof kept - (size_t)used, ", last (%llu)", (unsigned long long)last);
    return zest_error_set(error, ZEST_ERROR_STATE,
                          "%s: there are no weights of step %s. A run with gradients records no steps, so "
                          "it has the weights of its checkpoints only: 0%s",
                          folder->path, text, kept);
}

zest_status zest_rebuild_checkpoint(const zest_run_folder *folder, const zest_options *options,
                                    const zest_journal *journal, const char *text, uint64_t *step,
                                    zest_loaded *loaded, zest_error *error) {
    const char *const names[] = {folder->last, folder->best};
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    int by_number = isdigit((unsigned char)*text) && !*end;
    *loaded = (zest_loaded){0};
    for (int i = 0; i < 2; i++) {
        zest_checkpoint checkpoint;
        uint64_t at;
        if (by_number ? !zest_checkpoint_step(names[i], &at) || at != number
                      : strcmp(text, i ? "best" : "last"))
            continue;
        zest_status status = zest_checkpoint_load(names[i], options, loaded, &checkpoint, error);
        int found = checkpoint.path != NULL;
        *step = checkpoint.step;
        zest_checkpoint_free(&checkpoint);
        if (status) return status;
        if (found && loaded->model->params.dimension == journal->dimension && (!by_number || *step == number))
            return check_tokenizer(folder, options, loaded, error);
        zest_load_free(loaded);
    }
    if (!by_number || number) return not_kept(folder, text, error);
    *step = 0;
    return open_start(folder, options, journal, loaded, error);
}

static zest_status rebuild_recorded(const zest_rebuild_job *job, const char *step_text, uint64_t *step,
                                    zest_loaded *loaded, zest_error *error) {
    zest_status status = zest_rebuild_step(job->folder, job->journal, step_text, step, error);
    return status ? status : zest_rebuild(job, *step, loaded, error);
}

zest_status zest_rebuild_run(zest_ctx *ctx, const zest_run_folder *folder, const zest_options *options,
                             const char *step_text, const zest_progress_callback *progress, uint64_t *step,
                             zest_loaded *loaded, zest_error *error) {
    *loaded = (zest_loaded){0};
    zest_journal *journal = zest_journal_open(ctx, folder->journal);
    if (!journal) return zest_error_set(error, ctx->error.status, "%s", ctx->error.message);
    zest_rebuild_job job = {.folder = folder, .options = options, .journal = journal};
    if (progress) job.progress = *progress;
    zest_status status = zest_run_check(folder, journal, error);
    if (!status)
        status = zest_options_first_order(options)
                     ? zest_rebuild_checkpoint(folder, options, journal, step_text, step, loaded, error)
                     : rebuild_recorded(&job, step_text, step, loaded, error);
    zest_journal_close(journal);
    return status;
}
