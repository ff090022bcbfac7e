/* The option table and what is made from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/option.h"
#include "tests/support.h"

/* Names and letters are unique for every command, defaults are valid values, help is a phrase. */
static void the_table_is_sound(void **state) {
    (void)state;
    zest_options options;
    zest_error error;
    for (int a = 0; a < ZEST_OPTION_COUNT; a++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)a);
        zest_options_init(&options);
        if (*row->fallback && zest_options_set_id(&options, (zest_option_id)a, row->fallback, &error))
            fail_msg("the default of %s: %s", row->name, error.message);
        zest_options_free(&options);
        assert_true(row->users != 0 && strlen(row->help) > 5 && row->help[strlen(row->help) - 1] != '.');
        assert_true(row->kind == ZEST_KIND_FLAG || *row->argument);
        for (int b = 0; b < a; b++) {
            const zest_option_row *other = zest_option_row_at((zest_option_id)b);
            if (!strcmp(row->name, other->name)) assert_true(!(row->users & other->users));
            if (row->letter && row->letter == other->letter) assert_true(!(row->users & other->users));
        }
    }
}

static void values_survive_print_and_parse(void **state) {
    (void)state;
    zest_options options, again;
    zest_buffer text = {0}, second = {0};
    zest_error error;
    zest_options_init(&options);
    zest_options_init(&again);
    assert_int_equal(zest_options_set(&options, ~0u, "rho", "0.1e-3", &error), 0);
    assert_int_equal(zest_options_set(&options, ~0u, "seed", "0xffffffffffffffff", &error), 0);
    assert_int_equal(zest_options_set(&options, ~0u, "steps", "1e6", &error), 0);
    assert_int_equal(zest_options_set(&options, ~0u, "exec", "a = b # c", &error), 0);
    assert_true(zest_options_whole(&options, ZEST_OPTION_SEED) == UINT64_MAX);
    assert_true(zest_options_whole(&options, ZEST_OPTION_STEPS) == 1000000);
    zest_options_print(&options, ZEST_FOR_MINIMIZE, &text);
    assert_int_equal(zest_options_set_all(&again, ZEST_FOR_MINIMIZE, text.data, "test", &error), 0);
    zest_options_print(&again, ZEST_FOR_MINIMIZE, &second);
    assert_string_equal(text.data, second.data);
    assert_string_equal(zest_options_text(&again, ZEST_OPTION_EXEC), "a = b # c");
    zest_buffer_free(&text);
    zest_buffer_free(&second);
    zest_options_free(&options);
    zest_options_free(&again);
}

static void files_are_read_with_line_numbers(void **state) {
    (void)state;
    zest_options options;
    zest_error error;
    zest_options_init(&options);
    assert_int_equal(
        zest_options_set_all(&options, ~0u, "# a comment\n\n  rho = 0.5  \nk=7\n", "file", &error), 0);
    assert_true(zest_options_number(&options, ZEST_OPTION_RHO) == 0.5 &&
                zest_options_whole(&options, ZEST_OPTION_K) == 7);
    assert_int_equal(zest_options_set_all(&options, ~0u, "rho=1\nk=zero\n", "file", &error),
                     ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "file, line 2: option k: 'zero'"));
    assert_int_equal(zest_options_set_all(&options, ~0u, "rho=1\njust words\n", "file", &error),
                     ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "name=value"));
    assert_int_equal(zest_options_set(&options, ~0u, "exec", "two\nlines", &error), ZEST_ERROR_ARGUMENT);
    zest_options_free(&options);
}

static void lists_are_lists_of_numbers(void **state) {
    (void)state;
    zest_options options;
    zest_error error;
    double *values;
    size_t count;
    static const char *const bad[] = {"1,,2", "1,x", "1,2,", "nan", ",1", "1 2"};
    zest_options_init(&options);
    assert_int_equal(zest_options_set_id(&options, ZEST_OPTION_EIGENVALUES, "1,-2.5,3e-4", &error), 0);
    assert_int_equal(zest_options_list(&options, ZEST_OPTION_EIGENVALUES, &values, &count, &error), 0);
    assert_true(count == 3 && values[0] == 1 && values[1] == -2.5 && values[2] == 3e-4);
    free(values);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(zest_options_set_id(&options, ZEST_OPTION_EIGENVALUES, bad[i], &error), 0);
        assert_int_equal(zest_options_list(&options, ZEST_OPTION_EIGENVALUES, &values, &count, &error),
                         ZEST_ERROR_ARGUMENT);
    }
    zest_options_free(&options);
}

/* Through the public header: every tuner option has a name, a kind, a default and help, and the tuner knows
 * it. */
static void the_library_lists_its_options(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double x = 0;
    zest_tuner *tuner = zest_tuner_new_f64(ctx, &x, 1);
    zest_option option;
    size_t count = 0;
    while (zest_tuner_option(count, &option)) {
        assert_string_equal(zest_tuner_get(tuner, option.name), option.fallback);
        assert_ok(ctx, zest_tuner_set(tuner, option.name, option.fallback));
        if (!strcmp(option.name, "rho")) assert_string_equal(option.values, "> 0");
        if (!strcmp(option.name, "method")) assert_string_equal(option.values, "zest-n, zest-bc or mezo");
        count++;
    }
    assert_true(count >= 20);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

static void files_are_written_whole_or_not_at_all(void **state) {
    (void)state;
    char folder[64], path[100], full[100];
    zest_error error;
    zest_buffer back = {0};
    snprintf(path, sizeof path, "%s/file", test_folder(folder));
    snprintf(full, sizeof full, "%s/missing/file", folder);
    assert_int_equal(zest_file_write(path, "old", 3, &error), 0);
    assert_int_equal(zest_file_write(path, "newer", 5, &error), 0);
    assert_int_equal(zest_file_read(path, 5, &back, &error), 0);
    assert_true(back.size == 5 && !memcmp(back.data, "newer", 6));
    assert_int_equal(zest_file_read(path, 4, &back, &error), ZEST_ERROR_FORMAT); /* over the limit */
    assert_int_equal(zest_file_write(full, "x", 1, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "No such file"));
    assert_int_equal(zest_file_read(folder, 100, &back, &error), ZEST_ERROR_FILE); /* a folder is no file */
    zest_buffer_free(&back);
    test_remove(folder);
}

/* What is behind a link stays: a link in a removed folder, a link instead of a folder, a link with the name of the
 * temporary file. */
static void nothing_is_changed_through_links(void **state) {
    (void)state;
    char folder[64], inside[100], outside[100], precious[120], link[120], path[100], temporary[140];
    zest_error error;
    zest_buffer back = {0};
    struct stat info;
    snprintf(inside, sizeof inside, "%s/inside", test_folder(folder));
    snprintf(outside, sizeof outside, "%s/outside", folder);
    snprintf(precious, sizeof precious, "%s/precious", outside);
    snprintf(link, sizeof link, "%s/link", inside);
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    assert_int_equal(mkdir(inside, 0777) | mkdir(outside, 0777), 0);
    assert_int_equal(zest_file_write(precious, "old", 3, &error), 0);

    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(zest_file_remove_folder(inside, &error), 0); /* with the link in it */
    assert_int_equal(lstat(inside, &info), -1);
    assert_int_equal(symlink(outside, inside), 0);
    assert_int_equal(zest_file_remove_folder(inside, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "/inside: is a symbolic link"));
    assert_int_equal(lstat(inside, &info), 0);
    assert_int_equal(unlink(inside), 0);

    assert_int_equal(symlink(precious, temporary), 0);
    assert_int_equal(zest_file_write(path, "newer", 5, &error), 0);
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISREG(info.st_mode) && info.st_size == 5);
    assert_int_equal(lstat(temporary, &info), -1);
    assert_int_equal(zest_file_read(precious, 100, &back, &error), 0);
    assert_true(back.size == 3 && !memcmp(back.data, "old", 3));
    zest_buffer_free(&back);
    test_remove(folder);
}

static int exists(const char *folder, const char *name) {
    char path[160];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &info) == 0;
}

/* What killed processes left is removed; what a living one has locked, and what only looks like it, stays. */
static void abandoned_temporaries_are_removed(void **state) {
    (void)state;
    static const char *const left[] = {"model.safetensors.12.tmp", "a.b.999999.tmp"}, *const kept[] = {
                                                                                          "notes.tmp",
                                                                                          "12.tmp", ".12.tmp",
                                                                                          "x.12a.tmp",
                                                                                          "x.12.tmp.gz"};
    char folder[64], path[160], *locked;
    int descriptor;
    zest_error error;
    test_folder(folder);
    for (size_t i = 0; i < 7; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i < 2 ? left[i] : kept[i - 2]);
        assert_int_equal(zest_file_write(path, "x", 1, &error), 0);
    }
    snprintf(path, sizeof path, "%s/folder.1.tmp", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/link.1.tmp", folder);
    assert_int_equal(symlink("notes.tmp", path), 0);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(zest_file_open_temporary(path, &locked, &descriptor, &error), 0);

    /* of one file only, in a folder that has others' */
    snprintf(path, sizeof path, "%s/model", folder);
    test_put(folder, "model.77.tmp", "x");
    test_put(folder, "model.77.tmp.8.tmp", "x");
    zest_file_remove_temporaries_of(path);
    assert_false(exists(folder, "model.77.tmp"));
    assert_true(exists(folder, "model.77.tmp.8.tmp"));
    for (size_t i = 0; i < 2; i++) assert_true(exists(folder, left[i]));

    zest_file_remove_temporaries(folder);
    for (size_t i = 0; i < 2; i++) assert_false(exists(folder, left[i]));
    for (size_t i = 0; i < 5; i++) assert_true(exists(folder, kept[i]));
    assert_true(exists(folder, "folder.1.tmp") && exists(folder, "link.1.tmp"));
    assert_true(exists(folder, strrchr(locked, '/') + 1));
    assert_int_equal(close(descriptor), 0); /* its owner has ended */
    zest_file_remove_temporaries(folder);
    assert_false(exists(folder, strrchr(locked, '/') + 1));
    zest_file_remove_temporaries("/no/such/folder");
    free(locked);
    test_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(values_survive_print_and_parse),
        cmocka_unit_test(files_are_read_with_line_numbers),
        cmocka_unit_test(lists_are_lists_of_numbers),
        cmocka_unit_test(the_library_lists_its_options),
        cmocka_unit_test(files_are_written_whole_or_not_at_all),
        cmocka_unit_test(nothing_is_changed_through_links),
        cmocka_unit_test(abandoned_temporaries_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
