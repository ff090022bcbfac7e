/* The loss on a line or in a plane through x. */
#ifndef ZEST_ANALYSIS_SLICE_H
#define ZEST_ANALYSIS_SLICE_H

#include <stddef.h>

#include "base/error.h"

/* The loss at x + a p + b q; who answers knows p and q. */
typedef zest_status zest_slice_loss(void *user, double a, double b, double *loss, zest_error *error);

typedef struct {
    int dimensions; /* 1: b stays 0; 2 */
    size_t points;  /* along each, from 3; odd, so that x itself is one of them */
    double span;    /* from -span to span */
    double *places; /* the coefficients */
    double *values; /* points, or points × points with a along a row */
} zest_slice;

/* Free it whatever this says. */
zest_status zest_slice_measure(zest_slice *slice, zest_slice_loss *loss, void *user, zest_error *error);
void zest_slice_free(zest_slice *slice);

#endif
