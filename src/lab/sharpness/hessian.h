/* The largest eigenvalues of a symmetric matrix that is only known by what it does to vectors: Lanczos's
 * process with full reorthogonalisation and thick restarts (Wu and Simon's), so that memory stays at
 * `vectors` + 1 vectors however many products are made.
 *
 * "Largest" counts the sign: a negative eigenvalue is never among the top however large its magnitude, unless
 * there is nothing else; the lowest is told separately.
 *
 * One start vector sees one copy of a repeated eigenvalue. So once the wanted ones have settled, as many
 * products again go to another random vector, orthogonal to all that was found, where a further copy shows
 * up; and so on until such a sweep brings nothing new, or the steps are used up. */
#ifndef ZEST_LAB_SHARPNESS_HESSIAN_H
#define ZEST_LAB_SHARPNESS_HESSIAN_H

#include <stddef.h>
#include <stdint.h>

#include "lab/sharpness/vector.h"
#include "lab/stats/stats.h"

/* out = A v; on a device both are in its memory. */
typedef zest_status zest_lanczos_multiply(void *user, const float *v, double *out, zest_error *error);

typedef struct {
    zest_lanczos_multiply *multiply;
    void *user;
    size_t dimension;
    size_t wanted;    /* eigenvalues, at least 1 */
    size_t steps;     /* products at most */
    size_t vectors;   /* basis vectors at most; at least zest_lanczos_least(wanted) or the dimension */
    double tolerance; /* settled: residual below this times the largest |eigenvalue| */
    uint64_t seed;
    const zest_vector_ops *ops;
    int threads;
    zest_device *device; /* whose memory the vectors are in; NULL: the host's */
} zest_lanczos_job;

typedef struct {
    size_t count;   /* what was wanted, or as many as there are steps or dimensions */
    double *values; /* descending */
    double *bounds; /* |A v - value v| as the process knows it; rounding of A's products not counted */
    float *vectors; /* count × dimension: orthonormal eigenvectors, in the device's memory if there is one */
    zest_vector_space space; /* that they live in; a device must outlive them, until they are forgotten */
    double lowest;           /* the smallest eigenvalue seen, a bound from above for the smallest of all */
    double lowest_bound;
    size_t steps, restarts;
    int converged; /* all of them settled */
} zest_lanczos_result;

size_t zest_lanczos_least(size_t wanted); /* vectors that restarts need */
/* Bytes that a job with so many basis vectors takes. */
double zest_lanczos_memory(size_t dimension, size_t vectors);

/* Free the result whatever this says. */
zest_status zest_lanczos_run(const zest_lanczos_job *job, zest_lanczos_result *result, zest_error *error);
/* Frees the vectors alone: the rest of the result is the host's and may outlive a device. */
void zest_lanczos_forget(zest_lanczos_result *result);
void zest_lanczos_free(zest_lanczos_result *result);

/* Eigenvalues of small symmetric matrices: what a Krylov method leaves to be solved. */

/* a: n × n, symmetric, overwritten. values: descending. vectors: n × n, eigenvector k in column k (element i
 * at vectors[i·n + k]), orthonormal. By Jacobi's rotations, which need no tridiagonal form (a restarted
 * Lanczos process has none) and are as exact as the matrix allows. Returns 0 when a number is not finite. */
int zest_lanczos_solve_small(double *a, size_t n, double *values, double *vectors);

/* The step of a difference quotient: too large a step is wrong by the next derivatives, too small a one by
 * rounding. Steps are tried down a ladder; where two neighbours agree best, the step between them is taken.
 */

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
