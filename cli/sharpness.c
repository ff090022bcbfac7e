/* zest sharpness: how flat the loss is around the weights of runs or models. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/target.h"
#include "io/hub.h"
#include "lab/sharpness/sharpness.h"
#include "lab/sharpness/sharpness_internal.h"
#include "model/model.h"
#include "train/run_folder.h"

/* One run or model, or a file with the result of one. */
typedef struct {
    zest_sharpness_found found;
    json_t *from_file;             /* content of the file; NULL: it was measured */
    char *task;                    /* memory of found.task */
    char repo[ZEST_HUB_REPO_SIZE]; /* name of a pulled model */
} sharpness_view;

/* State of the command. */
typedef struct {
    const zest_options *given;
    const zest_sharpness_plan *plan;
    const zest_sharpness_found *first; /* the first one measured, or NULL */
    zest_sharpness_cost *cost;         /* set: only the cost is estimated; or NULL */
    zest_progress progress;
    const char *what, *name;
} sharpness_state;

enum { MAX_FILE_SIZE = 64 << 20 };

static void report_progress(void *user, const char *what, double done, double all) {
    sharpness_state *l = user;
    if (l->what != what) zest_progress_stage(&l->progress, what, "passes", done);
    l->what = what;
    zest_progress_update(&l->progress, done, all, l->name);
}

/* ---- Opening ---- */

/* Selects the tensors given on the command line. A run is rebuilt with its own selection, so this comes
 * later. */
static zest_status restrict_to(const zest_options *given, zest_loaded *loaded, const zest_options *options,
                               zest_error *error) {
    const char *only = zest_options_text(given, ZEST_OPTION_TRAIN_ONLY),
               *not_these = zest_options_text(given, ZEST_OPTION_FREEZE);
    if (!*only && !*not_these) return ZEST_OK;
    zest_model_runner_options how = zest_load_runner_options(options);
    zest_model_runner_free(loaded->runner);
    loaded->runner = NULL;
    zest_status status = zest_model_select_trainable(loaded->model, only, not_these, error);
    return status ? status : zest_model_open_runner(loaded->model, &how, &loaded->runner, error);
}

static zest_status open_target(zest_target *target, const char *path, const zest_options *given,
                               zest_error *error) {
    zest_options local;
    *target = (zest_target){0};
    zest_options_init(&target->options);
    zest_status status = zest_options_copy(&local, given, error);
    if (status) return status;
    static const zest_option_id later[] = {ZEST_OPTION_TRAIN_ONLY, ZEST_OPTION_FREEZE};
    for (size_t i = 0; i < 2 && !status; i++) {
        status = zest_options_set_id(&local, later[i], "", error);
        local.given[later[i]] = 0;
    }
    if (!status) status = zest_cli_target_open(target, path, &local, error);
    if (!status) status = restrict_to(given, &target->loaded, &target->options, error);
    zest_options_free(&local);
    return status;
}

/* ---- Measurement ---- */

/* Models of one size use the difference steps of the first one, if two neighbouring steps agreed. That
 * saves the search; the check with half the step is made for each. */
static zest_sharpness_plan plan_like(const zest_sharpness_plan *plan, const zest_sharpness_found *first,
                                     uint64_t dimension) {
    zest_sharpness_plan local = *plan;
    if (!first || first->dimension != dimension) return local;
    if (first->top.count && first->top.disagreement <= ZEST_DIFFERENCE_STEP_AGREED)
        local.top_step = first->top.step;
    if (first->trace.probes && first->trace.disagreement <= ZEST_DIFFERENCE_STEP_AGREED &&
        !first->trace_by_losses)
        local.trace_step = first->trace.step;
    return local;
}

static zest_status measure_or_estimate(const sharpness_state *l, const zest_sharpness_target *target,
                                       zest_sharpness_found *found, zest_error *error) {
    zest_sharpness_plan plan = plan_like(l->plan, l->first, target->loaded->model->params.dimension);
    if (!l->cost) return zest_sharpness_measure(&plan, target, found, error);
    found->dimension = target->loaded->model->params.dimension;
    found->examples = zest_eval_target_examples(target->losses);
    found->gradient_examples = zest_eval_target_examples(target->gradients);
    return zest_sharpness_estimate_cost(&plan, target, l->cost, error);
}

static zest_status measure(sharpness_state *l, const zest_target *target, const zest_examples *examples,
                           zest_sharpness_found *found, zest_error *error) {
    uint64_t subset = zest_options_whole(l->given, ZEST_OPTION_TOP_EXAMPLES);
    zest_eval_target *losses = NULL, *gradients = NULL;
    zest_eval_target_options options = {
        .loaded = &target->loaded,
        .examples = examples,
        .max_examples = (size_t)zest_options_whole(l->given, ZEST_OPTION_EXAMPLES),
        .seed = l->plan->seed,
        .compute = ZEST_COMPUTE_F32, /* differences of gradients need full precision */
        .threads = l->plan->threads,
        .comm = l->cost ? NULL : zest_cli_ranks_comm(), /* an estimate times a single process */
        .stop = zest_output_catch_interrupt(),
        .on_progress = report_progress,
        .user = l,
    };
    int needs_gradients =
        !l->plan->forward_only && (l->plan->top || l->plan->trace_samples || l->plan->slice);
    options.gradients = needs_gradients && !subset;
    zest_status status = zest_eval_target_new(&options, &losses, error);
    if (!status && subset) {
        options.max_examples = (size_t)subset;
        options.gradients = needs_gradients;
        status = zest_eval_target_new(&options, &gradients, error);
    }
    zest_sharpness_target both = {&target->loaded, losses, subset ? gradients : losses, options.comm};
    status = options.comm ? zest_comm_agree(options.comm, status, error) : status;
    if (!status) status = measure_or_estimate(l, &both, found, error);
    zest_eval_target_free(losses);
    zest_eval_target_free(gradients);
    return status;
}

/* ---- sharpness.json ---- */

static int same_text(const json_t *a, const json_t *b, const char *name) {
    return json_equal(json_object_get(a, name), json_object_get(b, name));
}

/* Copies results of an earlier measurement of the same weights and split that were not measured this time:
 * losses today, eigenvalues tomorrow. */
static zest_status merge_old(json_t **to, const char *path, zest_error *error) {
    static const char *const sections[] = {"neighbourhood", "hessian", "trace", "slice"};
    json_t *old = NULL;
    if (access(path, F_OK)) return ZEST_OK;
    zest_status status = zest_json_read(path, MAX_FILE_SIZE, &old, error);
    if (status) return status == ZEST_ERROR_FORMAT ? ZEST_OK : status; /* a damaged file is replaced */
    if (same_text(old, *to, "step") && same_text(old, *to, "split") && same_text(old, *to, "task") &&
        same_text(old, *to, "dimension")) {
        int merged = !json_object_get(*to, "neighbourhood") && json_object_get(old, "neighbourhood");
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
            if (!json_object_get(*to, sections[i]) && json_object_get(old, sections[i]))
                zest_json_set(to, sections[i], json_incref(json_object_get(old, sections[i])));
        if (merged) { /* with the settings that belong to it */
            static const char *const facts[] = {"samples", "examples", "distribution", "sample_seed",
                                                "loss",    "t",        "antithetic"};
            for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
                if (json_object_get(old, facts[i]))
                    zest_json_set(to, facts[i], json_incref(json_object_get(old, facts[i])));
        }
    }
    json_decref(old);
    return ZEST_OK;
}

/* Writes RUN/sharpness.json, which `zest report` reads. */
static zest_status write_json(const zest_sharpness_found *found, const char *folder, zest_error *error) {
    json_t *object = zest_sharpness_json(found, NULL);
    char *path = zest_file_join(folder, "sharpness.json");
    zest_status status = object && path ? merge_old(&object, path, error) : ZEST_OK;
    char *text = object ? zest_json_dump(object, JSON_REAL_PRECISION(17) | JSON_INDENT(1)) : NULL;
    if (!status)
        status = text && path ? zest_file_write(path, text, strlen(text), error)
                              : zest_error_memory(error, "sharpness.json", 0);
    json_decref(object);
    free(text);
    free(path);
    return status;
}

/* ---- One argument ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static zest_status measure_path(sharpness_state *l, const char *path, sharpness_view *view,
                                zest_error *error) {
    zest_target target;
    zest_loaded_data data = {0};
    zest_sharpness_found *found = &view->found;
    zest_task_part part = (zest_task_part)zest_options_whole(l->given, ZEST_OPTION_SPLIT);
    *found =
        (zest_sharpness_found){.path = path,
                               .name = base_name(zest_hub_find_repo(path, view->repo) ? view->repo : path),
                               .split = zest_options_text(l->given, ZEST_OPTION_SPLIT)};
    l->name = found->name;
    zest_status status = open_target(&target, path, l->given, error);
    data.recorded = &target.inputs;
    data.places = target.sent.places;
    if (!status) status = zest_load_data(&data, &target.options, &target.loaded, 1u << part, error);
    if (!status) {
        view->task = strdup(data.task.name);
        if (!view->task) status = zest_error_memory(error, "a name", 0);
    }
    if (!status) {
        found->task = view->task;
        found->is_run = target.is_run;
        found->step = target.step;
        status = measure(l, &target, &data.parts[part], found, error);
    }
    if (!status && target.is_run && !l->cost && !zest_cli_ranks_is_silent()) {
        zest_run_folder folder;
        status = zest_run_folder_of(path, &folder, error);
        if (!status) status = write_json(found, folder.path, error);
        if (!status) zest_run_folder_free(&folder);
    }
    zest_load_free_data(&data);
    zest_target_close(&target);
    return status;
}

static zest_status examine(sharpness_state *l, const char *path, sharpness_view *view, zest_error *error) {
    size_t length = strlen(path);
    *view = (sharpness_view){0};
    if (length < 5 || strcmp(path + length - 5, ".json")) return measure_path(l, path, view, error);
    zest_status status = zest_json_read(path, MAX_FILE_SIZE, &view->from_file, error);
    if (status) return status;
    return zest_sharpness_read(view->from_file, path, &view->found, error);
}

static void free_view(sharpness_view *view) {
    zest_sharpness_free(&view->found);
    json_decref(view->from_file);
    free(view->task);
}

static const char *const distributions[] = {"Gaussian", "sphere", "ball", "signs"};

static void print_interval(zest_estimate e) {
    if (isfinite(e.low))
        zest_output_print("%9.5g [%.5g, %.5g]", e.value, e.low, e.high);
    else
        zest_output_print("%9.5g", e.value);
}

static void print_nearby(const zest_sharpness_found *f) {
    zest_output_print("  %10s %9s  %-30s %-30s %9s  %-22s %9s\n", "radius", "rho", "mean loss",
                      "standard deviation", "maximum", "tilted loss F_t", "effective");
    for (size_t r = 0; r < f->plan.radius_count; r++) {
        const zest_perturbed_loss *p = &f->points[r];
        char mean[64], spread[64], tilted[64];
        snprintf(mean, sizeof mean, "%.5g [%.5g, %.5g]", p->mean.value, p->mean.low, p->mean.high);
        if (isfinite(p->spread.low))
            snprintf(spread, sizeof spread, "%.3g [%.3g, %.3g]", p->spread.value, p->spread.low,
                     p->spread.high);
        else
            snprintf(spread, sizeof spread, "%.3g", p->spread.value);
        snprintf(tilted, sizeof tilted, "%.5g ± %.2g", p->tilted.value, p->tilted.high - p->tilted.value);
        zest_output_print("  %10.4g %9.4g  %-30s %-30s %9.5g  %-22s %9.1f\n", p->radius, p->rho, mean, spread,
                          p->highest, tilted, p->effective);
        if (p->bad) zest_output_print("  %zu of them are not finite and are excluded\n", p->bad);
    }
}

static void print_step(double step, double disagreement) {
    zest_output_print("h = %.3g", step);
    if (isfinite(disagreement)) zest_output_print(", neighbouring steps agree to %.1g", disagreement);
    zest_output_print("\n");
    if (disagreement > ZEST_DIFFERENCE_STEP_AGREED)
        zest_output_print("  UNRELIABLE: no step h was found at which two neighbours agree\n");
}

static void print_hessian(const zest_sharpness_found *f) {
    const zest_hessian_top *top = &f->top;
    if (f->gradient_examples && f->gradient_examples != f->examples)
        zest_output_print("  the Hessian on %zu of the examples\n", f->gradient_examples);
    zest_output_print("  %10s %12s %12s %14s\n", "eigenvalue", "", "residual", "with half h");
    for (size_t k = 0; k < top->count; k++)
        zest_output_print("  %10zu %12.6g %12.2g %14.6g\n", k + 1, top->values[k], top->residuals[k],
                          top->rechecked[k]);
    zest_output_print("  smallest seen %.4g (residual %.2g); %s after %zu products, %zu restarts, %.1f MiB; ",
                      top->lowest, top->lowest_bound, top->converged ? "settled" : "not settled", top->steps,
                      top->restarts, f->top_bytes / 0x1p20);
    print_step(top->step, top->disagreement);
}

static void print_trace(const zest_sharpness_found *f) {
    zest_output_print("  trace ");
    print_interval(f->trace.trace);
    zest_output_print(", mean eigenvalue %.3g; %zu probes by %s; ",
                      f->trace.trace.value / (double)f->dimension, f->trace.probes,
                      f->trace_by_losses ? "second differences of losses" : "gradients");
    print_step(f->trace.step, f->trace.disagreement);
}

static void print_slice(const zest_sharpness_found *f) {
    const zest_slice *s = &f->slice;
    size_t rows = s->dimensions == 2 ? s->points : 1;
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < s->points * rows; i++)
        low = fmin(low, s->values[i]), high = fmax(high, s->values[i]);
    zest_output_print("  slice along %s from %.4g to %.4g: loss %.5g to %.5g\n",
                      f->plan.seeded ? "random directions" : "eigenvectors", -s->span, s->span, low, high);
    for (size_t i = 0; i < s->points && rows == 1; i++)
        zest_output_print("  %12.5g %12.6g\n", s->coefficients[i], s->values[i]);
}

/* Mean losses compared with the first model, perturbation by perturbation. */
static void print_difference(const zest_sharpness_found *f, const zest_sharpness_found *first) {
    zest_estimate any = zest_sharpness_difference(f, first, 0);
    if (!isfinite(any.value)) return;
    zest_output_print("  mean loss above that of %s, by the same perturbations:", first->name);
    for (size_t r = 0; r < f->plan.radius_count; r++) {
        zest_estimate e = zest_sharpness_difference(f, first, r);
        zest_output_print("%s %.4g ± %.2g", r ? "," : "", e.value, e.high - e.value);
    }
    zest_output_print("\n");
}

static void print_table(const sharpness_view *views, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const zest_sharpness_found *f = &views[i].found;
        zest_output_print("%s%s", i ? "\n" : "", f->name);
        if (f->is_run) zest_output_print(", step %llu", (unsigned long long)f->step);
        zest_output_print(": loss %.6g on %zu %s examples of %s; d = %llu\n", f->loss, f->examples, f->split,
                          f->task, (unsigned long long)f->dimension);
        if (f->plan.radius_count) {
            zest_output_print(
                "  %zu perturbations at each radius%s, %s; F_t with t = %g; intervals are 95 %%\n",
                f->plan.samples, f->plan.antithetic ? " (pairs)" : "", distributions[f->plan.distribution],
                f->plan.t);
            print_nearby(f);
        }
        if (i) print_difference(f, &views[0].found);
        if (f->top.count) print_hessian(f);
        if (f->trace.probes) print_trace(f);
        if (f->slice.values) print_slice(f);
    }
}

/* ---- Options ---- */

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
        .top_step = zest_options_number(o, ZEST_OPTION_DIFFERENCE_STEP),
        .trace_step = zest_options_number(o, ZEST_OPTION_DIFFERENCE_STEP),
        .forward_only = (int)zest_options_whole(o, ZEST_OPTION_FORWARD_ONLY),
        .slice = (int)zest_options_whole(o, ZEST_OPTION_SLICE),
        .seeded = (int)zest_options_whole(o, ZEST_OPTION_ALONG),
        .points = (size_t)zest_options_whole(o, ZEST_OPTION_POINTS),
        .span = zest_options_number(o, ZEST_OPTION_SPAN),
        .threads = (int)zest_options_whole(o, ZEST_OPTION_THREADS),
    };
    zest_status status = zest_options_check_t(o, error);
    if (!status) status = zest_options_list(o, ZEST_OPTION_RADII, radii, &plan->radius_count, error);
    plan->radii = *radii;
    return status;
}

/* Splits --names in place: as many as there are arguments, or none. */
static zest_status find_names(char *list, const char **names, size_t count, zest_error *error) {
    const char *between = strchr(list, ';') ? ";" : ",";
    size_t used = 0;
    for (char *next = list, *name; *list && (name = strsep(&next, between));) {
        while (*name == ' ') name++;
        if (used < count) names[used] = name;
        used++;
    }
    if (!used || used == count) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--names has %zu names for %zu runs or models", used,
                          count);
}

/* ---- Results ---- */

/* FILE.svg, and FILE-slice.svg if there are slices. */
static zest_status draw(const zest_sharpness_series *series, size_t count, const char *path,
                        zest_error *error) {
    zest_plot *plot = zest_sharpness_figure(series, count, (zest_sharpness_style){.title = "Sharpness"}),
              *slices = zest_sharpness_slices(series, count);
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

static json_t *cost_json(const zest_sharpness_found *found, const zest_sharpness_cost *cost) {
    return json_pack("{s:o, s:o, s:I, s:o, s:I, s:o, s:o}", "name", zest_output_string(found->name), "passes",
                     zest_output_real(cost->lanes), "examples", (json_int_t)found->examples, "gradients",
                     zest_output_real(cost->gradients), "gradient_examples",
                     (json_int_t)found->gradient_examples, "seconds", zest_output_real(cost->seconds),
                     "bytes", zest_output_real(cost->bytes));
}

static void print_cost(const zest_sharpness_found *found, const zest_sharpness_cost *cost) {
    zest_output_print("%s: %.0f passes over %zu examples, %.0f gradients of %zu; about %.0f s, %.1f GiB in "
                      "addition to the model\n",
                      found->name, cost->lanes, found->examples, cost->gradients, found->gradient_examples,
                      cost->seconds, cost->bytes / 0x1p30);
}

static int report(const zest_options *options, sharpness_view *views, size_t count) {
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_error error = {0};
    zest_status status = ZEST_OK;
    json_t *models = json_array();
    zest_sharpness_series *series = calloc(count, sizeof *series);
    if (!models || !series) status = zest_error_memory(&error, "results", count * sizeof *series);
    for (size_t i = 0; i < count && !status; i++) {
        json_t *one = views[i].from_file ? json_incref(views[i].from_file)
                                         : zest_sharpness_json(&views[i].found, &views[0].found);
        if (!one || json_array_append_new(models, one)) status = zest_error_memory(&error, "results", 0);
        series[i] = (zest_sharpness_series){one, views[i].found.name, 0};
    }
    if (!status && *out && !zest_cli_ranks_is_silent()) status = draw(series, count, out, &error);
    free(series);
    if (status) {
        json_decref(models);
        return zest_output_fail(status, error.message);
    }
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack("{s:o}", "models", models));
    json_decref(models);
    print_table(views, count);
    return ZEST_EXIT_OK;
}

/* ---- Command ---- */

/* costs: for a dry run with --json, else NULL. */
static zest_status measure_all(sharpness_state *state, char **words, const char **names,
                               sharpness_view *views, size_t count, json_t **costs, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = examine(state, words[i], &views[i], error);
        if (names[i]) views[i].found.name = names[i];
        if (!status && !state->first && !views[i].from_file) state->first = &views[i].found;
        if (status || !state->cost || views[i].from_file) continue;
        if (costs)
            zest_output_append(costs, cost_json(&views[i].found, state->cost));
        else
            print_cost(&views[i].found, state->cost);
    }
    return status;
}

static int run(const zest_options *options, char **words, int word_count) {
    zest_error error = {0};
    size_t count = (size_t)word_count;
    zest_sharpness_plan plan;
    zest_sharpness_cost cost;
    double *radii = NULL;
    char *list = strdup(zest_options_text(options, ZEST_OPTION_NAMES));
    const char **names = calloc(count, sizeof *names);
    sharpness_view *views = calloc(count, sizeof *views);
    int dry = (int)zest_options_whole(options, ZEST_OPTION_DRY_RUN),
        json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *costs = json_array();
    sharpness_state state = {.given = options, .plan = &plan, .cost = dry ? &cost : NULL};
    zest_status status = views && names && list ? make_plan(options, &plan, &radii, &error)
                                                : zest_error_memory(&error, "results", 0);
    if (!status) status = find_names(list, names, count, &error);
    zest_progress_begin(&state.progress, "sharpness", "passes",
                        dry || (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    if (!status) status = measure_all(&state, words, names, views, count, json ? &costs : NULL, &error);
    zest_progress_end(&state.progress);
    int code = ZEST_EXIT_OK;
    if (status)
        code = zest_output_fail(status, error.message);
    else if (dry && json)
        code = zest_output_json(json_pack("{s:O}", "models", costs));
    else if (!dry)
        code = report(options, views, count);
    json_decref(costs);
    for (size_t i = 0; i < count && views; i++) free_view(&views[i]);
    free(views);
    free(names);
    free(list);
    free(radii);
    return code;
}

const zest_command zest_command_sharpness = {
    .name = "sharpness",
    .words = "RUN|MODEL|FILE...",
    .min_words = 1,
    .max_words = 64,
    .summary = "measure how flat the loss is around the weights",
    .description =
        "Perturbs the weights --samples times at each of the --radii and prints the mean loss, its "
        "standard deviation, the largest loss and the tilted loss F_t; then the largest eigenvalues of the "
        "Hessian (Lanczos iteration on differences of gradients, with residuals) and its trace "
        "(Hutchinson's estimate). All intervals are 95 %. Several runs or models get the same "
        "perturbations, so their differences are paired.\n\n"
        "Perturbations are uniform in the ball |e| <= radius, as in the paper's figures 2 and 4. With "
        "--distribution sphere and rademacher the radius is the length of each, with gaussian the root of "
        "their mean square. radius = rho sqrt(d); rho, the size in one coordinate, is printed, too.\n\n"
        "Examples, task and step are chosen as for eval; the loss is the training loss, by default on "
        "training examples. The results of a run are saved as sharpness.json in its folder, where `zest "
        "report` finds them; results that were not measured this time (--samples 0, --top 0) are kept. "
        "Such a file may be given instead of its run: its results are printed and drawn without a "
        "measurement.\n\n"
        "--dry-run runs a few passes and estimates time and memory of the measurement.",
    .examples =
        "zest sharpness run1 run2 --out sharpness.svg\tthe best weights of two runs, and a figure\n"
        "zest sharpness run1 --step 0 --top 10 --lanczos-steps 60\tmore eigenvalues, at the start\n"
        "zest sharpness FacebookAI/roberta-base --task SST-2 --data data --forward-only\tlosses alone\n"
        "zest sharpness run1 run2 --dry-run\thow long it will take\n"
        "zest sharpness mezo-*/sharpness.json zest-*/sharpness.json --names MeZO,MeZO,ZEST-N,ZEST-N --out "
        "both.svg\twhat was measured before, seeds taken together\n"
        "zest sharpness run1 --slice 2 --out around.svg\ta plane through the weights, around-slice.svg",
    .options = "model\tof a run: where its model is now, if it was moved; of weights without a tokenizer: "
               "the model that has it\n"
               "dry-run\ttry a few passes, print the time and memory of the whole, and measure nothing\n"
               "out\tfigure to write (SVG)\n"
               "samples\trandom perturbations at each radius; 0: none\n"
               "train-only\tperturb only the tensors whose names match; several patterns separated by "
               "commas, * matches any characters\n"
               "freeze\tdo not perturb the tensors whose names match\n"
               "seed\trandom seed of the train/dev split\n"
               "t\ttilt of the tilted loss F_t",
    .defaults = "seed=42 step=best split=train samples=500 distribution=ball",
    .users = ZEST_FOR_SHARPNESS,
    .ranks = 1,
    .run = run,
};
