/* The table of operations. A backend fills it; the plain C one is the definition that every other is tested
 * against. All are element-wise or sum in a fixed order, so results do not depend on the backend. */
#ifndef ZEST_KERNELS_VECTOR_OPS_H
#define ZEST_KERNELS_VECTOR_OPS_H

#include <stddef.h>

#include "rng/noise.h"

typedef struct {
    zest_cpu cpu;
    const zest_noise *noise;
    /* out = fma(c, v, x); out may be x */
    void (*fma_f32)(float *out, const float *x, float c, const float *v, size_t count);
    void (*fma_f64)(double *out, const double *x, double c, const float *v, size_t count);
    /* x = c x */
    void (*scale_f32)(float *x, float c, size_t count);
    void (*scale_f64)(double *x, double c, size_t count);
    /* 16-bit weights to float, and back by stochastic rounding: the 16 random bits of an element decide
     * whether it goes up, with the probability that makes the mean right. A value that needs no rounding is
     * kept as it is; what is beyond the largest finite number becomes that. */
    void (*load_bf16)(float *out, const uint16_t *x, size_t count);
    void (*load_f16)(float *out, const uint16_t *x, size_t count);
    void (*store_bf16)(uint16_t *out, const float *x, const uint16_t *random, size_t count);
    void (*store_f16)(uint16_t *out, const float *x, const uint16_t *random, size_t count);
    /* sum of v_i^2 in fp64: eight running sums, element i in sum i % 8, added up pairwise at the end */
    double (*square_sum)(const float *v, size_t count);
} zest_vector_ops;

const zest_vector_ops *zest_vector_ops_for(zest_cpu cpu);

extern const zest_vector_ops zest_vector_ops_plain, zest_vector_ops_avx2, zest_vector_ops_avx512;

#endif
