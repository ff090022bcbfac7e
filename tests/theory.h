/* Shared by the tests of the theory. */
#ifndef ZEST_TESTS_THEORY_H
#define ZEST_TESTS_THEORY_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "zest_theory.h"

#define PI 3.14159265358979323846

static zest_ctx *ctx;

static inline int open_context(void **state) {
    (void)state;
    ctx = zest_ctx_new();
    return ctx ? 0 : -1;
}

static inline int close_context(void **state) {
    (void)state;
    zest_ctx_free(ctx);
    return 0;
}

static inline void check_close(double got, double wanted, double tolerance, const char *what, int line) {
    if (fabs(got - wanted) <= tolerance) return;
    print_error("line %d: %s is %.17g, not %.17g (off by %.3g, allowed %.3g)\n", line, what, got, wanted,
                got - wanted, tolerance);
    fail();
}
#define assert_close(got, wanted, tolerance) check_close(got, wanted, tolerance, #got, __LINE__)
#define assert_relative(got, wanted, tolerance) \
    check_close(got, wanted, (tolerance)*fabs((double)(wanted)), #got, __LINE__)

static inline double gaussian(const zest_landscape *l, double t, double *phi) {
    double value;
    assert_int_equal(zest_theory_gaussian(ctx, l, t, &value, phi), ZEST_OK);
    return value;
}

static inline double ball(const zest_landscape *l, double t, double *phi) {
    zest_sharpness sharpness;
    assert_int_equal(zest_theory_ball(ctx, l, t, &sharpness, phi), ZEST_OK);
    assert_true(sharpness.error >= 0 && sharpness.error <= 1e-12 * (fabs(sharpness.value) + 1 / (t + 1)));
    return sharpness.value;
}

static inline zest_worst worst(const zest_landscape *l, double *u, double *phi) {
    zest_worst result;
    assert_int_equal(zest_theory_worst(ctx, l, &result, u, phi), ZEST_OK);
    return result;
}

/* X at u, the quadratic model that everything here is about. */
static inline double model(const zest_landscape *l, const double *u) {
    double sum = 0;
    for (size_t i = 0; i < l->count; i++)
        sum += l->rho * l->gradient[i] * u[i] + l->rho * l->rho / 2 * l->eigenvalues[i] * u[i] * u[i];
    return sum;
}

/* Composite Simpson, with f taken from a pointer and a shape. */
typedef double integrand(const zest_landscape *l, double t, double u);
static inline double simpson(integrand *f, const zest_landscape *l, double t, double low, double high,
                             int n) {
    double h = (high - low) / n, sum = f(l, t, low) + f(l, t, high);
    for (int j = 1; j < n; j++) sum += (j % 2 ? 4 : 2) * f(l, t, low + j * h);
    return sum * h / 3;
}

#endif
