/* The operations of a backward pass that are not matrix products, as tables of functions. Every table of the CPU
 * equals the plain C one (backward_plain.c, with the derivations) bit for bit: sums run in an order written down
 * there. No result depends on the number of threads.
 *
 * A device's table (cuda/) works in its memory, as kernels/ops.h says: every pointer of a job is one of the
 * device's, activations and their gradients have its dtype (void *), gradients of weights are fp32. Its results
 * agree with the reference within rounding, and repeat bit for bit: sums run in an order that depends on sizes
 * alone.
 *
 * Matrix products use the forward pass's `linear`: see transformer_backward.c. */
#ifndef ZEST_GRAD_BACKWARD_H
#define ZEST_GRAD_BACKWARD_H

#include "kernels/device.h"

/* Dropout: element i is kept when its 16 random bits are at least `threshold`, and multiplied by `scale`. The
 * bits are a function of (key, i) alone, so a mask is never stored. */
typedef struct {
    uint64_t key;
    uint32_t threshold; /* 0: keeps all */
    float scale;        /* 65536/(65536 - threshold) */
} zest_mask;

/* y = norm(x): dx (+)= the gradient of x, d_gain += that of the gain, d_bias += that of the bias. */
typedef struct {
    const void *x, *dy; /* (rows, width) */
    const float *gain;  /* fp32; NULL: ones. A device reads `stored` instead. */
    void *dx;           /* (rows, width); may be dy unless `add` */
    int add;
    float *d_gain, *d_bias; /* NULL: not wanted */
    int rms;
    float epsilon;
    size_t rows, width;
    size_t heads, x_stride, dy_stride, dx_stride; /* as zest_norm has them */
    float gain_offset;                            /* of `stored`; `gain` has it already */
    zest_weight stored;
    zest_perturbation perturbation;
} zest_norm_backward;

/* Vector i of x, dy and dx. */
static inline size_t zest_norm_backward_at(const zest_norm_backward *job, size_t stride, size_t i) {
    return zest_norm_offset(i, job->heads, stride, job->width);
}

/* Gradients of the queries, keys and values of an attention, laid out like these and overwritten. With a mask on
 * its weights: element (row·heads + head)·longest + key. */
typedef struct {
    zest_attention forward; /* without kv_end */
    const void *d_out;      /* laid out like out */
    void *dq, *dk, *dv;
    const zest_mask *mask; /* or NULL; on the host wherever the rest is */
    size_t longest;        /* keys of the longest sequence a model takes */
    size_t keys, rows;     /* devices only: keys of the longest sequence, queries of all of the batch */
} zest_attention_backward;

/* For a list of rows that were read: the readers of each row. Sum i goes to row targets[i] and adds rows
 * sources[s], s from runs[starts[i]] to runs[starts[i + 1]] - 1, in order. */
typedef struct {
    const uint32_t *targets; /* NULL: 0, 1, ... */
    const uint32_t *starts, *runs, *sources;
    size_t count, run_count; /* sums; runs, of at most ZEST_SCATTER_RUN sources */
    int divided;             /* a sum has more than one run */
} zest_scatter_index;
enum { ZEST_SCATTER_RUN = 32 };

/* out[target] = (with add: +=) the sum of its rows of x. */
typedef struct {
    zest_scatter_index index;
    const void *x;
    void *out; /* with add: floats on a device too */
    size_t x_stride, out_stride, width;
    int add;
} zest_scatter_add;

/* Of the logits of label words, features rows': d = d_logits rows, and d_logits' features is added to the words'
 * rows of the head. */
typedef struct {
    const float *d_logits; /* (items, count), fp32 on a device too */
    const void *rows;      /* (count, width): the words' rows of the head, perturbed */
    const void *features;
    void *d; /* (items, width), like features */
    const uint32_t *words;
    float *d_weight, *d_bias; /* of the whole head; NULL: not wanted */
    size_t items, count, width;
} zest_label_words_backward;

/* d[r][w] = weights[r] (p - [w is the target]), p the softmax of a row whose sum is known. */
typedef struct {
    zest_logit_block block;
    const zest_logit_sum *sums;
    const double *weights;
    void *d;
    size_t d_stride;
    float soft_cap; /* the logits are capped: d is that of what the cap took; 0: they are not */
} zest_logits_backward;

typedef struct {
    zest_cpu cpu;
    int (*norm)(const zest_norm_backward *job, int threads, zest_workspace *scratch);
    int (*attention)(const zest_attention_backward *job, int threads, zest_workspace *scratch);
    /* The forward pass of an attention with a mask; writes forward.out and reads no gradient. */
    int (*attention_masked)(const zest_attention_backward *job, int threads, zest_workspace *scratch);
    /* out = act(x), times up where there is one; on the CPU the same bits as the forward pass. */
    void (*activate)(void *out, const void *x, const void *up, size_t count, zest_activation activation,
                     int threads, zest_workspace *scratch);
    /* The gradient of out becomes that of x; with up, that of up goes to d_up. */
    void (*activate_backward)(void *d, void *d_up, const void *x, const void *up, size_t count,
                              zest_activation activation, int threads, zest_workspace *scratch);
    /* out[i] += the sum of column i of x */
    int (*sum_columns)(const void *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                       zest_workspace *scratch);
    /* out = mask x (+ residual, which may be NULL) */
    void (*drop)(void *out, const void *x, const void *residual, size_t count, const zest_mask *mask,
                 int threads, zest_workspace *scratch);
    /* Copies rows (one lane); adds rows up. */
    int (*copy)(const zest_copy_rows *job, int threads, zest_workspace *scratch);
    int (*scatter_add)(const zest_scatter_add *job, int threads, zest_workspace *scratch);
    /* out = -x, floats on a device too */
    void (*negate)(float *out, const float *x, size_t count, int threads, zest_workspace *scratch);
    int (*label_words)(const zest_label_words_backward *job, int threads, zest_workspace *scratch);
    int (*logits)(const zest_logits_backward *job, int threads, zest_workspace *scratch);
} zest_backward;

/* The table that goes with the forward pass's. */
const zest_backward *zest_backward_for(const zest_ops *operations);

extern const zest_backward zest_backward_plain, zest_backward_avx2, zest_backward_avx512, zest_backward_cuda;

/* Rows of a run when columns are summed. Fixed: it decides the rounding of the sums. */
enum { ZEST_BACKWARD_ROWS = 64 };

/* The plain C operations. */

void zest_plain_activate(void *out, const void *x, const void *up, size_t count, zest_activation activation,
                         int threads, zest_workspace *scratch);
void zest_plain_activate_backward(void *d, void *d_up, const void *x, const void *up, size_t count,
                                  zest_activation activation, int threads, zest_workspace *scratch);
void zest_plain_drop(void *out, const void *x, const void *residual, size_t count, const zest_mask *mask,
                     int threads, zest_workspace *scratch);
int zest_plain_copy(const zest_copy_rows *job, int threads, zest_workspace *scratch);
int zest_plain_scatter_add(const zest_scatter_add *job, int threads, zest_workspace *scratch);
void zest_plain_negate(float *out, const float *x, size_t count, int threads, zest_workspace *scratch);
int zest_plain_label_words_backward(const zest_label_words_backward *job, int threads,
                                    zest_workspace *scratch);
int zest_plain_logits_backward(const zest_logits_backward *job, int threads, zest_workspace *scratch);

/* The end of every CPU's table: operations that take little time. */
#define ZEST_PLAIN_ROW_OPS                                                                       \
    zest_plain_copy, zest_plain_scatter_add, zest_plain_negate, zest_plain_label_words_backward, \
        zest_plain_logits_backward

/* Factors of `count` elements from `first` on: 0 or the mask's scale. */
void zest_plain_mask(const zest_noise *noise, const zest_mask *mask, uint64_t first, size_t count,
                     float *out);

#endif
