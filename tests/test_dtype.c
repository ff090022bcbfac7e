/* Conversions between float and the 16-bit types: every pattern, every rounding boundary. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/tensor.h"

typedef struct {
    const char *name;
    zest_dtype dtype;
    int exponent_bits, fraction_bits;
    float (*up)(uint16_t);
    uint16_t (*down)(float);
} half_kind;

static const half_kind kinds[] = {
    {"F16", ZEST_DTYPE_F16, 5, 10, zest_dtype_from_f16, zest_dtype_to_f16},
    {"BF16", ZEST_DTYPE_BF16, 8, 7, zest_dtype_from_bf16, zest_dtype_to_bf16},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* What the pattern means, from the definition of the format. */
static double meaning(const half_kind *kind, uint16_t pattern) {
    int top = (1 << kind->exponent_bits) - 1, bias = top / 2;
    int exponent = pattern >> kind->fraction_bits & top,
        fraction = pattern & ((1 << kind->fraction_bits) - 1);
    double magnitude;
    if (exponent == top)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - bias - kind->fraction_bits);
    else
        magnitude = ldexp(fraction + (1 << kind->fraction_bits), exponent - bias - kind->fraction_bits);
    return pattern & 0x8000 ? -magnitude : magnitude;
}

static void test_every_pattern_up_and_back(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        for (uint32_t pattern = 0; pattern < 65536; pattern++) {
            float value = kinds[k].up((uint16_t)pattern);
            double wanted = meaning(&kinds[k], (uint16_t)pattern);
            if (isnan(wanted))
                assert_true(isnan(value));
            else
                assert_true((double)value == wanted);
            assert_int_equal(zest_dtype_float_bits(value) >> 31, pattern >> 15); /* -0 and -NaN too */
            assert_int_equal(kinds[k].down(value), pattern);
        }
    }
}

/* Between every two neighbours: the middle goes to the even one, and a hair aside to the nearer one. */
static void test_every_boundary_down(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        uint16_t infinity = (uint16_t)(((1 << kinds[k].exponent_bits) - 1) << kinds[k].fraction_bits);
        for (uint32_t low = 0; low < infinity; low++) {
            double a = meaning(&kinds[k], (uint16_t)low), b = meaning(&kinds[k], (uint16_t)(low + 1));
            if (low + 1u == infinity)
                b = a + (a - meaning(&kinds[k], (uint16_t)(low - 1))); /* where the next would be */
            float middle = (float)((a + b) / 2);
            if (isinf(middle)) continue; /* bf16's largest: its boundary is tested below */
            assert_true((double)middle == (a + b) / 2);
            uint16_t even = (uint16_t)(low % 2 ? low + 1 : low);
            assert_int_equal(kinds[k].down(middle), even);
            assert_int_equal(kinds[k].down(-middle), even | 0x8000);
            assert_int_equal(kinds[k].down(nextafterf(middle, 0)), low);
            assert_int_equal(kinds[k].down(nextafterf(middle, INFINITY)), low + 1);
            assert_int_equal(kinds[k].down(-nextafterf(middle, INFINITY)), (low + 1) | 0x8000);
        }
    }
}

static void test_extremes(void **state) {
    (void)state;
    assert_int_equal(zest_dtype_to_f16(65519.996f), 0x7bff);
    assert_int_equal(zest_dtype_to_f16(65520.0f), 0x7c00);
    assert_int_equal(zest_dtype_to_f16(-3.4e38f), 0xfc00);
    assert_int_equal(zest_dtype_to_f16(0x1p-25f), 0x0000); /* half of the smallest: to even */
    assert_int_equal(zest_dtype_to_f16(0x1.000002p-25f), 0x0001);
    assert_int_equal(zest_dtype_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(zest_dtype_to_bf16(zest_dtype_bits_float(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(zest_dtype_to_bf16(zest_dtype_bits_float(0x7f7f8000)), 0x7f80);
    assert_int_equal(zest_dtype_to_bf16(zest_dtype_bits_float(0x00008000)), 0x0000);
    assert_int_equal(zest_dtype_to_bf16(zest_dtype_bits_float(0x00008001)), 0x0001);
    /* NaNs whose payload is lost must not become infinite. */
    assert_int_equal(zest_dtype_to_bf16(zest_dtype_bits_float(0x7f800001)), 0x7fc0);
    assert_int_equal(zest_dtype_to_bf16(zest_dtype_bits_float(0xffffffff)), 0xffff);
    assert_int_equal(zest_dtype_to_f16(zest_dtype_bits_float(0x7f800001)), 0x7e00);
    assert_int_equal(zest_dtype_to_f16(zest_dtype_bits_float(0xff800fff)), 0xfe00);
}

/* The array forms (vector code) give the bits of the scalar ones, at any length and any address. */
static void test_arrays(void **state) {
    (void)state;
    enum { COUNT = 65536 };
    unsigned char *raw = malloc(COUNT * 2 + 1), *back = malloc(COUNT * 2 + 1);
    float *floats = malloc(COUNT * sizeof *floats);
    assert_true(raw && back && floats);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint16_t pattern = (uint16_t)(i * 40503u); /* odd factor: every pattern once, mixed */
        memcpy(raw + 1 + 2 * i, &pattern, 2);
    }
    for (int k = 0; k < KINDS; k++) {
        assert_int_equal(zest_dtype_to_float(kinds[k].dtype, raw + 1, COUNT, floats), ZEST_OK);
        for (uint32_t i = 0; i < COUNT; i++) {
            float wanted = kinds[k].up((uint16_t)(i * 40503u));
            assert_memory_equal(&floats[i], &wanted, sizeof wanted);
        }
        assert_int_equal(zest_dtype_from_float(kinds[k].dtype, floats, COUNT, back + 1), ZEST_OK);
        assert_memory_equal(raw + 1, back + 1, COUNT * 2);
        for (size_t count = 0; count < 40; count++) {
            memset(back, 0xee, 128);
            zest_dtype_from_float(kinds[k].dtype, floats, count, back);
            assert_memory_equal(back, raw + 1, 2 * count);
            assert_int_equal(back[2 * count], 0xee);
        }
    }
    free(raw);
    free(back);
    free(floats);
}

static void test_float_and_double(void **state) {
    (void)state;
    double doubles[] = {0.1, -1e300, 1e-300, 1.0 + 0x1p-24, 1.0 + 0x1p-24 + 0x1p-50};
    float floats[5], again[5];
    assert_int_equal(zest_dtype_to_float(ZEST_DTYPE_F64, doubles, 5, floats), ZEST_OK);
    assert_true(floats[0] == 0.1f && isinf(floats[1]) && floats[1] < 0 && floats[2] == 0.0f);
    assert_true(floats[3] == 1.0f && floats[4] == 1.0f + 0x1p-23f);
    assert_int_equal(zest_dtype_from_float(ZEST_DTYPE_F64, floats, 5, doubles), ZEST_OK);
    assert_int_equal(zest_dtype_to_float(ZEST_DTYPE_F64, doubles, 5, again), ZEST_OK);
    assert_memory_equal(floats, again, sizeof floats);
    assert_int_equal(zest_dtype_to_float(ZEST_DTYPE_F32, floats, 5, again), ZEST_OK);
    assert_memory_equal(floats, again, sizeof floats);
    assert_int_equal(zest_dtype_to_float(ZEST_DTYPE_I64, floats, 1, again), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_dtype_from_float(ZEST_DTYPE_BOOL, floats, 1, again), ZEST_ERROR_ARGUMENT);
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < ZEST_DTYPE_COUNT; i++) {
        zest_dtype found;
        assert_true(zest_dtype_find(zest_dtype_name((zest_dtype)i), &found));
        assert_int_equal(found, i);
        assert_true(zest_dtype_size((zest_dtype)i) > 0);
        if (i) assert_true(zest_dtype_size((zest_dtype)i) >= zest_dtype_size((zest_dtype)(i - 1)));
    }
    zest_dtype none = ZEST_DTYPE_F64;
    assert_false(zest_dtype_find("f32", &none));
    assert_false(zest_dtype_find("", &none));
    assert_int_equal(none, ZEST_DTYPE_F64);
    assert_string_equal(zest_dtype_name(ZEST_DTYPE_COUNT), "?");
    assert_int_equal(zest_dtype_size((zest_dtype)-1), 0);
    assert_true(zest_dtype_is_real(ZEST_DTYPE_BF16) && !zest_dtype_is_real(ZEST_DTYPE_F8_E4M3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_up_and_back),
        cmocka_unit_test(test_every_boundary_down),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_float_and_double),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
