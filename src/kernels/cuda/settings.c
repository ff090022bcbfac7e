/* The settings of the CUDA backend, from the table of environment variables. */
#include "kernels/cuda/settings.h"

#include "base/environment.h"

zest_status zest_cuda_settings_read(zest_cuda_settings *settings, zest_error *error) {
    const uint64_t most = SIZE_MAX >> 20;
    /* choices count in the order of the table's words, which is that of the enumerations */
    int gemm = ZEST_CUDA_GEMM_AUTO, norm = ZEST_CUDA_NORM_FUSED, tune = 0, fp32 = 0;
    uint64_t mebibytes = 0;
    zest_status status = ZEST_OK;
    if ((status = zest_environment_choice(ZEST_ENVIRONMENT_CUDA_GEMM, &gemm, error)) ||
        (status = zest_environment_choice(ZEST_ENVIRONMENT_CUDA_NORM, &norm, error)) ||
        (status = zest_environment_choice(ZEST_ENVIRONMENT_CUDA_TUNE, &tune, error)) ||
        (status = zest_environment_choice(ZEST_ENVIRONMENT_CUDA_F32, &fp32, error)) ||
        (status = zest_environment_number(ZEST_ENVIRONMENT_CUDA_MEMORY, 1, most, &mebibytes, error)))
        return status;
    *settings = (zest_cuda_settings){.memory_limit = (size_t)mebibytes << 20,
                                     .autotune = tune,
                                     .split_f32 = !fp32,
                                     .gemm = (zest_cuda_gemm_backend)gemm,
                                     .norm = (zest_cuda_norm_mode)norm};
    return ZEST_OK;
}
