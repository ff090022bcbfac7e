/* Eigenvalues of small symmetric matrices: what a Krylov method leaves to be solved. */
#ifndef ZEST_ANALYSIS_SYMMETRIC_H
#define ZEST_ANALYSIS_SYMMETRIC_H

#include <stddef.h>

/* a: n × n, symmetric, overwritten. values: descending. vectors: n × n, eigenvector k in column k (element i
 * at vectors[i·n + k]), orthonormal. By Jacobi's rotations, which need no tridiagonal form (a restarted
 * Lanczos process has none) and are as exact as the matrix allows. Returns 0 when a number is not finite. */
int zest_symmetric_solve(double *a, size_t n, double *values, double *vectors);

#endif
