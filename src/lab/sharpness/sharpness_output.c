/* Output of sharpness measurements: JSON, written and read back, and the figures drawn from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lab/sharpness/sharpness.h"
#include "lab/stats/stats.h"

const char *const zest_sharpness_distributions[4] = {"gaussian", "sphere", "ball", "rademacher"};

/* JSON has neither NaN nor infinity. */
static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *estimate(zest_estimate e) {
    return json_pack("{s:o, s:o, s:o}", "value", real(e.value), "low", real(e.low), "high", real(e.high));
}

static json_t *reals(const double *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) zest_json_append(&array, real(values[i]));
    return array;
}

/* ---- JSON: writing ---- */

static json_t *nearby(const zest_sharpness_found *f, const zest_sharpness_found *first) {
    json_t *array = json_array();
    for (size_t r = 0; r < f->plan.radius_count; r++) {
        const zest_perturbed_loss *p = &f->points[r];
        json_t *point =
            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "radius", real(p->radius), "rho",
                      real(p->rho), "mean", estimate(p->mean), "spread", estimate(p->spread), "lowest",
                      real(p->lowest), "highest", real(p->highest), "tilted", estimate(p->tilted),
                      "effective", real(p->effective), "not_finite", (json_int_t)p->bad);
        zest_estimate apart =
            first && first != f ? zest_sharpness_difference(f, first, r) : (zest_estimate){NAN, NAN, NAN};
        if (isfinite(apart.value)) zest_json_set(&point, "above_first", estimate(apart));
        zest_json_append(&array, point);
    }
    return array;
}

static json_t *hessian(const zest_sharpness_found *f) {
    const zest_hessian_top *top = &f->top;
    json_t *array = json_array();
    for (size_t k = 0; k < top->count; k++)
        zest_json_append(&array, json_pack("{s:o, s:o, s:o}", "value", real(top->values[k]), "residual",
                                           real(top->residuals[k]), "half_step", real(top->rechecked[k])));
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b, s:o}", "examples",
                     (json_int_t)f->gradient_examples, "top", array, "lowest", real(top->lowest),
                     "lowest_bound", real(top->lowest_bound), "step", real(top->step), "disagreement",
                     real(top->disagreement), "products", (json_int_t)top->steps, "restarts",
                     (json_int_t)top->restarts, "settled", top->converged, "bytes", real(f->top_bytes));
}

static json_t *trace(const zest_sharpness_found *f) {
    size_t examples = f->trace_by_losses ? f->examples : f->gradient_examples;
    return json_pack("{s:o, s:o, s:I, s:s, s:o, s:o, s:I}", "trace", estimate(f->trace.trace),
                     "mean_eigenvalue", real(f->trace.trace.value / (double)f->dimension), "probes",
                     (json_int_t)f->trace.probes, "by", f->trace_by_losses ? "losses" : "gradients", "step",
                     real(f->trace.step), "disagreement", real(f->trace.disagreement), "examples",
                     (json_int_t)examples);
}

static json_t *slice(const zest_sharpness_found *f) {
    const zest_slice *s = &f->slice;
    size_t rows = s->dimensions == 2 ? s->points : 1;
    return json_pack("{s:i, s:s, s:o, s:o}", "dimensions", s->dimensions, "along",
                     f->plan.seeded ? "seeded" : "eigen", "places", reals(s->coefficients, s->points),
                     "losses", reals(s->values, s->points * rows));
}

json_t *zest_sharpness_json(const zest_sharpness_found *f, const zest_sharpness_found *first) {
    const zest_sharpness_plan *p = &f->plan;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:I, s:b, s:I, s:o, s:o, s:o, s:o}", "name", f->name, "path",
        f->path, "task", f->task, "split", f->split, "examples", (json_int_t)f->examples, "dimension",
        (json_int_t)f->dimension, "distribution", zest_sharpness_distributions[p->distribution], "samples",
        (json_int_t)p->samples, "antithetic", p->antithetic, "sample_seed", (json_int_t)p->seed, "t",
        real(p->t), "loss", real(f->loss), "neighbourhood", nearby(f, first), "seconds", real(f->seconds));
    if (!object) return NULL;
    if (!f->plan.radius_count) json_object_del(object, "neighbourhood");
    if (f->is_run) zest_json_set(&object, "step", json_integer((json_int_t)f->step));
    if (f->top.count) zest_json_set(&object, "hessian", hessian(f));
    if (f->trace.probes) zest_json_set(&object, "trace", trace(f));
    if (f->slice.values) zest_json_set(&object, "slice", slice(f));
    return object;
}

/* ---- JSON: reading ----
 *
 * The file may have been edited by hand: missing members are skipped, and sizes are those of the arrays. */

enum { MAX_POINTS = 10000, MAX_TOP = 1000 };

double zest_sharpness_number(const json_t *object, const char *first, const char *second) {
    const json_t *value = json_object_get(object, first);
    if (second) value = json_object_get(value, second);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double number(const json_t *object, const char *name) {
    return zest_sharpness_number(object, name, NULL);
}

static uint64_t integer_member(const json_t *object, const char *name) {
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *object, const char *name) {
    const char *value = json_string_value(json_object_get(object, name));
    return value ? value : "";
}

static zest_estimate sharpness_read_estimate(const json_t *object, const char *name) {
    const json_t *inner = json_object_get(object, name);
    return (zest_estimate){number(inner, "value"), number(inner, "low"), number(inner, "high")};
}

static int read_nearby(const json_t *points, zest_sharpness_found *f) {
    size_t count = json_array_size(points);
    if (!count || count > MAX_POINTS) return 1;
    f->radii = calloc(count, sizeof *f->radii);
    f->points = calloc(count, sizeof *f->points);
    if (!f->radii || !f->points) return 0;
    f->plan.radius_count = count;
    f->plan.radii = f->radii;
    for (size_t r = 0; r < count; r++) {
        const json_t *point = json_array_get(points, r);
        f->radii[r] = number(point, "radius");
        f->points[r] = (zest_perturbed_loss){.radius = f->radii[r],
                                             .rho = number(point, "rho"),
                                             .mean = sharpness_read_estimate(point, "mean"),
                                             .spread = sharpness_read_estimate(point, "spread"),
                                             .tilted = sharpness_read_estimate(point, "tilted"),
                                             .effective = number(point, "effective"),
                                             .lowest = number(point, "lowest"),
                                             .highest = number(point, "highest"),
                                             .bad = (size_t)integer_member(point, "not_finite")};
    }
    return 1;
}

static int read_hessian(const json_t *hessian, zest_sharpness_found *f) {
    const json_t *top = json_object_get(hessian, "top");
    size_t count = json_array_size(top);
    if (!count || count > MAX_TOP) return 1;
    double *values = malloc(count * sizeof *values);
    f->top.residuals = malloc(2 * count * sizeof *f->top.residuals);
    f->top.process.values = f->top.values = values; /* which owns them */
    if (!values || !f->top.residuals) return 0;
    f->top.rechecked = f->top.residuals + count;
    f->top.count = count;
    for (size_t k = 0; k < count; k++) {
        const json_t *one = json_array_get(top, k);
        values[k] = number(one, "value");
        f->top.residuals[k] = number(one, "residual");
        f->top.rechecked[k] = number(one, "half_step");
    }
    f->gradient_examples = (size_t)integer_member(hessian, "examples");
    f->top.lowest = number(hessian, "lowest");
    f->top.lowest_bound = number(hessian, "lowest_bound");
    f->top.step = number(hessian, "step");
    f->top.disagreement = number(hessian, "disagreement");
    f->top.steps = (size_t)integer_member(hessian, "products");
    f->top.restarts = (size_t)integer_member(hessian, "restarts");
    f->top.converged = json_is_true(json_object_get(hessian, "settled"));
    f->top_bytes = number(hessian, "bytes");
    return 1;
}

static void read_trace(const json_t *trace, zest_sharpness_found *f) {
    f->trace.trace = sharpness_read_estimate(trace, "trace");
    f->trace.probes = (size_t)integer_member(trace, "probes");
    f->trace.step = number(trace, "step");
    f->trace.disagreement = number(trace, "disagreement");
    f->trace_by_losses = !strcmp(text(trace, "by"), "losses");
    if (!f->gradient_examples) f->gradient_examples = (size_t)integer_member(trace, "examples");
}

zest_status zest_sharpness_read(const json_t *object, const char *source, zest_sharpness_found *f,
                                zest_error *error) {
    const char *drawn = text(object, "distribution");
    *f = (zest_sharpness_found){.name = text(object, "name"),
                                .path = text(object, "path"),
                                .task = text(object, "task"),
                                .split = text(object, "split"),
                                .is_run = json_object_get(object, "step") != NULL,
                                .step = integer_member(object, "step"),
                                .dimension = integer_member(object, "dimension"),
                                .examples = (size_t)integer_member(object, "examples"),
                                .loss = number(object, "loss"),
                                .seconds = number(object, "seconds")};
    f->plan.samples = (size_t)integer_member(object, "samples");
    f->plan.antithetic = json_is_true(json_object_get(object, "antithetic"));
    f->plan.seed = integer_member(object, "sample_seed");
    f->plan.t = number(object, "t");
    for (int i = 0; i < 4; i++)
        if (!strcmp(drawn, zest_sharpness_distributions[i])) f->plan.distribution = (zest_distribution)i;
    if (!json_is_object(object) || !*f->task || !f->dimension)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: was not written by zest sharpness", source);
    read_trace(json_object_get(object, "trace"), f);
    if (!read_nearby(json_object_get(object, "neighbourhood"), f) ||
        !read_hessian(json_object_get(object, "hessian"), f))
        return zest_error_memory(error, source, 0);
    return ZEST_OK;
}

/* ---- Figure: losses of perturbed weights against the radius, largest eigenvalues ---- */

enum { MAX_GROUPS = 64 };
static const double FAR = 8; /* eigenvalues that differ by more need a logarithmic axis */

static const zest_plot_mark marks[] = {ZEST_PLOT_CIRCLE, ZEST_PLOT_SQUARE, ZEST_PLOT_DIAMOND,
                                       ZEST_PLOT_TRIANGLE};

/* ---- Series of one name ---- */

typedef struct {
    const zest_sharpness_series *all;
    size_t count;
    const char *name;
    int colour;
} group;

static int is_taken(const group *groups, size_t used, int colour) {
    for (size_t i = 0; i < used; i++)
        if (groups[i].colour == colour) return 1;
    return 0;
}

/* The requested colour, or the first unused one; when all are used, cyclically. */
static int choose_colour(const group *groups, size_t used, int wanted) {
    int colour = 1;
    if (wanted && !is_taken(groups, used, wanted)) return wanted;
    while (colour < ZEST_PLOT_COLOURS && is_taken(groups, used, colour)) colour++;
    return colour < ZEST_PLOT_COLOURS ? colour : 1 + (int)(used % (ZEST_PLOT_COLOURS - 1));
}

/* The groups in the order of their first series; returns their number. */
static size_t find_groups(const zest_sharpness_series *series, size_t count, group *groups) {
    size_t used = 0;
    for (size_t i = 0; i < count && used < MAX_GROUPS; i++) {
        size_t g = 0;
        while (g < used && strcmp(groups[g].name, series[i].name)) g++;
        if (g < used) continue;
        groups[used] = (group){.all = series,
                               .count = count,
                               .name = series[i].name,
                               .colour = choose_colour(groups, used, series[i].colour)};
        used++;
    }
    return used;
}

/* Member `index` of a part, of each series in the group that has it: mean and standard error of `value`;
 * with a single series `margin` is used as the error (NaN where there is none). */
static zest_sample sum_up(const group *g, const json_t *(*part)(const json_t *), size_t index,
                          const char *value, const char *inner, const char *margin,
                          const char *margin_inner) {
    double values[MAX_GROUPS], alone = NAN;
    size_t used = 0;
    for (size_t i = 0; i < g->count && used < MAX_GROUPS; i++) {
        const json_t *one = json_array_get(part(g->all[i].found), index);
        if (strcmp(g->all[i].name, g->name) || !one) continue;
        values[used++] = zest_sharpness_number(one, value, inner);
        alone = zest_sharpness_number(one, margin, margin_inner);
    }
    zest_sample sample = zest_sample_of(values, used);
    if (sample.n == 1) sample.error = alone;
    return sample;
}

static size_t max_count(const group *g, const json_t *(*part)(const json_t *)) {
    size_t max = 0;
    for (size_t i = 0; i < g->count; i++) {
        size_t n = json_array_size(part(g->all[i].found));
        if (!strcmp(g->all[i].name, g->name) && n > max) max = n;
    }
    return max < MAX_GROUPS ? max : MAX_GROUPS;
}

static size_t members(const group *g) {
    size_t count = 0;
    for (size_t i = 0; i < g->count; i++) count += !strcmp(g->all[i].name, g->name) && g->all[i].found;
    return count;
}

/* ---- Losses of perturbed weights ---- */

static const json_t *figure_nearby(const json_t *found) { return json_object_get(found, "neighbourhood"); }

/* The unperturbed loss is at radius 0. */
static zest_sample at_weights(const group *g) {
    double values[MAX_GROUPS];
    size_t used = 0;
    for (size_t i = 0; i < g->count && used < MAX_GROUPS; i++)
        if (!strcmp(g->all[i].name, g->name))
            values[used++] = zest_sharpness_number(g->all[i].found, "loss", NULL);
    return zest_sample_of(values, used);
}

/* Mean with a band: one standard deviation, as in the paper, or the standard error over runs. */
static void draw_losses(zest_plot_panel *panel, const group *g) {
    double x[MAX_GROUPS + 1] = {0}, mean[MAX_GROUPS + 1], low[MAX_GROUPS + 1], high[MAX_GROUPS + 1];
    size_t count = max_count(g, figure_nearby), used = 0;
    if (!count) return;
    for (size_t r = 0; r <= count; r++) {
        zest_sample y =
            r ? sum_up(g, figure_nearby, r - 1, "mean", "value", "spread", "value") : at_weights(g);
        double error = isfinite(y.error) ? y.error : 0;
        x[used] = r ? sum_up(g, figure_nearby, r - 1, "radius", NULL, "radius", NULL).mean : 0;
        mean[used] = y.mean, low[used] = y.mean - error, high[used] = y.mean + error;
        used++;
    }
    zest_plot_band(panel, used, x, low, high, (zest_plot_style){.colour = g->colour, .opacity = 0.16}, NULL);
    zest_plot_line(
        panel, used, x, mean,
        (zest_plot_style){.colour = g->colour, .width = 2, .size = 6, .mark = marks[(g->colour - 1) % 4]},
        g->name);
}

/* ---- Eigenvalues ---- */

static const json_t *top(const json_t *found) {
    return json_object_get(json_object_get(found, "hessian"), "top");
}

/* The eigenvalues of a group; returns their number. Errors: the residual bounds the distance to an
 * eigenvalue; with several runs the standard error. */
static size_t eigenvalues(const group *g, zest_sample values[MAX_GROUPS]) {
    size_t count = max_count(g, top);
    for (size_t k = 0; k < count; k++) values[k] = sum_up(g, top, k, "value", NULL, "residual", NULL);
    return count;
}

/* A logarithmic axis when the first would hide the others, and none is negative. */
static int is_wide(const group *groups, size_t count) {
    zest_sample values[MAX_GROUPS];
    double low = HUGE_VAL, high = 0;
    for (size_t g = 0; g < count; g++) {
        size_t n = eigenvalues(&groups[g], values);
        for (size_t k = 0; k < n; k++) low = fmin(low, values[k].mean), high = fmax(high, values[k].mean);
    }
    return low > 0 && high > FAR * low;
}

static void draw_group_top(zest_plot_panel *panel, const group *g, double shift, double width, int wide) {
    zest_sample values[MAX_GROUPS];
    double x[MAX_GROUPS], y[MAX_GROUPS], low[MAX_GROUPS], high[MAX_GROUPS];
    size_t n = eigenvalues(g, values);
    for (size_t k = 0; k < n; k++) {
        x[k] = (double)k + shift;
        y[k] = values[k].mean;
        low[k] = y[k] - values[k].error, high[k] = y[k] + values[k].error;
        if (wide && low[k] <= 0) low[k] = y[k] / FAR; /* a log axis has no zero */
    }
    if (!n) return;
    if (!wide) zest_plot_bars(panel, n, x, y, 0.92 * width, (zest_plot_style){.colour = g->colour}, g->name);
    zest_plot_whiskers(panel, n, x, low, high,
                       (zest_plot_style){.colour = wide ? g->colour : ZEST_PLOT_INK, .width = 1.4});
    if (wide)
        zest_plot_line(panel, n, x, y,
                       (zest_plot_style){.colour = g->colour,
                                         .size = 9,
                                         .mark = marks[(g->colour - 1) % 4],
                                         .dash = ZEST_PLOT_NO_LINE},
                       g->name);
}

static void draw_top(zest_plot_panel *panel, const group *groups, size_t count) {
    char words[MAX_GROUPS][24];
    const char *names[MAX_GROUPS];
    size_t max = 0, shown = 0, at = 0;
    int wide = is_wide(groups, count);
    for (size_t g = 0; g < count; g++) {
        size_t n = max_count(&groups[g], top);
        shown += n > 0;
        if (n > max) max = n;
    }
    double width = (wide ? 0.6 : 0.76) / fmax((double)shown, 1);
    for (size_t g = 0; g < count; g++) {
        if (!max_count(&groups[g], top)) continue;
        draw_group_top(panel, &groups[g], width * ((double)at - 0.5 * (double)(shown - 1)), width, wide);
        at++;
    }
    for (size_t k = 0; k < max; k++) {
        snprintf(words[k], sizeof words[k], "λ%zu", k + 1);
        names[k] = words[k];
    }
    zest_plot_axis_y(panel, "eigenvalue of the Hessian", wide ? ZEST_PLOT_LOG : ZEST_PLOT_LINEAR);
    zest_plot_names_x(panel, max, names);
}

/* ---- The figure ---- */

static const char *word(const json_t *found, const char *name) {
    const char *text = json_string_value(json_object_get(found, name));
    return text ? text : "";
}

void zest_sharpness_settings(const zest_sharpness_series *series, size_t count, zest_buffer *out) {
    group groups[MAX_GROUPS];
    const json_t *first = count ? series[0].found : NULL;
    size_t used = find_groups(series, count, groups), max = 0;
    for (size_t g = 0; g < used; g++)
        if (members(&groups[g]) > max) max = members(&groups[g]);
    double examples = zest_sharpness_number(first, "examples", NULL),
           gradients = zest_sharpness_number(json_object_get(first, "hessian"), "examples", NULL);
    zest_buffer_format(out, "%s, %.0f %s examples", word(first, "task"), examples, word(first, "split"));
    if (isfinite(gradients) && gradients != examples)
        zest_buffer_format(out, " (eigenvalues: %.0f)", gradients);
    if (json_array_size(figure_nearby(first)))
        zest_buffer_format(out, "; %.0f perturbations at each radius",
                           zest_sharpness_number(first, "samples", NULL));
    if (max > 1)
        zest_buffer_format(out, "; mean ± standard error over %zu runs", max);
    else
        zest_buffer_text(out, "; band: one standard deviation");
}

zest_plot *zest_sharpness_figure(const zest_sharpness_series *series, size_t count,
                                 zest_sharpness_style style) {
    group groups[MAX_GROUPS];
    size_t used = find_groups(series, count, groups);
    int left = 0, right = 0;
    for (size_t g = 0; g < used; g++)
        left |= max_count(&groups[g], figure_nearby) > 0, right |= max_count(&groups[g], top) > 0;
    int const both = left && right, rows = both && style.stacked ? 2 : 1,
              columns = both && !style.stacked ? 2 : 1;
    zest_plot *plot = zest_plot_new(rows, columns, style.width > 0 ? style.width : 80 + 440 * columns,
                                    (style.title ? 120 : 70) + (style.stacked ? 240 : 300) * rows);
    zest_plot_title(plot, style.title,
                    "Mean loss of perturbed weights against the length of the perturbation, with a band, "
                    "for each model; and the largest eigenvalues of the Hessian.");
    if (style.title) {
        zest_buffer text = {0};
        zest_sharpness_settings(series, count, &text);
        zest_plot_subtitle(plot, text.data);
        zest_buffer_free(&text);
    }
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    if (left || !right) {
        zest_plot_axis_x(panel, "radius ‖ε‖", ZEST_PLOT_LINEAR);
        zest_plot_axis_y(panel, "loss", ZEST_PLOT_LINEAR);
        for (size_t g = 0; g < used; g++) draw_losses(panel, &groups[g]);
    }
    if (right) draw_top(zest_plot_at(plot, both ? rows - 1 : 0, both ? columns - 1 : 0), groups, used);
    return plot;
}

/* ---- Figures of slices ---- */

enum { LEVELS = 12, COLUMNS = 3, MAX_GRID = 1001 };

typedef struct {
    int dimensions;
    size_t points;
    double *coefficients, *losses; /* one allocation, owned by coefficients */
} figure_slice;

static int read_slice(const json_t *found, figure_slice *s) {
    const json_t *object = json_object_get(found, "slice"), *coefficients = json_object_get(object, "places"),
                 *losses = json_object_get(object, "losses");
    *s = (figure_slice){.dimensions = (int)json_integer_value(json_object_get(object, "dimensions")),
                        .points = json_array_size(coefficients)};
    size_t n = s->points, all = s->dimensions == 2 ? n * n : n;
    if (n < 3 || n > MAX_GRID || json_array_size(losses) != all) return 0;
    s->coefficients = malloc((n + all) * sizeof *s->coefficients);
    if (!s->coefficients) return 0;
    s->losses = s->coefficients + n;
    for (size_t i = 0; i < n; i++) s->coefficients[i] = json_number_value(json_array_get(coefficients, i));
    for (size_t i = 0; i < all; i++) {
        const json_t *value = json_array_get(losses, i);
        s->losses[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return 1;
}

static void draw_plane(zest_plot_panel *panel, const figure_slice *s, const char *name) {
    size_t n = s->points;
    double low = HUGE_VAL, high = -HUGE_VAL, levels[LEVELS], x = s->coefficients[0],
           y = s->coefficients[n - 1];
    for (size_t i = 0; i < n * n; i++) {
        if (!isfinite(s->losses[i])) continue;
        low = fmin(low, s->losses[i]), high = fmax(high, s->losses[i]);
    }
    if (!(high > low)) return;
    for (int l = 0; l < LEVELS; l++) levels[l] = low + (high - low) * (double)l / LEVELS;
    zest_plot_grid grid = {n, n, x, y, x, y, s->losses};
    zest_plot_panel_title(panel, name);
    zest_plot_equal(panel);
    zest_plot_colours(panel, ZEST_PLOT_MAP_DEPTH, ZEST_PLOT_LINEAR, low, high, "loss");
    zest_plot_filled(panel, &grid, LEVELS, levels);
    zest_plot_contours(panel, &grid, LEVELS - 1, levels + 1, (zest_plot_style){.width = 0.6, .opacity = 0.5},
                       NULL);
    double zero = 0;
    zest_plot_line(panel, 1, &zero, &zero,
                   (zest_plot_style){.mark = ZEST_PLOT_CROSS, .size = 9, .dash = ZEST_PLOT_NO_LINE}, NULL);
    zest_plot_range_x(panel, x, y);
    zest_plot_range_y(panel, x, y);
}

static void label_axes(zest_plot_panel *panel, const json_t *found, int plane) {
    const char *along = json_string_value(json_object_get(json_object_get(found, "slice"), "along"));
    int eigen = along && along[0] == 'e';
    zest_plot_axis_x(panel, eigen ? "along the first eigenvector" : "along a random direction",
                     ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel,
                     !plane  ? "loss"
                     : eigen ? "along the second eigenvector"
                             : "along another one",
                     ZEST_PLOT_LINEAR);
}

zest_plot *zest_sharpness_slices(const zest_sharpness_series *series, size_t count) {
    figure_slice s;
    size_t planes = 0, lines = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        if (!read_slice(series[i].found, &s)) continue;
        planes += s.dimensions == 2;
        lines += s.dimensions == 1;
        free(s.coefficients);
    }
    if (!planes && !lines) return NULL;
    int columns = planes ? planes < COLUMNS ? (int)planes : COLUMNS : 1,
        rows = planes ? ((int)planes + COLUMNS - 1) / COLUMNS : 1;
    zest_plot *plot = zest_plot_new(rows, columns, planes ? 400 * columns + 60 : 620, 380 * rows + 60);
    zest_plot_title(plot, "Loss around the weights", "The loss on a line or in a plane through the weights.");
    for (size_t i = 0; i < count; i++) {
        if (!read_slice(series[i].found, &s)) continue;
        zest_plot_panel *panel = zest_plot_at(plot, (int)at / columns, (int)at % columns);
        label_axes(panel, series[i].found, planes > 0);
        if (planes && s.dimensions == 2)
            draw_plane(panel, &s, series[i].name), at++;
        else if (!planes)
            zest_plot_line(panel, s.points, s.coefficients, s.losses,
                           (zest_plot_style){.colour = 1 + (int)(i % (ZEST_PLOT_COLOURS - 1)), .width = 2},
                           series[i].name);
        free(s.coefficients);
    }
    return plot;
}
