/* What the tests of the forward pass share: random operands, comparison, levels to run over,
 * and what is right, in fp64. */
#ifndef ZEST_TESTS_OPS_SUPPORT_H
#define ZEST_TESTS_OPS_SUPPORT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

#include "kernels/ops.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define GUARD 123.5f /* what no operation may overwrite */

/* The instruction sets of this machine, plain C included: 0 .. cpu_count()-1. */
static inline int cpu_count(void) {
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    return (int)cpu + 1;
}

/* Exactly `count` floats, all GUARD, so that the sanitizer sees a read or write beyond. */
static inline float *guarded(size_t count) {
    float *x = malloc(count ? count * sizeof *x : 1);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) x[i] = GUARD;
    return x;
}

static inline float *normals(size_t count, uint64_t seed, float scale) {
    float *x = guarded(count);
    zest_noise_plain.normal(x, seed, 0, count);
    for (size_t i = 0; i < count; i++) x[i] *= scale;
    return x;
}

static inline zest_weight weight(zest_dtype dtype, size_t rows, size_t columns, uint64_t seed, float scale,
                                 uint64_t first) {
    float *x = normals(rows * columns, seed, scale);
    void *stored = malloc(rows * columns * zest_dtype_size(dtype));
    assert_non_null(stored);
    assert_int_equal(zest_dtype_from_float(dtype, x, rows * columns, stored), 0);
    free(x);
    return (zest_weight){stored, dtype, rows, columns, first, 0, {0}, 0};
}

static inline void release(zest_weight *w) { free((void *)(uintptr_t)w->data); }

/* Largest difference, in units of scale; NaN counts as infinite. Tolerance 0 asks for the same bits. */
static inline void same(const float *got, const float *expected, size_t count, double tolerance,
                        const char *what) {
    if (tolerance == 0 && count && memcmp(got, expected, count * sizeof *got) == 0) return;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)got[i] - (double)expected[i]);
        int bad = tolerance == 0 ? memcmp(&got[i], &expected[i], sizeof *got) != 0 : !(d <= tolerance);
        if (bad)
            fail_msg("%s: element %zu is %.9g, should be %.9g (tolerance %g)", what, i, got[i], expected[i],
                     tolerance);
    }
}

/* ---- In fp64 ---- */

static inline double activated(double x, zest_activation activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return x > 0 ? x : 0;
    case ZEST_ACT_GELU: return 0.5 * x * erfc(-x / sqrt(2.0));
    case ZEST_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case ZEST_ACT_SILU: return x / (1 + exp(-x));
    default: return x;
    }
}

/* An element of a weight as a lane sees it. */
static inline double moved(const zest_weight *w, const zest_perturbation *p, int lane, size_t i) {
    float x, z;
    assert_int_equal(
        zest_dtype_to_float(w->dtype, (const char *)w->data + i * zest_dtype_size(w->dtype), 1, &x), 0);
    (p->signs ? zest_noise_plain.sign : zest_noise_plain.normal)(&z, p->seed, w->first + i, 1);
    return x + (w->frozen ? 0 : (double)p->scale[lane] * z);
}

#endif
