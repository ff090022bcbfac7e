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
