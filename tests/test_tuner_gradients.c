/* The tuner's gradients against closed forms of F_t. */
#include <math.h>
#include <stdio.h>

#include "tests/tuner.h"
#include "zest_theory.h"

/* Theorem 3.1 (1) on quadratics: the gradient of F_t in the eigenbasis is (λ x + g)_i / (1 - tρ²λ_i). With k
 * = 20,000 the naive estimate's bias is far below its noise; the mean over steps must lie within 5 standard
 * errors in every coordinate (false alarm 6e-7 each). Measured as the step that the tuner takes at lr = 1. */
static const double curvatures[4] = {2, 0.5, -1, 0}, slopes[4] = {0.3, -0.7, 0.2, 0.5};

static double quadratic(const double *x, size_t n, void *user) {
    (void)user;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += 0.5 * curvatures[i] * x[i] * x[i] + slopes[i] * x[i];
    return sum;
}

/* Mean and standard error of the gradient estimate at x = (0.4, 0.4, ...) over `steps` steps. */
static void measure_gradient(const char *options, int steps, double mean[4], double error[4]) {
    zest_ctx *ctx = test_context();
    double sum[4] = {0}, squares[4] = {0}, x[4];
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 4);
    set_all(ctx, tuner, options);
    assert_ok(ctx, zest_tuner_objective_f64(tuner, quadratic, NULL));
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < 4; i++) x[i] = 0.4;
        assert_ok(ctx, zest_tuner_step(tuner, NULL));
        for (int i = 0; i < 4; i++) sum[i] += 0.4 - x[i], squares[i] += (0.4 - x[i]) * (0.4 - x[i]);
    }
    for (int i = 0; i < 4; i++) {
        mean[i] = sum[i] / steps;
        error[i] = sqrt((squares[i] / steps - mean[i] * mean[i]) / (steps - 1));
    }
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

static void gaussian_gradients_are_unbiased(void **state) {
    (void)state;
    for (int method = 0; method < 2; method++)
        for (double t = 0; t <= 1; t += 0.5) {
            const double rho = 0.4;
            char options[128];
            double mean[4], error[4];
            snprintf(options, sizeof options, "method=%s t=%g rho=%g lr=1 k=20000",
                     method ? "zest-bc" : "zest-n", t, rho);
            measure_gradient(options, 40 / (TEST_SLOW > 1 ? 4 : 1), mean, error);
            for (int i = 0; i < 4; i++) {
                double exact = (curvatures[i] * 0.4 + slopes[i]) / (1 - t * rho * rho * curvatures[i]);
                assert_close(mean[i], exact,
                             (TEST_SLOW > 1 ? 7 : 5) * error[i]); /* few steps: a wider t quantile */
            }
        }
}

/* Theorem 3.1 (2): sphere above, ball below the fraction. The gradient of F_t on the ball is g_i + λ_i
 * dR_t/dg_i, with R_t by quadrature. The shared denominator of eq. (ss) must miss it in four dimensions, so
 * the test can tell them apart. */
static void ball_form_is_unbiased(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    const double rho = 0.6, t = 2, h = 1e-5;
    double gradient[4], exact[4], mean[4], error[4], worst = 0;
    for (int i = 0; i < 4; i++) gradient[i] = curvatures[i] * 0.4 + slopes[i];
    zest_landscape landscape = {curvatures, gradient, 4, 4, rho};
    for (int i = 0; i < 4; i++) {
        zest_sharpness up, down;
        double middle = gradient[i];
        gradient[i] = middle + h;
        assert_ok(ctx, zest_theory_ball(ctx, &landscape, t, &up, NULL));
        gradient[i] = middle - h;
        assert_ok(ctx, zest_theory_ball(ctx, &landscape, t, &down, NULL));
        gradient[i] = middle;
        exact[i] = middle + curvatures[i] * (up.value - down.value) / (2 * h);
    }
    int steps = 60 / (TEST_SLOW > 1 ? 4 : 1);
    measure_gradient("method=zest-n t=2 rho=0.6 lr=1 k=10000 distribution=sphere denominator=ball", steps,
                     mean, error);
    for (int i = 0; i < 4; i++) assert_close(mean[i], exact[i], (TEST_SLOW > 1 ? 7 : 5) * error[i] + 1e-4);
    measure_gradient("method=zest-n t=2 rho=0.6 lr=1 k=10000 distribution=sphere denominator=shared", steps,
                     mean, error);
    for (int i = 0; i < 4; i++) worst = fmax(worst, fabs(mean[i] - exact[i]) / error[i]);
    assert_true(worst > 20);
    zest_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussian_gradients_are_unbiased),
        cmocka_unit_test(ball_form_is_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
