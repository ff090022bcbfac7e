/* The update sweep: 16-bit weights and stochastic rounding, slices, threads, instruction sets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/step.h"
#include "tests/device_support.h"
#include "tests/support.h"

static int best_level(void) {
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    return (int)cpu;
}

static float widen(int brain, uint16_t half) {
    return brain ? zest_dtype_from_bf16(half) : zest_dtype_from_f16(half);
}

static uint16_t rounded(int brain, float x, uint16_t random) {
    uint16_t out;
    (brain ? zest_vector_ops_plain.store_bf16 : zest_vector_ops_plain.store_f16)(&out, &x, &random, 1);
    return out;
}

/* Every 16-bit number comes back as it is, whatever the random bits. */
static void representable_numbers_stay(void **state) {
    (void)state;
    static const uint16_t randoms[] = {0, 1, 0x7fff, 0x8000, 0xffff};
    for (int brain = 0; brain < 2; brain++)
        for (uint32_t half = 0; half < 65536; half++) {
            float x = widen(brain, (uint16_t)half);
            for (int r = 0; r < 5; r++) {
                uint16_t back = rounded(brain, x, randoms[r]);
                if (isnan(x))
                    assert_true(isnan(widen(brain, back)));
                else
                    assert_int_equal(back, half);
            }
        }
}

/* Between two neighbours: the upper one for exactly the share of the 65,536 random values that the place
 * between them asks for (f16 uses 13 of the bits for normal numbers), so the mean is the number itself. */
static void the_mean_is_right(void **state) {
    (void)state;
    for (int brain = 0; brain < 2; brain++)
        for (uint32_t half = 0; half < (brain ? 0x7f7f : 0x7bff); half += 97)
            for (int sign = 0; sign < 2; sign++)
                for (int part = 1; part < 16; part += 5) {
                    float low = widen(brain, (uint16_t)half), high = widen(brain, (uint16_t)(half + 1));
                    float x = low + (high - low) * (float)part / 16;
                    uint32_t up = 0, bit = sign ? 0x8000 : 0;
                    for (uint32_t random = 0; random < 65536; random += 256)
                        up += rounded(brain, sign ? -x : x, (uint16_t)(random + 128)) != (half | bit);
                    assert_int_equal(up, (uint32_t)part * 16);
                }
}

static void extremes_stay_finite_or_what_they_were(void **state) {
    (void)state;
    assert_int_equal(rounded(1, 3.4e38f, 0xffff), 0x7f7f);
    assert_int_equal(rounded(1, -3.4e38f, 0xffff), 0xff7f);
    assert_int_equal(rounded(1, INFINITY, 0xffff), 0x7f80);
    assert_true(isnan(widen(1, rounded(1, NAN, 0xffff))));
    assert_int_equal(rounded(0, 1e6f, 0xffff), 0x7bff);
    assert_int_equal(rounded(0, -65519.0f, 0xffff), 0xfbff);
    assert_int_equal(rounded(0, -INFINITY, 0), 0xfc00);
    assert_true(isnan(widen(0, rounded(0, NAN, 0xffff))));
    assert_int_equal(rounded(0, 1e-12f, 0), 0);
}

/* n weights around 0.02, `steps` sweeps with one direction of signs and a tiny coefficient. */
static void sweep_rounding(zest_cpu cpu, int threads, zest_dtype dtype, void *data, size_t n, int steps,
                           double c, int nearest) {
    zest_tensor tensor = {"w", dtype, 3, n, data, {0}};
    zest_params params = {&tensor, 1, n};
    for (int s = 0; s < steps; s++) {
        zest_direction direction = {7, n, 1, ZEST_RADEMACHER};
        double g = -1;
        zest_update update = {&direction, &g, 1, c, 0, zest_seed(5, (uint64_t)s, 9), nearest};
        zest_update_apply(zest_vector_ops_for(cpu), threads, &params, &update);
    }
}

static void sweep(zest_cpu cpu, int threads, zest_dtype dtype, void *data, size_t n, int steps, double c) {
    sweep_rounding(cpu, threads, dtype, data, n, steps, c, 0);
}

static void threads_and_instructions_change_nothing(void **state) {
    (void)state;
    enum { LARGE = 100003 };
    uint16_t *expected = malloc(2 * LARGE), *got = malloc(2 * LARGE);
    for (int brain = 0; brain < 2; brain++)
        for (int l = 0; l <= best_level(); l++)
            for (int threads = 1; threads <= 5; threads += 2) {
                for (size_t i = 0; i < LARGE; i++) {
                    float x = 0.02f * (float)sin((double)i);
                    expected[i] = got[i] = brain ? zest_dtype_to_bf16(x) : zest_dtype_to_f16(x);
                }
                zest_dtype dtype = brain ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16;
                sweep(ZEST_CPU_PLAIN, 1, dtype, expected, LARGE, 3, 1e-4);
                sweep((zest_cpu)l, threads, dtype, got, LARGE, 3, 1e-4);
                assert_memory_equal(expected, got, 2 * LARGE);
            }
    free(expected);
    free(got);
}

/* Trap T13: steps of 1e-6 on weights of 0.02, where bf16 has steps of 1.2e-4, vanish when rounded to nearest.
 * With stochastic rounding 200 of them move the weights by 200 steps in the mean. */
static void small_updates_do_not_vanish(void **state) {
    (void)state;
    enum { N = 40000, STEPS = 200 };
    const double c = 1e-6;
    for (int brain = 0; brain < 2; brain++) {
        uint16_t *w = malloc(2 * N), start = brain ? zest_dtype_to_bf16(0.02f) : zest_dtype_to_f16(0.02f);
        float sign[N], from = widen(brain, start);
        double moved = 0, squares = 0;
        for (size_t i = 0; i < N; i++) w[i] = start;
        zest_noise_plain.sign(sign, 7, 3, N);
        sweep((zest_cpu)best_level(), 0, brain ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16, w, N, STEPS, c);
        for (size_t i = 0; i < N; i++) {
            double d = (double)sign[i] * ((double)widen(brain, w[i]) - from);
            moved += d, squares += d * d;
            uint16_t nearest =
                brain ? zest_dtype_to_bf16(from + (float)c) : zest_dtype_to_f16(from + (float)c);
            assert_int_equal(nearest, start); /* what plain rounding would leave: nothing at all */
        }
        double mean = moved / N, error = sqrt((squares / N - mean * mean) / N);
        assert_close(mean, STEPS * c, 5 * error); /* false alarm 6e-7 */
        assert_true(5 * error < 0.1 * STEPS * c);
        free(w);
    }
}

/* The other choice: every weight goes to the nearest 16-bit number, so that the small updates of the test
 * above leave everything as it was, and large ones arrive as the conversion rounds them. */
static void nearest_is_nearest(void **state) {
    (void)state;
    enum { N = 5000 };
    for (int brain = 0; brain < 2; brain++) {
        zest_dtype dtype = brain ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16;
        uint16_t w[N], start[N];
        float sign[N];
        for (size_t i = 0; i < N; i++) {
            float x = 0.02f * (float)sin(0.1 + (double)i);
            start[i] = w[i] = brain ? zest_dtype_to_bf16(x) : zest_dtype_to_f16(x);
        }
        zest_noise_plain.sign(sign, 7, 3, N);
        sweep_rounding((zest_cpu)best_level(), 0, dtype, w, N, 1, 0.3, 1);
        for (size_t i = 0; i < N; i++) {
            float x = fmaf(0.3f, sign[i], widen(brain, start[i]));
            double gap = fabs((double)widen(brain, w[i]) - (double)x);
            double up = fabs((double)widen(brain, (uint16_t)(w[i] + 1)) - (double)x),
                   down = fabs((double)widen(brain, (uint16_t)(w[i] - 1)) - (double)x);
            assert_true(gap <= up && gap <= down);
        }
        for (size_t i = 0; i < N; i++) w[i] = start[0];
        sweep_rounding((zest_cpu)best_level(), 0, dtype, w, N, 50, 1e-8, 1);
        for (size_t i = 0; i < N; i++) assert_int_equal(w[i], start[0]);
    }
}

/* Odd sizes, every type, signs and normals, decay, and numbers that start anywhere. */
static void the_gpu_moves_to_the_same_bits(void **state) {
    (void)state;
    enum { ODD = 100003 };
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_BF16, ZEST_DTYPE_F16};
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    const zest_device_table *table = device->operations->device;
    for (int d = 0; d < 3; d++)
        for (uint64_t first = 0; first < 9; first += 4 - first % 3) {
            size_t size = zest_dtype_size(dtypes[d]);
            float *x = malloc(ODD * sizeof *x);
            void *host = malloc(ODD * size), *back = malloc(ODD * size);
            zest_noise_plain.normal(x, 3, 0, ODD);
            for (size_t i = 0; i < ODD; i++) x[i] *= i % 7 ? 0.02f : i % 2 ? 1e-6f : 3e4f;
            assert_int_equal(zest_dtype_from_float(dtypes[d], x, ODD, host), 0);
            zest_tensor tensors[2] = {
                {"w", dtypes[d], first, ODD - 11, host, {0}},
                {"b", dtypes[d], first + ODD - 11, 11, (char *)host + (ODD - 11) * size, {0}}};
            zest_params params = {tensors, 2, ODD};
            char *there = device_upload(device, host, ODD * size);
            zest_tensor moved[2] = {tensors[0], tensors[1]};
            moved[0].data = there, moved[1].data = there + (ODD - 11) * size;
            zest_params params_there = {moved, 2, ODD};
            zest_direction directions[3] = {
                {11, ODD, 1, ZEST_GAUSSIAN}, {12, ODD, 1, ZEST_RADEMACHER}, {13, ODD, 1, ZEST_GAUSSIAN}};
            const double g[3] = {0.3, -0.01, 1e-3};
            int nearest = first == 4;
            zest_update update = {directions, g, 3, 0.01, first ? 0.5 : 0, 99, nearest};
            zest_update_term terms[3];
            for (int i = 0; i < 3; i++)
                terms[i] = (zest_update_term){
                    .seed = directions[i].seed, .c = (float)(-0.01 * g[i]), .signs = i == 1};
            zest_update_apply(zest_vector_ops_for(ZEST_CPU_PLAIN), 1, &params, &update);
            device_check(device, table->update(device, &params_there, terms, 3,
                                               first ? (float)(1 - 0.01 * 0.5) : 1.0f, 99, nearest));
            device_check(device, table->download(device, back, there, ODD * size));
            assert_memory_equal(host, back, ODD * size);
            free(x), free(host), free(back);
        }
    zest_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(representable_numbers_stay),
        cmocka_unit_test(the_mean_is_right),
        cmocka_unit_test(extremes_stay_finite_or_what_they_were),
        cmocka_unit_test(threads_and_instructions_change_nothing),
        cmocka_unit_test(small_updates_do_not_vanish),
        cmocka_unit_test(nearest_is_nearest),
        cmocka_unit_test(the_gpu_moves_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
