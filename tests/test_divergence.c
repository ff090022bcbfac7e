/* When training counts as having fallen apart. */
#include <math.h>

#include "optim/stop.h"
#include "tests/support.h"

static zest_divergence after(double first, double loss, size_t count) {
    zest_divergence d = {0};
    zest_divergence_note(&d, first);
    for (size_t i = 0; i < count; i++) zest_divergence_note(&d, loss);
    return d;
}

static void test_limit(void **state) {
    (void)state;
    zest_divergence none = {0}, small = after(0.1, 0, 0), large = after(7, 0, 0), low = after(-3, 0, 0);
    assert_true(isnan(zest_divergence_limit(&none)));
    assert_true(zest_divergence_limit(&small) == 10.1);
    assert_true(zest_divergence_limit(&large) == 70);
    assert_true(zest_divergence_limit(&low) == 7);
}

static void test_steps_in_a_row(void **state) {
    (void)state;
    const double bad[] = {70.1, 4.5e16, INFINITY, NAN};
    for (size_t i = 0; i < 4; i++) {
        zest_divergence nine = after(7, bad[i], 9), ten = after(7, bad[i], 10), back = nine;
        assert_false(zest_divergence_found(&nine));
        assert_true(zest_divergence_found(&ten));
        zest_divergence_note(&back, 70); /* one that is not bad: counted anew */
        for (int j = 0; j < 9; j++) zest_divergence_note(&back, bad[i]);
        assert_false(zest_divergence_found(&back));
    }
    zest_divergence healthy = after(7, 70, 1000);
    assert_false(zest_divergence_found(&healthy));
}

/* Losses that were never finite are no divergence: there is nothing to compare with. */
static void test_no_beginning(void **state) {
    (void)state;
    zest_divergence d = after(NAN, NAN, 100);
    assert_false(zest_divergence_found(&d));
    zest_divergence_note(&d, 2); /* now there is */
    for (int i = 0; i < 10; i++) zest_divergence_note(&d, 21);
    assert_true(zest_divergence_found(&d));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limit), cmocka_unit_test(test_steps_in_a_row),
                                       cmocka_unit_test(test_no_beginning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
