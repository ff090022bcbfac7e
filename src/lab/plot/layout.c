/* Where everything goes: the range of each axis, then room for its words, then the plotting areas. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/plot/figure.h"

double zest_plot_units(zest_plot_scale scale, double value) {
    if (!isfinite(value)) return NAN;
    if (scale == ZEST_PLOT_LINEAR) return value;
    return value > 0 ? log10(value) : NAN;
}

double zest_plot_unit_pixel(const zest_plot_ruler *ruler, double units) {
    if (isnan(units)) return NAN;
    double part = (units - ruler->low) / (ruler->high - ruler->low);
    part = fmin(fmax(part, -20), 20); /* a point far outside: its line leaves the panel all the same */
    return ruler->length * (ruler->down ? 1 - part : part);
}

double zest_plot_pixel(const zest_plot_ruler *ruler, double value) {
    return zest_plot_unit_pixel(ruler, zest_plot_units(ruler->scale, value));
}

/* ---- Ranges ---- */

typedef struct {
    zest_plot_scale scale;
    double low, high; /* in axis units */
    int floor;        /* something stands on 0: no air below it */
} extent;

static void widen(extent *e, double value) {
    double const units = zest_plot_units(e->scale, value);
    if (isnan(units)) return;
    if (!(units >= e->low)) e->low = units;
    if (!(units <= e->high)) e->high = units;
}

static void widen_all(extent *e, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) widen(e, values[i]);
}

static void widen_item(const zest_plot_item *item, extent *x, extent *y) {
    double const half = item->kind == ITEM_BARS ? 0.5 * item->value : 0;
    switch (item->kind) {
    case ITEM_TEXT: return;
    case ITEM_GUIDE_X: widen(x, item->value); return;
    case ITEM_GUIDE_Y: widen(y, item->value); return;
    case ITEM_FILLED:
    case ITEM_CONTOURS:
    case ITEM_CELLS:
        widen(x, item->grid.x0), widen(x, item->grid.x1);
        widen(y, item->grid.y0), widen(y, item->grid.y1);
        return;
    default: break;
    }
    for (size_t i = 0; i < item->count; i++) widen(x, item->x[i] - half), widen(x, item->x[i] + half);
    widen_all(y, item->y, item->count);
    if (item->kind == ITEM_BAND || item->kind == ITEM_WHISKERS) widen_all(y, item->top, item->count);
    if (item->kind == ITEM_BARS && y->scale == ZEST_PLOT_LINEAR) y->floor = 1, widen(y, 0);
}

/* Ends that the caller chose stay; the others get air; a range of no width becomes one. */
static void settle(extent *e, const zest_plot_axis *axis) {
    double const low = zest_plot_units(axis->scale, axis->low),
                 high = zest_plot_units(axis->scale, axis->high);
    if (isnan(e->low)) e->low = isnan(low) ? 0 : low, e->high = isnan(high) ? e->low + 1 : high;
    double const given_low = isnan(low) ? e->low : low, given_high = isnan(high) ? e->high : high;
    e->low = fmin(given_low, given_high);
    e->high = fmax(given_low, given_high);
    double const size = fmax(fabs(e->low), fabs(e->high));
    if (!(e->high / 2 - e->low / 2 > fmax(1e-9 * size, 1e-280))) { /* halves: the difference may overflow */
        double const half = size > 1e-270 ? 0.1 * size : 0.5;
        e->low -= half;
        e->high += half;
    } else {
        double const air = 0.08 * (e->high / 2 - e->low / 2);
        if (isnan(low) && !(e->floor && e->low == 0)) e->low -= air;
        if (isnan(high) && !(e->floor && e->high == 0)) e->high += air;
    }
    if (!isfinite(e->high - e->low)) e->low = fmax(e->low, -4e307), e->high = fmin(e->high, 4e307);
}

static void find_ranges(const zest_plot_panel *panel, zest_plot_frame *frame) {
    extent x = {.scale = panel->x.scale, .low = NAN, .high = NAN};
    extent y = {.scale = panel->y.scale, .low = NAN, .high = NAN};
    int surface = 0;
    for (size_t i = 0; i < panel->count; i++) {
        widen_item(&panel->items[i], &x, &y);
        surface |= panel->items[i].kind >= ITEM_POLYGON;
    }
    zest_plot_axis tight_x = panel->x, tight_y = panel->y;
    if (surface && !isnan(x.low) && !isnan(y.low)) { /* a surface goes right to the edge */
        if (isnan(tight_x.low)) tight_x.low = x.scale == ZEST_PLOT_LOG ? pow(10, x.low) : x.low;
        if (isnan(tight_x.high)) tight_x.high = x.scale == ZEST_PLOT_LOG ? pow(10, x.high) : x.high;
        if (isnan(tight_y.low)) tight_y.low = y.scale == ZEST_PLOT_LOG ? pow(10, y.low) : y.low;
        if (isnan(tight_y.high)) tight_y.high = y.scale == ZEST_PLOT_LOG ? pow(10, y.high) : y.high;
    }
    if (panel->names) tight_x.low = -0.6, tight_x.high = (double)panel->name_count - 0.4;
    settle(&x, &tight_x);
    settle(&y, &tight_y);
    frame->x = (zest_plot_ruler){.scale = x.scale, .low = x.low, .high = x.high};
    frame->y = (zest_plot_ruler){.scale = y.scale, .low = y.low, .high = y.high, .down = 1};
}

/* ---- Ticks ---- */

static void place_ticks(zest_plot_ruler *ruler, double pixels, double apart) {
    double const low = ruler->scale == ZEST_PLOT_LOG ? pow(10, ruler->low) : ruler->low;
    double const high = ruler->scale == ZEST_PLOT_LOG ? pow(10, ruler->high) : ruler->high;
    size_t const wanted = pixels > 2 * apart ? (size_t)(pixels / apart) : 2;
    ruler->count = zest_plot_ticks(ruler->scale, low, high, wanted, ruler->ticks);
}

static void place_names(zest_plot_ruler *ruler, const zest_plot_panel *panel) {
    ruler->count = 0;
    for (size_t i = 0; i < panel->name_count && i < ZEST_PLOT_TICKS; i++) {
        zest_plot_tick *tick = &ruler->ticks[ruler->count++];
        *tick = (zest_plot_tick){.value = (double)i};
        if (panel->names[i]) strncpy(tick->text, panel->names[i], sizeof tick->text - 1);
    }
}

/* Up to four decimals. Called again with the final length of the ruler, which words depend on. */
static void place_given(zest_plot_ruler *ruler, const zest_plot_panel *panel, double pixels) {
    zest_plot_ruler whole = *ruler;
    double end = -HUGE_VAL;
    whole.length = pixels;
    ruler->count = 0;
    for (size_t i = 0; i < panel->place_count && ruler->count < ZEST_PLOT_TICKS; i++) {
        double const at = zest_plot_pixel(&whole, panel->places[i]);
        if (!(at >= -0.5 && at <= pixels + 0.5)) continue;
        zest_plot_tick *tick = &ruler->ticks[ruler->count++];
        zest_buffer text = {0};
        *tick = (zest_plot_tick){.value = panel->places[i]};
        zest_svg_number(&text, tick->value, 4);
        double const half = 0.5 * zest_svg_width(text.data ? text.data : "", 11.5);
        if (text.data && at - half > end + 5) {
            strncpy(tick->text, text.data, sizeof tick->text - 1);
            end = at + half;
        }
        zest_buffer_free(&text);
    }
}

static void find_ticks(const zest_plot_panel *panel, zest_plot_frame *frame, double width, double height) {
    place_ticks(&frame->y, height, 46);
    if (panel->names)
        place_names(&frame->x, panel);
    else if (panel->places)
        place_given(&frame->x, panel, width);
    else
        place_ticks(&frame->x, width, 66);
}

/* ---- Margins ---- */

static double widest(const zest_plot_ruler *ruler) {
    double width = 0;
    for (size_t i = 0; i < ruler->count; i++) width = fmax(width, zest_svg_width(ruler->ticks[i].text, 11.5));
    return width;
}

static zest_plot_margin find_margin(const zest_plot_panel *panel, zest_plot_frame *frame) {
    zest_plot_margin m = {.left = 12, .right = 14, .top = panel->title ? 30 : 10, .bottom = 30};
    double const words = widest(&frame->y);
    frame->label_left = words + 22;
    m.left += words + (panel->y.label ? 22 : 4);
    if (panel->x.label) m.bottom += 20;
    if (panel->shaded && panel->shade.label) { /* bar, ticks, label */
        zest_plot_ruler bar = {.scale = panel->shade.scale,
                               .low = zest_plot_units(panel->shade.scale, panel->shade.low),
                               .high = zest_plot_units(panel->shade.scale, panel->shade.high)};
        place_ticks(&bar, 200, 40);
        m.right += 12 + 12 + 8 + widest(&bar) + 30;
    }
    return m;
}

static void widen_margin(zest_plot_margin *to, const zest_plot_margin *from, int column, int row) {
    if (column) to->left = fmax(to->left, from->left), to->right = fmax(to->right, from->right);
    if (row) to->top = fmax(to->top, from->top), to->bottom = fmax(to->bottom, from->bottom);
}

/* ---- All together ---- */

/* Shrinks the area until a unit of x is a unit of y, and centres it. */
static void make_equal(zest_plot_frame *frame) {
    double const per_x = frame->x.length / (frame->x.high - frame->x.low);
    double const per_y = frame->y.length / (frame->y.high - frame->y.low);
    zest_plot_ruler *longer = per_x > per_y ? &frame->x : &frame->y;
    double const length = longer->length * fmin(per_x, per_y) / fmax(per_x, per_y);
    *(longer == &frame->x ? &frame->left : &frame->top) += 0.5 * (longer->length - length);
    longer->length = length;
}

static void place_panel(const zest_plot *plot, const zest_plot_margin *margins, double top, int row,
                        int column, zest_plot_frame *frame) {
    double left = 0, width = plot->width - 16, height = plot->height - top - 8;
    double above = 0;
    for (int c = 0; c < plot->columns; c++) {
        const zest_plot_margin *m = &margins[row * plot->columns + c];
        width -= m->left + m->right;
        if (c < column) left += m->left + m->right;
    }
    for (int r = 0; r < plot->rows; r++) {
        const zest_plot_margin *m = &margins[r * plot->columns + column];
        height -= m->top + m->bottom;
        if (r < row) above += m->top + m->bottom;
    }
    const zest_plot_margin *own = &margins[row * plot->columns + column];
    frame->x.length = fmax(width / plot->columns, 10);
    frame->y.length = fmax(height / plot->rows, 10);
    frame->left = 8 + left + own->left + column * frame->x.length;
    frame->top = top + above + own->top + row * frame->y.length;
}

int zest_plot_layout(const zest_plot *plot, double top, zest_plot_frame *frames) {
    int const count = plot->rows * plot->columns;
    zest_plot_margin *margins = calloc((size_t)count, 2 * sizeof *margins);
    if (!margins) return 0;
    zest_plot_margin *shared = margins + count; /* the largest of the column and of the row: areas line up */
    for (int i = 0; i < count; i++) {
        find_ranges(&plot->panels[i], &frames[i]);
        find_ticks(&plot->panels[i], &frames[i], plot->width / plot->columns - 90,
                   (plot->height - top) / plot->rows - 70);
        margins[i] = find_margin(&plot->panels[i], &frames[i]);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            widen_margin(&shared[i], &margins[j], i % plot->columns == j % plot->columns,
                         i / plot->columns == j / plot->columns);
    for (int i = 0; i < count; i++) {
        place_panel(plot, shared, top, i / plot->columns, i % plot->columns, &frames[i]);
        if (plot->panels[i].equal) make_equal(&frames[i]);
        find_ticks(&plot->panels[i], &frames[i], frames[i].x.length, frames[i].y.length);
        frames[i].empty = plot->panels[i].count == 0 && !plot->panels[i].title && !plot->panels[i].x.label;
    }
    free(margins);
    return 1;
}
