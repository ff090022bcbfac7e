#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/target.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "train/rebuild.h"
#include "base/file.h"
#include "io/hub.h"

/* The options of the run, with those given on the command line on top. */
static zest_status run_options(zest_target *subject, const zest_run_folder *folder, const zest_options *given,
                               zest_error *error) {
    zest_status status = zest_run_folder_read_options(folder, ZEST_FOR_TRAINING, &subject->options, error);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (zest_options_given(given, (zest_option_id)id))
            status = zest_options_set_id(&subject->options, (zest_option_id)id,
                                         zest_options_text(given, (zest_option_id)id), error);
    return status;
}

/* What the run was made from. A task given on the command line is used instead of the run's own. */
static zest_status read_inputs(zest_target *subject, const zest_run_folder *folder, const zest_options *given,
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

static zest_status open_run(zest_target *subject, const zest_run_folder *folder, const zest_options *given,
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

static zest_status open_model(zest_target *subject, const char *path, const zest_options *given,
                              zest_error *error) {
    const char *home = zest_options_text(given, ZEST_OPTION_MODEL);
    zest_status status = zest_options_copy(&subject->options, given, error);
    if (!status) status = zest_load_model(&subject->loaded, path, *home ? home : NULL, given, error);
    if (!status)
        status = zest_load_resolve_defaults(&subject->options, subject->loaded.model->config.causal, error);
    return status;
}

zest_status zest_target_open(zest_target *subject, const char *path, const zest_options *given,
                             zest_error *error) {
    zest_run_folder folder;
    *subject = (zest_target){0};
    zest_options_init(&subject->options);
    zest_status status = zest_run_folder_of(path, &folder, error);
    if (status) return status;
    subject->is_run = !zest_cli_model_is(path) && zest_run_folder_is_training(&folder);
    status =
        subject->is_run ? open_run(subject, &folder, given, error) : open_model(subject, path, given, error);
    zest_run_folder_free(&folder);
    return status;
}

void zest_target_close(zest_target *subject) {
    zest_load_free(&subject->loaded);
    zest_inputs_free(&subject->inputs);
    zest_options_free(&subject->options);
}

typedef struct {
    const char *name;
    double value;
} named;

enum { NAMED = 5 };

static void name_all(const zest_metrics *m, named out[NAMED]) {
    out[0] = (named){"accuracy", m->accuracy};
    out[1] = (named){"f1", m->f1};
    out[2] = (named){"em", m->em};
    out[3] = (named){"loss", m->loss};
    /* of plain text, which has a loss over its tokens and nothing else */
    out[4] = (named){"perplexity", isnan(m->accuracy) && isnan(m->f1) && isnan(m->em) ? exp(m->loss) : NAN};
}

void zest_metrics_print(const char *part, const char *metric, const zest_metrics *m, FILE *out) {
    named all[NAMED];
    if (!m->n) return;
    name_all(m, all);
    fprintf(out, "%-5s %s %.4f", part, metric, m->value);
    if (isfinite(m->low)) fprintf(out, " (%.4f to %.4f)", m->low, m->high);
    for (size_t i = 0; i < NAMED; i++)
        if (isfinite(all[i].value) && strcmp(all[i].name, metric))
            fprintf(out, "  %s %.4f", all[i].name, all[i].value);
    fprintf(out, "  n = %zu\n", m->n);
}

void zest_metrics_print_short(const zest_metrics *m, FILE *out) {
    named all[NAMED];
    name_all(m, all);
    fprintf(out, "dev");
    for (size_t i = 0; i < NAMED; i++)
        if (isfinite(all[i].value)) fprintf(out, "  %s %.4f", all[i].name, all[i].value);
}

json_t *zest_metrics_json(const zest_metrics *m) {
    named all[NAMED];
    if (!m->n) return json_null();
    json_t *object = json_pack("{s:I}", "n", (json_int_t)m->n);
    name_all(m, all);
    for (size_t i = 0; i < NAMED; i++)
        if (!isnan(all[i].value)) zest_output_set(&object, all[i].name, zest_output_real(all[i].value));
    zest_output_set(&object, "low", zest_output_real(m->low));
    zest_output_set(&object, "high", zest_output_real(m->high));
    return object;
}

static zest_status find_option(const zest_command *command, zest_options *options, zest_error *error) {
    const char *given = zest_options_text(options, ZEST_OPTION_MODEL);
    char *path = NULL;
    if (!*given || !(zest_option_row_at(ZEST_OPTION_MODEL)->users & command->users)) return ZEST_OK;
    zest_status status = zest_hub_find(given, &path, error);
    if (!status && strcmp(path, given)) status = zest_options_set_id(options, ZEST_OPTION_MODEL, path, error);
    free(path);
    return status;
}

zest_status zest_cli_model_find(const zest_command *command, zest_options *options,
                                const zest_arguments *arguments, char ***words, zest_error *error) {
    int models = strstr(command->words, "MODEL") != NULL;
    *words = calloc((size_t)arguments->count + 1, sizeof **words);
    if (!*words) return zest_error_memory(error, "the command line", 0);
    zest_status status = find_option(command, options, error);
    for (int i = 0; i < arguments->count && !status; i++) {
        const char *given = arguments->words[i];
        if (models)
            status = zest_hub_find(given, &(*words)[i], error);
        else if (!((*words)[i] = strdup(given)))
            status = zest_error_memory(error, given, strlen(given));
    }
    return status;
}

int zest_cli_model_is(const char *path) {
    size_t length = strlen(path);
    if (length > 5 && !strcmp(path + length - 5, ".gguf")) return 1;
    char *config = zest_file_join(path, "config.json");
    int found = config && access(config, F_OK) == 0;
    free(config);
    return found;
}
