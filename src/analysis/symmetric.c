#include "analysis/symmetric.h"

#include <math.h>

enum { SWEEPS = 60 }; /* seven or eight are usual */

/* Rotates rows and columns p and q such that a_pq vanishes. */
static void rotate(double *a, double *v, size_t n, size_t p, size_t q) {
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double t = copysign(1, theta) / (fabs(theta) + hypot(1, theta)), c = 1 / hypot(1, t), s = t * c;
    for (size_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
    for (size_t i = 0; i < n; i++) {
        double x = a[p * n + i], y = a[q * n + i];
        a[p * n + i] = c * x - s * y;
        a[q * n + i] = s * x + c * y;
        x = v[i * n + p], y = v[i * n + q];
        v[i * n + p] = c * x - s * y;
        v[i * n + q] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

/* One visit to every pair; how many were rotated. An element that is lost beside both diagonals counts as 0.
 */
static size_t sweep(double *a, double *v, size_t n) {
    size_t rotated = 0;
    for (size_t p = 0; p + 1 < n; p++)
        for (size_t q = p + 1; q < n; q++) {
            double small = 1e-17 * sqrt(fabs(a[p * n + p]) * fabs(a[q * n + q]));
            if (fabs(a[p * n + q]) <= small || fabs(a[p * n + q]) < 1e-300) continue;
            rotate(a, v, n, p, q);
            rotated++;
        }
    return rotated;
}

static void swap_columns(double *values, double *v, size_t n, size_t p, size_t q) {
    double x = values[p];
    values[p] = values[q], values[q] = x;
    for (size_t i = 0; i < n; i++) x = v[i * n + p], v[i * n + p] = v[i * n + q], v[i * n + q] = x;
}

int zest_symmetric_solve(double *a, size_t n, double *values, double *vectors) {
    for (size_t i = 0; i < n * n; i++) {
        if (!isfinite(a[i])) return 0;
        vectors[i] = i / n == i % n;
    }
    for (int i = 0; i < SWEEPS && sweep(a, vectors, n); i++) continue;
    for (size_t i = 0; i < n; i++) values[i] = a[i * n + i];
    for (size_t p = 0; p < n; p++) {
        size_t best = p;
        for (size_t q = p + 1; q < n; q++)
            if (values[q] > values[best]) best = q;
        if (best != p) swap_columns(values, vectors, n, p, best);
    }
    return 1;
}
