/* The figure of a sweep: results against t. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sweep/sensitivity.h"
#include "lab/sweep/sweep.h"

/* The texts that the points name: tasks, kinds of labels, rows. */
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
        char room[128];
        w->texts[w->count] = strdup(zest_sweep_task_name(task ? task : "", room, sizeof room));
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

/* The figure of a sweep's rows: what each method reaches on each task. */

enum { ROWS_MOST = 16, SEEDS_MOST = 64, NAME_ROOM = 128 };
static const double LETTER = 6.6; /* pixels of a letter below an axis */

typedef struct {
    const zest_sweep_summary *summary;
    int test;
    char names[ROWS_MOST][NAME_ROOM]; /* of the rows, as they are shown */
    size_t count;
    int below; /* names fit below the axis; else the legend has them */
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
    double beside[SEEDS_MOST], each[SEEDS_MOST];
    int const known = zest_sensitivity_colour(zest_sweep_method(&s->plan->runs[s->rows[e->row]]));
    zest_plot_style style = {.colour = known ? known : 1 + (int)(e->row % (ZEST_PLOT_GREY - 1)),
                             .size = 8,
                             .dash = ZEST_PLOT_NO_LINE,
                             .mark = ZEST_PLOT_CIRCLE};
    size_t used = 0;
    for (size_t i = 0; i < s->seed_count && used < SEEDS_MOST && sample->n > 1; i++) {
        if (e->chosen[i] == ZEST_SWEEP_NONE) continue;
        beside[used] = x + 0.18;
        each[used++] = unit * value_of(w, &s->plan->runs[e->chosen[i]]);
    }
    zest_plot_line(panel, used, beside, each,
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

/* What the others are compared with, across the panel. */
static void draw_base(const work *w, zest_plot_panel *panel, const zest_sweep_entry *base) {
    double const mean = sample_of(w, base)->mean;
    if (isnan(mean)) return;
    zest_plot_guide_y(panel, zest_sweep_unit(w->summary, base->task) * mean,
                      (zest_plot_style){.colour = ZEST_PLOT_GREY, .width = 1.2, .dash = ZEST_PLOT_DASHED},
                      NULL);
}

static void draw_panel(const work *w, zest_plot_panel *panel, size_t task, size_t noise, const char *title) {
    const char *names[ROWS_MOST];
    char label[NAME_ROOM];
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

/* ---- All of them ---- */

/* Of rows in the table's order; 0: memory is short. */
static int name_rows(work *w) {
    int good = 1;
    for (size_t r = 0; r < w->count && good; r++) {
        zest_buffer name = {0};
        zest_sweep_row_name(w->summary, r, &name);
        good = !name.failed && name.data;
        if (good) zest_sensitivity_name(name.data, w->names[r], sizeof w->names[r]);
        zest_buffer_free(&name);
    }
    return good;
}

static void fit_names(work *w, double width) {
    size_t longest = 0;
    for (size_t r = 0; r < w->count; r++)
        if (strlen(w->names[r]) > longest) longest = strlen(w->names[r]);
    w->below = ((double)longest * LETTER + 8) * (double)w->count <= width;
}

/* "SST-2, clean labels"; to be freed. */
static char *title_of(const zest_sweep_summary *s, size_t task, size_t noise) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    char room[128];
    zest_buffer title = {0};
    zest_buffer_format(&title, "%s, ", zest_sweep_task_name(value ? value : "", room, sizeof room));
    zest_sweep_noise_name(s, noise, &title);
    if (!title.failed) return title.data;
    zest_buffer_free(&title);
    return NULL;
}

/* Tasks, then the same with other labels, as far as there are results. */
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
    size_t const most = style.columns ? (size_t)style.columns : count == 4 ? 2 : 3;
    size_t const columns = count < most ? count : most;
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
    if (panels && s->row_count > 1 && s->row_count <= ROWS_MOST && name_rows(&w)) {
        size_t const count = find_panels(&w, panels);
        if (count) plot = plot_all(&w, panels, count, style);
    }
    free(panels);
    return plot;
}
