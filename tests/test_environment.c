/* Environment variables: allowed values, and the messages for others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/settings.h"
#include "base/cpu.h"
#include "base/environment.h"
#include "base/file.h"
#include "tests/support.h"

static const char *const variables[] = {"ZEST_CUDA_GEMM", "ZEST_CUDA_NORM", "ZEST_CUDA_TUNE", "ZEST_CUDA_F32",
                                        "ZEST_CUDA_MEMORY"};

static void clear(void) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
}

static zest_cuda_settings settings_with(const char *variable, const char *value) {
    zest_cuda_settings settings;
    zest_error error = {0};
    clear();
    if (variable) assert_int_equal(setenv(variable, value, 1), 0);
    if (zest_cuda_settings_read(&settings, &error)) fail_msg("%s", error.message);
    clear();
    return settings;
}

static void settings_follow_the_variables(void **state) {
    (void)state;
    zest_cuda_settings s = settings_with(NULL, NULL);
    assert_true(s.memory_limit == 0 && !s.autotune && s.split_f32);
    assert_int_equal(s.gemm, ZEST_CUDA_GEMM_AUTO);
    assert_int_equal(s.norm, ZEST_CUDA_NORM_FUSED);
    assert_false(settings_with("ZEST_CUDA_TUNE", "").autotune);
    assert_true(settings_with("ZEST_CUDA_TUNE", "on").autotune);
    assert_false(settings_with("ZEST_CUDA_TUNE", "off").autotune);
    assert_false(settings_with("ZEST_CUDA_F32", "fp32").split_f32);
    assert_true(settings_with("ZEST_CUDA_F32", "bf16x6").split_f32);
    assert_int_equal(settings_with("ZEST_CUDA_GEMM", "cublas").gemm, ZEST_CUDA_GEMM_CUBLAS);
    assert_int_equal(settings_with("ZEST_CUDA_GEMM", "sm90").gemm, ZEST_CUDA_GEMM_SM90);
    assert_int_equal(settings_with("ZEST_CUDA_GEMM", "auto").gemm, ZEST_CUDA_GEMM_AUTO);
    assert_int_equal(settings_with("ZEST_CUDA_NORM", "separate").norm, ZEST_CUDA_NORM_SEPARATE);
    assert_int_equal(settings_with("ZEST_CUDA_NORM", "fallback").norm, ZEST_CUDA_NORM_FALLBACK);
    assert_int_equal(settings_with("ZEST_CUDA_MEMORY", "138").memory_limit, 138 << 20);
}

static void typing_errors_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *variable, *value, *allowed;
    } cases[] = {
        {"ZEST_CUDA_GEMM", "cubals", "auto, cublas or sm90"},
        {"ZEST_CUDA_NORM", "Separate", "fused, separate or fallback"},
        {"ZEST_CUDA_TUNE", "of", "off or on"},
        {"ZEST_CUDA_TUNE", "off ", "off or on"},
        {"ZEST_CUDA_F32", "bf16", "bf16x6 or fp32"},
        {"ZEST_CUDA_MEMORY", "0", "an integer from 1 to "},
        {"ZEST_CUDA_MEMORY", "2x", "an integer from 1 to "},
        {"ZEST_CUDA_MEMORY", "4GB", "an integer from 1 to "},
        {"ZEST_CUDA_MEMORY", "-1", "an integer from 1 to "},
        {"ZEST_CUDA_MEMORY", " 5", "an integer from 1 to "},
        {"ZEST_CUDA_MEMORY", "99999999999999999999", "an integer from 1 to "},
        {"ZEST_CUDA_MEMORY", "18446744073709551615", "an integer from 1 to "}, /* bytes would wrap */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_cuda_settings settings;
        zest_error error = {0};
        clear();
        assert_int_equal(setenv(cases[i].variable, cases[i].value, 1), 0);
        assert_int_equal(zest_cuda_settings_read(&settings, &error), ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, cases[i].variable));
        assert_non_null(strstr(error.message, cases[i].value));
        assert_non_null(strstr(error.message, cases[i].allowed));
    }
    clear();
}

static void cpu_levels(void **state) {
    (void)state;
    const char *before = getenv("ZEST_CPU");
    char kept[32] = "";
    if (before) strncpy(kept, before, sizeof kept - 1);
    zest_cpu cpu;
    zest_error error = {0};
    assert_int_equal(setenv("ZEST_CPU", "plain", 1), 0);
    assert_int_equal(zest_cpu_detect(&cpu, &error), ZEST_OK);
    assert_int_equal(cpu, ZEST_CPU_PLAIN);
    assert_int_equal(setenv("ZEST_CPU", "axv2", 1), 0);
    assert_int_equal(zest_cpu_detect(&cpu, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "ZEST_CPU is 'axv2'"));
    assert_non_null(strstr(error.message, "plain, avx2, avx512, avx512bf16 or amx"));
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(before ? setenv("ZEST_CPU", kept, 1) : unsetenv("ZEST_CPU"), 0);
}

/* The order of the words is that of the levels. */
static void cpu_words_are_the_levels(void **state) {
    (void)state;
    char words[256] = "";
    for (int i = 0; i < ZEST_CPU_COUNT; i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", i ? "|" : "", zest_cpu_name((zest_cpu)i));
    }
    assert_string_equal(zest_environment_at(ZEST_ENVIRONMENT_CPU)->values, words);
}

/* docs/command-line.md has a row for every variable, word for word. */
static void the_documentation_has_the_table(void **state) {
    (void)state;
    const zest_environment_variable *v;
    zest_error error = {0};
    zest_buffer page = {0};
    if (zest_file_read("docs/command-line.md", 1 << 20, &page, &error)) fail_msg("%s", error.message);
    zest_buffer_text(&page, "");
    for (int i = 0; (v = zest_environment_at(i)); i++) {
        zest_buffer row = {0};
        zest_buffer_format(&row, "| `%s` | ", v->name);
        for (const char *c = v->values; *c; c++) zest_buffer_text(&row, *c == '|' ? ", " : (char[]){*c, 0});
        zest_buffer_format(&row, " | %s | %s | %s |\n", v->initial, v->meaning, v->audience);
        assert_false(row.failed || page.failed);
        if (!strstr(page.data, row.data)) fail_msg("docs/command-line.md lacks the row\n%s", row.data);
        zest_buffer_free(&row);
    }
    zest_buffer_free(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_follow_the_variables),
        cmocka_unit_test(typing_errors_are_refused),
        cmocka_unit_test(cpu_levels),
        cmocka_unit_test(cpu_words_are_the_levels),
        cmocka_unit_test(the_documentation_has_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
