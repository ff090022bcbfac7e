/* Opening a model, or a run at one of its steps. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lm/target.h"
#include "train/rebuild.h"

/* The options of the run, with those that were given on top. */
static zest_status run_options(zest_target *target, const zest_run_folder *folder, const zest_options *given,
                               zest_error *error) {
    zest_status status = zest_run_folder_read_options(folder, ZEST_FOR_TRAINING, &target->options, error);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (zest_options_given(given, (zest_option_id)id))
            status = zest_options_set_id(&target->options, (zest_option_id)id,
                                         zest_options_text(given, (zest_option_id)id), error);
    return status;
}

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
    zest_status status = run_options(target, folder, given, error);
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

zest_status zest_target_open(zest_ctx *ctx, zest_target *target, const char *path, const zest_options *given,
                             const zest_target_callbacks *callbacks, zest_error *error) {
    zest_run_folder folder;
    *target = (zest_target){0};
    zest_options_init(&target->options);
    zest_status status = zest_run_folder_of(path, &folder, error);
    if (status) return status;
    target->is_run = !zest_target_is_model(path) && zest_run_folder_is_training(&folder);
    status = target->is_run ? open_run(ctx, target, &folder, given, callbacks, error)
                            : open_model(target, path, given, error);
    zest_run_folder_free(&folder);
    return status;
}

void zest_target_close(zest_target *target) {
    zest_load_free(&target->loaded);
    zest_inputs_free(&target->inputs);
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
