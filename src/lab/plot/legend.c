/* The legend: one entry for each label, with a swatch that looks like what it names. */
#include <math.h>
#include <string.h>

#include "lab/plot/figure.h"

enum { SWATCH = 26, GAP = 7, BETWEEN = 22, ROW = 20 };
static const double LETTERS = 12.5;

static int in_legend(const zest_plot_item *item) { return item->text && item->kind != ITEM_TEXT; }

/* The same label earlier in the figure? Then it has its entry already. */
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
    if (item->style.mark) zest_plot_draw_mark(out, x + 0.5 * SWATCH, y, item->style);
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

/* Colours, in light and dark mode. The categorical ones follow the palette of Okabe and Ito; the maps run
 * evenly in lightness (anchors chosen in OKLab, mixed here in whole numbers so that every machine writes the
 * same text). */

enum { ANCHORS = 7 };

typedef struct {
    unsigned page, ink, soft, grid, frame; /* soft: words that should stand back */
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
    if (isnan(at)) at = low; /* a log scale, and nothing to take the logarithm of */
    double const part = high > low ? (at - low) / (high - low) : 0;
    int const index = (int)(fmin(fmax(part, 0), 1) * ZEST_PLOT_SHADES);
    return index < ZEST_PLOT_SHADES ? index : ZEST_PLOT_SHADES - 1;
}
