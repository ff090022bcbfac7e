/* A figure as SVG text. */
#include <stdlib.h>

#include "base/file.h"
#include "plot/figure.h"

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
    zest_buffer_text(out, "<svg"); /* a picture of its own: it clips what lies outside */
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
