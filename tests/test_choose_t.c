/* What is said about the tilt is what the tilt does: against closed forms of its two parts. With f± = b ± a the
 * weight of a pair is exp(t b) cosh(t a), and MeZO's coefficient a becomes exp(t b) sinh(t a)/t over the mean of
 * these weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/choose_t.h"
#include "tests/support.h"

enum { K = 5, STEPS = 40, STRIDE = 2 * K };

typedef struct {
    double a[STEPS][K], b[STEPS][K], losses[STEPS * STRIDE];
} sample;

/* Normal numbers, near enough, from a small generator of our own. */
static double normal(uint64_t *state) {
    double sum = 0;
    for (int j = 0; j < 12; j++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) / 9007199254740992.0;
    }
    return sum - 6;
}

/* Losses around 0.7 whose pairs differ by `slope` and `curvature`. */
static void draw(sample *s, double slope, double curvature) {
    uint64_t state = 12345;
    for (size_t i = 0; i < STEPS; i++)
        for (size_t j = 0; j < K; j++) {
            double a = s->a[i][j] = slope * normal(&state), b = s->b[i][j] = curvature * normal(&state);
            s->losses[i * STRIDE + 2 * j] = 0.7 + b + a;
            s->losses[i * STRIDE + 2 * j + 1] = 0.7 + b - a;
        }
}

static zest_tilt_advice ask(const sample *s, double t) {
    zest_tilt_options tilt = {.estimator = ZEST_NAIVE, .t = t, .rho = 0.002, .k = K};
    zest_tilt_advice a;
    assert_int_equal(zest_choose_t(&tilt, s->losses, STEPS, STRIDE, &a, NULL), ZEST_OK);
    assert_int_equal(a.steps, STEPS);
    return a;
}

/* Effective pairs of the parts that are counted, and the change of the coefficients. */
static void by_hand(const sample *s, double t, int slopes, int curvatures, double *effective,
                    double *change) {
    *effective = *change = 0;
    for (size_t i = 0; i < STEPS; i++) {
        double sum = 0, squares = 0, moved = 0, length = 0, w[K];
        for (size_t j = 0; j < K; j++) {
            w[j] = exp(curvatures * t * s->b[i][j]) * cosh(slopes * t * s->a[i][j]);
            sum += w[j], squares += w[j] * w[j];
        }
        *effective += sum * sum / squares / STEPS;
        for (size_t j = 0; j < K; j++) {
            double a = s->a[i][j], damped = slopes ? sinh(t * a) / t : a,
                   now = exp(curvatures * t * s->b[i][j]) * damped * K / sum;
            moved += (now - a) * (now - a), length += a * a;
        }
        *change += moved / length / STEPS;
    }
    *change = sqrt(*change);
}

static void the_parts_are_those_of_the_tilt(void **state) {
    (void)state;
    static const double sizes[][2] = {{0.065, 0.0065}, {0.043, 0.048}, {0.2, 0.25}, {0.01, 0.1}};
    sample s;
    for (size_t c = 0; c < 4; c++)
        for (double t = 0.5; t < 100; t *= 6) {
            double effective, change;
            draw(&s, sizes[c][0], sizes[c][1]);
            zest_tilt_advice a = ask(&s, t);
            assert_close(a.slope / sizes[c][0], 1, 0.1);
            assert_close(a.curvature / sizes[c][1], 1, 0.1);
            by_hand(&s, t, 1, 1, &effective, &change);
            assert_close(a.effective / effective, 1, 1e-9);
            assert_close(a.change / change, 1, 1e-7);
            by_hand(&s, t, 1, 0, &effective, &change);
            assert_close(a.effective_slope / effective, 1, 1e-9);
            assert_close(a.change_slope / change, 1, 1e-7);
            by_hand(&s, t, 0, 1, &effective, &change);
            assert_close(a.effective_curvature / effective, 1, 1e-9);
            assert_close(a.change_curvature / change, 1, 1e-7);
        }
    assert_close(ask(&s, 1e-6).change, 0, 1e-5); /* MeZO is t = 0 */
    assert_true(ask(&s, 0).change == 0);
}

/* Where F_t ends: Gaussian b = (rho^2/2) sum lambda_i u_i^2, whose losses bound the largest eigenvalue. */
static void the_limit_of_t_is_on_the_safe_side(void **state) {
    (void)state;
    static const double values[][3] = {{40, 0, 0}, {40, 20, -10}, {30, 30, 30}};
    double const rho = 0.1;
    uint64_t random = 7;
    for (size_t c = 0; c < 3; c++) {
        sample s;
        double squares = 0;
        for (size_t i = 0; i < 3; i++) squares += values[c][i] * values[c][i];
        for (size_t i = 0; i < STEPS * K; i++) {
            double b = 0;
            for (size_t j = 0; j < 3; j++) {
                double u = normal(&random);
                b += 0.5 * rho * rho * values[c][j] * u * u;
            }
            s.losses[2 * i] = b + 0.3, s.losses[2 * i + 1] = b - 0.3;
        }
        zest_tilt_advice a = ask(&s, 1);
        assert_close(a.finite * rho * rho * sqrt(squares), 1, 0.25); /* 200 pairs of chi-square losses */
        assert_close(a.slope, 0.3, 1e-12);
    }
}

/* Where curvature comes first, the advice says where it acts; where the slope does, it sends nobody to a large
 * t. The sizes are those of a RoBERTa at its start with rho = 0.002, and behind some training with 0.008. */
static void t_is_advised_only_where_curvature_counts(void **state) {
    (void)state;
    sample s;
    double effective, change, slope_change;
    draw(&s, 0.065, 0.0065);
    zest_tilt_advice steep = ask(&s, 5);
    assert_true(isnan(steep.low) && isnan(steep.half) && isnan(steep.high));
    assert_close(steep.better_rho, 0.002 * steep.slope / steep.curvature, 1e-15);
    assert_true(steep.better_rho > 0.01 && steep.better_rho < 0.04);
    draw(&s, 0.043, 0.048);
    zest_tilt_advice a = ask(&s, 5);
    assert_true(isnan(a.better_rho) && a.low < a.half && a.half < a.high);
    assert_true(a.low > 3 && a.low < 15);
    const double targets[] = {0.9 * K, 0.5 * K, 2}, found[] = {a.low, a.half, a.high};
    for (size_t i = 0; i < 3; i++) {
        by_hand(&s, found[i], 0, 1, &effective, &change);
        assert_close(effective, targets[i], 1e-6);
    }
    by_hand(&s, a.low, 0, 1, &effective, &change);
    by_hand(&s, a.low, 1, 0, &effective, &slope_change);
    assert_true(slope_change < change);
    /* only t times the losses' differences counts, and not where the losses lie */
    for (size_t i = 0; i < STEPS * STRIDE; i++) s.losses[i] = 100 * (s.losses[i] - 0.7) - 3;
    assert_close(ask(&s, 5).half * 100 / a.half, 1, 1e-9);
}

static void odd_losses_have_an_answer_too(void **state) {
    (void)state;
    double same[2 * STRIDE], bad[2 * STRIDE], two[2 * STRIDE];
    zest_tilt_options tilt = {.estimator = ZEST_NAIVE, .t = 1, .rho = 0.002, .k = K}, pairs = tilt,
                      one = tilt, ball = tilt;
    zest_tilt_advice a;
    sample s;
    for (size_t i = 0; i < 2 * STRIDE; i++) same[i] = 0.5, bad[i] = i % 3 ? NAN : 1;
    assert_int_equal(zest_choose_t(&tilt, same, 2, STRIDE, &a, NULL), ZEST_OK);
    assert_true(isnan(a.half) && isnan(a.better_rho) && a.effective == K && a.spread == 0);
    assert_int_equal(zest_choose_t(&tilt, bad, 2, STRIDE, &a, NULL), ZEST_OK);
    assert_true(isnan(a.half) && a.steps == 0);
    assert_int_equal(zest_choose_t(&tilt, bad, 0, STRIDE, &a, NULL), ZEST_OK);
    assert_true(a.steps == 0);
    draw(&s, 0.01, 0.1);
    memcpy(two, s.losses, sizeof two);
    pairs.k = 2;
    assert_int_equal(zest_choose_t(&pairs, two, 2, 4, &a, NULL), ZEST_OK);
    assert_true(a.low < a.half && a.half < a.high);
    one.k = 1;
    assert_int_equal(zest_choose_t(&one, two, 2, 2, &a, NULL), ZEST_OK);
    assert_true(isnan(a.half) && a.effective == 1 && a.curvature == 0);
    two[0] = INFINITY; /* one pair less, not one step less */
    assert_int_equal(zest_choose_t(&tilt, two, 2, STRIDE, &a, NULL), ZEST_OK);
    assert_true(a.steps == 2 && isfinite(a.change) && isfinite(a.slope) && isfinite(a.curvature));
    ball.k = 2, ball.ball_pairs = 2; /* pairs of another kind lie behind */
    assert_int_equal(zest_choose_t(&ball, s.losses, 4, 8, &a, NULL), ZEST_OK);
    assert_true(a.steps == 4 && isfinite(a.change));
}

static const char *said(const zest_tilt_advice *a) {
    static char text[600];
    zest_buffer out = {0};
    zest_choose_t_text(a, &out);
    snprintf(text, sizeof text, "%s", out.data);
    zest_buffer_free(&out);
    return text;
}

static void it_is_said_in_a_sentence(void **state) {
    (void)state;
    zest_tilt_advice a = {.steps = 10,
                          .k = 5,
                          .t = 5,
                          .rho = 0.002,
                          .slope = 0.0651,
                          .curvature = 0.00651,
                          .change = 0.0099,
                          .low = NAN,
                          .half = NAN,
                          .high = NAN,
                          .finite = NAN,
                          .better_rho = NAN};
    assert_string_equal(said(&a),
                        "t = 5 changes the steps by less than 1 %: at this rho and t the run equals MeZO");
    a.better_rho = 0.0203;
    assert_string_equal(
        said(&a), "t = 5 changes the steps by less than 1 %: at this rho and t the run equals MeZO; losses "
                  "differ by 0.065 through the slope and by 0.0065 through curvature, so a larger t would "
                  "only damp the steps: curvature counts from a rho of about 0.02 on");
    a.better_rho = NAN;
    a.low = 7.4, a.half = 17.1, a.high = 38.2, a.change = 0.234, a.change_curvature = 0.221;
    a.change_slope = 0.034;
    assert_string_equal(
        said(&a), "t = 5 changes the steps by 23 % (22 % by weighing directions with their curvature, 3.4 % "
                  "by damping large slopes); curvature counts at t from about 7.4 to 38");
    a.finite = 4.321;
    assert_string_equal(
        said(&a),
        "t = 5 changes the steps by 23 % (22 % by weighing directions with their curvature, 3.4 % "
        "by damping large slopes); curvature counts at t from about 7.4 to 38; with Gaussian directions "
        "the tilted loss may be infinite at t above 4.3");
    a.t = 0;
    assert_string_equal(said(&a), "none (t = 0); curvature counts at t from about 7.4 to 38");
    assert_true(zest_choose_t_round(0.012345) == 0.012 && zest_choose_t_round(98765) == 99000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_are_those_of_the_tilt),
        cmocka_unit_test(t_is_advised_only_where_curvature_counts),
        cmocka_unit_test(the_limit_of_t_is_on_the_safe_side),
        cmocka_unit_test(odd_losses_have_an_answer_too),
        cmocka_unit_test(it_is_said_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
