#include "kernels/cuda/targets.h"

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
