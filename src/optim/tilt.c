/* The tilt: 2k losses -> k coefficients of the gradient estimate (paper, section 3.2).
 *
 * With a = exp(t f) and Z the sum of all 2k of them, Algorithm 1 wants, for pair i,
 *
 *     w_i = (a+_i - a-_i) / Z                                       naive plug-in, eq. (naive)
 *     w_i = {1 + k/(k-1) [b_i - sum_j b_j^2]} (a+_i - a-_i) / Z     bias-corrected, eq. (BC);
 *                                                                   b_i = (a+_i + a-_i) / Z
 *
 * and the coefficient w_i / (t rho). All exponentials are taken relative to the largest loss, so none
 * overflows; a difference of nearly equal ones is 2 exp(t m) sinh(t h) with m the middle and h half the
 * difference of the pair, whose division by t has no singularity: the result joins MeZO's
 * (f+ - f-) / (2 rho k) smoothly as t -> 0. */
#include "optim/step.h"

#include <math.h>

#include "base/exp.h"
#include "optim/context.h"

zest_status zest_tilt_check(const zest_tilt_options *o, zest_error *error) {
    if (o->estimator != ZEST_NAIVE && o->estimator != ZEST_BIAS_CORRECTED)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "no estimator has the number %d",
                              (int)o->estimator);
    if (o->t < 0)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "t = %g is negative: that would favour the lowest loss nearby, that is, sharp minima; use "
            "t >= 0",
            o->t);
    if (!isfinite(o->t)) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "t must be a finite number >= 0");
    if (!(o->rho > 0) || !isfinite(o->rho))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "rho = %g must be a finite number > 0", o->rho);
    if (o->k == 0) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "k must be at least 1");
    if (o->format && (o->format < ZEST_FORMAT_OLDEST || o->format > ZEST_FORMAT))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "format %d is unknown: 0 or %d to %d", o->format,
                              ZEST_FORMAT_OLDEST, ZEST_FORMAT);
    return ZEST_OK;
}

static int finite_pair(const double *losses, size_t i) {
    return isfinite(losses[2 * i]) && isfinite(losses[2 * i + 1]);
}

/* Sums over the finite ones of a list of pairs. */
typedef struct {
    size_t kept;
    double total;   /* sum of exp(t (f - top)) over both losses of each pair */
    double squares; /* sum over pairs of (their part of total)^2 */
} sums;

static double mass(const double *losses, size_t i, double t, double top) {
    return zest_exp(t * (losses[2 * i] - top)) + zest_exp(t * (losses[2 * i + 1] - top));
}

static sums sum_pairs(const double *losses, size_t pairs, double t, double top) {
    sums s = {0};
    for (size_t i = 0; i < pairs; i++) {
        if (!finite_pair(losses, i)) continue;
        double m = mass(losses, i, t, top);
        s.kept++;
        s.total += m;
        s.squares += m * m;
    }
    return s;
}

static double largest(const double *losses, size_t pairs, double top) {
    for (size_t i = 0; i < pairs; i++)
        if (finite_pair(losses, i)) top = fmax(top, fmax(losses[2 * i], losses[2 * i + 1]));
    return top;
}

/* (f+ + f-) / 2 - top. Subtracting first keeps all digits when the losses are large and close together.
 * Format 1 subtracted last, which rounds to the spacing of doubles near f: 1e-13 at f = 1000. Halving first
 * is exact and cannot overflow. */
static double middle(const zest_tilt_options *o, double high, double low, double top) {
    if (o->format == 1) return 0.5 * high + 0.5 * low - top;
    return (0.5 * high - 0.5 * top) + (0.5 * low - 0.5 * top);
}

/* (exp(t (f+ - top)) - exp(t (f- - top))) / t */
static double slope(const zest_tilt_options *o, const double *losses, size_t i, double top) {
    double high = losses[2 * i], low = losses[2 * i + 1], t = o->t;
    double half = 0.5 * high - 0.5 * low;
    if (fabs(t * half) <= 1) return 2 * zest_exp(t * middle(o, high, low, top)) * half * zest_sinhc(t * half);
    return (zest_exp(t * (high - top)) - zest_exp(t * (low - top))) / t;
}

/* Mean, extremes and spread of the finite losses; F_t from the losses of its distribution. */
static void describe(const double *losses, size_t pairs, zest_tilt_report *r) {
    double deviation = 0;
    size_t n = 0;
    r->mean = 0;
    r->lowest = HUGE_VAL;
    r->highest = -HUGE_VAL;
    for (size_t i = 0; i < 2 * pairs; i++) {
        if (!finite_pair(losses, i / 2)) continue;
        double delta = losses[i] - r->mean;
        r->mean += delta / (double)++n;
        deviation += delta * (losses[i] - r->mean);
        r->lowest = fmin(r->lowest, losses[i]);
        r->highest = fmax(r->highest, losses[i]);
    }
    r->spread = n > 1 ? sqrt(deviation / (double)(n - 1)) : 0;
    if (!n) r->mean = r->lowest = r->highest = r->spread = NAN;
}

zest_loss_parts zest_tilt_split(const double *losses, size_t k) {
    zest_loss_parts parts = {0};
    double mean = 0;
    for (size_t i = 0; i < k; i++) {
        if (!finite_pair(losses, i)) continue;
        double a = 0.5 * losses[2 * i] - 0.5 * losses[2 * i + 1],
               b = 0.5 * losses[2 * i] + 0.5 * losses[2 * i + 1];
        double delta = b - mean;
        parts.slope += a * a;
        mean += delta / ++parts.pairs;
        parts.curvature += delta * (b - mean);
    }
    return parts;
}

static void describe_parts(const double *losses, size_t k, zest_tilt_report *r) {
    zest_loss_parts parts = zest_tilt_split(losses, k);
    r->slope = parts.pairs > 0 ? sqrt(parts.slope / parts.pairs) : NAN;
    r->curvature = parts.pairs > 1 ? sqrt(parts.curvature / (parts.pairs - 1)) : parts.pairs > 0 ? 0 : NAN;
}

static double tilted(const double *losses, size_t pairs, double t, double top) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < 2 * pairs; i++)
        if (finite_pair(losses, i / 2)) sum += expm1(t * (losses[i] - top)), n++;
    return top + log1p(sum / (double)n) / t;
}

/* t = 0: the mean over k of MeZO's two-point estimates, exactly. */
static void mezo(const zest_tilt_options *o, const double *losses, size_t kept, double *coefficients) {
    for (size_t i = 0; i < o->k; i++)
        if (finite_pair(losses, i))
            coefficients[i] = (losses[2 * i] - losses[2 * i + 1]) / (2 * o->rho) / (double)kept;
}

/* How much eq. (BC) multiplies the naive weight of a pair. With separate ball pairs in the denominator the
 * two means are independent, and of the bias only the part from the variance of the denominator is left: the
 * same for all. */
static double correction(const zest_tilt_options *o, double share, const sums *below) {
    if (o->estimator == ZEST_NAIVE || below->kept < 2) return 1;
    double n = (double)below->kept, concentration = below->squares / (below->total * below->total);
    if (o->ball_pairs) share = 1 / n;
    return 1 + n / (n - 1) * (share - concentration);
}

static void weigh(const zest_tilt_options *o, const double *losses, const sums *below, double kept,
                  double top, double *coefficients, zest_tilt_report *r) {
    double z =
        below->total * (kept / (double)below->kept); /* the denominator, for as many pairs as the numerator */
    for (size_t i = 0; i < o->k; i++) {
        if (!finite_pair(losses, i)) continue;
        double naive = slope(o, losses, i, top) / z;
        double factor = correction(o, mass(losses, i, o->t, top) / z, below);
        coefficients[i] = factor * naive / o->rho;
        r->saturation += fabs(o->t * naive);
        r->flipped += factor < 0;
    }
    r->effective = below->total * below->total / below->squares;
}

/* What could not be represented is left out like a loss that is not finite. */
static void drop_infinite(size_t k, double *coefficients, zest_tilt_report *r) {
    for (size_t i = 0; i < k; i++)
        if (!isfinite(coefficients[i])) coefficients[i] = 0, r->dropped++;
}

void zest_tilt_compute(const zest_tilt_options *o, const double *losses, double *coefficients,
                       zest_tilt_report *report) {
    zest_tilt_report unused, *r = report ? report : &unused;
    const double *ball = losses + 2 * o->k;
    *r = (zest_tilt_report){.t = o->t, .scale = 1};
    for (size_t i = 0; i < o->k; i++) coefficients[i] = 0;
    double top = largest(ball, o->ball_pairs, largest(losses, o->k, -HUGE_VAL));
    sums above = sum_pairs(losses, o->k, o->t, top);
    sums below = o->ball_pairs ? sum_pairs(ball, o->ball_pairs, o->t, top) : above;
    describe(losses, o->k, r);
    describe_parts(losses, o->k, r);
    r->dropped = o->k - above.kept;
    r->tilted = r->mean;
    r->effective = (double)above.kept;
    if (!above.kept) return;
    if (o->t == 0) {
        mezo(o, losses, above.kept, coefficients);
    } else if (!below.kept || !(below.total > 0)) {
        r->dropped = o->k; /* no denominator: nothing can be said about the gradient */
    } else {
        weigh(o, losses, &below, (double)above.kept, top, coefficients, r);
        r->tilted = o->ball_pairs ? tilted(ball, o->ball_pairs, o->t, top) : tilted(losses, o->k, o->t, top);
    }
    drop_infinite(o->k, coefficients, r);
}

zest_status zest_tilt(zest_ctx *ctx, const zest_tilt_options *options, const double *losses,
                      double *coefficients, zest_tilt_report *report) {
    zest_status status = zest_tilt_check(options, zest_ctx_sink(ctx));
    if (!status) zest_tilt_compute(options, losses, coefficients, report);
    return status;
}
