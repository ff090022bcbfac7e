/* R_t in the ball by Monte Carlo: independent of the contour integral, and a check on it. */
#include "lab/theory/theory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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
                            uint64_t samples, tally *y) {
    for (uint64_t j = 0; j < samples; j++) {
        zest_direction direction;
        zest_status status =
            zest_direction_init(ctx, &direction, ZEST_BALL, zest_seed(seed, j, 0), landscape->dimension);
        if (!status) status = zest_direction_read(ctx, &direction, 0, landscape->count, y->u);
        if (status) return status;
        y->x[j] = loss_of(landscape, y->u);
        add_sample(y, landscape->count, t, y->x[j]);
    }
    return ZEST_OK;
}

zest_status zest_theory_sampled(zest_ctx *ctx, const zest_landscape *landscape, double t, uint64_t seed,
                                uint64_t samples, zest_sharpness *sharpness, double *sensitivity) {
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
        status = draw_all(ctx, landscape, t, seed, samples, &y);
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
