/* The largest eigenvalues of a symmetric matrix that is only known by what it does to vectors: Lanczos's
 * process with full reorthogonalisation and thick restarts (Wu and Simon's), so that memory stays at
 * `vectors` + 1 vectors however many products are made.
 *
 * "Largest" counts the sign: a negative eigenvalue is never among the top however large its magnitude, unless
 * there is nothing else; the lowest is told separately.
 *
 * One start vector sees one copy of a repeated eigenvalue. So once the wanted ones have settled, as many
 * products again go to another random vector, orthogonal to all that was found, where a further copy shows
 * up; and so on until such a sweep brings nothing new, or the steps are used up. */
#ifndef ZEST_LAB_SHARPNESS_LANCZOS_H
#define ZEST_LAB_SHARPNESS_LANCZOS_H

#include <stddef.h>
#include <stdint.h>

#include "lab/sharpness/vector.h"

/* out = A v; on a device both are in its memory. */
typedef zest_status zest_lanczos_multiply(void *user, const float *v, double *out, zest_error *error);

typedef struct {
    zest_lanczos_multiply *multiply;
    void *user;
    size_t dimension;
    size_t wanted;    /* eigenvalues, at least 1 */
    size_t steps;     /* products at most */
    size_t vectors;   /* basis vectors at most; at least zest_lanczos_least(wanted) or the dimension */
    double tolerance; /* settled: residual below this times the largest |eigenvalue| */
    uint64_t seed;
    const zest_vector_ops *ops;
    int threads;
    zest_device *device; /* whose memory the vectors are in; NULL: the host's */
} zest_lanczos_job;

typedef struct {
    size_t count;   /* what was wanted, or as many as there are steps or dimensions */
    double *values; /* descending */
    double *bounds; /* |A v - value v| as the process knows it; rounding of A's products not counted */
    float *vectors; /* count × dimension: orthonormal eigenvectors, in the device's memory if there is one */
    zest_vector_space space; /* that they live in; a device must outlive them, until they are forgotten */
    double lowest;           /* the smallest eigenvalue seen, a bound from above for the smallest of all */
    double lowest_bound;
    size_t steps, restarts;
    int converged; /* all of them settled */
} zest_lanczos_result;

size_t zest_lanczos_least(size_t wanted); /* vectors that restarts need */
/* Bytes that a job with so many basis vectors takes. */
double zest_lanczos_memory(size_t dimension, size_t vectors);

/* Free the result whatever this says. */
zest_status zest_lanczos_run(const zest_lanczos_job *job, zest_lanczos_result *result, zest_error *error);
/* Frees the vectors alone: the rest of the result is the host's and may outlive a device. */
void zest_lanczos_forget(zest_lanczos_result *result);
void zest_lanczos_free(zest_lanczos_result *result);

/* Eigenvalues of small symmetric matrices: what a Krylov method leaves to be solved. */

/* a: n × n, symmetric, overwritten. values: descending. vectors: n × n, eigenvector k in column k (element i
 * at vectors[i·n + k]), orthonormal. By Jacobi's rotations, which need no tridiagonal form (a restarted
 * Lanczos process has none) and are as exact as the matrix allows. Returns 0 when a number is not finite. */
int zest_lanczos_solve_small(double *a, size_t n, double *values, double *vectors);

#endif
