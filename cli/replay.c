/* zest replay: the point of a run at any of its steps, rebuilt from its start and its journal. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/progress.h"
#include "train/checkpoint.h"
#include "train/rebuild.h"
#include "base/file.h"

/* ---- Vectors: runs of zest minimize ---- */

static int print(const zest_options *options, uint64_t step, const double *x, size_t n) {
    if (zest_options_whole(options, ZEST_OPTION_JSON)) {
        json_t *point = json_array();
        for (size_t i = 0; i < n; i++) zest_output_append(&point, zest_output_real(x[i]));
        return zest_output_json(json_pack("{s:I, s:o}", "step", (json_int_t)step, "x", point));
    }
    for (size_t i = 0; i < n; i++) printf("%.17g\n", x[i]);
    return ZEST_EXIT_OK;
}

static int rebuild(zest_ctx *ctx, const zest_options *options, const zest_run_folder *folder) {
    zest_error error = {0};
    double *x = NULL;
    size_t n = 0;
    uint64_t step = 0;
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_journal *journal = zest_journal_open(ctx, folder->journal);
    if (!journal) return zest_output_fail(ZEST_ERROR_FORMAT, zest_ctx_error(ctx));
    zest_status status =
        zest_rebuild_step(folder, journal, zest_options_text(options, ZEST_OPTION_STEP), &step, &error);
    if (!status && access(folder->start, R_OK))
        status = zest_error_set(&error, ZEST_ERROR_FILE,
                                "%s: its starting point, a file called start beside it, is missing",
                                folder->journal);
    if (!status) status = zest_file_read_numbers(folder->start, &x, &n, &error);
    if (!status) {
        status = zest_journal_replay_f64(journal, step, x, n);
        if (status) zest_error_set(&error, status, "%s", zest_ctx_error(ctx));
    }
    if (!status && *out) status = zest_file_write_numbers(out, x, n, &error);
    int code = status ? zest_output_fail(status, error.message) : ZEST_EXIT_OK;
    if (!status && (!*out || zest_options_whole(options, ZEST_OPTION_JSON)))
        code = print(options, step, x, n);
    free(x);
    zest_journal_close(journal);
    return code;
}

/* ---- Models: runs of zest train ---- */

static int print_model(const zest_options *options, const zest_model *model, uint64_t step) {
    char print[32];
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    snprintf(print, sizeof print, "%016llx", (unsigned long long)zest_params_fingerprint(&model->params));
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack("{s:I, s:s, s:o}", "step", (json_int_t)step, "fingerprint", print,
                                          "out", zest_output_string(out)));
    printf("step %llu, fingerprint of the trained weights %s\n", (unsigned long long)step, print);
    if (*out) zest_output_print("model in %s\n", out);
    return ZEST_EXIT_OK;
}

/* The model that the run started from is what all its steps need: it is not written over. */
static zest_status check_target(const char *out, const char *model, zest_error *error) {
    struct stat there, start;
    if (stat(out, &there) || stat(model, &start) || there.st_dev != start.st_dev ||
        there.st_ino != start.st_ino)
        return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "--out %s: is the model that the run started from; choose another folder", out);
}

static int rebuild_model(zest_ctx *ctx, const zest_options *options, const zest_run_folder *folder) {
    zest_error error = {0};
    zest_options run;
    zest_loaded loaded = {0};
    uint64_t step = 0;
    const char *out = zest_options_text(options, ZEST_OPTION_OUT),
               *model = zest_options_text(options, ZEST_OPTION_MODEL);
    zest_progress progress;
    zest_progress_begin(&progress, "replay", "steps", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_progress_callback watch = zest_progress_sink(&progress);
    zest_status status = zest_run_folder_read_options(folder, ZEST_FOR_TRAINING, &run, &error);
    if (status) return zest_output_fail(status, error.message);
    if (*model) status = zest_options_set_id(&run, ZEST_OPTION_MODEL, model, &error);
    if (!status)
        status = zest_options_set_id(&run, ZEST_OPTION_ALLOW_CHANGED,
                                     zest_options_text(options, ZEST_OPTION_ALLOW_CHANGED), &error);
    if (!status)
        status = zest_rebuild_run(ctx, folder, &run, zest_options_text(options, ZEST_OPTION_STEP), &watch,
                                  &step, &loaded, &error);
    zest_progress_end(&progress);
    if (!status && *out) status = check_target(out, zest_options_text(&run, ZEST_OPTION_MODEL), &error);
    if (!status && *out) status = zest_checkpoint_write(out, &loaded, step, NULL, &error);
    int code = status ? zest_output_fail(status, error.message) : print_model(options, loaded.model, step);
    zest_load_free(&loaded);
    zest_options_free(&run);
    return code;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_run_folder folder;
    zest_status status = zest_run_folder_of(words[0], &folder, &error);
    if (status) return zest_output_fail(status, error.message);
    zest_ctx *ctx = zest_output_context();
    int code = ZEST_EXIT_FAILURE;
    if (ctx && zest_run_folder_is_training(&folder))
        code = rebuild_model(ctx, options, &folder);
    else if (ctx)
        code = rebuild(ctx, options, &folder);
    zest_ctx_free(ctx);
    zest_run_folder_free(&folder);
    return code;
}

const zest_command zest_command_replay = {
    .name = "replay",
    .words = "RUN",
    .min_words = 1,
    .max_words = 1,
    .summary = "rebuild the weights of any step of a run, bit for bit",
    .description =
        "Takes the steps of a run again from its journal, without evaluating anything, from its start or "
        "from a checkpoint before the step. Works on any machine and gives the same bits.\n\n"
        "A run of `zest train` gives a model: --out DIR writes it as a Hugging Face folder; the fingerprint "
        "tells whether two machines have the same. If the model that the run started from is elsewhere now, "
        "--model says where. A run of `zest minimize` gives x, printed or written to --out.",
    .examples = "zest replay run1 --step 100 --out model-100\tthe model after 100 steps\n"
                "zest replay run1 --step 0\tundone: the starting point",
    .options = "model\twhere the run's model is now, if it was moved\n"
               "out\twrite the model as a Hugging Face folder, or x as a text file",
    .defaults = "",
    .users = ZEST_FOR_REPLAY,
    .run = run,
};
