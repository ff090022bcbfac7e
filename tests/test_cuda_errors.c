/* What the CUDA backend says when something fails: statuses and sentences, from error codes given by name. */
#include <string.h>

#include "kernels/cuda/errors.h"
#include "kernels/device.h"
#include "tests/support.h"

static void statuses_have_names(void **state) {
    (void)state;
    assert_string_equal(zest_status_name(ZEST_ERROR_DEVICE), "the device failed");
    assert_string_equal(zest_status_name(ZEST_ERROR_MEMORY), "out of memory");
    assert_string_equal(zest_status_name((zest_status)(ZEST_ERROR_DEVICE + 1)), "unknown status");
}

/* Every message names the code, what was being done and the GPU, and says what to do. */
static void codes_become_statuses(void **state) {
    (void)state;
    static const struct {
        const char *name;
        zest_status status;
        const char *advice;
    } cases[] = {
        {"cudaErrorMemoryAllocation", ZEST_ERROR_MEMORY, "--live"},
        {"CUBLAS_STATUS_ALLOC_FAILED", ZEST_ERROR_MEMORY, "smaller batch"},
        {"cudaErrorIllegalAddress", ZEST_ERROR_DEVICE, "compute-sanitizer"},
        {"cudaErrorMisalignedAddress", ZEST_ERROR_DEVICE, "CUDA_LAUNCH_BLOCKING=1"},
        {"cudaErrorLaunchFailure", ZEST_ERROR_DEVICE, "Xid"},
        {"cudaErrorLaunchTimeout", ZEST_ERROR_DEVICE, "display"},
        {"cudaErrorECCUncorrectable", ZEST_ERROR_DEVICE, "faulty"},
        {"cudaErrorNoDevice", ZEST_ERROR_DEVICE, "--device cpu"},
        {"cudaErrorInsufficientDriver", ZEST_ERROR_DEVICE, "driver"},
        {"cudaErrorDevicesUnavailable", ZEST_ERROR_DEVICE, "exclusive"},
        {"cudaErrorMpsRpcFailure", ZEST_ERROR_DEVICE, "--resume"},
        {"CUBLAS_STATUS_ARCH_MISMATCH", ZEST_ERROR_DEVICE, "ZEST_CUBLASLT"},
        {"CUBLAS_STATUS_EXECUTION_FAILED", ZEST_ERROR_DEVICE, "nvidia-smi"},
        {"cudaErrorOfTheFuture", ZEST_ERROR_DEVICE, "nvidia-smi"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_error error = {0};
        const zest_cuda_failure failure = {cases[i].name, "some text", "computing attention", "Some GPU"};
        assert_int_equal(zest_cuda_error_set(&error, &failure), cases[i].status);
        assert_int_equal(error.status, cases[i].status);
        const char *says[] = {cases[i].name, "some text", "computing attention", "Some GPU", cases[i].advice};
        for (size_t s = 0; s < sizeof says / sizeof *says; s++)
            if (!strstr(error.message, says[s])) fail_msg("'%s' lacks '%s'", error.message, says[s]);
    }
}

/* Before a GPU is chosen it has no name, and a code that is its own text stands there once. */
static void parts_that_are_missing(void **state) {
    (void)state;
    zest_error error = {0};
    zest_cuda_failure failure = {"cudaErrorNoDevice", NULL, "looking for a GPU", ""};
    (void)zest_cuda_error_set(&error, &failure);
    assert_non_null(strstr(error.message, "CUDA failed while looking for a GPU: cudaErrorNoDevice; check"));
    failure = (zest_cuda_failure){"CUBLAS_STATUS_X", "CUBLAS_STATUS_X", "computing a GEMM", NULL};
    (void)zest_cuda_error_set(&error, &failure);
    assert_non_null(strstr(error.message, "CUDA failed while computing a GEMM: CUBLAS_STATUS_X; check"));
}

static void out_of_memory_says_how_much(void **state) {
    (void)state;
    zest_error error = {0};
    const size_t mib = 1 << 20;
    assert_int_equal(zest_cuda_error_memory(&error, 300 * mib, 200 * mib, 1000 * mib, 700 * mib, 0),
                     ZEST_ERROR_MEMORY);
    assert_non_null(strstr(error.message, "300.0 MiB wanted, 200.0 of 1000.0 MiB are free"));
    assert_int_equal(zest_cuda_error_memory(&error, 100 * mib, 900 * mib, 1000 * mib, 50 * mib, 138 * mib),
                     ZEST_ERROR_MEMORY);
    assert_non_null(
        strstr(error.message, "100.0 MiB wanted, and 50.0 of the 138.0 MiB that ZEST_CUDA_MEMORY"));
    assert_non_null(strstr(error.message, "--live"));
    /* within the limit: the GPU itself is full */
    (void)zest_cuda_error_memory(&error, 10 * mib, 5 * mib, 1000 * mib, 50 * mib, 138 * mib);
    assert_non_null(strstr(error.message, "5.0 of 1000.0 MiB are free"));
}

/* A device keeps an error until it is taken, once. */
static void errors_are_taken_once(void **state) {
    (void)state;
    zest_device device = {0};
    zest_error error = {0};
    zest_error_set(&device.error, ZEST_ERROR_MEMORY, "100%% of it is in use");
    assert_int_equal(zest_device_take_error(&device, &error), ZEST_ERROR_MEMORY);
    assert_int_equal(error.status, ZEST_ERROR_MEMORY);
    assert_string_equal(error.message, "100% of it is in use");
    assert_int_equal(device.error.status, ZEST_OK);
    assert_int_equal(zest_device_take_error(&device, &error), ZEST_ERROR_DEVICE);
    assert_non_null(strstr(error.message, "without a reason"));
    zest_error_set(&device.error, ZEST_ERROR_DEVICE, "x");
    assert_int_equal(zest_device_take_error(&device, NULL), ZEST_ERROR_DEVICE);
}

/* What the owner of a GPU is told for which there is no code. */
static void gpus_without_code(void **state) {
    (void)state;
    static const struct {
        int major, minor;
        zest_cuda_code code;
        zest_status status;
        const char *says[4];
    } cases[] = {
        {9, 0, ZEST_CUDA_CODE_FOUND, ZEST_OK, {0}},
        {12, 1, ZEST_CUDA_CODE_FOUND, ZEST_OK, {0}},
        {7, 5, ZEST_CUDA_CODE_FOUND, ZEST_ERROR_ARGUMENT, {"Some GPU", "too old", "7.5", "--device cpu"}},
        {7, 5, ZEST_CUDA_CODE_MISSING, ZEST_ERROR_ARGUMENT, {"Some GPU", "too old", "7.5", "8.0"}},
        {8,
         6,
         ZEST_CUDA_CODE_MISSING,
         ZEST_ERROR_ARGUMENT,
         {"Some GPU", "8.6", "for sm_90 compute_90", "make CUDA_ARCH=sm_86"}},
        {12,
         0,
         ZEST_CUDA_CODE_NEWER_PTX,
         ZEST_ERROR_ARGUMENT,
         {"Some GPU", "12.0", "driver", "make CUDA_ARCH=sm_120"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_error error = {0};
        zest_status status = zest_cuda_error_gpu("Some GPU", cases[i].major, cases[i].minor, cases[i].code,
                                                 "sm_90 compute_90", &error);
        assert_int_equal(status, cases[i].status);
        for (size_t s = 0; s < 4 && cases[i].says[s]; s++)
            assert_non_null(strstr(error.message, cases[i].says[s]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),    cmocka_unit_test(codes_become_statuses),
        cmocka_unit_test(parts_that_are_missing), cmocka_unit_test(out_of_memory_says_how_much),
        cmocka_unit_test(errors_are_taken_once),  cmocka_unit_test(gpus_without_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
