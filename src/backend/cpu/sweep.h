/* The sweeps over vectors in plain C. Each sweep_*.c compiles this text for its instruction set, where the
 * compiler turns the loops into vector code; fma and the order of the sums are explicit, so the bits are the
 * same. */
#ifndef ZEST_BACKEND_CPU_SWEEP_H
#define ZEST_BACKEND_CPU_SWEEP_H

#include <math.h>

#include "backend/ops.h"

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

/* The square of a float is exact in fp64, so only the additions round. */
static double square_sum(const float *v, size_t count) {
    double sums[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t j = 0; j < 8; j++) sums[j] += (double)v[i + j] * (double)v[i + j];
    for (size_t j = 0; i + j < count; j++) sums[j] += (double)v[i + j] * (double)v[i + j];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

#define ZEST_SWEEP_OPS(level, noise_table) \
    { level, noise_table, fma_f32, fma_f64, scale_f32, scale_f64, square_sum }

#endif
