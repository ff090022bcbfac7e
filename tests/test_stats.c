/* Paired differences: closed forms of the interval, and how often a verdict is wrong when there is no
 * difference, by simulation with a fixed seed. */
#include "lab/stats/stats.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/support.h"

/* ---- Closed forms ---- */

static void the_interval_is_students(void **state) {
    (void)state;
    /* 0.03, 0.04, 0.05: mean 0.04, error 0.01 / sqrt 3, quantile of two degrees of freedom 4.3026527 */
    double const values[] = {0.03, NAN, 0.04, 0.05};
    zest_sample s = zest_paired_sample(values, 4, 0);
    assert_int_equal(s.n, 3);
    assert_close(s.mean, 0.04, 1e-15);
    assert_close(s.error, 0.01 / sqrt(3), 1e-15);
    assert_close(s.low, 0.04 - 4.3026527300 * 0.01 / sqrt(3), 1e-10);
    assert_close(s.high, 0.04 + 4.3026527300 * 0.01 / sqrt(3), 1e-10);
    assert_int_equal(zest_paired_verdict_of(&s, 0), ZEST_PAIRED_BETTER);
    assert_int_equal(zest_paired_verdict_of(&s, 1), ZEST_PAIRED_WORSE); /* of a loss */
    double const two[] = {0.03, 0.05};                                  /* one degree of freedom: 12.706 */
    s = zest_paired_sample(two, 2, 0);
    assert_close(s.high, 0.04 + 12.7062047364 * 0.01, 1e-10);
    assert_int_equal(zest_paired_verdict_of(&s, 0), ZEST_PAIRED_TOO_FEW);
    double const one[] = {0.03};
    s = zest_paired_sample(one, 1, 100);
    assert_true(s.n == 1 && isnan(s.low));
    assert_int_equal(zest_paired_verdict_of(&s, 0), ZEST_PAIRED_TOO_FEW);
    s = zest_paired_sample(NULL, 0, 100);
    assert_int_equal(zest_paired_verdict_of(&s, 0), ZEST_PAIRED_TOO_FEW);
}

/* 2, 2 and 3 of 100 examples: Student's interval alone is 0.9 to 3.8 examples. A difference of 7/3 examples
 * has a binomial error of at least sqrt(7/3 (1 - 7/300)). */
static void the_metric_has_a_resolution(void **state) {
    (void)state;
    double const values[] = {0.02, 0.02, 0.03};
    zest_sample coarse = zest_paired_sample(values, 3, 100), fine = zest_paired_sample(values, 3, 0);
    double const least = sqrt(7.0 / 300 * (1 - 7.0 / 300) / 100);
    assert_close(coarse.error, least, 1e-15);
    assert_close(coarse.low, 7.0 / 300 - 1.959963984540054 * least, 1e-12);
    assert_close(coarse.high, 7.0 / 300 + 1.959963984540054 * least, 1e-12);
    assert_int_equal(zest_paired_verdict_of(&coarse, 0), ZEST_PAIRED_NO_DIFFERENCE);
    assert_int_equal(zest_paired_verdict_of(&fine, 0), ZEST_PAIRED_BETTER);
    /* a mean of 0 is still uncertain by one example */
    double const none[] = {0.01, -0.01, 0};
    assert_true(zest_paired_sample(none, 3, 100).high >= 1.95 * 0.01);
}

/* The finding that led here: 0.7 - 0.6 and 0.8 - 0.7 differ in the last bit alone. */
static void equal_differences_say_nothing(void **state) {
    (void)state;
    double const values[] = {0.7 - 0.6, 0.8 - 0.7, 0.9 - 0.8};
    assert_true(values[0] != values[1]);
    size_t const examples[] = {0, 10, 1000};
    for (size_t n = 2; n <= 3; n++)
        for (size_t i = 0; i < 3; i++) {
            zest_sample s = zest_paired_sample(values, n, examples[i]);
            assert_true(isnan(s.low) && isnan(s.high) && isnan(s.error));
            assert_close(s.mean, 0.1, 1e-12);
            assert_int_equal(zest_paired_verdict_of(&s, 0), ZEST_PAIRED_TOO_FEW);
        }
    double const zeros[] = {0, 0, 0, 0};
    zest_sample s = zest_paired_sample(zeros, 4, 0);
    assert_int_equal(zest_paired_verdict_of(&s, 0), ZEST_PAIRED_TOO_FEW);
}

/* ---- Simulation ---- */

/* SplitMix64: a stream of its own for each case. */
static uint64_t bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static double uniform(uint64_t *state) { return ((double)(bits(state) >> 11) + 0.5) * 0x1p-53; }
static double normal(uint64_t *state) {
    double const radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

/* A run's result. examples 0: a normal number. Otherwise the share of examples that it answers rightly: their
 * chance is the same for all, and varies with the run. */
static double result(uint64_t *state, double level, double between_runs, size_t examples) {
    double const chance = level + between_runs * normal(state);
    size_t right = 0;
    if (!examples) return chance;
    for (size_t i = 0; i < examples; i++) right += uniform(state) < chance;
    return (double)right / (double)examples;
}

typedef struct {
    size_t seeds, examples;
    double level, between_runs, gain;
} setting;

/* The fraction of sweeps with this verdict. */
static double rate(setting s, zest_paired_verdict verdict, size_t sweeps) {
    uint64_t state = 2026 + 1000 * s.seeds + s.examples;
    double differences[16];
    size_t count = 0;
    for (size_t i = 0; i < sweeps; i++) {
        for (size_t j = 0; j < s.seeds; j++)
            differences[j] = result(&state, s.level + s.gain, s.between_runs, s.examples) -
                             result(&state, s.level, s.between_runs, s.examples);
        zest_sample const sample = zest_paired_sample(differences, s.seeds, s.examples);
        count += zest_paired_verdict_of(&sample, 0) == verdict;
    }
    return (double)count / (double)sweeps;
}

/* Two methods that are equally good: "better" in at most 2.5 % of the sweeps, and as often "worse". */
static void false_alarms_are_rare(void **state) {
    (void)state;
    enum { SWEEPS = 20000 };
    double const nominal = 0.025, three_sigma = 3 * sqrt(nominal * (1 - nominal) / SWEEPS);
    static const setting cases[] = {
        {3, 0, 0.8, 0.02, 0},   {5, 0, 0.8, 0.02, 0},   /* no steps: Student's assumptions hold */
        {3, 8, 0.7, 0, 0},      {3, 32, 0.8, 0.02, 0},  /* coarse */
        {3, 128, 0.9, 0.01, 0}, {5, 32, 0.95, 0.01, 0}, /* */
        {3, 64, 0.99, 0, 0},    {10, 64, 0.99, 0, 0},   /* most runs make the same few mistakes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double const better = rate(cases[i], ZEST_PAIRED_BETTER, SWEEPS);
        double const worse = rate(cases[i], ZEST_PAIRED_WORSE, SWEEPS);
        if (better > nominal + three_sigma || worse > nominal + three_sigma)
            fail_msg("%zu seeds, %zu examples: better %.4f, worse %.4f", cases[i].seeds, cases[i].examples,
                     better, worse);
        if (!cases[i].examples && better < nominal - three_sigma)
            fail_msg("%zu seeds: the interval is too wide: better %.4f", cases[i].seeds, better);
    }
    for (size_t seeds = 1; seeds < 3; seeds++) /* never with so few */
        assert_true(rate((setting){seeds, 8, 0.7, 0, 0}, ZEST_PAIRED_TOO_FEW, 2000) == 1);
}

/* Each seed one of two equal methods is ahead by `least` examples or one more, by the toss of a coin. With
 * Student's interval alone "better" is said in 12.5 % of such sweeps: whenever three tosses agree. */
static double coin_rate(size_t least, size_t more, size_t examples) {
    enum { SWEEPS = 20000 };
    uint64_t state = 99 + 10 * least + more;
    size_t better = 0;
    for (size_t i = 0; i < SWEEPS; i++) {
        double differences[3];
        for (size_t j = 0; j < 3; j++) {
            uint64_t const toss = bits(&state);
            size_t const ahead = least + (toss >> 1) % (more + 1);
            differences[j] = (toss & 1 ? 1 : -1) * (double)ahead / (double)examples;
        }
        zest_sample const sample = zest_paired_sample(differences, 3, examples);
        better += zest_paired_verdict_of(&sample, 0) == ZEST_PAIRED_BETTER;
    }
    return (double)better / SWEEPS;
}

static void small_margins_are_no_evidence(void **state) {
    (void)state;
    static const size_t margins[][2] = {{1, 0}, {2, 0}, {1, 1}, {2, 1}, {3, 0}};
    for (size_t i = 0; i < sizeof margins / sizeof *margins; i++) {
        double const better = coin_rate(margins[i][0], margins[i][1], 200);
        if (better > 0.025) fail_msg("%zu or %zu more: %.4f", margins[i][0], margins[i][1], better);
    }
}

/* A true difference is found. */
static void a_real_difference_is_found(void **state) {
    (void)state;
    assert_true(rate((setting){5, 128, 0.7, 0.01, 0.2}, ZEST_PAIRED_BETTER, 500) > 0.95);
    assert_true(rate((setting){5, 128, 0.9, 0.01, -0.2}, ZEST_PAIRED_WORSE, 500) > 0.95);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_students),      cmocka_unit_test(the_metric_has_a_resolution),
        cmocka_unit_test(equal_differences_say_nothing), cmocka_unit_test(false_alarms_are_rare),
        cmocka_unit_test(small_margins_are_no_evidence), cmocka_unit_test(a_real_difference_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
