/* What a person is told when CUDA or cuBLASLt fails, or when the GPU cannot run this program. Plain C that
 * works on the names of error codes, so that it is tested where there is no GPU. */
#ifndef ZEST_KERNELS_CUDA_ERRORS_H
#define ZEST_KERNELS_CUDA_ERRORS_H

#include "base/error.h"

typedef struct {
    const char *name;  /* "cudaErrorIllegalAddress", "CUBLAS_STATUS_ALLOC_FAILED" */
    const char *text;  /* what the library says about it; NULL: nothing */
    const char *doing; /* what was being done: "computing attention" */
    const char *gpu;   /* the GPU's name; NULL or empty: not known yet */
} zest_cuda_failure;

/* Sets and returns ZEST_ERROR_MEMORY where the code says that memory ran out, else ZEST_ERROR_DEVICE. The
 * message has the code's name, what was being done, and what to do about it. */
zest_status zest_cuda_error_set(zest_error *error, const zest_cuda_failure *failure);

/* An allocation of GPU memory that failed. limit: ZEST_CUDA_MEMORY in bytes, 0: none. */
zest_status zest_cuda_error_memory(zest_error *error, size_t wanted, size_t free_bytes, size_t total,
                                   size_t allocated, size_t limit);

/* Whether the program has code for a GPU. */
typedef enum {
    ZEST_CUDA_CODE_FOUND,
    ZEST_CUDA_CODE_MISSING,   /* neither machine code nor PTX that the driver could compile */
    ZEST_CUDA_CODE_NEWER_PTX, /* there is PTX, of a version that the driver does not know */
} zest_cuda_code;

/* ZEST_OK when the GPU can be used: compute capability 8.0 or newer, and code for it.
 * built_for: the CUDA_ARCH of the build, "sm_80 sm_90 compute_90". */
zest_status zest_cuda_error_gpu(const char *gpu, int major, int minor, zest_cuda_code code,
                                const char *built_for, zest_error *error);

#endif
