/* R_t under Gaussian and ball perturbation against quadrature, finite differences and Monte Carlo. A test
 * that guards against a slip of the paper says so; docs/theory.md lists them. */
#include "tests/theory.h"

/* ---- Gaussian ---- */

static double gaussian_density(const zest_landscape *l, double t, double u) {
    return exp(t * model(l, &u) - u * u / 2) / sqrt(2 * PI);
}

static void gaussian_agrees_with_quadrature(void **state) {
    (void)state;
    const double cases[][3] = {{0.7, 0.5, 0.9}, {-2, 1.5, 3}, {0, 1, 0.4}, {1.2, -0.3, 0.5}};
    for (size_t j = 0; j < 4; j++) {
        zest_landscape l = {&cases[j][0], &cases[j][1], 1, 1, 0.8};
        double t = cases[j][2], mean = simpson(gaussian_density, &l, t, -60, 60, 200000);
        assert_relative(gaussian(&l, t, NULL), log(mean) / t, 1e-12);
    }
}

/* Slip 1: the paper's phi_i has 1 - t rho^2 g_i in its inner denominator. */
static void gaussian_sensitivity_is_the_derivative(void **state) {
    (void)state;
    double lambda[] = {1.1, 0.3, -0.9}, g[] = {0.7, -0.4, 0.5}, phi[3];
    zest_landscape l = {lambda, g, 3, 10, 0.6};
    double t = 1.3, rho2 = 0.36;
    gaussian(&l, t, phi);
    for (int i = 0; i < 3; i++) {
        double kept = lambda[i], h = 1e-5;
        lambda[i] = kept + h;
        double up = gaussian(&l, t, NULL);
        lambda[i] = kept - h;
        double difference = (up - gaussian(&l, t, NULL)) / (2 * h);
        lambda[i] = kept;
        assert_relative(phi[i], difference, 1e-8);
        double printed =
            rho2 / (2 * (1 - t * rho2 * kept)) * (t * t * rho2 * g[i] * g[i] / (1 - t * rho2 * g[i]) + 1);
        assert_true(fabs(printed - difference) > 1e-3 * difference);
    }
}

static void gaussian_is_accurate_for_tiny_tilt(void **state) {
    (void)state;
    double lambda[] = {2, -0.5}, g[] = {1, 2};
    zest_landscape l = {lambda, g, 2, 2, 0.5};
    double average = 0.125 * 1.5, grow = 0.25 * 5 / 2 + 0.0625 * 4.25 / 4; /* R_0, and dR/dt at 0 */
    assert_relative(gaussian(&l, 0, NULL), average, 1e-15);
    for (double t = 1e-16; t < 1e-5; t *= 10)
        assert_close(gaussian(&l, t, NULL), average + t * grow, 4e-16 + 10 * t * t);
}

/* Slip 2: "as t increases, the sensitivity increases" is untrue where lambda_i < 0. */
static void gaussian_sensitivity_falls_for_negative_eigenvalues(void **state) {
    (void)state;
    double lambda[] = {1, -1}, g[] = {0.1, 0.1}, early[2], late[2];
    zest_landscape l = {lambda, g, 2, 2, 0.5};
    gaussian(&l, 0.5, early);
    gaussian(&l, 2, late);
    assert_true(late[0] > early[0] && late[1] < early[1]);
}

static void gaussian_names_the_largest_tilt(void **state) {
    (void)state;
    double lambda[] = {0.5, 2.5}, negative[] = {-1, -2}, value, limit;
    zest_landscape l = {lambda, NULL, 2, 2, 0.4}, down = {negative, NULL, 2, 2, 0.4};
    assert_int_equal(zest_theory_gaussian_limit(ctx, &l, &limit), ZEST_OK);
    assert_relative(limit, 2.5, 1e-15);
    assert_int_equal(zest_theory_gaussian(ctx, &l, 2.499, &value, NULL), ZEST_OK);
    assert_int_equal(zest_theory_gaussian(ctx, &l, 2.501, &value, NULL), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(zest_ctx_error(ctx), "below 2.5,"));
    assert_int_equal(zest_theory_gaussian_limit(ctx, &down, &limit), ZEST_OK);
    assert_true(isinf(limit));
}

/* ---- Ball, finite t: quadrature in one, two and three dimensions ---- */

static double interval(const zest_landscape *l, double t, double u) { return exp(t * model(l, &u)) / 2; }
static double interval_moment(const zest_landscape *l, double t, double u) {
    return u * u * interval(l, t, u);
}

static void ball_agrees_with_quadrature_in_one_dimension(void **state) {
    (void)state;
    const double tilts[] = {1e-3, 0.1, 0.5, 0.9, 2, 10, 80},
                 cases[][2] = {{2, 0.3}, {-3, 0.4}, {1, 0}, {0, 1.5}};
    for (size_t j = 0; j < 28; j++) {
        zest_landscape l = {&cases[j % 4][0], &cases[j % 4][1], 1, 1, 0.9};
        double t = tilts[j / 4], mean = simpson(interval, &l, t, -1, 1, 20000), phi;
        assert_close(ball(&l, t, &phi), log(mean) / t, 1e-11 / t * fmax(t, 0.02) + 1e-13);
        assert_relative(phi, 0.405 * simpson(interval_moment, &l, t, -1, 1, 20000) / mean, 1e-10);
    }
    double lambda = 0, g = 1.5;
    zest_landscape slope = {&lambda, &g, 1, 1, 2};
    assert_relative(ball(&slope, 1, NULL), log(sinh(3) / 3), 1e-14); /* E exp(bu) = sinh(b)/b */
}

/* The disc: uniform in angle and in the squared radius. `twist` multiplies the curvature once more, see
 * slip 3. */
static double disc(const zest_landscape *l, double t, double twist) {
    const int angles = 256, rings = 400;
    double sum = 0, curved[] = {twist * l->eigenvalues[0], twist * l->eigenvalues[1]};
    zest_landscape other = {curved, l->gradient, 2, 2, l->rho};
    for (int r = 0; r <= rings; r++)
        for (int k = 0; k < angles; k++) {
            double radius = sqrt(2.0 * r / rings), angle = 2 * PI * k / angles;
            double u[] = {radius * cos(angle), radius * sin(angle)};
            sum += (r == 0 || r == rings ? 1 : r % 2 ? 4 : 2) * exp(t * model(&other, u));
        }
    return log(sum / (3.0 * rings * angles)) / t;
}

/* Slip 3: X = rho g'u + (t rho^2/2) u'Lu in the proof of Theorem 4.2 has a t too many, and phi_i with it. */
static void ball_agrees_with_quadrature_in_two_dimensions(void **state) {
    (void)state;
    double lambda[] = {2.4, 0.4}, g[] = {0.2, -0.5};
    zest_landscape l = {lambda, g, 2, 2, 0.8};
    const double tilts[] = {0.05, 0.3, 0.7, 3, 9};
    for (size_t j = 0; j < 5; j++) {
        double t = tilts[j];
        assert_relative(ball(&l, t, NULL), disc(&l, t, 1), 1e-8);
        assert_true(fabs(disc(&l, t, t) - disc(&l, t, 1)) > 0.05);
    }
}

static void ball_agrees_with_quadrature_in_three_dimensions(void **state) {
    (void)state;
    double lambda[] = {1.5, -2}, g[] = {0.4, 0.6}; /* the third direction is flat */
    zest_landscape l = {lambda, g, 2, 3, 0.7};
    const int angles = 48, heights = 160, rings = 160;
    for (double t = 0.2; t < 8; t *= 3) {
        double sum = 0, weights = 0;
        for (int r = 0; r <= rings; r++)
            for (int z = 0; z <= heights; z++)
                for (int k = 0; k < angles; k++) {
                    double radius = sqrt(3) * r / rings, height = 2.0 * z / heights - 1;
                    double flat = radius * sqrt(1 - height * height), angle = 2 * PI * k / angles;
                    double u[] = {radius * height, flat * cos(angle)};
                    double w = radius * radius *
                               (r == 0 || r == rings ? 1
                                : r % 2              ? 4
                                                     : 2) *
                               (z == 0 || z == heights ? 1
                                : z % 2                ? 4
                                                       : 2);
                    sum += w * exp(t * model(&l, u));
                    weights += w;
                }
        assert_relative(ball(&l, t, NULL), log(sum / weights) / t, 1e-6);
    }
}

/* ---- Ball, finite t: limits, derivatives, order ---- */

/* Slip 4: the proof takes E u_i^2 = d/(2(d+2)); it is d/(d+2), as eq. R0:B needs. */
static void ball_tends_to_the_average(void **state) {
    (void)state;
    double lambda[] = {3, -1, 0.5}, g[] = {1, 2, 0}, phi[3];
    for (uint64_t d = 3; d < 2000000000000; d *= 1000) {
        zest_landscape l = {lambda, g, 3, d, 0.01};
        double factor = 0.5e-4 * (double)d / ((double)d + 2);
        assert_relative(ball(&l, 0, phi), factor * 2.5, 1e-15);
        for (double t = 1e-14; t < 1e-8; t *= 10) {
            assert_close(ball(&l, t, phi), factor * 2.5, 1e-18 + 1e-3 * t);
            for (int i = 0; i < 3; i++) assert_relative(phi[i], factor, 1e-13 + 10 * t);
        }
    }
}

static void ball_sensitivity_is_the_derivative(void **state) {
    (void)state;
    double lambda[] = {1.1, 0.3, -0.9}, g[] = {0.7, -0.4, 0.5}, phi[3];
    const double tilts[] = {0.3, 2, 30};
    const uint64_t dimensions[] = {3, 50, 1000000};
    for (size_t j = 0; j < 9; j++) {
        zest_landscape l = {lambda, g, 3, dimensions[j % 3], 0.6};
        double t = tilts[j / 3];
        ball(&l, t, phi);
        for (int i = 0; i < 3; i++) {
            double kept = lambda[i], h = 1e-5;
            lambda[i] = kept + h;
            double up = ball(&l, t, NULL);
            lambda[i] = kept - h;
            double down = ball(&l, t, NULL);
            lambda[i] = kept;
            assert_close(phi[i], (up - down) / (2 * h), 1e-6 * phi[i] + 1e-9 * fabs(up));
        }
    }
}

/* Slip 5: continuity alone does not make R_t non-decreasing, as the proof has it; Jensen's inequality does. */
static void ball_rises_from_average_to_worst(void **state) {
    (void)state;
    double lambda[] = {0.9, 0.9, -1.5, 0.1}, g[] = {0, 0.3, -1, 1e-9};
    const uint64_t dimensions[] = {4, 5, 300, 1000000000};
    for (size_t j = 0; j < 4; j++) {
        zest_landscape l = {lambda, g, 4, dimensions[j], 1 / sqrt((double)dimensions[j])};
        double last = ball(&l, 0, NULL), top = worst(&l, NULL, NULL).value;
        for (double t = 1e-6; t < 1e13; t *= 1.7) {
            double value = ball(&l, t, NULL);
            assert_true(value >= last - 1e-15 / fmin(t, 1) * 0.01 - 1e-15 && value <= top * (1 + 1e-14));
            last = value;
        }
        /* by Laplace's principle the rest is about d log(t)/t */
        assert_close(last, top, 40.0 * (double)dimensions[j] / 1e13);
    }
}

static void ball_has_no_seam(void **state) {
    (void)state;
    double lambda[] = {1, -0.4}, g[] = {0.3, 0.5}, before[2], after[2];
    const uint64_t dimensions[] = {2, 9, 100000, 4000000000};
    for (size_t j = 0; j < 4; j++) { /* near and far forms meet where sum |a_i| + b_i^2 = 1/2 */
        zest_landscape l = {lambda, g, 2, dimensions[j], 1};
        double seam = (-1.4 + sqrt(1.96 + 2 * 0.34)) / (2 * 0.34);
        double below = ball(&l, seam * (1 - 1e-9), before), above = ball(&l, seam * (1 + 1e-9), after);
        assert_close(above, below, 1e-9);
        assert_close(after[0], before[0], 1e-8);
        assert_close(after[1], before[1], 1e-8);
    }
}

/* The Gaussian is the contour integrand's tilt q at z = 1. In the untilted ball z has mean 1 and variance
 * -2/d, so the difference is (q'' + q'^2)/d to first order. */
static void ball_becomes_gaussian_in_many_dimensions(void **state) {
    (void)state;
    double lambda[] = {2.4, 0.4}, g[] = {0.5, 0.3}, phi[2], wanted[2], t = 60, rho = 0.05, first = 0,
           second = 0;
    for (int i = 0; i < 2; i++) {
        double a = t * rho * rho * lambda[i], bb = t * t * rho * rho * g[i] * g[i];
        first += 0.5 - 0.5 / (1 - a) - bb / 2 / (1 - a) / (1 - a);
        second += 0.5 / (1 - a) / (1 - a) - 0.5 + bb / pow(1 - a, 3);
    }
    for (uint64_t d = 1000000; d < 2000000000000; d *= 100) {
        zest_landscape l = {lambda, g, 2, d, rho};
        double value = gaussian(&l, t, wanted), less = value - ball(&l, t, phi);
        double expected = (second + first * first) / t / (double)d;
        assert_close(less, expected, 1e3 * expected / (double)d + 1e-14 * value);
        assert_relative(phi[0], wanted[0], 200 / (double)d + 1e-13);
    }
}

/* Where the Gaussian ends, at t rho^2 lambda_1 = 1, a large ball changes its state: the share 1 - 1/(t rho^2
 * lambda_1) of its squared radius moves into the first direction. */
static void ball_condenses_beyond_the_gaussian_limit(void **state) {
    (void)state;
    double lambda[] = {80, 12}, phi[2];
    zest_landscape l = {lambda, NULL, 2, 100000000, 1e-4};
    for (double a = 0.25; a < 100; a *= 2) {
        if (a == 1) continue;
        ball(&l, a / 80e-8, phi);
        assert_close(phi[0], a < 1 ? 0 : 0.5 * (1 - 1 / a), 1e-6);
        assert_close(phi[1], 0, 1e-6);
    }
}

/* Slip 6: "as t increases, regularizer sensitivity increases": in the ball sum u_i^2 <= d, so it is shared
 * out anew. */
static void ball_sensitivities_share_a_budget(void **state) {
    (void)state;
    double lambda[] = {2, 1, 0.5}, phi[3];
    zest_landscape l = {lambda, NULL, 3, 3, 1};
    for (double t = 0.01; t < 1e6; t *= 10) {
        ball(&l, t, phi);
        assert_true(phi[0] + phi[1] + phi[2] <= 1.5 && phi[0] + phi[1] + phi[2] >= 0.9);
        assert_true(phi[0] > 0.3 && phi[2] < 0.3); /* d/(d+2)/2 = 0.3 each at t = 0 */
    }
}

/* Each comparison fails by chance once in 1.7 million (5 sigma); there are 36, and the seed is fixed. */
static void ball_agrees_with_monte_carlo(void **state) {
    (void)state;
    double lambda[] = {1.5, -0.7}, g[] = {0.6, 0.4}, phi[2], sampled[2];
    const uint64_t dimensions[] = {2, 3, 17};
    const double tilts[] = {0, 0.2, 2, 6};
    for (size_t j = 0; j < 12; j++) {
        zest_landscape l = {lambda, g, 2, dimensions[j % 3], 1 / sqrt((double)dimensions[j % 3])};
        double t = tilts[j / 3], value = ball(&l, t, phi);
        zest_sharpness estimate;
        assert_int_equal(zest_theory_sampled(ctx, &l, t, 7, 40000, &estimate, sampled), ZEST_OK);
        assert_true(estimate.error > 1e-4 && estimate.error < 0.02 && estimate.effective > 1000);
        assert_close(estimate.value, value, 5 * estimate.error);
        assert_close(sampled[0], phi[0], 5 * estimate.sensitivity_error);
        assert_close(sampled[1], phi[1], 5 * estimate.sensitivity_error);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussian_agrees_with_quadrature),
        cmocka_unit_test(gaussian_sensitivity_is_the_derivative),
        cmocka_unit_test(gaussian_is_accurate_for_tiny_tilt),
        cmocka_unit_test(gaussian_sensitivity_falls_for_negative_eigenvalues),
        cmocka_unit_test(gaussian_names_the_largest_tilt),
        cmocka_unit_test(ball_agrees_with_quadrature_in_one_dimension),
        cmocka_unit_test(ball_agrees_with_quadrature_in_two_dimensions),
        cmocka_unit_test(ball_agrees_with_quadrature_in_three_dimensions),
        cmocka_unit_test(ball_tends_to_the_average),
        cmocka_unit_test(ball_sensitivity_is_the_derivative),
        cmocka_unit_test(ball_rises_from_average_to_worst),
        cmocka_unit_test(ball_has_no_seam),
        cmocka_unit_test(ball_becomes_gaussian_in_many_dimensions),
        cmocka_unit_test(ball_condenses_beyond_the_gaussian_limit),
        cmocka_unit_test(ball_sensitivities_share_a_budget),
        cmocka_unit_test(ball_agrees_with_monte_carlo),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
