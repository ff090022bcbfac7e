/* Figures as SVG text: panels with axes, lines, bands, bars, shaded polygons, contours, a colour bar, a
 * legend.
 *
 *     zest_plot *plot = zest_plot_new(1, 2, 900, 420);         one row, two columns, in pixels
 *     zest_plot_title(plot, "Title", "What a person who cannot see the figure should know.");
 *     zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
 *     zest_plot_axis_x(panel, "step", ZEST_PLOT_LINEAR);
 *     zest_plot_axis_y(panel, "loss", ZEST_PLOT_LOG);
 *     zest_plot_line(panel, n, x, y, (zest_plot_style){.colour = 1}, "ZEST");
 *     status = zest_plot_write(plot, "figure.svg", &error);
 *     zest_plot_free(plot);
 *
 * Everything is copied when it is added and drawn, in that order, when the figure is written. Points that are
 * not finite (or not positive on a log axis) leave gaps. Every function accepts NULL and does nothing then; a
 * failed allocation is remembered and reported by zest_plot_svg and zest_plot_write, so a caller checks once,
 * at the end. The text is the same for the same calls, whatever the locale. The figure follows the reader's
 * light or dark mode. */
#ifndef ZEST_LAB_PLOT_PLOT_H
#define ZEST_LAB_PLOT_PLOT_H

#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct zest_plot zest_plot;
typedef struct zest_plot_panel zest_plot_panel; /* owned by its figure */

zest_plot *zest_plot_new(int rows, int columns, double width, double height); /* NULL: out of memory */
void zest_plot_free(zest_plot *plot);
/* Either may be NULL. The description is not drawn, but read by screen readers. */
void zest_plot_title(zest_plot *plot, const char *title, const char *description);
/* A line under the title, for the settings of the run. */
void zest_plot_subtitle(zest_plot *plot, const char *text);
zest_plot_panel *zest_plot_at(zest_plot *plot, int row, int column); /* NULL: no such panel */

/* Appends the figure to *out. */
zest_status zest_plot_svg(const zest_plot *plot, zest_buffer *out);
zest_status zest_plot_write(const zest_plot *plot, const char *path, zest_error *error);

/* ---- Axes ---- */

typedef enum { ZEST_PLOT_LINEAR, ZEST_PLOT_LOG } zest_plot_scale;

void zest_plot_panel_title(zest_plot_panel *panel, const char *title);
void zest_plot_axis_x(zest_plot_panel *panel, const char *label, zest_plot_scale scale);
void zest_plot_axis_y(zest_plot_panel *panel, const char *label, zest_plot_scale scale);
/* By default the range is that of the data with a margin; NAN: this end is from the data. */
void zest_plot_range_x(zest_plot_panel *panel, double low, double high);
void zest_plot_range_y(zest_plot_panel *panel, double low, double high);
/* Equal scale of x and y. */
void zest_plot_equal(zest_plot_panel *panel);
/* Ticks at these positions of x instead of round numbers; labels that would overlap are omitted. */
void zest_plot_ticks_x(zest_plot_panel *panel, size_t count, const double *positions);
/* Categories at x = 0, 1, .. count-1 instead of numbers, for bars. */
void zest_plot_names_x(zest_plot_panel *panel, size_t count, const char *const *names);

/* ---- Lines, marks, bands, bars, words ---- */

typedef enum {
    ZEST_PLOT_SOLID,
    ZEST_PLOT_DASHED,
    ZEST_PLOT_DOTTED,
    ZEST_PLOT_DASH_DOT,
    ZEST_PLOT_NO_LINE, /* only marks */
} zest_plot_dash;

typedef enum {
    ZEST_PLOT_NO_MARK,
    ZEST_PLOT_CIRCLE,
    ZEST_PLOT_RING, /* hollow circle */
    ZEST_PLOT_SQUARE,
    ZEST_PLOT_DIAMOND,
    ZEST_PLOT_TRIANGLE,
    ZEST_PLOT_CROSS,
    ZEST_PLOT_STAR,
} zest_plot_mark;

/* Colours that are distinguishable with any colour vision. They also differ in lightness, and adapt to
 * dark mode. */
enum {
    ZEST_PLOT_INK = 0, /* the colour of text */
    ZEST_PLOT_BLUE,
    ZEST_PLOT_ORANGE,
    ZEST_PLOT_GREEN,
    ZEST_PLOT_PURPLE,
    ZEST_PLOT_RED,
    ZEST_PLOT_SKY,
    ZEST_PLOT_YELLOW,
    ZEST_PLOT_GREY,
    ZEST_PLOT_COLOURS,
};

/* {0} is a solid line in the colour of text. 0 means the default everywhere. */
typedef struct {
    int colour;     /* ZEST_PLOT_INK ..; modulo ZEST_PLOT_COLOURS */
    double width;   /* of a line, in pixels */
    double size;    /* of a mark (diameter) or of text, in pixels */
    double opacity; /* from above 0 to 1 */
    zest_plot_dash dash;
    zest_plot_mark mark;
    int group; /* > 0: drawn with the class gN, so that a page can hide it */
} zest_plot_style;

/* A label adds an entry to the legend; NULL or "" does not. The same label in several panels is one entry. */
void zest_plot_line(zest_plot_panel *panel, size_t count, const double *x, const double *y,
                    zest_plot_style style, const char *label);
/* The area between low and high, e.g. mean - sd and mean + sd. */
void zest_plot_band(zest_plot_panel *panel, size_t count, const double *x, const double *low,
                    const double *high, zest_plot_style style, const char *label);
/* Bars from 0 (the bottom, on a log axis) to y, centred at x, width in units of x. */
void zest_plot_bars(zest_plot_panel *panel, size_t count, const double *x, const double *y, double width,
                    zest_plot_style style, const char *label);
/* Error bars. */
void zest_plot_whiskers(zest_plot_panel *panel, size_t count, const double *x, const double *low,
                        const double *high, zest_plot_style style);
/* A straight line across the panel at x or y = value. */
void zest_plot_guide_x(zest_plot_panel *panel, double value, zest_plot_style style, const char *label);
void zest_plot_guide_y(zest_plot_panel *panel, double value, zest_plot_style style, const char *label);

typedef enum {
    ZEST_PLOT_CENTRE,
    ZEST_PLOT_ABOVE,
    ZEST_PLOT_BELOW,
    ZEST_PLOT_LEFT,
    ZEST_PLOT_RIGHT,
} zest_plot_anchor;

/* Text next to a point of the panel. It does not extend the axes. */
void zest_plot_text(zest_plot_panel *panel, double x, double y, zest_plot_anchor position, const char *text,
                    zest_plot_style style);

/* By default all labels share one legend under the title. This gives the panel its own, in a corner. */
typedef enum {
    ZEST_PLOT_LEGEND_SHARED,
    ZEST_PLOT_LEGEND_TOP_LEFT,
    ZEST_PLOT_LEGEND_TOP_RIGHT,
    ZEST_PLOT_LEGEND_BOTTOM_LEFT,
    ZEST_PLOT_LEGEND_BOTTOM_RIGHT,
    ZEST_PLOT_LEGEND_NONE,
} zest_plot_legend_corner;
void zest_plot_legend(zest_plot_panel *panel, zest_plot_legend_corner position);

/* ---- Surfaces, coloured by value ---- */

typedef enum {
    /* pale for low, strong for high values on a light page; lines on top stay readable */
    ZEST_PLOT_MAP_DEPTH,
    ZEST_PLOT_MAP_LIGHT, /* dark for low, light for high values in both modes */
} zest_plot_map;

enum { ZEST_PLOT_SHADES = 24 }; /* number of colours of a map */

/* The colour scale of this panel: low and below is the first colour, high and above the last. A label adds
 * a colour bar; NULL: none. Call it before adding surfaces. */
void zest_plot_colours(zest_plot_panel *panel, zest_plot_map map, zest_plot_scale scale, double low,
                       double high, const char *label);

/* values: ny rows of nx numbers, row 0 at y0, evenly spaced along the axes. */
typedef struct {
    size_t nx, ny;
    double x0, x1, y0, y1;
    const double *values;
} zest_plot_grid;

/* Filled contours between the levels (ascending). Without a label of the colours, no colour bar. */
void zest_plot_filled(zest_plot_panel *panel, const zest_plot_grid *grid, size_t count, const double *levels);
/* Contour lines. */
void zest_plot_contours(zest_plot_panel *panel, const zest_plot_grid *grid, size_t count,
                        const double *levels, zest_plot_style style, const char *label);
/* Heat map: one coloured cell around each grid point. */
void zest_plot_cells(zest_plot_panel *panel, const zest_plot_grid *grid);
/* A polygon in the colour of value, e.g. a triangle of a mesh; edges are in the colour of the page. */
void zest_plot_polygon(zest_plot_panel *panel, size_t count, const double *x, const double *y, double value);

/* ---- Building blocks, for tests and for other drawings ---- */

enum { ZEST_PLOT_TICKS = 32, ZEST_PLOT_TICK_TEXT = 48 };

typedef struct {
    double value;
    char text[ZEST_PLOT_TICK_TEXT]; /* UTF-8; "" for an unlabelled tick (log axes) */
} zest_plot_tick;

/* Round numbers in [low, high], about `target_count` of them, at most ZEST_PLOT_TICKS. Returns their
 * number; 0 when the range is empty, not finite, or not positive on a log axis. */
size_t zest_plot_ticks(zest_plot_scale scale, double low, double high, size_t target_count,
                       zest_plot_tick ticks[ZEST_PLOT_TICKS]);

/* One contour line: count points x0, y0, x1, y1, ... in units of the grid's axes. Return non-zero to
 * continue. */
typedef int (*zest_plot_trace_line)(const double *points, size_t count, int closed, void *user);
/* Traces {f = level}. With `edge`, the lines bound {f >= level} within the grid: every line is closed. */
zest_status zest_plot_trace(const zest_plot_grid *grid, double level, int edge, zest_plot_trace_line line,
                            void *user);

#endif
