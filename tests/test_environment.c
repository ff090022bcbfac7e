/* Environment variables: the allowed values by hand, and what is refused with which words. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/settings.h"
#include "base/cpu.h"
#include "base/environment.h"
#include "tests/support.h"

static const char *const variables[] = {"ZEST_CUDA_GEMM", "ZEST_CUDA_NORM",  "ZEST_CUDA_TUNE",
                                        "ZEST_CUDA_F32",  "ZEST_CUDA_AHEAD", "ZEST_CUDA_MEMORY"};

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
    assert_true(s.limit == 0 && s.tune && s.split && s.ahead == 2);
    assert_int_equal(s.products, ZEST_PRODUCTS_FASTEST);
    assert_int_equal(s.norms, ZEST_NORMS_TOGETHER);
    assert_true(settings_with("ZEST_CUDA_TUNE", "").tune);
    assert_true(settings_with("ZEST_CUDA_TUNE", "on").tune);
    assert_false(settings_with("ZEST_CUDA_TUNE", "off").tune);
    assert_false(settings_with("ZEST_CUDA_F32", "plain").split);
    assert_true(settings_with("ZEST_CUDA_F32", "split").split);
    assert_int_equal(settings_with("ZEST_CUDA_GEMM", "cublas").products, ZEST_PRODUCTS_CUBLAS);
    assert_int_equal(settings_with("ZEST_CUDA_GEMM", "own").products, ZEST_PRODUCTS_OWN);
    assert_int_equal(settings_with("ZEST_CUDA_GEMM", "auto").products, ZEST_PRODUCTS_FASTEST);
    assert_int_equal(settings_with("ZEST_CUDA_NORM", "apart").norms, ZEST_NORMS_APART);
    assert_int_equal(settings_with("ZEST_CUDA_NORM", "late").norms, ZEST_NORMS_LATE);
    assert_int_equal(settings_with("ZEST_CUDA_AHEAD", "4").ahead, 4);
    assert_int_equal(settings_with("ZEST_CUDA_MEMORY", "138").limit, 138 << 20);
}

static void typing_errors_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *variable, *value, *allowed;
    } cases[] = {
        {"ZEST_CUDA_GEMM", "cubals", "cublas, auto or own"},
        {"ZEST_CUDA_NORM", "Apart", "together, apart or late"},
        {"ZEST_CUDA_TUNE", "of", "off or on"},
        {"ZEST_CUDA_TUNE", "off ", "off or on"},
        {"ZEST_CUDA_F32", "plane", "plain or split"},
        {"ZEST_CUDA_AHEAD", "0", "a whole number from 1 to 4"},
        {"ZEST_CUDA_AHEAD", "5", "a whole number from 1 to 4"},
        {"ZEST_CUDA_AHEAD", "2x", "a whole number from 1 to 4"},
        {"ZEST_CUDA_MEMORY", "4GB", "a whole number from 1 to "},
        {"ZEST_CUDA_MEMORY", "-1", "a whole number from 1 to "},
        {"ZEST_CUDA_MEMORY", " 5", "a whole number from 1 to "},
        {"ZEST_CUDA_MEMORY", "99999999999999999999", "a whole number from 1 to "},
        {"ZEST_CUDA_MEMORY", "18446744073709551615", "a whole number from 1 to "}, /* bytes would wrap */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_follow_the_variables),
        cmocka_unit_test(typing_errors_are_refused),
        cmocka_unit_test(cpu_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
