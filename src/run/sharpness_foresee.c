/* What measuring sharpness will take: memory, passes, time. */
#include <math.h>

#include "base/clock.h"
#include "core/direction.h"
#include "run/sharpness.h"

enum { LANES = 16 }; /* that are timed, as many as are asked for at once */

zest_hessian_plan zest_sharpness_hessian_plan(const zest_sharpness_plan *plan, uint64_t dimension) {
    zest_hessian_plan h = {.wanted = plan->top, .step = plan->top_step};
    if (h.wanted > dimension) h.wanted = (size_t)dimension;
    h.steps = plan->lanczos_steps ? plan->lanczos_steps : 2 * h.wanted + 10;
    return h;
}

/* Beside the vectors stand a gradient, a point and three more such vectors. */
static double beside(double d) { return 24 * d; }

zest_status zest_sharpness_vectors(const zest_measure *slopes, uint64_t dimension, zest_hessian_plan *plan,
                                   double *bytes, zest_error *error) {
    double d = (double)dimension, least = (double)zest_lanczos_least(plan->wanted),
           all = 0.9 * zest_measure_free_memory(slopes), memory = all - beside(d);
    plan->vectors = 2 * plan->wanted + 10;
    if (plan->vectors > plan->steps) plan->vectors = plan->steps;
    if (least > (double)plan->vectors) least = (double)plan->vectors;
    double fit = memory / (4 * d) - 3;
    int known = all > 0;
    if (known && (double)plan->vectors > fit && least > fit)
        return zest_error_set(
            error, ZEST_ERROR_MEMORY,
            "%zu eigenvalues of %.0f parameters need %.1f GiB for vectors, and %.1f GiB are "
            "free; %s, or choose fewer tensors with --train-only",
            plan->wanted, d, zest_lanczos_memory((size_t)dimension, (size_t)least) / 0x1p30,
            fmax(memory, 0) / 0x1p30, fit >= 4 ? "ask for fewer with --top" : "--top 0 needs none");
    if (known && (double)plan->vectors > fit) plan->vectors = (size_t)fit;
    *bytes = zest_lanczos_memory((size_t)dimension, plan->vectors);
    return ZEST_OK;
}

/* ---- Time ---- */

/* A go that takes this long is not about what is made once, on the first. */
static const double LONG = 0.5;

/* A few lanes; when they take no time, more, and what is made once is then made. */
static zest_status time_lanes(const zest_sharpness_plan *plan, const zest_sharpness_subject *subject,
                              double *seconds, zest_error *error) {
    uint64_t d = subject->loaded->model->params.dimension;
    zest_model_lane lanes[LANES];
    double losses[LANES], took = 0;
    zest_cpu cpu;
    zest_status status = zest_cpu_detect(&cpu, error);
    for (size_t i = 0; i < LANES && !status; i++) {
        status = zest_direction_make(zest_ops_for(cpu), plan->threads, &lanes[i].direction,
                                     plan->distribution, zest_seed(plan->seed, 0, i), d, error);
        lanes[i].scale = 1e-3;
    }
    for (size_t count = 2; count <= LANES && took < LONG && !status; count += LANES - 2) {
        double began = zest_clock_now();
        status = zest_measure_losses(subject->losses, lanes, count, losses, error);
        took = zest_clock_now() - began;
        *seconds = took / (double)count;
    }
    return status;
}

static zest_status time_slope(const zest_sharpness_subject *subject, double *seconds, zest_error *error) {
    zest_vector_space space = zest_measure_space(subject->slopes);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    float *v = zest_vector_floats(&space, 1);
    double *sum = zest_vector_doubles(&space, 1);
    zest_status status = ZEST_OK;
    *seconds = 0;
    if (v && sum) {
        vectors->clear(&space, v, sizeof *v);
        vectors->clear(&space, sum, sizeof *sum);
    } else {
        status = zest_vector_no_room(&space, "a gradient", 12 * (double)space.count, error);
    }
    for (int i = 0; i < 2 && *seconds < LONG && !status; i++) {
        double began = zest_clock_now();
        status = zest_measure_slope(subject->slopes, v, 0, 1, sum, error);
        (void)vectors->norm(&space, sum); /* waits for a device */
        *seconds = zest_clock_now() - began;
    }
    zest_vector_free(&space, v);
    zest_vector_free(&space, sum);
    return status;
}

/* Passes of a slice: those of losses along a line, of the gradient's own otherwise, a third of a gradient
 * each. */
static double slice_passes(const zest_sharpness_plan *plan) {
    double points = (double)(plan->points ? plan->points | 1 : plan->slice == 2 ? 17 : 41);
    return plan->slice == 2 ? points * points : plan->slice ? points : 0;
}

zest_status zest_sharpness_foresee(const zest_sharpness_plan *plan, const zest_sharpness_subject *subject,
                                   zest_sharpness_cost *cost, zest_error *error) {
    uint64_t d = subject->loaded->model->params.dimension;
    zest_hessian_plan hessian = zest_sharpness_hessian_plan(plan, d);
    int slopes = zest_measure_has_slopes() && !plan->forward_only && (plan->top || plan->trace_samples);
    double lane = 0, slope = 0, vectors = 0;
    double radii = (double)(plan->radius_count ? plan->radius_count : ZEST_SHARPNESS_RADII);
    *cost = (zest_sharpness_cost){.lanes = 1 + radii * (double)plan->samples};
    if (slopes)
        cost->gradients = 2 * (double)zest_hessian_products(&hessian, plan->trace_samples, plan->trace_step);
    else if (plan->trace_samples)
        cost->lanes += 2 * (double)plan->trace_samples + 100;
    if (slopes)
        cost->gradients += slice_passes(plan) / 3;
    else
        cost->lanes += slice_passes(plan);
    zest_status status = time_lanes(plan, subject, &lane, error);
    if (!status && slopes && plan->top)
        status = zest_sharpness_vectors(subject->slopes, d, &hessian, &vectors, error);
    if (!status && slopes) status = time_slope(subject, &slope, error);
    cost->bytes = slopes ? vectors + beside((double)d) : 0;
    cost->seconds = cost->lanes * lane + cost->gradients * slope;
    return status;
}
