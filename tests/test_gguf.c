/* The GGUF reader against goldens of the format's reference implementation (tools/make_gguf_goldens.py).
 * Hostile files are in test_gguf_hostile.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/file.h"
#include "io/gguf.h"

#define GOLDENS "tests/data/gguf/goldens.gguf"
#define GOLDEN_FLOATS "tests/data/gguf/goldens.f32"
#define ROTARY_FLOATS "tests/data/gguf/rotary.f32"

static void load(const char *path, zest_buffer *out) {
    zest_error error = {0};
    if (zest_file_read(path, 1 << 20, out, &error)) fail_msg("%s", error.message);
}

static zest_gguf *open_goldens(void) {
    zest_gguf *file;
    zest_error error = {0};
    if (zest_gguf_open(GOLDENS, &file, &error)) fail_msg("%s", error.message);
    return file;
}

/* ---- Goldens ---- */

static void test_golden_tensors(void **state) {
    (void)state;
    zest_gguf *file = open_goldens();
    zest_buffer golden = {0};
    size_t at = 0, quantised = 0;
    load(GOLDEN_FLOATS, &golden);
    for (size_t i = 0; i < zest_gguf_count(file); i++) {
        const zest_gguf_tensor *t = zest_gguf_at(file, i);
        size_t size = t->rows * t->columns * sizeof(float);
        float *out = malloc(size);
        zest_error error = {0};
        assert_non_null(out);
        assert_ptr_equal(zest_gguf_find_tensor(file, t->name), t);
        if (zest_gguf_read(t, 0, t->rows, out, &error)) fail_msg("%s", error.message);
        assert_true(at + size <= golden.size);
        if (memcmp(out, golden.data + at, size) != 0)
            fail_msg("%s: other bits than the golden ones", t->name);
        /* A row by itself is the same as within the whole. */
        float *row = malloc(t->columns * sizeof *row);
        assert_non_null(row);
        assert_int_equal(zest_gguf_read(t, t->rows - 1, 1, row, &error), ZEST_OK);
        assert_memory_equal(row, out + (t->rows - 1) * t->columns, t->columns * sizeof *row);
        free(row);
        free(out);
        at += size;
        quantised += t->type != ZEST_GGUF_TYPE_F32;
    }
    assert_int_equal(at, golden.size);
    assert_int_equal(quantised, 13);
    assert_null(zest_gguf_at(file, zest_gguf_count(file)));
    assert_null(zest_gguf_find_tensor(file, "none"));
    zest_buffer_free(&golden);
    zest_gguf_close(file);
    zest_gguf_close(NULL);
}

static void test_shapes(void **state) {
    (void)state;
    zest_gguf *file = open_goldens();
    const zest_gguf_tensor *t = zest_gguf_find_tensor(file, "f16");
    assert_int_equal(t->rank, 3);
    assert_true(t->shape[0] == 2 && t->shape[1] == 2 && t->shape[2] == 16 && t->rows == 4 &&
                t->columns == 16);
    t = zest_gguf_find_tensor(file, "q6_k");
    assert_int_equal(t->type, ZEST_GGUF_TYPE_Q6_K);
    assert_string_equal(zest_gguf_type_name(t->type), "Q6_K");
    assert_true(t->shape[0] == 3 && t->shape[1] == 512 && t->row_size == 420);
    float out[512];
    zest_error error = {0};
    assert_int_equal(zest_gguf_read(t, 3, 1, out, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_gguf_read(t, SIZE_MAX, 2, out, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_gguf_read(t, 3, 0, out, &error), ZEST_OK);
    zest_gguf_close(file);
}

static void test_rotary(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t heads, rows, columns;
    } cases[] = {{"blk.0.attn_q.weight", 4, 24, 5},
                 {"blk.0.attn_k.weight", 2, 12, 5},
                 {"blk.0.attn_q.bias", 4, 24, 1}};
    zest_gguf *file = open_goldens();
    zest_buffer golden = {0};
    zest_error error = {0};
    size_t at = 0;
    float out[24 * 5], plain[24 * 5];
    load(ROTARY_FLOATS, &golden);
    for (size_t i = 0; i < 3; i++) {
        const zest_gguf_tensor *t = zest_gguf_find_tensor(file, cases[i].name);
        size_t size = cases[i].rows * cases[i].columns * sizeof(float);
        assert_int_equal(zest_gguf_read_rotary(t, cases[i].heads, 0, cases[i].rows, out, &error), ZEST_OK);
        assert_memory_equal(out, golden.data + at, size);
        assert_int_equal(zest_gguf_read(t, 0, t->rows, plain, &error), ZEST_OK);
        assert_memory_not_equal(plain, out, size);
        assert_int_equal(zest_gguf_read_rotary(t, cases[i].heads, 7, 3, out, &error), ZEST_OK);
        assert_memory_equal(out, golden.data + at + 7 * cases[i].columns * sizeof(float),
                            3 * cases[i].columns * sizeof(float));
        at += size;
        assert_int_equal(zest_gguf_read_rotary(t, 0, 0, 1, out, &error), ZEST_ERROR_FORMAT);
        assert_int_equal(zest_gguf_read_rotary(t, 5, 0, 1, out, &error), ZEST_ERROR_FORMAT);
        assert_int_equal(zest_gguf_read_rotary(t, cases[i].rows, 0, 1, out, &error), ZEST_ERROR_FORMAT);
        assert_int_equal(zest_gguf_read_rotary(t, 2, cases[i].rows, 1, out, &error), ZEST_ERROR_ARGUMENT);
    }
    assert_int_equal(at, golden.size);
    zest_buffer_free(&golden);
    zest_gguf_close(file);
}

static void test_scalars(void **state) {
    (void)state;
    static const struct {
        const char *key;
        int unsigned_fits, signed_fits;
        uint64_t u;
        int64_t i;
        double f;
    } cases[] = {
        {"test.u8", 1, 1, 200, 200, 200},
        {"test.i8", 0, 1, 0, -100, -100},
        {"test.u16", 1, 1, 60000, 60000, 60000},
        {"test.i16", 0, 1, 0, -30000, -30000},
        {"test.u32", 1, 1, 4000000000, 4000000000, 4e9},
        {"test.i32", 0, 1, 0, -2000000000, -2e9},
        {"test.u64", 1, 0, UINT64_MAX, 0, 0x1p64},
        {"test.i64", 0, 1, 0, INT64_MIN, -0x1p63},
        {"test.f32", 0, 0, 0, 0, (double)0.1f},
        {"test.f64", 0, 0, 0, 0, 0.1},
    };
    zest_gguf *file = open_goldens();
    zest_error error = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const zest_gguf_value *value = zest_gguf_find(file, cases[i].key);
        uint64_t u = 77;
        int64_t n = 77;
        double f;
        int flag;
        assert_non_null(value);
        assert_int_equal(zest_gguf_value_u64(value, 0, &u), cases[i].unsigned_fits);
        assert_true(u == (cases[i].unsigned_fits ? cases[i].u : 77));
        assert_int_equal(zest_gguf_value_i64(value, 0, &n), cases[i].signed_fits);
        assert_true(n == (cases[i].signed_fits ? cases[i].i : 77));
        assert_int_equal(zest_gguf_get_f64(file, cases[i].key, &f, &error), ZEST_OK);
        assert_true(f == cases[i].f);
        assert_false(zest_gguf_value_f64(value, 1, &f) || zest_gguf_value_u64(value, 1, &u));
        assert_false(zest_gguf_value_bool(value, 0, &flag));
        assert_int_equal(zest_gguf_value_count(value), 1);
    }
    zest_gguf_close(file);
}

static void same_string(const zest_gguf_value *value, size_t i, const char *wanted) {
    const char *bytes;
    size_t size;
    assert_true(zest_gguf_value_string(value, i, &bytes, &size));
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(bytes, wanted, size);
}

static void test_strings_and_arrays(void **state) {
    (void)state;
    zest_gguf *file = open_goldens();
    zest_error error = {0};
    const zest_gguf_value *value;
    const char *bytes;
    size_t size;
    int yes = 7, no = 7;
    uint64_t number;
    int64_t negative;
    double real;
    assert_int_equal(zest_gguf_get_bool(file, "test.yes", &yes, &error), ZEST_OK);
    assert_int_equal(zest_gguf_get_bool(file, "test.no", &no, &error), ZEST_OK);
    assert_true(yes == 1 && no == 0);
    same_string(zest_gguf_find(file, "general.architecture"), 0, "llama");
    same_string(zest_gguf_find(file, "test.string"), 0, "grüße");
    assert_int_equal(zest_gguf_get_array(file, "test.strings", ZEST_GGUF_STRING, &value, &error), ZEST_OK);
    assert_int_equal(zest_gguf_value_count(value), 4);
    same_string(value, 0, "");
    same_string(value, 2, "▁the");
    assert_false(zest_gguf_value_string(value, 4, &bytes, &size) ||
                 zest_gguf_value_string(NULL, 0, &bytes, &size));
    value = zest_gguf_find(file, "test.numbers");
    assert_true(zest_gguf_value_is_array(value) && zest_gguf_value_count(value) == 3);
    assert_true(zest_gguf_value_i64(value, 1, &negative) && negative == -2);
    assert_true(zest_gguf_value_f64(zest_gguf_find(file, "test.reals"), 1, &real) && real == -1.5);
    assert_true(zest_gguf_value_bool(zest_gguf_find(file, "test.flags"), 2, &yes) && yes == 1);
    value = zest_gguf_find(file, "test.nested");
    assert_int_equal(zest_gguf_value_kind(value), ZEST_GGUF_ARRAY);
    assert_int_equal(zest_gguf_value_count(value), 3);
    assert_true(zest_gguf_value_u64(zest_gguf_value_array(value, 2), 2, &number) && number == 6);
    assert_null(zest_gguf_value_array(value, 3));
    /* What is not there, or of another kind, is named. */
    assert_int_equal(zest_gguf_get_u64(file, "test.none", &number, &error), ZEST_ERROR_FORMAT);
    assert_string_equal(error.message, GOLDENS ": key 'test.none' is missing");
    assert_int_equal(zest_gguf_get_u64(file, "test.string", &number, &error), ZEST_ERROR_FORMAT);
    assert_string_equal(error.message, GOLDENS ": key 'test.string' is not an integer");
    assert_int_equal(zest_gguf_get_u64(file, "test.numbers", &number, &error), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_gguf_get_string(file, "test.u8", &bytes, &size, &error), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_gguf_get_array(file, "test.u8", ZEST_GGUF_U8, &value, &error), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_gguf_get_array(file, "test.reals", ZEST_GGUF_I32, &value, &error),
                     ZEST_ERROR_FORMAT);
    assert_string_equal(zest_gguf_key_at(file, 0), "general.architecture");
    assert_null(zest_gguf_key_at(file, zest_gguf_key_count(file)));
    zest_gguf_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_tensors),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_strings_and_arrays),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
