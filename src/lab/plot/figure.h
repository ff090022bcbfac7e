/* Internals of the plots: the content of a figure until it is written; shared by the files of this folder. */
#ifndef ZEST_LAB_PLOT_FIGURE_H
#define ZEST_LAB_PLOT_FIGURE_H

#include "lab/plot/plot.h"

typedef enum {
    ITEM_LINE,
    ITEM_BAND,
    ITEM_BARS,
    ITEM_WHISKERS,
    ITEM_GUIDE_X,
    ITEM_GUIDE_Y,
    ITEM_TEXT,
    ITEM_POLYGON,
    ITEM_FILLED,
    ITEM_CONTOURS,
    ITEM_CELLS,
} zest_plot_kind;

typedef struct {
    zest_plot_kind kind;
    zest_plot_style style;
    zest_plot_anchor position;
    size_t count;        /* points, or levels */
    double *x, *y, *top; /* one allocation, owned by x; contours: x has the levels */
    double value;        /* width of bars, position of a guide, value of a polygon */
    zest_plot_grid grid; /* its values follow the levels in x */
    char *text;          /* label or text */
} zest_plot_item;

typedef struct {
    char *label;
    zest_plot_scale scale;
    double low, high; /* requested; NAN: from the data */
} zest_plot_axis;

struct zest_plot_panel {
    zest_plot *plot;
    char *title;
    zest_plot_axis x, y;
    int equal;
    char **names;
    size_t name_count;
    double *tick_positions; /* of ticks along x; NULL: round numbers */
    size_t tick_count;
    zest_plot_legend_corner legend;
    int shaded; /* zest_plot_colours was called */
    zest_plot_map map;
    zest_plot_axis shade; /* values -> colours */
    zest_plot_item *items;
    size_t count, capacity;
};

struct zest_plot {
    int rows, columns;
    double width, height;
    char *title, *subtitle, *description;
    int failed; /* an allocation failed */
    zest_plot_panel *panels;
};

/* ---- SVG primitives (draw.c) ---- */

/* A decimal number without trailing zeros, independent of the locale. */
void zest_svg_number(zest_buffer *out, double value, int decimals);
/* ` name="value"` */
void zest_svg_attribute(zest_buffer *out, const char *name, double value);
/* Text with &, <, >, " as entities and without control characters. */
void zest_svg_escaped(zest_buffer *out, const char *text);
/* A path in tenths of a pixel, relative, as short as SVG allows. Start with {0}. */
typedef struct {
    long x, y;
    int open, first;
} zest_svg_pen;
void zest_svg_move(zest_buffer *out, zest_svg_pen *pen, double x, double y);
void zest_svg_to(zest_buffer *out, zest_svg_pen *pen, double x, double y);
void zest_svg_close(zest_buffer *out, zest_svg_pen *pen);
/* Approximate width of text at this size. */
double zest_svg_width(const char *text, double size);
/* <text> at a point; anchor: "start", "middle" or "end"; extra: further attributes or "". */
void zest_svg_text(zest_buffer *out, double x, double y, const char *anchor, double size, const char *extra,
                   const char *text);

/* ---- Colours (draw.c) ---- */

void zest_plot_stylesheet(zest_buffer *out, int shaded);
/* The class, 0 .. ZEST_PLOT_SHADES-1, of a value; -1 if it is not finite. */
int zest_plot_shade(const zest_plot_panel *panel, double value);
char zest_plot_map_letter(zest_plot_map map);

/* ---- Layout in pixels of the figure (layout.c) ---- */

typedef struct {
    zest_plot_scale scale;
    double low, high; /* in axis units: log10 on a log axis */
    double length;    /* pixels */
    int down;         /* increases against the pixels (y) */
    size_t count;
    zest_plot_tick ticks[ZEST_PLOT_TICKS];
} zest_plot_ruler;

typedef struct {
    double left, top; /* of the plotting area */
    zest_plot_ruler x, y;
    double label_left; /* pixels between the area and the centre of the y label */
    int empty;
} zest_plot_frame;

/* Space around the plotting area of a panel. */
typedef struct {
    double left, right, top, bottom;
} zest_plot_margin;

/* Frames of all panels, row by row, below the pixel `top`. 0: out of memory. */
int zest_plot_layout(const zest_plot *plot, double top, zest_plot_frame *frames);
double zest_plot_units(zest_plot_scale scale, double value); /* NAN where the axis has no position for it */
/* Pixels from the start of the ruler's area, limited to the range of SVG; NAN where there is no position. */
double zest_plot_pixel(const zest_plot_ruler *ruler, double value);
double zest_plot_unit_pixel(const zest_plot_ruler *ruler, double units);

/* ---- Items, axes and legend (draw.c, layout.c, surface.c) ---- */

void zest_plot_draw_axes(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);
void zest_plot_draw_words(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);
void zest_plot_draw_items(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);
void zest_plot_draw_surface(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                            const zest_plot_frame *frame);
void zest_plot_stroke(zest_buffer *out, zest_plot_style style, double usual);
/* The legend shared by all panels, at (left, top), in rows no wider than width; returns its height. With
 * out NULL it is only measured. */
double zest_plot_shared_legend(zest_buffer *out, const zest_plot *plot, double left, double top,
                               double width);
void zest_plot_panel_legend(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);

#endif
