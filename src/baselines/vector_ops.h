/* Loops over all weights for the first-order optimizers, on the host and on a GPU. Included by C and by CUDA code.
 *
 * First the coefficients of an update, which optimizer.c computes once a step from the options. */
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
} zest_sgd_coefficients;

typedef struct {
    float factor, b1, b2, rest1, rest2; /* rest: 1 - b */
    float keep, rate, root, epsilon;    /* 1 - lr decay, lr/(1 - b1^n), 1/sqrt(1 - b2^n) */
} zest_adamw_coefficients;

/* AdamW on one element. No product may be fused with a sum: see the compilers' flags. */
ZEST_DEVICE void zest_adamw_element(const zest_adamw_coefficients *c, float g, float *m, float *v, float *x) {
    float d = c->factor * g;
    *m = c->b1 * *m + c->rest1 * d;
    *v = c->b2 * *v + c->rest2 * (d * d);
    *x = c->keep * *x - c->rate * (*m / (sqrtf(*v) * c->root + c->epsilon));
}

/* The loops, as a table of functions: one for host memory, one for a GPU's. Both give the same bits: element-wise
 * operations are the same IEEE operations, and sums run in fp64 over blocks of fixed size, in a fixed order. */

typedef struct zest_optim_vector_ops zest_optim_vector_ops;

/* The weights, and where they are. */
typedef struct {
    const zest_optim_vector_ops *functions;
    zest_params params; /* the weights, in that memory */
    const zest_vector_ops *ops;
    int threads;
    zest_device *device;               /* NULL: host memory */
    void *tensors;                     /* on a device: the list of tensors */
    double *sums;                      /* on a device: workspace for sums of blocks and slices */
    unsigned blocks, chunks_per_block; /* on a device: the launch of a loop over all weights */
} zest_optim_vectors;

enum { ZEST_OPTIM_BLOCK = 65536 }; /* elements in one sum of squares */

/* The arrays of an update. 16-bit weights are rounded at the end. */
typedef struct {
    const float *gradient;
    float *first, *second; /* momentum or NULL; the two moments */
    uint64_t rounding;     /* seed */
    int nearest;
} zest_optim_update;

/* Arrays have d floats, one for each trained weight. Functions return 0 when done, or queued on a device; otherwise
 * the device's `error` says what failed. */
struct zest_optim_vector_ops {
    int (*zero)(const zest_optim_vectors *s, float *x);
    int (*scale)(const zest_optim_vectors *s, float *x, float c);
    /* sums: (blocks) sums of squares, in host memory */
    int (*square_sums)(const zest_optim_vectors *s, const float *x, double *sums);
    /* A direction on the sphere, as zest_direction_make makes it. */
    int (*draw_sphere)(const zest_optim_vectors *s, uint64_t seed, zest_direction *direction);
    /* point = what the weights are at `from`, which is no point itself, + c point */
    int (*ascend)(const zest_optim_vectors *s, const zest_eval_point *from, float c, float *point);
    int (*sgd)(const zest_optim_vectors *s, const zest_optim_update *update,
               const zest_sgd_coefficients *coefficients);
    int (*adamw)(const zest_optim_vectors *s, const zest_optim_update *update,
                 const zest_adamw_coefficients *coefficients);
};

/* params: in the device's memory if there is one, kept by reference. Close it whatever this returns. */
zest_status zest_optim_vectors_open(zest_optim_vectors *s, const zest_params *params,
                                    const zest_vector_ops *ops, int threads, zest_device *device,
                                    zest_error *error);
void zest_optim_vectors_close(zest_optim_vectors *s);

/* Memory for `count` floats where the weights are; NULL: out of memory. */
float *zest_optim_vectors_new(const zest_optim_vectors *s, size_t count);
void zest_optim_vectors_free(const zest_optim_vectors *s, float *x);
/* The status of what one of the functions returned. */
zest_status zest_optim_vectors_done(const zest_optim_vectors *s, int failed, zest_error *error);

/* In vector_ops.c and cuda/vector_ops.cu. */
extern const zest_optim_vector_ops zest_optim_vector_ops_host;
extern const zest_optim_vector_ops zest_optim_vector_ops_cuda;
int zest_optim_vectors_cuda_open(zest_optim_vectors *s); /* fills in what a device needs */

#endif
