/* Advice on t: what it says is what the tilt does on the same losses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/choose_t.h"
#include "tests/support.h"

enum { K = 5, STEPS = 40, STRIDE = 2 * K };

/* Losses around 0.7 with a spread, from a small generator of our own. */
static void draw(double *losses, size_t count, double spread) {
    uint64_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int j = 0; j < 12; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 11) / 9007199254740992.0;
        }
        losses[i] = 0.7 + spread * (sum - 6);
    }
}

static double mean_effective(const double *losses, double t) {
    zest_ctx *ctx = test_context();
    zest_tilt_options tilt = {.estimator = ZEST_NAIVE, .t = t, .rho = 0.002, .k = K};
    double coefficients[K], sum = 0;
    for (size_t i = 0; i < STEPS; i++) {
        zest_tilt_report report;
        assert_ok(ctx, zest_tilt(ctx, &tilt, losses + i * STRIDE, coefficients, &report));
        sum += report.effective;
    }
    zest_ctx_free(ctx);
    return sum / STEPS;
}

static void the_advice_is_what_the_tilt_does(void **state) {
    (void)state;
    double losses[STEPS * STRIDE];
    zest_tilt_options tilt = {.estimator = ZEST_BIAS_CORRECTED, .t = 5, .rho = 0.002, .k = K};
    zest_tilt_advice a;
    draw(losses, STEPS * STRIDE, 0.012);
    assert_int_equal(zest_choose_t(&tilt, losses, STEPS, STRIDE, &a, NULL), ZEST_OK);
    assert_int_equal(a.steps, STEPS);
    assert_close(a.spread, 0.012, 0.001);
    assert_close(a.effective, mean_effective(losses, 5), 1e-12);
    assert_true(a.low < a.half && a.half < a.high);
    assert_close(mean_effective(losses, a.low), 0.9 * K, 1e-6);
    assert_close(mean_effective(losses, a.half), 0.5 * K, 1e-6);
    assert_close(mean_effective(losses, a.high), 2, 1e-6);
    /* only t times the spread counts, and not where the losses lie */
    zest_tilt_advice wide;
    double half = a.half;
    for (size_t i = 0; i < STEPS * STRIDE; i++) losses[i] = 100 * (losses[i] - 0.7) - 3;
    assert_int_equal(zest_choose_t(&tilt, losses, STEPS, STRIDE, &wide, NULL), ZEST_OK);
    assert_close(wide.half * 100 / half, 1, 1e-9);
}

static void odd_losses_have_an_answer_too(void **state) {
    (void)state;
    double same[2 * STRIDE], bad[2 * STRIDE], two[2 * STRIDE];
    zest_tilt_options tilt = {.estimator = ZEST_NAIVE, .t = 1, .rho = 0.002, .k = K}, pairs = tilt,
                      one = tilt;
    zest_tilt_advice a;
    for (size_t i = 0; i < 2 * STRIDE; i++) same[i] = 0.5, bad[i] = i % 3 ? NAN : 1;
    assert_int_equal(zest_choose_t(&tilt, same, 2, STRIDE, &a, NULL), ZEST_OK);
    assert_true(isnan(a.half) && a.effective == K && a.spread == 0);
    assert_int_equal(zest_choose_t(&tilt, bad, 2, STRIDE, &a, NULL), ZEST_OK);
    assert_true(isnan(a.half) && a.steps == 0);
    assert_int_equal(zest_choose_t(&tilt, bad, 0, STRIDE, &a, NULL), ZEST_OK);
    assert_true(a.steps == 0);
    draw(two, 2 * STRIDE, 0.1);
    pairs.k = 2;
    assert_int_equal(zest_choose_t(&pairs, two, 2, 4, &a, NULL), ZEST_OK);
    assert_true(a.low < a.half && a.half < a.high);
    one.k = 1;
    assert_int_equal(zest_choose_t(&one, two, 2, 2, &a, NULL), ZEST_OK);
    assert_true(isnan(a.half) && a.effective == 1);
}

static void it_is_said_in_a_sentence(void **state) {
    (void)state;
    zest_tilt_advice a = {.steps = 10,
                          .k = 5,
                          .t = 5,
                          .spread = 0.01234,
                          .effective = 4.987,
                          .low = 27.4,
                          .half = 61.7,
                          .high = 148.2};
    zest_buffer out = {0};
    zest_choose_t_text(&a, &out);
    assert_string_equal(out.data,
                        "spread 0.012, effective 4.99 of 5 at t = 5; a t of about 62 would halve it "
                        "(it acts from 27 to 150)");
    out.size = 0;
    a.t = 100;
    zest_choose_t_text(&a, &out);
    assert_non_null(strstr(out.data, "leave half of them"));
    out.size = 0;
    a.half = NAN;
    zest_choose_t_text(&a, &out);
    assert_null(strstr(out.data, ";"));
    zest_buffer_free(&out);
    assert_true(zest_choose_t_round(0.012345) == 0.012 && zest_choose_t_round(98765) == 99000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_advice_is_what_the_tilt_does),
        cmocka_unit_test(odd_losses_have_an_answer_too),
        cmocka_unit_test(it_is_said_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
