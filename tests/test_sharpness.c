/* Sharpness of functions whose sharpness is known. Statistical tests allow five standard errors (a false
 * alarm in about two million), with seeds that are fixed anyway; coverages allow as much. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/hessian.h"
#include "analysis/ladder.h"
#include "analysis/neighbourhood.h"
#include "analysis/slice.h"
#include "analysis/symmetric.h"
#include "core/direction.h"
#include "tests/support.h"

enum { MOST = 200 };

/* ---- f(x + e) = f + g e + (1/2) e'He + quartic sum e_i^4, with H = Q L Q and Q = I - 2uu' ---- */

typedef struct {
    size_t d;
    double loss, quartic, values[MOST], g[MOST], u[MOST];
    int fp32; /* slopes are rounded to floats, as a model's are */
    double offset[MOST];
    size_t calls;
} bowl;

static void turn(const bowl *b, const double *from, double *to) {
    double along = 0;
    for (size_t i = 0; i < b->d; i++) along += b->u[i] * from[i];
    for (size_t i = 0; i < b->d; i++) to[i] = from[i] - 2 * along * b->u[i];
}

static void times_hessian(const bowl *b, const double *from, double *to) {
    double turned[MOST];
    turn(b, from, turned);
    for (size_t i = 0; i < b->d; i++) turned[i] *= b->values[i];
    turn(b, turned, to);
}

static void make_bowl(bowl *b, size_t d, const double *values) {
    *b = (bowl){.d = d, .loss = 0.7};
    float noise[MOST];
    double norm = 0;
    zest_noise_for(ZEST_CPU_PLAIN)->normal(noise, 99, 0, d);
    for (size_t i = 0; i < d; i++) norm += (double)noise[i] * (double)noise[i];
    for (size_t i = 0; i < d; i++) {
        b->values[i] = values[i];
        b->u[i] = (double)noise[i] / sqrt(norm);
        b->g[i] = 0.3 * sin(1.0 + (double)i);
    }
}

static double bowl_at(const bowl *b, const double *e) {
    double h[MOST], f = b->loss;
    times_hessian(b, e, h);
    for (size_t i = 0; i < b->d; i++) f += b->g[i] * e[i] + e[i] * h[i] / 2 + b->quartic * pow(e[i], 4);
    return f;
}

static zest_status bowl_slope(void *user, const float *v, double scale, double factor, double *sum,
                              zest_error *error) {
    bowl *b = user;
    double e[MOST] = {0}, h[MOST];
    (void)error;
    b->calls++;
    for (size_t i = 0; i < b->d; i++) e[i] = scale * (double)v[i];
    times_hessian(b, e, h);
    for (size_t i = 0; i < b->d; i++) {
        double slope = b->g[i] + h[i] + 4 * b->quartic * e[i] * e[i] * e[i];
        sum[i] += factor * (b->fp32 ? (double)(float)slope : slope);
    }
    return ZEST_OK;
}

static zest_status bowl_losses(void *user, const zest_model_lane *lanes, size_t count, double *losses,
                               zest_error *error) {
    const bowl *b = user;
    float z[MOST];
    double e[MOST] = {0};
    (void)error;
    for (size_t l = 0; l < count; l++) {
        zest_direction_raw(zest_ops_for(ZEST_CPU_PLAIN), &lanes[l].direction, 0, b->d, z);
        for (size_t i = 0; i < b->d; i++) e[i] = lanes[l].scale * lanes[l].direction.gain * (double)z[i];
        losses[l] = bowl_at(b, e);
    }
    return ZEST_OK;
}

static zest_status bowl_multiply(void *user, const float *v, double *out, zest_error *error) {
    bowl *b = user;
    double from[MOST] = {0};
    (void)error;
    b->calls++;
    for (size_t i = 0; i < b->d; i++) from[i] = (double)v[i];
    times_hessian(b, from, out);
    return ZEST_OK;
}

/* 3, 1.5, 1, 3/4 ... and some negative ones. */
static void usual_values(size_t d, double *values) {
    for (size_t i = 0; i < d; i++) values[i] = (i % 3 == 2 ? -1.0 : 3.0) / (double)(i + 1);
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

#define assert_fine(call)                                    \
    do {                                                     \
        zest_error error_ = {0}, *error = &error_;           \
        if (call) fail_msg("%s: %s", #call, error_.message); \
    } while (0)

/* ---- Small matrices ---- */

static void test_symmetric_known(void **state) {
    (void)state;
    enum { N = 30 };
    double a[N * N] = {0}, values[N], vectors[N * N];
    for (size_t i = 0; i < N; i++) {
        a[i * N + i] = 2;
        if (i) a[i * N + i - 1] = a[(i - 1) * N + i] = -1;
    }
    assert_true(zest_symmetric_solve(a, N, values, vectors));
    for (size_t k = 0; k < N; k++)
        assert_close(values[k], 2 - 2 * cos((double)(N - k) * 3.14159265358979323846 / (N + 1)), 1e-13);
}

static void test_symmetric_random(void **state) {
    (void)state;
    enum { N = 23 };
    double a[N * N], copy[N * N], values[N], vectors[N * N];
    float noise[N * N];
    zest_noise_for(ZEST_CPU_PLAIN)->normal(noise, 5, 0, N * N);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            copy[i * N + j] = a[i * N + j] = (double)noise[i * N + j] + (double)noise[j * N + i];
    assert_true(zest_symmetric_solve(a, N, values, vectors));
    for (size_t k = 0; k < N; k++) {
        if (k) assert_true(values[k] <= values[k - 1]);
        for (size_t i = 0; i < N; i++) {
            double product = 0;
            for (size_t j = 0; j < N; j++) product += copy[i * N + j] * vectors[j * N + k];
            assert_close(product, values[k] * vectors[i * N + k], 1e-12);
        }
        for (size_t l = 0; l <= k; l++) {
            double dot = 0;
            for (size_t i = 0; i < N; i++) dot += vectors[i * N + k] * vectors[i * N + l];
            assert_close(dot, k == l, 1e-13);
        }
    }
    a[3] = NAN;
    assert_false(zest_symmetric_solve(a, N, values, vectors));
}

/* ---- Lanczos ---- */

static zest_lanczos_job lanczos_job(bowl *b, size_t wanted, size_t steps, size_t vectors) {
    return (zest_lanczos_job){.multiply = bowl_multiply,
                              .user = b,
                              .dimension = b->d,
                              .wanted = wanted,
                              .steps = steps,
                              .vectors = vectors,
                              .tolerance = 1e-5,
                              .seed = 7,
                              .ops = zest_ops_for(ZEST_CPU_PLAIN)};
}

/* Values, and that the vectors are what they are said to be. */
static void check_lanczos(const double *spectrum, size_t d, size_t wanted, size_t steps, size_t vectors,
                          double tolerance) {
    bowl b;
    double sorted[MOST], from[MOST], to[MOST];
    zest_lanczos_result r;
    make_bowl(&b, d, spectrum);
    memcpy(sorted, spectrum, d * sizeof *sorted);
    qsort(sorted, d, sizeof *sorted, descending);
    zest_lanczos_job job = lanczos_job(&b, wanted, steps, vectors);
    assert_fine(zest_lanczos_run(&job, &r, error));
    assert_int_equal(r.count, wanted);
    assert_true(r.converged);
    assert_true(r.steps <= steps);
    assert_int_equal(r.steps, b.calls);
    for (size_t k = 0; k < wanted; k++) {
        assert_close(r.values[k], sorted[k], tolerance);
        double norm = 0, rest = 0;
        for (size_t i = 0; i < d; i++) from[i] = (double)r.vectors[k * d + i], norm += from[i] * from[i];
        assert_close(norm, 1, 1e-5);
        times_hessian(&b, from, to);
        for (size_t i = 0; i < d; i++) rest += pow(to[i] - r.values[k] * from[i], 2);
        assert_true(sqrt(rest) <= r.bounds[k] + 1e-5 * fabs(sorted[0]));
        assert_true(r.bounds[k] <= 1e-4 * fmax(fabs(sorted[0]), fabs(sorted[d - 1])));
    }
    assert_true(r.lowest >= sorted[d - 1] - 1e-5);
    zest_lanczos_free(&r);
}

static void test_lanczos_spectra(void **state) {
    (void)state;
    double values[MOST];
    for (size_t i = 0; i < 150; i++) values[i] = 10 / (double)(i + 1);
    check_lanczos(values, 150, 5, 150, 150, 1e-4);
    values[40] = -50; /* the largest in magnitude is not the largest */
    check_lanczos(values, 150, 5, 150, 150, 2e-4);
    for (size_t i = 0; i < 60; i++) values[i] = -1 - (double)i; /* none is positive */
    check_lanczos(values, 60, 3, 60, 60, 1e-3);
    for (size_t i = 0; i < 60; i++) values[i] = 0;
    check_lanczos(values, 60, 3, 20, 20, 1e-12);
    values[0] = 4; /* all of a small space */
    check_lanczos(values, 3, 3, 20, 20, 1e-5);
}

static void test_lanczos_multiplicity(void **state) {
    (void)state;
    double values[MOST];
    for (size_t i = 0; i < 90; i++) values[i] = (double)(i % 9); /* every one ten times */
    check_lanczos(values, 90, 5, 90, 90, 1e-4);
    for (size_t i = 0; i < 120; i++) values[i] = 5 / (double)(i + 1);
    values[77] = 5; /* a second copy of the first one, in a rich spectrum */
    check_lanczos(values, 120, 4, 200, 120, 1e-4);
}

static void test_lanczos_restarts(void **state) {
    (void)state;
    double values[MOST];
    zest_lanczos_result r;
    bowl b;
    for (size_t i = 0; i < 150; i++) values[i] = 10 / (double)(i + 1);
    values[40] = -20;
    check_lanczos(values, 150, 5, 300, 20, 2e-4);
    check_lanczos(values, 150, 5, 300, zest_lanczos_least(5), 5e-4);
    make_bowl(&b, 150, values);
    zest_lanczos_job job = lanczos_job(&b, 5, 300, 20);
    assert_fine(zest_lanczos_run(&job, &r, error));
    assert_true(r.restarts > 0);
    zest_lanczos_free(&r);
    job = lanczos_job(&b, 5, 300, 6); /* too little room */
    assert_int_equal(zest_lanczos_run(&job, &r, NULL), ZEST_ERROR_ARGUMENT);
    zest_lanczos_free(&r);
    job = lanczos_job(&b, 5, 3, 3); /* too few steps: fewer values, and not settled */
    assert_fine(zest_lanczos_run(&job, &r, error));
    assert_int_equal(r.count, 3);
    assert_false(r.converged);
    zest_lanczos_free(&r);
}

/* ---- The Hessian from slopes ---- */

static zest_hessian hessian_of(bowl *b) {
    return (zest_hessian){.slope = bowl_slope,
                          .user = b,
                          .dimension = b->d,
                          .start = 1,
                          .ops = zest_ops_for(ZEST_CPU_PLAIN),
                          .seed = 3};
}

static void test_hessian_top(void **state) {
    (void)state;
    bowl b;
    double values[MOST], from[MOST], to[MOST];
    usual_values(120, values);
    for (int quartic = 0; quartic < 2; quartic++) {
        make_bowl(&b, 120, values);
        b.quartic = quartic ? 0.5 : 0; /* no part of the Hessian at 0, but in the way of large steps */
        b.fp32 = 1;
        zest_hessian h = hessian_of(&b);
        zest_hessian_plan plan = {.wanted = 4, .steps = 60, .vectors = 60};
        zest_hessian_top top;
        assert_fine(zest_hessian_find(&h, &plan, &top, error));
        double sorted[MOST];
        memcpy(sorted, values, sizeof sorted);
        qsort(sorted, 120, sizeof *sorted, descending);
        assert_true(top.converged && top.disagreement < 1e-3);
        for (size_t k = 0; k < 4; k++) {
            double rest = 0;
            assert_close(top.values[k], sorted[k], 3e-3);
            assert_close(top.again[k], top.values[k], 3e-3);
            for (size_t i = 0; i < 120; i++) from[i] = (double)top.vectors[k * 120 + i];
            times_hessian(&b, from, to);
            for (size_t i = 0; i < 120; i++) rest += pow(to[i] - top.values[k] * from[i], 2);
            assert_close(top.residuals[k], sqrt(rest), 3e-3);
        }
        zest_hessian_free(&top);
    }
}

/* A chosen step is far better than a careless one, on either side. */
static void test_step(void **state) {
    (void)state;
    bowl b;
    double values[MOST], errors[3], steps[3] = {0.5, 0, 1e-6};
    usual_values(60, values);
    make_bowl(&b, 60, values);
    b.quartic = 2, b.fp32 = 1;
    zest_hessian h = hessian_of(&b);
    for (int i = 0; i < 3; i++) {
        zest_hessian_plan plan = {.wanted = 1, .steps = 40, .vectors = 40, .step = steps[i]};
        zest_hessian_top top;
        assert_fine(zest_hessian_find(&h, &plan, &top, error));
        errors[i] = fabs(top.values[0] - 3);
        zest_hessian_free(&top);
    }
    assert_true(errors[1] < 1e-3);
    assert_true(errors[0] > 10 * errors[1]);
    assert_true(errors[2] > 10 * errors[1]);
}

/* The ladder may begin far above all steps that make sense. */
static void test_step_from_afar(void **state) {
    (void)state;
    bowl b;
    double values[MOST];
    usual_values(60, values);
    make_bowl(&b, 60, values);
    b.quartic = 1e5, b.fp32 = 1;
    zest_hessian h = hessian_of(&b);
    zest_hessian_plan plan = {.wanted = 1, .steps = 40, .vectors = 40};
    zest_hessian_top top;
    h.start = 3;
    assert_fine(zest_hessian_find(&h, &plan, &top, error));
    assert_true(top.disagreement < 0.05 && top.step < 0.01);
    assert_close(top.values[0], 3, 0.05);
    zest_hessian_free(&top);
}

static void test_trace(void **state) {
    (void)state;
    enum { SEEDS = 400 };
    bowl b;
    double values[MOST], exact = 0, covered = 0;
    usual_values(40, values);
    make_bowl(&b, 40, values);
    for (size_t i = 0; i < 40; i++) exact += values[i];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        zest_hessian h = hessian_of(&b);
        zest_hessian_trace trace;
        h.seed = seed;
        assert_fine(zest_hessian_sum(&h, 20, 0.01, &trace, error));
        covered += trace.trace.low <= exact && exact <= trace.trace.high;
        if (!seed) assert_true(trace.trace.high - trace.trace.low < 4);
    }
    /* 95 %, less a little for products of signs not being normal; five standard errors are 5.4 % */
    assert_close(covered / SEEDS, 0.945, 0.06);
}

static void test_products(void **state) {
    (void)state;
    bowl b;
    double values[MOST];
    usual_values(100, values);
    make_bowl(&b, 100, values);
    b.fp32 = 1;
    zest_hessian h = hessian_of(&b);
    zest_hessian_plan plan = {.wanted = 5, .steps = 20, .vectors = 20};
    zest_hessian_top top;
    zest_hessian_trace trace;
    assert_fine(zest_hessian_find(&h, &plan, &top, error));
    assert_fine(zest_hessian_sum(&h, 10, 0, &trace, error));
    assert_true(b.calls <= 2 * zest_hessian_products(&plan, 10, 0));
    zest_hessian_free(&top);
}

/* ---- Vectors in the memory of a device, here of one that only counts ---- */

static int blocks, asked_when_closed;

static void *count_new(zest_device *device, size_t bytes) {
    (void)device;
    blocks++;
    return malloc(bytes);
}

static void count_free(zest_device *device, void *data) {
    (void)device;
    blocks -= data != NULL;
    free(data);
}

static void refuse_free(zest_device *device, void *data) {
    (void)device, (void)data;
    asked_when_closed++;
}

/* The eigenvalues outlive the device whose memory the eigenvectors were in. */
static void test_vectors_before_their_device(void **state) {
    (void)state;
    static const zest_device_table open_table = {.allocate = count_new, .release = count_free},
                                   closed_table = {.release = refuse_free};
    static const zest_forward open_operations = {.device = &open_table},
                              closed_operations = {.device = &closed_table};
    zest_device device = {.operations = &open_operations};
    double values[MOST];
    bowl b;
    usual_values(20, values);
    make_bowl(&b, 20, values);
    zest_hessian h = hessian_of(&b);
    zest_hessian_plan plan = {.wanted = 2, .steps = 10, .vectors = 10};
    for (int forget = 0; forget < 2; forget++) {
        zest_hessian_top top;
        assert_fine(zest_hessian_find(&h, &plan, &top, error));
        zest_lanczos_forget(&top.process);
        top.process.space.device = &device;
        top.vectors = top.process.vectors = zest_vector_floats(&top.process.space, 2);
        assert_int_equal(blocks, 1);
        if (forget) zest_hessian_forget(&top);
        if (forget) assert_null(top.vectors);
        if (forget) device.operations = &closed_operations;
        assert_true(top.values[0] > 0);
        zest_hessian_free(&top);
        assert_int_equal(blocks, 0);
        assert_int_equal(asked_when_closed, 0);
    }
}

/* ---- Nearby ---- */

static zest_neighbourhood_job nearby_job(bowl *b, zest_distribution distribution, const double *radii,
                                         size_t count, size_t samples) {
    return (zest_neighbourhood_job){.losses = bowl_losses,
                                    .user = b,
                                    .dimension = b->d,
                                    .distribution = distribution,
                                    .radii = radii,
                                    .radius_count = count,
                                    .samples = samples,
                                    .seed = 17,
                                    .group = 16,
                                    .ops = zest_ops_for(ZEST_CPU_PLAIN)};
}

/* E v_i^2 and E v_i^2 v_j^2; in closed form for rotation-invariant distributions. */
static void moments(zest_distribution distribution, double d, double *second, double *fourth) {
    *second = distribution == ZEST_BALL ? d / (d + 2) : 1;
    *fourth = distribution == ZEST_GAUSSIAN ? 1
              : distribution == ZEST_SPHERE ? d / (d + 2)
                                            : d * d / ((d + 2) * (d + 4));
}

static void test_nearby_closed_form(void **state) {
    (void)state;
    enum { SAMPLES = 20000, D = 12 };
    static const zest_distribution distributions[] = {ZEST_GAUSSIAN, ZEST_SPHERE, ZEST_BALL};
    bowl b;
    double values[MOST], radii[2] = {0.5, 2}, trace = 0, square = 0, slope = 0;
    double *losses = malloc(2 * SAMPLES * sizeof *losses), *scratch = malloc(SAMPLES * sizeof *scratch);
    usual_values(D, values);
    make_bowl(&b, D, values);
    for (size_t i = 0; i < D; i++)
        trace += values[i], square += values[i] * values[i], slope += b.g[i] * b.g[i];
    for (size_t i = 0; i < 3; i++) {
        zest_neighbourhood_job job = nearby_job(&b, distributions[i], radii, 2, SAMPLES);
        assert_fine(zest_neighbourhood_measure(&job, losses, error));
        double second, fourth;
        moments(distributions[i], D, &second, &fourth);
        for (size_t r = 0; r < 2; r++) {
            zest_neighbourhood p;
            double rho = radii[r] / sqrt(D), mean = b.loss + rho * rho / 2 * trace * second,
                   quadratic = fourth * (trace * trace + 2 * square) - second * second * trace * trace,
                   sd = sqrt(rho * rho * slope * second + pow(rho, 4) / 4 * quadratic), highest = -HUGE_VAL;
            zest_neighbourhood_sum(&job, r, losses, 0, scratch, &p);
            assert_close(p.mean.value, mean, 5 * sd / sqrt(SAMPLES));
            assert_close((p.mean.high - p.mean.low) / 2, 1.96 * sd / sqrt(SAMPLES), 0.1 * sd / sqrt(SAMPLES));
            assert_close(log(p.spread.value / sd), 0, 5 / 1.96 * log(p.spread.high / p.spread.value));
            assert_true(p.spread.high / p.spread.low < 1.06);
            assert_close(p.rho, rho, 1e-15);
            for (size_t s = 0; s < SAMPLES; s++) highest = fmax(highest, losses[r * SAMPLES + s]);
            assert_true(p.highest == highest && p.highest > p.mean.value + 2 * sd);
            assert_true(p.tilted.value == p.mean.value || fabs(p.tilted.value - p.mean.value) < 1e-12);
        }
    }
    free(losses);
    free(scratch);
}

/* F_t = f + R_t for a quadratic: the theory of this library knows it. */
static void test_nearby_tilted(void **state) {
    (void)state;
    enum { SAMPLES = 40000, D = 6 };
    bowl b;
    double values[MOST], radius = 1.2, exact, g[MOST];
    double *losses = malloc(SAMPLES * sizeof *losses), *scratch = malloc(SAMPLES * sizeof *scratch);
    zest_ctx *ctx = test_context();
    usual_values(D, values);
    make_bowl(&b, D, values);
    turn(&b, b.g, g); /* the slope along the eigenvectors */
    zest_landscape landscape = {values, g, D, D, radius / sqrt(D)};
    for (int ball = 0; ball < 2; ball++)
        for (int strong = 0; strong < 2; strong++) {
            double t = strong ? 0.5 : 0.05;
            zest_sharpness sharpness;
            zest_neighbourhood p;
            zest_neighbourhood_job job =
                nearby_job(&b, ball ? ZEST_BALL : ZEST_GAUSSIAN, &radius, 1, SAMPLES);
            assert_fine(zest_neighbourhood_measure(&job, losses, error));
            zest_neighbourhood_sum(&job, 0, losses, t, scratch, &p);
            if (ball) {
                assert_ok(ctx, zest_theory_ball(ctx, &landscape, t, &sharpness, NULL));
                exact = sharpness.value;
            } else {
                assert_ok(ctx, zest_theory_gaussian(ctx, &landscape, t, &exact, NULL));
            }
            assert_close(p.tilted.value, b.loss + exact, 5 / 1.96 * (p.tilted.high - p.tilted.value));
            assert_true(p.tilted.high - p.tilted.value < 0.02);
            assert_true(p.effective > 1000 && p.effective < SAMPLES);
            assert_true(p.tilted.value > p.mean.value && p.tilted.value < p.highest);
        }
    free(losses);
    free(scratch);
    zest_ctx_free(ctx);
}

static void test_nearby_coverage(void **state) {
    (void)state;
    enum { SEEDS = 600, SAMPLES = 40, D = 12 };
    bowl b;
    double values[MOST], radius = 1, trace = 0, square = 0, slope = 0, losses[SAMPLES], scratch[SAMPLES];
    double mean_covered = 0, sd_covered = 0;
    usual_values(D, values);
    make_bowl(&b, D, values);
    for (size_t i = 0; i < D; i++)
        trace += values[i], square += values[i] * values[i], slope += b.g[i] * b.g[i];
    double rho = radius / sqrt(D), mean = b.loss + rho * rho / 2 * trace,
           sd = sqrt(rho * rho * slope + pow(rho, 4) / 2 * square);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        zest_neighbourhood p;
        zest_neighbourhood_job job = nearby_job(&b, ZEST_GAUSSIAN, &radius, 1, SAMPLES);
        job.seed = seed;
        assert_fine(zest_neighbourhood_measure(&job, losses, error));
        zest_neighbourhood_sum(&job, 0, losses, 1, scratch, &p);
        mean_covered += p.mean.low <= mean && mean <= p.mean.high;
        sd_covered += p.spread.low <= sd && sd <= p.spread.high;
    }
    assert_close(mean_covered / SEEDS, 0.95, 0.045);
    assert_close(sd_covered / SEEDS, 0.93, 0.06); /* 40 samples know little of their tails */
}

static void test_nearby_groups_and_pairs(void **state) {
    (void)state;
    enum { SAMPLES = 30, D = 20 };
    bowl b;
    double values[MOST], radii[3] = {1, 2, 3}, first[3 * SAMPLES], other[3 * SAMPLES], scratch[SAMPLES];
    static const size_t groups[] = {1, 2, 7, 64, 1000};
    usual_values(D, values);
    make_bowl(&b, D, values);
    for (int antithetic = 0; antithetic < 2; antithetic++)
        for (size_t g = 0; g < 5; g++) {
            zest_neighbourhood_job job =
                nearby_job(&b, ZEST_BALL, radii, 3, SAMPLES - 1 + (size_t)antithetic);
            job.group = groups[g];
            job.antithetic = antithetic;
            job.threads = (int)(g % 3);
            memset(other, 0, sizeof other);
            assert_fine(zest_neighbourhood_measure(&job, other, error));
            if (!g) memcpy(first, other, sizeof first);
            assert_memory_equal(first, other, sizeof first);
        }
    /* a pair knows the mean of a plane without error */
    for (size_t i = 0; i < D; i++) b.values[i] = 0;
    zest_neighbourhood_job job = nearby_job(&b, ZEST_SPHERE, radii, 3, SAMPLES);
    zest_neighbourhood p;
    job.antithetic = 1;
    assert_fine(zest_neighbourhood_measure(&job, first, error));
    zest_neighbourhood_sum(&job, 2, first, 1, scratch, &p);
    assert_close(p.mean.value, b.loss, 1e-14);
    assert_close(p.mean.high, b.loss, 1e-14);
    assert_true(p.spread.value > 0.1 && isnan(p.spread.low));
}

static void test_nearby_differences(void **state) {
    (void)state;
    enum { SAMPLES = 50, D = 20 };
    bowl a, b;
    double values[MOST], radius = 1, losses[2][SAMPLES], scratch[SAMPLES];
    usual_values(D, values);
    make_bowl(&a, D, values);
    make_bowl(&b, D, values);
    b.loss += 0.125;
    zest_neighbourhood_job job = nearby_job(&a, ZEST_SPHERE, &radius, 1, SAMPLES);
    assert_fine(zest_neighbourhood_measure(&job, losses[0], error));
    job.user = &b;
    assert_fine(zest_neighbourhood_measure(&job, losses[1], error));
    zest_estimate apart = zest_neighbourhood_difference(losses[1], losses[0], SAMPLES, 0, scratch);
    assert_close(apart.value, 0.125, 1e-14);
    assert_true(apart.high - apart.low < 1e-13); /* the same perturbations: no noise is left */
    losses[1][3] = NAN;
    losses[1][9] = HUGE_VAL;
    zest_neighbourhood p;
    zest_neighbourhood_sum(&job, 0, losses[1], 1, scratch, &p);
    assert_int_equal(p.bad, 2);
    assert_true(isfinite(p.mean.value) && isfinite(p.highest));
}

/* ---- Without slopes ---- */

static void test_curvature(void **state) {
    (void)state;
    bowl b;
    double values[MOST], exact = 0, radius = 1;
    usual_values(50, values);
    for (size_t i = 0; i < 50; i++) exact += values[i];
    make_bowl(&b, 50, values);
    b.quartic = 10;
    zest_neighbourhood_job job = nearby_job(&b, ZEST_GAUSSIAN, &radius, 1, 2);
    zest_curvature c;
    assert_fine(zest_curvature_measure(&job, 400, 0, &c, error));
    assert_close(c.trace.value, exact, 5 / 1.96 * (c.trace.high - c.trace.value));
    assert_true(c.trace.high - c.trace.low < 2);
    assert_true(c.disagreement < 1e-3 && c.step > 0);
    zest_curvature careless; /* sum z_i^4 = d: the quartic adds 2·10·50 h^2 */
    assert_fine(zest_curvature_measure(&job, 400, 0.1, &careless, error));
    assert_close(careless.trace.value - c.trace.value, 10, 0.2);
}

/* ---- Slices ---- */

static zest_status slice_loss(void *user, double x, double y, double *loss, zest_error *error) {
    const bowl *b = user;
    double e[MOST] = {x, y};
    (void)error;
    *loss = bowl_at(b, e);
    return ZEST_OK;
}

static void test_slice(void **state) {
    (void)state;
    bowl b;
    double values[MOST];
    usual_values(2, values);
    make_bowl(&b, 2, values);
    for (int dimensions = 1; dimensions <= 2; dimensions++) {
        zest_slice s = {.dimensions = dimensions, .points = 10, .span = 0.5};
        assert_fine(zest_slice_measure(&s, slice_loss, &b, error));
        assert_int_equal(s.points, 11);
        assert_true(s.places[0] == -0.5 && s.places[5] == 0 && s.places[10] == 0.5);
        assert_true(s.values[dimensions == 2 ? 5 * 11 + 5 : 5] == b.loss);
        double corner[2] = {0.5, dimensions == 2 ? -0.5 : 0};
        assert_close(s.values[10], bowl_at(&b, corner), 1e-15);
        zest_slice_free(&s);
    }
    zest_slice s = {.dimensions = 3, .points = 11, .span = 1};
    assert_int_equal(zest_slice_measure(&s, slice_loss, &b, NULL), ZEST_ERROR_ARGUMENT);
    zest_slice_free(&s);
}

/* ---- Statistics ---- */

static void test_statistics(void **state) {
    (void)state;
    assert_close(zest_statistics_student(1), 12.7062, 1e-4);
    assert_close(zest_statistics_student(5), 2.57058, 5e-3);
    assert_close(zest_statistics_student(10), 2.22814, 5e-4);
    assert_close(zest_statistics_student(30), 2.04227, 1e-4);
    assert_close(zest_statistics_student(499), 1.96473, 1e-4);
    double values[4] = {1000, 1001, 1003, 1002}, effective;
    zest_estimate mean = zest_statistics_mean(values, 4);
    assert_close(mean.value, 1001.5, 1e-12);
    assert_close(mean.high - mean.value, 3.18245 * sqrt(5.0 / 3 / 4), 1e-4);
    zest_estimate tilted = zest_statistics_tilted(values, 4, 1, 1e6, &effective); /* no overflow */
    assert_close(tilted.value, 1003 - log(4) / 1e6, 1e-9);
    assert_close(effective, 1, 1e-12);
    tilted = zest_statistics_tilted(values, 4, 1, 0, &effective);
    assert_close(tilted.value, mean.value, 1e-12);
    assert_close(tilted.high, mean.high, 1e-9);
    assert_close(effective, 4, 1e-12);
    assert_true(isnan(zest_statistics_mean(values, 0).value) && isnan(zest_statistics_mean(values, 1).low));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symmetric_known),
        cmocka_unit_test(test_symmetric_random),
        cmocka_unit_test(test_lanczos_spectra),
        cmocka_unit_test(test_lanczos_multiplicity),
        cmocka_unit_test(test_lanczos_restarts),
        cmocka_unit_test(test_hessian_top),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_step_from_afar),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_vectors_before_their_device),
        cmocka_unit_test(test_nearby_closed_form),
        cmocka_unit_test(test_nearby_tilted),
        cmocka_unit_test(test_nearby_coverage),
        cmocka_unit_test(test_nearby_groups_and_pairs),
        cmocka_unit_test(test_nearby_differences),
        cmocka_unit_test(test_curvature),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
