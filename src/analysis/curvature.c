/* The trace of the Hessian from losses alone. */
#include <math.h>
#include <stdlib.h>

#include "analysis/ladder.h"
#include "analysis/neighbourhood.h"

enum { SEED_CURVATURE = 12, PILOT = 8, RUNGS = 9 };
static const double widest = 0.016; /* the first h that is tried, in each coordinate */

typedef struct {
    const zest_neighbourhood_job *job;
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
    zest_ladder_job ladder = {.measure = second_differences,
                              .user = p,
                              .space = {.count = p->count, .threads = 1},
                              .start = widest,
                              .ratio = 2,
                              .rungs = RUNGS};
    if (!status && !(c->step > 0)) status = zest_ladder_choose(&ladder, &c->step, &c->disagreement, error);
    for (; p->first < probes && !status; p->first += p->count) {
        p->count = probes - p->first < PILOT ? probes - p->first : PILOT;
        status = second_differences(p, c->step, values + p->first, error);
    }
    return status;
}

zest_status zest_curvature_measure(const zest_neighbourhood_job *job, size_t probes, double step,
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
