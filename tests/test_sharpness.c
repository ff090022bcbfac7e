/* Perturbed losses, curvature and slices of functions for which they are known. Statistical tests allow
 * five standard errors (a false alarm in about two million), with fixed seeds; coverages allow as much. */
#include "lab/sharpness/sharpness_internal.h"
#include "tests/bowl.h"
#include "zest_theory.h"

/* ---- Nearby ---- */

static zest_perturbed_loss_args nearby_job(bowl *b, zest_distribution distribution, const double *radii,
                                           size_t count, size_t samples) {
    return (zest_perturbed_loss_args){.losses = bowl_losses,
                                      .user = b,
                                      .dimension = b->d,
                                      .distribution = distribution,
                                      .radii = radii,
                                      .radius_count = count,
                                      .samples = samples,
                                      .seed = 17,
                                      .group = 16,
                                      .ops = zest_vector_ops_for(ZEST_CPU_PLAIN)};
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
    double values[MOST], radii[2] = {0.5, 2}, trace = 0, square = 0, gradient = 0;
    double *losses = malloc(2 * SAMPLES * sizeof *losses), *scratch = malloc(SAMPLES * sizeof *scratch);
    usual_values(D, values);
    make_bowl(&b, D, values);
    for (size_t i = 0; i < D; i++)
        trace += values[i], square += values[i] * values[i], gradient += b.g[i] * b.g[i];
    for (size_t i = 0; i < 3; i++) {
        zest_perturbed_loss_args job = nearby_job(&b, distributions[i], radii, 2, SAMPLES);
        assert_fine(zest_perturbed_loss_measure(&job, losses, error));
        double second, fourth;
        moments(distributions[i], D, &second, &fourth);
        for (size_t r = 0; r < 2; r++) {
            zest_perturbed_loss p;
            double rho = radii[r] / sqrt(D), mean = b.loss + rho * rho / 2 * trace * second,
                   quadratic = fourth * (trace * trace + 2 * square) - second * second * trace * trace,
                   sd = sqrt(rho * rho * gradient * second + pow(rho, 4) / 4 * quadratic),
                   highest = -HUGE_VAL;
            zest_perturbed_loss_summarize(&job, r, losses, 0, scratch, &p);
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
    turn(&b, b.g, g); /* the gradient along the eigenvectors */
    zest_landscape landscape = {values, g, D, D, radius / sqrt(D)};
    for (int ball = 0; ball < 2; ball++)
        for (int strong = 0; strong < 2; strong++) {
            double t = strong ? 0.5 : 0.05;
            zest_sharpness sharpness;
            zest_perturbed_loss p;
            zest_perturbed_loss_args job =
                nearby_job(&b, ball ? ZEST_BALL : ZEST_GAUSSIAN, &radius, 1, SAMPLES);
            assert_fine(zest_perturbed_loss_measure(&job, losses, error));
            zest_perturbed_loss_summarize(&job, 0, losses, t, scratch, &p);
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
    double values[MOST], radius = 1, trace = 0, square = 0, gradient = 0, losses[SAMPLES], scratch[SAMPLES];
    double mean_covered = 0, sd_covered = 0;
    usual_values(D, values);
    make_bowl(&b, D, values);
    for (size_t i = 0; i < D; i++)
        trace += values[i], square += values[i] * values[i], gradient += b.g[i] * b.g[i];
    double rho = radius / sqrt(D), mean = b.loss + rho * rho / 2 * trace,
           sd = sqrt(rho * rho * gradient + pow(rho, 4) / 2 * square);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        zest_perturbed_loss p;
        zest_perturbed_loss_args job = nearby_job(&b, ZEST_GAUSSIAN, &radius, 1, SAMPLES);
        job.seed = seed;
        assert_fine(zest_perturbed_loss_measure(&job, losses, error));
        zest_perturbed_loss_summarize(&job, 0, losses, 1, scratch, &p);
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
            zest_perturbed_loss_args job =
                nearby_job(&b, ZEST_BALL, radii, 3, SAMPLES - 1 + (size_t)antithetic);
            job.group = groups[g];
            job.antithetic = antithetic;
            job.threads = (int)(g % 3);
            memset(other, 0, sizeof other);
            assert_fine(zest_perturbed_loss_measure(&job, other, error));
            if (!g) memcpy(first, other, sizeof first);
            assert_memory_equal(first, other, sizeof first);
        }
    /* a pair knows the mean of a plane without error */
    for (size_t i = 0; i < D; i++) b.values[i] = 0;
    zest_perturbed_loss_args job = nearby_job(&b, ZEST_SPHERE, radii, 3, SAMPLES);
    zest_perturbed_loss p;
    job.antithetic = 1;
    assert_fine(zest_perturbed_loss_measure(&job, first, error));
    zest_perturbed_loss_summarize(&job, 2, first, 1, scratch, &p);
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
    zest_perturbed_loss_args job = nearby_job(&a, ZEST_SPHERE, &radius, 1, SAMPLES);
    assert_fine(zest_perturbed_loss_measure(&job, losses[0], error));
    job.user = &b;
    assert_fine(zest_perturbed_loss_measure(&job, losses[1], error));
    zest_estimate apart = zest_perturbed_loss_difference(losses[1], losses[0], SAMPLES, 0, scratch);
    assert_close(apart.value, 0.125, 1e-14);
    assert_true(apart.high - apart.low < 1e-13); /* the same perturbations: no noise is left */
    losses[1][3] = NAN;
    losses[1][9] = HUGE_VAL;
    zest_perturbed_loss p;
    zest_perturbed_loss_summarize(&job, 0, losses[1], 1, scratch, &p);
    assert_int_equal(p.bad, 2);
    assert_true(isfinite(p.mean.value) && isfinite(p.highest));
}

/* ---- Without gradients ---- */

static void test_curvature(void **state) {
    (void)state;
    bowl b;
    double values[MOST], exact = 0, radius = 1;
    usual_values(50, values);
    for (size_t i = 0; i < 50; i++) exact += values[i];
    make_bowl(&b, 50, values);
    b.quartic = 10;
    zest_perturbed_loss_args job = nearby_job(&b, ZEST_GAUSSIAN, &radius, 1, 2);
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
        assert_true(s.coefficients[0] == -0.5 && s.coefficients[5] == 0 && s.coefficients[10] == 0.5);
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
