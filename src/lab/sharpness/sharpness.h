/* How sharp the loss of a model is around its weights: everything that `zest sharpness` finds, as numbers, as
 * JSON (RUN/sharpness.json) and as figures. docs/sharpness.md says what the words mean. */
#ifndef ZEST_LAB_SHARPNESS_SHARPNESS_H
#define ZEST_LAB_SHARPNESS_SHARPNESS_H

#include <jansson.h>

#include "lab/plot/plot.h"
#include "lab/sharpness/sharpness_internal.h"

enum { ZEST_SHARPNESS_RADII = 5 }; /* when none are given: rho = 0.001 .. 0.005 */

typedef struct {
    size_t samples; /* 0: no losses nearby */
    zest_distribution distribution;
    const double *radii; /* count 0: what suits the dimension */
    size_t radius_count;
    double t;
    uint64_t seed;
    int antithetic;
    size_t top, lanczos_steps, trace_samples;
    double top_step, trace_step; /* of difference quotients; 0: to be chosen */
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
    size_t examples, slope_examples; /* of losses; of eigenvalues and trace */
    double loss;                     /* at the weights themselves */
    double *radii;
    double *losses; /* radii × samples; NULL when it was read from a file */
    zest_perturbed_loss *points;
    zest_hessian_top top; /* count 0: not measured */
    double top_bytes;     /* memory of its vectors */
    zest_hessian_trace trace;
    int trace_by_losses; /* second differences of losses instead of products with the Hessian */
    zest_slice slice;
    double seconds;
} zest_sharpness_found;

/* The model with the examples to measure on: for losses nearby, and for eigenvalues, trace and slices. The
 * two may be the same. */
typedef struct {
    const zest_loaded *loaded;
    zest_eval_target *losses, *slopes;
} zest_sharpness_target;

/* Measures the model. What is found lies in the host's memory alone: it may be freed behind the model and its
 * device. Free it whatever this says. */
zest_status zest_sharpness_measure(const zest_sharpness_plan *plan, const zest_sharpness_target *subject,
                                   zest_sharpness_found *found, zest_error *error);
void zest_sharpness_free(zest_sharpness_found *found);

/* How much higher a's mean loss is than b's at their r-th radius; NaN when they were not perturbed alike. */
zest_estimate zest_sharpness_difference(const zest_sharpness_found *a, const zest_sharpness_found *b,
                                        size_t r);

/* ---- sharpness.c ---- */

/* What a measurement will take, by some lanes and a gradient that are made to see how long they take. */
typedef struct {
    double lanes, gradients; /* passes over the examples of losses, and of slopes */
    double seconds;
    double bytes; /* beside the model: vectors, gradients */
} zest_sharpness_cost;
zest_status zest_sharpness_estimate_cost(const zest_sharpness_plan *plan,
                                         const zest_sharpness_target *subject, zest_sharpness_cost *cost,
                                         zest_error *error);
/* What the plan says about eigenvalues. */
zest_hessian_plan zest_sharpness_hessian_plan(const zest_sharpness_plan *plan, uint64_t dimension);
/* Basis vectors for the eigenvalues: 2 top + 10, fewer when memory is short; an error when even these do not
 * fit. *bytes is what they take. slopes: says where they would lie. */
zest_status zest_sharpness_vectors(const zest_eval_target *slopes, uint64_t dimension,
                                   zest_hessian_plan *plan, double *bytes, zest_error *error);

/* ---- sharpness_output.c ---- */

extern const char *const zest_sharpness_distributions[4]; /* their names there */
/* NULL: memory is short. first: whom to compare with, or NULL. */
json_t *zest_sharpness_json(const zest_sharpness_found *found, const zest_sharpness_found *first);
/* The same from what zest_sharpness_json made; texts point into the object. Free it whatever this says. */
zest_status zest_sharpness_read(const json_t *object, const char *source, zest_sharpness_found *found,
                                zest_error *error);
/* A number inside, e.g. member(point, "mean", "low"); second NULL: the member itself. NaN: not there. */
double zest_sharpness_number(const json_t *object, const char *first, const char *second);

/* ---- sharpness_output.c: from JSON, so that a report can draw what another process
 * measured */

/* Series of the same name are drawn as one: means, with standard errors over them. */
typedef struct {
    const json_t *found; /* NULL: nothing to draw */
    const char *name;
    int colour; /* of the plot; 0, or one that another name has: the next that is free */
} zest_sharpness_series;

typedef struct {
    const char *title; /* NULL: none, and no line of settings below it */
    double width;      /* 0: what suits */
    int stacked;       /* panels below each other, not side by side */
} zest_sharpness_style;

/* The paper's figures 2 and 4: losses nearby against the radius, the largest eigenvalues; to be freed; NULL
 * when memory is short. */
zest_plot *zest_sharpness_figure(const zest_sharpness_series *series, size_t count,
                                 zest_sharpness_style style);
/* "SST-2, 256 train examples; ...": on what, and what the bands are. */
void zest_sharpness_settings(const zest_sharpness_series *series, size_t count, zest_buffer *out);
/* Slices: one panel for all lines, one a model for planes; NULL when there are none, too. */
zest_plot *zest_sharpness_slices(const zest_sharpness_series *series, size_t count);

#endif
