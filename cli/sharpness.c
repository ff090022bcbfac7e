/* zest sharpness: how flat the loss is around the weights of runs or models. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/sharpness.h"
#include "cli/subject.h"
#include "models/freeze.h"

typedef struct {
    zest_progress progress;
    const char *what;
    const char *name;
} watch;

static void tell(void *user, const char *what, double done, double all) {
    watch *w = user;
    char left[32];
    if (w->what != what) { /* another stretch, another speed */
        zest_progress fresh = w->progress;
        zest_progress_begin(&fresh, !w->progress.active);
        fresh.shown = w->progress.shown;
        w->progress = fresh;
        w->what = what;
    }
    if (zest_progress_due(&w->progress))
        zest_progress_show(&w->progress, "%s: %s, %.0f of %.0f passes, %s left", w->name, what, done, all,
                           zest_progress_left(&w->progress, done, all, left, sizeof left));
}

/* ---- One model ---- */

/* The tensors that were asked for on the command line. A run is rebuilt with its own, so these come later. */
static zest_status restrict_to(const zest_options *given, zest_loaded *loaded, const zest_options *options,
                               zest_error *error) {
    const char *only = zest_options_text(given, ZEST_OPTION_TRAIN_ONLY),
               *not_these = zest_options_text(given, ZEST_OPTION_FREEZE);
    if (!*only && !*not_these) return ZEST_OK;
    zest_model_runner_options how = zest_load_runner_options(options);
    zest_model_runner_free(loaded->runner);
    loaded->runner = NULL;
    zest_status status = zest_freeze(loaded->model, only, not_these, error);
    return status ? status : zest_model_open_runner(loaded->model, &how, &loaded->runner, error);
}

static zest_status open_subject(zest_subject *subject, const char *path, const zest_options *given,
                                zest_error *error) {
    zest_options own;
    *subject = (zest_subject){0};
    zest_options_init(&subject->options);
    zest_status status = zest_options_copy(&own, given, error);
    if (status) return status;
    static const zest_option_id later[] = {ZEST_OPTION_TRAIN_ONLY, ZEST_OPTION_FREEZE};
    for (size_t i = 0; i < 2 && !status; i++) {
        status = zest_options_set_id(&own, later[i], "", error);
        own.given[later[i]] = 0;
    }
    if (!status) status = zest_subject_open(subject, path, &own, error);
    if (!status) status = restrict_to(given, &subject->loaded, &subject->options, error);
    zest_options_free(&own);
    return status;
}

static zest_status measure(const zest_subject *subject, const zest_examples *examples,
                           const zest_options *given, const zest_sharpness_plan *plan, watch *w,
                           zest_sharpness_found *found, zest_error *error) {
    zest_measure *m = NULL;
    zest_measure_options options = {
        .loaded = &subject->loaded,
        .examples = examples,
        .most = (size_t)zest_options_whole(given, ZEST_OPTION_EXAMPLES),
        .seed = plan->seed,
        .compute = (zest_compute)zest_options_whole(given, ZEST_OPTION_COMPUTE),
        .threads = plan->threads,
        .stop = zest_interrupt_catch(),
        .tell = tell,
        .user = w,
    };
    zest_status status = zest_measure_new(&options, &m, error);
    if (!status) status = zest_sharpness_measure(plan, m, &subject->loaded, found, error);
    zest_measure_free(m);
    return status;
}

/* RUN/sharpness.json, where `zest report` looks for it. */
static zest_status keep(const zest_sharpness_found *found, const char *folder, zest_error *error) {
    json_t *object = zest_sharpness_json(found, NULL);
    char *text = object ? json_dumps(object, JSON_REAL_PRECISION(17) | JSON_INDENT(1)) : NULL,
         *path = zest_file_join(folder, "sharpness.json");
    zest_status status = text && path ? zest_file_write(path, text, strlen(text), error)
                                      : zest_error_memory(error, "sharpness.json", 0);
    json_decref(object);
    free(text);
    free(path);
    return status;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static zest_status look_at(const char *path, const zest_options *given, const zest_sharpness_plan *plan,
                           watch *w, zest_sharpness_found *found, char **task, zest_error *error) {
    zest_subject subject;
    zest_loaded_data data = {0};
    zest_task_part part = (zest_task_part)zest_options_whole(given, ZEST_OPTION_SPLIT);
    *found = (zest_sharpness_found){
        .path = path, .name = last_part(path), .split = zest_options_text(given, ZEST_OPTION_SPLIT)};
    w->name = found->name;
    zest_status status = open_subject(&subject, path, given, error);
    if (!status) status = zest_load_data(&data, &subject.options, &subject.loaded, 1u << part, error);
    if (!status) {
        *task = strdup(data.task.name);
        if (!*task) status = zest_error_memory(error, "a name", 0);
    }
    if (!status) {
        found->task = *task;
        found->is_run = subject.is_run;
        found->step = subject.step;
        status = measure(&subject, &data.parts[part], given, plan, w, found, error);
    }
    if (!status && subject.is_run) {
        zest_folder folder;
        status = zest_folder_of(path, &folder, error);
        if (!status) status = keep(found, folder.path, error);
        if (!status) zest_folder_free(&folder);
    }
    zest_load_free_data(&data);
    zest_subject_close(&subject);
    return status;
}

/* ---- All of them ---- */

static zest_status make_plan(const zest_options *o, zest_sharpness_plan *plan, double **radii,
                             zest_error *error) {
    *plan = (zest_sharpness_plan){
        .samples = (size_t)zest_options_whole(o, ZEST_OPTION_SAMPLES),
        .distribution = (zest_distribution)zest_options_whole(o, ZEST_OPTION_DISTRIBUTION),
        .t = zest_options_number(o, ZEST_OPTION_T),
        .seed = zest_options_whole(o, ZEST_OPTION_SAMPLE_SEED),
        .antithetic = (int)zest_options_whole(o, ZEST_OPTION_ANTITHETIC),
        .top = (size_t)zest_options_whole(o, ZEST_OPTION_TOP),
        .lanczos_steps = (size_t)zest_options_whole(o, ZEST_OPTION_LANCZOS_STEPS),
        .trace_samples = (size_t)zest_options_whole(o, ZEST_OPTION_TRACE_SAMPLES),
        .difference_step = zest_options_number(o, ZEST_OPTION_DIFFERENCE_STEP),
        .forward_only = (int)zest_options_whole(o, ZEST_OPTION_FORWARD_ONLY),
        .slice = (int)zest_options_whole(o, ZEST_OPTION_SLICE),
        .seeded = (int)zest_options_whole(o, ZEST_OPTION_ALONG),
        .points = (size_t)zest_options_whole(o, ZEST_OPTION_POINTS),
        .span = zest_options_number(o, ZEST_OPTION_SPAN),
        .threads = (int)zest_options_whole(o, ZEST_OPTION_THREADS),
    };
    zest_status status = zest_options_list(o, ZEST_OPTION_RADII, radii, &plan->radius_count, error);
    plan->radii = *radii;
    return status;
}

/* FILE.svg, and FILE-slice.svg when there are slices. */
static zest_status draw(const zest_sharpness_series *series, size_t count, const char *path,
                        zest_error *error) {
    zest_plot *plot = zest_sharpness_figure(series, count), *slices = zest_sharpness_slices(series, count);
    zest_buffer second = {0};
    size_t stem = strlen(path);
    if (stem > 4 && !strcmp(path + stem - 4, ".svg")) stem -= 4;
    zest_buffer_add(&second, path, stem);
    zest_buffer_text(&second, "-slice.svg");
    zest_status status = plot && !second.failed ? zest_plot_write(plot, path, error)
                                                : zest_error_memory(error, "the figure", 0);
    if (!status && slices) status = zest_plot_write(slices, second.data, error);
    zest_buffer_free(&second);
    zest_plot_free(plot);
    zest_plot_free(slices);
    return status;
}

static int report(const zest_options *options, const zest_sharpness_found *found, size_t count) {
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_error error = {0};
    zest_status status = ZEST_OK;
    json_t *models = json_array();
    zest_sharpness_series *series = calloc(count, sizeof *series);
    if (!models || !series) status = zest_error_memory(&error, "results", count * sizeof *series);
    for (size_t i = 0; i < count && !status; i++) {
        json_t *one = zest_sharpness_json(&found[i], &found[0]);
        if (!one || json_array_append_new(models, one)) status = zest_error_memory(&error, "results", 0);
        series[i] = (zest_sharpness_series){one, found[i].name, 1 + (int)(i % (ZEST_PLOT_COLOURS - 1))};
    }
    if (!status && *out) status = draw(series, count, out, &error);
    free(series);
    if (status) {
        json_decref(models);
        return zest_output_fail(status, error.message);
    }
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack("{s:o}", "models", models));
    json_decref(models);
    zest_sharpness_print(found, count, stdout);
    return fflush(stdout) ? zest_output_fail(ZEST_ERROR_FILE, "standard output cannot be written")
                          : ZEST_EXIT_OK;
}

static int run(const zest_options *options, char **words, int count) {
    zest_error error = {0};
    zest_sharpness_plan plan;
    double *radii = NULL;
    watch w = {0};
    zest_sharpness_found *found = calloc((size_t)count, sizeof *found);
    char **tasks = calloc((size_t)count, sizeof *tasks);
    zest_status status =
        found && tasks ? make_plan(options, &plan, &radii, &error) : zest_error_memory(&error, "results", 0);
    zest_progress_begin(&w.progress, (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    for (int i = 0; i < count && !status; i++)
        status = look_at(words[i], options, &plan, &w, &found[i], &tasks[i], &error);
    zest_progress_end(&w.progress);
    int code = status ? zest_output_fail(status, error.message) : report(options, found, (size_t)count);
    for (int i = 0; i < count && found && tasks; i++) {
        zest_sharpness_free(&found[i]);
        free(tasks[i]);
    }
    free(found);
    free(tasks);
    free(radii);
    return code;
}

const zest_command zest_command_sharpness = {
    .name = "sharpness",
    .words = "RUN|MODEL...",
    .least = 1,
    .most = 64,
    .summary = "how flat the loss is around the weights of runs or models",
    .description =
        "Perturbs the weights --samples times at each of the --radii and prints the mean loss, its standard "
        "deviation, the largest loss and the tilted loss F_t; then the largest eigenvalues of the Hessian "
        "(Lanczos's process on differences of gradients, with residuals) and its trace (Hutchinson's "
        "estimate). "
        "All intervals are 95 %. Several runs or models are perturbed alike, and differences are those of "
        "pairs.\n\n"
        "A radius is the length of a perturbation, |e| = rho sqrt(d), exactly so with --distribution sphere "
        "and "
        "rademacher, at most so with ball, and as the root of the mean square with gaussian; rho, the size "
        "in one "
        "coordinate, is printed beside it.\n\n"
        "Examples, task and step are chosen as for eval; the loss is the one that training minimises, by "
        "default "
        "on training examples. What is found about a run is kept as sharpness.json in its folder, where "
        "`zest "
        "report` finds it.",
    .examples =
        "zest sharpness run1 run2 --out sharpness.svg\tthe best weights of two runs, and a figure\n"
        "zest sharpness run1 --step 0 --top 10 --lanczos-steps 60\tmore eigenvalues, at the start\n"
        "zest sharpness roberta-base --task SST-2 --data data --forward-only\tlosses alone\n"
        "zest sharpness run1 --slice 2 --out around.svg\ta plane through the weights, around-slice.svg",
    .defaults = "seed=42 step=best split=train samples=500",
    .users = ZEST_FOR_SHARPNESS,
    .run = run,
};
