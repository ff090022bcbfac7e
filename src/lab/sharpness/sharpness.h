/* Sharpness of the loss around the weights of a model: the results of `zest sharpness` as numbers, as JSON
 * (RUN/sharpness.json) and as figures. docs/sharpness.md defines the terms. */
#ifndef ZEST_LAB_SHARPNESS_SHARPNESS_H
#define ZEST_LAB_SHARPNESS_SHARPNESS_H

#include <jansson.h>

#include "lab/plot/plot.h"
#include "lab/sharpness/sharpness_internal.h"

enum { ZEST_SHARPNESS_RADII = 5 }; /* default: rho = 0.001 .. 0.005 */

typedef struct {
    size_t samples; /* 0: no losses of perturbed weights */
    zest_distribution distribution;
    const double *radii; /* count 0: default for the dimension */
    size_t radius_count;
    double t;
    uint64_t seed;
    int antithetic;
    size_t top, lanczos_steps, trace_samples;
    double top_step, trace_step; /* of difference quotients; 0: automatic */
    int forward_only;
    int slice; /* dimensions; 0: no slice */
    int seeded;
    size_t points;
    double span;
    int threads;
} zest_sharpness_plan;

typedef struct {
    /* identification: set by the caller, not owned */
    const char *name, *path, *task, *split;
    int is_run;
    uint64_t step;
    /* results */
    zest_sharpness_plan plan; /* with all defaults resolved */
    uint64_t dimension;
    size_t examples, gradient_examples; /* for losses; for eigenvalues and trace */
    double loss;                        /* at the unperturbed weights */
    double *radii;
    double *losses; /* radii x samples; NULL when read from a file */
    zest_perturbed_loss *points;
    zest_hessian_top top; /* count 0: not measured */
    double top_bytes;     /* memory of its vectors */
    zest_hessian_trace trace;
    int trace_by_losses; /* from second differences of losses instead of products with the Hessian */
    zest_slice slice;
    double seconds;
} zest_sharpness_found;

/* The model with the examples to measure on: for losses of perturbed weights, and for eigenvalues, trace
 * and slices. The two may be the same. */
typedef struct {
    const zest_loaded *loaded;
    zest_eval_target *losses, *gradients;
    zest_comm *comm; /* the ranks that divide the losses; gradients are rank 0's. NULL: a single process */
} zest_sharpness_target;

/* Measures the model. The result is in host memory only, so it may outlive the model and its device. Free
 * it in any case. */
zest_status zest_sharpness_measure(const zest_sharpness_plan *plan, const zest_sharpness_target *target,
                                   zest_sharpness_found *found, zest_error *error);
void zest_sharpness_free(zest_sharpness_found *found);

/* How much higher a's mean loss is than b's at their r-th radius; NaN when they were not perturbed in the
 * same way. */
zest_estimate zest_sharpness_difference(const zest_sharpness_found *a, const zest_sharpness_found *b,
                                        size_t r);

/* ---- Cost estimate (sharpness.c) ---- */

/* Estimated from a few lanes and one gradient, which are timed. */
typedef struct {
    double lanes, gradients; /* passes over the examples for losses, and for gradients */
    double seconds;
    double bytes; /* in addition to the model: vectors, gradients */
} zest_sharpness_cost;
zest_status zest_sharpness_estimate_cost(const zest_sharpness_plan *plan, const zest_sharpness_target *target,
                                         zest_sharpness_cost *cost, zest_error *error);

/* ---- JSON (sharpness_output.c) ---- */

extern const char *const zest_sharpness_distributions[4]; /* their names in JSON */
/* NULL: out of memory. first: the model to compare with, or NULL. */
json_t *zest_sharpness_json(const zest_sharpness_found *found, const zest_sharpness_found *first);
/* The inverse of zest_sharpness_json; texts point into the object. Free it in any case. */
zest_status zest_sharpness_read(const json_t *object, const char *source, zest_sharpness_found *found,
                                zest_error *error);
/* A number of a nested object, e.g. member(point, "mean", "low"); second NULL: the member itself. NaN:
 * missing. */
double zest_sharpness_number(const json_t *object, const char *first, const char *second);

/* ---- Figures from JSON, so that a report can draw another process's results (sharpness_output.c) ---- */

/* Series of the same name are drawn as one: means with standard errors. */
typedef struct {
    const json_t *found; /* NULL: nothing to draw */
    const char *name;
    int colour; /* of the plot; 0, or one that another name has: the next unused one */
} zest_sharpness_series;

typedef struct {
    const char *title; /* NULL: none, and no line of settings */
    double width;      /* 0: automatic */
    int stacked;       /* panels in a column instead of a row */
} zest_sharpness_style;

/* The paper's figures 2 and 4: losses of perturbed weights against the radius, the largest eigenvalues; to
 * be freed; NULL: out of memory. */
zest_plot *zest_sharpness_figure(const zest_sharpness_series *series, size_t count,
                                 zest_sharpness_style style);
/* "SST-2, 256 train examples; ...": data and meaning of the bands. */
void zest_sharpness_settings(const zest_sharpness_series *series, size_t count, zest_buffer *out);
/* Slices: one panel for all lines, one per model for planes; NULL also when there are none. */
zest_plot *zest_sharpness_slices(const zest_sharpness_series *series, size_t count);

#endif
