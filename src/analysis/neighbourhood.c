#include "analysis/neighbourhood.h"

#include <math.h>
#include <stdlib.h>

#include "core/direction.h"

enum { SEED_SAMPLES = 11 }; /* the stream of seeds */

/* Direction of sample i into drawn[i % 2]; the samples of a pair share it. */
static zest_status draw(const zest_neighbourhood_job *job, size_t i, zest_direction drawn[2],
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
static size_t radius_of(const zest_neighbourhood_job *job, size_t lane) {
    return lane % (2 * job->radius_count) / 2;
}
static size_t sample_of(const zest_neighbourhood_job *job, size_t lane) {
    return lane / (2 * job->radius_count) * 2 + lane % 2;
}

zest_status zest_neighbourhood_measure(const zest_neighbourhood_job *job, double *out, zest_error *error) {
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

void zest_neighbourhood_sum(const zest_neighbourhood_job *job, size_t radius, const double *losses, double t,
                            double *scratch, zest_neighbourhood *out) {
    const double *own = losses + radius * job->samples;
    size_t group = job->antithetic ? 2 : 1, means = gather(own, job->samples, group, 1, scratch);
    *out = (zest_neighbourhood){.radius = job->radii[radius],
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

zest_estimate zest_neighbourhood_difference(const double *a, const double *b, size_t samples, int antithetic,
                                            double *scratch) {
    for (size_t i = 0; i < samples; i++) scratch[i] = a[i] - b[i];
    size_t count = gather(scratch, samples, antithetic ? 2 : 1, 1, scratch);
    return zest_statistics_mean(scratch, count);
}
