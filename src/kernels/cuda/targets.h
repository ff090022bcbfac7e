/* Which GPUs the program has code for, and what a person with another one is told. Plain C, so that it is tested
 * where there is no GPU. */
#ifndef ZEST_KERNELS_CUDA_TARGETS_H
#define ZEST_KERNELS_CUDA_TARGETS_H

#include "base/error.h"

typedef enum {
    ZEST_TARGET_READY,
    ZEST_TARGET_NO_CODE,   /* neither machine code nor PTX that it could be compiled from */
    ZEST_TARGET_OLD_DRIVER /* there is PTX, of a version that the driver does not know */
} zest_target;

/* OK when the GPU can be used. The instructions that the kernels use begin with compute capability 8.0.
 * built: what the program was built for, "sm_80 sm_90 compute_90". */
zest_status zest_target_check(const char *gpu, int major, int minor, zest_target target, const char *built,
                              zest_error *error);

#endif
