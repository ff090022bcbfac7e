/* How the CUDA backend computes, from the environment variables ZEST_CUDA_*; docs/cuda.md explains them. Plain C,
 * so that it is tested where there is no GPU. */
#ifndef ZEST_KERNELS_CUDA_SETTINGS_H
#define ZEST_KERNELS_CUDA_SETTINGS_H

#include <stddef.h>

#include "base/error.h"

/* ZEST_CUDA_GEMM, what multiplies: cuBLASLt, the faster one of it and our own kernel, or our own wherever it
 * can. */
typedef enum { ZEST_PRODUCTS_CUBLAS, ZEST_PRODUCTS_FASTEST, ZEST_PRODUCTS_OWN } zest_products;

/* ZEST_CUDA_NORM, norms behind a product: its kernel does them where it can, or their own; late: for tests, the
 * product's kernel never waits for the other parts of a row. */
typedef enum { ZEST_NORMS_TOGETHER, ZEST_NORMS_APART, ZEST_NORMS_LATE } zest_norms;

enum { ZEST_CUDA_SLOTS = 2, ZEST_CUDA_SLOTS_MOST = 4 };

typedef struct {
    size_t limit;   /* ZEST_CUDA_MEMORY, in bytes; 0: all there are */
    int tune;       /* ZEST_CUDA_TUNE: choose among algorithms by their time */
    int split;      /* ZEST_CUDA_F32: fp32 products by bf16 ones */
    unsigned ahead; /* ZEST_CUDA_AHEAD: products whose weights exist at once */
    zest_products products;
    zest_norms norms;
} zest_cuda_settings;

/* Defaults where a variable is not set; an error for a value that is not allowed. */
zest_status zest_cuda_settings_read(zest_cuda_settings *settings, zest_error *error);

#endif
