/* Export of a sweep: CSV tables, JSON, and the figures of results. The JSON has no times, so the same runs
 * give the same bytes. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lab/sweep/sweep.h"

/* ---- CSV: one line per entry of the table ---- */

static void add_field(zest_buffer *out, double value) {
    zest_buffer_text(out, ",");
    if (!isnan(value)) zest_buffer_format(out, "%.10g", value);
}

static const char *noise_of(const zest_sweep_summary *s, size_t noise) {
    const char *value = s->plan->runs[s->noises[noise]].value[ZEST_OPTION_LABEL_NOISE];
    return value ? value : "0";
}

static const char *task_of(const zest_sweep_summary *s, size_t task) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    return value ? value : "";
}

/* "SST-2,0.3,zest-n" */
static void begin_line(const zest_sweep_summary *s, size_t task, size_t noise, size_t row, zest_buffer *out) {
    zest_buffer name = {0};
    zest_sweep_escape_csv(out, task_of(s, task));
    zest_buffer_format(out, ",%s,", noise_of(s, noise));
    zest_sweep_row_name(s, row, &name);
    zest_sweep_escape_csv(out, name.data ? name.data : "");
    out->failed |= name.failed;
    zest_buffer_free(&name);
}

void zest_sweep_csv(const zest_sweep_summary *s, zest_buffer *out) {
    zest_buffer_text(out, "task,label_noise,method,complete,seeds,dev,dev_error,test,test_error,difference,"
                          "difference_low,difference_high,mcnemar_p,verdict\n");
    for (size_t i = 0; i < s->entry_count; i++) {
        const zest_sweep_entry *e = &s->entries[i];
        int compared = e->base != ZEST_SWEEP_NONE && e->difference.n;
        begin_line(s, e->task, e->noise, e->row, out);
        zest_buffer_format(out, ",%s,%zu", e->complete ? "yes" : "no", e->test.n);
        double fields[] = {e->dev.mean,
                           e->dev.error,
                           e->test.mean,
                           e->test.error,
                           compared ? e->difference.mean : NAN,
                           compared ? e->difference.low : NAN,
                           compared ? e->difference.high : NAN,
                           e->p};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) add_field(out, fields[f]);
        zest_buffer_text(out, ",");
        zest_sweep_escape_csv(out, zest_sweep_verdict(s, e));
        zest_buffer_text(out, "\n");
    }
}

void zest_sweep_csv_by_t(const zest_sweep_summary *s, zest_buffer *out) {
    zest_buffer_text(out, "task,label_noise,method,t,seeds,dev,dev_error,dev_loss,dev_loss_error,test,"
                          "test_error,difference,difference_error,seconds,best_steps\n");
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        begin_line(s, e->task, e->noise, e->row, out);
        add_field(out, e->t);
        zest_buffer_format(out, ",%zu", e->test.n);
        double fields[] = {e->dev.mean,
                           e->dev.error,
                           e->loss.mean,
                           e->loss.error,
                           e->test.mean,
                           e->test.error,
                           e->difference.n ? e->difference.mean : NAN,
                           e->difference.n ? e->difference.error : NAN,
                           e->seconds};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) add_field(out, fields[f]);
        zest_buffer_text(out, ",");
        zest_sweep_best_steps(s, e->chosen, " ", out);
        zest_buffer_text(out, "\n");
    }
}

/* ---- JSON ---- */

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *figures(const zest_sweep_figures *f) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "value", real(f->value), "accuracy", real(f->accuracy),
                     "f1", real(f->f1), "em", real(f->em), "loss", real(f->loss));
}

static json_t *sample(const zest_sample *x) {
    if (!x->n) return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "n", (json_int_t)x->n, "mean", real(x->mean), "error",
                     real(x->error), "low", real(x->low), "high", real(x->high));
}

static json_t *run_json(const zest_sweep_run *run) {
    static const char *const states[] = {"planned", "started", "finished", "failed"};
    json_t *options = json_object();
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (run->value[id])
            zest_json_set(&options, zest_option_row_at((zest_option_id)id)->name,
                          json_string(run->value[id]));
    json_t *object =
        json_pack("{s:s, s:s, s:o}", "name", run->name, "state", states[run->state], "options", options);
    if (!object) return NULL;
    if (run->message) zest_json_set(&object, "message", json_string(run->message));
    if (run->state == ZEST_SWEEP_FINISHED) {
        zest_json_set(&object, "metric", json_string(run->metric));
        zest_json_set(&object, "best_step", json_integer((json_int_t)run->best_step));
        zest_json_set(&object, "dev", figures(&run->dev));
        zest_json_set(&object, "test", figures(&run->test));
    }
    return object;
}

static json_t *cell_json(const zest_sweep_summary *s, size_t task, size_t noise, size_t row) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    json_t *object = json_pack("{s:s, s:s, s:s}", "task", task_of(s, task), "label_noise", noise_of(s, noise),
                               "method", name.data ? name.data : "");
    if (name.failed) json_decref(object), object = NULL;
    zest_buffer_free(&name);
    return object;
}

/* The names of the runs. */
static json_t *chosen_json(const zest_sweep_summary *s, const size_t *chosen) {
    json_t *names = json_array();
    for (size_t i = 0; i < s->seed_count; i++)
        if (chosen[i] != ZEST_SWEEP_NONE)
            zest_json_append(&names, json_string(s->plan->runs[chosen[i]].name));
    return names;
}

static json_t *entry_json(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    json_t *object = cell_json(s, e->task, e->noise, e->row);
    zest_json_set(&object, "complete", json_boolean(e->complete));
    zest_json_set(&object, "chosen", chosen_json(s, e->chosen));
    zest_json_set(&object, "dev", sample(&e->dev));
    zest_json_set(&object, "test", sample(&e->test));
    zest_json_set(&object, "difference", e->base == ZEST_SWEEP_NONE ? json_null() : sample(&e->difference));
    zest_json_set(&object, "mcnemar_p", real(e->p));
    zest_json_set(&object, "verdict", json_string(zest_sweep_verdict(s, e)));
    return object;
}

/* The sentence at the top of the tables, and one for each comparison. NULL: out of memory. */
static json_t *conclusion_json(const zest_sweep_summary *s) {
    size_t count;
    zest_conclusion *all = zest_sweep_conclude_all(s, &count);
    json_t *sentences = all ? zest_conclusion_json(all, count) : NULL;
    free(all);
    return sentences;
}

zest_status zest_sweep_json(const zest_sweep_summary *s, zest_buffer *out, zest_error *error) {
    json_t *runs = json_array(), *entries = json_array(), *tilts = json_array();
    for (size_t i = 0; i < s->plan->count; i++) zest_json_append(&runs, run_json(&s->plan->runs[i]));
    for (size_t i = 0; i < s->entry_count; i++) zest_json_append(&entries, entry_json(s, &s->entries[i]));
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        json_t *object = cell_json(s, e->task, e->noise, e->row);
        zest_json_set(&object, "t", real(e->t));
        zest_json_set(&object, "chosen", chosen_json(s, e->chosen));
        zest_json_set(&object, "dev", sample(&e->dev));
        zest_json_set(&object, "dev_loss", sample(&e->loss));
        zest_json_set(&object, "test", sample(&e->test));
        zest_json_set(&object, "difference", sample(&e->difference));
        zest_json_append(&tilts, object);
    }
    json_t *all = json_pack("{s:I, s:I, s:s?, s:o, s:o, s:o, s:o}", "finished", (json_int_t)s->finished,
                            "failed", (json_int_t)s->failed, "base", s->base, "conclusion",
                            conclusion_json(s), "runs", runs, "table", entries, "by_t", tilts);
    char *text = all ? zest_json_dump(all, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    if (!text) return zest_error_memory(error, "the results of a sweep", 0);
    zest_buffer_text(out, text);
    free(text);
    return out->failed ? zest_error_memory(error, "the results of a sweep", out->size) : ZEST_OK;
}

/* ---- Figure: results against t ---- */

/* Collects the names in the points: tasks, kinds of labels, rows. */
typedef struct {
    char **texts;
    size_t count;
} words;

static void free_words(words *w) {
    for (size_t i = 0; i < w->count; i++) free(w->texts[i]);
    free(w->texts);
}

/* Tasks first, then kinds of labels, then rows. */
static int find_words(const zest_sweep_summary *s, words *w) {
    w->texts = calloc(s->task_count + s->noise_count + s->row_count + 1, sizeof *w->texts);
    int failed = !w->texts;
    for (size_t t = 0; t < s->task_count && !failed; t++) {
        const char *task = s->plan->runs[s->tasks[t]].value[ZEST_OPTION_TASK];
        char buffer[128];
        w->texts[w->count] = strdup(zest_sweep_task_name(task ? task : "", buffer, sizeof buffer));
        failed = !w->texts[w->count++];
    }
    for (size_t i = 0; i < s->noise_count + s->row_count && !failed; i++) {
        zest_buffer name = {0};
        if (i < s->noise_count)
            zest_sweep_noise_name(s, i, &name);
        else
            zest_sweep_row_name(s, i - s->noise_count, &name);
        w->texts[w->count++] = name.data;
        failed = name.failed;
    }
    return !failed;
}

zest_plot *zest_sweep_figure(const zest_sweep_summary *s, int test, zest_sensitivity_style style) {
    zest_sensitivity_point *points = calloc(s->tilt_count + 1, sizeof *points);
    words w = {0};
    zest_plot *plot = NULL;
    if (points && find_words(s, &w)) {
        for (size_t i = 0; i < s->tilt_count; i++) {
            const zest_sweep_tilt_entry *e = &s->tilts[i];
            points[i] = (zest_sensitivity_point){.task = w.texts[e->task],
                                                 .labels = w.texts[s->task_count + e->noise],
                                                 .method = w.texts[s->task_count + s->noise_count + e->row],
                                                 .t = e->t,
                                                 .metric = zest_sweep_metric(s, e->chosen),
                                                 .value = test ? e->test : e->dev};
        }
        plot = zest_sensitivity_figure(points, s->tilt_count, style);
    }
    free_words(&w);
    free(points);
    return plot;
}

/* ---- Figure: results of each method on each task ---- */

enum { MAX_ROWS = 16, MAX_SEEDS = 64, NAME_SIZE = 128 };
static const double LETTER = 6.6; /* pixels per letter below an axis */

typedef struct {
    const zest_sweep_summary *summary;
    int test;
    char names[MAX_ROWS][NAME_SIZE]; /* of the rows, as displayed */
    size_t count;
    int below; /* names fit below the axis; else they are in the legend */
} work;

static double value_of(const work *w, const zest_sweep_run *run) {
    return w->test ? run->test.value : run->dev.value;
}
static const zest_sample *sample_of(const work *w, const zest_sweep_entry *e) {
    return w->test ? &e->test : &e->dev;
}

/* ---- One panel ---- */

/* Every seed as a faint ring, then the mean with its standard error. */
static void draw_row(const work *w, zest_plot_panel *panel, const zest_sweep_entry *e) {
    const zest_sweep_summary *s = w->summary;
    const zest_sample *sample = sample_of(w, e);
    double const unit = zest_sweep_unit(s, e->task), x = (double)e->row;
    double ring_x[MAX_SEEDS], each[MAX_SEEDS];
    int const known = zest_sensitivity_colour(zest_sweep_method(&s->plan->runs[s->rows[e->row]]));
    zest_plot_style style = {.colour = known ? known : 1 + (int)(e->row % (ZEST_PLOT_GREY - 1)),
                             .size = 8,
                             .dash = ZEST_PLOT_NO_LINE,
                             .mark = ZEST_PLOT_CIRCLE};
    size_t used = 0;
    for (size_t i = 0; i < s->seed_count && used < MAX_SEEDS && sample->n > 1; i++) {
        if (e->chosen[i] == ZEST_SWEEP_NONE) continue;
        ring_x[used] = x + 0.18;
        each[used++] = unit * value_of(w, &s->plan->runs[e->chosen[i]]);
    }
    zest_plot_line(panel, used, ring_x, each,
                   (zest_plot_style){.colour = style.colour,
                                     .size = 7,
                                     .opacity = 0.7,
                                     .dash = ZEST_PLOT_NO_LINE,
                                     .mark = ZEST_PLOT_RING},
                   NULL);
    double const mean = unit * sample->mean, low = mean - unit * sample->error,
                 high = mean + unit * sample->error; /* NaN with one seed: no whisker */
    zest_plot_whiskers(panel, 1, &x, &low, &high, (zest_plot_style){.colour = style.colour, .width = 1.6});
    zest_plot_line(panel, 1, &x, &mean, style, w->below ? NULL : w->names[e->row]);
}

/* The base of the comparison, as a line across the panel. */
static void draw_base(const work *w, zest_plot_panel *panel, const zest_sweep_entry *base) {
    double const mean = sample_of(w, base)->mean;
    if (isnan(mean)) return;
    zest_plot_guide_y(panel, zest_sweep_unit(w->summary, base->task) * mean,
                      (zest_plot_style){.colour = ZEST_PLOT_GREY, .width = 1.2, .dash = ZEST_PLOT_DASHED},
                      NULL);
}

static void draw_panel(const work *w, zest_plot_panel *panel, size_t task, size_t noise, const char *title) {
    const char *names[MAX_ROWS];
    char label[NAME_SIZE];
    int begun = 0, guided = 0;
    for (size_t r = 0; r < w->count; r++) {
        const zest_sweep_entry *e = zest_sweep_entry_at(w->summary, noise, task, r);
        names[r] = w->below ? w->names[r] : "";
        if (!e || !sample_of(w, e)->n) continue;
        if (!begun++) {
            const char *metric = zest_sweep_metric(w->summary, e->chosen);
            zest_plot_panel_title(panel, title);
            zest_plot_axis_y(panel, zest_sensitivity_label(metric, label, sizeof label), ZEST_PLOT_LINEAR);
        }
        if (e->base != ZEST_SWEEP_NONE && !guided++) draw_base(w, panel, &w->summary->entries[e->base]);
        draw_row(w, panel, e);
    }
    if (begun) zest_plot_names_x(panel, w->count, names);
}

/* ---- All panels ---- */

/* Rows in the order of the table; 0: out of memory. */
static int name_rows(work *w) {
    int ok = 1;
    for (size_t r = 0; r < w->count && ok; r++) {
        zest_buffer name = {0};
        zest_sweep_row_name(w->summary, r, &name);
        ok = !name.failed && name.data;
        if (ok) zest_sensitivity_name(name.data, w->names[r], sizeof w->names[r]);
        zest_buffer_free(&name);
    }
    return ok;
}

static void fit_names(work *w, double width) {
    size_t max_length = 0;
    for (size_t r = 0; r < w->count; r++)
        if (strlen(w->names[r]) > max_length) max_length = strlen(w->names[r]);
    w->below = ((double)max_length * LETTER + 8) * (double)w->count <= width;
}

/* "SST-2, clean labels"; to be freed. */
static char *title_of(const zest_sweep_summary *s, size_t task, size_t noise) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    char buffer[128];
    zest_buffer title = {0};
    zest_buffer_format(&title, "%s, ", zest_sweep_task_name(value ? value : "", buffer, sizeof buffer));
    zest_sweep_noise_name(s, noise, &title);
    if (!title.failed) return title.data;
    zest_buffer_free(&title);
    return NULL;
}

/* One panel per task and kind of labels that has results. */
static size_t find_panels(const work *w, size_t (*panels)[2]) {
    const zest_sweep_summary *s = w->summary;
    size_t count = 0;
    for (size_t i = 0; i < s->entry_count; i++) {
        const zest_sweep_entry *e = &s->entries[i];
        int known = count && panels[count - 1][0] == e->task && panels[count - 1][1] == e->noise;
        if (!known && sample_of(w, e)->n) panels[count][0] = e->task, panels[count++][1] = e->noise;
    }
    return count;
}

static zest_plot *plot_all(work *w, size_t (*panels)[2], size_t count, zest_sensitivity_style style) {
    size_t const max = style.columns ? (size_t)style.columns : count == 4 ? 2 : 3;
    size_t const columns = count < max ? count : max;
    size_t const rows = (count + columns - 1) / columns;
    double const width = style.width > 0 ? style.width : 60 + 340 * (double)columns;
    double const height = style.height > 0 ? style.height : 250;
    zest_plot *plot =
        zest_plot_new((int)rows, (int)columns, width, (style.title ? 90 : 40) + height * (double)rows);
    fit_names(w, (width - 60) / (double)columns - 60);
    zest_plot_title(
        plot, style.title,
        "The result of each method, a panel for each task and kind of labels: the mean over seeds "
        "with its standard error, and every seed beside it.");
    if (style.title)
        zest_plot_subtitle(plot, w->summary->seed_count > 1
                                     ? "mean \xc2\xb1 standard error over seeds; rings: the seeds"
                                     : "one seed");
    for (size_t i = 0; i < count; i++) {
        char *title = title_of(w->summary, panels[i][0], panels[i][1]);
        draw_panel(w, zest_plot_at(plot, (int)(i / columns), (int)(i % columns)), panels[i][0], panels[i][1],
                   title ? title : "");
        free(title);
    }
    return plot;
}

zest_plot *zest_sweep_methods(const zest_sweep_summary *s, int test, zest_sensitivity_style style) {
    work w = {.summary = s, .test = test, .count = s->row_count};
    size_t(*panels)[2] = malloc((s->task_count * s->noise_count + 1) * sizeof *panels);
    zest_plot *plot = NULL;
    if (panels && s->row_count > 1 && s->row_count <= MAX_ROWS && name_rows(&w)) {
        size_t const count = find_panels(&w, panels);
        if (count) plot = plot_all(&w, panels, count, style);
    }
    free(panels);
    return plot;
}
