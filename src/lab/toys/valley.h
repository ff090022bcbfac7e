/* The valley: a problem on which the tilt decides what MeZO cannot (docs/toys.md).
 *
 *     f(x, y, s) = 5 [(1 + tanh s) x^2 + (1 - tanh s) y^2]
 *
 * f is 0 on the floor, x = y = 0, for every s. Across the floor the Hessian has the eigenvalues 10 (1 +- tanh s): their
 * sum is 20 everywhere, the larger one is least at s = 0. With u ~ N(0, I) and a = 10 t rho^2, on the floor,
 *
 *     E f(x + rho u)       = 10 rho^2                           for every s: MeZO sees no difference
 *     E exp(t f(x + rho u)) = E_u w(s + rho u),   w(s) = ((1 - a)^2 - a^2 tanh^2 s)^(-1/2)
 *
 * which is finite up to t = 1/(20 rho^2), and least at s = 0. Several valleys are a sum: the parameters are
 * x_1, y_1, s_1, x_2, ... */
#ifndef ZEST_LAB_TOYS_VALLEY_H
#define ZEST_LAB_TOYS_VALLEY_H

#include "lab/toys/toy.h"

/* The sum over n/3 valleys. */
double zest_valley(const double *x, size_t n, void *user);
/* 10 (1 + |tanh s|): the largest eigenvalue of the Hessian on the floor of one valley. */
double zest_valley_curvature(double s);

/* The largest t at which the Gaussian F_t is finite. */
double zest_valley_limit(double rho);
/* The Gaussian F_t of one valley at x, y, s: exact in x and y, by the trapezoid rule in s, which for a smooth function
 * under a Gaussian weight has all digits. HUGE_VAL beyond the limit; t = 0: the mean of f. */
double zest_valley_tilted(double t, double rho, const double x[3]);
/* dF_t/ds on the floor; NaN beyond the limit. Several valleys do not see each other in it. */
double zest_valley_slope(double t, double rho, double s);

/* ---- Runs ---- */

enum { ZEST_VALLEY_SHOWN = 400 }; /* a trace has at most so many intervals */

/* Where a run is: means over the valleys. */
typedef struct {
    double step, curvature, s, loss; /* loss: f at the point itself, of all valleys */
} zest_valley_point;

typedef struct {
    zest_valley_point *points;
    size_t count;     /* zest_valley_points */
    double effective; /* sample size of the tilt's weights, mean over the steps */
    double t;         /* tilt of the last step */
} zest_valley_trace;

/* The number of points in a trace: the start, then evenly spaced steps up to the last. */
size_t zest_valley_points(uint64_t steps);
/* One run. trace->points is the caller's. Points after f stopped being finite are NaN. */
zest_status zest_valley_run(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                            zest_valley_trace *trace, zest_error *error);
/* The path straight downhill on F_t, with the same lr and steps; NaN where there is no F_t. */
void zest_valley_descend(const zest_toy_settings *settings, zest_valley_trace *trace);

/* How many of k pairs carry the step at the start, on the average over `pairs` sampled pairs in groups of k: for each
 * of `count` values of k. */
zest_status zest_valley_effective(const zest_toy_settings *settings, uint64_t seed, size_t pairs,
                                  size_t count, const size_t *k, double *effective, zest_error *error);

#endif
