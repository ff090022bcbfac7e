/* One run or model: opened, measured, and what was found kept in its folder. Or read from where it was kept.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "analysis/ladder.h"
#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/sharpness.h"
#include "cli/subject.h"
#include "models/freeze.h"
#include "run/folder.h"

enum { FILE_MOST = 64 << 20 };

static void tell(void *user, const char *what, double done, double all) {
    zest_sharpness_look *l = user;
    if (l->what != what) zest_progress_stage(&l->progress, what, "passes", done);
    l->what = what;
    zest_progress_update(&l->progress, done, all, l->name);
}

/* ---- Opening ---- */

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

/* ---- Measuring ---- */

/* Models of one size that are compared take the same steps of difference quotients: those of the first, where
 * two neighbours agreed. It saves looking for them again, and the check with half the step is made for each.
 */
static zest_sharpness_plan plan_like(const zest_sharpness_plan *plan, const zest_sharpness_found *first,
                                     uint64_t dimension) {
    zest_sharpness_plan own = *plan;
    if (!first || first->dimension != dimension) return own;
    if (first->top.count && first->top.disagreement <= ZEST_LADDER_AGREED) own.top_step = first->top.step;
    if (first->trace.probes && first->trace.disagreement <= ZEST_LADDER_AGREED && !first->trace_by_losses)
        own.trace_step = first->trace.step;
    return own;
}

static zest_status measure_or_foresee(const zest_sharpness_look *l, const zest_sharpness_subject *subject,
                                      zest_sharpness_found *found, zest_error *error) {
    zest_sharpness_plan plan = plan_like(l->plan, l->first, subject->loaded->model->params.dimension);
    if (!l->cost) return zest_sharpness_measure(&plan, subject, found, error);
    found->dimension = subject->loaded->model->params.dimension;
    found->examples = zest_measure_examples(subject->losses);
    found->slope_examples = zest_measure_examples(subject->slopes);
    return zest_sharpness_foresee(&plan, subject, l->cost, error);
}

static zest_status measure(zest_sharpness_look *l, const zest_subject *subject, const zest_examples *examples,
                           zest_sharpness_found *found, zest_error *error) {
    uint64_t few = zest_options_whole(l->given, ZEST_OPTION_TOP_EXAMPLES);
    zest_measure *losses = NULL, *slopes = NULL;
    zest_measure_options options = {
        .loaded = &subject->loaded,
        .examples = examples,
        .most = (size_t)zest_options_whole(l->given, ZEST_OPTION_EXAMPLES),
        .seed = l->plan->seed,
        .compute = ZEST_COMPUTE_F32, /* differences of gradients want all digits */
        .threads = l->plan->threads,
        .stop = zest_interrupt_catch(),
        .tell = tell,
        .user = l,
    };
    int wanted = !l->plan->forward_only && (l->plan->top || l->plan->trace_samples || l->plan->slice);
    options.slopes = wanted && !few;
    zest_status status = zest_measure_new(&options, &losses, error);
    if (!status && few) {
        options.most = (size_t)few;
        options.slopes = wanted;
        status = zest_measure_new(&options, &slopes, error);
    }
    zest_sharpness_subject both = {&subject->loaded, losses, few ? slopes : losses};
    if (!status) status = measure_or_foresee(l, &both, found, error);
    zest_measure_free(losses);
    zest_measure_free(slopes);
    return status;
}

/* ---- Keeping ---- */

static json_t *read_json(const char *path, zest_error *error) {
    zest_buffer text = {0};
    json_t *object = NULL;
    if (!zest_file_read(path, FILE_MOST, &text, error) && text.data)
        object = json_loadb(text.data, text.size, 0, NULL);
    zest_buffer_free(&text);
    return object;
}

static int same_text(const json_t *a, const json_t *b, const char *name) {
    return json_equal(json_object_get(a, name), json_object_get(b, name));
}

/* What was not measured this time stays as it was, if it was about the same weights and examples of the same
 * split: losses today, eigenvalues tomorrow. */
static void keep_rest(json_t *object, const char *path) {
    static const char *const parts[] = {"neighbourhood", "hessian", "trace", "slice"};
    json_t *old = access(path, F_OK) ? NULL : read_json(path, NULL);
    if (json_is_object(old) && same_text(old, object, "step") && same_text(old, object, "split") &&
        same_text(old, object, "task") && same_text(old, object, "dimension")) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (!json_object_get(object, parts[i]) && json_object_get(old, parts[i]))
                json_object_set(object, parts[i], json_object_get(old, parts[i]));
        if (json_object_get(old, "neighbourhood") == json_object_get(object, "neighbourhood") &&
            json_object_get(old, "neighbourhood")) { /* its numbers go with it */
            static const char *const facts[] = {"samples", "examples", "distribution", "sample_seed",
                                                "loss",    "t",        "antithetic"};
            for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
                if (json_object_get(old, facts[i]))
                    json_object_set(object, facts[i], json_object_get(old, facts[i]));
        }
    }
    json_decref(old);
}

/* RUN/sharpness.json, where `zest report` looks for it. */
static zest_status keep(const zest_sharpness_found *found, const char *folder, zest_error *error) {
    json_t *object = zest_sharpness_json(found, NULL);
    char *path = zest_file_join(folder, "sharpness.json");
    if (object && path) keep_rest(object, path);
    char *text = object ? zest_json_dump(object, JSON_REAL_PRECISION(17) | JSON_INDENT(1)) : NULL;
    zest_status status = text && path ? zest_file_write(path, text, strlen(text), error)
                                      : zest_error_memory(error, "sharpness.json", 0);
    json_decref(object);
    free(text);
    free(path);
    return status;
}

/* ---- All of it ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static zest_status look_at(zest_sharpness_look *l, const char *path, zest_sharpness_view *view,
                           zest_error *error) {
    zest_subject subject;
    zest_loaded_data data = {0};
    zest_sharpness_found *found = &view->found;
    zest_task_part part = (zest_task_part)zest_options_whole(l->given, ZEST_OPTION_SPLIT);
    *found =
        (zest_sharpness_found){.path = path,
                               .name = last_part(zest_hub_find_repo(path, view->repo) ? view->repo : path),
                               .split = zest_options_text(l->given, ZEST_OPTION_SPLIT)};
    l->name = found->name;
    zest_status status = open_subject(&subject, path, l->given, error);
    data.recorded = &subject.inputs;
    if (!status) status = zest_load_data(&data, &subject.options, &subject.loaded, 1u << part, error);
    if (!status) {
        view->task = strdup(data.task.name);
        if (!view->task) status = zest_error_memory(error, "a name", 0);
    }
    if (!status) {
        found->task = view->task;
        found->is_run = subject.is_run;
        found->step = subject.step;
        status = measure(l, &subject, &data.parts[part], found, error);
    }
    if (!status && subject.is_run && !l->cost) {
        zest_folder folder;
        status = zest_folder_of(path, &folder, error);
        if (!status) status = keep(found, folder.path, error);
        if (!status) zest_folder_free(&folder);
    }
    zest_load_free_data(&data);
    zest_subject_close(&subject);
    return status;
}

zest_status zest_sharpness_look_at(zest_sharpness_look *l, const char *path, zest_sharpness_view *view,
                                   zest_error *error) {
    size_t length = strlen(path);
    zest_error inner = {0};
    *view = (zest_sharpness_view){0};
    if (length < 5 || strcmp(path + length - 5, ".json")) return look_at(l, path, view, error);
    view->kept = read_json(path, &inner);
    if (!view->kept)
        return zest_error_set(error, inner.status ? inner.status : ZEST_ERROR_FORMAT, "%.900s",
                              inner.status ? inner.message : "this is no JSON");
    return zest_sharpness_read(view->kept, path, &view->found, error);
}

void zest_sharpness_look_free(zest_sharpness_view *view) {
    zest_sharpness_free(&view->found);
    json_decref(view->kept);
    free(view->task);
}
