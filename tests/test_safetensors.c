/* The safetensors reader: valid files, hostile files, folders. test_safetensors_write.c tests the writer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/file.h"
#include "io/safetensors.h"
#include "tests/temp_folder.h"

/* ---- Making files ---- */

/* A file of this header and this many bytes of data, each its own position. */
static void build(zest_buffer *out, const char *header, size_t data) {
    uint64_t length = strlen(header);
    zest_buffer_add(out, &length, sizeof length);
    zest_buffer_text(out, header);
    for (size_t i = 0; i < data; i++) {
        unsigned char byte = (unsigned char)i;
        zest_buffer_add(out, &byte, 1);
    }
    assert_false(out->failed);
}

/* Opens a copy that ends where its allocation ends, so that the address sanitizer sees a step outside. */
static zest_status open_copy(const void *bytes, size_t size, zest_safetensors **file, void **copy,
                             zest_error *error) {
    *copy = malloc(size ? size : 1);
    assert_non_null(*copy);
    if (size) memcpy(*copy, bytes, size);
    return zest_safetensors_open_memory(*copy, size, "memory", file, error);
}

/* Looks at everything a file offers. */
static unsigned touch(const zest_safetensors *file) {
    unsigned sum = 0;
    const char *key, *value;
    for (size_t i = 0; i < zest_safetensors_count(file); i++) {
        const zest_safetensors_tensor *tensor = zest_safetensors_at(file, i);
        const unsigned char *data = tensor->data;
        assert_ptr_equal(zest_safetensors_find(file, tensor->name), tensor);
        for (size_t j = 0; j < tensor->size; j++) sum += data[j];
        for (size_t j = 0; j < tensor->rank; j++) sum += (unsigned)tensor->shape[j];
    }
    for (size_t i = 0; zest_safetensors_metadata_at(file, i, &key, &value); i++)
        sum += (unsigned)(strlen(key) + strlen(value));
    return sum;
}

/* Any bytes: a valid file, or an error with a sentence. */
static int survives(const void *bytes, size_t size) {
    zest_safetensors *file;
    zest_error error = {0};
    void *copy;
    zest_status status = open_copy(bytes, size, &file, &copy, &error);
    if (status) {
        assert_null(file);
        assert_true(strlen(error.message) > 0);
    } else {
        touch(file);
    }
    zest_safetensors_close(file);
    free(copy);
    return status == ZEST_OK;
}

static const char small[] = "{\"__metadata__\":{\"format\":\"pt\",\"who\":\"zest\"},"
                            "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                            "\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30]},"
                            "\"empty\":{\"dtype\":\"F64\",\"shape\":[4,0],\"data_offsets\":[24,24]},"
                            "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[30,38]}}   ";

/* ---- Good files ---- */

static void test_small_file(void **state) {
    (void)state;
    zest_buffer bytes = {0};
    zest_safetensors *file;
    zest_error error = {0};
    void *copy;
    build(&bytes, small, 38);
    assert_int_equal(open_copy(bytes.data, bytes.size, &file, &copy, &error), ZEST_OK);
    assert_int_equal(zest_safetensors_count(file), 4);
    const char *order[] = {"b", "empty", "a", "scalar"};
    for (size_t i = 0; i < 4; i++) assert_string_equal(zest_safetensors_at(file, i)->name, order[i]);
    assert_null(zest_safetensors_at(file, 4));
    const zest_safetensors_tensor *tensor = zest_safetensors_find(file, "b");
    assert_int_equal(tensor->dtype, ZEST_DTYPE_F32);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_int_equal(tensor->count, 6);
    assert_int_equal(tensor->size, 24);
    assert_int_equal(((const unsigned char *)tensor->data)[0], 0);
    tensor = zest_safetensors_find(file, "scalar");
    assert_int_equal(tensor->rank, 0);
    assert_int_equal(tensor->count, 1);
    assert_int_equal(((const unsigned char *)tensor->data)[0], 30);
    assert_int_equal(zest_safetensors_find(file, "empty")->count, 0);
    assert_null(zest_safetensors_find(file, "c"));
    assert_null(zest_safetensors_find(file, "__metadata__"));
    assert_string_equal(zest_safetensors_metadata(file, "who"), "zest");
    assert_null(zest_safetensors_metadata(file, "nobody"));
    zest_safetensors_close(file);
    zest_safetensors_close(NULL);
    free(copy);
    zest_buffer_free(&bytes);
}

/* A header of 0x280 bytes begins like a pickle. */
static void test_length_like_a_pickle(void **state) {
    (void)state;
    char header[0x280 + 1];
    memset(header, ' ', sizeof header);
    memcpy(header, "{}", 2);
    header[0x280] = '\0';
    zest_buffer bytes = {0};
    build(&bytes, header, 0);
    assert_true(survives(bytes.data, bytes.size));
    zest_buffer_free(&bytes);
}

static void test_no_tensors(void **state) {
    (void)state;
    zest_buffer bytes = {0};
    build(&bytes, "{}", 0);
    assert_true(survives(bytes.data, bytes.size));
    zest_buffer_free(&bytes);
}

/* ---- Hostile files ---- */

#define T(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header, *fragment;
    size_t data;
} hostile[] = {
    {"[1]", "not a JSON object", 0},
    {"3", "not a JSON object", 0},
    {" {}", "not a JSON object", 0},
    {"{} {}", "not valid JSON", 0},
    {"{", "not valid JSON", 0},
    {"{\"a\":\"\xff\"}", "not valid JSON", 0},
    {"{\"a\\u0000b\":{}}", "not valid JSON", 0},
    {"{\"a\":3}", "no dtype", 0},
    {"{\"a\":{}}", "no dtype", 0},
    {"{" T("a", "F31", "[1]", "[0,4]") "}", "unknown dtype 'F31'", 4},
    {"{" T("a", "f32", "[1]", "[0,4]") "}", "unknown dtype", 4},
    {"{" T("a", "\\u001b[2J", "[1]", "[0,4]") "}", "unknown dtype '?'", 4},
    {"{" T("a\\u001b[2J", "F32", "[1]", "[0,4]") "}", "control character", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "no shape", 4},
    {"{" T("a", "F32", "1", "[0,4]") "}", "no shape", 4},
    {"{" T("a", "F32", "[1.0]", "[0,4]") "}", "not a list of non-negative integers", 4},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", "not a list of non-negative integers", 4},
    {"{" T("a", "F32", "[\"1\"]", "[0,4]") "}", "not a list of non-negative integers", 4},
    {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", "product overflows", 4},
    {"{" T("a", "F32", "[4611686018427387904,4]", "[0,4]") "}", "product overflows", 4},
    {"{" T("a", "F32", "[4611686018427387904]", "[0,0]") "}", "size in bytes overflows", 0},
    {"{" T("a", "F32", "[99999999999999999999]", "[0,4]") "}", "not a list of non-negative integers", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "not a pair", 4},
    {"{" T("a", "F32", "[1]", "[0]") "}", "not a pair", 4},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", "not a pair", 4},
    {"{" T("a", "F32", "[1]", "[-4,0]") "}", "not a pair", 4},
    {"{" T("a", "F32", "[1]", "[0,-4]") "}", "not a pair", 4},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", "run backwards", 4},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", "which has only 3 (file truncated?)", 3},
    {"{" T("a", "F32", "[1]", "[9223372036854775803,9223372036854775807]") "}", "truncated?", 4},
    {"{" T("a", "F32", "[2]", "[0,4]") "}", "needs 8 bytes of F32, its data_offsets give 4", 4},
    {"{" T("a", "F16", "[1]", "[0,4]") "}", "needs 2 bytes of F16", 4},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[2,6]") "}", "overlaps", 6},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", "overlaps", 4},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", "a gap", 12},
    {"{" T("a", "F32", "[1]", "[4,8]") "}", "a gap", 8},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", "2 bytes after the last tensor", 6},
    {"{}", "1 bytes after the last tensor", 1},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", "duplicate", 8},
    {"{\"__metadata__\":[]}", "__metadata__ is not an object", 0},
    {"{\"__metadata__\":{\"a\":1}}", "not a string", 0},
};

static void test_hostile_headers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        zest_buffer bytes = {0};
        zest_safetensors *file;
        zest_error error = {0};
        void *copy;
        build(&bytes, hostile[i].header, hostile[i].data);
        zest_status status = open_copy(bytes.data, bytes.size, &file, &copy, &error);
        if (status != ZEST_ERROR_FORMAT || !strstr(error.message, hostile[i].fragment))
            fail_msg("%s\ngave %d: %s\nwanted: %s", hostile[i].header, status, error.message,
                     hostile[i].fragment);
        assert_null(file);
        for (const char *c = error.message; *c; c++) assert_true((unsigned char)*c >= 32);
        free(copy);
        zest_buffer_free(&bytes);
    }
}

static void expect_bytes(const void *bytes, size_t size, const char *fragment) {
    zest_safetensors *file;
    zest_error error = {0};
    void *copy;
    assert_int_equal(open_copy(bytes, size, &file, &copy, &error), ZEST_ERROR_FORMAT);
    if (!strstr(error.message, fragment)) fail_msg("got: %s\nwanted: %s", error.message, fragment);
    free(copy);
}

static void test_lengths_and_other_kinds(void **state) {
    (void)state;
    expect_bytes("", 0, "only 0 bytes");
    expect_bytes("1234567", 7, "only 7 bytes");
    expect_bytes("\0\0\0\0\0\0\0\0", 8, "only 8 bytes");
    expect_bytes("\0\0\0\0\0\0\0\0{}", 10, "not a JSON object");
    expect_bytes("\3\0\0\0\0\0\0\0{}", 10, "header of 3 bytes, but only 2 follow");
    expect_bytes("\1\341\365\5\0\0\0\0{}", 10, "header of 100000001 bytes, more than");
    expect_bytes("\377\377\377\377\377\377\377\377{}", 10, "header of 18446744073709551615 bytes");
    expect_bytes("GGUF\3\0\0\0\0\0\0\0", 12, "GGUF");
    expect_bytes("PK\3\4\0\0\0\0\0\0\0\0", 12, "save_pretrained");
    expect_bytes("\200\2}q\0X\0\0\0\0\0\0", 12, "PyTorch");
    expect_bytes("version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull");
}

static void test_deep_nesting(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    char *header = malloc(DEPTH + 6);
    assert_non_null(header);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEPTH);
    header[DEPTH + 5] = '\0';
    zest_buffer bytes = {0};
    build(&bytes, header, 0);
    expect_bytes(bytes.data, bytes.size, "depth");
    zest_buffer_free(&bytes);
    free(header);
}

static void test_truncation_at_every_byte(void **state) {
    (void)state;
    zest_buffer bytes = {0};
    build(&bytes, small, 38);
    for (size_t size = 0; size < bytes.size; size++) assert_false(survives(bytes.data, size));
    assert_true(survives(bytes.data, bytes.size));
    zest_buffer_free(&bytes);
}

static void test_every_byte_changed(void **state) {
    (void)state;
    zest_buffer bytes = {0};
    build(&bytes, small, 38);
    size_t good = 0, header = bytes.size - 38;
    for (size_t i = 0; i < header; i++) {
        char kept = bytes.data[i];
        for (int change = 1; change < 256; change++) {
            bytes.data[i] = (char)(kept ^ change);
            good += (size_t)survives(bytes.data, bytes.size);
        }
        bytes.data[i] = kept;
    }
    assert_in_range(good, 1000,
                    255 * header / 2); /* letters of names may change, digits and brackets may not */
    zest_buffer_free(&bytes);
}

/* ---- Files and folders ---- */

static void put(const char *name, const void *bytes, size_t size) {
    zest_error error = {0};
    assert_int_equal(zest_file_write(temp_path(name), bytes, size, &error), ZEST_OK);
}

static void put_header(const char *name, const char *header, size_t data) {
    zest_buffer bytes = {0};
    build(&bytes, header, data);
    put(name, bytes.data, bytes.size);
    zest_buffer_free(&bytes);
}

static void expect_folder(const char *fragment) {
    zest_safetensors *file;
    zest_error error = {0};
    zest_status status = zest_safetensors_open_folder(test_temp_folder, "AutoModel", &file, &error);
    if (!status || !strstr(error.message, fragment))
        fail_msg("got %d: %s\nwanted: %s", status, error.message, fragment);
    assert_null(file);
}

static void test_paths(void **state) {
    (void)state;
    zest_safetensors *file;
    zest_error error = {0};
    assert_int_equal(zest_safetensors_open(test_temp_folder, &file, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "is a folder, not a file"));
    assert_int_equal(zest_safetensors_open(temp_path("none"), &file, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "cannot be opened"));
    assert_int_equal(zest_safetensors_open("/dev/null", &file, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "a device or a pipe"));
    put("empty", "", 0);
    assert_int_equal(zest_safetensors_open(temp_path("empty"), &file, &error), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_safetensors_open(temp_path("empty"), &file, NULL), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_safetensors_open_folder(temp_path("empty"), "AutoModel", &file, &error),
                     ZEST_ERROR_FILE);
    assert_int_equal(zest_safetensors_open_folder(temp_path("none"), "AutoModel", &file, &error),
                     ZEST_ERROR_FILE);
    put_header("good", small, 38);
    assert_int_equal(zest_safetensors_open(temp_path("good"), &file, &error), ZEST_OK);
    touch(file);
    zest_safetensors_close(file);
}

static void test_folder_explains(void **state) {
    (void)state;
    expect_folder("neither model.safetensors nor");
    put("pytorch_model.bin", "PK\3\4", 4);
    expect_folder("pytorch_model.bin, a PyTorch pickle");
    expect_folder(".save_pretrained(");
    put("model.gguf", "GGUF", 4);
    expect_folder("but model.gguf: use the path of that file");
}

#define A T("a", "F32", "[1]", "[0,4]")
#define B T("b", "F16", "[3]", "[0,6]")

static void put_index(const char *weight_map) {
    char text[1000];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":10},\"weight_map\":%s}", weight_map);
    put("model.safetensors.index.json", text, strlen(text));
}

static void test_shards(void **state) {
    (void)state;
    zest_safetensors *file;
    zest_error error = {0};
    put_header("two", "{\"__metadata__\":{\"n\":\"2\"}," B "}", 6);
    put_header("one", "{\"__metadata__\":{\"n\":\"1\"}," A "}", 4);
    put_index("{\"b\":\"two\",\"a\":\"one\"}");
    assert_int_equal(zest_safetensors_open_folder(test_temp_folder, "AutoModel", &file, &error), ZEST_OK);
    assert_int_equal(zest_safetensors_count(file), 2);
    assert_string_equal(zest_safetensors_at(file, 0)->name, "a");
    assert_int_equal(zest_safetensors_find(file, "b")->count, 3);
    assert_string_equal(zest_safetensors_metadata(file, "n"), "1");
    touch(file);
    zest_safetensors_close(file);
}

static void test_bad_indexes(void **state) {
    (void)state;
    static const struct {
        const char *map, *fragment;
    } cases[] = {
        {"{\"b\":\"two\",\"a\":\"two\"}", "'a' is missing"},
        {"{\"b\":\"one\",\"a\":\"one\"}", "'b' is missing"},
        {"{\"b\":\"one\",\"a\":\"two\"}", "in another file"},
        {"{\"b\":\"two\",\"a\":\"one\",\"c\":\"one\"}", "'c' is missing"},
        {"{\"a\":\"both\"}", "lists nowhere"},
        {"{\"a\":\"one\",\"b\":\"both\"}", "in another file"},
        {"{\"a\":\"../one\"}", "plain names"},
        {"{\"a\":\"/etc/passwd\"}", "plain names"},
        {"{\"a\":\"..\"}", "plain names"},
        {"{\"a\":\".\"}", "plain names"},
        {"{\"a\":\"\"}", "plain names"},
        {"{\"a\":7}", "plain names"},
        {"{\"a\":\"absent\"}", "absent: cannot be opened"},
        {"{\"a\":\"broken\"}", "broken: not a safetensors file"},
        {"{}", "no weight_map"},
        {"[]", "no weight_map"},
        {"{", "not valid JSON"},
    };
    put_header("two", "{" B "}", 6);
    put_header("one", "{" A "}", 4);
    put_header("both", "{" T("b", "F16", "[2]", "[4,8]") "," A "}", 8);
    put("broken", "xx", 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_index(cases[i].map);
        expect_folder(cases[i].fragment);
    }
    put("model.safetensors.index.json", "", 0);
    expect_folder("not valid JSON");
}

/* Published models, where they are available. */
static void test_shared_models(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t tensors;
    } models[] = {{"roberta-tiny", 106}, {"roberta-small", 202}, {"stories15M", 56}, {"stories260K", 47}};
    size_t found = 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char name[64], path[512];
        zest_safetensors *file;
        zest_error error = {0};
        snprintf(name, sizeof name, "models/%s", models[i].name);
        if (!test_shared(name, path)) continue;
        found++;
        if (zest_safetensors_open_folder(path, "AutoModel", &file, &error)) fail_msg("%s", error.message);
        assert_int_equal(zest_safetensors_count(file), models[i].tensors);
        assert_string_equal(zest_safetensors_metadata(file, "format"), "pt");
        touch(file);
        zest_safetensors_close(file);
    }
    if (!found) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_file),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_length_like_a_pickle),
        cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_lengths_and_other_kinds),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_truncation_at_every_byte),
        cmocka_unit_test(test_every_byte_changed),
        IN_TEMP_FOLDER(test_paths),
        IN_TEMP_FOLDER(test_folder_explains),
        IN_TEMP_FOLDER(test_shards),
        IN_TEMP_FOLDER(test_bad_indexes),
        cmocka_unit_test(test_shared_models),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
