/* The step of a difference quotient: too large a step is wrong by the next derivatives, too small a one by
 * rounding. Steps are tried down a ladder; where two neighbours agree best, the step between them is taken.
 */
#ifndef ZEST_LAB_SHARPNESS_HESSIAN_H
#define ZEST_LAB_SHARPNESS_HESSIAN_H

#include "lab/sharpness/vector.h"
#include "lab/sharpness/lanczos.h"
#include "lab/stats/statistics.h"

/* The quotient with this step: a vector of doubles in the space. */
typedef zest_status zest_difference_step_measure(void *user, double step, double *out, zest_error *error);

typedef struct {
    zest_difference_step_measure *measure;
    void *user;
    zest_vector_space space;
    double start, ratio; /* the first step, and how much smaller the next one is (> 1) */
    int rungs;           /* steps at most */
} zest_difference_step_args;

/* Steps that are farther apart than this say nothing about each other. */
#define ZEST_LADDER_AGREED 0.03

/* *disagreement: |a - b| / |b| of the best two neighbours. Takes room for two vectors of doubles. */
zest_status zest_difference_step_choose(const zest_difference_step_args *job, double *step,
                                        double *disagreement, zest_error *error);

/* The Hessian of a loss by differences of its slopes:
 *
 *     H v = (g(x + h v) - g(x - h v)) / 2h,   |v| = 1,
 *
 * with an error of h^2 times the fourth derivatives and of the rounding of g divided by h. h is chosen on the
 * problem itself (hessian.h), and what it gives is checked with half of it. Knows a function that answers
 * slopes, no model. */

/* sum += factor times the slope of the loss at x + scale·v; on a device v and sum are in its memory. */
typedef zest_status zest_hessian_gradient(void *user, const float *v, double scale, double factor,
                                          double *sum, zest_error *error);

typedef struct {
    zest_hessian_gradient *slope;
    void *user;
    size_t dimension;
    double start; /* the largest step worth trying */
    const zest_vector_ops *ops;
    int threads;
    zest_device *device; /* whose memory the vectors are in; NULL: the host's */
    uint64_t seed;
} zest_hessian;

/* out = H v */
zest_status zest_hessian_multiply(const zest_hessian *hessian, double step, const float *v, double *out,
                                  zest_error *error);

typedef struct {
    size_t wanted, steps, vectors; /* as for Lanczos's process */
    double step;                   /* h; 0: to be chosen */
} zest_hessian_plan;

typedef struct {
    size_t count;
    double *values;    /* descending, with their signs */
    double *residuals; /* |H v - value v|, by a product that the process did not see, with step h/2 */
    double *again;     /* v' H v of that product: the value that half the step gives */
    float *vectors;    /* count × dimension */
    double lowest, lowest_bound;
    double step, disagreement; /* h, and how far products of neighbouring steps were apart */
    size_t steps, restarts;
    int converged;
    zest_lanczos_result process; /* owns values and vectors */
} zest_hessian_top;

/* The largest eigenvalues. Free it whatever this says. */
zest_status zest_hessian_find(const zest_hessian *hessian, const zest_hessian_plan *plan,
                              zest_hessian_top *top, zest_error *error);
void zest_hessian_forget(zest_hessian_top *top); /* frees the vectors alone, see zest_lanczos_forget */
void zest_hessian_free(zest_hessian_top *top);

typedef struct {
    zest_estimate trace;
    size_t probes;
    double step, disagreement;
} zest_hessian_trace;

/* Hutchinson's estimate of the trace: the mean of z' H z over vectors of signs. step 0: to be chosen. */
zest_status zest_hessian_sum(const zest_hessian *hessian, size_t probes, double step,
                             zest_hessian_trace *trace, zest_error *error);

/* Products that find and sum make at most, for those who show progress. */
size_t zest_hessian_products(const zest_hessian_plan *plan, size_t probes, double trace_step);

#endif
