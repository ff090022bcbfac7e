/* zest_theory: which sharpness a tilt penalises (Section 4 of the paper; docs/theory.md).
 *
 * Functions of a quadratic model of the loss, for zest.h's context and directions. It compiles as C11 and as
 * C++. */
#ifndef ZEST_THEORY_H
#define ZEST_THEORY_H

#include "zest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* F_t = f + R_t to second order, with R_t = (1/t) log E exp(t·X) and X = rho g'u + (rho^2/2) u'Lu, in the
 * basis of the Hessian's eigenvectors. R_t is the regulariser; its sensitivity phi_i = dR_t/dlambda_i says
 * how much the i-th eigenvalue counts. */
typedef struct {
    const double *eigenvalues; /* lambda_i, in any order */
    const double *gradient;    /* g_i along the same eigenvectors; NULL: all zero */
    size_t count;              /* of both arrays, >= 1 */
    uint64_t dimension; /* d >= count; the other d - count directions have neither slope nor curvature */
    double rho;         /* > 0 */
} zest_landscape;

/* u ~ N(0, I), Theorem 4.1. t from 0 (the average, R_avg) to below 1/(rho^2 lambda_max), where R_t becomes
 * infinite; limit gives that t, HUGE_VAL when no eigenvalue is positive. sensitivity: count numbers, or NULL. */
ZEST_API zest_status zest_theory_gaussian(zest_ctx *ctx, const zest_landscape *landscape, double t,
                                          double *value, double *sensitivity);
ZEST_API zest_status zest_theory_gaussian_limit(zest_ctx *ctx, const zest_landscape *landscape, double *t);

typedef struct {
    double value;             /* R_t */
    double error;             /* of value: a bound in practice (ball), or one standard error (sampled) */
    double sensitivity_error; /* the same for the worst phi_i; 0 when they were not asked for */
    double effective; /* sampled: how many samples carry the weight; with few, error is not to be trusted */
} zest_sharpness;

/* u uniform in the ball of radius sqrt(d), Theorem 4.2, for any t >= 0: by a contour integral, to about 13
 * digits whatever d. sensitivity: count numbers, or NULL. */
ZEST_API zest_status zest_theory_ball(zest_ctx *ctx, const zest_landscape *landscape, double t,
                                      zest_sharpness *sharpness, double *sensitivity);
/* The same from `samples` >= 2 directions zest_seed(seed, i, 0); each costs a sweep over d elements. */
ZEST_API zest_status zest_theory_sampled(zest_ctx *ctx, const zest_landscape *landscape, double t,
                                         uint64_t seed, uint64_t samples, zest_sharpness *sharpness,
                                         double *sensitivity);

typedef enum {
    ZEST_WORST_INTERIOR, /* the maximiser lies inside the ball: no eigenvalue is positive, the slope is gentle */
    ZEST_WORST_BOUNDARY, /* on the sphere, by the secular equation */
    ZEST_WORST_HARD, /* on the sphere with omega = rho^2 lambda_max / 2, for want of slope along the top */
} zest_worst_case;

typedef struct {
    zest_worst_case kind;
    double value;      /* R_inf = max of X over the ball */
    double multiplier; /* omega, with (2 omega - rho^2 lambda_i) u_i = rho g_i and omega (|u|^2 - d) = 0 */
} zest_worst;

ZEST_API const char *zest_worst_case_name(zest_worst_case kind); /* "interior", "boundary", "hard" */

/* t -> infinity in the ball. maximiser (u) and sensitivity: count numbers, or NULL. In the hard case the
 * maximiser is not unique (-u_1 does as well); with a repeated top eigenvalue the rest of the norm goes to
 * the first of them, and the sensitivities are then one subgradient. */
ZEST_API zest_status zest_theory_worst(zest_ctx *ctx, const zest_landscape *landscape, zest_worst *worst,
                                       double *maximiser, double *sensitivity);
/* How these change with the eigenvalues (Appendix B.7): d omega/d lambda_i and d phi_i/d lambda_i, count
 * numbers each. NaN where the derivative does not exist: in the hard case for a repeated top eigenvalue, in
 * the interior case for an eigenvalue 0. */
ZEST_API zest_status zest_theory_worst_derivatives(zest_ctx *ctx, const zest_landscape *landscape,
                                                   double *multiplier, double *sensitivity);

typedef struct {
    double lowest, highest; /* the range of X over the ball */
    double hoeffding; /* 8 epsilon / (highest - lowest)^2: t up to here keeps R_t within epsilon of R_0 */
    double closed;    /* the same from |X| bounds alone, as Appendix B.8 does; smaller, and right */
    double exact;     /* the largest such t; HUGE_VAL when every t will do */
} zest_tilt_bounds;

/* How far t may go while R_t <= R_0 + epsilon in the ball; epsilon > 0. */
ZEST_API zest_status zest_theory_bounds(zest_ctx *ctx, const zest_landscape *landscape, double epsilon,
                                        zest_tilt_bounds *bounds);

/* Mean and variance of |u| in the ball of radius sqrt(d), Lemma B.1: it concentrates at the sphere. */
ZEST_API zest_status zest_theory_norm(zest_ctx *ctx, uint64_t dimension, double *mean, double *variance);

#ifdef __cplusplus
}
#endif
#endif
