/* How sharp the loss of a model is around its weights: everything that `zest sharpness` finds, as numbers, as
 * JSON (RUN/sharpness.json) and as figures. docs/sharpness.md says what the words mean. */
#ifndef ZEST_RUN_SHARPNESS_H
#define ZEST_RUN_SHARPNESS_H

#include <jansson.h>

#include "plot/plot.h"
#include "run/measure.h"

typedef struct {
    size_t samples;
    zest_distribution distribution;
    const double *radii; /* count 0: what suits the dimension */
    size_t radius_count;
    double t;
    uint64_t seed;
    int antithetic;
    size_t top, lanczos_steps, trace_samples;
    double difference_step;
    int forward_only;
    int slice; /* dimensions; 0: none */
    int seeded;
    size_t points;
    double span;
    int threads;
} zest_sharpness_plan;

typedef struct {
    /* who: filled in by the caller, and not owned */
    const char *name, *path, *task, *split;
    int is_run;
    uint64_t step;
    /* what was found */
    zest_sharpness_plan plan; /* with the choices that it left open */
    uint64_t dimension;
    size_t examples;
    double loss; /* at the weights themselves */
    double *radii;
    double *losses; /* radii × samples */
    zest_neighbourhood *points;
    zest_hessian_top top; /* count 0: not measured */
    double top_bytes;     /* memory of its vectors */
    zest_hessian_trace trace;
    int trace_by_losses; /* second differences of losses instead of products with the Hessian */
    zest_slice slice;
    double seconds;
} zest_sharpness_found;

/* Measures the model. What is found lies in the host's memory alone: it may be freed behind the model and its
 * device. Free it whatever this says. */
zest_status zest_sharpness_measure(const zest_sharpness_plan *plan, zest_measure *measure,
                                   const zest_loaded *loaded, zest_sharpness_found *found, zest_error *error);
void zest_sharpness_free(zest_sharpness_found *found);

/* How much higher a's mean loss is than b's at their r-th radius; NaN when they were not perturbed alike. */
zest_estimate zest_sharpness_difference(const zest_sharpness_found *a, const zest_sharpness_found *b,
                                        size_t r);

/* ---- sharpness_json.c ---- */

/* NULL: memory is short. first: whom to compare with, or NULL. */
json_t *zest_sharpness_json(const zest_sharpness_found *found, const zest_sharpness_found *first);
/* A number inside, e.g. member(point, "mean", "low"); second NULL: the member itself. NaN: not there. */
double zest_sharpness_number(const json_t *object, const char *first, const char *second);

/* ---- sharpness_draw.c: from JSON, so that a report can draw what another process measured ---- */

typedef struct {
    const json_t *found; /* NULL: nothing to draw */
    const char *name;
    int colour;
} zest_sharpness_series;

/* The two panels of the paper's figures 2 and 4: losses nearby against the radius, the largest eigenvalues.
 * Each draws nothing and answers 0 when no series has such numbers. */
int zest_sharpness_draw_losses(zest_plot_panel *panel, const zest_sharpness_series *series, size_t count);
int zest_sharpness_draw_top(zest_plot_panel *panel, const zest_sharpness_series *series, size_t count);
/* The whole figure, to be freed; NULL when memory is short. */
zest_plot *zest_sharpness_figure(const zest_sharpness_series *series, size_t count);
/* Slices: one panel for all lines, one a model for planes; NULL when there are none, too. */
zest_plot *zest_sharpness_slices(const zest_sharpness_series *series, size_t count);

#endif
