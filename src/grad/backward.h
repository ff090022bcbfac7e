/* The operations of a backward pass that are no matrix products. What a level's table holds equals the plain
 * C one (the files *_backward.c, each with its derivation) bit for bit: sums run in an order written down
 * there. No result depends on the number of threads.
 *
 * Matrix products go through the forward pass's `linear`: see linear_backward.c. */
#ifndef ZEST_GRAD_BACKWARD_H
#define ZEST_GRAD_BACKWARD_H

#include "backend/forward.h"

/* Dropout: element i is kept when its 16 random bits are at least `threshold`, and multiplied by `scale`. The
 * bits are a function of (key, i) alone, so a mask is never stored. */
typedef struct {
    uint64_t key;
    uint32_t threshold; /* 0: keeps all */
    float scale;        /* 65536/(65536 - threshold) */
} zest_mask;

/* y = norm(x): dx (+)= the gradient by x, d_gain += that by the gain, d_bias += that by the bias. */
typedef struct {
    const float *x, *dy;
    const float *gain; /* as floats; NULL: ones */
    float *dx;         /* may be dy unless `add` */
    int add;
    float *d_gain, *d_bias; /* NULL: not wanted */
    int rms;
    float epsilon;
    size_t rows, width;
} zest_norm_backward;

/* Gradients by the queries, keys and values of an attention, which are laid out like these and written, not
 * added to. With a mask on its weights: element (row·heads + head)·longest + key. */
typedef struct {
    zest_attention forward;
    const float *d_out; /* laid out like out */
    float *dq, *dk, *dv;
    const zest_mask *mask; /* or NULL */
    size_t longest;        /* keys of the longest sequence a model takes */
} zest_attention_backward;

typedef struct {
    zest_cpu cpu;
    int (*norm)(const zest_norm_backward *job, int threads, zest_scratch *scratch);
    int (*attention)(const zest_attention_backward *job, int threads, zest_scratch *scratch);
    /* The forward pass of an attention with a mask; writes forward.out and reads no gradient. */
    int (*attention_masked)(const zest_attention_backward *job, int threads, zest_scratch *scratch);
    /* out = act(x), times up where there is one; the same bits as the forward pass. */
    void (*activate)(float *out, const float *x, const float *up, size_t count, zest_activation activation,
                     int threads);
    /* d by out becomes d by x; with up, d by up goes to d_up. */
    void (*activate_back)(float *d, float *d_up, const float *x, const float *up, size_t count,
                          zest_activation activation, int threads);
    /* out[i] += the sum of column i of x */
    int (*sum_columns)(const float *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                       zest_scratch *scratch);
    /* out = mask x (+ residual, which may be NULL) */
    void (*drop)(float *out, const float *x, const float *residual, size_t count, const zest_mask *mask,
                 int threads);
} zest_backward;

const zest_backward *zest_backward_for(zest_cpu cpu);

extern const zest_backward zest_backward_plain, zest_backward_avx2, zest_backward_avx512;

/* Rows whose columns are summed without interruption. Fixed: it decides the rounding of the sums. */
enum { ZEST_BACKWARD_ROWS = 64 };

#endif
