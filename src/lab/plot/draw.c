/* Drawing: lines, marks, bands, bars and text inside a panel, the legend, the colours, and SVG primitives.
 * Coordinates are pixels from the panel's top left corner. */
#include <math.h>
#include <string.h>

#include "lab/plot/figure.h"

static void group_class(zest_buffer *out, zest_plot_style style) {
    if (style.group > 0) zest_buffer_format(out, " g%d", style.group);
    zest_buffer_text(out, "\"");
}

/* Class and attributes of a line; `usual` is the width when the style has none. */
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

static void draw_mark(zest_buffer *out, double x, double y, zest_plot_style style) {
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

/* Reduces a line to what is visible: of the points in a half-pixel column, the first, the lowest, the
 * highest and the last. This keeps a curve of a million steps small. */
typedef struct {
    zest_buffer *out;
    zest_svg_pen pen;
    int count; /* points pending in this column */
    double column, x[4], y[4];
    int low, high; /* order of the lowest and highest */
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
            /* an outline in the colour of the page keeps a line readable on any background */
            panel->shaded) {
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
        if (!isnan(x) && !isnan(y)) draw_mark(out, x, y, item->style);
    }
}

/* ---- Bands, bars, whiskers, guides, text ---- */

static int band_point(const zest_plot_item *item, const zest_plot_frame *frame, size_t i, double point[3]) {
    point[0] = zest_plot_pixel(&frame->x, item->x[i]);
    point[1] = zest_plot_pixel(&frame->y, item->y[i]);
    point[2] = zest_plot_pixel(&frame->y, item->top[i]);
    /* mean - sd may be below 0, which a log axis does not have: the band then extends to the bottom */
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
    double right = item->position == ZEST_PLOT_RIGHT ? 8 : item->position == ZEST_PLOT_LEFT ? -8 : 0;
    double const down = item->position == ZEST_PLOT_ABOVE   ? -8
                        : item->position == ZEST_PLOT_BELOW ? size + 6
                                                            : 0.35 * size;
    char extra[40] = "class=\"halo f0\"";
    extra[13] = (char)('0' + colour);
    if (isnan(x) || isnan(y) || !item->text) return;
    double const reach =
        8 + zest_svg_width(item->text, size); /* text that would leave the panel is put on the other side */
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

/* ---- Legend: one entry for each label, with a swatch in its style ---- */

enum { SWATCH = 26, GAP = 7, BETWEEN = 22, ROW = 20 };
static const double LETTERS = 12.5;

static int in_legend(const zest_plot_item *item) { return item->text && item->kind != ITEM_TEXT; }

/* Whether the same label occurs earlier in the figure, so that it has an entry already. */
static int seen_before(const zest_plot *plot, const zest_plot_panel *panel, size_t index) {
    const char *text = panel->items[index].text;
    for (const zest_plot_panel *p = plot->panels; p <= panel; p++) {
        if (p->legend != ZEST_PLOT_LEGEND_SHARED) continue;
        for (size_t i = 0; i < (p == panel ? index : p->count); i++)
            if (in_legend(&p->items[i]) && strcmp(p->items[i].text, text) == 0) return 1;
    }
    return 0;
}

static void draw_swatch(zest_buffer *out, const zest_plot_item *item, double x, double y) {
    int const block = item->kind == ITEM_BAND || item->kind == ITEM_BARS;
    if (block) {
        int const colour = (item->style.colour % ZEST_PLOT_COLOURS + ZEST_PLOT_COLOURS) % ZEST_PLOT_COLOURS;
        double const usual = item->kind == ITEM_BAND ? 0.18 : 1;
        zest_buffer_format(out, "<rect class=\"f%d\"", colour);
        zest_svg_attribute(out, "x", x + 5);
        zest_svg_attribute(out, "y", y - 6);
        zest_svg_attribute(out, "width", SWATCH - 10);
        zest_svg_attribute(out, "height", 12);
        zest_svg_attribute(out, "opacity", item->style.opacity > 0 ? item->style.opacity : usual);
        zest_buffer_text(out, "/>\n");
        return;
    }
    if (item->style.dash != ZEST_PLOT_NO_LINE) {
        zest_buffer_text(out, "<path");
        zest_plot_stroke(out, item->style, item->kind == ITEM_LINE ? 2 : 1.5);
        zest_buffer_text(out, " d=\"");
        zest_svg_pen pen = {0};
        zest_svg_move(out, &pen, x + 1, y);
        zest_svg_to(out, &pen, x + SWATCH - 1, y);
        zest_buffer_text(out, "\"/>\n");
    }
    if (item->style.mark) draw_mark(out, x + 0.5 * SWATCH, y, item->style);
}

static void draw_entry(zest_buffer *out, const zest_plot_item *item, double x, double y) {
    draw_swatch(out, item, x, y);
    zest_svg_text(out, x + SWATCH + GAP, y + 4.3, "start", LETTERS, "", item->text);
}

double zest_plot_shared_legend(zest_buffer *out, const zest_plot *plot, double left, double top,
                               double width) {
    double x = 0, y = 0;
    int rows = 0;
    for (int p = 0; p < plot->rows * plot->columns; p++) {
        const zest_plot_panel *panel = &plot->panels[p];
        for (size_t i = 0; i < panel->count && panel->legend == ZEST_PLOT_LEGEND_SHARED; i++) {
            const zest_plot_item *item = &panel->items[i];
            if (!in_legend(item) || seen_before(plot, panel, i)) continue;
            double const wide = SWATCH + GAP + zest_svg_width(item->text, LETTERS);
            if (rows && x + wide > width) x = 0, y += ROW, rows++;
            if (!rows) rows = 1;
            if (out) draw_entry(out, item, left + x, top + y + 0.5 * ROW);
            x += wide + BETWEEN;
        }
    }
    return rows * ROW;
}

void zest_plot_panel_legend(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double wide = 0, count = 0;
    if (panel->legend == ZEST_PLOT_LEGEND_SHARED || panel->legend == ZEST_PLOT_LEGEND_NONE) return;
    for (size_t i = 0; i < panel->count; i++) {
        if (!in_legend(&panel->items[i])) continue;
        wide = fmax(wide, SWATCH + GAP + zest_svg_width(panel->items[i].text, LETTERS));
        count++;
    }
    if (count == 0) return;
    int const left =
        panel->legend == ZEST_PLOT_LEGEND_TOP_LEFT || panel->legend == ZEST_PLOT_LEGEND_BOTTOM_LEFT;
    int const upper =
        panel->legend == ZEST_PLOT_LEGEND_TOP_LEFT || panel->legend == ZEST_PLOT_LEGEND_TOP_RIGHT;
    double const width = wide + 18, height = count * ROW + 8;
    double const x = frame->left + (left ? 8 : frame->x.length - width - 8);
    double y = frame->top + (upper ? 8 : frame->y.length - height - 8);
    zest_buffer_text(out, "<rect class=\"page\" rx=\"4\" opacity=\".85\"");
    zest_svg_attribute(out, "x", x);
    zest_svg_attribute(out, "y", y);
    zest_svg_attribute(out, "width", width);
    zest_svg_attribute(out, "height", height);
    zest_buffer_text(out, "/>\n");
    for (size_t i = 0; i < panel->count; i++) {
        if (!in_legend(&panel->items[i])) continue;
        draw_entry(out, &panel->items[i], x + 8, y + 4 + 0.5 * ROW);
        y += ROW;
    }
}

/* ---- Colours, in light and dark mode ----
 *
 * The categorical ones follow the palette of Okabe and Ito; the maps are even in lightness (anchors chosen
 * in OKLab, interpolated here in integers so that every machine writes the same text). */

enum { ANCHORS = 7 };

typedef struct {
    unsigned page, ink, soft, grid, frame; /* soft: secondary text */
    unsigned colours[ZEST_PLOT_COLOURS];
    unsigned depth[ANCHORS], light[ANCHORS];
} theme;

#define MAP_LIGHT_ANCHORS \
    { 0x2e2357, 0x344f86, 0x247ea7, 0x20acb3, 0x6ece9e, 0xc1e290, 0xfef1a1 }

static const theme themes[2] = {
    {.page = 0xffffff,
     .ink = 0x1f2328,
     .soft = 0x59636e,
     .grid = 0xe8eaed,
     .frame = 0xb6bcc4,
     .colours = {0x1f2328, 0x0072b2, 0xe08a00, 0x009e73, 0xb85c92, 0xd04a00, 0x3fa2dd, 0xa89200, 0x7a828c},
     .depth = {0xf4fcfd, 0xdcf1f7, 0xc4e5f2, 0xadd8ef, 0x95c2e1, 0x80acd4, 0x6e95c6},
     .light = MAP_LIGHT_ANCHORS},
    {.page = 0x0d1117,
     .ink = 0xe6edf3,
     .soft = 0x9ba5b0,
     .grid = 0x21262d,
     .frame = 0x484f58,
     .colours = {0xe6edf3, 0x58b0f0, 0xffb347, 0x3fd0a4, 0xe59ac6, 0xff7b45, 0x9bd7ff, 0xf0e442, 0x8b949e},
     .depth = {0x141a22, 0x192431, 0x1d2f40, 0x203b50, 0x274c64, 0x2c5f77, 0x317289},
     .light = MAP_LIGHT_ANCHORS},
};

static unsigned mix(const unsigned anchors[ANCHORS], int shade) {
    int const last = ZEST_PLOT_SHADES - 1, along = shade * (ANCHORS - 1);
    int const left = along / last < ANCHORS - 1 ? along / last : ANCHORS - 2, part = along - left * last;
    unsigned colour = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        int const a = anchors[left] >> shift & 255, b = anchors[left + 1] >> shift & 255;
        colour |= (unsigned)((a * (last - part) + b * part + last / 2) / last) << shift;
    }
    return colour;
}

static void theme_rules(zest_buffer *out, const theme *t, int shaded) {
    zest_buffer_format(out, "text{fill:#%06x}.soft{fill:#%06x}", t->ink, t->soft);
    zest_buffer_format(out, ".page{fill:#%06x}.halo,.edge{stroke:#%06x}", t->page, t->page);
    zest_buffer_format(out, ".grid{stroke:#%06x}.frame{stroke:#%06x}\n", t->grid, t->frame);
    for (int i = 0; i < ZEST_PLOT_COLOURS; i++)
        zest_buffer_format(out, ".s%d{stroke:#%06x}.f%d{fill:#%06x}", i, t->colours[i], i, t->colours[i]);
    zest_buffer_text(out, "\n");
    for (int i = 0; shaded && i < ZEST_PLOT_SHADES; i++)
        zest_buffer_format(out, ".d%d{fill:#%06x}.l%d{fill:#%06x}", i, mix(t->depth, i), i, mix(t->light, i));
    if (shaded) zest_buffer_text(out, "\n");
}

void zest_plot_stylesheet(zest_buffer *out, int shaded) {
    zest_buffer_text(out,
                     "<style>\nsvg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',"
                     "'Noto Sans','Liberation Sans',Arial,sans-serif}\n"
                     "path,line{fill:none;stroke-linecap:round;stroke-linejoin:round}"
                     ".grid,.frame,.tick{stroke-linecap:butt}"
                     ".halo{fill:none;stroke-width:3;stroke-linejoin:round}"
                     "text.halo{paint-order:stroke}.b{font-weight:600}"
                     ".fill{stroke:none;fill-rule:evenodd}\n");
    theme_rules(out, &themes[0], shaded);
    zest_buffer_text(out, "@media (prefers-color-scheme:dark){\n");
    theme_rules(out, &themes[1], shaded);
    zest_buffer_text(out, "}\n</style>\n");
}

char zest_plot_map_letter(zest_plot_map map) { return map == ZEST_PLOT_MAP_LIGHT ? 'l' : 'd'; }

int zest_plot_shade(const zest_plot_panel *panel, double value) {
    const zest_plot_axis *shade = &panel->shade;
    double const low = zest_plot_units(shade->scale, shade->low),
                 high = zest_plot_units(shade->scale, shade->high);
    if (!isfinite(value)) return -1;
    double at = zest_plot_units(shade->scale, value);
    if (isnan(at)) at = low; /* a log scale without a positive value */
    double const part = high > low ? (at - low) / (high - low) : 0;
    int const index = (int)(fmin(fmax(part, 0), 1) * ZEST_PLOT_SHADES);
    return index < ZEST_PLOT_SHADES ? index : ZEST_PLOT_SHADES - 1;
}

/* ---- SVG primitives: numbers, escapes, short paths ----
 *
 * Independent of the locale, unlike printf. */

/* An integer multiple of 10^-decimals. */
static void scaled(zest_buffer *out, long long integer, int decimals) {
    char digits[32];
    int size = 0;
    unsigned long long rest = integer < 0 ? 0ULL - (unsigned long long)integer : (unsigned long long)integer;
    while (decimals > 0 && rest % 10 == 0) rest /= 10, decimals--;
    while (rest || size < decimals) {
        digits[sizeof digits - 1 - size++] = (char)('0' + rest % 10);
        rest /= 10;
        if (size == decimals) digits[sizeof digits - 1 - size++] = '.', decimals = 0;
    }
    if (!size) digits[sizeof digits - 1 - size++] = '0';
    if (integer < 0) digits[sizeof digits - 1 - size++] = '-';
    zest_buffer_add(out, digits + sizeof digits - size, (size_t)size);
}

void zest_svg_number(zest_buffer *out, double value, int decimals) {
    double factor = 1;
    for (int i = 0; i < decimals; i++) factor *= 10;
    if (!isfinite(value)) value = 0;
    scaled(out, llround(fmin(fmax(value, -1e9), 1e9) * factor), decimals);
}

void zest_svg_attribute(zest_buffer *out, const char *name, double value) {
    zest_buffer_format(out, " %s=\"", name);
    zest_svg_number(out, value, 2);
    zest_buffer_text(out, "\"");
}

void zest_svg_escaped(zest_buffer *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&': zest_buffer_text(out, "&amp;"); break;
        case '<': zest_buffer_text(out, "&lt;"); break;
        case '>': zest_buffer_text(out, "&gt;"); break;
        case '"': zest_buffer_text(out, "&quot;"); break;
        default:
            if ((unsigned char)*text >= 0x20 && *text != 0x7f) zest_buffer_add(out, text, 1);
        }
    }
}

/* ---- Paths ---- */

static long tenths(double pixels) { return lround(fmin(fmax(pixels, -1e5), 1e5) * 10); }

static void pair(zest_buffer *out, long x, long y, int joined) {
    if (joined && x >= 0) zest_buffer_text(out, " ");
    scaled(out, x, 1);
    if (y >= 0) zest_buffer_text(out, " ");
    scaled(out, y, 1);
}

void zest_svg_move(zest_buffer *out, zest_svg_pen *pen, double x, double y) {
    pen->x = tenths(x);
    pen->y = tenths(y);
    pen->open = 1;
    pen->first = 1;
    zest_buffer_text(out, "M");
    pair(out, pen->x, pen->y, 0);
}

void zest_svg_to(zest_buffer *out, zest_svg_pen *pen, double x, double y) {
    long const qx = tenths(x), qy = tenths(y);
    if (qx == pen->x && qy == pen->y && !pen->first) return;
    if (pen->first) zest_buffer_text(out, "l");
    pair(out, qx - pen->x, qy - pen->y, !pen->first);
    pen->first = 0;
    pen->x = qx;
    pen->y = qy;
}

void zest_svg_close(zest_buffer *out, zest_svg_pen *pen) {
    if (pen->open) zest_buffer_text(out, "z");
    pen->open = 0;
}

/* ---- Text ---- */

double zest_svg_width(const char *text, double size) {
    double em = 0;
    for (; *text; text++) {
        unsigned char const c = (unsigned char)*text;
        if ((c & 0xc0) == 0x80) continue; /* a continuation byte of UTF-8 */
        if (strchr("ijltfr.,:;'|!()[] ", c))
            em += 0.33;
        else if (strchr("mwMW@%", c))
            em += 0.88;
        else
            em += c >= 'A' && c <= 'Z' ? 0.67 : 0.57;
    }
    return em * size;
}

void zest_svg_text(zest_buffer *out, double x, double y, const char *anchor, double size, const char *extra,
                   const char *text) {
    if (!text || !*text) return;
    zest_buffer_text(out, "<text");
    zest_svg_attribute(out, "x", x);
    zest_svg_attribute(out, "y", y);
    if (strcmp(anchor, "start") != 0) zest_buffer_format(out, " text-anchor=\"%s\"", anchor);
    zest_svg_attribute(out, "font-size", size);
    zest_buffer_format(out, "%s%s>", *extra ? " " : "", extra);
    zest_svg_escaped(out, text);
    zest_buffer_text(out, "</text>\n");
}
