/* The legend: one entry for each label, with a swatch that looks like what it names. */
#include <math.h>
#include <string.h>

#include "plot/figure.h"

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
