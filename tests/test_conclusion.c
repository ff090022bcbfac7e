/* Results as sentences: every case of the sentence, and of the one that counts. */
#include "lab/stats/stats.h"

#include <math.h>
#include <string.h>

#include "tests/support.h"

#define MINUS "\xe2\x88\x92"

static zest_conclusion reached(double value, const char *base, const double *differences, size_t count,
                               size_t examples) {
    zest_conclusion c = {.method = "ZEST-N", .metric = "accuracy", .part = "test"};
    strcpy(c.base, base);
    c.value = (zest_sample){.n = count, .mean = value, .error = NAN, .low = NAN, .high = NAN};
    c.difference = zest_paired_sample(differences, count, examples);
    return c;
}

static void says(const zest_conclusion *c, const char *wanted) {
    zest_buffer out = {0};
    zest_conclusion_sentence(c, &out);
    assert_string_equal(out.data ? out.data : "", wanted);
    zest_buffer_free(&out);
}

static void leads(const zest_conclusion *all, size_t count, const char *wanted) {
    zest_buffer out = {0};
    zest_conclusion_lead(all, count, &out);
    assert_string_equal(out.data ? out.data : "", wanted);
    zest_buffer_free(&out);
}

static const double none[] = {-0.01, 0.009, 0.01}, up[] = {0.10, 0.11, 0.12}, down[] = {-0.10, -0.11, -0.12},
                    equal[] = {0.025, 0.025, 0.025}, zero[] = {0, 0.0001, -0.0001};

static void sentences(void **state) {
    (void)state;
    zest_conclusion c = reached(0.841, "MeZO", none, 3, 0);
    says(&c, "ZEST-N reached 84.1 % accuracy on test, 0.3 points above MeZO (95 % interval " MINUS
             "2.5 to 3.1, 3 seeds): no difference can be shown.");
    c = reached(0.841, "MeZO", up, 3, 1000);
    says(&c, "ZEST-N reached 84.1 % accuracy on test, 11.0 points above MeZO (95 % interval 8.5 to 13.5, 3 "
             "seeds): better than MeZO.");
    c = reached(0.6, "SGD", down, 3, 1000);
    strcpy(c.where, "SST-2, clean labels");
    says(&c, "ZEST-N reached 60.0 % accuracy on test (SST-2, clean labels), 11.0 points below SGD (95 % "
             "interval " MINUS "13.5 to " MINUS "8.5, 3 seeds): worse than SGD.");
    c = reached(0.6, "MeZO", up, 1, 1000);
    says(&c,
         "ZEST-N reached 60.0 % accuracy on test, 10.0 points above MeZO (1 seed): too few seeds to tell.");
    c = reached(0.6, "MeZO", equal, 3, 80);
    says(&c, "ZEST-N reached 60.0 % accuracy on test, 2.5 points above MeZO (3 seeds, all with the same "
             "difference): too few seeds to tell.");
    c = reached(0.6, "MeZO", zero, 3, 0);
    says(&c,
         "ZEST-N reached 60.0 % accuracy on test, the same as MeZO (95 % interval 0.0 to 0.0, 3 seeds): no "
         "difference can be shown.");
    /* nothing to compare with */
    c = reached(0.704, "", NULL, 0, 0);
    c.value = (zest_sample){.n = 1, .mean = 0.704, .low = 0.644, .high = 0.758};
    says(&c, "ZEST-N reached 70.4 % accuracy on test (95 % interval 64.4 to 75.8, 1 seed).");
    strcpy(c.metric, "loss");
    says(&c, "ZEST-N reached a loss of 0.7040 on test (95 % interval 0.6440 to 0.7580, 1 seed).");
    c.value.mean = NAN;
    says(&c, "");
    assert_string_equal(zest_conclusion_verdict(&c), "");
}

static void one_sentence_for_several(void **state) {
    (void)state;
    zest_conclusion all[5] = {reached(0.8, "MeZO", none, 3, 0), reached(0.9, "MeZO", up, 3, 0),
                              reached(0.9, "MeZO", up, 3, 0), reached(0.7, "MeZO", down, 3, 0),
                              reached(0.7, "MeZO", up, 2, 0)};
    leads(all, 1,
          "ZEST-N reached 80.0 % accuracy on test, 0.3 points above MeZO (95 % interval " MINUS
          "2.5 to 3.1, 3 seeds): no difference can be shown.");
    leads(all, 4,
          "Of 4 comparisons with MeZO (95 % intervals, 3 seeds) 2 are better, 1 is worse and 1 shows no "
          "difference.");
    leads(all, 5,
          "Of 5 comparisons with MeZO (95 % intervals, 2 to 3 seeds) 2 are better, 1 is worse, 1 shows no "
          "difference and 1 has too few seeds to tell.");
    all[1] = all[0];
    leads(all, 2, "Of 2 comparisons with MeZO (95 % intervals, 3 seeds) none shows a difference.");
    all[0] = all[1] = all[4];
    leads(all, 2, "2 comparisons with MeZO (2 seeds): too few seeds to tell.");
    all[0].base[0] = all[1].base[0] = '\0';
    leads(all, 2, "ZEST-N reached 70.0 % accuracy on test (2 seeds).");
    leads(all, 0, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sentences),
                                       cmocka_unit_test(one_sentence_for_several)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
