/* The vector operations of the kernels for a "vector" of one float: what the others must equal element by
 * element. */
#ifndef ZEST_KERNELS_CPU_SIMD_PLAIN_H
#define ZEST_KERNELS_CPU_SIMD_PLAIN_H

#include <math.h>

#include "io/tensor.h"

typedef float vec;

static inline vec v_set(float x) { return x; }
static inline vec v_add(vec a, vec b) { return a + b; }
static inline vec v_sub(vec a, vec b) { return a - b; }
static inline vec v_mul(vec a, vec b) { return a * b; }
static inline vec v_div(vec a, vec b) { return a / b; }
static inline vec v_fma(vec a, vec b, vec c) { return fmaf(a, b, c); }
/* As the instructions define them: the second operand when one is NaN. So a NaN passes when it stands second. */
static inline vec v_min(vec a, vec b) { return a < b ? a : b; }
static inline vec v_max(vec a, vec b) { return a > b ? a : b; }
static inline vec v_abs(vec a) { return fabsf(a); }
/* 2^n from the float n + 1.5·2^23, whose lowest bits are n; -126 <= n <= 127. */
static inline vec v_power(vec shifted) {
    return zest_dtype_bits_float((zest_dtype_float_bits(shifted) + 127) << 23);
}

#endif
