/* The worst case, the bounds on t and the norm against closed forms, optimality conditions, searches and
 * Monte Carlo. A test that guards against a slip of the paper says so; docs/theory.md lists them. */
#include "tests/theory.h"

/* ---- The worst case ---- */

/* (2 omega - rho^2 lambda_i) u_i = rho g_i, |u| <= sqrt(d), 2 omega >= rho^2 lambda_i, and no point has a
 * larger X. */
static void check_optimal(const zest_landscape *l) {
    double u[4], phi[4], norm = 0, scale = 0, radius = sqrt((double)l->dimension);
    zest_worst w = worst(l, u, phi);
    for (size_t i = 0; i < l->count; i++) {
        double pull = l->rho * l->gradient[i], stiff = 2 * w.multiplier - l->rho * l->rho * l->eigenvalues[i];
        norm = hypot(norm, u[i]);
        scale = fmax(scale, fabs(pull) + fabs(l->rho * l->rho * l->eigenvalues[i]) * radius);
        assert_close(stiff * u[i], pull, 1e-12 * scale);
        assert_true(stiff >= -1e-14 * scale);
        assert_relative(phi[i], l->rho * l->rho / 2 * u[i] * u[i], 1e-13);
    }
    assert_close(w.value, model(l, u), 1e-12 * scale * radius);
    if (w.kind == ZEST_WORST_INTERIOR)
        assert_true(w.multiplier == 0 && norm <= radius * (1 + 1e-14));
    else
        assert_relative(norm, radius, 1e-12);
    assert_true(w.multiplier >= 0);
}

static void worst_satisfies_its_conditions(void **state) {
    (void)state;
    const double scales[] = {1e-150, 1e-30, 1e-8, 1, 1e8, 1e30};
    uint64_t draw = 1;
    for (int j = 0; j < 4000; j++) {
        double numbers[9];
        for (int i = 0; i < 9; i++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            numbers[i] = (double)(draw >> 11) / 9007199254740992.0;
        }
        double lambda[4], g[4];
        for (int i = 0; i < 4; i++) {
            lambda[i] = (numbers[i] - 0.5) * (j % 5 == 0 ? scales[(j / 5 + i) % 6] : 1);
            g[i] = (numbers[4 + i] - 0.5) * scales[(j + i * (j % 4)) % 6] * (j % 7 == i ? 0 : 1);
        }
        if (j % 3 == 0) lambda[1] = lambda[0];
        if (j % 11 == 0)
            for (int i = 0; i < 4; i++) lambda[i] = -fabs(lambda[i]);
        zest_landscape l = {lambda, g, 4, 4 + (uint64_t)(numbers[8] * 1e6), 0.3};
        check_optimal(&l);
    }
}

static void worst_agrees_with_a_search(void **state) {
    (void)state;
    const double cases[][4] = {{2.4, 0.4, 0.2, 0.3}, {2, 0.8, 0, 0.3}, {-1, -2, 0.2, 0.1},
                               {-1, -2, 3, 1},       {0, -1, 0, 0.2},  {0, -1, 0.2, 0.1}};
    for (size_t j = 0; j < 6; j++) {
        zest_landscape l = {cases[j], cases[j] + 2, 2, 2, 0.8};
        double best = -1e9;
        for (int r = 0; r <= 400; r++)
            for (int k = 0; k < 2000; k++) {
                double radius = sqrt(2) * r / 400, angle = k * (2 * PI / 2000);
                best = fmax(best, model(&l, (double[]){radius * cos(angle), radius * sin(angle)}));
            }
        double value = worst(&l, NULL, NULL).value;
        assert_true(value >= best - 1e-14 && value <= best + 1e-4);
    }
}

/* Slip 7: in the stationary regime the paper has sqrt(d) for d. The linear regime's sqrt(d) is right. */
static void worst_has_the_closed_forms(void **state) {
    (void)state;
    double lambda[] = {1, 3, -2}, g[] = {3, 0, 4}, zero[] = {0, 0, 0}, u[3], down[] = {-4, -2, -5};
    zest_landscape stationary = {lambda, NULL, 3, 100, 0.1}, linear = {zero, g, 3, 100, 0.1};
    zest_worst w = worst(&stationary, u, NULL);
    assert_int_equal(w.kind, ZEST_WORST_HARD);
    assert_relative(w.value, 0.005 * 100 * 3, 1e-15);
    assert_relative(u[1], 10, 1e-15);
    w = worst(&linear, u, NULL);
    assert_int_equal(w.kind, ZEST_WORST_BOUNDARY);
    assert_relative(w.value, 0.1 * 10 * 5, 1e-14);
    zest_landscape inside = {down, g, 3, 10000, 0.1}, flat = {down, NULL, 3, 3, 0.1};
    w = worst(&inside, u, NULL);
    assert_int_equal(w.kind, ZEST_WORST_INTERIOR);
    assert_relative(w.value, (9 / 4.0 + 16 / 5.0) / 2, 1e-14);     /* -g'L^-1 g/2 */
    assert_relative(gaussian(&inside, 1e12, NULL), w.value, 1e-9); /* the Gaussian has the same limit here */
    assert_close(worst(&flat, NULL, NULL).value, 0, 0);
}

static void worst_sensitivity_is_the_derivative(void **state) {
    (void)state;
    double cases[][3] = {{1.1, 0.3, -0.9}, {-3, -1, -2}, {5, 4, 4.5}}, g[] = {0.7, -0.4, 0.5}, phi[3];
    for (size_t j = 0; j < 3; j++) {
        double *lambda = cases[j];
        zest_landscape l = {lambda, g, 3, 12, 0.6};
        worst(&l, NULL, phi);
        for (int i = 0; i < 3; i++) {
            double kept = lambda[i], h = 1e-5;
            lambda[i] = kept + h;
            double up = worst(&l, NULL, NULL).value;
            lambda[i] = kept - h;
            double difference = (up - worst(&l, NULL, NULL).value) / (2 * h);
            lambda[i] = kept;
            assert_close(phi[i], difference, 1e-7 * phi[i] + 1e-9);
        }
    }
}

static double shifted(zest_landscape *l, double *lambda, int i, double h, double *phi_i) {
    double kept = lambda[i], phi[3];
    lambda[i] = kept + h;
    zest_worst w = worst(l, NULL, phi);
    lambda[i] = kept;
    *phi_i = phi[i];
    return w.multiplier;
}

/* d omega/d lambda_i and d phi_i/d lambda_i of B.7, in all three cases, against central differences. */
static void worst_derivatives_are_the_differences(void **state) {
    (void)state;
    double cases[][3] = {{1.1, 0.3, -0.9},   {5, 4, 4.5}, {-3, -1, -2},
                         {-0.3, -0.1, -0.2}, {0, 1, -1},  {3, 0.3, -0.9}},
           slopes[][3] = {{0.7, -0.4, 0.5}, {0, -0.4, 0.5}};
    size_t seen[3] = {0};
    for (size_t j = 0; j < 12; j++) {
        double *lambda = cases[j / 2], *g = slopes[j % 2], omega[3], curve[3];
        zest_landscape l = {lambda, g, 3, 12, 0.6};
        seen[worst(&l, NULL, NULL).kind]++;
        assert_int_equal(zest_theory_worst_derivatives(ctx, &l, omega, curve), ZEST_OK);
        for (int i = 0; i < 3; i++) {
            double h = 1e-5, up, down;
            double high = shifted(&l, lambda, i, h, &up), low = shifted(&l, lambda, i, -h, &down);
            assert_close(omega[i], (high - low) / (2 * h), 1e-7 * fabs(omega[i]) + 1e-9);
            assert_close(curve[i], (up - down) / (2 * h), 1e-6 * fabs(curve[i]) + 1e-8);
            assert_true(curve[i] >= 0); /* phi_i grows with lambda_i, as Theorem 4.2 says */
        }
    }
    assert_true(seen[ZEST_WORST_INTERIOR] && seen[ZEST_WORST_BOUNDARY] && seen[ZEST_WORST_HARD]);
}

/* The shares of d omega/d lambda_i add up to rho^2/2 on the boundary: a constant added to all eigenvalues
 * moves omega by as much. One direction alone has a fixed phi, and where one dominates, 1 - w keeps its
 * digits. */
static void worst_derivatives_have_their_closed_forms(void **state) {
    (void)state;
    double lambda[] = {2, 1, -1, 0.5}, g[] = {0.3, -2, 0.1, 0.7}, omega[4], curve[4], sum = 0;
    zest_landscape l = {lambda, g, 4, 1000, 0.05}, one = {lambda, g, 1, 1, 0.8};
    assert_int_equal(zest_theory_worst_derivatives(ctx, &l, omega, curve), ZEST_OK);
    for (int i = 0; i < 4; i++) sum += omega[i];
    assert_relative(sum, 0.05 * 0.05 / 2, 1e-14);
    assert_int_equal(zest_theory_worst_derivatives(ctx, &one, omega, curve), ZEST_OK);
    assert_relative(omega[0], 0.32, 1e-15);
    assert_close(curve[0], 0, 0);
    double two[] = {1, 1}, steep[] = {1, 1e-12}; /* equal D: w_i = g_i^2/|g|^2, D = rho |g|/sqrt(d) */
    zest_landscape dominated = {two, steep, 2, 4, 0.5};
    assert_int_equal(zest_theory_worst_derivatives(ctx, &dominated, omega, curve), ZEST_OK);
    double d3 = pow(0.5 / 2, 3), rho6 = pow(0.5, 6);
    assert_relative(curve[0], rho6 / d3 * 1e-24, 1e-12);
    assert_relative(curve[1], rho6 / d3 * 1e-24, 1e-12);
    assert_relative(omega[1], 0.125 * 1e-24, 1e-12);
}

/* A repeated top eigenvalue without slope, and an eigenvalue 0 inside the ball: R_inf has a kink there. */
static void worst_derivatives_say_where_they_do_not_exist(void **state) {
    (void)state;
    double repeated[] = {2, 2, 0.5}, g[] = {0, 0, 0.3}, flat[] = {0, -1, -2}, omega[3], curve[3];
    zest_landscape hard = {repeated, g, 3, 3, 0.8}, inside = {flat, g, 3, 300, 0.8};
    assert_int_equal(zest_theory_worst_derivatives(ctx, &hard, omega, curve), ZEST_OK);
    assert_true(isnan(omega[0]) && isnan(curve[1]) && omega[2] == 0 && curve[2] > 0);
    assert_int_equal(zest_theory_worst_derivatives(ctx, &inside, omega, curve), ZEST_OK);
    assert_true(isnan(omega[0]) && isnan(curve[0]) && curve[1] == 0);
    assert_relative(curve[2], 0.3 * 0.3 / 8, 1e-14); /* -g^2/lambda^3 */
}

/* The boundary case runs into the hard one as the slope along the top vanishes. */
static void worst_is_continuous_at_the_hard_case(void **state) {
    (void)state;
    double lambda[] = {2, 2, 0.8}, g[] = {0, 0, 0.3}, phi[3], limit[3];
    zest_landscape l = {lambda, g, 3, 3, 0.8};
    zest_worst hard = worst(&l, NULL, limit);
    assert_int_equal(hard.kind, ZEST_WORST_HARD);
    for (g[0] = 1e-3; g[0] > 1e-307; g[0] *= 1e-3) {
        zest_worst w = worst(&l, NULL, phi);
        assert_int_equal(w.kind, ZEST_WORST_BOUNDARY);
        assert_close(w.value, hard.value, 2 * g[0] + 1e-15);
        for (int i = 0; i < 3; i++) assert_close(phi[i], limit[i], 2 * g[0] + 1e-14);
    }
}

/* Slip 8: "only eigen directions with nonzero gradient projection influence R_t". At finite t all do; at
 * infinite t the hard case has g_1 = 0 and phi_1 > 0. */
static void directions_without_gradient_count(void **state) {
    (void)state;
    double lambda[] = {2, 0.8}, g[] = {0, 0.3}, phi[2];
    zest_landscape l = {lambda, g, 2, 2, 0.8};
    double value = worst(&l, NULL, phi).value;
    assert_true(phi[0] > 0.5);
    for (double t = 0; t < 1000; t = 3 * t + 1) {
        ball(&l, t, phi);
        assert_true(phi[0] > 0.15);
    }
    lambda[0] = 2.1;
    assert_true(worst(&l, NULL, NULL).value > value + 0.05);
}

/* Slip 9: at infinite t R_t does not rely on the first eigenvector alone, nor need the top eigenvalue count
 * most, even when the gradient has a part along it. */
static void the_top_eigenvalue_need_not_dominate(void **state) {
    (void)state;
    double lambda[] = {1, 0.9}, g[] = {0.01, 1}, phi[2];
    zest_landscape l = {lambda, g, 2, 2, 0.1};
    double value = worst(&l, NULL, phi).value;
    assert_true(phi[1] > 1000 * phi[0]);
    g[1] = 2;
    assert_true(worst(&l, NULL, NULL).value > 1.5 * value);
}

/* ---- Bounds on t, the norm, the remainder ---- */

/* Slip 10: the last form of eq. choose_t keeps the larger of |lambda_max| and |lambda_min| where their sum
 * belongs, so it exceeds what Hoeffding's lemma gives. */
static void bounds_keep_their_promise(void **state) {
    (void)state;
    double lambda[] = {1.5, -1.2, 0.3}, g[] = {0.3, 0.1, -0.2}, epsilon = 0.01;
    for (uint64_t d = 3; d < 4000000; d *= 100) {
        zest_landscape l = {lambda, g, 3, d, 0.5};
        zest_tilt_bounds b;
        assert_int_equal(zest_theory_bounds(ctx, &l, epsilon, &b), ZEST_OK);
        assert_true(b.closed <= b.hoeffding && b.hoeffding <= b.exact);
        double average = ball(&l, 0, NULL), radius = 0.5 * sqrt((double)d), norm = sqrt(0.14);
        assert_true(ball(&l, b.hoeffding, NULL) <= average + epsilon);
        assert_relative(ball(&l, b.exact, NULL), average + epsilon, 1e-9);
        assert_relative(b.closed, 32 * epsilon / pow(radius * (2.7 * radius + 4 * norm), 2), 1e-12);
        assert_true(32 * epsilon / pow(radius * (1.5 * radius + 4 * norm), 2) > 1.2 * b.closed);
        assert_relative(b.highest, worst(&l, NULL, NULL).value, 1e-15);
        assert_true(b.lowest < 0 && b.lowest >= -(radius * radius * 0.6 + radius * norm));
    }
}

/* Slip 11: the range of t does not depend on d when rho ~ 1/sqrt(d); "rho <= sqrt(d)" is not enough. */
static void bounds_depend_on_dimension_through_the_radius(void **state) {
    (void)state;
    double lambda[] = {1}, g[] = {1};
    zest_tilt_bounds a, b;
    zest_landscape small = {lambda, g, 1, 100, 0.1}, large = {lambda, g, 1, 1000000, 0.001};
    assert_int_equal(zest_theory_bounds(ctx, &small, 0.1, &a), ZEST_OK);
    assert_int_equal(zest_theory_bounds(ctx, &large, 0.1, &b), ZEST_OK);
    assert_relative(a.closed, b.closed, 1e-12);
    large.rho = 0.1;
    assert_int_equal(zest_theory_bounds(ctx, &large, 0.1, &b), ZEST_OK);
    assert_true(b.closed < 1e-4 * a.closed);
    double down[] = {-1}; /* X <= 0 here and E X = -rho^2 d/(2(d+2)): no t can add more than that */
    zest_landscape falling = {down, NULL, 1, 1, 1};
    assert_int_equal(zest_theory_bounds(ctx, &falling, 0.2, &b), ZEST_OK);
    assert_true(isinf(b.exact));
}

/* Slip 12: Var|u| tends to 1/d, not 1/(3d). */
static void norm_concentrates(void **state) {
    (void)state;
    double mean, variance;
    assert_int_equal(zest_theory_norm(ctx, 1, &mean, &variance), ZEST_OK);
    assert_relative(mean, 0.5, 1e-15);
    assert_relative(variance, 1 / 12.0, 1e-15);
    for (double d = 1e3; d < 2e12; d *= 10) {
        assert_int_equal(zest_theory_norm(ctx, (uint64_t)d, &mean, &variance), ZEST_OK);
        assert_relative(variance * d, 1, 4 / d + 1e-15);
        assert_relative(mean, sqrt(d), 1.5 / d);
    }
    enum { D = 20, N = 20000 };
    double sum = 0, squares = 0;
    for (uint64_t j = 0; j < N; j++) {
        zest_direction v;
        float u[D];
        assert_int_equal(zest_direction_init(ctx, &v, ZEST_BALL, zest_seed(3, j, 0), D), ZEST_OK);
        assert_int_equal(zest_direction_read(ctx, &v, 0, D, u), ZEST_OK);
        double norm = 0;
        for (int i = 0; i < D; i++) norm += (double)u[i] * u[i];
        sum += sqrt(norm) / N;
        squares += norm / N;
    }
    assert_int_equal(zest_theory_norm(ctx, D, &mean, &variance), ZEST_OK);
    assert_close(sum, mean, 5 * sqrt(variance / N));      /* 5 sigma: once in 1.7 million */
    assert_relative(squares - sum * sum, variance, 0.15); /* its standard deviation is 2 % */
}

/* Slip 13: the remainder of F_t = f + R_t is of the third order in rho, not the second. With f = exp in one
 * dimension the odd moments vanish and halving rho divides it by 16; second order would give 4. */
static double exponential(const zest_landscape *l, double t, double u) {
    return exp(t * exp(l->rho * u)) / 2;
}

static void remainder_is_not_of_second_order(void **state) {
    (void)state;
    double one = 1, remainder[2];
    for (int j = 0; j < 2; j++) {
        zest_landscape l = {&one, &one, 1, 1, j ? 0.05 : 0.1};
        remainder[j] = log(simpson(exponential, &l, 2, -1, 1, 2000)) / 2 - 1 - ball(&l, 2, NULL);
    }
    assert_close(remainder[0] / remainder[1], 16, 0.5);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    double lambda[] = {1, NAN}, good[] = {1, 2}, value;
    zest_sharpness s;
    zest_worst w;
    zest_tilt_bounds b;
    zest_landscape bad[] = {{lambda, NULL, 2, 2, 1}, {good, lambda, 2, 2, 1}, {good, NULL, 0, 2, 1},
                            {good, NULL, 2, 1, 1},   {good, NULL, 2, 2, -1},  {good, NULL, 2, 2, NAN},
                            {NULL, NULL, 2, 2, 1},   {good, NULL, 2, 2, 0}};
    for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
        assert_int_equal(zest_theory_ball(ctx, &bad[j], 1, &s, NULL), ZEST_ERROR_ARGUMENT);
        assert_true(strlen(zest_ctx_error(ctx)) > 20);
        assert_int_equal(zest_theory_gaussian(ctx, &bad[j], 0.1, &value, NULL), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_theory_worst(ctx, &bad[j], &w, NULL, NULL), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_theory_worst_derivatives(ctx, &bad[j], &value, &value), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_theory_bounds(ctx, &bad[j], 1, &b), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_theory_sampled(NULL, &bad[j], 1, 1, 10, &s, NULL), ZEST_ERROR_ARGUMENT);
    }
    zest_landscape l = {good, NULL, 2, 2, 1}, huge = {good, good, 2, 2, 1e200};
    assert_int_equal(zest_theory_ball(ctx, &l, -1, &s, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_theory_ball(ctx, &l, NAN, &s, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_theory_ball(ctx, &huge, 1, &s, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_theory_worst(ctx, &huge, &w, NULL, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_theory_bounds(ctx, &l, 0, &b), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_theory_sampled(ctx, &l, 1, 1, 1, &s, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_theory_norm(ctx, 0, &value, &value), ZEST_ERROR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worst_satisfies_its_conditions),
        cmocka_unit_test(worst_agrees_with_a_search),
        cmocka_unit_test(worst_has_the_closed_forms),
        cmocka_unit_test(worst_sensitivity_is_the_derivative),
        cmocka_unit_test(worst_derivatives_are_the_differences),
        cmocka_unit_test(worst_derivatives_have_their_closed_forms),
        cmocka_unit_test(worst_derivatives_say_where_they_do_not_exist),
        cmocka_unit_test(worst_is_continuous_at_the_hard_case),
        cmocka_unit_test(directions_without_gradient_count),
        cmocka_unit_test(the_top_eigenvalue_need_not_dominate),
        cmocka_unit_test(bounds_keep_their_promise),
        cmocka_unit_test(bounds_depend_on_dimension_through_the_radius),
        cmocka_unit_test(norm_concentrates),
        cmocka_unit_test(remainder_is_not_of_second_order),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
