/* Sampling: probabilities against closed forms, draws by
 * statistical tests with fixed seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/sampler.h"
#include "tests/support.h"

enum { WORDS = 8 };

static const zest_sampler_text no_text = {0};
static const zest_sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

/* Probabilities 1/2, 1/4, 1/8, ... in another order of tokens: token i has rank (3i) mod 8, so 2^-(rank+1), and the last
 * two are equal. */
static void halves(float *logits) {
    for (int i = 0; i < WORDS; i++) {
        int rank = 3 * i % WORDS;
        logits[i] = (float)(-log(2) * (rank == WORDS - 1 ? rank - 1 : rank)) + 5.0f;
    }
}

static double half_power(int i) {
    int rank = 3 * i % WORDS;
    return rank == WORDS - 1 ? ldexp(1, -rank) : ldexp(1, -rank - 1);
}

static void probabilities(const zest_sampling *sampling, const zest_sampler_text *text, double *out) {
    float logits[WORDS];
    zest_error error;
    zest_sampler *s = zest_sampler_new(WORDS, &error);
    assert_non_null(s);
    halves(logits);
    zest_sampler_probabilities(s, sampling, logits, text, out);
    zest_sampler_free(s);
}

/* keep: ranks below it; the others are 0, and the rest is scaled up. */
static void assert_kept(const zest_sampling *sampling, int keep) {
    double p[WORDS], total = 0;
    probabilities(sampling, &no_text, p);
    for (int i = 0; i < WORDS; i++)
        if (3 * i % WORDS < keep) total += half_power(i);
    for (int i = 0; i < WORDS; i++)
        assert_close(p[i], 3 * i % WORDS < keep ? half_power(i) / total : 0, 1e-6);
}

static void test_closed_forms(void **state) {
    (void)state;
    zest_sampling s = plain;
    assert_kept(&s, WORDS);
    for (int k = 1; k <= WORDS; k++) {
        s.top_k = (size_t)k;
        assert_kept(&s, k); /* of the two equal ones the smaller token: ranks 6 and 7 are tokens 2 and 5 */
    }
    s = plain;
    s.top_p = 0.5 - 1e-3, assert_kept(&s, 1); /* the first has one half */
    s.top_p = 0.5 + 1e-3, assert_kept(&s, 2);
    s.top_p = 0.875 + 1e-3, assert_kept(&s, 4);
    s.top_p = 0, assert_kept(&s, 1); /* never nothing */
    s = plain;
    s.min_p = 0.25 - 1e-3, assert_kept(&s, 3); /* 1/8 is a quarter of the largest */
    s.min_p = 1, assert_kept(&s, 1);
    /* top-p sees what top-k has left: of 4/7, 2/7, 1/7 the first is more than one half */
    s = plain;
    s.top_k = 3, s.top_p = 0.55, assert_kept(&s, 1);
    s.top_p = 0.6, assert_kept(&s, 2);
}

/* p^(1/T), normalised: at T = 1/2 squares. */
static void test_temperature(void **state) {
    (void)state;
    zest_sampling s = plain;
    double p[WORDS], total = 0;
    s.temperature = 0.5;
    probabilities(&s, &no_text, p);
    for (int i = 0; i < WORDS; i++) total += half_power(i) * half_power(i);
    for (int i = 0; i < WORDS; i++) assert_close(p[i], half_power(i) * half_power(i) / total, 1e-6);
    s.temperature = 0;
    probabilities(&s, &no_text, p);
    for (int i = 0; i < WORDS; i++) assert_true(p[i] == (i == 0));
}

/* Positive logits are divided, negative ones multiplied, once for every token however often the text has it. */
static void test_penalty(void **state) {
    (void)state;
    zest_error error;
    zest_sampler *s = zest_sampler_new(WORDS, &error);
    zest_sampling penalty = plain;
    uint32_t prompt[] = {3, 3, 1}, new_tokens[] = {1, 99};
    zest_sampler_text text = {prompt, new_tokens, 3, 2};
    penalty.repetition_penalty = 2, penalty.temperature = 0;
    for (int repeat = 0; repeat < 2; repeat++) { /* nothing is remembered from one row to the next */
        float logits[WORDS] = {0.5f, -1, 0.1f, 3, 0, 0, 0, 1.4f};
        assert_int_equal(zest_sampler_pick(s, &penalty, logits, &text, 0.3), 3);
        assert_true(logits[3] == 1.5f && logits[1] == -2 && logits[0] == 0.5f && logits[7] == 1.4f);
    }
    penalty.repetition_penalty = 3;
    float logits[WORDS] = {0.5f, -1, 0.1f, 3, 0, 0, 0, 1.4f};
    assert_int_equal(zest_sampler_pick(s, &penalty, logits, &text, 0.3), 7);
    /* what is no number is never drawn */
    float wild[WORDS] = {NAN, -INFINITY, NAN, 1, NAN, NAN, NAN, NAN};
    for (int i = 0; i < 100; i++) {
        float copy[WORDS];
        memcpy(copy, wild, sizeof copy);
        assert_int_equal(zest_sampler_pick(s, &plain, copy, &no_text, i / 100.0), 3);
    }
    zest_sampler_free(s);
}

/* Many candidates, ties among them: the heap keeps what a sorted list would keep. */
static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void test_large_vocabulary(void **state) {
    (void)state;
    enum { MANY = 5000 };
    static float logits[MANY], sorted[MANY];
    static double p[MANY];
    zest_error error;
    zest_sampler *s = zest_sampler_new(MANY, &error);
    for (int round = 0; round < 20; round++) {
        zest_sampling sampling = plain;
        double total = 0, sum = 0;
        size_t expected = 0, kept = 0;
        for (uint32_t i = 0; i < MANY; i++)
            logits[i] = (float)floor(200 * zest_sampling_uniform(5, (uint32_t)round, i)) / 20;
        memcpy(sorted, logits, sizeof sorted);
        qsort(sorted, MANY, sizeof *sorted, descending);
        sampling.top_p = 0.05 + 0.045 * round;
        for (int i = 0; i < MANY; i++) total += exp((double)sorted[i]);
        while (sum < sampling.top_p * total) sum += exp((double)sorted[expected++]);
        zest_sampler_probabilities(s, &sampling, logits, &no_text, p);
        for (int i = 0; i < MANY; i++) {
            if (p[i] == 0) continue;
            kept++;
            assert_true(logits[i] >= sorted[expected - 1]);
            assert_close(p[i] * sum, exp((double)logits[i]), 1e-9 * exp((double)logits[i]) + 1e-9);
        }
        assert_int_equal(kept, expected);
    }
    zest_sampler_free(s);
}

/* Chi-square of 200,000 draws from known probabilities. 7 degrees of freedom: beyond 29.9 with probability 1e-4; 4 tests,
 * so a false alarm in 4e-4 of all seeds, and never with this one. */
static void test_draws(void **state) {
    (void)state;
    enum { DRAWS = 200000 / TEST_SLOW };
    zest_error error;
    zest_sampler *s = zest_sampler_new(WORDS, &error);
    zest_sampling cases[4] = {plain, plain, plain, plain};
    cases[1].temperature = 2;
    cases[2].top_k = 5;
    cases[3].top_p = 0.9, cases[3].min_p = 0.1;
    for (uint32_t c = 0; c < 4; c++) {
        double p[WORDS], chi = 0;
        size_t counts[WORDS] = {0};
        probabilities(&cases[c], &no_text, p);
        for (uint32_t i = 0; i < DRAWS; i++) {
            float logits[WORDS];
            halves(logits);
            counts[zest_sampler_pick(s, &cases[c], logits, &no_text, zest_sampling_uniform(17, c, i))]++;
        }
        for (int i = 0; i < WORDS; i++) {
            double wanted = p[i] * DRAWS, d = (double)counts[i] - wanted;
            if (p[i] > 0)
                chi += d * d / wanted;
            else
                assert_int_equal(counts[i], 0);
        }
        if (!(chi < 29.9)) fail_msg("case %u: chi-square %.1f", c, chi);
    }
    zest_sampler_free(s);
}

/* Kolmogorov-Smirnov on the uniform numbers of one stream and across streams; 1e-4 each. */
static void test_uniform(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static double values[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = zest_sampling_uniform(3, 0, i);
        assert_true(values[i] >= 0 && values[i] < 1);
    }
    assert_true(test_ks(values, COUNT, test_uniform_cdf) > 1e-4);
    for (uint32_t i = 0; i < COUNT; i++) values[i] = zest_sampling_uniform(3, i, 7);
    assert_true(test_ks(values, COUNT, test_uniform_cdf) > 1e-4);
    assert_true(zest_sampling_uniform(3, 1, 2) != zest_sampling_uniform(3, 2, 1));
    assert_true(zest_sampling_uniform(3, 1, 2) != zest_sampling_uniform(4, 1, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_penalty),      cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_draws),        cmocka_unit_test(test_uniform),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
