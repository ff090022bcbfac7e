/* zest_vector_ops in plain C. Each ops_*.c compiles this text for its instruction set, where the compiler
 * vectorizes the loops; fma and the order of the sums are explicit, so the bits are the same. */
#ifndef ZEST_KERNELS_CPU_VECTOR_OPS_H
#define ZEST_KERNELS_CPU_VECTOR_OPS_H

#include <math.h>

#include "kernels/ops.h"
#include "io/tensor.h"

static void fma_f32(float *out, const float *x, float c, const float *v, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = fmaf(c, v[i], x[i]);
}

static void fma_f64(double *out, const double *x, double c, const float *v, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = fma(c, (double)v[i], x[i]);
}

static void scale_f32(float *x, float c, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] *= c;
}

static void scale_f64(double *x, double c, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] *= c;
}

static void load_bf16(float *out, const uint16_t *x, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = zest_dtype_from_bf16(x[i]);
}

static void load_f16(float *out, const uint16_t *x, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = zest_dtype_from_f16(x[i]);
}

/* The magnitude's bits below the last place of bf16 are its fraction of a step: adding random ones carries
 * with that probability. */
static void store_bf16(uint16_t *out, const float *x, const uint16_t *random, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = zest_dtype_float_bits(x[i]), sum = bits + random[i];
        uint32_t finite = (sum & 0x7f800000u) == 0x7f800000u ? (bits & 0x80000000u) | 0x7f7f0000u : sum;
        out[i] = (uint16_t)(((bits & 0x7f800000u) == 0x7f800000u ? bits : finite) >> 16);
    }
}

/* The same, except that below 2^-14 the steps of f16 stay 2^-24: there the float is brought to that step
 * first. */
static uint16_t round_f16(float x, uint32_t random) {
    uint32_t bits = zest_dtype_float_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) return zest_dtype_to_f16(x);
    if (magnitude < 0x38800000) { /* below 2^-14: in steps of 2^-24, with 16 more bits */
        uint32_t steps = (uint32_t)(zest_dtype_bits_float(magnitude) * 0x1p40f);
        return (uint16_t)(sign | (steps + random) >> 16);
    }
    uint32_t half = (magnitude - (112u << 23) + (random >> 3)) >> 13; /* 13 bits are below the last place */
    return (uint16_t)(sign | (half < 0x7bff ? half : 0x7bff));
}

static void store_f16(uint16_t *out, const float *x, const uint16_t *random, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = round_f16(x[i], random[i]);
}

/* The square of a float is exact in fp64, so only the additions round. */
static double square_sum(const float *v, size_t count) {
    double sums[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t j = 0; j < 8; j++) sums[j] += (double)v[i + j] * (double)v[i + j];
    for (size_t j = 0; i + j < count; j++) sums[j] += (double)v[i + j] * (double)v[i + j];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

#define ZEST_VECTOR_OPS(cpu, noise_table)                                                          \
    {                                                                                              \
        cpu, noise_table, fma_f32, fma_f64, scale_f32, scale_f64, load_bf16, load_f16, store_bf16, \
            store_f16, square_sum                                                                  \
    }

#endif
