/* Grid, ticks, words around the plotting area, colour bar. */
#include <math.h>

#include "plot/figure.h"

static void straight(zest_buffer *out, const char *class_name, double x1, double y1, double x2, double y2) {
    zest_buffer_format(out, "<line class=\"%s\"", class_name);
    zest_svg_attribute(out, "x1", x1);
    zest_svg_attribute(out, "y1", y1);
    zest_svg_attribute(out, "x2", x2);
    zest_svg_attribute(out, "y2", y2);
    zest_buffer_text(out, "/>\n");
}

/* Under the data. */
void zest_plot_draw_axes(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const bottom = frame->top + frame->y.length, right = frame->left + frame->x.length;
    for (size_t i = 0; i < frame->x.count && !panel->names; i++) {
        double const x = frame->left + zest_plot_pixel(&frame->x, frame->x.ticks[i].value);
        straight(out, "grid", x, frame->top, x, bottom);
    }
    for (size_t i = 0; i < frame->y.count; i++) {
        double const y = frame->top + zest_plot_pixel(&frame->y, frame->y.ticks[i].value);
        straight(out, "grid", frame->left, y, right, y);
    }
}

/* ---- Colour bar ---- */

static void draw_bar(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const left = frame->left + frame->x.length + 14, width = 12, height = frame->y.length;
    double const step = height / ZEST_PLOT_SHADES;
    zest_plot_ruler ruler = {.scale = panel->shade.scale,
                             .low = zest_plot_units(panel->shade.scale, panel->shade.low),
                             .high = zest_plot_units(panel->shade.scale, panel->shade.high),
                             .length = height,
                             .down = 1};
    double words = 0;
    ruler.count =
        zest_plot_ticks(ruler.scale, panel->shade.low, panel->shade.high, (size_t)(height / 40), ruler.ticks);
    for (int i = 0; i < ZEST_PLOT_SHADES; i++) { /* each a little taller than its share: no seams */
        zest_buffer_format(out, "<rect class=\"%c%d\"", zest_plot_map_letter(panel->map), i);
        zest_svg_attribute(out, "x", left);
        zest_svg_attribute(out, "y", frame->top + height - (i + 1) * step);
        zest_svg_attribute(out, "width", width);
        zest_svg_attribute(out, "height", i ? step + 0.5 : step);
        zest_buffer_text(out, "/>\n");
    }
    for (size_t i = 0; i < ruler.count; i++) {
        double const y = frame->top + zest_plot_pixel(&ruler, ruler.ticks[i].value);
        straight(out, "frame", left + width, y, left + width + 4, y);
        zest_svg_text(out, left + width + 7, y + 4, "start", 11.5, "class=\"soft\"", ruler.ticks[i].text);
        words = fmax(words, zest_svg_width(ruler.ticks[i].text, 11.5));
    }
    double const x = left + width + words + 22, y = frame->top + 0.5 * height;
    zest_buffer_text(out, "<g transform=\"rotate(-90 ");
    zest_svg_number(out, x, 2);
    zest_buffer_text(out, " ");
    zest_svg_number(out, y, 2);
    zest_buffer_text(out, ")\">");
    zest_svg_text(out, x, y, "middle", 12.5, "", panel->shade.label);
    zest_buffer_text(out, "</g>\n");
}

/* ---- Over the data ---- */

static void draw_tick_words(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const bottom = frame->top + frame->y.length;
    for (size_t i = 0; i < frame->x.count; i++) {
        double const x = frame->left + zest_plot_pixel(&frame->x, frame->x.ticks[i].value);
        if (!panel->names) straight(out, "frame tick", x, bottom, x, bottom + 4);
        zest_svg_text(out, x, bottom + 18, "middle", 11.5, "class=\"soft\"", frame->x.ticks[i].text);
    }
    for (size_t i = 0; i < frame->y.count; i++) {
        double const y = frame->top + zest_plot_pixel(&frame->y, frame->y.ticks[i].value);
        straight(out, "frame tick", frame->left - 4, y, frame->left, y);
        zest_svg_text(out, frame->left - 8, y + 4, "end", 11.5, "class=\"soft\"", frame->y.ticks[i].text);
    }
}

void zest_plot_draw_words(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const bottom = frame->top + frame->y.length, middle = frame->top + 0.5 * frame->y.length;
    zest_buffer_text(out, "<path class=\"frame\" d=\"");
    zest_svg_pen pen = {0};
    zest_svg_move(out, &pen, frame->left, frame->top);
    zest_svg_to(out, &pen, frame->left, bottom);
    zest_svg_to(out, &pen, frame->left + frame->x.length, bottom);
    zest_buffer_text(out, "\"/>\n");
    draw_tick_words(out, panel, frame);
    if (panel->title)
        zest_svg_text(out, frame->left, frame->top - 11, "start", 13.5, "class=\"b\"", panel->title);
    if (panel->x.label)
        zest_svg_text(out, frame->left + 0.5 * frame->x.length, bottom + 38, "middle", 12.5, "",
                      panel->x.label);
    if (panel->y.label) {
        double const x = frame->left - frame->label_left;
        zest_buffer_text(out, "<g transform=\"rotate(-90 ");
        zest_svg_number(out, x, 2);
        zest_buffer_text(out, " ");
        zest_svg_number(out, middle, 2);
        zest_buffer_text(out, ")\">");
        zest_svg_text(out, x, middle + 4, "middle", 12.5, "", panel->y.label);
        zest_buffer_text(out, "</g>\n");
    }
    if (panel->shaded && panel->shade.label) draw_bar(out, panel, frame);
}
