/* Lines, marks, bands, bars and words inside a panel. Coordinates are pixels from the panel's top left
 * corner. */
#include <math.h>
#include <string.h>

#include "lab/plot/figure.h"

static void group_class(zest_buffer *out, zest_plot_style style) {
    if (style.group > 0) zest_buffer_format(out, " g%d", style.group);
    zest_buffer_text(out, "\"");
}

/* Class and attributes of a line; `usual` is the width when the style says none. */
void zest_plot_stroke(zest_buffer *out, zest_plot_style style, double usual) {
    static const char *const dashes[] = {"", "7 4", "1.5 4", "8 3.5 1.5 3.5", ""};
    int const colour = (style.colour % ZEST_PLOT_COLOURS + ZEST_PLOT_COLOURS) % ZEST_PLOT_COLOURS;
    zest_buffer_format(out, " class=\"s%d", colour);
    group_class(out, style);
    zest_svg_attribute(out, "stroke-width", style.width > 0 ? style.width : usual);
    if (style.dash > ZEST_PLOT_SOLID && style.dash < ZEST_PLOT_NO_LINE)
        zest_buffer_format(out, " stroke-dasharray=\"%s\"", dashes[style.dash]);
    if (style.opacity > 0 && style.opacity < 1) zest_svg_attribute(out, "opacity", style.opacity);
}

static void fill_class(zest_buffer *out, zest_plot_style style, double usual_opacity) {
    int const colour = (style.colour % ZEST_PLOT_COLOURS + ZEST_PLOT_COLOURS) % ZEST_PLOT_COLOURS;
    double const opacity = style.opacity > 0 ? style.opacity : usual_opacity;
    zest_buffer_format(out, " class=\"fill f%d", colour);
    group_class(out, style);
    if (opacity < 1) zest_svg_attribute(out, "opacity", opacity);
}

/* ---- Marks ---- */

static void polygon_mark(zest_buffer *out, double x, double y, double radius, int corners, double inner) {
    zest_svg_pen pen = {0};
    int const points = inner < 1 ? 2 * corners : corners;
    for (int i = 0; i < points; i++) {
        double const angle = 2 * 3.14159265358979 * i / points,
                     r = i % 2 && inner < 1 ? inner * radius : radius;
        (i ? zest_svg_to : zest_svg_move)(out, &pen, x + r * sin(angle), y - r * cos(angle));
    }
    zest_svg_close(out, &pen);
}

static void mark_path(zest_buffer *out, double x, double y, double r, zest_plot_mark mark) {
    zest_svg_pen pen = {0};
    switch (mark) {
    case ZEST_PLOT_DIAMOND: polygon_mark(out, x, y, 1.2 * r, 4, 1); break;
    case ZEST_PLOT_TRIANGLE: polygon_mark(out, x, y, 1.25 * r, 3, 1); break;
    case ZEST_PLOT_STAR: polygon_mark(out, x, y, 1.4 * r, 5, 0.45); break;
    case ZEST_PLOT_CROSS:
        zest_svg_move(out, &pen, x - r, y - r), zest_svg_to(out, &pen, x + r, y + r);
        zest_svg_move(out, &pen, x - r, y + r), zest_svg_to(out, &pen, x + r, y - r);
        break;
    default: /* a square */
        zest_svg_move(out, &pen, x - 0.88 * r, y - 0.88 * r),
            zest_svg_to(out, &pen, x + 0.88 * r, y - 0.88 * r);
        zest_svg_to(out, &pen, x + 0.88 * r, y + 0.88 * r),
            zest_svg_to(out, &pen, x - 0.88 * r, y + 0.88 * r);
        zest_svg_close(out, &pen);
    }
}

void zest_plot_draw_mark(zest_buffer *out, double x, double y, zest_plot_style style) {
    double const radius = 0.5 * (style.size > 0 ? style.size : 7);
    int const colour = (style.colour % ZEST_PLOT_COLOURS + ZEST_PLOT_COLOURS) % ZEST_PLOT_COLOURS;
    if (style.mark == ZEST_PLOT_CIRCLE || style.mark == ZEST_PLOT_RING) {
        if (style.mark == ZEST_PLOT_RING)
            zest_buffer_format(out, "<circle stroke-width=\"2\" class=\"page s%d", colour);
        else
            zest_buffer_format(out, "<circle class=\"f%d", colour);
        group_class(out, style);
        zest_svg_attribute(out, "cx", x);
        zest_svg_attribute(out, "cy", y);
        zest_svg_attribute(out, "r", style.mark == ZEST_PLOT_RING ? radius - 1 : radius);
    } else {
        if (style.mark == ZEST_PLOT_CROSS)
            zest_buffer_format(out, "<path stroke-width=\"2\" class=\"s%d", colour);
        else
            zest_buffer_format(out, "<path class=\"fill f%d", colour);
        group_class(out, style);
        zest_buffer_text(out, " d=\"");
        mark_path(out, x, y, radius, style.mark);
        zest_buffer_text(out, "\"");
    }
    if (style.opacity > 0 && style.opacity < 1) zest_svg_attribute(out, "opacity", style.opacity);
    zest_buffer_text(out, "/>\n");
}

/* ---- Lines ---- */

/* Where a line goes on a page of finite sharpness: of the points that share a half-pixel column, the first,
 * the lowest, the highest and the last are all that can be seen. This keeps a curve of a million steps small.
 */
typedef struct {
    zest_buffer *out;
    zest_svg_pen pen;
    int count; /* points waiting in this column */
    double column, x[4], y[4];
    int low, high; /* order in which lowest and highest came */
} thinner;

static void thin_flush(thinner *t) {
    if (!t->count) return;
    int const first_low = t->low <= t->high;
    int const order[4] = {0, first_low ? 1 : 2, first_low ? 2 : 1, 3};
    for (int i = 0; i < 4; i++) {
        if (i && t->count == 1) break;
        (t->pen.open ? zest_svg_to : zest_svg_move)(t->out, &t->pen, t->x[order[i]], t->y[order[i]]);
    }
    t->count = 0;
}

static void thin_add(thinner *t, double x, double y) {
    double const column = floor(2 * x);
    if (t->count && column != t->column) thin_flush(t);
    if (!t->count) {
        t->column = column;
        t->low = t->high = 0;
        for (int i = 0; i < 4; i++) t->x[i] = x, t->y[i] = y;
    }
    if (y < t->y[1]) t->x[1] = x, t->y[1] = y, t->low = t->count;
    if (y > t->y[2]) t->x[2] = x, t->y[2] = y, t->high = t->count;
    t->x[3] = x, t->y[3] = y;
    t->count++;
}

static void line_path(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    thinner t = {.out = out};
    for (size_t i = 0; i < item->count; i++) {
        double const x = zest_plot_pixel(&frame->x, item->x[i]), y = zest_plot_pixel(&frame->y, item->y[i]);
        if (isnan(x) || isnan(y)) {
            thin_flush(&t);
            t.pen = (zest_svg_pen){0};
        } else {
            thin_add(&t, x, y);
        }
    }
    thin_flush(&t);
}

static void draw_line(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                      const zest_plot_frame *frame) {
    if (item->style.dash != ZEST_PLOT_NO_LINE) {
        zest_buffer path = {0};
        line_path(&path, item, frame);
        out->failed |= path.failed;
        if (path.size &&
            panel->shaded) { /* a seam in the page's colour keeps a line readable on any ground */
            zest_buffer_format(out, "<path class=\"halo\" style=\"stroke-width:");
            zest_svg_number(out, (item->style.width > 0 ? item->style.width : 2) + 2.4, 1);
            zest_buffer_format(out, "\" opacity=\".75\" d=\"%s\"/>\n", path.data);
        }
        if (path.size) {
            zest_buffer_text(out, "<path");
            zest_plot_stroke(out, item->style, 2);
            zest_buffer_format(out, " d=\"%s\"/>\n", path.data);
        }
        zest_buffer_free(&path);
    }
    for (size_t i = 0; item->style.mark && i < item->count; i++) {
        double const x = zest_plot_pixel(&frame->x, item->x[i]), y = zest_plot_pixel(&frame->y, item->y[i]);
        if (!isnan(x) && !isnan(y)) zest_plot_draw_mark(out, x, y, item->style);
    }
}

/* ---- Bands, bars, whiskers, guides, words ---- */

static int band_point(const zest_plot_item *item, const zest_plot_frame *frame, size_t i, double point[3]) {
    point[0] = zest_plot_pixel(&frame->x, item->x[i]);
    point[1] = zest_plot_pixel(&frame->y, item->y[i]);
    point[2] = zest_plot_pixel(&frame->y, item->top[i]);
    /* mean - sd may reach below 0, where a log axis has no place: the band then goes to the bottom */
    if (isnan(point[1]) && isfinite(item->y[i]) && frame->y.scale == ZEST_PLOT_LOG)
        point[1] = frame->y.length;
    return !isnan(point[0]) && !isnan(point[1]) && !isnan(point[2]);
}

static void draw_band(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    double point[3];
    zest_buffer_text(out, "<path");
    fill_class(out, item->style, 0.18);
    zest_buffer_text(out, " d=\"");
    for (size_t first = 0, end; first < item->count; first = end + 1) {
        for (end = first; end < item->count && band_point(item, frame, end, point); end++)
            ;
        if (end - first < 2) continue;
        zest_svg_pen pen = {0};
        for (size_t i = first; i < end; i++) {
            band_point(item, frame, i, point);
            (pen.open ? zest_svg_to : zest_svg_move)(out, &pen, point[0], point[2]);
        }
        for (size_t i = end; i-- > first;) {
            band_point(item, frame, i, point);
            zest_svg_to(out, &pen, point[0], point[1]);
        }
        zest_svg_close(out, &pen);
    }
    zest_buffer_text(out, "\"/>\n");
}

static void draw_bars(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    double floor_pixel = zest_plot_pixel(&frame->y, 0);
    if (isnan(floor_pixel)) floor_pixel = frame->y.length;
    for (size_t i = 0; i < item->count; i++) {
        double const a = zest_plot_pixel(&frame->x, item->x[i] - 0.5 * item->value);
        double const b = zest_plot_pixel(&frame->x, item->x[i] + 0.5 * item->value);
        double const y = zest_plot_pixel(&frame->y, item->y[i]);
        if (isnan(a) || isnan(b) || isnan(y)) continue;
        zest_buffer_text(out, "<rect");
        fill_class(out, item->style, 1);
        zest_svg_attribute(out, "x", fmin(a, b));
        zest_svg_attribute(out, "y", fmin(y, floor_pixel));
        zest_svg_attribute(out, "width", fabs(b - a));
        zest_svg_attribute(out, "height", fabs(floor_pixel - y));
        zest_buffer_text(out, "/>\n");
    }
}

static void draw_whiskers(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    zest_buffer_text(out, "<path");
    zest_plot_stroke(out, item->style, 1.5);
    zest_buffer_text(out, " d=\"");
    for (size_t i = 0; i < item->count; i++) {
        double point[3];
        if (!band_point(item, frame, i, point)) continue;
        zest_svg_pen pen = {0};
        zest_svg_move(out, &pen, point[0] - 3, point[1]), zest_svg_to(out, &pen, point[0] + 3, point[1]);
        zest_svg_move(out, &pen, point[0], point[1]), zest_svg_to(out, &pen, point[0], point[2]);
        zest_svg_move(out, &pen, point[0] - 3, point[2]), zest_svg_to(out, &pen, point[0] + 3, point[2]);
    }
    zest_buffer_text(out, "\"/>\n");
}

static void draw_guide(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    int const upright = item->kind == ITEM_GUIDE_X;
    double const at = zest_plot_pixel(upright ? &frame->x : &frame->y, item->value);
    if (isnan(at)) return;
    zest_buffer_text(out, "<path");
    zest_plot_stroke(out, item->style, 1.5);
    zest_buffer_text(out, " d=\"");
    zest_svg_pen pen = {0};
    zest_svg_move(out, &pen, upright ? at : 0, upright ? 0 : at);
    zest_svg_to(out, &pen, upright ? at : frame->x.length, upright ? frame->y.length : at);
    zest_buffer_text(out, "\"/>\n");
}

static void draw_text(zest_buffer *out, const zest_plot_item *item, const zest_plot_frame *frame) {
    double const x = zest_plot_pixel(&frame->x, item->x[0]), y = zest_plot_pixel(&frame->y, item->y[0]);
    double const size = item->style.size > 0 ? item->style.size : 11.5;
    int const colour = (item->style.colour % ZEST_PLOT_COLOURS + ZEST_PLOT_COLOURS) % ZEST_PLOT_COLOURS;
    double right = item->place == ZEST_PLOT_RIGHT ? 8 : item->place == ZEST_PLOT_LEFT ? -8 : 0;
    double const down = item->place == ZEST_PLOT_ABOVE   ? -8
                        : item->place == ZEST_PLOT_BELOW ? size + 6
                                                         : 0.35 * size;
    char extra[40] = "class=\"halo f0\"";
    extra[13] = (char)('0' + colour);
    if (isnan(x) || isnan(y) || !item->text) return;
    double const reach =
        8 + zest_svg_width(item->text, size); /* words that would leave the panel change sides */
    if ((right > 0 && x + reach > frame->x.length) || (right < 0 && x < reach)) right = -right;
    zest_svg_text(out, x + right, y + down,
                  right > 0   ? "start"
                  : right < 0 ? "end"
                              : "middle",
                  size, extra, item->text);
}

void zest_plot_draw_items(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    for (size_t i = 0; i < panel->count; i++) {
        const zest_plot_item *item = &panel->items[i];
        switch (item->kind) {
        case ITEM_LINE: draw_line(out, panel, item, frame); break;
        case ITEM_BAND: draw_band(out, item, frame); break;
        case ITEM_BARS: draw_bars(out, item, frame); break;
        case ITEM_WHISKERS: draw_whiskers(out, item, frame); break;
        case ITEM_GUIDE_X:
        case ITEM_GUIDE_Y: draw_guide(out, item, frame); break;
        case ITEM_TEXT: draw_text(out, item, frame); break;
        default: zest_plot_draw_surface(out, panel, item, frame);
        }
    }
}
