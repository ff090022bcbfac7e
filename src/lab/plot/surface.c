/* Surfaces of plots: filled contours, contour lines, heat maps, polygons; contour tracing by marching
 * squares. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lab/plot/figure.h"

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

/* A contour as a path. A point within a twentieth of a pixel of the line between its neighbours is
 * dropped, but never two in a row, so that errors do not accumulate. */
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

/* Paints {f >= level} over {f >= the previous level}: bands without seams. */
static void draw_filled(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                        const zest_plot_frame *frame) {
    for (size_t i = 0; i <= item->count && item->count; i++) {
        /* the colour of a band is that of its middle; below the first and above the last level, that of
         * the level */
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

/* Adjacent cells of equal colour become one rectangle. */
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

/* ---- Contour tracing by marching squares ----
 *
 * Every cell of the grid joins the crossings on its four edges in pairs; following these links gives the
 * lines. */

/* With `ring` the grid is surrounded by a row and a column of the lowest value and no width. Every line
 * then closes along the border. */
typedef struct {
    const zest_plot_grid *grid;
    double level;
    int ring;
    size_t width, height; /* nodes, including the ring */
    size_t *links;        /* two per edge: the crossings it is joined to, plus one; 0: none */
    double *points;
    zest_plot_trace_line line;
    void *user;
} tracer;

static double node(const tracer *t, size_t i, size_t j) {
    const zest_plot_grid *grid = t->grid;
    if (t->ring) {
        if (i == 0 || j == 0 || i > grid->nx || j > grid->ny) return -INFINITY;
        i--, j--;
    }
    double const value = grid->values[j * grid->nx + i];
    return isnan(value) ? -INFINITY : value;
}

static void position(const tracer *t, size_t i, size_t j, double *x, double *y) {
    const zest_plot_grid *grid = t->grid;
    size_t const nx = grid->nx - 1, ny = grid->ny - 1;
    if (t->ring) i -= i > 0, j -= j > 0;
    if (i > nx) i = nx;
    if (j > ny) j = ny;
    *x = grid->x0 + (grid->x1 - grid->x0) * (double)i / (double)nx;
    *y = grid->y0 + (grid->y1 - grid->y0) * (double)j / (double)ny;
}

/* Edges: from node (i, j) to the right are 0 .. n-1, upwards n .. 2n-1, where n is the number of nodes. */
static size_t edge_right(const tracer *t, size_t i, size_t j) { return j * t->width + i; }
static size_t edge_up(const tracer *t, size_t i, size_t j) { return t->width * t->height + j * t->width + i; }

static void crossing(const tracer *t, size_t edge, double *x, double *y) {
    size_t const nodes = t->width * t->height;
    int const up = edge >= nodes;
    size_t const at = up ? edge - nodes : edge, i = at % t->width, j = at / t->width;
    double const a = node(t, i, j), b = node(t, i + !up, j + up);
    double ax, ay, bx, by, part;
    position(t, i, j, &ax, &ay);
    position(t, i + !up, j + up, &bx, &by);
    if (isfinite(a) && isfinite(b))
        part = (t->level - a) / (b - a);
    else
        part = isfinite(a) ? 0 : 1; /* an end that is not finite does not move the crossing */
    *x = ax + part * (bx - ax);
    *y = ay + part * (by - ay);
}

static void join(tracer *t, size_t a, size_t b) {
    t->links[2 * a + (t->links[2 * a] != 0)] = b + 1;
    t->links[2 * b + (t->links[2 * b] != 0)] = a + 1;
}

static void march_cell(tracer *t, size_t i, size_t j) {
    double const corner[4] = {node(t, i, j), node(t, i + 1, j), node(t, i + 1, j + 1), node(t, i, j + 1)};
    size_t const edges[4] = {edge_right(t, i, j), edge_up(t, i + 1, j), edge_right(t, i, j + 1),
                             edge_up(t, i, j)};
    size_t crossed[4];
    int count = 0;
    if (!t->ring)
        for (int c = 0; c < 4; c++)
            if (!isfinite(corner[c])) return;
    for (int c = 0; c < 4; c++) /* edge c is between corners c and c+1 */
        if ((corner[c] >= t->level) != (corner[(c + 1) % 4] >= t->level)) crossed[count++] = edges[c];
    if (count == 2) join(t, crossed[0], crossed[1]);
    if (count < 4) return;
    /* A saddle: the value of its centre decides which opposite corners are connected. */
    int const middle = 0.25 * (corner[0] + corner[1] + corner[2] + corner[3]) >= t->level;
    if (middle == (corner[0] >= t->level)) {
        join(t, edges[0], edges[1]); /* cuts off corners 1 and 3 */
        join(t, edges[2], edges[3]);
    } else {
        join(t, edges[3], edges[0]); /* cuts off corners 0 and 2 */
        join(t, edges[1], edges[2]);
    }
}

/* Removes the link from a to b in both. */
static void unlink_edges(tracer *t, size_t a, size_t b) {
    for (int side = 0; side < 2; side++) {
        size_t *link = &t->links[2 * (side ? b : a)];
        size_t const other = (side ? a : b) + 1;
        if (link[0] == other) {
            link[0] = link[1];
            link[1] = 0;
        } else if (link[1] == other) {
            link[1] = 0;
        }
    }
}

static int walk(tracer *t, size_t start) {
    size_t count = 0, here = start;
    int closed = 0;
    crossing(t, here, &t->points[0], &t->points[1]);
    for (count = 1; t->links[2 * here]; count++) {
        size_t const next = t->links[2 * here] - 1;
        unlink_edges(t, here, next);
        here = next;
        if (here == start) {
            closed = 1;
            break;
        }
        crossing(t, here, &t->points[2 * count], &t->points[2 * count + 1]);
    }
    return t->line(t->points, count, closed, t->user);
}

static void trace_all(tracer *t, size_t edges) {
    for (size_t j = 0; j + 1 < t->height; j++)
        for (size_t i = 0; i + 1 < t->width; i++) march_cell(t, i, j);
    for (size_t e = 0; e < edges; e++) /* open lines first: they start where an edge has only one link */
        if (t->links[2 * e] && !t->links[2 * e + 1] && !walk(t, e)) return;
    for (size_t e = 0; e < edges; e++)
        if (t->links[2 * e] && !walk(t, e)) return;
}

zest_status zest_plot_trace(const zest_plot_grid *grid, double level, int edge, zest_plot_trace_line line,
                            void *user) {
    if (!grid || grid->nx < 2 || grid->ny < 2 || !grid->values || !isfinite(level))
        return ZEST_ERROR_ARGUMENT;
    tracer t = {.grid = grid,
                .level = level,
                .ring = edge != 0,
                .width = grid->nx + 2 * (size_t)(edge != 0),
                .height = grid->ny + 2 * (size_t)(edge != 0),
                .line = line,
                .user = user};
    if (t.width > SIZE_MAX / 64 / t.height) return ZEST_ERROR_ARGUMENT;
    size_t const edges = 2 * t.width * t.height;
    t.links = calloc(2 * edges, sizeof *t.links);
    t.points = malloc(2 * (edges + 1) * sizeof *t.points);
    if (t.links && t.points) trace_all(&t, edges);
    zest_status const status = t.links && t.points ? ZEST_OK : ZEST_ERROR_MEMORY;
    free(t.links);
    free(t.points);
    return status;
}
