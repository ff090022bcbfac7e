/* The tilt: against closed forms and against the paper's formulae written out in long double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exp.h"
#include "optim/step.h"
#include "rng/noise.h"
#include "tests/support.h"

enum { MOST = 64 };

static zest_tilt_options options(zest_estimator estimator, double t, size_t k) {
    return (zest_tilt_options){.estimator = estimator, .t = t, .rho = 0.05, .k = k};
}

/* Losses around `level` with a given spread, from the noise itself. */
static void draw(double *losses, size_t count, uint64_t seed, double level, double spread) {
    float z[4 * MOST];
    zest_noise_plain.normal(z, seed, 0, count);
    for (size_t i = 0; i < count; i++) losses[i] = level + spread * (double)z[i];
}

/* Eq. (naive) and (BC), literally. */
static void literal(const zest_tilt_options *o, const double *losses, double *out) {
    long double z = 0, squares = 0;
    for (size_t i = 0; i < 2 * o->k; i++) z += expl((long double)o->t * losses[i]);
    for (size_t i = 0; i < o->k; i++) {
        long double b =
            (expl(o->t * (long double)losses[2 * i]) + expl(o->t * (long double)losses[2 * i + 1])) / z;
        squares += b * b;
    }
    for (size_t i = 0; i < o->k; i++) {
        long double high = expl((long double)o->t * losses[2 * i]) / z,
                    low = expl((long double)o->t * losses[2 * i + 1]) / z;
        long double k = (long double)o->k, factor = 1;
        if (o->estimator == ZEST_BIAS_CORRECTED) factor = 1 + k / (k - 1) * (high + low - squares);
        out[i] = (double)(factor * (high - low) / (o->t * (long double)o->rho));
    }
}

static void exponential_matches_libm(void **state) {
    (void)state;
    double worst = 0;
    for (double x = -745; x < 709; x += 0.00317) {
        long double exact = expl((long double)x);
        double unit = fmax((double)exact * 0x1p-52, 0x1p-1074);
        worst = fmax(worst, (double)(fabsl(zest_exp(x) - exact) / unit));
    }
    if (worst > 2) fail_msg("exp is off by %g units in the last place", worst);
    for (double z = -1; z <= 1; z += 0.0001)
        assert_close(zest_sinhc(z), z == 0 ? 1 : (double)(sinhl(z) / z), 3e-16);
    assert_true(zest_exp(-1e300) == 0 && zest_exp(-INFINITY) == 0);
    assert_true(isinf(zest_exp(710)) && isnan(zest_exp(NAN)) && zest_exp(0) == 1);
}

static void coefficients_are_the_paper_s(void **state) {
    (void)state;
    static const double tilts[] = {1e-6, 1e-3, 0.1, 1, 5, 20};
    for (int e = 0; e < 2; e++)
        for (size_t j = 0; j < 6; j++)
            for (size_t k = 2; k <= 20; k += 3) {
                zest_tilt_options o = options((zest_estimator)e, tilts[j], k);
                double losses[2 * MOST], expected[MOST], got[MOST], scale = 0;
                draw(losses, 2 * k, 100 * j + k, 0.7, 0.05);
                literal(&o, losses, expected);
                zest_tilt_compute(&o, losses, got, NULL);
                for (size_t i = 0; i < k; i++) scale = fmax(scale, fabs(expected[i]));
                /* the literal form itself loses 1e-19/t to cancellation */
                for (size_t i = 0; i < k; i++)
                    assert_close(got[i], expected[i], scale * (1e-13 + 1e-17 / tilts[j]));
            }
}

/* Trap T3: t = 0 is the mean of k two-point estimates, bit for bit, for both estimators. */
static void zero_tilt_is_mezo_exactly(void **state) {
    (void)state;
    for (int e = 0; e < 2; e++)
        for (size_t k = 1; k <= 11; k += 2) {
            zest_tilt_options o = options((zest_estimator)e, 0, k);
            double losses[2 * MOST], got[MOST];
            draw(losses, 2 * k, k, 3, 0.5);
            zest_tilt_report report;
            zest_tilt_compute(&o, losses, got, &report);
            for (size_t i = 0; i < k; i++) {
                double mezo = (losses[2 * i] - losses[2 * i + 1]) / (2 * o.rho) / (double)k;
                assert_memory_equal(&got[i], &mezo, sizeof mezo);
            }
            assert_true(report.effective == (double)k && report.saturation == 0 &&
                        report.tilted == report.mean);
        }
}

/* Trap T2: as t -> 0 the coefficients join MeZO's linearly in t, without a rounding cliff, down to denormal
 * t. */
static void tiny_tilts_join_mezo(void **state) {
    (void)state;
    double losses[10], mezo[5], got[5];
    draw(losses, 10, 4, 0.7, 1e-4); /* pairs that nearly agree: where differences of exponentials cancel */
    zest_tilt_options o = options(ZEST_NAIVE, 0, 5);
    zest_tilt_compute(&o, losses, mezo, NULL);
    for (int e = 0; e < 2; e++)
        for (double t = 1; t > 1e-310; t /= 7) {
            o = options((zest_estimator)e, t, 5);
            zest_tilt_compute(&o, losses, got, NULL);
            for (int i = 0; i < 5; i++) assert_close(got[i] / mezo[i], 1, 2e-3 * t + 1e-13);
        }
}

/* Trap T4. */
static void one_direction_is_tanh(void **state) {
    (void)state;
    for (double d = -800; d <= 800; d += 13.7)
        for (int e = 0; e < 2; e++) {
            zest_tilt_options o = options((zest_estimator)e, 2, 1);
            double losses[2] = {1 + d / 2, 1 - d / 2}, got;
            zest_tilt_compute(&o, losses, &got, NULL);
            assert_close(got * o.t * o.rho, tanh(o.t * d / 2), 1e-14);
        }
}

/* Trap T1: t·f of a million in either direction, and losses at the end of the range. */
static void huge_exponents_do_not_overflow(void **state) {
    (void)state;
    static const double offsets[] = {0, 1e6, -1e6, 1e9, -1e9};
    double losses[10], shifted[10], expected[5], got[5];
    draw(losses, 10, 12, 0, 0.25);
    for (int i = 0; i < 10; i++) losses[i] = round(losses[i] * 4096) / 4096; /* so that the shift is exact */
    for (int e = 0; e < 2; e++)
        for (int j = 0; j < 5; j++) {
            zest_tilt_options o = options((zest_estimator)e, 1, 5);
            for (int i = 0; i < 10; i++) shifted[i] = losses[i] + offsets[j];
            zest_tilt_compute(&o, losses, expected, NULL);
            zest_tilt_report report;
            zest_tilt_compute(&o, shifted, got, &report);
            for (int i = 0; i < 5; i++)
                assert_close(got[i], expected[i], 1e-12); /* a constant does not matter */
            assert_true(isfinite(report.tilted) && isfinite(report.mean));
        }
    static const double extremes[][4] = {{1e308, -1e308, 1, 2},
                                         {1e308, 1e308, 1e308, 1e308},
                                         {-1e308, -1e308, 5, 5},
                                         {1e-320, 0, 0, 0},
                                         {1e6, -1e6, 0, 3}};
    for (int j = 0; j < 5; j++)
        for (double t = 1e-300; t < 1e300; t *= 1e50)
            for (int e = 0; e < 2; e++) {
                zest_tilt_options o = options((zest_estimator)e, t, 2);
                zest_tilt_compute(&o, extremes[j], got, NULL);
                assert_true(isfinite(got[0]) && isfinite(got[1]));
                assert_true(fabs(got[0]) <= 2.0000001 / (t * o.rho) ||
                            t < 1e-290); /* |w| <= 1, BC factor <= 2 */
            }
}

/* Large losses that are close together: f = level + difference, with differences that the level rounds but
 * the formulas must not. The reference is eq. (naive) and (BC) in long double, relative to the first loss. */
static void large_losses_keep_their_digits(void **state) {
    (void)state;
    static const double levels[] = {1000, -1000, 1e6, -1e6}, tilts[] = {0.5, 5, 20};
    for (int e = 0; e < 2; e++)
        for (int j = 0; j < 4; j++)
            for (int n = 0; n < 3; n++) {
                zest_tilt_options o = options((zest_estimator)e, tilts[n], 5);
                double losses[10], differences[10], expected[5], got[5];
                draw(losses, 10, 31 + (uint64_t)j, levels[j], 0.01);
                for (int i = 0; i < 10; i++) differences[i] = losses[i] - losses[0]; /* exact: Sterbenz */
                literal(&o, differences, expected);
                zest_tilt_compute(&o, losses, got, NULL);
                for (int i = 0; i < 5; i++) assert_close(got[i] / expected[i], 1, 1e-14);
            }
}

static void nonsense_is_refused_with_a_reason(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double losses[4] = {1, 2, 3, 4}, got[2];
    zest_tilt_options o = options(ZEST_NAIVE, -1, 2);
    assert_int_equal(zest_tilt(ctx, &o, losses, got, NULL), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "sharp minima");
    o = options(ZEST_NAIVE, NAN, 2);
    assert_int_equal(zest_tilt(ctx, &o, losses, got, NULL), ZEST_ERROR_ARGUMENT);
    o = options(ZEST_NAIVE, 1, 0);
    assert_int_equal(zest_tilt(ctx, &o, losses, got, NULL), ZEST_ERROR_ARGUMENT);
    o = options(ZEST_NAIVE, 1, 2);
    o.rho = 0;
    assert_int_equal(zest_tilt(ctx, &o, losses, got, NULL), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "rho");
    o.rho = INFINITY;
    assert_int_equal(zest_tilt(ctx, &o, losses, got, NULL), ZEST_ERROR_ARGUMENT);
    zest_ctx_free(ctx);
}

/* Trap T9: one bad number drops its pair and nothing else. */
static void bad_pairs_are_dropped(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int e = 0; e < 2; e++)
        for (double t = 0; t <= 4; t += 2)
            for (int b = 0; b < 3; b++)
                for (int side = 0; side < 2; side++) {
                    double losses[10], fewer[8], got[5], expected[4];
                    draw(losses, 10, 7, 1, 0.3);
                    memcpy(fewer, losses, 4 * sizeof *fewer);
                    memcpy(fewer + 4, losses + 6, 4 * sizeof *fewer);
                    losses[4 + side] = bad[b];
                    zest_tilt_options all = options((zest_estimator)e, t, 5),
                                      less = options((zest_estimator)e, t, 4);
                    zest_tilt_report report;
                    zest_tilt_compute(&all, losses, got, &report);
                    zest_tilt_compute(&less, fewer, expected, NULL);
                    assert_int_equal(report.dropped, 1);
                    assert_true(got[2] == 0 && isfinite(report.mean) && isfinite(report.tilted));
                    assert_memory_equal(got, expected, 2 * sizeof *got);
                    assert_memory_equal(got + 3, expected + 2, 2 * sizeof *got);
                }
    double none[4] = {NAN, 1, 2, INFINITY}, got[2];
    zest_tilt_options o = options(ZEST_NAIVE, 1, 2);
    zest_tilt_report report;
    zest_tilt_compute(&o, none, got, &report);
    assert_true(report.dropped == 2 && got[0] == 0 && got[1] == 0);
}

/* Traps T5 and T6. */
static void diagnostics_tell_the_extremes(void **state) {
    (void)state;
    zest_tilt_report r;
    double got[4];
    double equal[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    zest_tilt_options o = options(ZEST_BIAS_CORRECTED, 3, 4);
    zest_tilt_compute(&o, equal, got, &r);
    assert_close(r.effective, 4, 1e-14);
    assert_close(r.saturation, 0, 0);
    assert_close(r.tilted, 2, 1e-14);
    assert_int_equal(r.flipped, 0);
    double one[4] = {100, 0, 1, 0}; /* one loss decides: k = 2 makes the other direction's factor -1 */
    o = options(ZEST_BIAS_CORRECTED, 5, 2);
    zest_tilt_compute(&o, one, got, &r);
    assert_close(r.effective, 1, 1e-12);
    assert_close(r.saturation, 1, 1e-12);
    assert_int_equal(r.flipped, 1);
    assert_true(got[1] <= 0); /* f+ > f-, and yet the direction is reversed */
    assert_close(r.tilted, 100 - log(4) / 5, 1e-12);
    assert_close(r.mean, 25.25, 1e-13);
    assert_true(r.lowest == 0 && r.highest == 100);
    assert_close(r.spread, sqrt((74.75 * 74.75 + 2 * 25.25 * 25.25 + 24.25 * 24.25) / 3), 1e-12);
}

/* The losses of pair i are b_i + a_i and b_i - a_i: the report has both parts, without the pairs that are not finite. */
static void the_spread_has_two_parts(void **state) {
    (void)state;
    static const double a[] = {0.5, -1.5, 2, 99}, b[] = {1000, 1003, 1005, 99};
    double losses[8], got[4];
    zest_tilt_report r;
    zest_tilt_options o = options(ZEST_NAIVE, 2, 4);
    for (int i = 0; i < 4; i++) losses[2 * i] = b[i] + a[i], losses[2 * i + 1] = i == 3 ? NAN : b[i] - a[i];
    zest_tilt_compute(&o, losses, got, &r);
    assert_close(r.slope, sqrt((0.25 + 2.25 + 4) / 3), 1e-14);
    assert_close(r.curvature, sqrt(((8.0 * 8 + 1 + 7 * 7) / 9) / 2), 1e-11); /* around the mean 1002 2/3 */
    assert_true(r.t == 2 && r.scale == 1 && r.dropped == 1);
    zest_loss_parts parts = zest_tilt_split(losses, 4);
    assert_true(parts.pairs == 3 && parts.slope == 6.5);
    o.k = 1;
    zest_tilt_compute(&o, losses, got, &r);
    assert_true(r.slope == 0.5 && r.curvature == 0); /* one pair has nothing to differ from */
    zest_tilt_compute(&o, losses + 6, got, &r);
    assert_true(isnan(r.slope) && isnan(r.curvature));
}

/* The exact ball form: numerator from the pairs, denominator from the ball pairs; its own bias correction. */
static void ball_denominator_is_theorem_3_1(void **state) {
    (void)state;
    for (int e = 0; e < 2; e++)
        for (double t = 0.5; t < 9; t *= 4) {
            zest_tilt_options o = options((zest_estimator)e, t, 4);
            o.ball_pairs = 3;
            double losses[14], got[4];
            long double mean = 0, total = 0, squares = 0;
            draw(losses, 14, 21, 1, 0.2);
            for (int j = 0; j < 3; j++) {
                long double b = expl(t * losses[8 + 2 * j]) + expl(t * losses[9 + 2 * j]);
                total += b, squares += b * b;
            }
            mean = total / 3;
            long double variance = (squares - 3 * mean * mean) / 2,
                        factor = e ? 1 - variance / (3 * mean * mean) : 1;
            zest_tilt_report report;
            zest_tilt_compute(&o, losses, got, &report);
            for (int i = 0; i < 4; i++) {
                long double a = expl(t * losses[2 * i]) - expl(t * losses[2 * i + 1]);
                assert_close(got[i], (double)(factor * a / 4 / mean / (t * o.rho)), 1e-12 / t);
            }
            assert_close(report.tilted, (double)(logl(mean / 2) / t), 1e-13);
        }
}

/* f(x) = λ x²/2 + g x in one dimension, v normal: at x = 0 the gradient of F_t is g/(1 - tρ²λ). The mean of
 * the estimate over many steps, minus that, is its bias. Its largest noise, (mean A - R mean B)/E B with R =
 * E A/E B, has mean zero and is taken off. */
static double bias(zest_estimator estimator, size_t k, size_t pairs, double *error) {
    const double lambda = -4, slope = 2, t = 1, rho = 0.5, p = t * rho * rho * lambda, q = t * rho * slope;
    const double gradient = slope / (1 - p), mean_b = 2 * exp(q * q / (2 * (1 - p))) / sqrt(1 - p);
    zest_tilt_options o = {.estimator = estimator, .t = t, .rho = rho, .k = k};
    size_t steps = pairs / k;
    double sum = 0, squares = 0;
    for (size_t s = 0; s < steps; s++) {
        float v[MOST];
        double losses[2 * MOST], c[MOST], estimate = 0, noise = 0;
        zest_noise_for(ZEST_CPU_PLAIN)->normal(v, 5, s * k, k);
        for (size_t i = 0; i < k; i++) {
            double a = rho * (double)v[i], high = lambda * a * a / 2 + slope * a,
                   low = lambda * a * a / 2 - slope * a;
            losses[2 * i] = high, losses[2 * i + 1] = low;
            noise += (exp(t * high) - exp(t * low)) * (double)v[i] -
                     gradient * t * rho * (exp(t * high) + exp(t * low));
        }
        zest_tilt_compute(&o, losses, c, NULL);
        for (size_t i = 0; i < k; i++) estimate += c[i] * (double)v[i];
        estimate -= noise / (double)k / mean_b / (t * rho);
        sum += estimate, squares += estimate * estimate;
    }
    double n = (double)steps, mean = sum / n;
    *error = sqrt((squares / n - mean * mean) / n);
    return mean - gradient;
}

/* Section 3.2: O(1/k) and O(1/k²): four times as many directions divide the bias by 4 and by 16. */
static void biases_fall_at_their_rates(void **state) {
    (void)state;
    size_t pairs = 3000000 / TEST_SLOW;
    double e1, e2, e3, e4;
    double naive8 = bias(ZEST_NAIVE, 8, pairs, &e1), naive32 = bias(ZEST_NAIVE, 32, pairs, &e2);
    double corrected4 = bias(ZEST_BIAS_CORRECTED, 4, pairs, &e3),
           corrected16 = bias(ZEST_BIAS_CORRECTED, 16, pairs, &e4);
    print_message("bias  naive: k=8 %.5f±%.5f k=32 %.5f±%.5f   corrected: k=4 %.5f±%.5f k=16 %.5f±%.5f\n",
                  naive8, e1, naive32, e2, corrected4, e3, corrected16, e4);
    /* 5 standard errors: false alarm 6e-7. Terms of the next order are allowed for by 10 % and 20 %. */
    assert_true(fabs(naive8) > 10 * e1 && fabs(corrected4) > 10 * e3);
    assert_close(naive8, 4 * naive32, 5 * (e1 + 4 * e2) + 0.1 * fabs(naive8));
    assert_close(corrected4, 16 * corrected16, 5 * (e3 + 16 * e4) + 0.2 * fabs(corrected4));
    assert_true(16 * fabs(corrected16) > 5 * (e3 + 16 * e4) ||
                TEST_SLOW > 1); /* seen, not lost in the noise */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_matches_libm),       cmocka_unit_test(coefficients_are_the_paper_s),
        cmocka_unit_test(zero_tilt_is_mezo_exactly),      cmocka_unit_test(tiny_tilts_join_mezo),
        cmocka_unit_test(one_direction_is_tanh),          cmocka_unit_test(huge_exponents_do_not_overflow),
        cmocka_unit_test(large_losses_keep_their_digits), cmocka_unit_test(nonsense_is_refused_with_a_reason),
        cmocka_unit_test(bad_pairs_are_dropped),          cmocka_unit_test(diagnostics_tell_the_extremes),
        cmocka_unit_test(the_spread_has_two_parts),       cmocka_unit_test(ball_denominator_is_theorem_3_1),
        cmocka_unit_test(biases_fall_at_their_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
