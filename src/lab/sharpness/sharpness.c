/* Measurement of sharpness: losses of perturbed weights, Hessian, slices; and the cost estimate. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lab/sharpness/sharpness.h"
#include "optim/lanes.h"

enum { GROUP = 16 }; /* lanes per call */
enum { SEED_SLICE = 13 };
static const double usual_rho[ZEST_SHARPNESS_RADII] = {0.001, 0.002, 0.003, 0.004, 0.005};

typedef struct {
    zest_eval_target *measure, *gradients;
    const zest_loaded *loaded;
    const zest_vector_ops *ops;
    zest_sharpness_found *found;
    zest_perturbed_loss_args nearby;
} work;

/* ---- Losses of perturbed weights ---- */

static zest_status make_radii(zest_sharpness_found *f, zest_error *error) {
    size_t count = f->plan.radius_count ? f->plan.radius_count : ZEST_SHARPNESS_RADII;
    f->radii = malloc(count * sizeof *f->radii);
    f->points = calloc(count, sizeof *f->points);
    f->losses = calloc(count * f->plan.samples, sizeof *f->losses);
    if (!f->radii || !f->points || !f->losses)
        return zest_error_memory(error, "losses", count * f->plan.samples * sizeof *f->losses);
    for (size_t r = 0; r < count; r++) {
        f->radii[r] = f->plan.radius_count ? f->plan.radii[r] : usual_rho[r] * sqrt((double)f->dimension);
        if (!(f->radii[r] > 0) || !isfinite(f->radii[r]))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--radii must be above 0, not %g", f->radii[r]);
    }
    f->plan.radii = f->radii;
    f->plan.radius_count = count;
    return ZEST_OK;
}

static zest_status measure_perturbed(work *w, zest_error *error) {
    zest_sharpness_found *f = w->found;
    zest_model_lane itself = {.direction = {.dimension = f->dimension, .gain = 1}};
    zest_eval_target_begin(w->measure, "losses nearby",
                           1 + (double)f->plan.radius_count * (double)f->plan.samples);
    zest_status status = zest_eval_target_losses(w->measure, &itself, 1, &f->loss, error);
    if (!f->plan.samples) return status;
    if (!status) status = zest_perturbed_loss_measure(&w->nearby, f->losses, error);
    if (status) return status;
    double *scratch = malloc(f->plan.samples * sizeof *scratch);
    if (!scratch) return zest_error_memory(error, "losses", f->plan.samples * sizeof *scratch);
    for (size_t r = 0; r < f->plan.radius_count; r++)
        zest_perturbed_loss_summarize(&w->nearby, r, f->losses, f->plan.t, scratch, &f->points[r]);
    free(scratch);
    return ZEST_OK;
}

zest_estimate zest_sharpness_difference(const zest_sharpness_found *a, const zest_sharpness_found *b,
                                        size_t r) {
    zest_estimate none = {NAN, NAN, NAN};
    size_t n = a->plan.samples;
    if (!a->losses || !b->losses || a->dimension != b->dimension || n != b->plan.samples ||
        r >= a->plan.radius_count || r >= b->plan.radius_count || a->radii[r] != b->radii[r])
        return none;
    double *scratch = malloc(n * sizeof *scratch);
    if (!scratch) return none;
    zest_estimate e =
        zest_perturbed_loss_difference(a->losses + r * n, b->losses + r * n, n, a->plan.antithetic, scratch);
    free(scratch);
    return e;
}

/* ---- Hessian ---- */

/* Fills the settings of eigenvalues from the plan. */
static zest_hessian_plan hessian_plan(const zest_sharpness_plan *plan, uint64_t dimension) {
    zest_hessian_plan h = {.requested = plan->top, .step = plan->top_step};
    if (h.requested > dimension) h.requested = (size_t)dimension;
    h.steps = plan->lanczos_steps ? plan->lanczos_steps : 2 * h.requested + 10;
    return h;
}

/* In addition to the vectors: a gradient, a point and three more vectors. */
static double extra(double d) { return 24 * d; }

/* Basis vectors for the eigenvalues: 2 top + 10, fewer when memory is short; an error when these do not
 * fit either. *bytes is their size. gradients: where they would be allocated. */
static zest_status choose_vectors(const zest_eval_target *gradients, uint64_t dimension,
                                  zest_hessian_plan *plan, double *bytes, zest_error *error) {
    double d = (double)dimension, min_vectors = (double)zest_lanczos_min_vectors(plan->requested),
           all = 0.9 * zest_eval_target_free_memory(gradients), memory = all - extra(d);
    plan->vectors = 2 * plan->requested + 10;
    if (plan->vectors > plan->steps) plan->vectors = plan->steps;
    if (min_vectors > (double)plan->vectors) min_vectors = (double)plan->vectors;
    double fit = memory / (4 * d) - 3;
    int known = all > 0;
    if (known && (double)plan->vectors > fit && min_vectors > fit)
        return zest_error_set(
            error, ZEST_ERROR_MEMORY,
            "%zu eigenvalues of %.0f parameters need %.1f GiB for vectors, and %.1f GiB are "
            "free; %s, or select fewer tensors with --train-only",
            plan->requested, d, zest_lanczos_memory((size_t)dimension, (size_t)min_vectors) / 0x1p30,
            fmax(memory, 0) / 0x1p30, fit >= 4 ? "use a smaller --top" : "--top 0 needs none");
    if (known && (double)plan->vectors > fit) plan->vectors = (size_t)fit;
    *bytes = zest_lanczos_memory((size_t)dimension, plan->vectors);
    return ZEST_OK;
}

static zest_status measure_hessian(work *w, zest_error *error) {
    zest_sharpness_found *f = w->found;
    double norm;
    zest_hessian_plan plan = hessian_plan(&f->plan, f->dimension);
    zest_status status =
        plan.requested ? choose_vectors(w->gradients, f->dimension, &plan, &f->top_bytes, error) : ZEST_OK;
    if (!status) status = zest_eval_target_norm(w->gradients, &norm, error);
    if (status) return status;
    zest_hessian hessian = {.gradient = zest_eval_target_gradient,
                            .user = w->gradients,
                            .dimension = (size_t)f->dimension,
                            .start = norm > 0 ? 0.02 * norm : 0.02,
                            .ops = w->ops,
                            .threads = f->plan.threads,
                            .device = zest_eval_target_space(w->gradients).device,
                            .seed = f->plan.seed};
    zest_eval_target_begin(
        w->gradients, "Hessian",
        6 * (double)zest_hessian_products(&plan, f->plan.trace_samples, f->plan.trace_step));
    if (plan.requested) status = zest_hessian_find(&hessian, &plan, &f->top, error);
    if (!status && f->plan.trace_samples)
        status = zest_hessian_sum(&hessian, f->plan.trace_samples, f->plan.trace_step, &f->trace, error);
    return status;
}

/* Without gradients. */
static zest_status measure_curvature(work *w, zest_error *error) {
    zest_sharpness_found *f = w->found;
    zest_curvature c;
    if (!f->plan.trace_samples) return ZEST_OK;
    double step = f->plan.trace_step / sqrt((double)f->dimension);
    zest_eval_target_begin(w->measure, "curvature", 2 * (double)f->plan.trace_samples + 100);
    zest_status status = zest_curvature_measure(&w->nearby, f->plan.trace_samples, step, &c, error);
    if (status) return status;
    f->trace_by_losses = 1;
    f->trace = (zest_hessian_trace){.trace = c.trace,
                                    .probes = c.probes,
                                    .step = c.step * sqrt((double)f->dimension),
                                    .disagreement = c.disagreement};
    return ZEST_OK;
}

/* ---- Slices ---- */

typedef struct {
    work *w;
    const float *p, *q;
    zest_direction direction; /* used instead of them, for a line */
    double unit;              /* its length */
} slicing;

static zest_status slice_point(void *user, double a, double b, double *loss, zest_error *error) {
    const slicing *s = user;
    return zest_eval_target_at(s->w->gradients, s->p, a, s->q, b, loss, error);
}

static zest_status slice_lane(void *user, double a, double b, double *loss, zest_error *error) {
    const slicing *s = user;
    zest_model_lane lane = {s->direction, a / s->unit};
    (void)b;
    return zest_eval_target_losses(s->w->measure, &lane, 1, loss, error);
}

/* Two random unit vectors; in high dimensions they are nearly orthogonal. */
static zest_status draw_pair(const work *w, float **pair, zest_error *error) {
    zest_vector_space space = zest_eval_target_space(w->gradients);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    *pair = zest_vector_floats(&space, 2);
    if (!*pair) return zest_vector_no_memory(&space, "the plane of a slice", 8 * (double)space.count, error);
    for (uint64_t i = 0; i < 2; i++) {
        float *v = *pair + i * space.count;
        vectors->normal(&space, v, zest_seed(w->found->plan.seed, SEED_SLICE, i));
        vectors->scale(&space, v, (float)(1 / sqrt(vectors->square(&space, v))));
    }
    return zest_vector_check(&space, error);
}

/* Far enough that the first eigenvalue would double the loss (or raise it by 0.5), but at most the largest
 * radius. */
static double usual_span(const zest_sharpness_found *f, int eigen) {
    double span = 0;
    for (size_t r = 0; r < f->plan.radius_count; r++) span = fmax(span, f->radii[r]);
    if (eigen && f->top.values[0] > 0) span = fmin(span, sqrt(2 * fmax(f->loss, 0.5) / f->top.values[0]));
    return span;
}

static zest_status cut(work *w, zest_error *error) {
    zest_sharpness_found *f = w->found;
    size_t d = (size_t)f->dimension;
    int plane = f->plan.slice == 2, eigen = !f->plan.seeded && f->top.count > (size_t)plane;
    int lanes = f->plan.forward_only;
    float *pair = NULL;
    slicing s = {.w = w};
    if (!f->plan.slice) return ZEST_OK;
    f->plan.seeded = !eigen;
    f->slice = (zest_slice){.dimensions = f->plan.slice,
                            .points = f->plan.points ? f->plan.points
                                      : plane        ? 17
                                                     : 41,
                            .span = f->plan.span > 0 ? f->plan.span : usual_span(f, eigen)};
    double points = (double)(f->slice.points | 1);
    zest_eval_target_begin(lanes ? w->measure : w->gradients, "slice", plane ? points * points : points);
    if (lanes) {
        zest_status status = zest_direction_make(w->ops, f->plan.threads, &s.direction, ZEST_SPHERE,
                                                 zest_seed(f->plan.seed, SEED_SLICE, 0), f->dimension, error);
        s.unit = sqrt((double)f->dimension);
        return status ? status : zest_slice_measure(&f->slice, slice_lane, &s, error);
    }
    zest_status status = eigen ? ZEST_OK : draw_pair(w, &pair, error);
    s.p = eigen ? f->top.vectors : pair;
    s.q = !plane ? NULL : s.p ? s.p + d : NULL;
    if (!status) status = zest_slice_measure(&f->slice, slice_point, &s, error);
    zest_vector_space space = zest_eval_target_space(w->gradients);
    zest_vector_free(&space, pair);
    return status;
}

/* ---- Measurement ---- */

static zest_status resolve_defaults(work *w, const zest_sharpness_plan *plan, zest_error *error) {
    zest_sharpness_found *f = w->found;
    zest_cpu cpu;
    zest_status status = zest_cpu_detect(&cpu, error);
    if (status) return status;
    w->ops = zest_vector_ops_for(cpu);
    f->plan = *plan;
    f->dimension = w->loaded->model->params.dimension;
    f->examples = zest_eval_target_examples(w->measure);
    f->gradient_examples = zest_eval_target_examples(w->gradients);
    f->trace.trace = (zest_estimate){NAN, NAN, NAN};
    if (plan->samples == 1 || (plan->antithetic && plan->samples % 2))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--samples must be 0 or at least 2, and even with --antithetic");
    if (!zest_eval_target_has_gradients()) f->plan.forward_only = 1;
    if (f->plan.forward_only && f->plan.slice == 2)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "without gradients only slices along a line are possible: use --slice 1");
    status = plan->samples ? make_radii(f, error) : ZEST_OK;
    if (!plan->samples) f->plan.radius_count = 0;
    w->nearby = (zest_perturbed_loss_args){.losses = zest_eval_target_losses,
                                           .user = w->measure,
                                           .dimension = f->dimension,
                                           .distribution = plan->distribution,
                                           .radii = f->radii,
                                           .radius_count = f->plan.radius_count,
                                           .samples = plan->samples,
                                           .antithetic = plan->antithetic,
                                           .seed = plan->seed,
                                           .group = GROUP,
                                           .ops = w->ops,
                                           .threads = plan->threads};
    return status;
}

/* They may take hours. */
static zest_status wait_for_gradients(zest_comm *comm, zest_status status, zest_error *error) {
    double timeout = comm->timeout;
    comm->timeout = 0;
    status = zest_comm_agree(comm, status, error);
    comm->timeout = timeout;
    return status;
}

zest_status zest_sharpness_measure(const zest_sharpness_plan *plan, const zest_sharpness_target *target,
                                   zest_sharpness_found *found, zest_error *error) {
    double began = zest_clock_now();
    work w = {
        .measure = target->losses, .gradients = target->gradients, .loaded = target->loaded, .found = found};
    zest_status status = resolve_defaults(&w, plan, error);
    if (!status) status = measure_perturbed(&w, error);
    int reports = !target->comm || !target->comm->rank || /* else gradients are rank 0's */
                  zest_eval_target_divides(target->gradients);
    if (!status && !found->plan.forward_only && (plan->top || plan->trace_samples) && reports)
        status = measure_hessian(&w, error);
    if (!status && found->plan.forward_only) status = measure_curvature(&w, error);
    if (!status && (reports || found->plan.forward_only)) status = cut(&w, error);
    if (target->comm) status = wait_for_gradients(target->comm, status, error);
    /* they are in the memory of the model's device, which the result may outlive */
    zest_hessian_free_vectors(&found->top);
    found->seconds = zest_clock_now() - began;
    return status;
}

void zest_sharpness_free(zest_sharpness_found *f) {
    free(f->radii);
    free(f->losses);
    free(f->points);
    zest_hessian_free(&f->top);
    zest_slice_free(&f->slice);
    *f = (zest_sharpness_found){0};
}

/* ---- Cost estimate: memory, passes, time ---- */

enum { LANES = 16 }; /* lanes that are timed, as many as in one call */

/* A call that takes this long is not dominated by one-time initialisation. */
static const double LONG = 0.5;

/* Times a few lanes; when they take no time, more, after the one-time initialisation. */
static zest_status time_lanes(const zest_sharpness_plan *plan, const zest_sharpness_target *target,
                              double *seconds, zest_error *error) {
    uint64_t d = target->loaded->model->params.dimension;
    zest_model_lane lanes[LANES];
    double losses[LANES], stats = 0;
    zest_cpu cpu;
    zest_status status = zest_cpu_detect(&cpu, error);
    for (size_t i = 0; i < LANES && !status; i++) {
        status = zest_direction_make(zest_vector_ops_for(cpu), plan->threads, &lanes[i].direction,
                                     plan->distribution, zest_seed(plan->seed, 0, i), d, error);
        lanes[i].scale = 1e-3;
    }
    for (size_t count = 2; count <= LANES && stats < LONG && !status; count += LANES - 2) {
        double began = zest_clock_now();
        status = zest_eval_target_losses(target->losses, lanes, count, losses, error);
        stats = zest_clock_now() - began;
        *seconds = stats / (double)count;
    }
    return status;
}

static zest_status time_gradient(const zest_sharpness_target *target, double *seconds, zest_error *error) {
    zest_vector_space space = zest_eval_target_space(target->gradients);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    float *v = zest_vector_floats(&space, 1);
    double *sum = zest_vector_doubles(&space, 1);
    zest_status status = ZEST_OK;
    *seconds = 0;
    if (v && sum) {
        vectors->clear(&space, v, sizeof *v);
        vectors->clear(&space, sum, sizeof *sum);
    } else {
        status = zest_vector_no_memory(&space, "a gradient", 12 * (double)space.count, error);
    }
    for (int i = 0; i < 2 && *seconds < LONG && !status; i++) {
        double began = zest_clock_now();
        status = zest_eval_target_gradient(target->gradients, v, 0, 1, sum, error);
        (void)vectors->norm(&space, sum); /* synchronises the device */
        *seconds = zest_clock_now() - began;
    }
    zest_vector_free(&space, v);
    zest_vector_free(&space, sum);
    return status;
}

/* Forward passes of a slice: those of losses along a line, otherwise of gradients, a third of a gradient
 * each. */
static double slice_passes(const zest_sharpness_plan *plan) {
    double points = (double)(plan->points ? plan->points | 1 : plan->slice == 2 ? 17 : 41);
    return plan->slice == 2 ? points * points : plan->slice ? points : 0;
}

zest_status zest_sharpness_estimate_cost(const zest_sharpness_plan *plan, const zest_sharpness_target *target,
                                         zest_sharpness_cost *cost, zest_error *error) {
    uint64_t d = target->loaded->model->params.dimension;
    zest_hessian_plan hessian = hessian_plan(plan, d);
    int gradients =
        zest_eval_target_has_gradients() && !plan->forward_only && (plan->top || plan->trace_samples);
    double lane = 0, gradient = 0, vectors = 0;
    double radii = (double)(plan->radius_count ? plan->radius_count : ZEST_SHARPNESS_RADII);
    *cost = (zest_sharpness_cost){.lanes = 1 + radii * (double)plan->samples};
    if (gradients)
        cost->gradients = 2 * (double)zest_hessian_products(&hessian, plan->trace_samples, plan->trace_step);
    else if (plan->trace_samples)
        cost->lanes += 2 * (double)plan->trace_samples + 100;
    if (gradients)
        cost->gradients += slice_passes(plan) / 3;
    else
        cost->lanes += slice_passes(plan);
    zest_status status = time_lanes(plan, target, &lane, error);
    if (!status && gradients && plan->top)
        status = choose_vectors(target->gradients, d, &hessian, &vectors, error);
    if (!status && gradients) status = time_gradient(target, &gradient, error);
    cost->bytes = gradients ? vectors + extra((double)d) : 0;
    cost->seconds = cost->lanes * lane + cost->gradients * gradient;
    return status;
}
