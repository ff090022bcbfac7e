/* Shared by the files of the report. A page is a list of sections (report.c); a section is a function that
 * appends HTML to the page and passes its figures to zest_report_figure_add. */
#ifndef ZEST_LAB_REPORT_REPORT_PAGE_H
#define ZEST_LAB_REPORT_REPORT_PAGE_H

#include <jansson.h>

#include "lab/plot/plot.h"
#include "lab/report/report.h"

typedef struct {
    const zest_report *report;
    zest_buffer body;
    zest_buffer style;   /* of the figures, once for all */
    const char *figures; /* folder for SVG files, or NULL */
    int figure_count;
    zest_status status;
    zest_error error;
} zest_report_page;

/* ---- Text and numbers (report_style.c) ---- */

extern const char zest_report_css[], zest_report_js[];

/* Appends untrusted text: repaired UTF-8, with entities. */
void zest_report_escape(zest_buffer *out, const char *text);
/* A copy without bytes that HTML and SVG do not allow; to be freed, NULL: out of memory. */
char *zest_report_clean(const char *text);
void zest_report_interval(zest_buffer *out, const char *metric, zest_log_eval eval); /* with a span */
void zest_report_count(zest_buffer *out, uint64_t count);                            /* 12 345 */
void zest_report_duration(zest_buffer *out, double seconds);                         /* 1 h 23 min */
void zest_report_bytes(zest_buffer *out, uint64_t bytes);                            /* 1.9 GiB */
void zest_report_time(zest_buffer *out, double seconds_since_1970);
/* <svg> of a short line in the run's style. */
void zest_report_chip(zest_buffer *out, const zest_plot_style *style);

/* ---- Grouping (report_load.c) ---- */

/* Fills settings, series and panels of the report and of its runs. Free them in any case. */
zest_status zest_report_find_series(zest_report *report, zest_error *error);
void zest_report_free_series(zest_report *report);
/* Whether the option is about where and how a run was made. */
int zest_report_is_bookkeeping(const char *option);
/* Whether there are several settings, some with several seeds: figures then show means over seeds. */
int zest_report_has_seeds(const zest_report *report);

/* ---- Figures (report_figure.c) ---- */

/* One run in a figure. */
typedef struct {
    size_t run; /* index in the report */
    size_t count;
    double *x, *y;
    double *low, *high; /* an interval around y, or NULL */
    size_t raw_count;   /* a thin line in the background, or 0 */
    double *raw_x, *raw_y;
    size_t best; /* index of the point to mark; count: none */
} zest_report_curve;

typedef struct {
    const char *id, *title, *description;
    const char *x, *y;        /* labels */
    const char *metric;       /* how values are shown; "" for plain numbers */
    const char *const *names; /* categories along x instead of numbers, or NULL */
    size_t name_count;
    int wide;  /* full width of the page */
    int split; /* curves overlap: a panel for each colour, the others in grey */
    int marks; /* only marked points have values; otherwise the line between them does, too */
    int from_zero;
    double guide; /* a dashed line at this y; NaN: none */
    const char *guide_text;
    zest_report_curve *curves;
    size_t count;
    zest_buffer caption; /* HTML */
} zest_report_figure;

/* A figure with an empty curve for each run. 0: out of memory (the page is marked). */
int zest_report_figure_begin(zest_report_page *page, zest_report_figure *figure);
/* Allocates the points of a curve, with or without intervals. */
int zest_report_curve_reserve(zest_report_page *page, zest_report_curve *curve, size_t count, int intervals);
/* Writes the figure unless all curves are empty, and frees it. Returns whether it was written. */
int zest_report_figure_end(zest_report_page *page, zest_report_figure *figure);

/* A finished figure in three versions: for the page, for phones, and for a file of its own. */
typedef struct {
    const char *id, *title;
    zest_plot *wide, *narrow, *alone;
} zest_report_drawing;
enum { ZEST_REPORT_WIDE = 1032, ZEST_REPORT_PHONE = 358 }; /* pixels */

/* Writes it and frees its plots; nothing if there is no wide one. numbers: HTML below the caption, or
 * NULL. */
void zest_report_draw(zest_report_page *page, const zest_report_drawing *drawing, const char *caption,
                      void (*numbers)(zest_report_page *page, const void *user), const void *user);

/* ---- Sweeps (report_sweep.c) ---- */

int zest_report_is_sweep(const char *path);
/* The runs of the sweep in a folder, with their results. Free the plan in any case. */
zest_status zest_report_read_sweep(const char *folder, zest_sweep_plan *plan, zest_error *error);

/* ---- Sections ---- */

void zest_report_sweep(zest_report_page *page);           /* report_sweep.c */
void zest_report_sweep_tilts(zest_report_page *page);     /* report_sweep.c */
void zest_report_sweep_curves(zest_report_page *page);    /* report_sweep.c */
void zest_report_sweep_sharpness(zest_report_page *page); /* report_sharpness.c */

void zest_report_runs(zest_report_page *page);        /* report_table.c */
void zest_report_settings(zest_report_page *page);    /* report_table.c: mean over seeds */
void zest_report_losses(zest_report_page *page);      /* report_curves.c */
void zest_report_dev(zest_report_page *page);         /* report_curves.c */
void zest_report_tilt(zest_report_page *page);        /* report_curves.c */
void zest_report_speed(zest_report_page *page);       /* report_curves.c */
void zest_report_sensitivity(zest_report_page *page); /* report_curves.c */
void zest_report_sharpness(zest_report_page *page);   /* report_sharpness.c */
void zest_report_details(zest_report_page *page);     /* report_table.c */

#endif
