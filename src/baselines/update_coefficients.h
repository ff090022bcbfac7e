/* The moves as numbers: what optimizers.c makes of the options and the step, once, for all elements.
 * Read by cc and nvcc alike. */
#ifndef ZEST_BASELINES_UPDATE_COEFFICIENTS_H
#define ZEST_BASELINES_UPDATE_COEFFICIENTS_H

#include <math.h>

#include "rng/philox.h" /* ZEST_DEVICE */

/* Without momentum x = keep x + slope g; with it m = momentum m + factor g + decay x, x = x + back m. */
typedef struct {
    float keep, slope;
    float momentum, factor, decay, back; /* back: -lr */
} zest_sgd_numbers;

typedef struct {
    float factor, b1, b2, rest1, rest2; /* rest: 1 - b */
    float keep, rate, root, epsilon;    /* 1 - lr decay, lr/(1 - b1^n), 1/sqrt(1 - b2^n) */
} zest_adamw_numbers;

/* One element of adamw's move. No product may be contracted with a sum: see the compilers' flags. */
ZEST_DEVICE void zest_adamw_one(const zest_adamw_numbers *c, float g, float *m, float *v, float *x) {
    float d = c->factor * g;
    *m = c->b1 * *m + c->rest1 * d;
    *v = c->b2 * *v + c->rest2 * (d * d);
    *x = c->keep * *x - c->rate * (*m / (sqrtf(*v) * c->root + c->epsilon));
}

#endif
