#include <math.h>
#include <stdlib.h>

#include "lab/sharpness/sharpness_internal.h"
#include "optim/lanes.h"

enum { SEED_SAMPLES = 11 }; /* the stream of seeds */

/* Direction of sample i into drawn[i % 2]; the samples of a pair share it. */
static zest_status draw(const zest_perturbed_loss_args *job, size_t i, zest_direction drawn[2],
                        zest_error *error) {
    if (job->antithetic && i % 2) {
        drawn[1] = drawn[0];
        return ZEST_OK;
    }
    return zest_direction_make(job->ops, job->threads, &drawn[i % 2], job->distribution,
                               zest_seed(job->seed, SEED_SAMPLES, i), job->dimension, error);
}

/* Sample by sample, so that the length of a direction is found once for all radii; and two samples at a time,
 * so that the lanes of a pair stand side by side. */
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
    size_t *place = malloc(group * sizeof *place);
    zest_direction drawn[2] = {{0}};
    zest_status status = lanes && losses && place ? ZEST_OK : zest_error_memory(error, "lanes", group * 64);
    for (size_t lane = 0; lane < all && !status;) {
        size_t count = 0;
        for (; lane < all && count < group && !status; lane++) {
            size_t i = sample_of(job, lane), r = radius_of(job, lane);
            if (r == 0 && i < job->samples) status = draw(job, i, drawn, error);
            if (status || i >= job->samples) continue;
            double sign = job->antithetic && i % 2 ? -1 : 1;
            place[count] = r * job->samples + i;
            lanes[count++] =
                (zest_model_lane){drawn[i % 2], sign * job->radii[r] / sqrt((double)job->dimension)};
        }
        if (!status && count) status = job->losses(job->user, lanes, count, losses, error);
        for (size_t i = 0; i < count && !status; i++) out[place[i]] = losses[i];
    }
    free(lanes);
    free(losses);
    free(place);
    return status;
}

/* The finite ones, or the finite pairs (their means when asked for). Returns how many. */
static size_t gather(const double *values, size_t count, size_t group, int means, double *out) {
    size_t kept = 0;
    for (size_t i = 0; i + group <= count; i += group) {
        double sum = 0;
        for (size_t j = 0; j < group; j++) sum += values[i + j];
        if (!isfinite(sum)) continue;
        if (means) out[kept++] = sum / (double)group;
        for (size_t j = 0; j < group && !means; j++) out[kept++] = values[i + j];
    }
    return kept;
}

void zest_perturbed_loss_summarize(const zest_perturbed_loss_args *job, size_t radius, const double *losses,
                                   double t, double *scratch, zest_perturbed_loss *out) {
    const double *own = losses + radius * job->samples;
    size_t group = job->antithetic ? 2 : 1, means = gather(own, job->samples, group, 1, scratch);
    *out = (zest_perturbed_loss){.radius = job->radii[radius],
                                 .rho = job->radii[radius] / sqrt((double)job->dimension),
                                 .lowest = NAN,
                                 .highest = NAN};
    out->mean = zest_statistics_mean(scratch, means);
    size_t kept = gather(own, job->samples, group, 0, scratch);
    out->bad = job->samples - kept;
    out->spread = zest_statistics_spread(scratch, kept);
    if (job->antithetic) out->spread.low = out->spread.high = NAN;
    out->tilted = zest_statistics_tilted(scratch, kept, group, t, &out->effective);
    for (size_t i = 0; i < kept; i++) {
        out->lowest = fmin(out->lowest, scratch[i]); /* of a number and NaN, the number */
        out->highest = fmax(out->highest, scratch[i]);
    }
}

zest_estimate zest_perturbed_loss_difference(const double *a, const double *b, size_t samples, int antithetic,
                                             double *scratch) {
    for (size_t i = 0; i < samples; i++) scratch[i] = a[i] - b[i];
    size_t count = gather(scratch, samples, antithetic ? 2 : 1, 1, scratch);
    return zest_statistics_mean(scratch, count);
}

/* The trace of the Hessian from losses alone. */

enum { SEED_CURVATURE = 12, PILOT = 8, RUNGS = 9 };
static const double widest = 0.016; /* the first h that is tried, in each coordinate */

typedef struct {
    const zest_perturbed_loss_args *job;
    size_t first, count; /* probes */
    double center;
    zest_model_lane *lanes; /* room for 2·PILOT */
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
    zest_difference_step_args ladder = {.measure = second_differences,
                                        .user = p,
                                        .space = {.count = p->count, .threads = 1},
                                        .start = widest,
                                        .ratio = 2,
                                        .rungs = RUNGS};
    if (!status && !(c->step > 0))
        status = zest_difference_step_choose(&ladder, &c->step, &c->disagreement, error);
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
    slice->places = slice->values = NULL;
    if (n < 3 || slice->dimensions < 1 || slice->dimensions > 2 || !(slice->span > 0))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a slice has one or two dimensions, 3 points or more and a span");
    slice->places = malloc(n * sizeof *slice->places);
    slice->values = malloc(n * rows * sizeof *slice->values);
    if (!slice->places || !slice->values)
        return zest_error_memory(error, "a slice", n * rows * sizeof(double));
    /* counted from the middle: the two halves are mirror images, and 0 is 0 */
    double half = (double)(n / 2);
    for (size_t i = 0; i < n; i++) slice->places[i] = slice->span * (((double)i - half) / half);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < n * rows && !status; i++)
        status =
            loss(user, slice->places[i % n], rows > 1 ? slice->places[i / n] : 0, &slice->values[i], error);
    return status;
}

void zest_slice_free(zest_slice *slice) {
    free(slice->places);
    free(slice->values);
    slice->places = slice->values = NULL;
}
