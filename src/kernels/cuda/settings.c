#include "kernels/cuda/settings.h"
#include "base/environment.h"

#define NAMES(...) \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

zest_status zest_cuda_settings_read(zest_cuda_settings *settings, zest_error *error) {
    const uint64_t most = SIZE_MAX >> 20;
    int products = ZEST_PRODUCTS_FASTEST, norms = ZEST_NORMS_TOGETHER, tune = 1, split = 1;
    uint64_t mebibytes = 0, ahead = ZEST_CUDA_SLOTS;
    zest_status status = ZEST_OK;
    /* names in the order of the enumerations */
    if ((status =
             zest_environment_choice("ZEST_CUDA_GEMM", NAMES("cublas", "auto", "own"), &products, error)) ||
        (status =
             zest_environment_choice("ZEST_CUDA_NORM", NAMES("together", "apart", "late"), &norms, error)) ||
        (status = zest_environment_choice("ZEST_CUDA_TUNE", NAMES("off", "on"), &tune, error)) ||
        (status = zest_environment_choice("ZEST_CUDA_F32", NAMES("plain", "split"), &split, error)) ||
        (status = zest_environment_number("ZEST_CUDA_AHEAD", 1, ZEST_CUDA_SLOTS_MOST, &ahead, error)) ||
        (status = zest_environment_number("ZEST_CUDA_MEMORY", 1, most, &mebibytes, error)))
        return status;
    *settings = (zest_cuda_settings){.limit = (size_t)mebibytes << 20,
                                     .tune = tune,
                                     .split = split,
                                     .ahead = (unsigned)ahead,
                                     .products = (zest_products)products,
                                     .norms = (zest_norms)norms};
    return ZEST_OK;
}

zest_status zest_target_check(const char *gpu, int major, int minor, zest_target target, const char *built,
                              zest_error *error) {
    if (major < 8)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the GPU %s is too old: it has compute capability %d.%d, the kernels need 8.0 or "
            "newer; use --device cpu",
            gpu, major, minor);
    if (target == ZEST_TARGET_NO_CODE)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "this program has no code for the GPU %s of compute capability %d.%d: it was built "
            "for %s; build it again with: make CUDA_ARCH=sm_%d%d",
            gpu, major, minor, built, major, minor);
    if (target == ZEST_TARGET_OLD_DRIVER)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the driver is older than the CUDA that this program was built with (for %s), and "
            "cannot compile it for the GPU %s of compute capability %d.%d; build it again with: "
            "make CUDA_ARCH=sm_%d%d, or update the driver",
            built, gpu, major, minor, major, minor);
    return ZEST_OK;
}
