/* A figure of the report: drawn for wide pages and for phones, with its numbers as a table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "lab/report/report_page.h"

enum { ROWS = 60, SAMPLED = 4096 }; /* rows of the table; raw values that are sampled to choose the axis */
enum { WIDE = ZEST_REPORT_WIDE, HALF = 508, PHONE = ZEST_REPORT_PHONE };

int zest_report_figure_begin(zest_report_page *page, zest_report_figure *figure) {
    figure->count = page->report->count;
    figure->curves = calloc(figure->count ? figure->count : 1, sizeof *figure->curves);
    if (!figure->curves) page->status = zest_error_memory(&page->error, "a figure", figure->count);
    for (size_t i = 0; figure->curves && i < figure->count; i++) figure->curves[i].run = i;
    return figure->curves != NULL;
}

int zest_report_curve_reserve(zest_report_page *page, zest_report_curve *curve, size_t count, int intervals) {
    curve->x = calloc(count + 1, 4 * sizeof *curve->x); /* one allocation, owned by x */
    if (!curve->x) {
        page->status = zest_error_memory(&page->error, "a curve", 4 * count * sizeof *curve->x);
        return 0;
    }
    curve->count = curve->best = count;
    curve->y = curve->x + count;
    curve->low = intervals ? curve->y + count : NULL;
    curve->high = intervals ? curve->low + count : NULL;
    return 1;
}

/* ---- Axes: chosen here, not by the plot, since the page's script needs them ---- */

typedef struct {
    double x0, x1, y0, y1;
    zest_plot_scale scale;
    int cut;   /* some raw values are outside */
    int below; /* some points are outside */
} axes;

static void widen(double value, double *low, double *high) {
    if (!isfinite(value)) return;
    if (!(value >= *low)) *low = value;
    if (!(value <= *high)) *high = value;
}

static int ascending(const void *a, const void *b) {
    double const x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All but the most extreme twentieth of the raw values at both ends (which are minima and maxima of bins):
 * spikes must not flatten the rest. */
static void widen_by_raw(const zest_report_curve *c, axes *a) {
    double sample[SAMPLED];
    size_t used = 0, stride = c->raw_count / SAMPLED + 1;
    for (size_t i = 0; i < c->raw_count; i += stride)
        if (isfinite(c->raw_y[i])) sample[used++] = c->raw_y[i];
    if (!used) return;
    qsort(sample, used, sizeof *sample, ascending);
    widen(sample[used / 20], &a->y0, &a->y1);
    widen(sample[used - 1 - used / 20], &a->y0, &a->y1);
}

/* Runs start far below their end, and the end is to be compared: the axis of a fraction keeps the upper
 * part, four times as tall as the upper half of its points. */
static void leave_beginning(const zest_report_figure *f, axes *a) {
    double sample[SAMPLED];
    size_t used = 0;
    for (size_t i = 0; i < f->count; i++)
        for (size_t j = 0; j < f->curves[i].count && used < SAMPLED; j++)
            if (isfinite(f->curves[i].y[j])) sample[used++] = f->curves[i].y[j];
    if (used < 8) return;
    qsort(sample, used, sizeof *sample, ascending);
    double const top = sample[used - 1], floor_of_rest = top - 4 * (top - sample[used / 2]);
    if (floor_of_rest < top) a->y0 = fmax(a->y0, floor_of_rest);
}

static void find_cut(const zest_report_figure *f, axes *a) {
    for (size_t i = 0; i < f->count; i++)
        for (size_t j = 0; f->marks && j < f->curves[i].count; j++) a->below |= f->curves[i].y[j] < a->y0;
    for (size_t i = 0; i < f->count; i++)
        for (size_t j = 0; j < f->curves[i].raw_count; j++) {
            double const y = f->curves[i].raw_y[j];
            a->cut |= isfinite(y) && (y < a->y0 || y > a->y1);
        }
}

static void add_air(double *low, double *high, double share) {
    if (!isfinite(*low) || !isfinite(*high)) *low = 0, *high = 1;
    double air = share * (*high - *low);
    if (!(air > 1e-12 * fabs(*high))) air = *high != 0 ? 0.1 * fabs(*high) : 0.5;
    *low -= air;
    *high += air;
}

static axes find_axes(const zest_report_figure *f, int intervals) {
    axes a = {.x0 = NAN, .x1 = NAN, .y0 = NAN, .y1 = NAN};
    for (size_t i = 0; i < f->count; i++) {
        const zest_report_curve *c = &f->curves[i];
        for (size_t j = 0; j < c->count; j++) {
            if (!isfinite(c->y[j])) continue;
            widen(c->x[j], &a.x0, &a.x1);
            widen(c->y[j], &a.y0, &a.y1);
            if (c->low && intervals) widen(c->low[j], &a.y0, &a.y1), widen(c->high[j], &a.y0, &a.y1);
        }
        widen_by_raw(c, &a);
    }
    if (f->marks && !f->names && zest_report_is_share(f->metric)) leave_beginning(f, &a);
    widen(f->guide, &a.y0, &a.y1);
    if (f->from_zero) widen(0, &a.y0, &a.y1);
    if (f->names) a.x0 = -0.6, a.x1 = (double)f->name_count - 0.4;
    if (!f->names) add_air(&a.x0, &a.x1, 0.02);
    if (!f->from_zero && a.y0 > 0 && a.y1 > 30 * a.y0) {
        a.scale = ZEST_PLOT_LOG;
        a.y0 /= 1.2, a.y1 *= 1.2;
    } else {
        add_air(&a.y0, &a.y1, 0.05);
        if (f->from_zero || (a.y0 < 0 && !zest_report_is_share(f->metric) && a.y0 > -0.06 * a.y1)) a.y0 = 0;
    }
    if (zest_report_is_share(f->metric)) a.y0 = fmax(a.y0, 0), a.y1 = fmin(a.y1, 1);
    find_cut(f, &a);
    return a;
}

/* ---- Values ---- */

/* The row of a point: points at a name belong to it. */
static double key(const zest_report_figure *f, double x) { return f->names ? floor(x + 0.5) : x; }

/* NaN where the curve has no value. *next: where to continue, since rows ascend. */
static double value_at(const zest_report_figure *f, const zest_report_curve *c, double x, size_t *next) {
    while (*next < c->count && key(f, c->x[*next]) < x) ++*next;
    if (*next == c->count) return NAN;
    if (key(f, c->x[*next]) == x) return c->y[*next];
    if (f->marks || !*next) return NAN;
    double const x0 = c->x[*next - 1], part = (x - x0) / (c->x[*next] - x0);
    return c->y[*next - 1] + part * (c->y[*next] - c->y[*next - 1]);
}

/* The mean over the runs of a series where all of them have a value; count 0: none, or out of memory. Free
 * its x. */
static zest_report_curve mean_curve(const zest_report_figure *f, const zest_report *report, size_t series) {
    zest_report_curve mean = {.run = report->series[series].first};
    size_t *next = calloc(f->count + 1, sizeof *next), points = 0;
    const zest_report_curve *first = NULL;
    for (size_t i = 0; i < f->count && !first; i++)
        if (report->runs[f->curves[i].run].series == series && f->curves[i].count) first = &f->curves[i];
    if (first) points = first->count;
    mean.x = next && points ? malloc(2 * points * sizeof *mean.x) : NULL;
    mean.y = mean.x ? mean.x + points : NULL;
    for (size_t p = 0; mean.x && p < points; p++) {
        double sum = 0, runs = 0;
        for (size_t i = 0; i < f->count; i++) {
            const zest_report_curve *c = &f->curves[i];
            if (report->runs[c->run].series != series || !c->count) continue;
            sum += value_at(f, c, first->x[p], &next[i]);
            runs++;
        }
        mean.x[p] = first->x[p];
        mean.y[p] = sum / runs;
    }
    mean.count = mean.best = mean.x ? points : 0;
    free(next);
    return mean;
}

/* ---- Drawing ---- */

/* The curves of a panel (of all, without panels) and their style. */
typedef struct {
    const zest_report_figure *figure;
    const zest_report *report;
    double factor; /* 100 for fractions */
    size_t runs;   /* in this panel */
    int means;     /* some settings have several seeds: their means are drawn */
} drawing;

static const zest_report_series *series_of(const drawing *d, const zest_report_curve *c) {
    return &d->report->series[d->report->runs[c->run].series];
}

static zest_plot_style style_of(const drawing *d, const zest_report_curve *c) {
    zest_plot_style style = series_of(d, c)->style;
    style.width = 2.2;
    if (!d->figure->marks) style.mark = ZEST_PLOT_NO_MARK;
    style.size = d->figure->names ? 9 : c->count > 60 ? 3 : 5;
    if (d->figure->names) style.dash = ZEST_PLOT_NO_LINE;
    return style;
}

/* Every step, pale. */
static void draw_raw(zest_plot_panel *panel, const drawing *d, const zest_report_curve *c) {
    zest_plot_style style = style_of(d, c);
    style.width = 0.9;
    style.dash = ZEST_PLOT_SOLID;
    style.mark = ZEST_PLOT_NO_MARK;
    style.opacity = fmax(0.12, 0.4 / sqrt((double)d->runs));
    if (c->raw_count) zest_plot_line(panel, c->raw_count, c->raw_x, c->raw_y, style, NULL);
}

/* The other panels, for comparison: the mean of several seeds, or the run. */
static void draw_context(zest_plot_panel *panel, const drawing *d, size_t series) {
    zest_report_curve c = mean_curve(d->figure, d->report, series);
    zest_plot_style const style = {.colour = ZEST_PLOT_GREY,
                                   .width = 1.2,
                                   .opacity = 0.55,
                                   .group = d->report->series[series].style.group};
    for (size_t i = 0; i < c.count; i++) c.y[i] *= d->factor;
    if (c.count) zest_plot_line(panel, c.count, c.x, c.y, style, NULL);
    free(c.x);
}

/* The chosen checkpoint. */
static void draw_best(zest_plot_panel *panel, const drawing *d, const zest_report_curve *c, const double *y) {
    zest_plot_style style = style_of(d, c);
    style.mark = ZEST_PLOT_STAR;
    style.size = d->runs > 4 ? 9 : 13;
    style.dash = ZEST_PLOT_NO_LINE;
    zest_plot_line(panel, 1, c->x + c->best, y + c->best, style, NULL);
}

static void draw_curve(zest_plot_panel *panel, const drawing *d, const zest_report_curve *c) {
    zest_plot_style style = style_of(d, c);
    int const one_of_several = d->means && series_of(d, c)->count > 1;
    double *y = malloc((3 * c->count + 1) * sizeof *y), *low = y + c->count, *high = low + c->count;
    if (!y) return; /* the figure omits it */
    for (size_t i = 0; i < c->count; i++) {
        y[i] = d->factor * c->y[i];
        low[i] = c->low ? d->factor * c->low[i] : NAN;
        high[i] = c->high ? d->factor * c->high[i] : NAN;
    }
    if (c->low && d->figure->names) {
        zest_plot_style bar = style;
        bar.dash = ZEST_PLOT_SOLID;
        zest_plot_whiskers(panel, c->count, c->x, low, high, bar);
    } else if (c->low && d->report->count <= 2) {
        zest_plot_band(panel, c->count, c->x, low, high,
                       (zest_plot_style){.colour = style.colour, .opacity = 0.13, .group = style.group},
                       NULL);
    }
    if (one_of_several) style.width = 1, style.opacity = 0.45, style.mark = ZEST_PLOT_NO_MARK;
    zest_plot_line(panel, c->count, c->x, y, style, one_of_several ? NULL : series_of(d, c)->name);
    if (c->best < c->count) draw_best(panel, d, c, y);
    free(y);
}

static void draw_mean(zest_plot_panel *panel, const drawing *d, size_t series) {
    zest_report_curve c = mean_curve(d->figure, d->report, series);
    zest_plot_style const style = style_of(d, &c);
    for (size_t i = 0; i < c.count; i++) c.y[i] *= d->factor;
    if (c.count) zest_plot_line(panel, c.count, c.x, c.y, style, d->report->series[series].name);
    free(c.x);
}

static void draw_axes(zest_plot_panel *panel, const zest_report_figure *f, const axes *a, double factor,
                      int first) {
    zest_plot_axis_x(panel, f->x, ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, first ? f->y : NULL, a->scale);
    zest_plot_range_y(panel, factor * a->y0, factor * a->y1);
    if (f->names)
        zest_plot_names_x(panel, f->name_count, f->names);
    else
        zest_plot_range_x(panel, a->x0, a->x1);
    if (isfinite(f->guide))
        zest_plot_guide_y(panel, factor * f->guide,
                          (zest_plot_style){.dash = ZEST_PLOT_DASHED, .width = 1.2, .opacity = 0.6},
                          f->guide_text);
}

/* All runs of one panel (NONE: of all of them) over those of the others. */
static void draw_panel(zest_plot_panel *panel, drawing *d, size_t which) {
    const zest_report_figure *f = d->figure;
    d->runs = 0;
    for (size_t i = 0; i < f->count; i++) {
        int const own = which == ZEST_SWEEP_NONE || d->report->runs[f->curves[i].run].panel == which;
        d->runs += own && f->curves[i].count;
    }
    for (size_t i = 0; i < d->report->series_count && which != ZEST_SWEEP_NONE; i++)
        if (d->report->runs[d->report->series[i].first].panel != which) draw_context(panel, d, i);
    for (int raw = !d->means; raw >= 0; raw--)
        for (size_t i = 0; i < f->count; i++) {
            const zest_report_curve *c = &f->curves[i];
            int const own = which == ZEST_SWEEP_NONE || d->report->runs[c->run].panel == which;
            if (!own || !c->count) continue;
            if (raw)
                draw_raw(panel, d, c);
            else
                draw_curve(panel, d, c);
        }
    for (size_t i = 0; i < d->report->series_count && d->means; i++) {
        const zest_report_series *series = &d->report->series[i];
        int const own = which == ZEST_SWEEP_NONE || d->report->runs[series->first].panel == which;
        if (own && series->count > 1) draw_mean(panel, d, i);
    }
}

/* ---- Panels ---- */

enum { SHARED_PANEL_RUNS = 4 }; /* so many runs share a panel, unless their curves overlap */

static int is_split(const zest_report_figure *f, const zest_report *report) {
    return !f->names && report->panel_count > 1 && report->panel_count <= 12 &&
           (f->split || report->count > SHARED_PANEL_RUNS);
}

/* Panels that have a curve. Returns their number. */
static size_t find_panels(const zest_report_figure *f, const zest_report *report, size_t *panels) {
    size_t used = 0;
    for (size_t p = 0; p < report->panel_count && is_split(f, report); p++) {
        int any = 0;
        for (size_t i = 0; i < f->count; i++)
            any |= f->curves[i].count && report->runs[f->curves[i].run].panel == p;
        if (any) panels[used++] = p;
    }
    return used;
}

typedef enum { ON_PAGE, ON_PHONE, ALONE } medium;

static zest_plot *draw_split(const zest_report_figure *f, const axes *a, drawing *d, medium on,
                             const size_t *panels, size_t count) {
    size_t const columns = on == ON_PHONE ? 1 : count == 4 ? 2 : count < 3 ? count : 3;
    size_t const rows = (count + columns - 1) / columns;
    double const each = on == ON_PHONE ? 205 : rows == 1 ? 300 : 240, head = on == ALONE ? 70 : 8;
    zest_plot *plot =
        zest_plot_new((int)rows, (int)columns, on == ON_PHONE ? PHONE : WIDE, head + each * (double)rows);
    zest_plot_title(plot, on == ALONE ? f->title : NULL, f->description);
    for (size_t i = 0; i < count; i++) {
        zest_plot_panel *panel = zest_plot_at(plot, (int)(i / columns), (int)(i % columns));
        zest_plot_panel_title(panel, d->report->panels[panels[i]].name);
        draw_axes(panel, f, a, d->factor, i % columns == 0);
        if (on != ALONE) zest_plot_legend(panel, ZEST_PLOT_LEGEND_NONE);
        draw_panel(panel, d, panels[i]);
    }
    return plot;
}

static zest_plot *draw(const zest_report_figure *f, const axes *a, const zest_report *report, medium on) {
    drawing d = {.figure = f,
                 .report = report,
                 .factor = zest_report_is_share(f->metric) ? 100 : 1,
                 .means = !f->names && zest_report_has_seeds(report)};
    size_t panels[12];
    size_t const count = find_panels(f, report, panels);
    if (count > 1) return draw_split(f, a, &d, on, panels, count);
    double const width = on == ALONE ? 900 : on == ON_PHONE ? PHONE : f->wide ? WIDE : HALF;
    double const height = on == ALONE ? 440 : on == ON_PHONE ? 270 : f->wide ? 380 : 310;
    zest_plot *plot = zest_plot_new(1, 1, width, height);
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    zest_plot_title(plot, on == ALONE ? f->title : NULL, f->description);
    draw_axes(panel, f, a, d.factor, 1);
    if (on != ALONE) zest_plot_legend(panel, ZEST_PLOT_LEGEND_NONE);
    draw_panel(panel, &d, ZEST_SWEEP_NONE);
    return plot;
}

/* The SVG for HTML: no namespace, no style of its own (the page has it), an accessible name. */
static void add_inline(zest_report_page *page, const char *title, const zest_plot *plot,
                       const char *class_name) {
    zest_buffer svg = {0};
    if (zest_plot_svg(plot, &svg)) {
        page->status = zest_error_memory(&page->error, title, svg.size);
        zest_buffer_free(&svg);
        return;
    }
    const char *open = strstr(svg.data, " role="), *inside = strchr(svg.data, '>'),
               *style = strstr(svg.data, "<style>"), *rest = strstr(svg.data, "</style>\n");
    if (open && inside && style && rest && open < inside) {
        zest_buffer_format(&page->body, "<svg class=\"%s\"", class_name);
        zest_buffer_add(&page->body, open, (size_t)(inside - open) + 1);
        zest_buffer_text(&page->body, "\n<title>");
        zest_report_escape(&page->body, title);
        zest_buffer_text(&page->body, "</title>");
        zest_buffer_add(&page->body, inside + 1, (size_t)(style - inside) - 1);
        rest += strlen("</style>\n");
        if ((size_t)(rest - style) > page->style.size) { /* the largest style serves all */
            page->style.size = 0;
            zest_buffer_add(&page->style, style, (size_t)(rest - style));
        }
        zest_buffer_add(&page->body, rest, svg.size - (size_t)(rest - svg.data));
    } else {
        page->status =
            zest_error_set(&page->error, ZEST_ERROR_STATE, "the figure '%s' is not as expected", title);
    }
    zest_buffer_free(&svg);
}

/* ---- Table ---- */

static size_t find_rows(const zest_report_figure *f, double **rows) {
    size_t all = 0, used = 0;
    for (size_t i = 0; i < f->count; i++) all += f->curves[i].count;
    *rows = malloc((all + 1) * sizeof **rows);
    if (!*rows) return 0;
    for (size_t i = 0; i < f->count; i++)
        for (size_t j = 0; j < f->curves[i].count; j++) (*rows)[used++] = key(f, f->curves[i].x[j]);
    qsort(*rows, used, sizeof **rows, ascending);
    size_t unique = 0;
    for (size_t i = 0; i < used; i++)
        if (!unique || (*rows)[i] != (*rows)[unique - 1]) (*rows)[unique++] = (*rows)[i];
    if (unique <= ROWS) return unique;
    for (size_t i = 0; i < ROWS; i++) (*rows)[i] = (*rows)[i * (unique - 1) / (ROWS - 1)];
    return ROWS;
}

static void add_table_head(zest_report_page *page, const zest_report_figure *f) {
    zest_buffer *out = &page->body;
    zest_buffer_text(
        out, "<details><summary>Numbers</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
             "aria-label=\"Numbers: ");
    zest_report_escape(out, f->title);
    zest_buffer_text(out, "\"><table>\n<thead><tr><th scope=\"col\">");
    zest_report_escape(out, f->x);
    zest_buffer_text(out, "</th>");
    for (size_t i = 0; i < f->count; i++) {
        const zest_report_run *run = &page->report->runs[f->curves[i].run];
        if (!f->curves[i].count) continue;
        const zest_report_series *series = &page->report->series[run->series];
        zest_buffer_format(out, "<th scope=\"col\" class=\"n\" data-series=\"%zu\">", run->series + 1);
        zest_report_chip(out, &series->style);
        zest_report_escape(out, run->name);
        zest_buffer_text(out, "</th>");
    }
    zest_buffer_text(out, "</tr></thead>\n<tbody>\n");
}

static void add_table(zest_report_page *page, const zest_report_figure *f) {
    zest_buffer *out = &page->body;
    double *rows;
    size_t const count = find_rows(f, &rows);
    size_t *next = calloc(f->count + 1, sizeof *next);
    if (!rows || !next) page->status = zest_error_memory(&page->error, f->title, count);
    if (!page->status) add_table_head(page, f);
    for (size_t r = 0; r < count && !page->status; r++) {
        zest_buffer_format(out, "<tr data-x=\"%.10g\"><th scope=\"row\">", rows[r]);
        if (f->names)
            zest_report_escape(out, f->names[(size_t)rows[r]]);
        else if (rows[r] == floor(rows[r]))
            zest_report_count(out, (uint64_t)rows[r]);
        else
            zest_buffer_format(out, "%.4g", rows[r]);
        zest_buffer_text(out, "</th>");
        for (size_t i = 0; i < f->count; i++) {
            if (!f->curves[i].count) continue;
            double const value = value_at(f, &f->curves[i], rows[r], &next[i]);
            zest_buffer_text(out, "<td class=\"n\">");
            if (isfinite(value)) zest_report_value(out, f->metric, value);
            zest_buffer_text(out, "</td>");
        }
        zest_buffer_text(out, "</tr>\n");
    }
    if (!page->status) zest_buffer_text(out, "</tbody></table></div></details>\n");
    free(rows);
    free(next);
}

/* ---- The whole figure ---- */

static void save(zest_report_page *page, const char *id, const zest_plot *plot) {
    char name[80];
    snprintf(name, sizeof name, "%s.svg", id);
    char *path = zest_file_join(page->figures, name);
    page->status =
        path ? zest_plot_write(plot, path, &page->error) : zest_error_memory(&page->error, name, sizeof name);
    free(path);
}

static void open_figure(zest_report_page *page, const char *id, const char *title, int wide,
                        const char *rest) {
    zest_buffer_format(&page->body, "<figure id=\"figure-%s\"%s%s>\n<h3>", id, wide ? " class=\"wide\"" : "",
                       rest);
    zest_report_escape(&page->body, title);
    zest_buffer_text(&page->body, "</h3>\n");
}

static void write_drawing(zest_report_page *page, const zest_report_drawing *d, const char *caption) {
    open_figure(page, d->id, d->title, 1, "");
    add_inline(page, d->title, d->wide, "plot");
    if (!page->status) add_inline(page, d->title, d->narrow, "narrow");
    zest_buffer_text(&page->body, "<figcaption>");
    zest_report_escape(&page->body, caption);
    zest_buffer_text(&page->body, "</figcaption>\n");
    if (!page->status && page->figures) save(page, d->id, d->alone);
    page->figure_count++;
}

void zest_report_draw(zest_report_page *page, const zest_report_drawing *d, const char *caption,
                      void (*numbers)(zest_report_page *page, const void *user), const void *user) {
    if (d->wide && (!d->narrow || !d->alone)) page->status = zest_error_memory(&page->error, d->title, 0);
    if (d->wide && !page->status) {
        write_drawing(page, d, caption);
        if (numbers) numbers(page, user);
        zest_buffer_text(&page->body, "</figure>\n");
    }
    zest_plot_free(d->wide);
    zest_plot_free(d->narrow);
    zest_plot_free(d->alone);
}

static void write_figure(zest_report_page *page, const zest_report_figure *f) {
    zest_buffer *out = &page->body;
    axes const a = find_axes(f, f->names || page->report->count <= 2);
    zest_plot *plot = draw(f, &a, page->report, ON_PAGE);
    char range[80];
    zest_number_format(range, sizeof range, " data-x=\"%.17g %.17g\"", a.x0, a.x1);
    open_figure(page, f->id, f->title, f->wide || is_split(f, page->report), range);
    add_inline(page, f->title, plot, "plot");
    zest_plot_free(plot);
    plot = draw(f, &a, page->report, ON_PHONE);
    if (!page->status) add_inline(page, f->title, plot, "narrow");
    zest_plot_free(plot);
    zest_buffer_text(out, "<figcaption>");
    if (f->caption.size) zest_buffer_add(out, f->caption.data, f->caption.size);
    if (!f->names && zest_report_has_seeds(page->report))
        zest_buffer_text(out, " Pale: each seed. Strong: mean over seeds.");
    if (is_split(f, page->report))
        zest_buffer_text(out, zest_report_has_seeds(page->report) ? " Grey: the means of the other panels."
                                                                  : " Grey: the other panels.");
    if (a.cut) zest_buffer_text(out, " Spikes beyond the frame are cut off.");
    if (a.below) zest_buffer_text(out, " Points below the frame are left out.");
    zest_buffer_text(out, "</figcaption>\n");
    if (!page->status) add_table(page, f);
    zest_buffer_text(out, "</figure>\n");
    if (!page->status && page->figures) {
        plot = draw(f, &a, page->report, ALONE);
        save(page, f->id, plot);
        zest_plot_free(plot);
    }
    page->figure_count++;
}

int zest_report_figure_end(zest_report_page *page, zest_report_figure *figure) {
    int any = 0;
    for (size_t i = 0; figure->curves && i < figure->count; i++) {
        for (size_t j = 0; j < figure->curves[i].count && !any; j++) any = isfinite(figure->curves[i].y[j]);
    }
    if (figure->caption.failed) page->status = zest_error_memory(&page->error, figure->title, 0);
    if (any && !page->status) write_figure(page, figure);
    for (size_t i = 0; figure->curves && i < figure->count; i++) {
        free(figure->curves[i].x);
        free(figure->curves[i].raw_x);
    }
    free(figure->curves);
    zest_buffer_free(&figure->caption);
    figure->curves = NULL;
    return any && !page->status;
}
