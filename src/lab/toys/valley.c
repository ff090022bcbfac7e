/* The valley: see valley.h. */
#include <math.h>
#include <stdlib.h>

#include "lab/toys/valley.h"

double zest_valley(const double *x, size_t n, void *user) {
    double sum = 0;
    (void)user;
    for (size_t i = 0; i + 2 < n; i += 3) {
        double const t = tanh(x[i + 2]);
        sum += 5 * ((1 + t) * x[i] * x[i] + (1 - t) * x[i + 1] * x[i + 1]);
    }
    return sum;
}

double zest_valley_curvature(double s) { return 10 * (1 + fabs(tanh(s))); }

/* ---- F_t ---- */

double zest_valley_limit(double rho) { return 1 / (20 * rho * rho); }

enum { NODES_PER_UNIT = 16, REACH = 10 }; /* of the trapezoid rule over the standard normal */

static double node(int i) { return (double)i / NODES_PER_UNIT; }

static double weight(int i) {
    return exp(-0.5 * node(i) * node(i)) / sqrt(2 * 3.14159265358979323846) / NODES_PER_UNIT;
}

/* log E exp(c (x + rho u)^2) of a normal u, for 2 c rho^2 < 1. */
static double log_mean(double c, double rho, double x) {
    double const left = 1 - 2 * c * rho * rho;
    return left > 0 ? c * x * x / left - 0.5 * log(left) : HUGE_VAL;
}

double zest_valley_tilted(double t, double rho, const double x[3]) {
    double sum = 0;
    if (t > zest_valley_limit(rho)) return HUGE_VAL;
    for (int i = -REACH * NODES_PER_UNIT; i <= REACH * NODES_PER_UNIT; i++) {
        double const turn = tanh(x[2] + rho * node(i)), a = 5 * (1 + turn), b = 5 * (1 - turn);
        if (t == 0)
            sum += weight(i) * (a * (x[0] * x[0] + rho * rho) + b * (x[1] * x[1] + rho * rho));
        else /* expm1 keeps the digits of a small t */
            sum += weight(i) * expm1(log_mean(t * a, rho, x[0]) + log_mean(t * b, rho, x[1]));
    }
    return t > 0 ? log1p(sum) / t : sum;
}

double zest_valley_slope(double t, double rho, double s) {
    double const a = 10 * t * rho * rho;
    double above = 0, below = 0;
    if (t > zest_valley_limit(rho)) return NAN;
    if (t == 0) return 0;
    for (int i = -REACH * NODES_PER_UNIT; i <= REACH * NODES_PER_UNIT; i++) {
        double const turn = tanh(s + rho * node(i));
        double const w = 1 / sqrt((1 - a) * (1 - a) - a * a * turn * turn);
        above += weight(i) * a * a * turn * (1 - turn * turn) * w * w * w;
        below += weight(i) * w;
    }
    return above / below / t;
}

/* ---- Runs ---- */

size_t zest_valley_points(uint64_t steps) {
    return (size_t)(steps < ZEST_VALLEY_SHOWN ? steps : ZEST_VALLEY_SHOWN) + 1;
}

/* The step that point i shows. */
static uint64_t shown_step(uint64_t steps, size_t i) {
    size_t const intervals = zest_valley_points(steps) - 1;
    return intervals ? (uint64_t)((double)steps * (double)i / (double)intervals) : 0;
}

static zest_valley_point point_at(uint64_t step, const double *x, size_t valleys) {
    zest_valley_point p = {.step = (double)step, .loss = x ? zest_valley(x, 3 * valleys, NULL) : NAN};
    for (size_t i = 0; i < valleys; i++) {
        double const s = x ? x[3 * i + 2] : NAN;
        p.curvature += zest_valley_curvature(s) / (double)valleys;
        p.s += s / (double)valleys;
    }
    return p;
}

static zest_status walk(zest_tuner *tuner, const zest_toy_settings *settings, const double *x,
                        zest_valley_trace *trace) {
    zest_status status = ZEST_OK;
    uint64_t step = 0;
    double effective = 0;
    trace->points[0] = point_at(0, x, settings->valleys);
    for (size_t i = 1; i < trace->count; i++) {
        for (; step < shown_step(settings->steps, i) && !status; step++) {
            zest_step_report report;
            status = zest_tuner_step(tuner, &report);
            if (!status) effective += report.tilt.effective, trace->t = report.tilt.t;
        }
        if (status && status != ZEST_ERROR_OBJECTIVE) return status;
        /* f diverged: that is a result, too */
        trace->points[i] = point_at(shown_step(settings->steps, i), status ? NULL : x, settings->valleys);
    }
    trace->effective = step ? effective / (double)step : NAN;
    return ZEST_OK;
}

/* The start in every valley; NULL: out of memory. */
static double *start_of(const zest_toy_settings *settings) {
    double *x = malloc(3 * settings->valleys * sizeof *x);
    for (size_t i = 0; x && i < 3 * settings->valleys; i++) x[i] = settings->start[i % 3];
    return x;
}

zest_status zest_valley_run(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                            zest_valley_trace *trace, zest_error *error) {
    double *x = start_of(settings);
    if (!x) return zest_error_memory(error, "the valleys", 3 * settings->valleys * sizeof *x);
    zest_ctx *ctx = NULL;
    zest_tuner *tuner = NULL;
    zest_status status =
        zest_toy_tuner(settings, method, seed, x, 3 * settings->valleys, &ctx, &tuner, error);
    if (!status) {
        status = walk(tuner, settings, x, trace);
        if (status) zest_error_set(error, status, "%s", zest_ctx_error(ctx));
    }
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    free(x);
    return status;
}

void zest_valley_descend(const zest_toy_settings *settings, zest_valley_trace *trace) {
    double x[3] = {settings->start[0], settings->start[1], settings->start[2]};
    uint64_t step = 0;
    for (size_t i = 0; i < trace->count; i++) {
        for (; step < shown_step(settings->steps, i); step++)
            x[2] -=
                settings->lr * (settings->auto_t ? NAN : zest_valley_slope(settings->t, settings->rho, x[2]));
        trace->points[i] = point_at(step, x, 1);
    }
}

/* ---- What k must be ---- */

/* Losses of `pairs` pairs around the start. */
static zest_status sample_losses(zest_ctx *ctx, const zest_toy_settings *settings, uint64_t seed,
                                 size_t pairs, double *losses, zest_error *error) {
    size_t const n = 3 * settings->valleys;
    double *start = start_of(settings), *point = malloc(n * sizeof *point);
    float *v = malloc(n * sizeof *v);
    zest_status status =
        start && point && v ? ZEST_OK : zest_error_memory(error, "the valleys", n * sizeof *point);
    for (size_t i = 0; i < pairs && !status; i++) {
        zest_direction direction;
        status = zest_direction_init(ctx, &direction, ZEST_GAUSSIAN, zest_seed(seed, 0, i), n);
        if (!status) status = zest_direction_read(ctx, &direction, 0, n, v);
        for (int side = 0; side < 2 && !status; side++) {
            double const scale = side ? -settings->rho : settings->rho;
            for (size_t j = 0; j < n; j++) point[j] = start[j] + scale * (double)v[j];
            losses[2 * i + (size_t)side] = zest_valley(point, n, NULL);
        }
    }
    free(start);
    free(point);
    free(v);
    return status;
}

zest_status zest_valley_effective(const zest_toy_settings *settings, uint64_t seed, size_t pairs,
                                  size_t count, const size_t *k, double *effective, zest_error *error) {
    double *losses = malloc(3 * pairs * sizeof *losses);
    zest_ctx *ctx = zest_ctx_new();
    zest_status status =
        losses && ctx ? ZEST_OK : zest_error_memory(error, "losses", 3 * pairs * sizeof *losses);
    if (!status) status = sample_losses(ctx, settings, seed, pairs, losses, error);
    for (size_t i = 0; i < count && !status; i++) {
        zest_tilt_options const tilt = {.t = settings->t, .rho = settings->rho, .k = k[i]};
        size_t const groups = pairs / k[i];
        effective[i] = groups ? 0 : NAN;
        for (size_t g = 0; g < groups && !status; g++) {
            zest_tilt_report report;
            status = zest_tilt(ctx, &tilt, losses + 2 * g * k[i], losses + 2 * pairs, &report);
            if (status) zest_error_set(error, status, "%s", zest_ctx_error(ctx));
            effective[i] += report.effective / (double)groups;
        }
    }
    free(losses);
    zest_ctx_free(ctx);
    return status;
}
