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
#ifndef ZEST_LAB_SHARPNESS_PERTURBED_LOSS_H
#define ZEST_LAB_SHARPNESS_PERTURBED_LOSS_H

#include <stddef.h>

#include "lab/stats/stats.h"
#include "kernels/ops.h"
#include "model/transformer.h"
#include "base/error.h"

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

#endif
