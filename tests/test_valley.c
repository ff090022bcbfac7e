/* The valley: its closed forms, and what docs/toys.md says of the runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

#include "lab/toys/valley.h"
#include "zest_theory.h"

static double value(double x, double y, double s) { return zest_valley((double[3]){x, y, s}, 3, NULL); }

/* Eigenvalues 10 (1 +- tanh s) and 0 on the floor, by differences; a sum of valleys. */
static void the_floor_has_the_eigenvalues(void **state) {
    (void)state;
    double const h = 1e-4;
    for (double s = -3; s <= 3; s += 0.75) {
        double const xx = 2 * value(h, 0, s) / (h * h), yy = 2 * value(0, h, s) / (h * h);
        assert_close(xx, 10 * (1 + tanh(s)), 1e-6);
        assert_close(xx + yy, 20, 1e-6);
        assert_close(zest_valley_curvature(s), fmax(xx, yy), 1e-6);
        assert_true(value(0, 0, s) == 0);
    }
    assert_close(zest_valley_curvature(0), 10, 0);
    assert_close(zest_valley((double[6]){0.1, 0.2, 0.3, -1, 2, -0.5}, 6, NULL),
                 value(0.1, 0.2, 0.3) + value(-1, 2, -0.5), 1e-15);
}

/* E f = 10 rho^2 on the floor, whatever s. */
static void the_average_is_the_same_everywhere(void **state) {
    (void)state;
    for (double rho = 0.05; rho < 2; rho *= 2)
        for (double s = -4; s <= 4; s += 0.5) {
            double const x[3] = {0, 0, s};
            assert_close(zest_valley_tilted(0, rho, x) / (10 * rho * rho), 1, 1e-13);
            assert_close(zest_valley_tilted(1e-9, rho, x) / (10 * rho * rho), 1, 1e-6);
        }
}

/* At the limit, 10 t rho^2 = 1/2, the weight is 2 cosh s, and E cosh(s + rho u) = cosh(s) exp(rho^2/2). */
static void the_limit_has_a_closed_form(void **state) {
    (void)state;
    for (double rho = 0.125; rho <= 1; rho *= 2)
        for (double s = -2; s <= 2; s += 0.5) {
            double const t = zest_valley_limit(rho), x[3] = {0, 0, s};
            assert_close(zest_valley_tilted(t, rho, x), (log(2 * cosh(s)) + rho * rho / 2) / t, 1e-9 / t);
            assert_close(zest_valley_slope(t, rho, s), tanh(s) / t, 1e-9 / t);
            assert_true(isinf(zest_valley_tilted(1.001 * t, rho, x)));
            assert_true(isnan(zest_valley_slope(1.001 * t, rho, s)));
        }
    assert_close(zest_valley_limit(0.2), 1.25, 1e-14);
}

/* Where s hardly moves, F_t is Theorem 4.1's: f, slope and eigenvalues of a quadratic. */
static void small_perturbations_agree_with_the_theorem(void **state) {
    (void)state;
    double const rho = 1e-4;
    zest_ctx *ctx = test_context();
    for (double part = 0.1; part < 1; part += 0.2)
        for (double s = -1.5; s <= 1.5; s += 0.5) {
            double const t = part * zest_valley_limit(rho), x[3] = {2e-5, -1e-4, s};
            double const values[2] = {10 * (1 + tanh(s)), 10 * (1 - tanh(s))};
            double const slopes[2] = {values[0] * x[0], values[1] * x[1]};
            zest_landscape const landscape = {
                .eigenvalues = values, .gradient = slopes, .count = 2, .dimension = 2, .rho = rho};
            double sharpness;
            assert_ok(ctx, zest_theory_gaussian(ctx, &landscape, t, &sharpness, NULL));
            double const expected = zest_valley(x, 3, NULL) + sharpness;
            assert_close(zest_valley_tilted(t, rho, x) / expected, 1, 1e-5);
        }
    zest_ctx_free(ctx);
}

/* Off the floor, against the trapezoid rule in three dimensions. */
static void the_tilted_loss_agrees_with_a_plain_sum(void **state) {
    (void)state;
    double const rho = 0.2, t = 0.3, x[3] = {0.15, -0.1, 0.7}, h = 0.4;
    double sum = 0;
    enum { REACH = 17 };
    for (int i = -REACH; i <= REACH; i++)
        for (int j = -REACH; j <= REACH; j++)
            for (int l = -REACH; l <= REACH; l++)
                sum += exp(-0.5 * h * h * (i * i + j * j + l * l) +
                           t * value(x[0] + rho * h * i, x[1] + rho * h * j, x[2] + rho * h * l));
    sum *= pow(h / sqrt(2 * 3.14159265358979323846), 3);
    assert_close(zest_valley_tilted(t, rho, x), log(sum) / t, 1e-7);
}

static void the_tilted_loss_is_least_at_zero(void **state) {
    (void)state;
    double const rho = 0.2, h = 1e-4;
    for (double t = 0.1; t < 1.25; t += 0.2) {
        double before = zest_valley_tilted(t, rho, (double[3]){0});
        for (double s = 0.25; s <= 3; s += 0.25) {
            double const here = zest_valley_tilted(t, rho, (double[3]){0, 0, s});
            assert_true(here > before);
            assert_close(here, zest_valley_tilted(t, rho, (double[3]){0, 0, -s}), 1e-13);
            double const up = zest_valley_tilted(t, rho, (double[3]){0, 0, s + h}),
                         down = zest_valley_tilted(t, rho, (double[3]){0, 0, s - h});
            assert_close(zest_valley_slope(t, rho, s), (up - down) / (2 * h), 1e-7);
            before = here;
        }
    }
}

/* ---- Runs ---- */

static zest_valley_point end_of(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                                double *effective) {
    zest_valley_point points[ZEST_VALLEY_SHOWN + 1];
    zest_valley_trace trace = {.points = points, .count = zest_valley_points(settings->steps)};
    zest_error error = {0};
    if (zest_valley_run(settings, method, seed, &trace, &error)) fail_msg("%s", error.message);
    assert_close(points[0].curvature, zest_valley_curvature(settings->start[2]), 1e-12);
    if (effective) *effective = trace.effective;
    return points[trace.count - 1];
}

/* MeZO stays, ZEST takes almost half of the largest eigenvalue away. */
static void only_the_tilt_finds_the_flat_place(void **state) {
    (void)state;
    zest_toy_settings settings;
    zest_toy_preset(ZEST_TOY_VALLEY, 0, &settings);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        double effective;
        zest_valley_point const mezo = end_of(&settings, ZEST_TOY_MEZO, seed, &effective);
        assert_true(mezo.step == 3000 && effective == 5);
        assert_close(mezo.curvature, 19.05, 0.6);
        for (int method = ZEST_TOY_ZEST_N; method <= ZEST_TOY_ZEST_BC; method++) {
            zest_valley_point const end = end_of(&settings, (zest_toy_method)method, seed, &effective);
            assert_true(end.curvature < 12.5);
            assert_true(effective > 3 && effective < 5);
        }
    }
}

/* With many valleys the losses of a step differ more, and fewer pairs carry it: a smaller tilt is needed. */
static void many_valleys_need_many_directions(void **state) {
    (void)state;
    enum { PAIRS = 2000 };
    zest_toy_settings settings;
    zest_error error = {0};
    size_t const k[] = {5, 50, 500};
    double one[3], many[3], weak[3];
    zest_toy_preset(ZEST_TOY_VALLEY, 0, &settings);
    assert_int_equal(zest_valley_effective(&settings, 1, PAIRS, 3, k, one, &error), 0);
    settings.valleys = 100;
    assert_int_equal(zest_valley_effective(&settings, 1, PAIRS, 3, k, many, &error), 0);
    settings.t = 0.1; /* the spread of the losses grows like the square root of the valleys */
    assert_int_equal(zest_valley_effective(&settings, 1, PAIRS, 3, k, weak, &error), 0);
    assert_true(one[0] > 3.5 && one[1] > 25 && one[2] > 150);
    assert_true(many[0] < 1.6 && many[1] < 4 && many[2] < 10);
    assert_true(weak[0] > 3.8 && weak[1] > 35 && weak[2] > 350);
    settings.steps = 20, settings.lr = 0.001, settings.t = 1;
    double effective;
    end_of(&settings, ZEST_TOY_ZEST_N, 1, &effective);
    assert_true(effective < 1.8);
}

static void runs_repeat_and_refuse(void **state) {
    (void)state;
    zest_toy_settings settings;
    zest_error error = {0};
    zest_toy_preset(ZEST_TOY_VALLEY, 0, &settings);
    settings.steps = 30, settings.valleys = 3;
    zest_valley_point const a = end_of(&settings, ZEST_TOY_ZEST_BC, 5, NULL),
                            b = end_of(&settings, ZEST_TOY_ZEST_BC, 5, NULL),
                            c = end_of(&settings, ZEST_TOY_ZEST_BC, 6, NULL);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.s != c.s);
    settings.lr = 1e200; /* f leaves the numbers: a result, too */
    assert_true(isnan(end_of(&settings, ZEST_TOY_MEZO, 1, NULL).curvature));
    settings.distribution = "nonsense";
    zest_valley_point points[31];
    zest_valley_trace trace = {.points = points, .count = 31};
    assert_int_equal(zest_valley_run(&settings, ZEST_TOY_MEZO, 1, &trace, &error), ZEST_ERROR_ARGUMENT);
    assert_true(strlen(error.message) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_floor_has_the_eigenvalues),
        cmocka_unit_test(the_average_is_the_same_everywhere),
        cmocka_unit_test(the_limit_has_a_closed_form),
        cmocka_unit_test(small_perturbations_agree_with_the_theorem),
        cmocka_unit_test(the_tilted_loss_agrees_with_a_plain_sum),
        cmocka_unit_test(the_tilted_loss_is_least_at_zero),
        cmocka_unit_test(only_the_tilt_finds_the_flat_place),
        cmocka_unit_test(many_valleys_need_many_directions),
        cmocka_unit_test(runs_repeat_and_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
