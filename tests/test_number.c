/* Numbers have a decimal point in every locale: under one with a comma, everything that reads or writes
 * numbers gives what it gives under the C locale. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/option.h"
#include "base/file.h"
#include "tests/support.h"

/* A locale whose decimal point is a comma, made by localedef in the folder; 0 where it cannot be made. */
static locale_t comma_locale(const char *folder) {
    char command[256];
#if !defined(__GLIBC__)
    return (locale_t)0; /* musl takes any name, and all its locales have a point */
#endif
    test_put(folder, "comma.src",
             "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n");
    snprintf(
        command, sizeof command,
        "localedef --no-archive -c -i %s/comma.src %s/comma >/dev/null 2>&1; test -s %s/comma/LC_NUMERIC",
        folder, folder, folder);
    if (system(command)) return (locale_t)0;
    setenv("LOCPATH", folder, 1);
    return newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0);
}

#if defined(__SANITIZE_ADDRESS__)
/* glibc's newlocale loses a few bytes when LOCPATH is set. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:__argz_add_sep\n"; }
#endif

static char folder[64];
static locale_t comma;

static int begin(void **state) {
    (void)state;
    comma = comma_locale(test_folder(folder));
    if (comma) uselocale(comma);
    return 0;
}

static int end(void **state) {
    (void)state;
    uselocale(LC_GLOBAL_LOCALE);
    if (comma) freelocale(comma);
    unsetenv("LOCPATH");
    test_remove(folder);
    return 0;
}

/* The locale is what the tests below take it for. */
static void skip_without_locale(void) {
    if (!comma) skip();
    char text[16];
    snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(text, "0,5");
    assert_true(strtod("0.5", NULL) == 0);
}

static void numbers_are_read_and_written_with_a_point(void **state) {
    (void)state;
    skip_without_locale();
    char text[32], *rest;
    assert_true(zest_number_parse("-1.25e-3,7", &rest) == -1.25e-3);
    assert_string_equal(rest, ",7");
    assert_true(zest_number_parse("nothing", &rest) == 0 && *rest == 'n');
    assert_true(isinf(zest_number_parse("-inf", NULL)));
    assert_int_equal(zest_number_format(text, sizeof text, "%.2f and %g", 3.14159, 1e-9), 14);
    assert_string_equal(text, "3.14 and 1e-09");
    snprintf(text, sizeof text, "%g", 0.5); /* the caller's locale is as it was */
    assert_string_equal(text, "0,5");
    zest_buffer buffer = {0};
    zest_buffer_format(&buffer, "%.17g", 0.1);
    assert_string_equal(buffer.data, "0.10000000000000001");
    zest_buffer_free(&buffer);
    zest_error error;
    zest_error_set(&error, ZEST_ERROR_FILE, "%.1f seconds", 2.5);
    assert_string_equal(error.message, "2.5 seconds");
}

static void options_do_not_depend_on_the_locale(void **state) {
    (void)state;
    skip_without_locale();
    zest_options options;
    zest_error error = {0};
    double *values;
    size_t count;
    zest_options_init(&options); /* which parses the defaults */
    assert_true(zest_options_number(&options, ZEST_OPTION_RHO) == 0.001);
    assert_int_equal(zest_options_set(&options, ~0u, "lr", "0.02", &error), ZEST_OK);
    assert_true(zest_options_number(&options, ZEST_OPTION_LR) == 0.02);
    assert_int_equal(zest_options_set(&options, ~0u, "lr", "0,02", &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_options_set(&options, ~0u, "steps", "1.5e3", &error), ZEST_OK);
    assert_int_equal(zest_options_whole(&options, ZEST_OPTION_STEPS), 1500);
    assert_int_equal(zest_options_set(&options, ~0u, "tilts", "0.5,2.25", &error), ZEST_OK);
    assert_int_equal(zest_options_list(&options, ZEST_OPTION_TILTS, &values, &count, &error), ZEST_OK);
    assert_int_equal(count, 2);
    assert_true(values[0] == 0.5 && values[1] == 2.25);
    free(values);
    char range[64];
    zest_option_range(zest_option_row_at(ZEST_OPTION_MOMENTUM), range, sizeof range);
    assert_string_equal(range, "0 to 0.9999");
    zest_options_free(&options);
}

/* The public interface: a number as a double goes through text. */
static void a_tuner_does_not_depend_on_the_locale(void **state) {
    (void)state;
    skip_without_locale();
    zest_ctx *ctx = test_context();
    double x[2] = {0};
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 2);
    assert_non_null(tuner);
    assert_int_equal(zest_tuner_set_number(tuner, "rho", 0.125), ZEST_OK);
    assert_string_equal(zest_tuner_get(tuner, "rho"), "0.125");
    assert_int_equal(zest_tuner_set(tuner, "lr", "2.5e-3"), ZEST_OK);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

static void vectors_do_not_depend_on_the_locale(void **state) {
    (void)state;
    skip_without_locale();
    const double written[3] = {0.1, -2.5, 1e-300};
    double *read = NULL;
    size_t count = 0;
    char path[96];
    zest_error error = {0};
    snprintf(path, sizeof path, "%s/vector", folder);
    assert_int_equal(zest_file_write_numbers(path, written, 3, &error), ZEST_OK);
    assert_int_equal(zest_file_read_numbers(path, &read, &count, &error), ZEST_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(read, written, sizeof written);
    free(read);
    test_put(folder, "points", "0.25 0.5\n");
    snprintf(path, sizeof path, "%s/points", folder);
    assert_int_equal(zest_file_read_numbers(path, &read, &count, &error), ZEST_OK);
    assert_true(count == 2 && read[0] == 0.25 && read[1] == 0.5);
    free(read);
}

/* The range is that of the caller; what does not fit 64 bits is no number. */
static void integers_have_a_range(void **state) {
    (void)state;
    int64_t number = 7;
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "0x1",
                                      "1e3",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (zest_integer_parse(bad[i], INT64_MIN, INT64_MAX, &number)) fail_msg("'%s' was taken", bad[i]);
    assert_false(zest_integer_parse("-3", -2, 2, &number) || zest_integer_parse("3", -2, 2, &number));
    assert_int_equal(number, 7);
    assert_true(zest_integer_parse("-2", -2, 2, &number) && number == -2);
    assert_true(zest_integer_parse("2", -2, 2, &number) && number == 2);
    assert_true(zest_integer_parse("-9223372036854775808", INT64_MIN, 0, &number) && number == INT64_MIN);
    assert_true(zest_integer_parse("9223372036854775807", 0, INT64_MAX, &number) && number == INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_a_range),
        cmocka_unit_test(numbers_are_read_and_written_with_a_point),
        cmocka_unit_test(options_do_not_depend_on_the_locale),
        cmocka_unit_test(a_tuner_does_not_depend_on_the_locale),
        cmocka_unit_test(vectors_do_not_depend_on_the_locale),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
