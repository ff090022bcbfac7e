/* What the runs of a sweep have come to: their result.json, their options, their answers. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/metric.h"
#include "data/task.h"
#include "run/folder.h"
#include "run/sweep.h"

enum { RESULT_LIMIT = 1 << 20, ANSWERS_LIMIT = 1 << 30 };

/* ---- Is it this run? ---- */

/* Where things are, and what results do not depend on. */
static int may_differ(zest_option_id id) {
    return id == ZEST_OPTION_MODEL || id == ZEST_OPTION_DATA || id == ZEST_OPTION_DEVICE ||
           id == ZEST_OPTION_LIVE;
}

static zest_status check_options(const zest_sweep_run *run, const zest_folder *folder, zest_error *error) {
    zest_options options;
    zest_status status = zest_folder_read_options(folder, ZEST_FOR_TRAIN, &options, error);
    if (status) return status;
    for (int i = 0; i < ZEST_OPTION_COUNT && !status; i++) {
        zest_option_id id = (zest_option_id)i;
        const char *have = zest_options_text(&options, id);
        if (!run->value[i] || may_differ(id) || zest_sweep_same_value(id, run->value[i], have)) continue;
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "%s: holds a run with %s = %.100s, the sweep wants %.100s; move it away, or "
                                "choose another --out",
                                folder->path, zest_option_row_at(id)->name, have, run->value[i]);
    }
    zest_options_free(&options);
    return status;
}

/* ---- result.json ---- */

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static zest_sweep_figures figures(const json_t *object) {
    double const n = number(object, "n");
    return (zest_sweep_figures){.value = number(object, "value"),
                                .accuracy = number(object, "accuracy"),
                                .f1 = number(object, "f1"),
                                .em = number(object, "em"),
                                .loss = number(object, "loss"),
                                .n = n > 0 && n < 1e15 ? (size_t)n : 0};
}

/* What the weights of a run are chosen by, and so what chooses between runs. */
static zest_metric selection(const zest_sweep_run *run) {
    const char *select = run->value[ZEST_OPTION_SELECT];
    for (int i = 0; i < 4 && select; i++)
        if (!strcmp(select, zest_metric_name((zest_metric)i))) return (zest_metric)i;
    zest_task task;
    zest_metric by = ZEST_METRIC_ACCURACY;
    if (!run->value[ZEST_OPTION_TASK] || zest_task_open(run->value[ZEST_OPTION_TASK], &task, NULL)) return by;
    by = task.select;
    zest_task_free(&task);
    return by;
}

static double worth(const zest_sweep_run *run) {
    const zest_sweep_figures *dev = &run->dev;
    double all[] = {dev->accuracy, dev->f1, dev->em, NAN}, value = all[selection(run)];
    return isnan(value) ? -dev->loss : value;
}

static zest_status read_result(zest_sweep_run *run, const char *path, zest_error *error) {
    zest_buffer text = {0};
    json_error_t why;
    zest_status status = zest_file_read(path, RESULT_LIMIT, &text, error);
    if (status) return status;
    json_t *object = text.data ? json_loads(text.data, 0, &why) : NULL;
    zest_buffer_free(&text);
    if (!json_is_object(object)) {
        json_decref(object);
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: is no result of zest train; remove it, and the sweep finishes the run anew", path);
    }
    const char *metric = json_string_value(json_object_get(object, "metric"));
    strncpy(run->metric, metric ? metric : "", sizeof run->metric - 1);
    run->dev = figures(json_object_get(object, "dev"));
    run->test = figures(json_object_get(object, "test"));
    run->seconds = number(object, "seconds");
    run->best_step = (uint64_t)json_integer_value(json_object_get(object, "best_step"));
    run->worth = worth(run);
    run->state = ZEST_SWEEP_FINISHED;
    json_decref(object);
    return ZEST_OK;
}

static zest_status look_into(zest_sweep_run *run, const zest_folder *folder, zest_error *error) {
    /* a result counts where the journal was left behind, too */
    int finished = !access(folder->result, F_OK) && !access(folder->options, F_OK);
    run->state = ZEST_SWEEP_PLANNED;
    /* killed before its options were on disk: no step was taken yet */
    if (!finished && !zest_folder_is_training(folder)) return ZEST_OK;
    zest_status status = check_options(run, folder, error);
    if (status) return status;
    run->state = ZEST_SWEEP_STARTED;
    return finished ? read_result(run, folder->result, error) : ZEST_OK;
}

zest_status zest_sweep_result_read(zest_sweep_run *run, const char *folder, zest_error *error) {
    zest_folder names;
    char *runs = zest_file_join(folder, "runs"), *path = runs ? zest_file_join(runs, run->name) : NULL;
    zest_status status =
        path ? zest_folder_of(path, &names, error) : zest_error_memory(error, run->name, strlen(run->name));
    if (!status) {
        status = look_into(run, &names, error);
        zest_folder_free(&names);
    }
    free(runs);
    free(path);
    return status;
}

zest_status zest_sweep_results_read(zest_sweep_plan *plan, const char *folder, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < plan->count && !status; i++)
        status = zest_sweep_result_read(&plan->runs[i], folder, error);
    return status;
}

/* ---- Answers ---- */

static int is_right(const char *line, size_t length, unsigned char *right) {
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_t *answer = json_object_get(object, "prediction"), *label = json_object_get(object, "label");
    if (!answer) answer = json_object_get(object, "answer"); /* as version 0.1 called it */
    int known = answer && label;
    if (known) *right = (unsigned char)json_equal(answer, label);
    json_decref(object);
    return known;
}

zest_status zest_sweep_answers_read(zest_sweep_run *run, const char *path, zest_error *error) {
    zest_buffer text = {0};
    if (access(path, F_OK)) return ZEST_OK;
    zest_status status = zest_file_read(path, ANSWERS_LIMIT, &text, error);
    size_t lines = 0, known = 0;
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    unsigned char *right = status ? NULL : malloc(lines + 1);
    if (!status && !right) status = zest_error_memory(error, path, lines);
    for (char *at = text.data, *end; right && at && (end = strchr(at, '\n')); at = end + 1)
        known += (size_t)is_right(at, (size_t)(end - at), &right[known]);
    zest_buffer_free(&text);
    if (status || !lines || known != lines) {
        free(right);
        return status;
    }
    free(run->right);
    run->right = right;
    run->answers = lines;
    return ZEST_OK;
}
