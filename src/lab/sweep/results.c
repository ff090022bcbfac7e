/* Results of the runs of a sweep: result.json, options, answers; and the names and numbers shown in
 * tables. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "lab/sweep/sweep.h"
#include "task/metric.h"
#include "task/task.h"
#include "train/run_folder.h"

enum { RESULT_LIMIT = 1 << 20, ANSWERS_LIMIT = 1 << 30 };

/* ---- Check that a folder has this run ---- */

/* Options that results do not depend on. */
static int may_differ(zest_option_id id) {
    return id == ZEST_OPTION_MODEL || id == ZEST_OPTION_DATA || id == ZEST_OPTION_DEVICE ||
           id == ZEST_OPTION_LIVE;
}

static zest_status check_options(const zest_sweep_run *run, const zest_run_folder *folder,
                                 zest_error *error) {
    zest_options options;
    zest_status status = zest_run_folder_read_options(folder, ZEST_FOR_TRAIN, &options, error);
    if (status) return status;
    for (int i = 0; i < ZEST_OPTION_COUNT && !status; i++) {
        zest_option_id id = (zest_option_id)i;
        const char *have = zest_options_text(&options, id);
        if (!run->value[i] || may_differ(id) || zest_sweep_same_value(id, run->value[i], have)) continue;
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "%s: contains a run with %s = %.100s, but the sweep needs %.100s; move it, "
                                "or choose another --out",
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

/* The metric that chooses the weights of a run, and so the one that chooses between runs. */
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
    json_t *object;
    zest_status status = zest_json_read(path, RESULT_LIMIT, &object, error);
    if (status == ZEST_ERROR_FORMAT)
        return zest_error_set(error, status,
                              "%s: is not a result of zest train; delete it, and the sweep repeats the run",
                              path);
    if (status) return status;
    const char *metric = json_string_value(json_object_get(object, "metric"));
    strncpy(run->metric, metric ? metric : "", sizeof run->metric - 1);
    run->dev = figures(json_object_get(object, "dev"));
    run->test = figures(json_object_get(object, "test"));
    run->seconds = number(object, "seconds");
    json_int_t best_step = json_integer_value(json_object_get(object, "best_step"));
    run->best_step = best_step < 0 ? 0 : (uint64_t)best_step;
    run->worth = worth(run);
    run->state = ZEST_SWEEP_FINISHED;
    json_decref(object);
    return ZEST_OK;
}

static zest_status inspect_folder(zest_sweep_run *run, const zest_run_folder *folder, zest_error *error) {
    /* a result counts even if the journal was left over */
    int finished = !access(folder->result, F_OK) && !access(folder->options, F_OK);
    run->state = ZEST_SWEEP_PLANNED;
    /* killed before its journal had its name: no step was taken yet */
    if (!finished && !zest_run_folder_is_training(folder)) return ZEST_OK;
    zest_status status = check_options(run, folder, error);
    if (status) return status;
    run->state = ZEST_SWEEP_STARTED;
    return finished ? read_result(run, folder->result, error) : ZEST_OK;
}

zest_status zest_sweep_result_read(zest_sweep_run *run, const char *folder, zest_error *error) {
    zest_run_folder names;
    char *runs = zest_file_join(folder, "runs"), *path = runs ? zest_file_join(runs, run->name) : NULL;
    zest_status status = path ? zest_run_folder_of(path, &names, error)
                              : zest_error_memory(error, run->name, strlen(run->name));
    if (!status) {
        status = inspect_folder(run, &names, error);
        zest_run_folder_free(&names);
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
    json_error_t problem;
    json_t *object = zest_json_load(line, length, ZEST_JSON_BIG_AS_REAL, &problem);
    const json_t *answer = json_object_get(object, "prediction"), *label = json_object_get(object, "label");
    if (!answer) answer = json_object_get(object, "answer"); /* name in version 0.1 */
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

/* ---- Names and numbers of the tables ---- */

/* ---- Escaping ---- */

/* Replaces each character of `special` by the text at its position; line breaks become blanks. */
static void replace(zest_buffer *out, const char *text, const char *special, const char *const *by) {
    for (; *text; text++) {
        const char *at = strchr(special, *text);
        if (at)
            zest_buffer_text(out, by[at - special]);
        else if (*text == '\n' || *text == '\r')
            zest_buffer_text(out, " ");
        else
            zest_buffer_add(out, text, 1);
    }
}

void zest_sweep_escape_markdown(zest_buffer *out, const char *text) {
    static const char *const by[] = {"\\\\", "\\|", "\\*", "\\_", "\\`", "&lt;", "&amp;", "\\[", "\\]"};
    replace(out, text, "\\|*_`<&[]", by);
}

void zest_sweep_escape_latex(zest_buffer *out, const char *text) {
    static const char *const by[] = {
        "\\textbackslash{}",  "\\&", "\\%", "\\$", "\\#", "\\_", "\\{", "\\}", "\\textasciitilde{}",
        "\\textasciicircum{}"};
    replace(out, text, "\\&%$#_{}~^", by);
}

void zest_sweep_escape_csv(zest_buffer *out, const char *text) {
    static const char *const by[] = {"\"\""};
    if (!strpbrk(text, ",\"\r\n;") && *text != ' ') {
        zest_buffer_text(out, text);
        return;
    }
    zest_buffer_text(out, "\"");
    replace(out, text, "\"", by);
    zest_buffer_text(out, "\"");
}

/* ---- Names ---- */

static void add_value(zest_buffer *out, const zest_sweep_run *run, zest_option_id id) {
    char buffer[128];
    const char *value = run->value[id] ? run->value[id] : zest_option_row_at(id)->fallback;
    int path = id == ZEST_OPTION_MODEL || id == ZEST_OPTION_DATA;
    zest_buffer_format(out, "%s=%s", zest_option_row_at(id)->name,
                       path ? zest_sweep_task_name(value, buffer, sizeof buffer) : value);
}

/* Whether rows of the same method differ in the option. */
static int names_row(const zest_sweep_summary *s, zest_option_id id) {
    if (!zest_sweep_distinguishes_rows(s->plan, id) || id == ZEST_OPTION_METHOD || !s->plan->varies[id])
        return 0;
    for (size_t i = 0; i < s->row_count; i++)
        for (size_t j = 0; j < i; j++) {
            const zest_sweep_run *a = &s->plan->runs[s->rows[i]], *b = &s->plan->runs[s->rows[j]];
            if (!strcmp(zest_sweep_method(a), zest_sweep_method(b)) && !zest_sweep_same(a, b, id)) return 1;
        }
    return 0;
}

void zest_sweep_row_name(const zest_sweep_summary *s, size_t row, zest_buffer *out) {
    const zest_sweep_run *run = &s->plan->runs[s->rows[row]];
    zest_buffer_text(out, zest_sweep_method(run));
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const char *weights = run->value[ZEST_OPTION_WEIGHTS];
        int rounded = !weights || strcmp(weights, "f32");
        if (!names_row(s, (zest_option_id)id) || (id == ZEST_OPTION_ROUNDING && !rounded) ||
            !zest_sweep_matters(zest_sweep_method(run), (zest_option_id)id))
            continue;
        zest_buffer_text(out, ", ");
        add_value(out, run, (zest_option_id)id);
    }
}

const char *zest_sweep_metric(const zest_sweep_summary *s, const size_t *chosen) {
    for (size_t i = 0; i < s->seed_count; i++)
        if (chosen[i] != ZEST_SWEEP_NONE) return s->plan->runs[chosen[i]].metric;
    return "";
}

const char *zest_sweep_base_name(const zest_sweep_summary *s, char *buffer, size_t size) {
    return zest_sensitivity_name(s->base ? s->base : "the base", buffer, size);
}

int zest_sweep_several_tilts(const zest_sweep_summary *s) {
    double first = NAN;
    for (size_t i = 0; i < s->tilt_count; i++) {
        if (isnan(s->tilts[i].t)) continue;
        if (!isnan(first) && s->tilts[i].t != first) return 1;
        first = s->tilts[i].t;
    }
    return 0;
}

void zest_sweep_noise_name(const zest_sweep_summary *s, size_t noise, zest_buffer *out) {
    const char *value = s->plan->runs[s->noises[noise]].value[ZEST_OPTION_LABEL_NOISE];
    double share = value ? zest_number_parse(value, NULL) : 0;
    if (share > 0)
        zest_buffer_format(out, "%g %% of the labels switched", 100 * share);
    else
        zest_buffer_text(out, "clean labels");
}

/* Whether dev chose between values of the option, for this method and task. */
static int was_open(const zest_sweep_plan *plan, const zest_sweep_run *run, zest_option_id id) {
    if (!plan->varies[id] || !zest_sweep_is_chosen(plan, id)) return 0;
    for (size_t i = 0; i < plan->count; i++) {
        const zest_sweep_run *other = &plan->runs[i];
        if (zest_sweep_same(run, other, ZEST_OPTION_METHOD) &&
            zest_sweep_same(run, other, ZEST_OPTION_TASK) && !zest_sweep_same(run, other, id))
            return 1;
    }
    return 0;
}

void zest_sweep_chosen_name(const zest_sweep_summary *s, size_t run, zest_buffer *out) {
    int any = 0;
    for (int i = 0; i < ZEST_OPTION_COUNT; i++) {
        if (!was_open(s->plan, &s->plan->runs[run], (zest_option_id)i)) continue;
        if (any++) zest_buffer_text(out, " ");
        add_value(out, &s->plan->runs[run], (zest_option_id)i);
    }
}

/* ---- Numbers ---- */

double zest_sweep_unit(const zest_sweep_summary *s, size_t task) {
    for (size_t i = 0; i < s->plan->count; i++) {
        const zest_sweep_run *run = &s->plan->runs[i];
        if (run->state == ZEST_SWEEP_FINISHED &&
            zest_sweep_same(run, &s->plan->runs[s->tasks[task]], ZEST_OPTION_TASK))
            return strcmp(run->metric, "loss") ? 100 : 1;
    }
    return 100;
}

/* First-order methods are ranked separately: they need gradients. */
int zest_sweep_row_is_first_order(const zest_sweep_summary *s, size_t row) {
    return zest_sweep_method_is_first_order(zest_sweep_method(&s->plan->runs[s->rows[row]]));
}

int zest_sweep_is_best(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    double unit = zest_sweep_unit(s, e->task), digits = unit > 1 ? 10 : 1e4;
    double shown = round(e->test.mean * unit * digits);
    size_t rivals = 0;
    if (isnan(shown)) return 0;
    for (size_t i = 0; i < s->entry_count; i++) {
        const zest_sweep_entry *other = &s->entries[i];
        if (other == e || other->task != e->task || other->noise != e->noise || isnan(other->test.mean) ||
            zest_sweep_row_is_first_order(s, other->row) != zest_sweep_row_is_first_order(s, e->row))
            continue;
        double value = round(other->test.mean * unit * digits);
        rivals++;
        if (unit > 1 ? value > shown : value < shown) return 0;
    }
    return rivals > 0;
}

void zest_sweep_number(zest_buffer *out, double value, double unit, int sign) {
    int digits = unit > 1 ? 1 : 4;
    double shown = round(value * unit * pow(10, digits)) / pow(10, digits);
    if (isnan(value))
        zest_buffer_text(out, "\xe2\x80\x93");
    else /* + 0.0: no minus sign before a zero */
        zest_buffer_format(out, sign ? "%+.*f" : "%.*f", digits, shown + 0.0);
}

void zest_sweep_interval(zest_buffer *out, const zest_sweep_entry *e, double unit) {
    if (!isnan(e->difference.low)) {
        zest_sweep_number(out, e->difference.low, unit, 1);
        zest_buffer_text(out, " to ");
        zest_sweep_number(out, e->difference.high, unit, 1);
    } else if (e->difference.n > 1) { /* all seeds have the same difference */
        zest_buffer_text(out, "\xe2\x80\x93");
    } else if (!isnan(e->p)) {
        zest_buffer_format(out, "McNemar p = %.2g", e->p);
    }
}

size_t zest_sweep_rows_of_order(const zest_sweep_summary *s, int first) {
    size_t rows = 0;
    for (size_t r = 0; r < s->row_count; r++) rows += zest_sweep_row_is_first_order(s, r) == first;
    return rows;
}

void zest_sweep_best_steps(const zest_sweep_summary *s, const size_t *chosen, const char *between,
                           zest_buffer *out) {
    int any = 0;
    for (size_t i = 0; i < s->seed_count; i++) {
        if (chosen[i] == ZEST_SWEEP_NONE) continue;
        if (any++) zest_buffer_text(out, between);
        zest_buffer_format(out, "%llu", (unsigned long long)s->plan->runs[chosen[i]].best_step);
    }
}
