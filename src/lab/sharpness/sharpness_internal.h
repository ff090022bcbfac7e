/* Internals of the sharpness measurement: vectors as long as the parameters, Lanczos iteration, difference
 * steps, Hessian products, perturbed losses, and the model as a function of its weights. */
#ifndef ZEST_LAB_SHARPNESS_SHARPNESS_INTERNAL_H
#define ZEST_LAB_SHARPNESS_SHARPNESS_INTERNAL_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/comm.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "lab/stats/stats.h"
#include "model/forward_pass.h"
#include "task/batch.h"
#include "train/load.h"

/* ---- Vectors as long as the parameters ----
 *
 * Stored as floats, summed as doubles, in host or device memory. Sums run over blocks that depend only on the
 * length and are added in order, so a result has the same bits for any number of threads; a device has blocks of
 * its own. Work on a device is queued; an error there is reported by zest_vector_check, and sums are NaN. */

typedef struct {
    size_t count; /* elements of a vector */
    const zest_vector_ops *ops;
    int threads;         /* 0: all cores */
    zest_device *device; /* the vectors are in its memory; NULL: host */
} zest_vector_space;

/* basis[k] = sum over i of rotation[i * count + k] basis[i], for k < count <= vectors: in place, the vectors
 * contiguous. */
typedef struct {
    float *basis;
    const double *rotation; /* in the host's memory */
    size_t vectors, count;
} zest_vector_rotation;

typedef struct {
    double (*dot)(const zest_vector_space *s, const float *v, const double *w);
    double (*norm)(const zest_vector_space *s, const double *w);
    double (*distance)(const zest_vector_space *s, const double *a, const double *b);
    double (*square)(const zest_vector_space *s, const float *v);
    void (*clear)(const zest_vector_space *s, void *x, size_t size);
    void (*add)(const zest_vector_space *s, double *w, double c, const float *v);
    void (*store)(const zest_vector_space *s, float *v, double c, const double *w);
    void (*scale)(const zest_vector_space *s, float *v, float c);
    void (*shift)(const zest_vector_space *s, float *v, double c, const float *u);
    void (*copy)(const zest_vector_space *s, float *to, const float *from);
    void (*normal)(const zest_vector_space *s, float *v, uint64_t seed);
    void (*sign)(const zest_vector_space *s, float *v, uint64_t seed);
    void (*read)(const zest_vector_space *s, const zest_params *params, float *v);
    int (*rotate)(const zest_vector_space *s, const zest_vector_rotation *job);
} zest_vector_table;

/* The operations of a space:
 *
 *     dot v.w    norm |w|    distance |a - b|    square |v|^2
 *     clear x = 0 (size: of an element)    add w += c v    store v = c w    scale v = c v    shift v += c u
 *     normal, sign: noise, by element index    read: parameters as floats, by element index
 *     rotate: see above; -1: out of memory */
const zest_vector_table *zest_vector_operations(const zest_vector_space *s);

/* Allocates that many vectors; NULL: out of memory. */
float *zest_vector_floats(const zest_vector_space *s, size_t vectors);
double *zest_vector_doubles(const zest_vector_space *s, size_t vectors);
void zest_vector_free(const zest_vector_space *s, void *data); /* NULL: nothing happens */
/* The first error of the device so far; ZEST_OK: none. */
zest_status zest_vector_check(const zest_vector_space *s, zest_error *error);
/* The status of a failed allocation. */
zest_status zest_vector_no_memory(const zest_vector_space *s, const char *what, double bytes,
                                  zest_error *error);

extern const zest_vector_table zest_vector_host, zest_vector_cuda;

/* ---- Largest eigenvalues of a symmetric matrix that is known only by its products with vectors ----
 *
 * Lanczos iteration with full reorthogonalisation and thick restarts (Wu and Simon), so that memory stays at
 * `vectors` + 1 vectors for any number of products.
 *
 * "Largest" is by signed value: a negative eigenvalue is among the top only if there are no others; the smallest
 * one is reported separately.
 *
 * One starting vector finds one copy of a repeated eigenvalue. So once the requested ones have converged, as many
 * products again start from another random vector, orthogonal to all that was found, which reveals a further
 * copy; and so on until such a sweep changes nothing, or the steps are used up. */

/* out = A v; on a device both are in device memory. */
typedef zest_status zest_lanczos_multiply(void *user, const float *v, double *out, zest_error *error);

typedef struct {
    zest_lanczos_multiply *multiply;
    void *user;
    size_t dimension;
    size_t requested; /* eigenvalues, at least 1 */
    size_t steps;     /* maximum number of products */
    size_t vectors; /* basis vectors at most; at least zest_lanczos_min_vectors(requested) or the dimension */
    double tolerance; /* converged: residual below this times the largest |eigenvalue| */
    uint64_t seed;
    const zest_vector_ops *ops;
    int threads;
    zest_device *device; /* the vectors are in its memory; NULL: host */
} zest_lanczos_job;

typedef struct {
    size_t count;   /* as requested, or as many as there are steps or dimensions */
    double *values; /* descending */
    /* residuals |A v - value v| estimated by the iteration, without the rounding of A's products */
    double *bounds;
    float *vectors; /* count x dimension: orthonormal eigenvectors, in device memory if there is a device */
    zest_vector_space space; /* of the vectors; a device must outlive them */
    double lowest;           /* the smallest eigenvalue seen, an upper bound of the smallest of all */
    double lowest_bound;
    size_t steps, restarts;
    int converged; /* all of them converged */
} zest_lanczos_result;

size_t zest_lanczos_min_vectors(size_t requested); /* vectors that restarts need */
/* Memory in bytes for so many basis vectors. */
double zest_lanczos_memory(size_t dimension, size_t vectors);

/* Free the result in any case. */
zest_status zest_lanczos_run(const zest_lanczos_job *job, zest_lanczos_result *result, zest_error *error);
/* Frees only the vectors: the rest of the result is in host memory and may outlive a device. */
void zest_lanczos_free_vectors(zest_lanczos_result *result);
void zest_lanczos_free(zest_lanczos_result *result);

/* ---- Eigenvalues of small symmetric matrices ---- */

/* a: n x n, symmetric, overwritten. values: descending. vectors: n x n, eigenvector k in column k (element
 * i at vectors[i * n + k]), orthonormal. Jacobi rotations: they need no tridiagonal form (a restarted
 * Lanczos iteration has none) and are as accurate as the matrix allows. Returns 0 when an element is not
 * finite. */
int zest_lanczos_solve_small(double *a, size_t n, double *values, double *vectors);

/* ---- Step of a difference quotient ----
 *
 * A large step has truncation error, a small one rounding error. Decreasing steps are tried; where two
 * neighbours agree best, the step between them is chosen. */

/* The quotient with this step: a vector of doubles in the space. */
typedef zest_status zest_difference_step_measure(void *user, double step, double *out, zest_error *error);

typedef struct {
    zest_difference_step_measure *measure;
    void *user;
    zest_vector_space space;
    double start, ratio; /* the first step, and the ratio of consecutive steps (> 1) */
    int max_steps;
} zest_difference_step_args;

/* Steps that are farther apart than this are not comparable. */
#define ZEST_DIFFERENCE_STEP_AGREED 0.03

/* *disagreement: |a - b| / |b| of the best two neighbours. Allocates two vectors of doubles. */
zest_status zest_difference_step_choose(const zest_difference_step_args *job, double *step,
                                        double *disagreement, zest_error *error);

/* ---- Hessian of a loss by differences of gradients ----
 *
 *     H v = (g(x + h v) - g(x - h v)) / 2h,   |v| = 1
 *
 * The error is h^2 times the fourth derivatives plus the rounding of g divided by h. h is chosen on the
 * problem itself (see above), and the result is checked with half of it. Works with any gradient function,
 * not only models. */

/* sum += factor times the gradient of the loss at x + scale * v; on a device v and sum are in device
 * memory. */
typedef zest_status zest_hessian_gradient(void *user, const float *v, double scale, double factor,
                                          double *sum, zest_error *error);

typedef struct {
    zest_hessian_gradient *gradient;
    void *user;
    size_t dimension;
    double start; /* the largest step to try */
    const zest_vector_ops *ops;
    int threads;
    zest_device *device; /* the vectors are in its memory; NULL: host */
    uint64_t seed;
} zest_hessian;

/* out = H v */
zest_status zest_hessian_multiply(const zest_hessian *hessian, double step, const float *v, double *out,
                                  zest_error *error);

typedef struct {
    size_t requested, steps, vectors; /* as for the Lanczos iteration */
    double step;                      /* h; 0: automatic */
} zest_hessian_plan;

typedef struct {
    size_t count;
    double *values;    /* descending, with their signs */
    double *residuals; /* |H v - value v|, from an independent product with step h/2 */
    double *rechecked; /* v' H v of that product: the value with half the step */
    float *vectors;    /* count × dimension */
    double lowest, lowest_bound;
    double step, disagreement; /* h, and the relative difference of products with neighbouring steps */
    size_t steps, restarts;
    int converged;
    zest_lanczos_result process; /* owns values and vectors */
} zest_hessian_top;

/* The largest eigenvalues. Free it in any case. */
zest_status zest_hessian_find(const zest_hessian *hessian, const zest_hessian_plan *plan,
                              zest_hessian_top *top, zest_error *error);
/* Frees only the vectors, as zest_lanczos_free_vectors does. */
void zest_hessian_free_vectors(zest_hessian_top *top);
void zest_hessian_free(zest_hessian_top *top);

typedef struct {
    zest_estimate trace;
    size_t probes;
    double step, disagreement;
} zest_hessian_trace;

/* Hutchinson's estimate of the trace: the mean of z' H z over sign vectors z. step 0: automatic. */
zest_status zest_hessian_sum(const zest_hessian *hessian, size_t probes, double step,
                             zest_hessian_trace *trace, zest_error *error);

/* Maximum number of products of find and sum, for progress. */
size_t zest_hessian_products(const zest_hessian_plan *plan, size_t probes, double trace_step);

/* ---- Losses of perturbed weights: mean, spread, maximum and tilted loss F_t ----
 *
 * A perturbation is e = rho * v with v drawn from a distribution whose root-mean-square length is sqrt(d)
 * (ball: whose maximum is), and is described by its radius = rho * sqrt(d):
 *
 *     sphere, signs  |e| = radius
 *     ball           |e| <= radius
 *     Gaussian       |e|^2 has the mean radius^2; for large d, |e| is close to the radius
 *
 * rho is the paper's scale of perturbations, the size of e in one coordinate. All radii use the same v_i, which
 * depend only on (seed, i): two models with the same number of parameters get the same perturbations, and their
 * differences are paired. Works with any function that computes the losses of lanes, not only models. */

/* The loss of each lane; it must not depend on the other lanes. */
typedef zest_status zest_lane_losses(void *user, const zest_model_lane *lanes, size_t count, double *losses,
                                     zest_error *error);

typedef struct {
    zest_lane_losses *losses;
    void *user;
    uint64_t dimension;
    zest_distribution distribution;
    const double *radii;
    size_t radius_count;
    size_t samples; /* per radius */
    /* samples 2i and 2i+1 are x + e and x - e: a better mean, but no interval for the spread */
    int antithetic;
    uint64_t seed;
    size_t group; /* lanes per call; results do not depend on it */
    const zest_vector_ops *ops;
    int threads;
} zest_perturbed_loss_args;

/* out: radii x samples. */
zest_status zest_perturbed_loss_measure(const zest_perturbed_loss_args *job, double *out, zest_error *error);

typedef struct {
    double radius, rho;
    zest_estimate mean, spread, tilted;
    double effective; /* samples that carry the tilted loss */
    double lowest, highest;
    size_t bad; /* samples with a non-finite loss, which are excluded */
} zest_perturbed_loss;

/* Statistics of the samples of one radius; t is the tilt of F_t. scratch: as many numbers. */
void zest_perturbed_loss_summarize(const zest_perturbed_loss_args *job, size_t radius, const double *losses,
                                   double t, double *scratch, zest_perturbed_loss *out);

/* Mean of a - b, sample by sample. */
zest_estimate zest_perturbed_loss_difference(const double *a, const double *b, size_t samples, int antithetic,
                                             double *scratch);

/* The trace of the Hessian without gradients: the mean of (f(x+hz) + f(x-hz) - 2 f(x)) / h^2 over sign
 * vectors z. step 0: chosen on the first probes; *disagreement as for the Hessian. */
typedef struct {
    zest_estimate trace;
    size_t probes;
    double step; /* h, in each coordinate */
    double disagreement;
} zest_curvature;

zest_status zest_curvature_measure(const zest_perturbed_loss_args *job, size_t probes, double step,
                                   zest_curvature *curvature, zest_error *error);

/* ---- Loss on a line or in a plane through x ---- */

/* The loss at x + a p + b q; the callback knows p and q. */
typedef zest_status zest_slice_loss(void *user, double a, double b, double *loss, zest_error *error);

typedef struct {
    int dimensions;       /* 1: b stays 0; 2 */
    size_t points;        /* per dimension, at least 3; odd, so that x itself is one of them */
    double span;          /* from -span to span */
    double *coefficients; /* (points): the values of a, and of b */
    double *values;       /* points, or points × points with a along a row */
} zest_slice;

/* Free it in any case. */
zest_status zest_slice_measure(zest_slice *slice, zest_slice_loss *loss, void *user, zest_error *error);
void zest_slice_free(zest_slice *slice);

/* ---- Model and examples as a function of the weights: loss in lanes, gradient at a point ---- */

/* Progress of a measurement, in passes over all examples (a gradient counts as 3); 0 from `all` on. */
typedef void zest_eval_target_progress(void *user, const char *what, double done, double all);

typedef struct zest_eval_target zest_eval_target;

typedef struct {
    const zest_loaded *loaded;     /* must outlive it */
    const zest_examples *examples; /* must outlive it */
    /* maximum number of examples: a subset chosen by the seed when there are more */
    size_t max_examples;
    uint64_t seed;
    int gradients;        /* gradients will be needed */
    zest_compute compute; /* of gradients, independent of loaded->runner, which computes the losses */
    int threads;
    zest_comm *comm;                        /* the ranks that divide the losses; NULL: a single process */
    volatile sig_atomic_t *stop;            /* set: the measurement ends with ZEST_ERROR_STATE; or NULL */
    zest_eval_target_progress *on_progress; /* or NULL */
    void *user;
} zest_eval_target_options;

zest_status zest_eval_target_new(const zest_eval_target_options *options, zest_eval_target **target,
                                 zest_error *error);
void zest_eval_target_free(zest_eval_target *target);
size_t zest_eval_target_examples(const zest_eval_target *target);
/* The space of vectors as long as the parameters: in device memory for a model that runs on a device. The
 * gradients below use such vectors. */
zest_vector_space zest_eval_target_space(const zest_eval_target *target);
/* Are gradients divided over ranks? On a device they are not. */
int zest_eval_target_divides(const zest_eval_target *target);
/* Starts a phase for progress: its name and number of passes. */
void zest_eval_target_begin(zest_eval_target *target, const char *what, double passes);

/* zest_lane_losses. The loss is that of training: the mean over examples (over tokens for texts). */
zest_status zest_eval_target_losses(void *target, const zest_model_lane *lanes, size_t count, double *losses,
                                    zest_error *error);

/* Whether this build has gradients. Without them the two functions below return ZEST_ERROR_STATE. */
int zest_eval_target_has_gradients(void);
/* zest_hessian_gradient: fp32 gradients of batches, added up in fp64. */
zest_status zest_eval_target_gradient(void *target, const float *v, double scale, double factor, double *sum,
                                      zest_error *error);
/* The loss at x + a p + b q; p and q (NULL: none) in the order of the parameter elements. */
zest_status zest_eval_target_at(zest_eval_target *target, const float *p, double a, const float *q, double b,
                                double *loss, zest_error *error);
/* |x| over the parameters that are not frozen. */
zest_status zest_eval_target_norm(zest_eval_target *target, double *norm, zest_error *error);

/* Free memory in bytes for such vectors, according to the system or the device; 0: unknown. */
double zest_eval_target_free_memory(const zest_eval_target *target);

#endif
