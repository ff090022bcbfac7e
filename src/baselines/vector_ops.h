/* The moves as numbers: what optimizer.c makes of the options and the step, once, for all elements.
 * Read by cc and nvcc alike. */
#ifndef ZEST_BASELINES_VECTOR_OPS_H
#define ZEST_BASELINES_VECTOR_OPS_H

#include <math.h>

#include "rng/philox.h"
#include "kernels/device.h"
#include "grad/grad.h"

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

/* The sweeps of the methods over all numbers, as a table: one for the host's memory, one for a GPU's. Both
 * give the same bits: elements are treated alike whoever treats them, and sums run in fp64 over blocks of
 * fixed size, in a fixed order. */

typedef struct zest_sweeps_table zest_sweeps_table;

/* Where the numbers are. */
typedef struct {
    const zest_sweeps_table *table;
    zest_params params; /* the weights, in that memory */
    const zest_vector_ops *ops;
    int threads;
    zest_device *device;    /* NULL: the host's memory */
    void *tensors;          /* on a device: the list of them there */
    double *sums;           /* and room for sums, of blocks and of slices */
    unsigned blocks, turns; /* and how a sweep over all weights is launched */
} zest_optim_vectors;

enum { ZEST_SWEEPS_BLOCK = 65536 }; /* numbers that one sum of squares is over */

/* How the weights move: 16-bit ones are rounded in the end. */
typedef struct {
    const float *gradient;
    float *first, *second; /* momentum or NULL; the two moments */
    uint64_t rounding;     /* seed */
    int nearest;
} zest_sweeps_move;

/* Arrays are of as many floats as there are numbers. 0: done, or queued on a device, whose `error` else
 * says what was wrong. */
struct zest_sweeps_table {
    int (*clear)(const zest_optim_vectors *s, float *x);
    int (*scale)(const zest_optim_vectors *s, float *x, float c);
    /* sums: of the squares of each block, in the host's memory */
    int (*squares)(const zest_optim_vectors *s, const float *x, double *sums);
    /* A direction on the sphere, as zest_direction_make makes it. */
    int (*sphere)(const zest_optim_vectors *s, uint64_t seed, zest_direction *direction);
    /* point = what the weights are at `from`, which is no point itself, + c point */
    int (*uphill)(const zest_optim_vectors *s, const zest_eval_point *from, float c, float *point);
    int (*sgd)(const zest_optim_vectors *s, const zest_sweeps_move *move, const zest_sgd_numbers *numbers);
    int (*adamw)(const zest_optim_vectors *s, const zest_sweeps_move *move,
                 const zest_adamw_numbers *numbers);
};

/* params: in the device's memory if there is one, kept by reference. Close it whatever this says. */
zest_status zest_optim_vectors_open(zest_optim_vectors *s, const zest_params *params,
                                    const zest_vector_ops *ops, int threads, zest_device *device,
                                    zest_error *error);
void zest_optim_vectors_close(zest_optim_vectors *s);

/* Memory for `count` floats there; NULL: there is none. */
float *zest_optim_vectors_new(const zest_optim_vectors *s, size_t count);
void zest_optim_vectors_free(const zest_optim_vectors *s, float *x);
/* The status of what a sweep returned. */
zest_status zest_optim_vectors_done(const zest_optim_vectors *s, int failed, zest_error *error);

/* vector_ops.c */
extern const zest_sweeps_table zest_sweeps_host;
/* baselines/cuda/vector_ops.cu */
extern const zest_sweeps_table zest_sweeps_cuda;
int zest_optim_vectors_cuda_open(zest_optim_vectors *s); /* fills in what a device needs */

#endif
