/* How the CUDA backend computes, from the environment variables ZEST_CUDA_* (base/environment.c). Plain C, so
 * that it is tested where there is no GPU. */
#ifndef ZEST_KERNELS_CUDA_SETTINGS_H
#define ZEST_KERNELS_CUDA_SETTINGS_H

#include <stddef.h>

#include "base/error.h"

/* ZEST_CUDA_GEMM: cuBLASLt or our kernel as the sizes say, cuBLASLt, or our kernel wherever it can. */
typedef enum { ZEST_CUDA_GEMM_AUTO, ZEST_CUDA_GEMM_CUBLAS, ZEST_CUDA_GEMM_SM90 } zest_cuda_gemm_backend;

/* ZEST_CUDA_NORM, layer norm after a GEMM: in our kernel's epilogue where it can, in a kernel of its own, or,
 * for tests, in the fallback kernel, because blocks never wait for the statistics of the others. */
typedef enum { ZEST_CUDA_NORM_FUSED, ZEST_CUDA_NORM_SEPARATE, ZEST_CUDA_NORM_FALLBACK } zest_cuda_norm_mode;

typedef struct {
    size_t memory_limit; /* ZEST_CUDA_MEMORY, in bytes; 0: none */
    int autotune;  /* ZEST_CUDA_TUNE: time GEMM algorithms and take the fastest; results do not repeat */
    int split_f32; /* ZEST_CUDA_F32: fp32 GEMMs by bf16 products */
    zest_cuda_gemm_backend gemm;
    zest_cuda_norm_mode norm;
} zest_cuda_settings;

/* Defaults where a variable is not set; an error for a value that is not allowed. */
zest_status zest_cuda_settings_read(zest_cuda_settings *settings, zest_error *error);

#endif
