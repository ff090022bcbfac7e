/* Fingerprints of files, and the record of what a run was made from. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "train/run_folder.h"
#include "tests/temp_folder.h"

/* Published test vectors of XXH3 with 64 bits and seed 0. */
static void test_known_hashes(void **state) {
    (void)state;
    assert_int_equal(zest_fingerprint_of(NULL, 0).hash, 0x2d06800538d394c2);
    assert_int_equal(zest_fingerprint_of("", 0).bytes, 0);
    char *bytes = malloc(300000);
    zest_fingerprint print, whole;
    zest_error error = {0};
    for (size_t i = 0; i < 300000; i++) bytes[i] = (char)(i * i / 7);
    assert_int_equal(zest_file_write(temp_path("file"), bytes, 300000, &error), ZEST_OK);
    whole = zest_fingerprint_of(bytes, 300000);
    /* in blocks as at once; the size is that of the file, the hash that of the bytes at its beginning */
    assert_int_equal(zest_fingerprint_file(temp_path("file"), SIZE_MAX, &print, &error), ZEST_OK);
    assert_true(zest_fingerprint_same(print, whole));
    assert_int_equal(zest_fingerprint_file(temp_path("file"), 70001, &print, &error), ZEST_OK);
    assert_int_equal(print.bytes, 300000);
    assert_int_equal(print.hash, zest_fingerprint_of(bytes, 70001).hash);
    bytes[299999] ^= 1;
    assert_false(zest_fingerprint_same(whole, zest_fingerprint_of(bytes, 300000)));
    assert_int_equal(zest_fingerprint_file(temp_path("none"), 1, &print, &error), ZEST_ERROR_FILE);
    free(bytes);
}

/* What is written comes back, and only what was written passes. */
static void test_record(void **state) {
    (void)state;
    zest_error error = {0};
    zest_run_folder folder;
    zest_inputs in = {0}, back;
    zest_fingerprint a = {12, 0xffffffffffffffff}, b = {12, 0xfffffffffffffffe};
    test_put(test_temp_folder, "rows.tsv", "one\n");
    assert_int_equal(zest_run_folder_of(test_temp_folder, &folder, &error), ZEST_OK);
    assert_int_equal(zest_inputs_add_data(&in, "train", temp_path("rows.tsv"), a, &error), ZEST_OK);
    assert_int_equal(zest_inputs_add_data(&in, "test", "bad \xff bytes", b, &error), ZEST_OK);
    in.task_name = strdup("mine");
    in.task_file = strdup("/somewhere/mine.task");
    in.frozen = 3, in.has_frozen = 1;
    zest_options options;
    zest_options_init(&options);
    assert_int_equal(zest_inputs_write(&in, &folder, "name = mine\n", &options, ZEST_FOR_TRAINING,
                                       &(zest_params){0}, &error),
                     ZEST_OK);
    zest_options_free(&options);
    assert_int_equal(zest_inputs_read(&back, &folder, &error), ZEST_OK);
    assert_true(back.recorded && back.has_frozen && back.frozen == 3);
    assert_string_equal(back.task_name, "mine");
    assert_string_equal(back.task_file, "/somewhere/mine.task");
    assert_int_equal(back.data.count, 2);
    assert_int_equal(zest_inputs_check_data(&back, "train", "x", a, &error), ZEST_OK);
    assert_int_equal(zest_inputs_check_data(&back, "test", "x", b, &error), ZEST_OK);
    assert_int_equal(zest_inputs_check_data(&back, "dev", "x", b, &error), ZEST_OK); /* not on record */
    assert_int_equal(zest_inputs_check_data(&back, "train", "some/rows", b, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "some/rows"));
    assert_non_null(strstr(error.message, "ffffffffffffffff"));
    assert_int_equal(zest_inputs_check_data(NULL, "train", "x", b, &error), ZEST_OK);
    back.allow_changed = 1;
    assert_int_equal(zest_inputs_check_data(&back, "train", "x", b, &error), ZEST_OK);
    zest_inputs_free(&back);
    zest_inputs_free(&in);
    zest_run_folder_free(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {IN_TEMP_FOLDER(test_known_hashes), IN_TEMP_FOLDER(test_record)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
