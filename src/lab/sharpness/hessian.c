#include <math.h>
#include <stdlib.h>

#include "lab/sharpness/hessian.h"
#include "rng/noise.h"

enum { RUNGS = 11, POWERS = 3 };
static const double ratio = 4, settled = 1e-3;
static const double pilot = 1e-3; /* of the largest step: for a first look, where a few per cent do no harm */
/* streams of seeds: the process, the probe of the step, the probes of the trace */
enum { SEED_PROCESS = 1, SEED_STEP, SEED_TRACE };

static zest_vector_space space_of(const zest_hessian *hessian) {
    return (zest_vector_space){hessian->dimension, hessian->ops, hessian->threads, hessian->device};
}

zest_status zest_hessian_multiply(const zest_hessian *hessian, double step, const float *v, double *out,
                                  zest_error *error) {
    zest_vector_space space = space_of(hessian);
    zest_vector_operations(&space)->clear(&space, out, sizeof *out);
    zest_status status = hessian->slope(hessian->user, v, step, 0.5 / step, out, error);
    return status ? status : hessian->slope(hessian->user, v, -step, -0.5 / step, out, error);
}

/* ---- The step ---- */

typedef struct {
    const zest_hessian *hessian;
    const float *v;
    double step;
} product;

static zest_status with_step(void *user, double step, double *out, zest_error *error) {
    const product *p = user;
    return zest_hessian_multiply(p->hessian, step, p->v, out, error);
}

static zest_status choose(const zest_hessian *hessian, const float *v, double *step, double *disagreement,
                          zest_error *error) {
    product p = {hessian, v, 0};
    zest_difference_step_args job = {.measure = with_step,
                                     .user = &p,
                                     .space = space_of(hessian),
                                     .start = hessian->start,
                                     .ratio = ratio,
                                     .rungs = RUNGS};
    return zest_difference_step_choose(&job, step, disagreement, error);
}

/* A vector of signs, of length 1. */
static void draw_signs(const zest_hessian *hessian, uint64_t seed, float *v) {
    zest_vector_space space = space_of(hessian);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    vectors->sign(&space, v, seed);
    vectors->scale(&space, v, (float)(1 / sqrt((double)hessian->dimension)));
}

/* The step for eigenvectors is chosen on a vector like the first of them, which a few products make of a
 * random one: on a random vector there is next to no curvature, and the step would come out far too large. */
static zest_status choose_for_top(const zest_hessian *hessian, zest_hessian_top *top, zest_error *error) {
    zest_vector_space space = space_of(hessian);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    float *v = zest_vector_floats(&space, 1);
    double *w = zest_vector_doubles(&space, 1);
    zest_status status =
        v && w ? ZEST_OK
               : zest_vector_no_room(&space, "the choice of a step", 12 * (double)space.count, error);
    if (!status) draw_signs(hessian, zest_seed(hessian->seed, SEED_STEP, 0), v);
    for (int i = 0; i < POWERS && !status; i++) {
        status = zest_hessian_multiply(hessian, pilot * hessian->start, v, w, error);
        double length = status ? 0 : vectors->norm(&space, w);
        if (length > 0) vectors->store(&space, v, 1 / length, w);
    }
    zest_vector_free(&space, w);
    if (!status) status = choose(hessian, v, &top->step, &top->disagreement, error);
    /* Other eigenvectors may leave the quadratic sooner than this one, while rounding is the same for all: a
     * rung below the best is the better choice for all together. The check with half of it tells. */
    top->step /= ratio;
    zest_vector_free(&space, v);
    return status;
}

/* ---- The top ---- */

static zest_status multiply(void *user, const float *v, double *out, zest_error *error) {
    const product *p = user;
    return zest_hessian_multiply(p->hessian, p->step, v, out, error);
}

/* Every pair once more, with half the step: residuals and values that owe nothing to the process. */
static zest_status verify(const zest_hessian *hessian, zest_hessian_top *top, zest_error *error) {
    zest_vector_space space = space_of(hessian);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    double *w = zest_vector_doubles(&space, 1);
    if (!w) return zest_vector_no_room(&space, "residuals", 8 * (double)space.count, error);
    zest_status status = ZEST_OK;
    for (size_t k = 0; k < top->count && !status; k++) {
        const float *v = top->vectors + k * space.count;
        status = zest_hessian_multiply(hessian, top->step / 2, v, w, error);
        if (status) break;
        top->again[k] = vectors->dot(&space, v, w);
        vectors->add(&space, w, -top->values[k], v);
        top->residuals[k] = vectors->norm(&space, w);
        status = zest_vector_check(&space, error);
    }
    zest_vector_free(&space, w);
    return status;
}

zest_status zest_hessian_find(const zest_hessian *hessian, const zest_hessian_plan *plan,
                              zest_hessian_top *top, zest_error *error) {
    *top = (zest_hessian_top){.step = plan->step, .disagreement = NAN};
    zest_status status = plan->step > 0 ? ZEST_OK : choose_for_top(hessian, top, error);
    product p = {hessian, NULL, top->step};
    zest_lanczos_job job = {.multiply = multiply,
                            .user = &p,
                            .dimension = hessian->dimension,
                            .wanted = plan->wanted,
                            .steps = plan->steps,
                            .vectors = plan->vectors,
                            .tolerance = settled,
                            .seed = zest_seed(hessian->seed, SEED_PROCESS, 0),
                            .ops = hessian->ops,
                            .threads = hessian->threads,
                            .device = hessian->device};
    if (!status) status = zest_lanczos_run(&job, &top->process, error);
    if (status) return status;
    const zest_lanczos_result *r = &top->process;
    top->count = r->count, top->values = r->values, top->vectors = r->vectors;
    top->lowest = r->lowest, top->lowest_bound = r->lowest_bound;
    top->steps = r->steps, top->restarts = r->restarts, top->converged = r->converged;
    top->residuals = calloc(2 * top->count + 1, sizeof *top->residuals);
    if (!top->residuals) return zest_error_memory(error, "residuals", 2 * top->count * sizeof(double));
    top->again = top->residuals + top->count;
    return verify(hessian, top, error);
}

void zest_hessian_forget(zest_hessian_top *top) {
    zest_lanczos_forget(&top->process);
    top->vectors = NULL;
}

void zest_hessian_free(zest_hessian_top *top) {
    free(top->residuals);
    zest_lanczos_free(&top->process);
    *top = (zest_hessian_top){0};
}

/* ---- The trace ---- */

static zest_status probe(const zest_hessian *hessian, double step, uint64_t seed, float *v, double *w,
                         double *value, zest_error *error) {
    draw_signs(hessian, seed, v);
    zest_status status = zest_hessian_multiply(hessian, step, v, w, error);
    if (status) return status;
    zest_vector_space space = space_of(hessian);
    *value = (double)space.count * zest_vector_operations(&space)->dot(&space, v, w);
    status = zest_vector_check(&space, error);
    if (status || isfinite(*value)) return status;
    return zest_error_set(error, ZEST_ERROR_OBJECTIVE, "a slope of the loss is not finite");
}

zest_status zest_hessian_sum(const zest_hessian *hessian, size_t probes, double step,
                             zest_hessian_trace *trace, zest_error *error) {
    zest_vector_space space = space_of(hessian);
    *trace = (zest_hessian_trace){.probes = probes, .step = step, .disagreement = NAN};
    float *v = zest_vector_floats(&space, 1);
    double *w = zest_vector_doubles(&space, 1), *values = malloc((probes + 1) * sizeof *values);
    zest_status status = v && w && values ? ZEST_OK
                                          : zest_vector_no_room(&space, "the probes of the trace",
                                                                12 * (double)space.count, error);
    if (!status && !(step > 0)) {
        draw_signs(hessian, zest_seed(hessian->seed, SEED_TRACE, 0), v);
        status = choose(hessian, v, &trace->step, &trace->disagreement, error);
    }
    for (size_t i = 0; i < probes && !status; i++)
        status =
            probe(hessian, trace->step, zest_seed(hessian->seed, SEED_TRACE, i), v, w, &values[i], error);
    if (!status) trace->trace = zest_statistics_mean(values, probes);
    free(values);
    zest_vector_free(&space, w);
    zest_vector_free(&space, v);
    return status;
}

size_t zest_hessian_products(const zest_hessian_plan *plan, size_t probes, double trace_step) {
    size_t top = plan->wanted ? plan->steps + plan->wanted + (plan->step > 0 ? 0 : RUNGS + POWERS) : 0;
    return top + probes + (probes && !(trace_step > 0) ? RUNGS : 0);
}

zest_status zest_difference_step_choose(const zest_difference_step_args *job, double *step,
                                        double *disagreement, zest_error *error) {
    const zest_vector_space *space = &job->space;
    const zest_vector_table *vectors = zest_vector_operations(space);
    double *room = zest_vector_doubles(space, 2), size = job->start;
    if (!room) return zest_vector_no_room(space, "the choice of a step", 16 * (double)space->count, error);
    double *last = room, *now = room + space->count;
    int worse = 0;
    *step = job->start;
    *disagreement = HUGE_VAL;
    zest_status status = job->measure(job->user, size, last, error);
    /* Past the best rung the disagreement only grows: two worse ones in a row, and it is behind us. On the
     * rungs above it, where neighbours have nothing to do with each other, it goes up and down as it likes.
     */
    for (int i = 1; i < job->rungs && worse < 2 && !status; i++) {
        size /= job->ratio;
        status = job->measure(job->user, size, now, error);
        if (status) break;
        double apart = vectors->distance(space, last, now), length = vectors->norm(space, now),
               relative = length > 0  ? apart / length
                          : apart > 0 ? HUGE_VAL
                                      : 0;
        worse += *disagreement < ZEST_LADDER_AGREED;
        if (relative < *disagreement) {
            *disagreement = relative;
            *step = size * sqrt(job->ratio);
            worse = 0;
        }
        double *swap = last;
        last = now, now = swap;
    }
    zest_vector_free(space, room);
    return status ? status : zest_vector_check(space, error);
}
