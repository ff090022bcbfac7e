/* Plots: a figure in memory, to which the caller adds items in order, and its SVG. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lab/plot/figure.h"

/* ---- Figures and panels ---- */

zest_plot *zest_plot_new(int rows, int columns, double width, double height) {
    zest_plot *plot = calloc(1, sizeof *plot);
    if (!plot) return NULL;
    plot->rows = rows < 1 ? 1 : rows > 64 ? 64 : rows;
    plot->columns = columns < 1 ? 1 : columns > 64 ? 64 : columns;
    plot->width = width > 100 && width < 1e5 ? width : 100;
    plot->height = height > 100 && height < 1e5 ? height : 100;
    plot->panels = calloc((size_t)(plot->rows * plot->columns), sizeof *plot->panels);
    if (!plot->panels) return free(plot), NULL;
    for (int i = 0; i < plot->rows * plot->columns; i++) {
        plot->panels[i].plot = plot;
        plot->panels[i].x = plot->panels[i].y = (zest_plot_axis){.low = NAN, .high = NAN};
    }
    return plot;
}

static void free_panel(zest_plot_panel *panel) {
    for (size_t i = 0; i < panel->count; i++) {
        free(panel->items[i].x);
        free(panel->items[i].text);
    }
    for (size_t i = 0; i < panel->name_count; i++) free(panel->names[i]);
    free(panel->names);
    free(panel->tick_positions);
    free(panel->items);
    free(panel->title);
    free(panel->x.label);
    free(panel->y.label);
    free(panel->shade.label);
}

void zest_plot_free(zest_plot *plot) {
    if (!plot) return;
    for (int i = 0; i < plot->rows * plot->columns; i++) free_panel(&plot->panels[i]);
    free(plot->panels);
    free(plot->title);
    free(plot->subtitle);
    free(plot->description);
    free(plot);
}

zest_plot_panel *zest_plot_at(zest_plot *plot, int row, int column) {
    if (!plot || row < 0 || column < 0 || row >= plot->rows || column >= plot->columns) return NULL;
    return &plot->panels[row * plot->columns + column];
}

/* ---- Text and axes ---- */

static void replace(zest_plot *plot, char **position, const char *text) {
    free(*position);
    *position = NULL;
    if (text && *text && !(*position = strdup(text))) plot->failed = 1;
}

void zest_plot_title(zest_plot *plot, const char *title, const char *description) {
    if (!plot) return;
    replace(plot, &plot->title, title);
    replace(plot, &plot->description, description);
}

void zest_plot_subtitle(zest_plot *plot, const char *text) {
    if (plot) replace(plot, &plot->subtitle, text);
}

void zest_plot_panel_title(zest_plot_panel *panel, const char *title) {
    if (panel) replace(panel->plot, &panel->title, title);
}

static void set_axis(zest_plot_panel *panel, zest_plot_axis *axis, const char *label, zest_plot_scale scale) {
    replace(panel->plot, &axis->label, label);
    axis->scale = scale;
}

void zest_plot_axis_x(zest_plot_panel *panel, const char *label, zest_plot_scale scale) {
    if (panel) set_axis(panel, &panel->x, label, scale);
}

void zest_plot_axis_y(zest_plot_panel *panel, const char *label, zest_plot_scale scale) {
    if (panel) set_axis(panel, &panel->y, label, scale);
}

void zest_plot_range_x(zest_plot_panel *panel, double low, double high) {
    if (panel) panel->x.low = low, panel->x.high = high;
}

void zest_plot_range_y(zest_plot_panel *panel, double low, double high) {
    if (panel) panel->y.low = low, panel->y.high = high;
}

void zest_plot_equal(zest_plot_panel *panel) {
    if (panel) panel->equal = 1;
}

void zest_plot_legend(zest_plot_panel *panel, zest_plot_legend_corner position) {
    if (panel) panel->legend = position;
}

void zest_plot_ticks_x(zest_plot_panel *panel, size_t count, const double *tick_positions) {
    if (!panel || panel->tick_positions) return;
    panel->tick_positions = malloc((count ? count : 1) * sizeof *tick_positions);
    if (!panel->tick_positions) {
        panel->plot->failed = 1;
        return;
    }
    panel->tick_count = count;
    for (size_t i = 0; i < count; i++) panel->tick_positions[i] = tick_positions[i];
}

void zest_plot_names_x(zest_plot_panel *panel, size_t count, const char *const *names) {
    if (!panel || panel->names) return;
    panel->names = calloc(count ? count : 1, sizeof *panel->names);
    if (!panel->names) {
        panel->plot->failed = 1;
        return;
    }
    panel->name_count = count;
    for (size_t i = 0; i < count; i++) replace(panel->plot, &panel->names[i], names[i]);
}

void zest_plot_colours(zest_plot_panel *panel, zest_plot_map map, zest_plot_scale scale, double low,
                       double high, const char *label) {
    if (!panel) return;
    panel->shaded = 1;
    panel->map = map;
    panel->shade.low = low;
    panel->shade.high = high;
    set_axis(panel, &panel->shade, label, scale);
}

/* ---- Items ---- */

/* A new item with `columns` arrays of count numbers, copied from sources. NULL: out of memory. */
static zest_plot_item *add(zest_plot_panel *panel, zest_plot_kind kind, size_t count, int columns,
                           const double *const *sources, zest_plot_style style, const char *text) {
    if (!panel || panel->plot->failed) return NULL;
    panel->plot->failed = 1; /* until everything is copied */
    if (panel->count == panel->capacity) {
        size_t const capacity = panel->capacity ? 2 * panel->capacity : 16;
        zest_plot_item *items = realloc(panel->items, capacity * sizeof *items);
        if (!items) return NULL;
        panel->items = items;
        panel->capacity = capacity;
    }
    zest_plot_item item = {.kind = kind, .style = style, .count = count};
    if (count > SIZE_MAX / sizeof(double) / 4) return NULL;
    item.x = malloc((count * (size_t)columns + 1) * sizeof *item.x);
    if (!item.x) return NULL;
    for (int c = 0; c < columns && count; c++)
        memcpy(item.x + (size_t)c * count, sources[c], count * sizeof *item.x);
    item.y = item.x + (columns > 1 ? count : 0);
    item.top = item.x + (columns > 2 ? 2 * count : 0);
    if (text && *text && !(item.text = strdup(text))) return free(item.x), NULL;
    panel->plot->failed = 0;
    panel->items[panel->count] = item;
    return &panel->items[panel->count++];
}

void zest_plot_line(zest_plot_panel *panel, size_t count, const double *x, const double *y,
                    zest_plot_style style, const char *label) {
    add(panel, ITEM_LINE, count, 2, (const double *const[]){x, y}, style, label);
}

void zest_plot_band(zest_plot_panel *panel, size_t count, const double *x, const double *low,
                    const double *high, zest_plot_style style, const char *label) {
    add(panel, ITEM_BAND, count, 3, (const double *const[]){x, low, high}, style, label);
}

void zest_plot_bars(zest_plot_panel *panel, size_t count, const double *x, const double *y, double width,
                    zest_plot_style style, const char *label) {
    zest_plot_item *item = add(panel, ITEM_BARS, count, 2, (const double *const[]){x, y}, style, label);
    if (item) item->value = width;
}

void zest_plot_whiskers(zest_plot_panel *panel, size_t count, const double *x, const double *low,
                        const double *high, zest_plot_style style) {
    add(panel, ITEM_WHISKERS, count, 3, (const double *const[]){x, low, high}, style, NULL);
}

void zest_plot_guide_x(zest_plot_panel *panel, double value, zest_plot_style style, const char *label) {
    zest_plot_item *item = add(panel, ITEM_GUIDE_X, 0, 0, NULL, style, label);
    if (item) item->value = value;
}

void zest_plot_guide_y(zest_plot_panel *panel, double value, zest_plot_style style, const char *label) {
    zest_plot_item *item = add(panel, ITEM_GUIDE_Y, 0, 0, NULL, style, label);
    if (item) item->value = value;
}

void zest_plot_text(zest_plot_panel *panel, double x, double y, zest_plot_anchor position, const char *text,
                    zest_plot_style style) {
    zest_plot_item *item = add(panel, ITEM_TEXT, 1, 2, (const double *const[]){&x, &y}, style, text);
    if (item) item->position = position;
}

void zest_plot_polygon(zest_plot_panel *panel, size_t count, const double *x, const double *y, double value) {
    zest_plot_item *item =
        add(panel, ITEM_POLYGON, count, 2, (const double *const[]){x, y}, (zest_plot_style){0}, NULL);
    if (item) item->value = value;
}

static void add_grid(zest_plot_panel *panel, zest_plot_kind kind, const zest_plot_grid *grid, size_t count,
                     const double *levels, zest_plot_style style, const char *label) {
    if (!panel || !grid || grid->nx < 2 || grid->ny < 2 || grid->nx > SIZE_MAX / 64 / grid->ny) return;
    zest_plot_item *item = add(panel, kind, count, 1, (const double *const[]){levels}, style, label);
    if (!item) return;
    size_t const size = grid->nx * grid->ny;
    double *data = realloc(item->x, (count + size) * sizeof *data);
    if (!data) {
        panel->plot->failed = 1;
        return;
    }
    memcpy(data + count, grid->values, size * sizeof *data);
    item->x = data;
    item->grid = *grid;
    item->grid.values = data + count;
}

void zest_plot_filled(zest_plot_panel *panel, const zest_plot_grid *grid, size_t count,
                      const double *levels) {
    add_grid(panel, ITEM_FILLED, grid, count, levels, (zest_plot_style){0}, NULL);
}

void zest_plot_contours(zest_plot_panel *panel, const zest_plot_grid *grid, size_t count,
                        const double *levels, zest_plot_style style, const char *label) {
    add_grid(panel, ITEM_CONTOURS, grid, count, levels, style, label);
}

void zest_plot_cells(zest_plot_panel *panel, const zest_plot_grid *grid) {
    add_grid(panel, ITEM_CELLS, grid, 0, NULL, (zest_plot_style){0}, NULL);
}

/* ---- SVG ---- */

static void open_svg(zest_buffer *out, const zest_plot *plot) {
    int shaded = 0;
    for (int i = 0; i < plot->rows * plot->columns; i++) shaded |= plot->panels[i].shaded;
    zest_buffer_text(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    zest_svg_attribute(out, "width", plot->width);
    zest_svg_attribute(out, "height", plot->height);
    zest_buffer_text(out, " viewBox=\"0 0 ");
    zest_svg_number(out, plot->width, 2);
    zest_buffer_text(out, " ");
    zest_svg_number(out, plot->height, 2);
    zest_buffer_text(out, "\">\n");
    if (plot->title) {
        zest_buffer_text(out, "<title>");
        zest_svg_escaped(out, plot->title);
        zest_buffer_text(out, "</title>\n");
    }
    if (plot->description) {
        zest_buffer_text(out, "<desc>");
        zest_svg_escaped(out, plot->description);
        zest_buffer_text(out, "</desc>\n");
    }
    zest_plot_stylesheet(out, shaded);
    zest_buffer_text(out, "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
}

/* Title, subtitle and shared legend; returns the pixel below them. */
static double draw_head(zest_buffer *out, const zest_plot *plot) {
    double top = 10;
    if (plot->title) {
        zest_svg_text(out, 20, top + 20, "start", 17, "class=\"b\"", plot->title);
        top += 30;
    }
    if (plot->subtitle) {
        zest_svg_text(out, 20, top + 14, "start", 12.5, "class=\"soft\"", plot->subtitle);
        top += 22;
    }
    double const legend = zest_plot_shared_legend(out, plot, 18, top + 4, plot->width - 40);
    return top + (legend > 0 ? legend + 8 : 0);
}

static void draw_panel(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    if (frame->empty) return;
    zest_buffer_text(out, "<g>\n");
    zest_plot_draw_axes(out, panel, frame);
    zest_buffer_text(out, "<svg"); /* a nested image, which clips what is outside */
    zest_svg_attribute(out, "x", frame->left);
    zest_svg_attribute(out, "y", frame->top);
    zest_svg_attribute(out, "width", frame->x.length);
    zest_svg_attribute(out, "height", frame->y.length);
    zest_buffer_text(out, ">\n");
    zest_plot_draw_items(out, panel, frame);
    zest_buffer_text(out, "</svg>\n");
    zest_plot_draw_words(out, panel, frame);
    zest_plot_panel_legend(out, panel, frame);
    zest_buffer_text(out, "</g>\n");
}

zest_status zest_plot_svg(const zest_plot *plot, zest_buffer *out) {
    if (!plot || plot->failed) return ZEST_ERROR_MEMORY;
    size_t const count = (size_t)plot->rows * (size_t)plot->columns;
    zest_plot_frame *frames = calloc(count, sizeof *frames);
    if (!frames) return ZEST_ERROR_MEMORY;
    open_svg(out, plot);
    if (zest_plot_layout(plot, draw_head(out, plot), frames))
        for (size_t i = 0; i < count; i++) draw_panel(out, &plot->panels[i], &frames[i]);
    else
        out->failed = 1;
    zest_buffer_text(out, "</svg>\n");
    free(frames);
    return out->failed ? ZEST_ERROR_MEMORY : ZEST_OK;
}

zest_status zest_plot_write(const zest_plot *plot, const char *path, zest_error *error) {
    zest_buffer text = {0};
    zest_status status = zest_plot_svg(plot, &text);
    if (status != ZEST_OK)
        zest_error_set(error, status, "not enough memory for the figure %s", path);
    else
        status = zest_file_write(path, text.data, text.size, error);
    zest_buffer_free(&text);
    return status;
}
