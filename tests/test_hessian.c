/* Eigenvalues and traces that are known. Statistical tests allow five standard errors (a false alarm in about
 * two million), with seeds that are fixed anyway. */
#include "lab/sharpness/sharpness_internal.h"
#include "tests/bowl.h"

/* ---- Small matrices ---- */

static void test_symmetric_known(void **state) {
    (void)state;
    enum { N = 30 };
    double a[N * N] = {0}, values[N], vectors[N * N];
    for (size_t i = 0; i < N; i++) {
        a[i * N + i] = 2;
        if (i) a[i * N + i - 1] = a[(i - 1) * N + i] = -1;
    }
    assert_true(zest_lanczos_solve_small(a, N, values, vectors));
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
    assert_true(zest_lanczos_solve_small(a, N, values, vectors));
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
    assert_false(zest_lanczos_solve_small(a, N, values, vectors));
}

/* ---- Lanczos ---- */

static zest_lanczos_job lanczos_job(bowl *b, size_t wanted, size_t steps, size_t vectors) {
    return (zest_lanczos_job){.multiply = bowl_multiply,
                              .user = b,
                              .dimension = b->d,
                              .requested = wanted,
                              .steps = steps,
                              .vectors = vectors,
                              .tolerance = 1e-5,
                              .seed = 7,
                              .ops = zest_vector_ops_for(ZEST_CPU_PLAIN)};
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
    check_lanczos(values, 150, 5, 300, zest_lanczos_min_vectors(5), 5e-4);
    make_bowl(&b, 150, values);
    zest_lanczos_job job = lanczos_job(&b, 5, 300, 20);
    assert_fine(zest_lanczos_run(&job, &r, error));
    assert_true(r.restarts > 0);
    zest_lanczos_free(&r);
    job = lanczos_job(&b, 5, 300, 6); /* too few vectors */
    assert_int_equal(zest_lanczos_run(&job, &r, NULL), ZEST_ERROR_ARGUMENT);
    zest_lanczos_free(&r);
    job = lanczos_job(&b, 5, 3, 3); /* too few steps: fewer values, and not settled */
    assert_fine(zest_lanczos_run(&job, &r, error));
    assert_int_equal(r.count, 3);
    assert_false(r.converged);
    zest_lanczos_free(&r);
}

/* ---- The Hessian from gradients ---- */

static zest_hessian hessian_of(bowl *b) {
    return (zest_hessian){.gradient = bowl_slope,
                          .user = b,
                          .dimension = b->d,
                          .start = 1,
                          .ops = zest_vector_ops_for(ZEST_CPU_PLAIN),
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
        zest_hessian_plan plan = {.requested = 4, .steps = 60, .vectors = 60};
        zest_hessian_top top;
        assert_fine(zest_hessian_find(&h, &plan, &top, error));
        double sorted[MOST];
        memcpy(sorted, values, sizeof sorted);
        qsort(sorted, 120, sizeof *sorted, descending);
        assert_true(top.converged && top.disagreement < 1e-3);
        for (size_t k = 0; k < 4; k++) {
            double rest = 0;
            assert_close(top.values[k], sorted[k], 3e-3);
            assert_close(top.rechecked[k], top.values[k], 3e-3);
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
        zest_hessian_plan plan = {.requested = 1, .steps = 40, .vectors = 40, .step = steps[i]};
        zest_hessian_top top;
        assert_fine(zest_hessian_find(&h, &plan, &top, error));
        errors[i] = fabs(top.values[0] - 3);
        zest_hessian_free(&top);
    }
    assert_true(errors[1] < 1e-3);
    assert_true(errors[0] > 10 * errors[1]);
    assert_true(errors[2] > 10 * errors[1]);
}

/* The first step may be far above all that make sense. */
static void test_step_from_afar(void **state) {
    (void)state;
    bowl b;
    double values[MOST];
    usual_values(60, values);
    make_bowl(&b, 60, values);
    b.quartic = 1e5, b.fp32 = 1;
    zest_hessian h = hessian_of(&b);
    zest_hessian_plan plan = {.requested = 1, .steps = 40, .vectors = 40};
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

static void test_gemm(void **state) {
    (void)state;
    bowl b;
    double values[MOST];
    usual_values(100, values);
    make_bowl(&b, 100, values);
    b.fp32 = 1;
    zest_hessian h = hessian_of(&b);
    zest_hessian_plan plan = {.requested = 5, .steps = 20, .vectors = 20};
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
    static const zest_ops open_operations = {.device = &open_table},
                          closed_operations = {.device = &closed_table};
    zest_device device = {.operations = &open_operations};
    double values[MOST];
    bowl b;
    usual_values(20, values);
    make_bowl(&b, 20, values);
    zest_hessian h = hessian_of(&b);
    zest_hessian_plan plan = {.requested = 2, .steps = 10, .vectors = 10};
    for (int forget = 0; forget < 2; forget++) {
        zest_hessian_top top;
        assert_fine(zest_hessian_find(&h, &plan, &top, error));
        zest_lanczos_free_vectors(&top.process);
        top.process.space.device = &device;
        top.vectors = top.process.vectors = zest_vector_floats(&top.process.space, 2);
        assert_int_equal(blocks, 1);
        if (forget) zest_hessian_free_vectors(&top);
        if (forget) assert_null(top.vectors);
        if (forget) device.operations = &closed_operations;
        assert_true(top.values[0] > 0);
        zest_hessian_free(&top);
        assert_int_equal(blocks, 0);
        assert_int_equal(asked_when_closed, 0);
    }
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
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_vectors_before_their_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
