/* Writing GGUF: blocks against those of the format's Python package, the errors of the K types, the file as it is read
 * back, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/gguf_write.h"
#include "rng/noise.h"
#include "tests/temp_folder.h"

/* tools/make_gguf_goldens.py: eight rows of floats, and the same in each type that the package can quantise. */
static void test_golden_blocks(void **state) {
    (void)state;
    zest_gguf *file;
    zest_error error = {0};
    size_t compared = 0;
    if (zest_gguf_open("tests/data/gguf/blocks.gguf", &file, &error)) fail_msg("%s", error.message);
    const zest_gguf_tensor *floats = zest_gguf_find_tensor(file, "f32");
    assert_non_null(floats);
    for (size_t i = 0; i < zest_gguf_count(file); i++) {
        const zest_gguf_tensor *t = zest_gguf_at(file, i);
        char row[1024];
        for (size_t r = 0; r < t->rows; r++) {
            const float *values = (const float *)floats->data + r * floats->columns;
            assert_true(zest_gguf_quantize(t->type, values, t->columns, row));
            if (memcmp(row, (const char *)t->data + r * t->row_size, t->row_size))
                fail_msg("%s: row %zu has other bits than the package's", t->name, r);
            compared++;
        }
    }
    assert_int_equal(compared, 6 * 8);
    zest_gguf_close(file);
}

enum { COLUMNS = 1024 };

static double relative_error(zest_gguf_type type, const float *x) {
    static float row[COLUMNS], back[COLUMNS];
    zest_error error = {0};
    size_t elements, bytes;
    double sum = 0, norm = 0;
    assert_true(zest_gguf_block_size((uint32_t)type, &elements, &bytes));
    zest_gguf_tensor tensor = {.name = "x",
                               .type = type,
                               .rank = 1,
                               .rows = 1,
                               .columns = COLUMNS,
                               .row_size = COLUMNS / elements * bytes,
                               .data = row};
    assert_true(zest_gguf_quantize(type, x, COLUMNS, row));
    assert_int_equal(zest_gguf_read(&tensor, 0, 1, back, &error), ZEST_OK);
    for (size_t i = 0; i < COLUMNS; i++) {
        double d = (double)back[i] - (double)x[i];
        sum += d * d;
        norm += (double)x[i] * (double)x[i];
    }
    return sqrt(sum / norm);
}

/* Normal numbers. A uniform quantiser with b bits and the best step has a relative error of 0.34, 0.19, 0.107, 0.059 and
 * 0.032 for 2 to 6 bits (Max, 1960, table II: the square roots of 0.1188, 0.03744, 0.01154, 0.003495, 0.00104); groups
 * with a step each are below that, and half of it is out of reach. */
static void test_k_errors(void **state) {
    (void)state;
    static const struct {
        zest_gguf_type type;
        double scalar; /* Max's */
    } cases[] = {{ZEST_GGUF_TYPE_Q2_K, 0.3447},
                 {ZEST_GGUF_TYPE_Q3_K, 0.1935},
                 {ZEST_GGUF_TYPE_Q4_K, 0.1074},
                 {ZEST_GGUF_TYPE_Q5_K, 0.0591},
                 {ZEST_GGUF_TYPE_Q6_K, 0.0322}};
    float x[COLUMNS];
    zest_noise_for(ZEST_CPU_PLAIN)->normal(x, 7, 0, COLUMNS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double error = relative_error(cases[i].type, x);
        if (!(error < cases[i].scalar && error > cases[i].scalar / 2))
            fail_msg("%s: relative error %.4f, of a scalar quantiser %.4f",
                     zest_gguf_type_name(cases[i].type), error, cases[i].scalar);
    }
}

/* Numbers that the blocks can hold come back as they are, up to the rounding of f16 scales. */
static void test_k_grids(void **state) {
    (void)state;
    static const zest_gguf_type types[] = {ZEST_GGUF_TYPE_Q2_K, ZEST_GGUF_TYPE_Q3_K, ZEST_GGUF_TYPE_Q4_K,
                                           ZEST_GGUF_TYPE_Q5_K, ZEST_GGUF_TYPE_Q6_K};
    static const int lowest[] = {0, -4, 0, 0, -32}, levels[] = {4, 8, 16, 32, 64};
    float x[COLUMNS];
    for (size_t t = 0; t < 5; t++) {
        for (int i = 0; i < COLUMNS; i++) x[i] = 0.25f * (float)(lowest[t] + i * 7 % levels[t]);
        for (int i = 0; i < COLUMNS; i += 16) x[i] = 0.25f * (float)lowest[t]; /* every group has both ends */
        for (int i = 5; i < COLUMNS; i += 16) x[i] = 0.25f * (float)(lowest[t] + levels[t] - 1);
        double error = relative_error(types[t], x);
        if (!(error < 2e-3))
            fail_msg("%s: relative error %g of numbers that it can hold", zest_gguf_type_name(types[t]),
                     error);
    }
    for (int i = 0; i < COLUMNS; i++) x[i] = 0;
    for (size_t t = 0; t < 5; t++) assert_true(zest_gguf_quantize(types[t], x, COLUMNS, (char[4096]){0}));
}

/* ---- Files ---- */

static zest_status ramp(void *user, size_t first, size_t rows, float *out, zest_error *error) {
    const zest_gguf_source *source = user;
    size_t columns = source->shape[source->rank - 1];
    (void)error;
    for (size_t i = 0; i < rows * columns; i++)
        out[i] = (float)((first * columns + i) * 7919 % 1009) * 1e-3f - 0.5f;
    return ZEST_OK;
}

static zest_status failing(void *user, size_t first, size_t rows, float *out, zest_error *error) {
    zest_status status = ramp(user, first, rows, out, error);
    return first == 2 ? zest_error_set(error, ZEST_ERROR_FILE, "row two cannot be read") : status;
}

static zest_status infinite(void *user, size_t first, size_t rows, float *out, zest_error *error) {
    zest_status status = ramp(user, first, rows, out, error);
    if (first == 1) out[3] = INFINITY;
    return status;
}

static zest_status large(void *user, size_t first, size_t rows, float *out, zest_error *error) {
    zest_status status = ramp(user, first, rows, out, error);
    out[0] = 1e30f;
    return status;
}

/* A sign that depends on the call: what is read back is compared with other values than were written. */
static zest_status changing(void *user, size_t first, size_t rows, float *out, zest_error *error) {
    static int calls;
    zest_status status = ramp(user, first, rows, out, error);
    out[0] = ++calls > 3 ? 5.0f : -5.0f;
    return status;
}

static void put_some(zest_gguf_metadata *metadata) {
    static const zest_gguf_text texts[] = {{"a", 1}, {"", 0}, {"▁the", 6}};
    zest_gguf_put_string(metadata, "general.architecture", "llama", 5);
    zest_gguf_put_u32(metadata, "n", 7);
    zest_gguf_put_f32(metadata, "x", -0.5f);
    zest_gguf_put_bool(metadata, "yes", 1);
    zest_gguf_put_strings(metadata, "texts", texts, 3);
    zest_gguf_put_i32s(metadata, "ints", (int32_t[]){-3, 4}, 2);
    zest_gguf_put_f32s(metadata, "reals", (float[]){1.5f}, 1);
}

static void test_file(void **state) {
    (void)state;
    zest_gguf_source tensors[2] = {
        {.name = "f", .type = ZEST_GGUF_TYPE_F32, .rank = 2, .shape = {3, 5}, .fill = ramp},
        {.name = "q", .type = ZEST_GGUF_TYPE_Q8_0, .rank = 2, .shape = {4, 64}, .fill = ramp}};
    zest_gguf_metadata metadata = {0};
    zest_gguf *file;
    zest_error error = {0};
    const char *one = temp_path("one"), *two = temp_path("two"), *text;
    size_t size;
    uint64_t n;
    double x;
    for (int i = 0; i < 2; i++) tensors[i].user = &tensors[i];
    put_some(&metadata);
    if (zest_gguf_write(one, &metadata, tensors, 2, 1, &error)) fail_msg("%s", error.message);
    assert_int_equal(zest_gguf_write(two, &metadata, tensors, 2, 3, &error), ZEST_OK);
    char *a = test_get(one), *b = test_get(two);
    assert_int_equal(test_file_size(one), test_file_size(two));
    assert_memory_equal(a, b, test_file_size(one));
    free(a), free(b);
    if (zest_gguf_open(one, &file, &error)) fail_msg("%s", error.message);
    assert_true(zest_gguf_value_u64(zest_gguf_find(file, "n"), 0, &n) && n == 7);
    assert_true(zest_gguf_value_f64(zest_gguf_find(file, "x"), 0, &x) && x == -0.5);
    assert_true(zest_gguf_value_string(zest_gguf_find(file, "texts"), 2, &text, &size) && size == 6 &&
                !memcmp(text, "▁the", 6));
    assert_true(zest_gguf_value_f64(zest_gguf_find(file, "ints"), 0, &x) && x == -3);
    const zest_gguf_tensor *f = zest_gguf_find_tensor(file, "f");
    assert_true(f->rank == 2 && f->shape[0] == 3 && f->shape[1] == 5);
    float wanted[15];
    ramp(&tensors[0], 0, 3, wanted, &error);
    assert_memory_equal(f->data, wanted, sizeof wanted);
    zest_gguf_close(file);
    zest_gguf_metadata_free(&metadata);
}

/* The old file stays, and nothing else is left in the folder. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        zest_gguf_source tensor;
        const char *says;
    } cases[] = {
        {{"t", ZEST_GGUF_TYPE_F32, 2, {3, 5}, failing, NULL}, "row two cannot be read"},
        {{"t", ZEST_GGUF_TYPE_F32, 2, {3, 5}, infinite, NULL}, "tensor 't', row 1: a value is not finite"},
        {{"t", ZEST_GGUF_TYPE_F16, 2, {3, 5}, large, NULL}, "too large for type F16"},
        {{"t", ZEST_GGUF_TYPE_Q8_0, 2, {3, 32}, large, NULL}, "too large for type Q8_0"},
        {{"t", ZEST_GGUF_TYPE_Q4_K, 2, {3, 256}, large, NULL}, "too large for type Q4_K"},
        {{"t", ZEST_GGUF_TYPE_Q8_0, 2, {3, 33}, ramp, NULL}, "its shape does not fit type Q8_0"},
        {{"t", ZEST_GGUF_TYPE_Q4_K, 2, {3, 128}, ramp, NULL}, "its shape does not fit type Q4_K"},
        {{"t", ZEST_GGUF_TYPE_F32, 2, {SIZE_MAX / 2, 8}, ramp, NULL}, "its shape does not fit"},
        {{"t", ZEST_GGUF_TYPE_F32, 2, {3, 0}, ramp, NULL}, "its shape does not fit"},
        {{"t", ZEST_GGUF_TYPE_F32, 5, {1, 1, 1, 1}, ramp, NULL}, "its shape does not fit"},
        {{"t", ZEST_GGUF_TYPE_I32, 1, {3}, ramp, NULL}, "does not write type I32"},
        {{"", ZEST_GGUF_TYPE_F32, 1, {3}, ramp, NULL}, "no printable name"},
        {{"t", ZEST_GGUF_TYPE_F32, 2, {3, 5}, changing, NULL}, "reads back with a relative error of"},
        {{"t", ZEST_GGUF_TYPE_F16, 2, {3, 5}, NULL, NULL}, NULL},
    };
    zest_gguf_metadata metadata = {0};
    test_put(test_temp_folder, "old", "old");
    for (size_t i = 0; cases[i].says; i++) {
        zest_gguf_source tensor = cases[i].tensor;
        zest_error error = {0};
        tensor.user = &tensor;
        if (!zest_gguf_write(temp_path("old"), &metadata, &tensor, 1, 1, &error))
            fail_msg("written instead of: %s", cases[i].says);
        if (!strstr(error.message, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.message, cases[i].says);
        char *text = test_get(temp_path("old"));
        assert_string_equal(text, "old");
        free(text);
    }
    zest_gguf_source twice[2] = {{"t", ZEST_GGUF_TYPE_F32, 1, {3}, ramp, NULL},
                                 {"t", ZEST_GGUF_TYPE_F32, 1, {3}, ramp, NULL}};
    zest_error error = {0};
    twice[0].user = twice[1].user = &twice[0];
    assert_int_not_equal(zest_gguf_write(temp_path("old"), &metadata, twice, 2, 1, &error), ZEST_OK);
    assert_non_null(strstr(error.message, "appears twice"));
    assert_int_not_equal(zest_gguf_write(temp_path("none/there"), &metadata, twice, 1, 1, &error), ZEST_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_blocks), cmocka_unit_test(test_k_errors),
        cmocka_unit_test(test_k_grids),       IN_TEMP_FOLDER(test_file),
        IN_TEMP_FOLDER(test_refused),
    };
    return cmocka_run_group_tests_name("gguf_write", tests, NULL, NULL);
}
