/* Results against t, as the paper's figure 3 asks for them: a panel for each task and kind of labels, a line
 * for each method, MeZO (t = 0) as a band. */
#ifndef ZEST_LAB_SWEEP_SENSITIVITY_H
#define ZEST_LAB_SWEEP_SENSITIVITY_H

#include "lab/stats/statistics.h"
#include "lab/plot/plot.h"

typedef struct {
    const char *task, *labels; /* which panel: "SST-2", "clean labels" */
    const char *method;        /* which line: "zest-n", or "zest-n, weights=bf16" */
    double t;                  /* 0: MeZO. NaN: a method without one, which is left out */
    const char *metric;        /* "accuracy": shown in per cent, as all but "loss" */
    zest_sample value;         /* over seeds */
} zest_sensitivity_point;

typedef struct {
    const char *title;
    int columns;   /* panels side by side at most; 0: one for each task */
    double width;  /* of the whole; 0: what suits the panels */
    double height; /* of a row of panels; 0: what suits */
} zest_sensitivity_style;

/* To be freed; NULL when memory is short or there is nothing to draw. */
zest_plot *zest_sensitivity_figure(const zest_sensitivity_point *points, size_t count,
                                   zest_sensitivity_style style);

/* The dev set over time, a line for each t of one method: darker for larger t. */
typedef struct {
    const char *task, *labels, *method, *metric; /* as above */
    double t;
    size_t count;
    const double *steps, *means, *errors; /* over seeds; an error that is NaN: one seed */
} zest_sensitivity_curve;
zest_plot *zest_sensitivity_curves(const zest_sensitivity_curve *curves, size_t count,
                                   zest_sensitivity_style style);

/* "accuracy (%)": of an axis with a metric. Writes into room. */
const char *zest_sensitivity_label(const char *metric, char *room, size_t size);
/* "ZEST-N" of zest-n, "ZEST-N, weights=bf16" of what a row says beyond its method. Writes into room. */
const char *zest_sensitivity_name(const char *method, char *room, size_t size);
/* The colour that a method has in every figure; 0: not one of ours. What a row says beyond it does not count.
 */
int zest_sensitivity_colour(const char *method);

/* Panels by task and kind of labels: what the figures of this folder's sensitivity files share. */

enum { ZEST_SENSITIVITY_MOST = 32 };

/* Tasks are columns, kinds of labels rows; where columns do not suffice, in several blocks of rows. */
typedef struct {
    const char *tasks[ZEST_SENSITIVITY_MOST], *labels[ZEST_SENSITIVITY_MOST];
    size_t task_count, label_count, columns;
} zest_sensitivity_panels;

/* Values of t above 0, ascending, each once. */
typedef struct {
    double values[ZEST_SENSITIVITY_MOST];
    size_t count;
} zest_sensitivity_tilts;
void zest_sensitivity_note_tilt(zest_sensitivity_tilts *tilts, double t);

/* There are results of this task with these labels. */
void zest_sensitivity_note(zest_sensitivity_panels *panels, const char *task, const char *labels);
/* An empty figure with room for all panels. */
zest_plot *zest_sensitivity_plot(zest_sensitivity_panels *panels, zest_sensitivity_style style,
                                 const char *description);
zest_plot_panel *zest_sensitivity_panel(zest_plot *plot, const zest_sensitivity_panels *panels, size_t task,
                                        size_t labels);

#endif
