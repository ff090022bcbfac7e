/* Figures of the sensitivity to t: results against t, and the dev set over time by t. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lab/sweep/sweep.h"

enum { MAX_LINES = 16, MAX_TILTS = ZEST_SENSITIVITY_MAX, NAME_SIZE = 128 };
static const double MARGIN = 1.35; /* a factor of t at both ends of the axis */

/* ---- Collecting ---- */

static int is_tilted(const zest_sensitivity_point *p) { return p->t > 0 && isfinite(p->value.mean); }

static const struct {
    const char *name, *shown;
    int colour;
} methods[] = {{"mezo", "MeZO", ZEST_PLOT_BLUE},        {"zest-n", "ZEST-N", ZEST_PLOT_ORANGE},
               {"zest-bc", "ZEST-BC", ZEST_PLOT_GREEN}, {"sgd", "SGD", ZEST_PLOT_PURPLE},
               {"sam", "SAM", ZEST_PLOT_RED},           {"esam", "ESAM", ZEST_PLOT_SKY},
               {"tsam", "TSAM", ZEST_PLOT_YELLOW},      {"adamw", "AdamW", ZEST_PLOT_GREY}};
enum { METHODS = sizeof methods / sizeof *methods };

/* The method of a row; METHODS: unknown. */
static size_t find_method(const char *row) {
    size_t const length = strcspn(row, ",");
    for (size_t i = 0; i < METHODS; i++)
        if (strlen(methods[i].name) == length && !strncmp(methods[i].name, row, length)) return i;
    return METHODS;
}

const char *zest_sensitivity_name(const char *method, char *buffer, size_t size) {
    size_t const found = find_method(method);
    if (found < METHODS)
        snprintf(buffer, size, "%s%s", methods[found].shown, method + strcspn(method, ","));
    else
        snprintf(buffer, size, "%s", method);
    return buffer;
}

int zest_sensitivity_colour(const char *method) {
    size_t const found = find_method(method);
    return found < METHODS ? methods[found].colour : 0;
}

const char *zest_sensitivity_label(const char *metric, char *buffer, size_t size) {
    snprintf(buffer, size, "%s%s", metric, strcmp(metric, "loss") ? " (%)" : "");
    return buffer;
}

/* ---- Shared by the figures ---- */

static void note_tilt(zest_sensitivity_tilts *tilts, double t) {
    size_t at = 0, used = tilts->count;
    double *values = tilts->values;
    while (at < used && values[at] < t) at++;
    if (!(t > 0) || used == ZEST_SENSITIVITY_MAX || (at < used && values[at] == t)) return;
    memmove(values + at + 1, values + at, (used - at) * sizeof *values);
    values[at] = t;
    tilts->count++;
}

static void note(const char **names, size_t *count, const char *name) {
    size_t at = 0;
    while (at < *count && strcmp(names[at], name)) at++;
    if (at == *count && at < ZEST_SENSITIVITY_MAX) names[(*count)++] = name;
}

/* Whether there are results of this task with these labels. */
static void note_name(zest_sensitivity_panels *panels, const char *task, const char *labels) {
    note(panels->tasks, &panels->task_count, task);
    note(panels->labels, &panels->label_count, labels);
}

/* An empty figure with all panels. */
static zest_plot *new_plot(zest_sensitivity_panels *p, zest_sensitivity_style style,
                           const char *description) {
    p->columns =
        style.columns && (size_t)style.columns < p->task_count ? (size_t)style.columns : p->task_count;
    size_t const rows = (p->task_count + p->columns - 1) / p->columns * p->label_count;
    double const width = style.width > 0 ? style.width : 60 + 380 * (double)p->columns,
                 height = style.height > 0 ? style.height : 270;
    zest_plot *plot =
        zest_plot_new((int)rows, (int)p->columns, width, (style.title ? 90 : 40) + height * (double)rows);
    zest_plot_title(plot, style.title, description);
    return plot;
}

static zest_plot_panel *add_panel(zest_plot *plot, const zest_sensitivity_panels *p, size_t task,
                                  size_t labels) {
    return zest_plot_at(plot, (int)(task / p->columns * p->label_count + labels), (int)(task % p->columns));
}

/* ---- One panel ---- */

typedef struct {
    const zest_sensitivity_point *points;
    size_t count;
    const char *lines[MAX_LINES]; /* methods with a t, in the order of the points */
    size_t line_count;
    double low, high; /* range of the axis of t */
} work;

static double unit(const zest_sensitivity_point *p) { return strcmp(p->metric, "loss") ? 100 : 1; }

static int is_here(const zest_sensitivity_point *p, const char *task, const char *labels) {
    return !strcmp(p->task, task) && !strcmp(p->labels, labels);
}

/* Mean and standard error; only a line with one seed. */
static void draw_mezo(const work *w, zest_plot_panel *panel, const char *task, const char *labels) {
    for (size_t i = 0; i < w->count; i++) {
        const zest_sensitivity_point *p = &w->points[i];
        if (p->t != 0 || !isfinite(p->value.mean) || !is_here(p, task, labels)) continue;
        double const scale = unit(p), mean = scale * p->value.mean;
        double const error = isfinite(p->value.error) ? scale * p->value.error : 0;
        double const x[2] = {w->low, w->high}, low[2] = {mean - error, mean - error},
                     high[2] = {mean + error, mean + error}, y[2] = {mean, mean};
        zest_plot_band(panel, 2, x, low, high, (zest_plot_style){.colour = ZEST_PLOT_BLUE, .opacity = 0.14},
                       NULL);
        zest_plot_line(panel, 2, x, y,
                       (zest_plot_style){.colour = ZEST_PLOT_BLUE, .width = 1.8, .dash = ZEST_PLOT_DASHED},
                       "MeZO (t = 0)");
        return;
    }
}

static void draw_line(const work *w, zest_plot_panel *panel, const char *task, const char *labels,
                      size_t line) {
    static const zest_plot_mark marks[] = {ZEST_PLOT_CIRCLE, ZEST_PLOT_SQUARE, ZEST_PLOT_DIAMOND,
                                           ZEST_PLOT_TRIANGLE};
    double x[MAX_TILTS], y[MAX_TILTS], low[MAX_TILTS], high[MAX_TILTS];
    char name[NAME_SIZE];
    size_t used = 0;
    /* lines are shifted slightly so that their whiskers do not overlap */
    double const shift = pow(1.06, (double)line - 0.5 * (double)(w->line_count - 1));
    for (size_t i = 0; i < w->count && used < MAX_TILTS; i++) {
        const zest_sensitivity_point *p = &w->points[i];
        size_t at = used;
        if (!is_tilted(p) || !is_here(p, task, labels) || strcmp(p->method, w->lines[line])) continue;
        for (; at && x[at - 1] > p->t * shift; at--)
            x[at] = x[at - 1], y[at] = y[at - 1], low[at] = low[at - 1], high[at] = high[at - 1];
        x[at] = p->t * shift;
        y[at] = unit(p) * p->value.mean;
        low[at] = y[at] - unit(p) * p->value.error; /* NaN with one seed: no whisker */
        high[at] = y[at] + unit(p) * p->value.error;
        used++;
    }
    /* rows of one method share its colour and differ in line style and marker */
    size_t before = 0;
    for (size_t i = 0; i < line; i++)
        before += zest_sensitivity_colour(w->lines[i]) == zest_sensitivity_colour(w->lines[line]);
    int const known = zest_sensitivity_colour(w->lines[line]);
    zest_plot_style style = {.colour = known ? known : 1 + (int)(line % (ZEST_PLOT_GREY - 1)),
                             .width = 2,
                             .size = 7,
                             .dash = (zest_plot_dash)(before % ZEST_PLOT_NO_LINE),
                             .mark = marks[line % 4]};
    zest_plot_whiskers(panel, used, x, low, high, (zest_plot_style){.colour = style.colour, .width = 1.4});
    if (used)
        zest_plot_line(panel, used, x, y, style, zest_sensitivity_name(w->lines[line], name, sizeof name));
}

static void draw_panel(const work *w, zest_plot_panel *panel, const char *task, const char *labels,
                       const zest_sensitivity_tilts *tilts) {
    const char *metric = NULL;
    char text[NAME_SIZE];
    for (size_t i = 0; i < w->count && !metric; i++)
        if (is_here(&w->points[i], task, labels)) metric = w->points[i].metric;
    if (!metric) return;
    snprintf(text, sizeof text, "%.60s, %.60s", task, labels);
    zest_plot_panel_title(panel, text);
    zest_plot_axis_x(panel, "t", ZEST_PLOT_LOG);
    zest_plot_range_x(panel, w->low, w->high);
    zest_plot_ticks_x(panel, tilts->count, tilts->values);
    zest_plot_axis_y(panel, zest_sensitivity_label(metric, text, sizeof text), ZEST_PLOT_LINEAR);
    draw_mezo(w, panel, task, labels);
    for (size_t l = 0; l < w->line_count; l++) draw_line(w, panel, task, labels, l);
}

/* ---- All panels ---- */

static void find_lines(work *w) {
    for (size_t i = 0; i < w->count; i++) {
        size_t at = 0;
        if (!is_tilted(&w->points[i])) continue;
        while (at < w->line_count && strcmp(w->lines[at], w->points[i].method)) at++;
        if (at == w->line_count && at < MAX_LINES) w->lines[w->line_count++] = w->points[i].method;
    }
}

static size_t seeds(const work *w) {
    size_t max = 0;
    for (size_t i = 0; i < w->count; i++)
        if (w->points[i].value.n > max) max = w->points[i].value.n;
    return max;
}

zest_plot *zest_sensitivity_figure(const zest_sensitivity_point *points, size_t count,
                                   zest_sensitivity_style style) {
    zest_sensitivity_tilts tilts = {.count = 0};
    zest_sensitivity_panels panels = {0};
    work w = {.points = points, .count = count};
    for (size_t i = 0; i < count; i++)
        if (is_tilted(&points[i])) note_tilt(&tilts, points[i].t);
    if (tilts.count < 2) return NULL;
    for (size_t i = 0; i < count; i++) note_name(&panels, points[i].task, points[i].labels);
    find_lines(&w);
    w.low = tilts.values[0] / MARGIN;
    w.high = tilts.values[tilts.count - 1] * MARGIN;
    zest_plot *plot = new_plot(&panels, style,
                               "The result against the tilt t on a logarithmic axis, a panel "
                               "for each task and kind of labels, a line for "
                               "each method with standard errors over seeds; a band is MeZO.");
    if (style.title) {
        char text[NAME_SIZE];
        size_t const n = seeds(&w);
        if (n > 1)
            snprintf(text, sizeof text, "mean ± standard error over %zu seeds; band: MeZO", n);
        else
            snprintf(text, sizeof text, "one seed; dashed: MeZO");
        zest_plot_subtitle(plot, text);
    }
    for (size_t t = 0; t < panels.task_count; t++)
        for (size_t l = 0; l < panels.label_count; l++)
            draw_panel(&w, add_panel(plot, &panels, t, l), panels.tasks[t], panels.labels[l], &tilts);
    return plot;
}

/* ---- Dev set over time: a line for each t, as in the paper's figure 3 ---- */

/* The method's colour, paler and more dashed for smaller t; MeZO dashed in its own colour, as everywhere. */
static zest_plot_style style_of(const zest_sensitivity_curve *c, const zest_sensitivity_tilts *tilts) {
    static const zest_plot_dash dashes[] = {ZEST_PLOT_SOLID, ZEST_PLOT_DASH_DOT, ZEST_PLOT_DOTTED,
                                            ZEST_PLOT_DASHED};
    size_t above = 0;
    int const colour = zest_sensitivity_colour(c->method ? c->method : "");
    if (c->t == 0) return (zest_plot_style){.colour = ZEST_PLOT_BLUE, .width = 2, .dash = ZEST_PLOT_DASHED};
    for (size_t i = 0; i < tilts->count; i++) above += tilts->values[i] > c->t;
    return (zest_plot_style){.colour = colour ? colour : ZEST_PLOT_ORANGE,
                             .width = 2.2,
                             .opacity = fmax(0.45, 1 - 0.2 * (double)above),
                             .dash = dashes[above % 4]};
}

static void draw_curve(zest_plot_panel *panel, const zest_sensitivity_curve *c, zest_plot_style style) {
    double *buffer = malloc((3 * c->count + 1) * sizeof *buffer);
    double *y = buffer, *low = buffer + c->count, *high = low + c->count,
           unit = strcmp(c->metric, "loss") ? 100 : 1;
    char name[48];
    if (!buffer) return; /* the figure omits it */
    for (size_t i = 0; i < c->count; i++) {
        double const error = isfinite(c->errors[i]) ? c->errors[i] : 0;
        y[i] = unit * c->means[i], low[i] = y[i] - unit * error, high[i] = y[i] + unit * error;
    }
    if (c->t == 0)
        snprintf(name, sizeof name, "MeZO (t = 0)");
    else
        zest_number_format(name, sizeof name, "t = %g", c->t);
    zest_plot_band(panel, c->count, c->steps, low, high,
                   (zest_plot_style){.colour = style.colour, .opacity = 0.1}, NULL);
    zest_plot_line(panel, c->count, c->steps, y, style, name);
    free(buffer);
}

static void curves_draw_panel(zest_plot_panel *panel, const zest_sensitivity_curve *curves, size_t count,
                              const char *task, const char *labels, const zest_sensitivity_tilts *tilts) {
    char text[128];
    int any = 0;
    for (size_t i = 0; i < count; i++) {
        const zest_sensitivity_curve *c = &curves[i];
        if (strcmp(c->task, task) || strcmp(c->labels, labels)) continue;
        if (!any++) {
            snprintf(text, sizeof text, "%.60s, %.60s", task, labels);
            zest_plot_panel_title(panel, text);
            zest_plot_axis_x(panel, "step", ZEST_PLOT_LINEAR);
            zest_plot_axis_y(panel, zest_sensitivity_label(c->metric, text, sizeof text), ZEST_PLOT_LINEAR);
        }
        draw_curve(panel, c, style_of(c, tilts));
    }
}

zest_plot *zest_sensitivity_curves(const zest_sensitivity_curve *curves, size_t count,
                                   zest_sensitivity_style style) {
    zest_sensitivity_tilts tilts = {.count = 0};
    zest_sensitivity_panels panels = {0};
    for (size_t i = 0; i < count; i++) {
        note_name(&panels, curves[i].task, curves[i].labels);
        note_tilt(&tilts, curves[i].t);
    }
    if (!tilts.count || !panels.task_count) return NULL;
    zest_plot *plot = new_plot(&panels, style,
                               "The result on the dev set against the step, a panel for each "
                               "task and kind of labels, a line for each t with its standard "
                               "error over seeds.");
    for (size_t t = 0; t < panels.task_count; t++)
        for (size_t l = 0; l < panels.label_count; l++)
            curves_draw_panel(add_panel(plot, &panels, t, l), curves, count, panels.tasks[t],
                              panels.labels[l], &tilts);
    return plot;
}
