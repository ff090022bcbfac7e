/* Eigenvalues and trace of the Hessian: products by differences of gradients, choice of the difference
 * step, Lanczos iteration, and a Jacobi eigenvalue solver for small matrices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sharpness/sharpness_internal.h"
#include "rng/noise.h"

enum { MAX_STEPS = 11, POWERS = 3 };
static const double ratio = 4, converged_all = 1e-3;
/* of the largest step: for a first estimate, where a few per cent of error do no harm */
static const double pilot = 1e-3;
/* random streams: the iteration, the probe of the step, the probes of the trace */
enum { SEED_PROCESS = 1, SEED_STEP, SEED_TRACE };

static zest_vector_space space_of(const zest_hessian *hessian) {
    return (zest_vector_space){hessian->dimension, hessian->ops, hessian->threads, hessian->device};
}

zest_status zest_hessian_multiply(const zest_hessian *hessian, double step, const float *v, double *out,
                                  zest_error *error) {
    zest_vector_space space = space_of(hessian);
    zest_vector_operations(&space)->clear(&space, out, sizeof *out);
    zest_status status = hessian->gradient(hessian->user, v, step, 0.5 / step, out, error);
    return status ? status : hessian->gradient(hessian->user, v, -step, -0.5 / step, out, error);
}

/* ---- Difference step ---- */

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
                                     .max_steps = MAX_STEPS};
    return zest_difference_step_choose(&job, step, disagreement, error);
}

/* A random sign vector of length 1. */
static void draw_signs(const zest_hessian *hessian, uint64_t seed, float *v) {
    zest_vector_space space = space_of(hessian);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    vectors->sign(&space, v, seed);
    vectors->scale(&space, v, (float)(1 / sqrt((double)hessian->dimension)));
}

/* The step for eigenvectors is chosen on an approximation of the first one, from a few products with a
 * random vector: along a random vector there is almost no curvature, and the step would be far too large. */
static zest_status choose_for_top(const zest_hessian *hessian, zest_hessian_top *top, zest_error *error) {
    zest_vector_space space = space_of(hessian);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    float *v = zest_vector_floats(&space, 1);
    double *w = zest_vector_doubles(&space, 1);
    zest_status status =
        v && w ? ZEST_OK
               : zest_vector_no_memory(&space, "the choice of a step", 12 * (double)space.count, error);
    if (!status) draw_signs(hessian, zest_seed(hessian->seed, SEED_STEP, 0), v);
    for (int i = 0; i < POWERS && !status; i++) {
        status = zest_hessian_multiply(hessian, pilot * hessian->start, v, w, error);
        double length = status ? 0 : vectors->norm(&space, w);
        if (length > 0) vectors->store(&space, v, 1 / length, w);
    }
    zest_vector_free(&space, w);
    if (!status) status = choose(hessian, v, &top->step, &top->disagreement, error);
    /* Other eigenvectors may leave the quadratic region sooner than this one, while rounding is the same
     * for all: the next smaller step is safer. The check with half of it verifies that. */
    top->step /= ratio;
    zest_vector_free(&space, v);
    return status;
}

/* ---- Largest eigenvalues ---- */

static zest_status multiply(void *user, const float *v, double *out, zest_error *error) {
    const product *p = user;
    return zest_hessian_multiply(p->hessian, p->step, v, out, error);
}

/* Recomputes every pair with half the step: residuals and values independent of the iteration. */
static zest_status verify(const zest_hessian *hessian, zest_hessian_top *top, zest_error *error) {
    zest_vector_space space = space_of(hessian);
    const zest_vector_table *vectors = zest_vector_operations(&space);
    double *w = zest_vector_doubles(&space, 1);
    if (!w) return zest_vector_no_memory(&space, "residuals", 8 * (double)space.count, error);
    zest_status status = ZEST_OK;
    for (size_t k = 0; k < top->count && !status; k++) {
        const float *v = top->vectors + k * space.count;
        status = zest_hessian_multiply(hessian, top->step / 2, v, w, error);
        if (status) break;
        top->rechecked[k] = vectors->dot(&space, v, w);
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
                            .requested = plan->requested,
                            .steps = plan->steps,
                            .vectors = plan->vectors,
                            .tolerance = converged_all,
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
    top->rechecked = top->residuals + top->count;
    return verify(hessian, top, error);
}

void zest_hessian_free_vectors(zest_hessian_top *top) {
    zest_lanczos_free_vectors(&top->process);
    top->vectors = NULL;
}

void zest_hessian_free(zest_hessian_top *top) {
    free(top->residuals);
    zest_lanczos_free(&top->process);
    *top = (zest_hessian_top){0};
}

/* ---- Trace ---- */

static zest_status probe(const zest_hessian *hessian, double step, uint64_t seed, float *v, double *w,
                         double *value, zest_error *error) {
    draw_signs(hessian, seed, v);
    zest_status status = zest_hessian_multiply(hessian, step, v, w, error);
    if (status) return status;
    zest_vector_space space = space_of(hessian);
    *value = (double)space.count * zest_vector_operations(&space)->dot(&space, v, w);
    status = zest_vector_check(&space, error);
    if (status || isfinite(*value)) return status;
    return zest_error_set(error, ZEST_ERROR_OBJECTIVE, "a gradient is not finite");
}

zest_status zest_hessian_sum(const zest_hessian *hessian, size_t probes, double step,
                             zest_hessian_trace *trace, zest_error *error) {
    zest_vector_space space = space_of(hessian);
    *trace = (zest_hessian_trace){.probes = probes, .step = step, .disagreement = NAN};
    float *v = zest_vector_floats(&space, 1);
    double *w = zest_vector_doubles(&space, 1), *values = malloc((probes + 1) * sizeof *values);
    zest_status status = v && w && values ? ZEST_OK
                                          : zest_vector_no_memory(&space, "the probes of the trace",
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
    size_t top =
        plan->requested ? plan->steps + plan->requested + (plan->step > 0 ? 0 : MAX_STEPS + POWERS) : 0;
    return top + probes + (probes && !(trace_step > 0) ? MAX_STEPS : 0);
}

zest_status zest_difference_step_choose(const zest_difference_step_args *job, double *step,
                                        double *disagreement, zest_error *error) {
    const zest_vector_space *space = &job->space;
    const zest_vector_table *vectors = zest_vector_operations(space);
    double *capacity = zest_vector_doubles(space, 2), size = job->start;
    if (!capacity)
        return zest_vector_no_memory(space, "the choice of a step", 16 * (double)space->count, error);
    double *last = capacity, *now = capacity + space->count;
    int worse = 0;
    *step = job->start;
    *disagreement = HUGE_VAL;
    zest_status status = job->measure(job->user, size, last, error);
    /* Beyond the best step the disagreement grows: two worse ones in a row end the search. Above it, where
     * neighbouring steps have nothing in common, it fluctuates. */
    for (int i = 1; i < job->max_steps && worse < 2 && !status; i++) {
        size /= job->ratio;
        status = job->measure(job->user, size, now, error);
        if (status) break;
        double apart = vectors->distance(space, last, now), length = vectors->norm(space, now),
               relative = length > 0  ? apart / length
                          : apart > 0 ? HUGE_VAL
                                      : 0;
        worse += *disagreement < ZEST_DIFFERENCE_STEP_AGREED;
        if (relative < *disagreement) {
            *disagreement = relative;
            *step = size * sqrt(job->ratio);
            worse = 0;
        }
        double *swap = last;
        last = now, now = swap;
    }
    zest_vector_free(space, capacity);
    return status ? status : zest_vector_check(space, error);
}

size_t zest_lanczos_min_vectors(size_t requested) { return requested + 3; }

double zest_lanczos_memory(size_t dimension, size_t vectors) {
    return (double)dimension * (4 * ((double)vectors + 1) + 8);
}

/* ---- Lanczos iteration ---- */

/* basis[0 .. used-1] were multiplied by A, basis[used] is next. T = basis' A basis, dense: after a restart it is
 * not tridiagonal, and the orthogonalisation computes all of its elements anyway. */
typedef struct {
    const zest_lanczos_job *job;
    zest_vector_space space;
    const zest_vector_table *vectors; /* its operations */
    size_t capacity;                  /* capacity of basis; one more vector is allocated */
    size_t used;
    float *basis;
    double *product;                             /* A basis[used], then its residual */
    double *t, *work, *ritz, *rotation, *column; /* capacity x capacity, except ritz and column */
    double beta;                                 /* length of the residual */
    double dropped;                              /* residuals that no longer point into the basis */
    size_t drawn;                                /* number of random vectors so far */
    double *previous;                            /* the requested values at the start of the current sweep */
    size_t sweep_length, sweep_end;              /* in steps; 0: the first sweep has not converged yet */
} process;

static float *vector(const process *p, size_t i) { return p->basis + i * p->job->dimension; }

static zest_status allocate(process *p, zest_error *error) {
    size_t d = p->job->dimension, n = p->capacity;
    double bytes = zest_lanczos_memory(d, n);
    if (bytes > 9e18) return zest_error_memory(error, "Lanczos's vectors", (size_t)-1);
    p->basis = zest_vector_floats(&p->space, n + 1);
    p->product = zest_vector_doubles(&p->space, 1);
    p->t = calloc(3 * n * n + 2 * n + p->job->requested + 2, sizeof *p->t);
    if (!p->basis || !p->product || !p->t)
        return zest_vector_no_memory(&p->space, "Lanczos's vectors", bytes, error);
    p->work = p->t + n * n;
    p->rotation = p->work + n * n;
    p->ritz = p->rotation + n * n;
    p->column = p->ritz + n;
    p->previous = p->column + n + 1;
    return ZEST_OK;
}

/* Removes the components along basis[0 .. count-1] from the product, twice, since once leaves rounding
 * errors of the size of what was removed. column: the components. */
static void orthogonalise(process *p, size_t count) {
    memset(p->column, 0, count * sizeof *p->column);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            double c = p->vectors->dot(&p->space, vector(p, i), p->product);
            p->vectors->add(&p->space, p->product, -c, vector(p, i));
            p->column[i] += c;
        }
    p->beta = p->vectors->norm(&p->space, p->product);
}

/* Appends a random unit vector orthogonal to the first `count`. 0: the space is full. */
static int draw(process *p, size_t count) {
    for (int tries = 0; tries < 4; tries++) {
        p->vectors->normal(&p->space, vector(p, count), zest_seed(p->job->seed, p->drawn++, 0));
        p->vectors->clear(&p->space, p->product, sizeof *p->product);
        p->vectors->add(&p->space, p->product, 1, vector(p, count));
        orthogonalise(p, count);
        if (!(p->beta > 1e-3)) continue;
        p->vectors->store(&p->space, vector(p, count), 1 / p->beta, p->product);
        return 1;
    }
    return 0;
}

/* One product: a column of T, and the residual as the next vector. */
static zest_status extend(process *p, zest_error *error) {
    size_t n = p->used, capacity = p->capacity;
    zest_status status = p->job->multiply(p->job->user, vector(p, n), p->product, error);
    if (status) return status;
    orthogonalise(p, n + 1);
    status = zest_vector_check(&p->space, error);
    if (status) return status;
    for (size_t i = 0; i <= n; i++) p->t[i * capacity + n] = p->t[n * capacity + i] = p->column[i];
    if (!isfinite(p->beta))
        return zest_error_set(error, ZEST_ERROR_OBJECTIVE, "a product with the matrix is not finite");
    p->used = n + 1;
    return ZEST_OK;
}

static zest_status solve(process *p, zest_error *error) {
    size_t n = p->used;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) p->work[i * n + j] = p->t[i * p->capacity + j];
    if (zest_lanczos_solve_small(p->work, n, p->ritz, p->rotation)) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_OBJECTIVE, "a product with the matrix is not finite");
}

static double largest(const process *p) { return fmax(fabs(p->ritz[0]), fabs(p->ritz[p->used - 1])); }

/* Residual |A v - theta v| of Ritz pair k: A basis[i] is in the basis except for the residual of the last
 * one. */
static double bound(const process *p, size_t k) {
    return hypot(p->beta * p->rotation[(p->used - 1) * p->used + k], p->dropped);
}

static int lanczos_converged(const process *p) {
    if (p->used < p->job->requested) return 0;
    for (size_t k = 0; k < p->job->requested; k++)
        if (!(bound(p, k) <= p->job->tolerance * largest(p))) return 0;
    return 1;
}

/* basis = basis * (the chosen columns of rotation), in place. */
static zest_status combine(process *p, const size_t *chosen, size_t count, zest_error *error) {
    size_t n = p->used;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++) p->work[i * count + k] = p->rotation[i * n + chosen[k]];
    zest_vector_rotation job = {.basis = p->basis, .rotation = p->work, .vectors = n, .count = count};
    return p->vectors->rotate(&p->space, &job)
               ? zest_vector_no_memory(&p->space, "Lanczos's vectors", 0, error)
               : ZEST_OK;
}

/* Restart: keeps the best Ritz vectors, the lowest one, and the next vector. T becomes diagonal, and the
 * next product fills its column. */
static zest_status restart(process *p, size_t *chosen, zest_error *error) {
    size_t n = p->used, retained = p->job->requested + (n - p->job->requested) / 3;
    if (retained < p->job->requested + 1) retained = p->job->requested + 1;
    for (size_t k = 0; k < retained; k++) chosen[k] = k + 1 < retained ? k : n - 1;
    zest_status status = combine(p, chosen, retained, error);
    if (status) return status;
    p->vectors->copy(&p->space, vector(p, retained), vector(p, n));
    memset(p->t, 0, p->capacity * p->capacity * sizeof *p->t);
    for (size_t k = 0; k < retained; k++) p->t[k * p->capacity + k] = p->ritz[chosen[k]];
    p->used = retained;
    return ZEST_OK;
}

/* End of a sweep: did the values change? Starts the next one. */
static int begin_sweep(process *p, size_t step) {
    int changed = !p->sweep_length;
    if (changed) p->sweep_length = step;
    for (size_t k = 0; k < p->job->requested; k++) {
        changed |= fabs(p->ritz[k] - p->previous[k]) > p->job->tolerance * largest(p);
        p->previous[k] = p->ritz[k];
    }
    p->sweep_end = step + p->sweep_length;
    return changed;
}

/* The vector after the basis: the residual of the product; or a random vector, when the residual vanishes
 * or all requested values have converged. 0: there is nothing more to find. */
static int go_on(process *p, size_t step) {
    int random = p->beta <= 1e-12 * largest(p);
    if (lanczos_converged(p) && step >= p->sweep_end) {
        if (!begin_sweep(p, step)) return 0;
        random = 1;
    }
    if (p->used == p->job->dimension) return 0;
    if (!random) {
        p->vectors->store(&p->space, vector(p, p->used), 1 / p->beta, p->product);
        return 1;
    }
    for (size_t k = 0; k < p->job->requested && k < p->used; k++) p->dropped = fmax(p->dropped, bound(p, k));
    return draw(p, p->used);
}

static zest_status iterate(process *p, size_t *chosen, zest_lanczos_result *r, zest_error *error) {
    int drawn = draw(p, 0);
    zest_status status = zest_vector_check(&p->space, error);
    if (!status && !drawn) status = zest_error_set(error, ZEST_ERROR_STATE, "no starting vector");
    while (!status && r->steps < p->job->steps) {
        status = extend(p, error);
        if (!status) status = solve(p, error);
        if (status) break;
        r->steps++;
        r->converged = lanczos_converged(p);
        for (size_t k = 0; k < r->count; k++) r->bounds[k] = k < p->used ? bound(p, k) : NAN;
        r->lowest = p->ritz[p->used - 1];
        r->lowest_bound = bound(p, p->used - 1);
        if (!go_on(p, r->steps) || r->steps == p->job->steps) break;
        if (p->used < p->capacity) continue;
        status = restart(p, chosen, error);
        r->restarts++;
    }
    return status;
}

static zest_status check(const zest_lanczos_job *job, zest_error *error) {
    if (!job->requested || !job->steps || !job->dimension)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the number of eigenvalues must be at least 1");
    if (job->vectors >= zest_lanczos_min_vectors(job->requested) || job->vectors >= job->dimension ||
        job->vectors >= job->steps)
        return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%zu eigenvalues need %zu vectors, not %zu",
                          job->requested, zest_lanczos_min_vectors(job->requested), job->vectors);
}

zest_status zest_lanczos_run(const zest_lanczos_job *given, zest_lanczos_result *result, zest_error *error) {
    zest_lanczos_job job = *given;
    *result = (zest_lanczos_result){0};
    zest_status status = check(&job, error);
    if (status) return status;
    if (job.steps > 2 * job.dimension) job.steps = 2 * job.dimension;
    if (job.requested > job.dimension) job.requested = job.dimension;
    process p = {.job = &job, .capacity = job.vectors < job.dimension ? job.vectors : job.dimension};
    p.space = result->space = (zest_vector_space){job.dimension, job.ops, job.threads, job.device};
    p.vectors = zest_vector_operations(&p.space);
    if (p.capacity > job.steps) p.capacity = job.steps;
    result->count = job.requested < p.capacity ? job.requested : p.capacity;
    result->values = calloc(2 * result->count + 1, sizeof *result->values);
    size_t *chosen = calloc(p.capacity + 1, sizeof *chosen);
    result->bounds = result->values ? result->values + result->count : NULL;
    status = result->values && chosen ? allocate(&p, error) : zest_error_memory(error, "eigenvalues", 0);
    if (!status) status = iterate(&p, chosen, result, error);
    if (!status && result->count > p.used) result->count = p.used;
    for (size_t k = 0; k < result->count && !status; k++) chosen[k] = k, result->values[k] = p.ritz[k];
    if (!status) status = combine(&p, chosen, result->count, error);
    result->vectors = p.basis;
    zest_vector_free(&p.space, p.product);
    free(p.t);
    free(chosen);
    return status;
}

void zest_lanczos_free_vectors(zest_lanczos_result *result) {
    zest_vector_free(&result->space, result->vectors);
    result->vectors = NULL;
    result->space.device = NULL; /* the device may be closed from now on */
}

void zest_lanczos_free(zest_lanczos_result *result) {
    free(result->values);
    zest_lanczos_free_vectors(result);
    *result = (zest_lanczos_result){0};
}

enum { SWEEPS = 60 }; /* seven or eight are usual */

/* Rotates rows and columns p and q such that a_pq vanishes. */
static void rotate(double *a, double *v, size_t n, size_t p, size_t q) {
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double t = copysign(1, theta) / (fabs(theta) + hypot(1, theta)), c = 1 / hypot(1, t), s = t * c;
    for (size_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
    for (size_t i = 0; i < n; i++) {
        double x = a[p * n + i], y = a[q * n + i];
        a[p * n + i] = c * x - s * y;
        a[q * n + i] = s * x + c * y;
        x = v[i * n + p], y = v[i * n + q];
        v[i * n + p] = c * x - s * y;
        v[i * n + q] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

/* One rotation of every pair; returns the number of rotations. An element that is negligible next to both
 * diagonals counts as 0. */
static size_t sweep(double *a, double *v, size_t n) {
    size_t rotated = 0;
    for (size_t p = 0; p + 1 < n; p++)
        for (size_t q = p + 1; q < n; q++) {
            double small = 1e-17 * sqrt(fabs(a[p * n + p]) * fabs(a[q * n + q]));
            if (fabs(a[p * n + q]) <= small || fabs(a[p * n + q]) < 1e-300) continue;
            rotate(a, v, n, p, q);
            rotated++;
        }
    return rotated;
}

static void swap_columns(double *values, double *v, size_t n, size_t p, size_t q) {
    double x = values[p];
    values[p] = values[q], values[q] = x;
    for (size_t i = 0; i < n; i++) x = v[i * n + p], v[i * n + p] = v[i * n + q], v[i * n + q] = x;
}

int zest_lanczos_solve_small(double *a, size_t n, double *values, double *vectors) {
    for (size_t i = 0; i < n * n; i++) {
        if (!isfinite(a[i])) return 0;
        vectors[i] = i / n == i % n;
    }
    for (int i = 0; i < SWEEPS && sweep(a, vectors, n); i++) continue;
    for (size_t i = 0; i < n; i++) values[i] = a[i * n + i];
    for (size_t p = 0; p < n; p++) {
        size_t best = p;
        for (size_t q = p + 1; q < n; q++)
            if (values[q] > values[best]) best = q;
        if (best != p) swap_columns(values, vectors, n, p, best);
    }
    return 1;
}
