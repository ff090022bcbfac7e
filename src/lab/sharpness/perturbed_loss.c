/* Losses at random perturbations of the weights, the trace of the Hessian from losses, and slices of the
 * loss. */
#include <math.h>
#include <stdlib.h>

#include "lab/sharpness/sharpness_internal.h"
#include "optim/lanes.h"

enum { SEED_SAMPLES = 11 }; /* random stream */

/* Direction of sample i in drawn[i % 2]; both samples of a pair use it. */
static zest_status draw(const zest_perturbed_loss_args *job, size_t i, zest_direction drawn[2],
                        zest_error *error) {
    if (job->antithetic && i % 2) {
        drawn[1] = drawn[0];
        return ZEST_OK;
    }
    return zest_direction_make(job->ops, job->threads, &drawn[i % 2], job->distribution,
                               zest_seed(job->seed, SEED_SAMPLES, i), job->dimension, error);
}

/* Sample by sample, so that the length of a direction is computed once for all radii; two samples at a
 * time, so that the lanes of a pair are adjacent. */
static size_t radius_of(const zest_perturbed_loss_args *job, size_t lane) {
    return lane % (2 * job->radius_count) / 2;
}
static size_t sample_of(const zest_perturbed_loss_args *job, size_t lane) {
    return lane / (2 * job->radius_count) * 2 + lane % 2;
}

zest_status zest_perturbed_loss_measure(const zest_perturbed_loss_args *job, double *out, zest_error *error) {
    size_t all = (job->samples + 1) / 2 * 2 * job->radius_count, group = job->group ? job->group : 1;
    zest_model_lane *lanes = malloc(group * sizeof *lanes);
    double *losses = malloc(group * sizeof *losses);
    size_t *coefficient = malloc(group * sizeof *coefficient);
    zest_direction drawn[2] = {{0}};
    zest_status status =
        lanes && losses && coefficient ? ZEST_OK : zest_error_memory(error, "lanes", group * 64);
    for (size_t lane = 0; lane < all && !status;) {
        size_t count = 0;
        for (; lane < all && count < group && !status; lane++) {
            size_t i = sample_of(job, lane), r = radius_of(job, lane);
            if (r == 0 && i < job->samples) status = draw(job, i, drawn, error);
            if (status || i >= job->samples) continue;
            double sign = job->antithetic && i % 2 ? -1 : 1;
            coefficient[count] = r * job->samples + i;
            lanes[count++] =
                (zest_model_lane){drawn[i % 2], sign * job->radii[r] / sqrt((double)job->dimension)};
        }
        if (!status && count) status = job->losses(job->user, lanes, count, losses, error);
        for (size_t i = 0; i < count && !status; i++) out[coefficient[i]] = losses[i];
    }
    free(lanes);
    free(losses);
    free(coefficient);
    return status;
}

/* Copies the finite losses, or the finite pairs (optionally their means). Returns their number. */
static size_t gather(const double *values, size_t count, size_t group, int means, double *out) {
    size_t finite = 0;
    for (size_t i = 0; i + group <= count; i += group) {
        double sum = 0;
        for (size_t j = 0; j < group; j++) sum += values[i + j];
        if (!isfinite(sum)) continue;
        if (means) out[finite++] = sum / (double)group;
        for (size_t j = 0; j < group && !means; j++) out[finite++] = values[i + j];
    }
    return finite;
}

void zest_perturbed_loss_summarize(const zest_perturbed_loss_args *job, size_t radius, const double *losses,
                                   double t, double *scratch, zest_perturbed_loss *out) {
    const double *samples = losses + radius * job->samples;
    size_t group = job->antithetic ? 2 : 1, means = gather(samples, job->samples, group, 1, scratch);
    *out = (zest_perturbed_loss){.radius = job->radii[radius],
                                 .rho = job->radii[radius] / sqrt((double)job->dimension),
                                 .lowest = NAN,
                                 .highest = NAN};
    out->mean = zest_statistics_mean(scratch, means);
    size_t finite = gather(samples, job->samples, group, 0, scratch);
    out->bad = job->samples - finite;
    out->spread = zest_statistics_spread(scratch, finite);
    if (job->antithetic) out->spread.low = out->spread.high = NAN;
    out->tilted = zest_statistics_tilted(scratch, finite, group, t, &out->effective);
    for (size_t i = 0; i < finite; i++) {
        out->lowest = fmin(out->lowest, scratch[i]); /* fmin of a number and NaN is the number */
        out->highest = fmax(out->highest, scratch[i]);
    }
}

zest_estimate zest_perturbed_loss_difference(const double *a, const double *b, size_t samples, int antithetic,
                                             double *scratch) {
    for (size_t i = 0; i < samples; i++) scratch[i] = a[i] - b[i];
    size_t count = gather(scratch, samples, antithetic ? 2 : 1, 1, scratch);
    return zest_statistics_mean(scratch, count);
}

/* ---- Trace of the Hessian from losses ---- */

enum { SEED_CURVATURE = 12, PILOT = 8, MAX_STEPS = 9 };
static const double largest_h = 0.016; /* the first h that is tried, in each coordinate */

typedef struct {
    const zest_perturbed_loss_args *job;
    size_t first, count; /* probes */
    double center;
    zest_model_lane *lanes; /* 2 * PILOT lanes */
    double *losses;
} probing;

static zest_status second_differences(void *user, double step, double *out, zest_error *error) {
    const probing *p = user;
    for (size_t i = 0; i < 2 * p->count; i++) {
        zest_direction signs = {zest_seed(p->job->seed, SEED_CURVATURE, p->first + i / 2), p->job->dimension,
                                1, ZEST_RADEMACHER};
        p->lanes[i] = (zest_model_lane){signs, i % 2 ? -step : step};
    }
    zest_status status = p->job->losses(p->job->user, p->lanes, 2 * p->count, p->losses, error);
    for (size_t i = 0; i < p->count && !status; i++)
        out[i] = (p->losses[2 * i] + p->losses[2 * i + 1] - 2 * p->center) / (step * step);
    return status;
}

static zest_status measure(probing *p, size_t probes, double *values, zest_curvature *c, zest_error *error) {
    zest_model_lane itself = {.direction = {.dimension = p->job->dimension, .gain = 1}};
    zest_status status = p->job->losses(p->job->user, &itself, 1, &p->center, error);
    p->count = probes < PILOT ? probes : PILOT;
    zest_difference_step_args steps = {.measure = second_differences,
                                       .user = p,
                                       .space = {.count = p->count, .threads = 1},
                                       .start = largest_h,
                                       .ratio = 2,
                                       .max_steps = MAX_STEPS};
    if (!status && !(c->step > 0))
        status = zest_difference_step_choose(&steps, &c->step, &c->disagreement, error);
    for (; p->first < probes && !status; p->first += p->count) {
        p->count = probes - p->first < PILOT ? probes - p->first : PILOT;
        status = second_differences(p, c->step, values + p->first, error);
    }
    return status;
}

zest_status zest_curvature_measure(const zest_perturbed_loss_args *job, size_t probes, double step,
                                   zest_curvature *curvature, zest_error *error) {
    *curvature = (zest_curvature){.probes = probes, .step = step, .disagreement = NAN};
    probing p = {.job = job};
    double *values = malloc((probes + 1) * sizeof *values);
    p.lanes = malloc(2 * PILOT * sizeof *p.lanes);
    p.losses = malloc(2 * PILOT * sizeof *p.losses);
    zest_status status = values && p.lanes && p.losses ? measure(&p, probes, values, curvature, error)
                                                       : zest_error_memory(error, "probes", probes * 8);
    if (!status) curvature->trace = zest_statistics_mean(values, probes);
    free(values);
    free(p.lanes);
    free(p.losses);
    return status;
}

zest_status zest_slice_measure(zest_slice *slice, zest_slice_loss *loss, void *user, zest_error *error) {
    size_t n = slice->points |= 1, rows = slice->dimensions == 2 ? n : 1;
    slice->coefficients = slice->values = NULL;
    if (n < 3 || slice->dimensions < 1 || slice->dimensions > 2 || !(slice->span > 0))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a slice needs 1 or 2 dimensions, at least 3 points and a span above 0");
    slice->coefficients = malloc(n * sizeof *slice->coefficients);
    slice->values = malloc(n * rows * sizeof *slice->values);
    if (!slice->coefficients || !slice->values)
        return zest_error_memory(error, "a slice", n * rows * sizeof(double));
    /* from the centre, so that the two halves are exactly symmetric and 0 is exact */
    double half = (double)(n / 2);
    for (size_t i = 0; i < n; i++) slice->coefficients[i] = slice->span * (((double)i - half) / half);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < n * rows && !status; i++)
        status = loss(user, slice->coefficients[i % n], rows > 1 ? slice->coefficients[i / n] : 0,
                      &slice->values[i], error);
    return status;
}

void zest_slice_free(zest_slice *slice) {
    free(slice->coefficients);
    free(slice->values);
    slice->coefficients = slice->values = NULL;
}
