/* Figures of sharpness. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "run/sharpness.h"

enum { MOST = 64, LEVELS = 12, COLUMNS = 3, GRID_MOST = 1001 };

static const zest_plot_mark marks[] = {ZEST_PLOT_CIRCLE, ZEST_PLOT_SQUARE, ZEST_PLOT_DIAMOND,
                                       ZEST_PLOT_TRIANGLE};

/* ---- Losses nearby ---- */

/* Mean with a band of one standard deviation, as the paper has it; the radius 0 is the loss itself. */
static int draw_one(zest_plot_panel *panel, const zest_sharpness_series *s) {
    const json_t *points = json_object_get(s->found, "neighbourhood");
    double x[MOST + 1], mean[MOST + 1], low[MOST + 1], high[MOST + 1];
    size_t count = json_array_size(points), used = 1;
    if (!count) return 0;
    x[0] = 0;
    mean[0] = low[0] = high[0] = zest_sharpness_number(s->found, "loss", NULL);
    for (size_t r = 0; r < count && used <= MOST; r++) {
        const json_t *point = json_array_get(points, r);
        double sd = zest_sharpness_number(point, "spread", "value");
        x[used] = zest_sharpness_number(point, "radius", NULL);
        mean[used] = zest_sharpness_number(point, "mean", "value");
        low[used] = mean[used] - sd, high[used] = mean[used] + sd;
        used++;
    }
    zest_plot_band(panel, used, x, low, high, (zest_plot_style){.colour = s->colour, .opacity = 0.16}, NULL);
    zest_plot_line(
        panel, used, x, mean,
        (zest_plot_style){
            .colour = s->colour, .width = 2, .size = 6, .mark = marks[(unsigned)(s->colour + 3) % 4]},
        s->name);
    return 1;
}

int zest_sharpness_draw_losses(zest_plot_panel *panel, const zest_sharpness_series *series, size_t count) {
    int any = 0;
    zest_plot_axis_x(panel, "radius ‖ε‖", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "loss", ZEST_PLOT_LINEAR);
    for (size_t i = 0; i < count; i++) any |= draw_one(panel, &series[i]);
    return any;
}

/* ---- Eigenvalues ---- */

static size_t eigenvalues(const json_t *found, double *values, double *errors) {
    const json_t *top = json_object_get(json_object_get(found, "hessian"), "top");
    size_t count = json_array_size(top);
    if (count > MOST) count = MOST;
    for (size_t k = 0; k < count; k++) {
        values[k] = zest_sharpness_number(json_array_get(top, k), "value", NULL);
        errors[k] = zest_sharpness_number(json_array_get(top, k), "residual", NULL);
    }
    return count;
}

/* Whiskers: an eigenvalue lies within the residual of the value. */
int zest_sharpness_draw_top(zest_plot_panel *panel, const zest_sharpness_series *series, size_t count) {
    double values[MOST], errors[MOST], x[MOST], low[MOST], high[MOST], shown = 0, at = 0;
    char words[MOST][24];
    const char *names[MOST];
    size_t most = 0;
    for (size_t i = 0; i < count; i++) shown += eigenvalues(series[i].found, values, errors) > 0;
    double width = 0.76 / fmax(shown, 1);
    for (size_t i = 0; i < count; i++) {
        size_t n = eigenvalues(series[i].found, values, errors);
        if (!n) continue;
        for (size_t k = 0; k < n; k++) {
            x[k] = (double)k + width * (at - 0.5 * (shown - 1));
            low[k] = values[k] - errors[k], high[k] = values[k] + errors[k];
        }
        zest_plot_bars(panel, n, x, values, 0.92 * width, (zest_plot_style){.colour = series[i].colour},
                       series[i].name);
        zest_plot_whiskers(panel, n, x, low, high,
                           (zest_plot_style){.colour = ZEST_PLOT_INK, .width = 1.2, .opacity = 0.75});
        if (n > most) most = n;
        at++;
    }
    for (size_t k = 0; k < most; k++) {
        snprintf(words[k], sizeof words[k], "λ%zu", k + 1);
        names[k] = words[k];
    }
    zest_plot_axis_y(panel, "eigenvalue of the Hessian", ZEST_PLOT_LINEAR);
    if (most) zest_plot_names_x(panel, most, names);
    return most > 0;
}

static const char *word(const json_t *found, const char *name) {
    const char *text = json_string_value(json_object_get(found, name));
    return text ? text : "";
}

zest_plot *zest_sharpness_figure(const zest_sharpness_series *series, size_t count) {
    double values[MOST], errors[MOST];
    int both = 0;
    zest_buffer text = {0};
    for (size_t i = 0; i < count; i++) both |= eigenvalues(series[i].found, values, errors) > 0;
    zest_plot *plot = zest_plot_new(1, both ? 2 : 1, both ? 960 : 560, 420);
    const json_t *first = count ? series[0].found : NULL;
    zest_plot_title(
        plot, "Sharpness",
        "Left: mean loss of perturbed weights against the length of the perturbation, with a band of "
        "one standard deviation, for each model. Right: the largest eigenvalues of the Hessian.");
    zest_buffer_format(&text, "%s, %s examples: %.0f; perturbations at each radius: %.0f",
                       word(first, "task"), word(first, "split"),
                       zest_sharpness_number(first, "examples", NULL),
                       zest_sharpness_number(first, "samples", NULL));
    zest_plot_subtitle(plot, text.data);
    zest_buffer_free(&text);
    zest_sharpness_draw_losses(zest_plot_at(plot, 0, 0), series, count);
    if (both) zest_sharpness_draw_top(zest_plot_at(plot, 0, 1), series, count);
    return plot;
}

/* ---- Slices ---- */

typedef struct {
    int dimensions;
    size_t points;
    double *places, *losses; /* one allocation, places owns it */
} slice;

static int read_slice(const json_t *found, slice *s) {
    const json_t *object = json_object_get(found, "slice"), *places = json_object_get(object, "places"),
                 *losses = json_object_get(object, "losses");
    *s = (slice){.dimensions = (int)json_integer_value(json_object_get(object, "dimensions")),
                 .points = json_array_size(places)};
    size_t n = s->points, all = s->dimensions == 2 ? n * n : n;
    if (n < 3 || n > GRID_MOST || json_array_size(losses) != all) return 0;
    s->places = malloc((n + all) * sizeof *s->places);
    if (!s->places) return 0;
    s->losses = s->places + n;
    for (size_t i = 0; i < n; i++) s->places[i] = json_number_value(json_array_get(places, i));
    for (size_t i = 0; i < all; i++) {
        const json_t *value = json_array_get(losses, i);
        s->losses[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return 1;
}

static void draw_plane(zest_plot_panel *panel, const slice *s, const char *name) {
    size_t n = s->points;
    double low = HUGE_VAL, high = -HUGE_VAL, levels[LEVELS], x = s->places[0], y = s->places[n - 1];
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
    slice s;
    size_t planes = 0, lines = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        if (!read_slice(series[i].found, &s)) continue;
        planes += s.dimensions == 2;
        lines += s.dimensions == 1;
        free(s.places);
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
            zest_plot_line(panel, s.points, s.places, s.losses,
                           (zest_plot_style){.colour = series[i].colour, .width = 2}, series[i].name);
        free(s.places);
    }
    return plot;
}
