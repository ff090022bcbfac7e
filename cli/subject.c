#include "cli/subject.h"

#include "cli/model.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "run/rebuild.h"

/* The options of the run, with those given on the command line on top. */
static zest_status run_options(zest_subject *subject, const zest_folder *folder, const zest_options *given,
                               zest_error *error) {
    zest_status status = zest_folder_read_options(folder, ZEST_FOR_TRAINING, &subject->options, error);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (zest_options_given(given, (zest_option_id)id))
            status = zest_options_set_id(&subject->options, (zest_option_id)id,
                                         zest_options_text(given, (zest_option_id)id), error);
    return status;
}

/* What the run was made from. A task given on the command line is used instead of the run's own. */
static zest_status read_inputs(zest_subject *subject, const zest_folder *folder, const zest_options *given,
                               zest_error *error) {
    zest_buffer notes = {0};
    zest_status status = zest_inputs_read(&subject->inputs, folder, error);
    if (status) return status;
    subject->inputs.allow_changed = (int)zest_options_whole(given, ZEST_OPTION_ALLOW_CHANGED);
    subject->inputs.other_task = zest_options_given(given, ZEST_OPTION_TASK);
    zest_inputs_notes(&subject->inputs, folder, zest_options_text(&subject->options, ZEST_OPTION_TASK),
                      &notes);
    if (notes.data && !notes.failed && !zest_options_whole(given, ZEST_OPTION_QUIET))
        zest_output_notes(notes.data);
    zest_buffer_free(&notes);
    return ZEST_OK;
}

static zest_status open_run(zest_subject *subject, const zest_folder *folder, const zest_options *given,
                            zest_error *error) {
    zest_status status = run_options(subject, folder, given, error);
    if (!status) status = read_inputs(subject, folder, given, error);
    if (status) return status;
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) return zest_error_memory(error, "a context", 0);
    zest_progress progress;
    zest_progress_begin(&progress, "rebuild", "steps", (int)zest_options_whole(given, ZEST_OPTION_QUIET));
    zest_progress_callback watch = zest_progress_sink(&progress);
    status =
        zest_rebuild_run_watched(ctx, folder, &subject->options, zest_options_text(given, ZEST_OPTION_STEP),
                                 &watch, &subject->step, &subject->loaded, error);
    zest_progress_end(&progress);
    zest_ctx_free(ctx);
    return status;
}

static zest_status open_model(zest_subject *subject, const char *path, const zest_options *given,
                              zest_error *error) {
    const char *home = zest_options_text(given, ZEST_OPTION_MODEL);
    zest_status status = zest_options_copy(&subject->options, given, error);
    if (!status) status = zest_load_model(&subject->loaded, path, *home ? home : NULL, given, error);
    if (!status) status = zest_load_settle(&subject->options, subject->loaded.model->is.causal, error);
    return status;
}

zest_status zest_subject_open(zest_subject *subject, const char *path, const zest_options *given,
                              zest_error *error) {
    zest_folder folder;
    *subject = (zest_subject){0};
    zest_options_init(&subject->options);
    zest_status status = zest_folder_of(path, &folder, error);
    if (status) return status;
    subject->is_run = !zest_cli_model_is(path) && zest_folder_is_training(&folder);
    status =
        subject->is_run ? open_run(subject, &folder, given, error) : open_model(subject, path, given, error);
    zest_folder_free(&folder);
    return status;
}

void zest_subject_close(zest_subject *subject) {
    zest_load_free(&subject->loaded);
    zest_inputs_free(&subject->inputs);
    zest_options_free(&subject->options);
}
