/* Sharpness in the report: the sharpness.json files of the runs, single or of a sweep. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "lab/report/report_page.h"
#include "lab/sharpness/sharpness.h"

enum { MAX_FILE_SIZE = 64 << 20, MAX_RADII = 64, MAX_TOP = 64 };

/* RUN/sharpness.json, or NULL: missing or unreadable. */
static json_t *read_sharpness(const zest_report_run *run) {
    char *path = zest_file_join(run->path, "sharpness.json");
    json_t *found = NULL;
    if (path) zest_json_read(path, MAX_FILE_SIZE, &found, NULL);
    free(path);
    return found;
}

/* Position on the axis of radii, and the mean there with its standard deviation. */
static void losses_curve(zest_report_page *page, zest_report_curve *c, const json_t *found) {
    const json_t *points = json_object_get(found, "neighbourhood");
    size_t count = json_array_size(points);
    if (!count || count > MAX_RADII || !zest_report_curve_reserve(page, c, count + 1, 1)) return;
    c->x[0] = 0;
    c->y[0] = c->low[0] = c->high[0] = zest_sharpness_number(found, "loss", NULL);
    for (size_t r = 0; r < count; r++) {
        const json_t *point = json_array_get(points, r);
        double mean = zest_sharpness_number(point, "mean", "value"),
               sd = zest_sharpness_number(point, "spread", "value");
        c->x[r + 1] = zest_sharpness_number(point, "radius", NULL);
        c->y[r + 1] = mean, c->low[r + 1] = mean - sd, c->high[r + 1] = mean + sd;
    }
}

static void top_curve(zest_report_page *page, zest_report_curve *c, const json_t *found, double shift) {
    const json_t *top = json_object_get(json_object_get(found, "hessian"), "top");
    size_t count = json_array_size(top);
    if (!count || count > MAX_TOP || !zest_report_curve_reserve(page, c, count, 1)) return;
    for (size_t k = 0; k < count; k++) {
        const json_t *one = json_array_get(top, k);
        double value = zest_sharpness_number(one, "value", NULL),
               residual = zest_sharpness_number(one, "residual", NULL);
        c->x[k] = (double)k + shift;
        c->y[k] = value, c->low[k] = value - residual, c->high[k] = value + residual;
    }
}

static int draw_losses(zest_report_page *page, json_t *const *found) {
    zest_report_figure f = {.id = "sharpness-losses",
                            .title = "Loss around the weights",
                            .description = "Mean loss of perturbed weights against the length of the "
                                           "perturbation, with one standard deviation.",
                            .x = "radius",
                            .y = "loss",
                            .metric = "",
                            .marks = 1,
                            .guide = NAN};
    zest_buffer_text(&f.caption, "Mean loss of perturbed weights; radius 0 is the weights themselves. Shaded "
                                 "(up to two runs): one standard deviation.");
    if (zest_report_figure_begin(page, &f))
        for (size_t i = 0; i < f.count && !page->status; i++) losses_curve(page, &f.curves[i], found[i]);
    return zest_report_figure_end(page, &f);
}

static int draw_top(zest_report_page *page, json_t *const *found) {
    static const char *const names[MAX_TOP] = {"λ1", "λ2", "λ3", "λ4", "λ5", "λ6", "λ7", "λ8", "λ9", "λ10"};
    size_t max = 0, count = page->report->count;
    int negative = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *top = json_object_get(json_object_get(found[i], "hessian"), "top");
        size_t n = json_array_size(top);
        if (n > max) max = n;
        for (size_t k = 0; k < n; k++)
            negative |= zest_sharpness_number(json_array_get(top, k), "value", NULL) < 0;
    }
    if (!max) return 0;
    zest_report_figure f = {.id = "sharpness-top",
                            .title = "Largest eigenvalues of the Hessian",
                            .description =
                                "The largest eigenvalues of the Hessian of each run, with residuals.",
                            .x = "eigenvalue",
                            .y = "value",
                            .metric = "",
                            .names = max <= 10 ? names : NULL,
                            .name_count = max,
                            .marks = 1,
                            .from_zero = !negative,
                            .guide = NAN};
    zest_buffer_text(&f.caption, "Bars: the residual \xe2\x80\x96Hv\xe2\x88\x92\xce\xbbv\xe2\x80\x96, within "
                                 "which an eigenvalue lies.");
    double gap = fmin(0.12, 0.7 / (double)count);
    if (zest_report_figure_begin(page, &f))
        for (size_t i = 0; i < f.count && !page->status; i++)
            top_curve(page, &f.curves[i], found[i], gap * ((double)i - 0.5 * (double)(count - 1)));
    return zest_report_figure_end(page, &f);
}

void zest_report_sharpness(zest_report_page *page) {
    size_t const before = page->body.size, count = page->report->count;
    if (page->report->sweep) {
        zest_report_sweep_sharpness(page);
        return;
    }
    json_t **found = calloc(count + 1, sizeof *found);
    if (!found) {
        page->status = zest_error_memory(&page->error, "the sharpness of runs", count * sizeof *found);
        return;
    }
    for (size_t i = 0; i < count; i++) found[i] = read_sharpness(&page->report->runs[i]);
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    int any = draw_losses(page, found);
    if (!page->status) any |= draw_top(page, found);
    if (any)
        zest_buffer_text(&page->body, "</div>\n");
    else
        page->body.size = before;
    for (size_t i = 0; i < count; i++) json_decref(found[i]);
    free(found);
}

/* ---- Sweeps: a figure for each task and noise level, runs that differ only in the seed combined (the paper's figures 2 and 4) ---- */

typedef struct {
    zest_sharpness_series *series;
    json_t **found;
    char (*names)[128];
    size_t count;
} material;

static void free_material(material *m) {
    for (size_t i = 0; i < m->count; i++) json_decref(m->found[i]);
    free(m->series);
    free(m->found);
    free(m->names);
}

/* "ZEST-N t=100" */
static void name_series(const zest_sweep_summary *s, const zest_sweep_tilt_entry *e, char *label,
                        size_t size) {
    zest_buffer row = {0};
    zest_sweep_row_name(s, e->row, &row);
    zest_sensitivity_name(row.data ? row.data : "", label, size);
    zest_buffer_free(&row);
    size_t length = strlen(label);
    if (e->t > 0) zest_number_format(label + length, size - length, " t=%g", e->t);
}

/* The runs of one task and noise level that were measured, in the order of the table. */
static int gather(const zest_report *report, size_t task, size_t noise, material *m) {
    const zest_sweep_summary *s = report->sweep;
    size_t const capacity = s->tilt_count * s->seed_count + 1;
    *m = (material){.series = calloc(capacity, sizeof *m->series),
                    .found = calloc(capacity, sizeof *m->found),
                    .names = calloc(capacity, sizeof *m->names)};
    if (!m->series || !m->found || !m->names) return 0;
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        for (size_t j = 0; j < s->seed_count && e->task == task && e->noise == noise; j++) {
            size_t at = e->chosen[j] == ZEST_SWEEP_NONE ? ZEST_SWEEP_NONE : report->of_plan[e->chosen[j]];
            json_t *found = at == ZEST_SWEEP_NONE ? NULL : read_sharpness(&report->runs[at]);
            if (!found) continue;
            name_series(s, e, m->names[m->count], sizeof m->names[m->count]);
            m->found[m->count] = found;
            m->series[m->count] = (zest_sharpness_series){
                found, m->names[m->count],
                zest_sensitivity_colour(zest_sweep_method(&s->plan->runs[s->rows[e->row]]))};
            m->count++;
        }
    }
    return 1;
}

static void draw(zest_report_page *page, size_t task, size_t noise, const material *m) {
    const zest_sweep_summary *s = page->report->sweep;
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    zest_buffer title = {0}, id = {0}, caption = {0};
    char name[128];
    zest_buffer_format(&title, "Sharpness: %s, ",
                       zest_sweep_task_name(value ? value : "", name, sizeof name));
    zest_sweep_noise_name(s, noise, &title);
    zest_buffer_text(&id, "sharpness-");
    zest_sweep_safe(&id, name);
    if (noise) zest_buffer_format(&id, "-noise%zu", noise);
    zest_buffer_text(&caption,
                     "Left: mean loss of perturbed weights; radius 0 is the weights themselves. Right: the "
                     "largest eigenvalues of the Hessian. ");
    zest_sharpness_settings(m->series, m->count, &caption);
    zest_buffer_text(&caption, ".");
    if (title.failed || id.failed || caption.failed) {
        page->status = zest_error_memory(&page->error, "a figure", 0);
    } else {
        zest_sharpness_style const wide = {.width = ZEST_REPORT_WIDE},
                                   narrow = {.width = ZEST_REPORT_PHONE, .stacked = 1},
                                   alone = {.title = title.data};
        zest_report_drawing const d = {.id = id.data,
                                       .title = title.data,
                                       .wide = zest_sharpness_figure(m->series, m->count, wide),
                                       .narrow = zest_sharpness_figure(m->series, m->count, narrow),
                                       .alone = zest_sharpness_figure(m->series, m->count, alone)};
        zest_report_draw(page, &d, caption.data, NULL, NULL);
    }
    zest_buffer_free(&title);
    zest_buffer_free(&id);
    zest_buffer_free(&caption);
}

void zest_report_sweep_sharpness(zest_report_page *page) {
    const zest_sweep_summary *s = page->report->sweep;
    size_t const before = page->body.size;
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    size_t const opened = page->body.size;
    for (size_t n = 0; n < s->noise_count; n++)
        for (size_t t = 0; t < s->task_count && !page->status; t++) {
            material m;
            if (!gather(page->report, t, n, &m))
                page->status = zest_error_memory(&page->error, "sharpness", 0);
            if (!page->status && m.count) draw(page, t, n, &m);
            free_material(&m);
        }
    if (page->body.size == opened)
        page->body.size = before;
    else
        zest_buffer_text(&page->body, "</div>\n");
}
