/* What is shaded by value: filled contours, contour lines, cells, polygons. */
#include <math.h>

#include "plot/figure.h"

typedef struct {
    zest_buffer *out;
    const zest_plot_frame *frame;
} traced;

/* Distance of p from the line through a and b, in pixels. */
static double off_line(const double a[2], const double b[2], const double p[2]) {
    double const dx = b[0] - a[0], dy = b[1] - a[1], length = hypot(dx, dy);
    if (length < 1e-9) return hypot(p[0] - a[0], p[1] - a[1]);
    return fabs(dx * (p[1] - a[1]) - dy * (p[0] - a[0])) / length;
}

/* A contour as a path. A point that the straight line between its neighbours passes within a twentieth of a
 * pixel is left out, but never two in a row, so that errors do not add up. */
static int add_contour(const double *points, size_t count, int closed, void *user) {
    const traced *t = user;
    zest_svg_pen pen = {0};
    int skipped = 0;
    double previous[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        double here[2] = {zest_plot_unit_pixel(&t->frame->x, points[2 * i]),
                          zest_plot_unit_pixel(&t->frame->y, points[2 * i + 1])};
        if (i && i + 1 < count && skipped < 3) {
            double const next[2] = {zest_plot_unit_pixel(&t->frame->x, points[2 * i + 2]),
                                    zest_plot_unit_pixel(&t->frame->y, points[2 * i + 3])};
            if (off_line(previous, next, here) < 0.05) {
                skipped++;
                continue;
            }
        }
        (pen.open ? zest_svg_to : zest_svg_move)(t->out, &pen, here[0], here[1]);
        previous[0] = here[0], previous[1] = here[1];
        skipped = 0;
    }
    if (closed) zest_svg_close(t->out, &pen);
    return 1;
}

static void trace_level(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame,
                        double level, int edge) {
    zest_plot_grid grid =
        item->grid; /* in axis units, where the grid is even and straight lines are straight */
    grid.x0 = zest_plot_units(frame->x.scale, grid.x0), grid.x1 = zest_plot_units(frame->x.scale, grid.x1);
    grid.y0 = zest_plot_units(frame->y.scale, grid.y0), grid.y1 = zest_plot_units(frame->y.scale, grid.y1);
    if (isnan(grid.x0 + grid.x1 + grid.y0 + grid.y1)) return;
    traced t = {.out = out, .frame = frame};
    if (zest_plot_trace(&grid, level, edge, add_contour, &t) == ZEST_ERROR_MEMORY) out->failed = 1;
}

/* Paints {f >= level} over {f >= the level before}: bands without seams between them. */
static void draw_filled(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                        const zest_plot_frame *frame) {
    for (size_t i = 0; i <= item->count && item->count; i++) {
        /* the band's colour is that of its middle; below the first and above the last level, of the level */
        double const low = item->x[i ? i - 1 : 0], high = item->x[i < item->count ? i : item->count - 1];
        int const shade = zest_plot_shade(
            panel, panel->shade.scale == ZEST_PLOT_LOG && low > 0 ? sqrt(low * high) : 0.5 * (low + high));
        if (shade < 0) continue;
        zest_buffer_format(out, "<path class=\"fill %c%d\" d=\"", zest_plot_map_letter(panel->map), shade);
        trace_level(out, item, frame, i ? low : -1.7e308, 1);
        zest_buffer_text(out, "\"/>\n");
    }
}

static void draw_contours(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    zest_buffer_text(out, "<path");
    zest_plot_stroke(out, item->style, 0.8);
    zest_buffer_text(out, " d=\"");
    for (size_t i = 0; i < item->count; i++) trace_level(out, item, frame, item->x[i], 0);
    zest_buffer_text(out, "\"/>\n");
}

/* Cells of equal colour side by side become one rectangle. */
static void draw_cells(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                       const zest_plot_frame *frame) {
    const zest_plot_grid *grid = &item->grid;
    double const x0 = zest_plot_pixel(&frame->x, grid->x0), x1 = zest_plot_pixel(&frame->x, grid->x1);
    double const y0 = zest_plot_pixel(&frame->y, grid->y0), y1 = zest_plot_pixel(&frame->y, grid->y1);
    double const dx = (x1 - x0) / (double)(grid->nx - 1), dy = (y1 - y0) / (double)(grid->ny - 1);
    if (isnan(x0 + x1 + y0 + y1)) return;
    for (size_t j = 0; j < grid->ny; j++) {
        for (size_t i = 0, end; i < grid->nx; i = end) {
            int const shade = zest_plot_shade(panel, grid->values[j * grid->nx + i]);
            for (end = i + 1; end < grid->nx; end++)
                if (zest_plot_shade(panel, grid->values[j * grid->nx + end]) != shade) break;
            if (shade < 0) continue;
            double const left = x0 + ((double)i - 0.5) * dx, right = x0 + ((double)end - 0.5) * dx;
            double const centre = y0 + (double)j * dy;
            zest_buffer_format(out, "<rect class=\"%c%d\"", zest_plot_map_letter(panel->map), shade);
            zest_svg_attribute(out, "x", fmin(left, right));
            zest_svg_attribute(out, "y", centre - 0.5 * fabs(dy));
            zest_svg_attribute(out, "width", fabs(right - left) + 0.3); /* overlap: no seams */
            zest_svg_attribute(out, "height", fabs(dy) + 0.3);
            zest_buffer_text(out, "/>\n");
        }
    }
}

static void draw_polygon(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                         const zest_plot_frame *frame) {
    int const shade = zest_plot_shade(panel, item->value);
    zest_svg_pen pen = {0};
    for (size_t i = 0; i < item->count; i++)
        if (isnan(zest_plot_pixel(&frame->x, item->x[i]) + zest_plot_pixel(&frame->y, item->y[i]))) return;
    if (shade < 0 || item->count < 3) return;
    zest_buffer_format(out, "<path class=\"edge %c%d\" d=\"", zest_plot_map_letter(panel->map), shade);
    for (size_t i = 0; i < item->count; i++)
        (i ? zest_svg_to : zest_svg_move)(out, &pen, zest_plot_pixel(&frame->x, item->x[i]),
                                          zest_plot_pixel(&frame->y, item->y[i]));
    zest_svg_close(out, &pen);
    zest_buffer_text(out, "\"/>\n");
}

void zest_plot_draw_surface(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                            const zest_plot_frame *frame) {
    switch (item->kind) {
    case ITEM_FILLED: draw_filled(out, panel, item, frame); break;
    case ITEM_CONTOURS: draw_contours(out, item, frame); break;
    case ITEM_CELLS: draw_cells(out, panel, item, frame); break;
    default: draw_polygon(out, panel, item, frame);
    }
}
