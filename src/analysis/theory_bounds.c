/* How far t may go before the regulariser leaves the average (Appendix B.8), and where the ball has its mass
 * (Lemma B.1). */
#include "analysis/theory.h"

#include <math.h>
#include <stdlib.h>

/* The least of X is minus the largest of -X. */
static zest_status least(zest_ctx *ctx, const zest_landscape *landscape, double *value) {
    size_t count = landscape->count, room = 2 * count * sizeof(double);
    double *turned = malloc(room);
    if (!turned) return zest_error_memory(zest_ctx_sink(ctx), "the turned landscape", room);
    for (size_t i = 0; i < count; i++) {
        turned[i] = -landscape->eigenvalues[i];
        turned[count + i] = -zest_theory_slope(landscape, i);
    }
    zest_landscape other = {turned, turned + count, count, landscape->dimension, landscape->rho};
    zest_worst worst;
    zest_status status = zest_theory_worst(ctx, &other, &worst, NULL, NULL);
    *value = status ? 0 : -worst.value;
    free(turned);
    return status;
}

/* M - m from the norms alone. In an indefinite landscape both ends of the spectrum count: the paper's last
 * step keeps only the larger and so allows a t that is too large (eq. choose_t). */
static double loose_range(const zest_landscape *landscape) {
    double low = 0, high = 0, norm = 0, radius = landscape->rho * sqrt((double)landscape->dimension);
    for (size_t i = 0; i < landscape->count; i++) {
        low = fmin(low, landscape->eigenvalues[i]);
        high = fmax(high, landscape->eigenvalues[i]);
        norm = hypot(norm, zest_theory_slope(landscape, i));
    }
    return radius * radius / 2 * (high - low) + 2 * radius * norm;
}

/* Hoeffding's lemma: log E exp(tX) <= t E X + t^2 range^2 / 8. */
static double hoeffding(double epsilon, double range) {
    return range > 0 ? 8 * epsilon / range / range : HUGE_VAL;
}

/* The t where R_t = R_0 + epsilon: R_t never falls, so doubling finds the far side and bisection the place.
 */
static zest_status exact_tilt(zest_ctx *ctx, const zest_landscape *landscape, double epsilon, double start,
                              double *t) {
    zest_sharpness sharpness;
    zest_status status = zest_theory_ball(ctx, landscape, 0, &sharpness, NULL);
    double allowed = sharpness.value + epsilon, low = start, high = start;
    do {
        low = high;
        high *= 2;
        if (!status) status = zest_theory_ball(ctx, landscape, high, &sharpness, NULL);
    } while (!status && sharpness.value <= allowed && high < 1e100);
    for (int turn = 0; !status && turn < 200 && high - low > 1e-12 * high; turn++) {
        double middle = low + (high - low) / 2;
        status = zest_theory_ball(ctx, landscape, middle, &sharpness, NULL);
        if (sharpness.value <= allowed)
            low = middle;
        else
            high = middle;
    }
    *t = low < 1e99 ? low : HUGE_VAL;
    return status;
}

zest_status zest_theory_bounds(zest_ctx *ctx, const zest_landscape *landscape, double epsilon,
                               zest_tilt_bounds *bounds) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    if (!(epsilon > 0) || !isfinite(epsilon))
        return zest_error_set(zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
                              "theory: epsilon = %g, but it must be positive and finite", epsilon);
    zest_worst worst;
    zest_sharpness average;
    status = zest_theory_worst(ctx, landscape, &worst, NULL, NULL);
    if (!status) status = least(ctx, landscape, &bounds->lowest);
    if (!status) status = zest_theory_ball(ctx, landscape, 0, &average, NULL);
    if (status) return status;
    bounds->highest = worst.value;
    bounds->hoeffding = hoeffding(epsilon, bounds->highest - bounds->lowest);
    bounds->closed = hoeffding(epsilon, loose_range(landscape));
    bounds->exact = HUGE_VAL;
    if (bounds->highest <= average.value + epsilon) return ZEST_OK;
    return exact_tilt(ctx, landscape, epsilon, bounds->hoeffding, &bounds->exact);
}

zest_status zest_theory_norm(zest_ctx *ctx, uint64_t dimension, double *mean, double *variance) {
    if (!dimension)
        return zest_error_set(zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
                              "theory: a ball needs at least one dimension");
    double d = (double)dimension, share = d / (d + 1);
    *mean = sqrt(d) * share;
    /* d^2/(d+2) - d^3/(d+1)^2 in one fraction; it tends to 1/d, where the paper has 1/(3d) */
    *variance = share * share / (d + 2);
    return ZEST_OK;
}
