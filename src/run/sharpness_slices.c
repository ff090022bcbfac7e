/* The loss on a line or in a plane through the weights, as figures. */
#include <math.h>
#include <stdlib.h>

#include "run/sharpness.h"

enum { LEVELS = 12, COLUMNS = 3, GRID_MOST = 1001 };

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
                           (zest_plot_style){.colour = 1 + (int)(i % (ZEST_PLOT_COLOURS - 1)), .width = 2},
                           series[i].name);
        free(s.places);
    }
    return plot;
}
