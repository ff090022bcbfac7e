/* examples/zest_in_one_file.c against the library, part by part and as whole runs, bit for bit. The two share
 * no code: each is the other's reference. */
#define main example_main
int example_main(void);
#include "examples/zest_in_one_file.c"
#undef main

#include <stdlib.h>

#include "tests/support.h"

/* ---- Parts ---- */

static void seeds_equal_the_library(void **state) {
    (void)state;
    const uint64_t runs[] = {0, 1, 2, 0x9E3779B97F4A7C15u, UINT64_MAX};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++)
        for (int step = 0; step < 2000; step += 7)
            for (int i = 0; i < 300; i += 13)
                assert_int_equal(direction_seed(runs[r], step, i),
                                 zest_seed(runs[r], (uint64_t)step, (uint64_t)i));
}

/* Includes the tail: among this many normals some have magnitudes beyond 5. */
static void noise_equals_the_library(void **state) {
    (void)state;
    enum { N = 1000000 / TEST_SLOW / 4 * 4 };
    zest_ctx *ctx = test_context();
    float *expected = malloc(N * sizeof *expected), block[4];
    assert_non_null(expected);
    const uint64_t seeds[] = {0, 1, zest_seed(3, 4, 5), UINT64_MAX};
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        zest_direction direction;
        assert_ok(ctx, zest_direction_init(ctx, &direction, ZEST_GAUSSIAN, seeds[s], N));
        assert_ok(ctx, zest_direction_read(ctx, &direction, 0, N, expected));
        for (size_t i = 0; i < N; i += 4) {
            normal4(seeds[s], i / 4, block);
            assert_memory_equal(block, expected + i, sizeof block);
        }
    }
    free(expected);
    zest_ctx_free(ctx);
}

/* Losses of many sizes: equal ones, differences down to the last bits, offsets of 1000, and with a large t
 * exponentials that underflow, some of them gradually. */
static void tilt_equals_the_library(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    const double tilts[] = {0, 1e-300, 1e-8, 0.1, 1, 3, 20, 700, 1e4, 1e6}, offsets[] = {0, 0.7, -5, 1000};
    const double spreads[] = {0, 1e-12, 1e-3, 0.5, 1.05, 40};
    const int sizes[] = {1, 2, 5, 17, MAX_K};
    for (int bias_corrected = 0; bias_corrected < 2; bias_corrected++)
        for (int n = 0; n < 10 * 4 * 6 * 5; n++) {
            config c = {.t = tilts[n % 10], .rho = 1e-3, .bias_corrected = bias_corrected};
            double offset = offsets[n / 10 % 4], spread = spreads[n / 40 % 6];
            double losses[2 * MAX_K], g[MAX_K], expected[MAX_K];
            c.k = sizes[n / 240];
            for (int lane = 0; lane < 2 * c.k; lane++) {
                float v[4];
                normal4((uint64_t)n, (uint64_t)lane, v);
                losses[lane] = offset + spread * (double)v[0];
            }
            zest_tilt_options options = {.estimator = bias_corrected ? ZEST_BIAS_CORRECTED : ZEST_NAIVE,
                                         .t = c.t,
                                         .rho = c.rho,
                                         .k = (size_t)c.k};
            assert_ok(ctx, zest_tilt(ctx, &options, losses, expected, NULL));
            tilt(&c, losses, g);
            assert_memory_equal(g, expected, (size_t)c.k * sizeof *g);
        }
    zest_ctx_free(ctx);
}

/* ---- Runs ---- */

static double objective_of_library(const double *x, size_t n, void *user) {
    (void)user;
    return objective(x, (int)n);
}

/* The options of the library that belong to a config; the seed is spelled out, as it may exceed a double. */
static void spell(const config *c, const char *method, char text[256]) {
    snprintf(text, 256, "method=%s t=%.17g rho=%.17g lr=%.17g schedule=linear k=%d steps=%d seed=%llu",
             method, c->t, c->rho, c->lr, c->k, c->steps, (unsigned long long)c->seed);
}

/* A start off the floor of the valley, so that x moves in every coordinate. */
static void fill_start(double *x, int d) {
    for (int j = 0; j < d; j++) x[j] = 1.5 - 0.25 * (j % 7);
}

static void compare_run(zest_ctx *ctx, const char *method, const config *c, int d) {
    double x[MAX_DIM], expected[MAX_DIM], again[MAX_DIM], start[MAX_DIM];
    char options[256];
    size_t bytes = (size_t)d * sizeof *x;
    fill_start(start, d);
    memcpy(x, start, bytes);
    memcpy(expected, start, bytes);
    memcpy(again, start, bytes);
    FILE *journal = tmpfile();
    assert_non_null(journal);
    assert_true(train(c, x, d, journal));
    spell(c, method, options);
    assert_ok(ctx, zest_minimize_f64(ctx, objective_of_library, NULL, expected, (size_t)d, options, NULL));
    if (memcmp(x, expected, bytes)) fail_msg("d = %d, %s: x differs from the library's", d, options);
    assert_int_equal(replay(c, again, d, journal), c->steps);
    if (memcmp(x, again, bytes)) fail_msg("d = %d, %s: the replay differs", d, options);
    assert_memory_not_equal(x, start, bytes);
    fclose(journal);
}

static void runs_equal_the_library(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    const double tilts[] = {0, 1e-6, 1, 20, 1e5};
    const uint64_t seeds[] = {0, 1, 42, UINT64_MAX};
    const int sizes[] = {1, 5, 33}, dimensions[] = {2, 11, MAX_DIM};
    for (int n = 0; n < 4 * 3 * 3; n++) {
        config c = {.rho = 0.05, .lr = 0.03, .steps = 50};
        c.seed = seeds[n % 4];
        c.k = sizes[n / 4 % 3];
        int d = dimensions[n / 12];
        compare_run(ctx, "mezo", &c, d);
        for (size_t i = 0; i < sizeof tilts / sizeof *tilts; i++) {
            c.t = tilts[i];
            c.bias_corrected = 0;
            compare_run(ctx, "zest-n", &c, d);
            c.bias_corrected = 1;
            compare_run(ctx, "zest-bc", &c, d);
        }
    }
    zest_ctx_free(ctx);
}

/* ---- Journal ---- */

/* The records hold what the library's hold; one other bit in them gives another x. */
static void journal_equals_the_library(void **state) {
    (void)state;
    enum { D = 11, K = 5, STEPS = 50 };
    zest_ctx *ctx = test_context();
    config c = {.t = 3, .rho = 0.05, .lr = 0.03, .k = K, .bias_corrected = 1, .steps = STEPS, .seed = 7};
    double x[D], expected[D], again[D], lr, losses[2 * K];
    char folder[64], path[128];
    fill_start(x, D);
    fill_start(expected, D);
    fill_start(again, D);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(train(&c, x, D, file));

    snprintf(path, sizeof path, "%s/journal", test_folder(folder));
    zest_tuner *tuner = zest_tuner_new_f64(ctx, expected, D);
    const char *const options[][2] = {{"method", "zest-bc"},  {"t", "3"}, {"rho", "0.05"}, {"lr", "0.03"},
                                      {"schedule", "linear"}, {"k", "5"}, {"steps", "50"}, {"seed", "7"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        assert_ok(ctx, zest_tuner_set(tuner, options[i][0], options[i][1]));
    assert_ok(ctx, zest_tuner_objective_f64(tuner, objective_of_library, NULL));
    assert_ok(ctx, zest_tuner_start_journal(tuner, path));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    zest_tuner_free(tuner);
    assert_memory_equal(x, expected, sizeof x);

    zest_journal *journal = zest_journal_open(ctx, path);
    assert_non_null(journal);
    assert_int_equal(zest_journal_steps(journal), STEPS);
    rewind(file);
    for (uint64_t step = 1; step <= STEPS; step++) {
        zest_record record;
        assert_ok(ctx, zest_journal_read(journal, step, &record));
        assert_true(journal_read(file, &lr, losses, K));
        assert_int_equal(record.count, 2 * K);
        assert_memory_equal(&record.lr, &lr, sizeof lr);
        assert_memory_equal(record.losses, losses, sizeof losses);
    }
    assert_false(journal_read(file, &lr, losses, K));
    zest_journal_close(journal);
    test_remove(folder);

    /* the highest bit of the mantissa of the first loss of step 20 */
    long place = 20 * (long)sizeof(double[1 + 2 * K]) + (long)sizeof(double[1]);
    double loss;
    uint64_t bits;
    assert_int_equal(fseek(file, place, SEEK_SET), 0);
    assert_int_equal(fread(&loss, sizeof loss, 1, file), 1);
    memcpy(&bits, &loss, sizeof bits);
    bits ^= (uint64_t)1 << 51;
    assert_int_equal(fseek(file, place, SEEK_SET), 0);
    assert_int_equal(fwrite(&bits, sizeof bits, 1, file), 1);
    assert_int_equal(replay(&c, again, D, file), STEPS);
    assert_memory_not_equal(again, x, sizeof x);
    fclose(file);
    zest_ctx_free(ctx);
}

int main(void) {
    (void)example_main; /* tests/one_file.sh runs it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_equal_the_library),    cmocka_unit_test(noise_equals_the_library),
        cmocka_unit_test(tilt_equals_the_library),    cmocka_unit_test(runs_equal_the_library),
        cmocka_unit_test(journal_equals_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
