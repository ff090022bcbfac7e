/* The toys: landscapes against finite differences, F_t against closed forms, and what docs/toys.md says of
 * the runs. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

#include "lab/toys/toy.h"

/* Numbers in [-1, 1) that look random. */
static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(*state >> 11) / 4503599627370496.0 - 1;
}

static void check_gradient(zest_objective_f64 f, void *user, const double x[2], const double gradient[2]) {
    double const step = 1e-6;
    for (int i = 0; i < 2; i++) {
        double a[2] = {x[0], x[1]}, b[2] = {x[0], x[1]};
        a[i] += step, b[i] -= step;
        assert_close(gradient[i], (f(a, 2, user) - f(b, 2, user)) / (2 * step), 1e-7);
    }
}

/* ---- Stationary ---- */

static void test_stationary_values(void **state) {
    (void)state;
    double const sharp[2] = {1, 0}, flat[2] = {-1, 0}, start[2] = {0, 1};
    assert_close(zest_toy_stationary(sharp, 2, NULL), 0, 0);
    assert_close(zest_toy_stationary(flat, 2, NULL), 0, 0);
    assert_close(zest_toy_stationary(start, 2, NULL), 0.8, 1e-15);
    uint64_t random = 1;
    for (int i = 0; i < 100; i++) {
        double const x[2] = {2 * draw(&random), 2 * draw(&random)};
        double gradient[2];
        zest_toy_stationary_gradient(x, gradient);
        check_gradient(zest_toy_stationary, NULL, x, gradient);
    }
}

static void test_stationary_eigenvalues(void **state) {
    (void)state;
    double e[2];
    zest_toy_stationary_eigenvalues((double[2]){1, 0}, e); /* as the paper states them */
    assert_close(e[0], 12.0 / 5, 1e-14);
    assert_close(e[1], 2.0 / 5, 1e-14);
    zest_toy_stationary_eigenvalues((double[2]){-1, 0}, e);
    assert_close(e[0], 10.0 / 5, 1e-14);
    assert_close(e[1], 4.0 / 5, 1e-14);
    double const x[2] = {0.3, -0.7}, step = 1e-5; /* trace and determinant elsewhere */
    double h[2][2];
    for (int i = 0; i < 2; i++) {
        double a[2] = {x[0], x[1]}, b[2] = {x[0], x[1]}, up[2], down[2];
        a[i] += step, b[i] -= step;
        zest_toy_stationary_gradient(a, up);
        zest_toy_stationary_gradient(b, down);
        for (int j = 0; j < 2; j++) h[i][j] = (up[j] - down[j]) / (2 * step);
    }
    zest_toy_stationary_eigenvalues(x, e);
    assert_close(e[0] + e[1], h[0][0] + h[1][1], 1e-8);
    assert_close(e[0] * e[1], h[0][0] * h[1][1] - h[0][1] * h[1][0], 1e-8);
    assert_true(e[0] >= e[1]);
}

static void test_basins(void **state) {
    (void)state;
    assert_int_equal(zest_toy_stationary_basin((double[2]){0.9, 0.2}), ZEST_TOY_SHARP);
    assert_int_equal(zest_toy_stationary_basin((double[2]){0, 1}),
                     ZEST_TOY_SHARP); /* where the paper starts */
    assert_int_equal(zest_toy_stationary_basin((double[2]){0, 0}), ZEST_TOY_FLAT);
    assert_int_equal(zest_toy_stationary_basin((double[2]){-0.9, 0.2}), ZEST_TOY_FLAT);
    assert_int_equal(zest_toy_stationary_basin((double[2]){-3, 0}), ZEST_TOY_LOST);
    assert_int_equal(zest_toy_stationary_basin((double[2]){NAN, 0}), ZEST_TOY_LOST);
}

/* ---- Linear ---- */

static void test_mesh_interpolates(void **state) {
    (void)state;
    zest_toy_mesh mesh = {.width = 0.6, .height = 0.5};
    for (int j = -5; j <= 5; j++)
        for (int i = -5; i <= 5; i++) {
            double const x[2] = {(i + 0.5 * j) * mesh.width, j * mesh.height};
            assert_close(zest_toy_linear(x, 2, &mesh), zest_toy_bowl(x[0], x[1]), 1e-12);
        }
    assert_close(zest_toy_linear((double[2]){0, 0}, 2, &mesh), 0.14, 1e-15);
}

/* Convex and continuous, above h, below by the size of a triangle; the max of the planes. */
static void test_mesh_is_convex(void **state) {
    (void)state;
    zest_toy_mesh mesh = {.width = 0.6, .height = 0.5};
    uint64_t random = 2;
    assert_true(zest_toy_mesh_is_convex(&mesh));
    for (int n = 0; n < 20000; n++) {
        double const a[2] = {2 * draw(&random), 2 * draw(&random)},
                     b[2] = {2 * draw(&random), 2 * draw(&random)};
        double const middle[2] = {0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1])};
        double const fa = zest_toy_linear(a, 2, &mesh), fb = zest_toy_linear(b, 2, &mesh);
        assert_true(zest_toy_linear(middle, 2, &mesh) <= 0.5 * (fa + fb) + 1e-12);
        assert_true(fa >= zest_toy_bowl(a[0], a[1]) - 1e-12 && fa < zest_toy_bowl(a[0], a[1]) + 0.1);
        double slope[2]; /* the plane under b stays below f everywhere: f is the max of its planes */
        zest_toy_linear_gradient(&mesh, b, slope);
        assert_true(fa >= fb + slope[0] * (a[0] - b[0]) + slope[1] * (a[1] - b[1]) - 1e-12);
        double const near[2] = {a[0] + 1e-9, a[1] - 1e-9};
        assert_close(fa, zest_toy_linear(near, 2, &mesh), 1e-7);
    }
    assert_false(zest_toy_mesh_is_convex(&(zest_toy_mesh){.width = 3, .height = 1}));
    assert_false(zest_toy_mesh_is_convex(&(zest_toy_mesh){.width = 1, .height = 0}));
}

static void test_triangles(void **state) {
    (void)state;
    zest_toy_mesh mesh = {.width = 0.3, .height = 0.25};
    uint64_t random = 3;
    for (int n = 0; n < 200; n++) {
        double x[2] = {2 * draw(&random), 2 * draw(&random)}, gradient[2];
        zest_toy_triangle t;
        zest_toy_mesh_triangle(&mesh, x, &t);
        double middle[2] = {(t.x[0] + t.x[1] + t.x[2]) / 3, (t.y[0] + t.y[1] + t.y[2]) / 3};
        zest_toy_linear_gradient(&mesh, middle, gradient); /* the middle is in the same triangle */
        assert_close(gradient[0], t.slope[0], 1e-12);
        assert_close(gradient[1], t.slope[1], 1e-12);
        check_gradient(zest_toy_linear, &mesh, middle, gradient);
        double const area = (t.x[1] - t.x[0]) * (t.y[2] - t.y[0]) - (t.x[2] - t.x[0]) * (t.y[1] - t.y[0]);
        assert_close(fabs(area), mesh.width * mesh.height, 1e-12);
    }
}

static void test_routes(void **state) {
    (void)state;
    zest_toy_mesh const mesh = {.width = 0.3, .height = 0.25};
    double const inside[4] = {1.01, 1.01, 1.02, 1.02};
    double gradient[2], length;
    zest_toy_linear_gradient(&mesh, inside, gradient);
    assert_close(zest_toy_route_slope(&mesh, inside, 2, 0, &length), hypot(gradient[0], gradient[1]), 1e-12);
    assert_close(length, hypot(0.01, 0.01), 1e-12);
    double path[2002]; /* y falls as x^2 */
    for (int i = 0; i <= 1000; i++) path[2 * i] = -2 + 0.002 * i, path[2 * i + 1] = pow(1 - 0.001 * i, 2);
    assert_close(zest_toy_route_bend(path, 1001), 0.25, 1e-3);
    zest_toy_route_slope(&mesh, path, 1001, 0.7, &length); /* h = 0.7 at x = -1, y near 0 */
    assert_true(length > 0.9 && length < 1.5);
    assert_true(isnan(zest_toy_route_bend(inside, 2)));
}

/* ---- F_t ---- */

/* E f on the disc, from the moments of a uniform point: E u^2 = rho^2/2, E u^4 = rho^4/2. */
static double mean_on_disc(double x, double y, double rho) {
    double const m2 = rho * rho / 2, m4 = rho * rho * rho * rho / 2;
    double const fifth = pow(x, 5) + 10 * pow(x, 3) * m2 + 5 * x * m4,
                 fourth = pow(x, 4) + 6 * x * x * m2 + m4;
    double const third = pow(x, 3) + 3 * x * m2, second = x * x + m2;
    return 0.2 * (0.5 * fifth + fourth - third - 2 * second + 0.5 * x + 1 + (3 - 2 * x) * (y * y + m2));
}

static void test_mean(void **state) {
    (void)state;
    zest_toy_disc disc;
    uint64_t random = 4;
    assert_int_equal(zest_toy_disc_new(&disc, 0.8, 4, 8), ZEST_OK);
    for (int n = 0; n < 50; n++) {
        double const x[2] = {2 * draw(&random), 2 * draw(&random)};
        assert_close(zest_toy_tilted(&disc, zest_toy_stationary, NULL, 0, x), mean_on_disc(x[0], x[1], 0.8),
                     1e-12);
    }
    zest_toy_disc_free(&disc);
    assert_int_equal(zest_toy_disc_new(&disc, 0, 4, 8), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_toy_disc_new(&disc, 1, 0, 8), ZEST_ERROR_ARGUMENT);
    zest_toy_disc_free(&disc);
}

static double slanted(const double *x, size_t n, void *user) {
    (void)n, (void)user;
    return 3 * x[0] - 4 * x[1] + 1;
}

/* E exp(z cos(angle) r/R) on a disc is 2 I_1(z) / z = sum (z/2)^2k / (k! (k+1)!). */
static double log_disc(double z) {
    double term = 1, sum = 1;
    for (int k = 1; k < 500; k++) sum += term *= z * z / 4 / k / (k + 1);
    return log(sum);
}

static void test_tilt_of_a_slope(void **state) {
    (void)state;
    double const rho = 0.5, x[2] = {0.2, 0.1}, slopes[] = {0.01, 0.5, 1, 4, 10};
    zest_toy_disc disc;
    assert_int_equal(zest_toy_disc_new(&disc, rho, 48, 160), ZEST_OK);
    for (int i = 0; i < 5; i++) {
        double const t = slopes[i], expected = slanted(x, 2, NULL) + log_disc(t * 5 * sqrt(2) * rho) / t;
        assert_close(zest_toy_tilted(&disc, slanted, NULL, t, x), expected, 1e-11);
    }
    double const most =
        slanted(x, 2, NULL) + 5 * sqrt(2) * rho; /* t without bound: the worst case, and no overflow */
    double const far = zest_toy_tilted(&disc, slanted, NULL, 1e5, x);
    assert_true(far < most && far > most - 0.05);
    zest_toy_disc_free(&disc);
}

static void test_quadrature_converges(void **state) {
    (void)state;
    zest_toy_mesh mesh = {.width = 0.3, .height = 0.25};
    zest_toy_disc half, whole;
    assert_int_equal(zest_toy_disc_new(&half, 0.8, 12, 48), ZEST_OK);
    assert_int_equal(zest_toy_disc_new(&whole, 0.8, 24, 96), ZEST_OK);
    uint64_t random = 5;
    for (int n = 0; n < 50; n++) {
        double const x[2] = {1.5 * draw(&random), draw(&random)};
        assert_close(zest_toy_tilted(&half, zest_toy_stationary, NULL, 1, x),
                     zest_toy_tilted(&whole, zest_toy_stationary, NULL, 1, x), 1e-9);
        assert_close(zest_toy_tilted(&half, zest_toy_linear, &mesh, 1, x),
                     zest_toy_tilted(&whole, zest_toy_linear, &mesh, 1, x), 1e-3); /* it has corners */
    }
    zest_toy_disc_free(&half);
    zest_toy_disc_free(&whole);
}

/* Which of the two minima F_t prefers: the flat one only for a small ball and a strong tilt (docs/toys.md). */
static double preference(double rho, double t) {
    zest_toy_disc disc;
    zest_toy_box const box = {-1.9, 1.7, -1.1, 1.4};
    double found[4][3];
    assert_int_equal(zest_toy_disc_new(&disc, rho, 24, 96), ZEST_OK);
    size_t const count = zest_toy_minima(&disc, zest_toy_stationary, NULL, t, &box, found, 4);
    zest_toy_disc_free(&disc);
    if (count != 2) return NAN;
    assert_true(found[0][0] < -0.7 && found[1][0] > 0.5 && fabs(found[0][1]) < 1e-4 &&
                fabs(found[1][1]) < 1e-4);
    return found[1][2] - found[0][2]; /* positive: the flat minimum is the lower one */
}

static void test_minima_of_the_tilted_loss(void **state) {
    (void)state;
    assert_true(preference(0.2, 0) < 0);
    assert_true(preference(0.2, 50) > 0);
    assert_true(preference(0.4, 1) < 0);
    assert_true(preference(0.4, 50) < 0);
    assert_true(isnan(preference(0.8, 1))); /* the paper's rho: F_t has one minimum left */
}

/* ---- Runs ---- */

static double *run(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed, double end[2]) {
    size_t const points = (size_t)zest_toy_steps(settings, method) + 1;
    double *path = malloc(2 * points * sizeof *path);
    zest_error error = {0};
    assert_non_null(path);
    if (zest_toy_run(settings, method, seed, path, &error)) fail_msg("%s", error.message);
    memcpy(end, path + 2 * (points - 1), 2 * sizeof *end);
    return path;
}

static void test_clean_stationary(void **state) {
    (void)state;
    zest_toy_settings settings;
    double end[2];
    zest_toy_preset(ZEST_TOY_STATIONARY, 1, &settings);
    free(run(&settings, ZEST_TOY_GD, 1, end));
    assert_int_equal(zest_toy_stationary_basin(end), ZEST_TOY_SHARP);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        free(run(&settings, ZEST_TOY_MEZO, seed, end));
        assert_int_equal(zest_toy_stationary_basin(end), ZEST_TOY_SHARP);
        assert_true(hypot(end[0] - 0.68, end[1]) < 0.08); /* the minimum of the smoothed loss, not of f */
        for (int method = ZEST_TOY_ZEST_N; method <= ZEST_TOY_ZEST_BC; method++) {
            free(run(&settings, (zest_toy_method)method, seed, end));
            assert_int_equal(zest_toy_stationary_basin(end), ZEST_TOY_FLAT);
            assert_true(hypot(end[0] + 0.81, end[1]) < 0.08);
        }
    }
}

/* What the stated settings give: MeZO does not end at the sharp minimum. */
static void test_paper_stationary(void **state) {
    (void)state;
    zest_toy_settings settings;
    double end[2];
    zest_toy_preset(ZEST_TOY_STATIONARY, 0, &settings);
    free(run(&settings, ZEST_TOY_GD, 1, end));
    assert_int_equal(zest_toy_stationary_basin(end), ZEST_TOY_SHARP);
    free(run(&settings, ZEST_TOY_MEZO, 1, end));
    assert_true(end[0] > -0.35 && end[0] < 0.1 && fabs(end[1]) < 0.1);
    free(run(&settings, ZEST_TOY_ZEST_N, 1, end));
    assert_true(end[0] < -0.2);
}

static void test_clean_linear(void **state) {
    (void)state;
    enum { SEEDS = 6 };
    zest_toy_settings settings;
    double bend[ZEST_TOY_METHODS] = {0}, slope[ZEST_TOY_METHODS] = {0}, end[2];
    zest_toy_preset(ZEST_TOY_LINEAR, 1, &settings);
    for (int method = ZEST_TOY_MEZO; method < ZEST_TOY_METHODS; method++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            double *path = run(&settings, (zest_toy_method)method, seed, end);
            bend[method] += zest_toy_route_bend(path, (size_t)settings.steps + 1) / SEEDS;
            slope[method] +=
                zest_toy_route_slope(&settings.mesh, path, (size_t)settings.steps + 1, 0.5, NULL) / SEEDS;
            assert_true(hypot(end[0], end[1]) < 0.05);
            free(path);
        }
    assert_close(bend[ZEST_TOY_MEZO], pow(0.5, 1.25), 0.02);
    for (int method = ZEST_TOY_ZEST_N; method <= ZEST_TOY_ZEST_BC; method++) {
        assert_close(bend[method], 0.3, 0.02);
        assert_true(slope[method] < 0.99 * slope[ZEST_TOY_MEZO]);
    }
}

static void test_runs_repeat(void **state) {
    (void)state;
    zest_toy_settings settings;
    double end[2];
    zest_toy_preset(ZEST_TOY_LINEAR, 0, &settings);
    settings.steps = 5;
    double *a = run(&settings, ZEST_TOY_ZEST_N, 7, end), *b = run(&settings, ZEST_TOY_ZEST_N, 7, end);
    double *c = run(&settings, ZEST_TOY_ZEST_N, 8, end);
    assert_memory_equal(a, b, 12 * sizeof *a);
    assert_memory_not_equal(a, c, 12 * sizeof *a);
    free(a), free(b), free(c);
    settings.distribution = "nonsense";
    zest_error error = {0};
    double path[12];
    assert_int_equal(zest_toy_run(&settings, ZEST_TOY_MEZO, 1, path, &error), ZEST_ERROR_ARGUMENT);
    assert_true(strlen(error.message) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stationary_values),
        cmocka_unit_test(test_stationary_eigenvalues),
        cmocka_unit_test(test_basins),
        cmocka_unit_test(test_mesh_interpolates),
        cmocka_unit_test(test_mesh_is_convex),
        cmocka_unit_test(test_triangles),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_tilt_of_a_slope),
        cmocka_unit_test(test_quadrature_converges),
        cmocka_unit_test(test_minima_of_the_tilted_loss),
        cmocka_unit_test(test_clean_stationary),
        cmocka_unit_test(test_paper_stationary),
        cmocka_unit_test(test_clean_linear),
        cmocka_unit_test(test_runs_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
