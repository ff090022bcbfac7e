/* What a figure holds until it is written; shared by the files of this folder alone. */
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
    zest_plot_place place;
    size_t count;        /* points, or levels */
    double *x, *y, *top; /* one allocation, x owns it; contours: x holds the levels */
    double value;        /* width of bars, place of a guide, value of a polygon */
    zest_plot_grid grid; /* its values stand behind the levels in x */
    char *text;          /* label or words */
} zest_plot_item;

typedef struct {
    char *label;
    zest_plot_scale scale;
    double low, high; /* asked for; NAN: the data decide */
} zest_plot_axis;

struct zest_plot_panel {
    zest_plot *plot;
    char *title;
    zest_plot_axis x, y;
    int equal;
    char **names;
    size_t name_count;
    double *places; /* of ticks along x; NULL: round numbers */
    size_t place_count;
    zest_plot_legend_place legend;
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

/* ---- draw.c: text primitives ---- */

/* A decimal number without trailing zeros, whatever the locale. */
void zest_svg_number(zest_buffer *out, double value, int decimals);
/* ` name="value"` */
void zest_svg_attribute(zest_buffer *out, const char *name, double value);
/* Text with &, <, >, " written as entities and control characters left out. */
void zest_svg_escaped(zest_buffer *out, const char *text);
/* A path in tenths of a pixel, relative, as short as SVG allows. Start with {0}. */
typedef struct {
    long x, y;
    int open, first;
} zest_svg_pen;
void zest_svg_move(zest_buffer *out, zest_svg_pen *pen, double x, double y);
void zest_svg_to(zest_buffer *out, zest_svg_pen *pen, double x, double y);
void zest_svg_close(zest_buffer *out, zest_svg_pen *pen);
/* About how wide text is set in letters of this size. */
double zest_svg_width(const char *text, double size);
/* <text> at a point; anchor: "start", "middle" or "end"; extra: further attributes or "". */
void zest_svg_text(zest_buffer *out, double x, double y, const char *anchor, double size, const char *extra,
                   const char *text);

/* ---- draw.c ---- */

void zest_plot_stylesheet(zest_buffer *out, int shaded);
/* The class, 0 .. ZEST_PLOT_SHADES-1, of a value; -1 when it is not finite. */
int zest_plot_shade(const zest_plot_panel *panel, double value);
char zest_plot_map_letter(zest_plot_map map);

/* ---- layout.c: where things are, in pixels of the figure ---- */

typedef struct {
    zest_plot_scale scale;
    double low, high; /* in axis units: log10 on a log axis */
    double length;    /* pixels */
    int down;         /* grows against the pixels (y) */
    size_t count;
    zest_plot_tick ticks[ZEST_PLOT_TICKS];
} zest_plot_ruler;

typedef struct {
    double left, top; /* of the plotting area */
    zest_plot_ruler x, y;
    double label_left; /* pixels between the area and the y label's centre */
    int empty;
} zest_plot_frame;

/* Space around the plotting area of a panel. */
typedef struct {
    double left, right, top, bottom;
} zest_plot_margin;

/* Frames of all panels, row by row, below the pixel `top`. 0: memory is short. */
int zest_plot_layout(const zest_plot *plot, double top, zest_plot_frame *frames);
double zest_plot_units(zest_plot_scale scale, double value); /* NAN where the axis has no place for it */
/* Pixels from the start of the ruler's area, kept within reach of SVG; NAN where there is no place. */
double zest_plot_pixel(const zest_plot_ruler *ruler, double value);
double zest_plot_unit_pixel(const zest_plot_ruler *ruler, double units);

/* ---- draw.c, layout.c, draw.c ---- */

void zest_plot_draw_axes(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);
void zest_plot_draw_words(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);
void zest_plot_draw_items(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);
void zest_plot_draw_surface(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_item *item,
                            const zest_plot_frame *frame);
void zest_plot_stroke(zest_buffer *out, zest_plot_style style, double usual);
void zest_plot_draw_mark(zest_buffer *out, double x, double y, zest_plot_style style);
/* The legend shared by all panels, at (left, top), in rows no wider than width; returns its height. Without
 * out it is only measured. */
double zest_plot_shared_legend(zest_buffer *out, const zest_plot *plot, double left, double top,
                               double width);
void zest_plot_panel_legend(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame);

#endif
