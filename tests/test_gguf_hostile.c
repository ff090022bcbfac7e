/* The GGUF reader on hostile files: clear errors, and never a read out of bounds. */
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

static void load(const char *path, zest_buffer *out) {
    zest_error error = {0};
    if (zest_file_read(path, 1 << 20, out, &error)) fail_msg("%s", error.message);
}

/* Reads everything in a file. */
static double touch(const zest_gguf *file) {
    double sum = 0, number;
    for (size_t i = 0; i < zest_gguf_key_count(file); i++) {
        const zest_gguf_value *value = zest_gguf_find(file, zest_gguf_key_at(file, i));
        assert_non_null(value);
        for (size_t j = 0; j < zest_gguf_value_count(value); j++) {
            const char *bytes;
            size_t size;
            const zest_gguf_value *child = zest_gguf_value_array(value, j);
            if (zest_gguf_value_f64(value, j, &number)) sum += number;
            if (zest_gguf_value_string(value, j, &bytes, &size) && size) sum += bytes[0] + bytes[size - 1];
            for (size_t k = 0; child && k < zest_gguf_value_count(child); k++)
                if (zest_gguf_value_f64(child, k, &number)) sum += number;
        }
    }
    for (size_t i = 0; i < zest_gguf_count(file); i++) {
        const zest_gguf_tensor *t = zest_gguf_at(file, i);
        float out[4096];
        for (size_t j = 0; t->columns <= 4096 && t->columns && j < t->rows; j++)
            if (!zest_gguf_read(t, j, 1, out, NULL)) sum += (double)out[t->columns - 1];
    }
    return sum;
}

static zest_status open_copy(const void *bytes, size_t size, zest_error *error) {
    zest_gguf *file;
    void *copy = malloc(size ? size : 1); /* ends where the file ends, for the address sanitizer */
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    zest_status status = zest_gguf_open_memory(copy, size, "memory", &file, error);
    if (status)
        assert_true(!file && strlen(error->message) > 0);
    else
        touch(file);
    zest_gguf_close(file);
    free(copy);
    return status;
}

static void put_u32(zest_buffer *out, uint32_t value) { zest_buffer_add(out, &value, sizeof value); }
static void put_u64(zest_buffer *out, uint64_t value) { zest_buffer_add(out, &value, sizeof value); }

static void put_string(zest_buffer *out, const char *text) {
    put_u64(out, strlen(text));
    zest_buffer_text(out, text);
}

static void put_preamble(zest_buffer *out, uint32_t version, uint64_t tensors, uint64_t keys) {
    zest_buffer_text(out, "GGUF");
    put_u32(out, version);
    put_u64(out, tensors);
    put_u64(out, keys);
}

static void put_tensor(zest_buffer *out, const char *name, uint64_t rows, uint64_t columns, uint32_t type,
                       uint64_t offset) {
    put_string(out, name);
    put_u32(out, 2);
    put_u64(out, columns);
    put_u64(out, rows);
    put_u32(out, type);
    put_u64(out, offset);
}

static void put_data(zest_buffer *out, size_t size) {
    static const unsigned char zeros[256];
    assert_true(size <= sizeof zeros);
    zest_buffer_add(out, zeros, (32 - out->size % 32) % 32);
    zest_buffer_add(out, zeros, size);
}

/* Ends a case: these bytes are refused with this fragment in the message (NULL: they are accepted). */
static void check(zest_buffer *bytes, const char *fragment) {
    zest_error error = {0};
    zest_status status = open_copy(bytes->data, bytes->size, &error);
    if (!fragment && status) fail_msg("%s", error.message);
    if (fragment && (status != ZEST_ERROR_FORMAT || !strstr(error.message, fragment)))
        fail_msg("got %d: %s\nwanted: %s", status, error.message, fragment);
    zest_buffer_free(bytes);
}

static void test_hostile_preambles(void **state) {
    (void)state;
    zest_buffer b = {0};
    check(&b, "not a GGUF file");
    zest_buffer_text(&b, "GGU");
    check(&b, "not a GGUF file");
    zest_buffer_text(&b, "GGUF");
    check(&b, "truncated");
    static const struct {
        uint32_t version;
        const char *fragment;
    } versions[] = {{0, "version 0"}, {1, "version 1"}, {2, NULL},
                    {3, NULL},        {4, "version 4"}, {3u << 24, "big-endian"}};
    for (size_t i = 0; i < 6; i++) {
        put_preamble(&b, versions[i].version, 0, 0);
        check(&b, versions[i].fragment);
    }
    put_preamble(&b, 3, 0, 1);
    check(&b, "1 keys and 0 tensors in 0 bytes");
    put_preamble(&b, 3, UINT64_MAX, 0);
    check(&b, "18446744073709551615 tensors");
    put_preamble(&b, 3, 0, UINT64_MAX / 13 + 2);
    put_data(&b, 200);
    check(&b, "keys and 0 tensors");
}

static void test_hostile_keys(void **state) {
    (void)state;
    zest_buffer b = {0};
    put_preamble(&b, 3, 0, 1);
    put_string(&b, "key");
    put_u32(&b, 13);
    put_u64(&b, 0);
    check(&b, "unknown kind 13");
    put_preamble(&b, 3, 0, 1);
    put_u64(&b, UINT64_MAX - 7);
    put_data(&b, 64);
    check(&b, "a string of 18446744073709551608 bytes at byte 24");
    put_preamble(&b, 3, 0, 1);
    put_string(&b, "a\033[2J");
    put_u32(&b, 0);
    put_u32(&b, 0);
    check(&b, "control character");
    put_preamble(&b, 3, 0, 1);
    put_string(&b, "flag");
    put_u32(&b, ZEST_GGUF_BOOL);
    zest_buffer_add(&b, "\2", 1);
    check(&b, "neither 0 nor 1");
    put_preamble(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_string(&b, "twin");
        put_u32(&b, ZEST_GGUF_U32);
        put_u32(&b, 1);
    }
    check(&b, "key 'twin' appears twice");
    static const struct {
        uint32_t kind;
        uint64_t count;
        const char *fragment;
    } arrays[] = {{13, 1, "array of unknown kind 13"},
                  {ZEST_GGUF_F64, UINT64_MAX / 8 + 1, "elements at byte 39 runs past the end"},
                  {ZEST_GGUF_STRING, UINT64_MAX, "runs past the end"},
                  {ZEST_GGUF_ARRAY, 1000, "runs past the end"},
                  {ZEST_GGUF_U8, 65, "runs past the end"},
                  {ZEST_GGUF_U8, 64, NULL}};
    for (size_t i = 0; i < 6; i++) {
        put_preamble(&b, 3, 0, 1);
        put_string(&b, "key");
        put_u32(&b, ZEST_GGUF_ARRAY);
        put_u32(&b, arrays[i].kind);
        put_u64(&b, arrays[i].count);
        for (int j = 0; j < 8; j++) put_u64(&b, 0);
        check(&b, arrays[i].fragment);
    }
    put_preamble(&b, 3, 0, 1);
    put_string(&b, "deep");
    put_u32(&b, ZEST_GGUF_ARRAY);
    for (int i = 0; i < 100000; i++) {
        put_u32(&b, ZEST_GGUF_ARRAY);
        put_u64(&b, 1);
    }
    check(&b, "nested too deep");
}

static void test_hostile_tensors(void **state) {
    (void)state;
    enum { F32 = ZEST_GGUF_TYPE_F32, Q8_0 = ZEST_GGUF_TYPE_Q8_0 };
    static const struct {
        uint64_t rows, columns;
        uint32_t type;
        uint64_t offset;
        const char *fragment;
    } cases[] = {
        {2, 8, F32, 0, NULL},
        {0, 8, F32, 64, NULL},
        {UINT64_MAX, 0, F32, 0, NULL},
        {2, 8, 4, 0, "is of type 4 (?), which zest does not read"},
        {2, 8, 23, 0, "is of type 23 (IQ4_XS), which zest does not read"},
        {2, 8, 31, 0, "is of type 31"},
        {2, 8, UINT32_MAX, 0, "is of type 4294967295"},
        {2, 8, F32, 1, "not a multiple of the alignment 32"},
        {2, 8, F32, 32, "(file truncated?)"},
        {2, 9, F32, 0, "72 bytes at 0 of the data, which has only 64"},
        {1, 8, F32, UINT64_MAX - 31, "(file truncated?)"},
        {UINT64_MAX, 2, F32, 0, "overflows"},
        {2, UINT64_MAX, F32, 0, "overflows"},
        {1, UINT64_MAX / 4 + 1, F32, 0, "overflows"},
        {1, 33, Q8_0, 0, "not a multiple of the block size of Q8_0"},
        {1, 32, Q8_0, 0, NULL},
        {2, 32, Q8_0, 0, "68 bytes at 0"},
        {1, 8, ZEST_GGUF_TYPE_I64, 0, NULL},
    };
    zest_buffer b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_preamble(&b, 3, 1, 0);
        put_tensor(&b, "t", cases[i].rows, cases[i].columns, cases[i].type, cases[i].offset);
        put_data(&b, 64);
        check(&b, cases[i].fragment);
    }
    put_preamble(&b, 3, 1, 0);
    put_string(&b, "t");
    put_u32(&b, 5);
    for (int i = 0; i < 8; i++) put_u64(&b, 1);
    check(&b, "5 dimensions");
    put_preamble(&b, 3, 2, 0);
    put_tensor(&b, "t", 1, 8, F32, 0);
    put_tensor(&b, "t", 1, 8, F32, 32);
    put_data(&b, 64);
    check(&b, "tensor 't' appears twice");
    put_preamble(&b, 3, 2, 0);
    put_tensor(&b, "t", 2, 8, F32, 0);
    put_tensor(&b, "u", 1, 8, F32, 32);
    put_data(&b, 64);
    check(&b, "tensor 'u' overlaps");
}

static void test_alignment(void **state) {
    (void)state;
    static const struct {
        uint32_t kind, value;
        const char *fragment;
    } cases[] = {{ZEST_GGUF_U32, 64, NULL},           {ZEST_GGUF_U32, 1, NULL},
                 {ZEST_GGUF_U32, 0, "power of two"},  {ZEST_GGUF_U32, 48, "power of two"},
                 {ZEST_GGUF_I32, 32, "power of two"}, {ZEST_GGUF_U32, 1u << 31, "truncated?"}};
    zest_buffer b = {0};
    for (size_t i = 0; i < 6; i++) {
        put_preamble(&b, 3, 1, 1);
        put_string(&b, "general.alignment");
        put_u32(&b, cases[i].kind);
        put_u32(&b, cases[i].value);
        put_tensor(&b, "t", 1, 8, ZEST_GGUF_TYPE_F32, 0);
        put_data(&b, 96);
        check(&b, cases[i].fragment);
    }
}

static void test_integers_are_not_converted(void **state) {
    (void)state;
    zest_buffer b = {0};
    zest_gguf *file;
    zest_error error = {0};
    float out[8];
    put_preamble(&b, 3, 1, 0);
    put_tensor(&b, "t", 1, 8, ZEST_GGUF_TYPE_I32, 0);
    put_data(&b, 32);
    assert_int_equal(zest_gguf_open_memory(b.data, b.size, "memory", &file, &error), ZEST_OK);
    assert_int_equal(zest_gguf_read(zest_gguf_at(file, 0), 0, 1, out, &error), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "type I32, which has no conversion"));
    zest_gguf_close(file);
    zest_buffer_free(&b);
}

static void test_truncation_at_every_byte(void **state) {
    (void)state;
    zest_buffer bytes = {0};
    zest_error error = {0};
    load(GOLDENS, &bytes);
    /* The last tensor's 96 bytes end the file. */
    for (size_t size = 0; size < bytes.size; size++)
        assert_int_equal(open_copy(bytes.data, size, &error), ZEST_ERROR_FORMAT);
    assert_int_equal(open_copy(bytes.data, bytes.size, &error), ZEST_OK);
    bytes.data[4] = 2; /* version 2 has the same layout */
    assert_int_equal(open_copy(bytes.data, bytes.size, &error), ZEST_OK);
    zest_buffer_free(&bytes);
}

static void test_every_byte_changed(void **state) {
    (void)state;
    zest_buffer bytes = {0};
    load(GOLDENS, &bytes);
    zest_gguf *file;
    assert_int_equal(zest_gguf_open_memory(bytes.data, bytes.size, "memory", &file, NULL), ZEST_OK);
    size_t header = (size_t)((const char *)zest_gguf_at(file, 0)->data - bytes.data), good = 0;
    zest_gguf_close(file);
    static const unsigned char changes[] = {1, 2, 16, 128, 255};
    for (size_t i = 0; i < header; i++) {
        for (size_t j = 0; j < sizeof changes; j++) {
            zest_error error = {0};
            bytes.data[i] = (char)(bytes.data[i] ^ changes[j]);
            good += open_copy(bytes.data, bytes.size, &error) == ZEST_OK;
            bytes.data[i] = (char)(bytes.data[i] ^ changes[j]);
        }
    }
    assert_in_range(good, header / 10, header * 5 - 100); /* values may change, lengths and counts may not */
    zest_buffer_free(&bytes);
}

static void test_paths(void **state) {
    (void)state;
    zest_gguf *file;
    zest_error error = {0};
    assert_int_equal(zest_gguf_open("/tmp", &file, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "is a folder"));
    assert_int_equal(zest_gguf_open("/tmp/no/such/file", &file, &error), ZEST_ERROR_FILE);
    assert_int_equal(zest_gguf_open("/dev/null", &file, NULL), ZEST_ERROR_FILE);
    assert_null(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_preambles),
        cmocka_unit_test(test_hostile_keys),
        cmocka_unit_test(test_hostile_tensors),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_integers_are_not_converted),
        cmocka_unit_test(test_truncation_at_every_byte),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests_name("gguf_hostile", tests, NULL, NULL);
}
