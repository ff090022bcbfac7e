/* The regulariser under Gaussian perturbation (Theorem 4.1, eq. Rt:N). */
#include "analysis/theory.h"

#include <math.h>

zest_status zest_theory_gaussian_limit(zest_ctx *ctx, const zest_landscape *landscape, double *t) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    double top = 0;
    for (size_t i = 0; i < landscape->count; i++) top = fmax(top, landscape->eigenvalues[i]);
    *t = top > 0 ? 1 / (landscape->rho * landscape->rho * top) : HUGE_VAL;
    return ZEST_OK;
}

/* E exp(tX) is finite only while exp(-u_i^2/2) wins against exp(t rho^2 lambda_i u_i^2/2) in every direction.
 */
static zest_status check_limit(zest_ctx *ctx, const zest_landscape *landscape, double t) {
    double limit;
    zest_status status = zest_theory_gaussian_limit(ctx, landscape, &limit);
    if (status || t < limit) return status;
    return zest_error_set(
        zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
        "theory: at t = %g the Gaussian R_t is infinite, because t rho^2 lambda_max >= 1; take t "
        "below %.10g, a smaller rho, or the ball, where every t is allowed",
        t, limit);
}

zest_status zest_theory_gaussian(zest_ctx *ctx, const zest_landscape *landscape, double t, double *value,
                                 double *sensitivity) {
    zest_status status = zest_theory_check_tilt(ctx, landscape, t);
    if (!status) status = check_limit(ctx, landscape, t);
    if (status) return status;
    double rho2 = landscape->rho * landscape->rho, sum = 0;
    for (size_t i = 0; i < landscape->count; i++) {
        double a = t * rho2 * landscape->eigenvalues[i], slope = zest_theory_slope(landscape, i);
        /* -log(1-a)/t tends to rho^2 lambda; log1p keeps it exact on the way there */
        double curve = t > 0 && a != 0 ? -log1p(-a) / t : rho2 * landscape->eigenvalues[i];
        sum += curve + t * rho2 * slope * slope / (1 - a);
        /* dR/dlambda_i: both denominators hold lambda_i, where the paper's inner one has g_i */
        if (sensitivity) sensitivity[i] = rho2 / (2 * (1 - a)) * (t * t * rho2 * slope * slope / (1 - a) + 1);
    }
    *value = sum / 2;
    return zest_theory_check_result(ctx, *value, "the Gaussian R_t");
}
