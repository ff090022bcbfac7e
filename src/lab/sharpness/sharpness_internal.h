/* Long vectors: kept as floats, worked on as doubles, in the host's memory or in a device's. Sums run over
 * blocks that depend on the length alone and are added in order, so a result has the same bits for any number
 * of threads; a device has blocks of its own.
 *
 * On a device work is queued, and what fails there shows in zest_vector_check; sums are then NaN. */
#ifndef ZEST_LAB_SHARPNESS_SHARPNESS_INTERNAL_H
#define ZEST_LAB_SHARPNESS_SHARPNESS_INTERNAL_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"
#include "kernels/ops.h"
#include "lab/stats/stats.h"
#include "model/forward_pass.h"
#include "base/error.h"
#include "task/batch.h"
#include "train/load.h"

typedef struct {
    size_t count; /* numbers of a vector */
    const zest_vector_ops *ops;
    int threads;         /* 0: all cores */
    zest_device *device; /* whose memory the vectors are in; NULL: the host's */
} zest_vector_space;

/* basis[k] = sum over i of turn[i·count + k] basis[i], for k < count <= vectors: in place, the vectors one
 * behind the other. */
typedef struct {
    float *basis;
    const double *turn; /* in the host's memory */
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
    int (*turn)(const zest_vector_space *s, const zest_vector_rotation *job);
} zest_vector_table;

/* The operations of a space:
 *     dot v·w, norm |w|, distance |a - b|, square |v|^2
 *     clear x = 0 (size: of a number), add w += c v, store v = c w, scale v = c v, shift v += c u, copy
 *     normal, sign: noise, in the order of the numbers
 *     read: parameters as floats, in the order of their numbers
 *     turn: see above; -1: memory is short */
const zest_vector_table *zest_vector_operations(const zest_vector_space *s);

/* Memory for that many vectors there; NULL: there is none. */
float *zest_vector_floats(const zest_vector_space *s, size_t vectors);
double *zest_vector_doubles(const zest_vector_space *s, size_t vectors);
void zest_vector_free(const zest_vector_space *s, void *data); /* NULL: nothing happens */
/* What went wrong on the device so far; ZEST_OK: nothing. */
zest_status zest_vector_check(const zest_vector_space *s, zest_error *error);
/* The status of memory that was not to be had. */
zest_status zest_vector_no_room(const zest_vector_space *s, const char *what, double bytes,
                                zest_error *error);

/* vector.c, lab/sharpness/cuda/vector.cu */
extern const zest_vector_table zest_vector_host, zest_vector_cuda;

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

/* Losses around x: what the average, the spread, the maximum and the tilted loss F_t are at some distance.
 *
 * A perturbation is e = rho·v with v drawn from a distribution whose root-mean-square length is sqrt(d)
 * (ball: whose largest is), and is named by its radius = rho·sqrt(d):
 *
 *     sphere, signs  |e| = radius
 *     ball           |e| <= radius
 *     Gaussian       |e|^2 has the mean radius^2; for large d, |e| is close to the radius
 *
 * rho is the paper's scale of perturbations, the size of e in one coordinate.
 *
 * All radii use the same v_i, which follow from (seed, i) alone: two models with as many numbers are
 * perturbed alike, and their differences are those of pairs. Knows a function that answers losses of lanes,
 * no model. */

/* The loss in each lane; a lane's loss must not depend on the others. */
typedef zest_status zest_lane_losses(void *user, const zest_model_lane *lanes, size_t count, double *losses,
                                     zest_error *error);

typedef struct {
    zest_lane_losses *losses;
    void *user;
    uint64_t dimension;
    zest_distribution distribution;
    const double *radii;
    size_t radius_count;
    size_t samples; /* of each radius */
    int antithetic; /* samples 2i and 2i+1 are x + e and x - e: a better mean, but no interval for the spread
                     */
    uint64_t seed;
    size_t group; /* lanes that are asked for at once; results do not depend on it */
    const zest_vector_ops *ops;
    int threads;
} zest_perturbed_loss_args;

/* out: radii × samples. */
zest_status zest_perturbed_loss_measure(const zest_perturbed_loss_args *job, double *out, zest_error *error);

typedef struct {
    double radius, rho;
    zest_estimate mean, spread, tilted;
    double effective; /* samples that carry the tilted loss */
    double lowest, highest;
    size_t bad; /* samples whose loss was not finite; they are left out */
} zest_perturbed_loss;

/* What the samples of one radius say; t is the tilt of F_t. scratch: as many numbers. */
void zest_perturbed_loss_summarize(const zest_perturbed_loss_args *job, size_t radius, const double *losses,
                                   double t, double *scratch, zest_perturbed_loss *out);

/* Mean of a - b, sample by sample. */
zest_estimate zest_perturbed_loss_difference(const double *a, const double *b, size_t samples, int antithetic,
                                             double *scratch);

/* The trace of the Hessian without slopes: the mean of (f(x+hz) + f(x-hz) - 2 f(x)) / h^2 over vectors z of
 * signs. step 0: to be chosen on the first probes; *disagreement as in hessian.h. */
typedef struct {
    zest_estimate trace;
    size_t probes;
    double step; /* h, in each coordinate */
    double disagreement;
} zest_curvature;

zest_status zest_curvature_measure(const zest_perturbed_loss_args *job, size_t probes, double step,
                                   zest_curvature *curvature, zest_error *error);

/* The loss on a line or in a plane through x. */

/* The loss at x + a p + b q; who answers knows p and q. */
typedef zest_status zest_slice_loss(void *user, double a, double b, double *loss, zest_error *error);

typedef struct {
    int dimensions; /* 1: b stays 0; 2 */
    size_t points;  /* along each, from 3; odd, so that x itself is one of them */
    double span;    /* from -span to span */
    double *places; /* the coefficients */
    double *values; /* points, or points × points with a along a row */
} zest_slice;

/* Free it whatever this says. */
zest_status zest_slice_measure(zest_slice *slice, zest_slice_loss *loss, void *user, zest_error *error);
void zest_slice_free(zest_slice *slice);

/* A model and some examples as a function of the weights: its loss in lanes, its slope at a point. What the
 * analysis of sharpness measures. */

/* How far a measurement is, in passes over all examples (a gradient counts as 3); 0 from `all` on. */
typedef void zest_eval_target_progress(void *user, const char *what, double done, double all);

typedef struct zest_eval_target zest_eval_target;

typedef struct {
    const zest_loaded *loaded;     /* outlives it */
    const zest_examples *examples; /* likewise */
    size_t most;                   /* examples: a subset that follows from the seed when there are more */
    uint64_t seed;
    int slopes;           /* gradients will be asked for */
    zest_compute compute; /* of gradients, whatever loaded->runner, which gives the losses, computes in */
    int threads;
    volatile sig_atomic_t *stop;     /* set: measuring ends with ZEST_ERROR_STATE; or NULL */
    zest_eval_target_progress *tell; /* or NULL */
    void *user;
} zest_eval_target_options;

zest_status zest_eval_target_new(const zest_eval_target_options *options, zest_eval_target **measure,
                                 zest_error *error);
void zest_eval_target_free(zest_eval_target *measure);
size_t zest_eval_target_examples(const zest_eval_target *measure);
/* Where vectors of as many numbers as the model has parameters belong: with a model that runs on a device, in
 * its memory. The slopes below take and give such vectors. */
zest_vector_space zest_eval_target_space(const zest_eval_target *measure);
/* A stretch of work that is told about: its name, and how many passes it will take. */
void zest_eval_target_begin(zest_eval_target *measure, const char *what, double passes);

/* zest_lane_losses. The loss is that of training: the mean over examples (over tokens for texts). */
zest_status zest_eval_target_losses(void *measure, const zest_model_lane *lanes, size_t count, double *losses,
                                    zest_error *error);

/* Does this build have gradients? Without them the two below answer ZEST_ERROR_STATE. */
int zest_eval_target_has_gradients(void);
/* zest_hessian_gradient: fp32 gradients of batches, added up in fp64. */
zest_status zest_eval_target_gradient(void *measure, const float *v, double scale, double factor, double *sum,
                                      zest_error *error);
/* The loss at x + a p + b q; p and q (NULL: none) in the order of the numbers of the parameters. */
zest_status zest_eval_target_at(zest_eval_target *measure, const float *p, double a, const float *q, double b,
                                double *loss, zest_error *error);
/* |x|, over what is not frozen. */
zest_status zest_eval_target_norm(zest_eval_target *measure, double *norm, zest_error *error);

/* Bytes that are free for such vectors, as the system or the device sees it; 0: it does not say. */
double zest_eval_target_free_memory(const zest_eval_target *measure);

#endif
