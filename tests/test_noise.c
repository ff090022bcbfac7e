/* Noise: known answers, the same bits everywhere, and the distributions it claims.
 *
 * Statistical tests use fixed seeds, so they either always pass or always fail; their thresholds are set so
 * that a right generator with a fresh seed would fail each with probability below 1e-6. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/lanes.h"
#include "rng/noise.h"
#include "rng/normal.h"
#include "tests/support.h"

static const zest_noise *level(int i) { return zest_noise_for((zest_cpu)i); }

static int best_level(void) {
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    return (int)cpu;
}

/* The known-answer vectors that the authors of Philox publish with Random123. */
static void philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        zest_philox_block counter;
        memcpy(counter.word, answers[i].counter, sizeof counter.word);
        uint64_t key = answers[i].key[0] | (uint64_t)answers[i].key[1] << 32;
        zest_philox_block out = zest_philox(counter, key);
        assert_memory_equal(out.word, answers[i].out, sizeof out.word);
    }
}

/* Box-Muller in double with libm, from the same bits: the polynomials must agree to float precision. */
static void normals_follow_box_muller(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t position = 0; position < 200000; position++) {
        float got[4];
        zest_normal4(77, ZEST_STREAM_NORMAL, position, got);
        zest_philox_block bits = zest_philox_at(77, ZEST_STREAM_NORMAL, position);
        for (int half = 0; half < 4; half += 2) {
            double u = ((double)bits.word[half] + 0.5) * 0x1p-32,
                   angle = 2 * M_PI * (double)bits.word[half + 1] * 0x1p-32;
            double radius = sqrt(-2 * log(u));
            /* u is rounded to float, which near 1 moves the radius by up to 2^-25/radius */
            double allowed = 4e-7 * (radius + 0.1) + 0x1p-24 / (radius + 1e-4);
            worst = fmax(worst, fabs(got[half] - radius * cos(angle)) / allowed);
            worst = fmax(worst, fabs(got[half + 1] - radius * sin(angle)) / allowed);
        }
    }
    if (worst > 1) fail_msg("the error is %g times what rounding allows", worst);
}

/* The extreme words: largest and smallest radius, every quadrant's edge. All finite. */
static void extreme_bits_give_finite_normals(void **state) {
    (void)state;
    static const uint32_t edges[] = {0,          1,          127,        128,        0x1fffffff,
                                     0x20000000, 0x3fffffff, 0x40000000, 0x5fffffff, 0x60000000,
                                     0x7fffffff, 0x80000000, 0x9fffffff, 0xa0000000, 0xdfffffff,
                                     0xe0000000, 0xffffff7f, 0xffffff80, 0xffffffff};
    assert_close(zest_normal_radius(0), sqrt(66 * log(2)), 1e-5);
    assert_true(zest_normal_radius(0xffffffff) == 0);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        float cosine, sine;
        assert_true(isfinite(zest_normal_radius(edges[i])) && zest_normal_radius(edges[i]) >= 0);
        zest_normal_sincos(edges[i], &cosine, &sine);
        double angle = 2 * M_PI * (double)edges[i] * 0x1p-32;
        assert_close(cosine, cos(angle), 2e-7);
        assert_close(sine, sin(angle), 2e-7);
    }
}

/* The noise is part of the format: were it to change, journals would replay to other bits. */
static void normals_are_pinned(void **state) {
    (void)state;
    float z[6];
    level(0)->normal(z, 42, 1000003, 6);
    static const uint32_t bits[6] = {0xbeb0c455, 0xbea96159, 0x3fcdd97c, 0x3f9a3594, 0x3f58c49b, 0xbfbd3242};
    assert_memory_equal(z, bits, sizeof bits);
    assert_true(zest_seed(1, 2, 3) == 0x1be5495c5c40f423u);
}

/* Slices of all alignments and lengths, also where the counter's low word wraps (element 2^34). */
static void every_instruction_set_gives_the_same_bits(void **state) {
    (void)state;
    enum { ROOM = 700 };
    float whole[ROOM + 16], slice[ROOM + 16];
    static const uint64_t starts[] = {
        0, 1, 2, 3, 61, 127, 1000003, ((uint64_t)1 << 34) - 200, ((uint64_t)1 << 45) + 5};
    for (int l = 0; l <= best_level(); l++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            for (size_t count = 0; count < ROOM; count += count < 150 ? 1 : 37) {
                for (int kind = 0; kind < 2; kind++) {
                    zest_noise_fill *plain = kind ? level(0)->sign : level(0)->normal;
                    zest_noise_fill *fast = kind ? level(l)->sign : level(l)->normal;
                    memset(slice, 0x55, sizeof slice);
                    plain(whole, 9 + count, starts[s], count);
                    fast(slice, 9 + count, starts[s], count);
                    assert_memory_equal(whole, slice, count * sizeof *whole);
                    for (size_t i = count; i < ROOM + 16; i++) /* and nothing behind the end */
                        assert_memory_equal(&slice[i], "\x55\x55\x55\x55", 4);
                }
            }
}

/* The same for the bits that rounding takes; half-words of Philox in order. */
static void rounding_bits_are_the_same_everywhere(void **state) {
    (void)state;
    enum { ROOM = 600 };
    uint16_t whole[ROOM + 8], slice[ROOM + 8];
    zest_philox_block first = zest_philox_at(4, ZEST_STREAM_ROUND, 0);
    level(0)->round(whole, 4, 0, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(whole[i], first.word[i / 2] >> 16 * (i % 2) & 0xffff);
    for (int l = 0; l <= best_level(); l++)
        for (uint64_t start = 0; start < 40; start += 3)
            for (size_t count = 0; count < ROOM; count += 29) {
                memset(slice, 0x55, sizeof slice);
                level(0)->round(whole, 9, start, count);
                level(l)->round(slice, 9, start, count);
                assert_memory_equal(whole, slice, count * sizeof *whole);
                assert_int_equal(slice[count], 0x5555);
            }
}

static void a_large_run_gives_the_same_bits(void **state) {
    (void)state;
    size_t n = (1 << 22) / TEST_SLOW;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    assert_true(a && b);
    level(0)->normal(a, 123, 7, n);
    for (int l = 1; l <= best_level(); l++) {
        level(l)->normal(b, 123, 7, n);
        assert_memory_equal(a, b, n * sizeof *a);
    }
    free(a);
    free(b);
}

static void normals_have_the_right_moments(void **state) {
    (void)state;
    size_t n = 20000000 / TEST_SLOW;
    float block[4096];
    double sum[4] = {0}, lag = 0, across = 0, last = 0;
    float other[4096];
    for (size_t i = 0; i < n; i += 4096) {
        level(best_level())->normal(block, 5, i, 4096);
        level(best_level())->normal(other, 6, i, 4096);
        for (int j = 0; j < 4096; j++) {
            double z = block[j];
            sum[0] += z, sum[1] += z * z, sum[2] += z * z * z, sum[3] += z * z * z * z;
            lag += z * last, across += z * other[j];
            last = z;
        }
    }
    double count = (double)((n + 4095) / 4096 * 4096), sigma = 5 / sqrt(count); /* 5 sigma: 6e-7 each */
    assert_close(sum[0] / count, 0, sigma);
    assert_close(sum[1] / count, 1, sigma * sqrt(2.0));
    assert_close(sum[2] / count, 0, sigma * sqrt(15.0));
    assert_close(sum[3] / count, 3, sigma * sqrt(96.0));
    assert_close(lag / count, 0, sigma);    /* neighbours */
    assert_close(across / count, 0, sigma); /* neighbouring seeds */
}

static void normals_pass_kolmogorov_smirnov(void **state) {
    (void)state;
    size_t n = 1000000 / TEST_SLOW;
    float *z = malloc(n * sizeof *z);
    double *values = malloc(n * sizeof *values);
    assert_true(z && values);
    level(best_level())->normal(z, 31415, 0, n);
    for (size_t i = 0; i < n; i++) values[i] = z[i];
    double p = test_ks(values, n, test_normal_cdf);
    if (p < 1e-6) fail_msg("p = %g", p);
    for (size_t i = 0; i < n; i++) values[i] = 3 * (double)z[i]; /* the test itself can fail */
    assert_true(test_ks(values, n, test_normal_cdf) < 1e-6);
    free(z);
    free(values);
}

static void signs_are_fair_and_independent(void **state) {
    (void)state;
    size_t n = 4000000 / TEST_SLOW;
    float *z = malloc(n * sizeof *z);
    assert_non_null(z);
    level(best_level())->sign(z, 271828, 0, n);
    double sum = 0, lag1 = 0, lag32 = 0, lag128 = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(z[i] == 1.0f || z[i] == -1.0f);
        sum += z[i];
        if (i >= 128) lag1 += z[i] * z[i - 1], lag32 += z[i] * z[i - 32], lag128 += z[i] * z[i - 128];
    }
    double limit = 5 * sqrt((double)n);
    assert_close(sum, 0, limit);
    assert_close(lag1, 0, limit);
    assert_close(lag32, 0, limit);
    assert_close(lag128, 0, limit);
    free(z);
}

static double norm_of(zest_ctx *ctx, const zest_direction *direction) {
    double sum = 0;
    float slice[1000];
    for (uint64_t i = 0; i < direction->dimension; i += 1000) {
        size_t count = direction->dimension - i < 1000 ? (size_t)(direction->dimension - i) : 1000;
        assert_ok(ctx, zest_direction_read(ctx, direction, i, count, slice));
        for (size_t j = 0; j < count; j++) sum += (double)slice[j] * slice[j];
    }
    return sqrt(sum);
}

/* The norm is that of the whole vector, whatever pieces it is read in. */
static void spheres_have_radius_sqrt_d(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    static const uint64_t dimensions[] = {1, 2, 3, 17, 1000, 65536, 65537, 300001};
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        zest_direction direction;
        assert_ok(ctx, zest_direction_init(ctx, &direction, ZEST_SPHERE, 99 + i, dimensions[i]));
        assert_close(norm_of(ctx, &direction) / sqrt((double)dimensions[i]), 1, 1e-6);
    }
    zest_ctx_free(ctx);
}

/* In the plane the angle of a point on the circle is uniform. */
static void circle_angles_are_uniform(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    enum { N = 20000 };
    double *angles = malloc(N * sizeof *angles);
    for (int i = 0; i < N; i++) {
        zest_direction direction;
        float v[2];
        assert_ok(ctx, zest_direction_init(ctx, &direction, ZEST_SPHERE, zest_seed(3, (uint64_t)i, 0), 2));
        assert_ok(ctx, zest_direction_read(ctx, &direction, 0, 2, v));
        angles[i] = atan2(v[1], v[0]) / (2 * M_PI) + 0.5;
    }
    assert_true(test_ks(angles, N, test_uniform_cdf) > 1e-6);
    free(angles);
    zest_ctx_free(ctx);
}

/* Uniform in the ball: (|v|/sqrt d)^d is uniform on [0,1], and the direction has no preferred half. */
static void ball_radii_are_uniform_in_volume(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    enum { N = 20000 };
    static const uint64_t dimensions[] = {1, 2, 3, 50};
    double *volumes = malloc(N * sizeof *volumes);
    for (size_t k = 0; k < 4; k++) {
        double d = (double)dimensions[k], first = 0;
        for (int i = 0; i < N; i++) {
            zest_direction direction;
            float v[50];
            assert_ok(ctx, zest_direction_init(ctx, &direction, ZEST_BALL, zest_seed(8, (uint64_t)i, k),
                                               dimensions[k]));
            assert_ok(ctx, zest_direction_read(ctx, &direction, 0, (size_t)dimensions[k], v));
            volumes[i] = pow(norm_of(ctx, &direction) / sqrt(d), d);
            first += v[0];
            assert_true(volumes[i] <= 1 + 1e-5);
        }
        double p = test_ks(volumes, N, test_uniform_cdf);
        if (p < 1e-6) fail_msg("d = %g: p = %g", d, p);
        assert_close(first / N, 0, 5 * sqrt(d / (d + 2) / N)); /* E v_1^2 = d/(d+2) */
    }
    free(volumes);
    zest_ctx_free(ctx);
}

static void gains_do_not_depend_on_threads_or_instructions(void **state) {
    (void)state;
    for (int l = 0; l <= best_level(); l++)
        for (int threads = 1; threads <= 7; threads += 2)
            for (int kind = ZEST_SPHERE; kind <= ZEST_BALL; kind++) {
                zest_direction expected, got;
                assert_int_equal(zest_direction_make(zest_vector_ops_for(0), 1, &expected,
                                                     (zest_distribution)kind, 5, 200003, NULL),
                                 0);
                assert_int_equal(zest_direction_make(zest_vector_ops_for((zest_cpu)l), threads, &got,
                                                     (zest_distribution)kind, 5, 200003, NULL),
                                 0);
                assert_memory_equal(&expected.gain, &got.gain, sizeof got.gain);
            }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* 30-bit seeds collide after some ten thousand steps (trap T19); these cannot within a run, and must not
 * across runs. */
static void seeds_do_not_collide(void **state) {
    (void)state;
    size_t n = 0, runs = 4, steps = 50000, directions = 10;
    uint64_t *seeds = malloc(runs * steps * directions * sizeof *seeds);
    assert_non_null(seeds);
    for (size_t r = 0; r < runs; r++)
        for (size_t s = 0; s < steps; s++)
            for (size_t i = 0; i < directions; i++) seeds[n++] = zest_seed(r, s, i);
    qsort(seeds, n, sizeof *seeds, by_value);
    for (size_t i = 1; i < n; i++) assert_true(seeds[i] != seeds[i - 1]);
    free(seeds);
}

static void reading_outside_is_refused(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    zest_direction direction;
    float v[8];
    assert_ok(ctx, zest_direction_init(ctx, &direction, ZEST_GAUSSIAN, 1, 8));
    assert_ok(ctx, zest_direction_read(ctx, &direction, 8, 0, v));
    assert_int_equal(zest_direction_read(ctx, &direction, 1, 8, v), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_direction_read(ctx, &direction, UINT64_MAX, 2, v), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_direction_init(ctx, &direction, ZEST_GAUSSIAN, 1, 0), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_direction_init(ctx, &direction, (zest_distribution)9, 1, 3), ZEST_ERROR_ARGUMENT);
    zest_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(normals_follow_box_muller),
        cmocka_unit_test(extreme_bits_give_finite_normals),
        cmocka_unit_test(normals_are_pinned),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(rounding_bits_are_the_same_everywhere),
        cmocka_unit_test(a_large_run_gives_the_same_bits),
        cmocka_unit_test(normals_have_the_right_moments),
        cmocka_unit_test(normals_pass_kolmogorov_smirnov),
        cmocka_unit_test(signs_are_fair_and_independent),
        cmocka_unit_test(spheres_have_radius_sqrt_d),
        cmocka_unit_test(circle_angles_are_uniform),
        cmocka_unit_test(ball_radii_are_uniform_in_volume),
        cmocka_unit_test(gains_do_not_depend_on_threads_or_instructions),
        cmocka_unit_test(seeds_do_not_collide),
        cmocka_unit_test(reading_outside_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
