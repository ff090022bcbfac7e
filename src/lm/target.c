/* Opening a model, or a run at one of its steps. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lm/target.h"
#include "optim/context.h"
#include "train/rebuild.h"

/* What the run was made from. A task that was given is used instead of the run's own. */
static zest_status read_inputs(zest_target *target, const zest_run_folder *folder, const zest_options *given,
                               const zest_target_callbacks *callbacks, zest_error *error) {
    zest_buffer notes = {0};
    zest_status status = zest_inputs_read(&target->inputs, folder, error);
    if (status) return status;
    target->inputs.allow_changed = (int)zest_options_whole(given, ZEST_OPTION_ALLOW_CHANGED);
    target->inputs.other_task = zest_options_given(given, ZEST_OPTION_TASK);
    zest_inputs_notes(&target->inputs, folder, zest_options_text(&target->options, ZEST_OPTION_TASK), &notes);
    if (notes.data && !notes.failed && callbacks->note) callbacks->note(notes.data, callbacks->user);
    zest_buffer_free(&notes);
    return ZEST_OK;
}

static zest_status open_run(zest_ctx *ctx, zest_target *target, const zest_run_folder *folder,
                            const zest_options *given, const zest_target_callbacks *callbacks,
                            zest_error *error) {
    zest_status status = zest_run_folder_merge_options(folder, given, &target->options, error);
    if (!status) status = read_inputs(target, folder, given, callbacks, error);
    return status
               ? status
               : zest_rebuild_run(ctx, folder, &target->options, zest_options_text(given, ZEST_OPTION_STEP),
                                  &callbacks->rebuild, &target->step, &target->loaded, error);
}

static zest_status open_model(zest_target *target, const char *path, const zest_options *given,
                              zest_error *error) {
    const char *home = zest_options_text(given, ZEST_OPTION_MODEL);
    zest_status status = zest_options_copy(&target->options, given, error);
    if (!status) status = zest_load_model(&target->loaded, path, *home ? home : NULL, given, error);
    if (!status)
        status = zest_load_resolve_defaults(&target->options, target->loaded.model->config.causal, error);
    return status;
}

/* What rank 0 has sent: the options and inputs of a run, and a model that the weights are sent to. */
static zest_status open_sent(zest_target *target, const zest_options *given,
                             const zest_target_callbacks *callbacks, zest_error *error) {
    const zest_broadcast *sent = &target->sent;
    zest_run_folder folder = {0};
    zest_status status = sent->run ? zest_run_folder_of(sent->run, &folder, error) : ZEST_OK;
    if (!status)
        status = sent->run ? zest_run_folder_merge_options(&folder, given, &target->options, error)
                           : zest_options_copy(&target->options, given, error);
    if (!status && sent->run) status = read_inputs(target, &folder, given, callbacks, error);
    if (!status) status = zest_broadcast_redirect(sent, &target->options, error);
    if (!status) status = zest_load_blank(&target->loaded, sent->home, &target->options, error);
    if (!status && !sent->run)
        status = zest_load_resolve_defaults(&target->options, target->loaded.model->config.causal, error);
    zest_run_folder_free(&folder);
    return status;
}

/* The weights of rank 0, and of which step they are. */
static zest_status send_loaded(zest_comm *comm, zest_target *target, zest_status status, zest_error *error) {
    double timeout = comm->timeout;
    comm->timeout = 0; /* rank 0 may have steps to replay */
    status = zest_comm_agree(comm, status, error);
    comm->timeout = timeout;
    if (!status) status = comm->table->broadcast(comm, &target->step, sizeof target->step, 0, error);
    return status ? status : zest_broadcast_weights(comm, &target->loaded, 1, error);
}

zest_status zest_target_open(zest_ctx *ctx, zest_target *target, const char *path, const zest_options *given,
                             const zest_target_callbacks *callbacks, zest_error *error) {
    zest_run_folder folder;
    *target = (zest_target){0};
    zest_options_init(&target->options);
    zest_status status = zest_broadcast_files(ctx->comm, path, given, &target->sent, error);
    if (!status) status = zest_run_folder_of(path, &folder, error);
    if (status) return status;
    target->is_run = target->sent.folder
                         ? target->sent.run != NULL
                         : !zest_target_is_model(path) && zest_run_folder_is_training(&folder);
    if (target->sent.folder)
        status = open_sent(target, given, callbacks, error);
    else
        status = target->is_run ? open_run(ctx, target, &folder, given, callbacks, error)
                                : open_model(target, path, given, error);
    zest_run_folder_free(&folder);
    return target->sent.used ? send_loaded(ctx->comm, target, status, error) : status;
}

void zest_target_close(zest_target *target) {
    zest_load_free(&target->loaded);
    zest_inputs_free(&target->inputs);
    zest_broadcast_free(&target->sent);
    zest_options_free(&target->options);
}

int zest_target_is_model(const char *path) {
    size_t length = strlen(path);
    if (length > 5 && !strcmp(path + length - 5, ".gguf")) return 1;
    char *config = zest_file_join(path, "config.json");
    int found = config && access(config, F_OK) == 0;
    free(config);
    return found;
}
