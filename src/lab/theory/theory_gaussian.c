/* R_t under Gaussian noise (Theorem 4.1) in closed form, and R_t in the ball from samples. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "lab/theory/theory.h"

static zest_status check_numbers(zest_error *error, const char *name, const double *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i]))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "theory: %s %zu of %zu is not a finite number",
                                  name, i + 1, count);
    return ZEST_OK;
}

zest_status zest_theory_check(zest_ctx *ctx, const zest_landscape *landscape) {
    zest_error *error = zest_ctx_sink(ctx);
    if (!landscape || !landscape->eigenvalues || !landscape->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "theory: a landscape needs at least one eigenvalue");
    if (landscape->dimension < landscape->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "theory: dimension %" PRIu64 " is less than the number of eigenvalues, %zu",
                              landscape->dimension, landscape->count);
    if (!(landscape->rho > 0) || !isfinite(landscape->rho))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "theory: rho = %g, but it must be positive and finite", landscape->rho);
    zest_status status = check_numbers(error, "eigenvalue", landscape->eigenvalues, landscape->count);
    if (!status && landscape->gradient)
        status = check_numbers(error, "gradient component", landscape->gradient, landscape->count);
    return status;
}

zest_status zest_theory_check_tilt(zest_ctx *ctx, const zest_landscape *landscape, double t) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    if (t >= 0 && isfinite(t)) return ZEST_OK;
    return zest_error_set(
        zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
        "theory: t = %g, but it must be finite and at least 0 (t = infinity is zest_theory_worst)", t);
}

zest_status zest_theory_check_result(zest_ctx *ctx, double value, const char *what) {
    if (isfinite(value)) return ZEST_OK;
    return zest_error_set(
        zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
        "theory: %s leaves the range of double; eigenvalues, gradient, rho or t are too large", what);
}

/* The regulariser under Gaussian perturbation (Theorem 4.1, eq. Rt:N). */

zest_status zest_theory_gaussian_limit(zest_ctx *ctx, const zest_landscape *landscape, double *t) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    double top = 0;
    for (size_t i = 0; i < landscape->count; i++) top = fmax(top, landscape->eigenvalues[i]);
    *t = top > 0 ? 1 / (landscape->rho * landscape->rho * top) : HUGE_VAL;
    return ZEST_OK;
}

/* E exp(tX) is finite only while exp(-u_i^2/2) wins against exp(t rho^2 lambda_i u_i^2/2) in every direction. */
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

/* How far t may go before the regulariser leaves the average (Appendix B.8), and where the ball has its mass
 * (Lemma B.1). */

/* The least of X is minus the largest of -X. */
static zest_status least(zest_ctx *ctx, const zest_landscape *landscape, double *value) {
    size_t count = landscape->count, bytes = 2 * count * sizeof(double);
    double *turned = malloc(bytes);
    if (!turned) return zest_error_memory(zest_ctx_sink(ctx), "the turned landscape", bytes);
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

/* The t where R_t = R_0 + epsilon: R_t never falls, so doubling finds the far side and bisection the place. */
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

/* R_t in the ball by Monte Carlo: independent of the contour integral, and a check on it. */

typedef struct {
    float *u;
    double *x;                        /* X of every sample */
    double top, sum, squares;         /* the largest X so far; sums of w and w^2 with w = exp(t (X - top)) */
    double *first, *crossed, *second; /* for each i, sums of w u_i^2, w^2 u_i^2 and w^2 u_i^4 */
} tally;

static double loss_of(const zest_landscape *landscape, const float *u) {
    double slope = 0, curve = 0, rho = landscape->rho;
    for (size_t i = 0; i < landscape->count; i++) {
        slope += zest_theory_slope(landscape, i) * u[i];
        curve += landscape->eigenvalues[i] * u[i] * u[i];
    }
    return rho * slope + rho * rho / 2 * curve;
}

/* Brings all sums to a new top, so that no weight exceeds 1. */
static void raise_top(tally *y, size_t count, double t, double top) {
    double scale = isfinite(y->top) ? exp(t * (y->top - top)) : 0;
    y->top = top;
    y->sum *= scale;
    y->squares *= scale * scale;
    for (size_t i = 0; i < count; i++) {
        y->first[i] *= scale;
        y->crossed[i] *= scale * scale;
        y->second[i] *= scale * scale;
    }
}

static void add_sample(tally *y, size_t count, double t, double x) {
    if (x > y->top) raise_top(y, count, t, x);
    double w = exp(t * (x - y->top));
    y->sum += w;
    y->squares += w * w;
    for (size_t i = 0; i < count; i++) {
        double uu = (double)y->u[i] * y->u[i];
        y->first[i] += w * uu;
        y->crossed[i] += w * w * uu;
        y->second[i] += w * w * uu * uu;
    }
}

/* The logarithm of the mean of exp(t X), over t, and its standard error by the delta method. */
static void finish_value(const tally *y, double t, uint64_t samples, zest_sharpness *sharpness) {
    double n = (double)samples, mean = 0, spread = 0, excess = 0;
    for (uint64_t j = 0; j < samples; j++) mean += y->x[j] / n;
    for (uint64_t j = 0; j < samples; j++) {
        spread += (y->x[j] - mean) * (y->x[j] - mean) / (n - 1);
        excess += expm1(t * (y->x[j] - y->top)) / n;
    }
    sharpness->effective = y->sum * y->sum / y->squares;
    sharpness->value = t > 0 ? y->top + log1p(excess) / t : mean;
    double weak = sqrt(spread / n), strong = sqrt(fmax(0, y->squares / y->sum / y->sum - 1 / n)) / t;
    /* the two agree to first order in t, and the second cancels to nothing where t is small */
    sharpness->error = t * sqrt(spread) < 1e-3 ? weak : strong;
}

static void finish_sensitivity(const tally *y, const zest_landscape *landscape, zest_sharpness *sharpness,
                               double *sensitivity) {
    double factor = landscape->rho * landscape->rho / 2;
    for (size_t i = 0; i < landscape->count; i++) {
        double ratio = y->first[i] / y->sum;
        double spread = y->second[i] - 2 * ratio * y->crossed[i] + ratio * ratio * y->squares;
        sensitivity[i] = factor * ratio;
        sharpness->sensitivity_error =
            fmax(sharpness->sensitivity_error, factor * sqrt(fmax(0, spread)) / y->sum);
    }
}

static zest_status draw_all(zest_ctx *ctx, const zest_landscape *landscape, double t, uint64_t seed,
                            uint64_t samples, const zest_progress_callback *progress, tally *y) {
    for (uint64_t j = 0; j < samples; j++) {
        zest_direction direction;
        zest_status status =
            zest_direction_init(ctx, &direction, ZEST_BALL, zest_seed(seed, j, 0), landscape->dimension);
        if (!status) status = zest_direction_read(ctx, &direction, 0, landscape->count, y->u);
        if (status) return status;
        y->x[j] = loss_of(landscape, y->u);
        add_sample(y, landscape->count, t, y->x[j]);
        zest_progress_call(progress, j + 1, samples);
    }
    return ZEST_OK;
}

zest_status zest_theory_sampled_report(zest_ctx *ctx, const zest_landscape *landscape, double t,
                                       uint64_t seed, uint64_t samples,
                                       const zest_progress_callback *progress, zest_sharpness *sharpness,
                                       double *sensitivity) {
    zest_status status = zest_theory_check_tilt(ctx, landscape, t);
    if (status) return status;
    if (samples < 2 || samples > (uint64_t)1 << 32)
        return zest_error_set(zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
                              "theory: %" PRIu64 " samples, but it takes from 2 to 2^32", samples);
    size_t count = landscape->count;
    tally y = {.top = -HUGE_VAL};
    y.u = malloc(count * sizeof *y.u);
    y.x = malloc((size_t)samples * sizeof *y.x);
    y.first = calloc(3 * count, sizeof *y.first);
    if (!y.u || !y.x || !y.first) {
        status = zest_error_memory(zest_ctx_sink(ctx), "the samples", (size_t)samples * sizeof *y.x);
    } else {
        y.crossed = y.first + count;
        y.second = y.crossed + count;
        status = draw_all(ctx, landscape, t, seed, samples, progress, &y);
    }
    if (!status) {
        *sharpness = (zest_sharpness){0};
        finish_value(&y, t, samples, sharpness);
        if (sensitivity) finish_sensitivity(&y, landscape, sharpness, sensitivity);
        status = zest_theory_check_result(ctx, sharpness->value, "the sampled R_t");
    }
    free(y.u);
    free(y.x);
    free(y.first);
    return status;
}

zest_status zest_theory_sampled(zest_ctx *ctx, const zest_landscape *landscape, double t, uint64_t seed,
                                uint64_t samples, zest_sharpness *sharpness, double *sensitivity) {
    return zest_theory_sampled_report(ctx, landscape, t, seed, samples, NULL, sharpness, sensitivity);
}
