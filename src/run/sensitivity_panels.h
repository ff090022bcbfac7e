/* Panels by task and kind of labels: what the figures of this folder's sensitivity files share. */
#ifndef ZEST_RUN_SENSITIVITY_PANELS_H
#define ZEST_RUN_SENSITIVITY_PANELS_H

#include "run/sensitivity.h"

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
