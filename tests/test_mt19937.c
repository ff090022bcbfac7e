/* NumPy's legacy generator: the goldens are NumPy's own. */
#include "tests/support.h"

#include "rng/mt19937.h"

static void test_words(void **state) {
    (void)state;
    static const uint32_t golden[] = {1608637542, 3421126067, 4083286876};
    zest_mt19937 m;
    zest_mt19937_seed(&m, 42);
    for (size_t i = 0; i < 3; i++) assert_int_equal(zest_mt19937_next(&m), golden[i]);
    /* the C++ standard's own check of mt19937: the 10000th word of seed 5489 */
    zest_mt19937_seed(&m, 5489);
    for (int i = 1; i < 10000; i++) zest_mt19937_next(&m);
    assert_int_equal(zest_mt19937_next(&m), 4123659995u);
}

static void test_permutations_of_ten(void **state) {
    (void)state;
    static const struct {
        uint32_t seed, order[10];
    } golden[] = {{0, {2, 8, 4, 9, 1, 6, 7, 3, 0, 5}},  {13, {3, 5, 6, 1, 4, 7, 8, 9, 0, 2}},
                  {21, {1, 2, 7, 3, 5, 6, 0, 4, 8, 9}}, {42, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}},
                  {87, {2, 4, 7, 5, 1, 0, 3, 8, 9, 6}}, {100, {7, 6, 1, 5, 4, 2, 0, 3, 9, 8}}};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        uint32_t order[10];
        zest_mt19937_permutation(golden[i].seed, order, 10);
        assert_memory_equal(order, golden[i].order, sizeof order);
    }
}

static void test_longer_permutations(void **state) {
    (void)state;
    static const uint32_t four_hundred[] = {132, 309, 341, 196, 246, 60, 155, 261};
    static const uint32_t sst5[] = {855, 1546, 1473, 430, 1557};
    uint32_t order[2210];
    zest_mt19937_permutation(0, order, 400);
    assert_memory_equal(order, four_hundred, sizeof four_hundred);
    zest_mt19937_permutation(42, order, 2210);
    assert_memory_equal(order, sst5, sizeof sst5);
    unsigned char seen[2210] = {0};
    for (size_t i = 0; i < 2210; i++) {
        assert_true(order[i] < 2210);
        assert_false(seen[order[i]]++);
    }
}

static void test_ends(void **state) {
    (void)state;
    uint32_t one[1] = {7}, pair[2] = {3, 3};
    zest_mt19937 m;
    zest_mt19937_seed(&m, 1);
    assert_int_equal(zest_mt19937_below(&m, 0), 0);
    assert_int_equal(m.next, ZEST_MT19937_WORDS); /* nothing was drawn */
    zest_mt19937_shuffle(&m, one, 1);
    zest_mt19937_shuffle(&m, one, 0);
    assert_int_equal(one[0], 7);
    assert_int_equal(m.next, ZEST_MT19937_WORDS);
    zest_mt19937_shuffle(&m, pair, 2);
    assert_int_equal(m.next, 1);
    for (int i = 0; i < 1000; i++) assert_true(zest_mt19937_below(&m, 2) <= 2);
    zest_mt19937_seed(&m, 42); /* all 32 bits: no draw is thrown away */
    assert_int_equal(zest_mt19937_below(&m, 0xFFFFFFFFu), 1608637542);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_permutations_of_ten),
        cmocka_unit_test(test_longer_permutations),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
