/* The operations of a backward pass that are no matrix products. What a level's table holds equals the plain
 * C one (the files *_backward.c, each with its derivation) bit for bit: sums run in an order written down
 * there. No result depends on the number of threads.
 *
 * A device's table (cuda/) works in its memory, as forward.h says: every pointer of a job is one of the
 * device's, activations and their gradients are `cell` bytes wide, gradients of weights are floats. Its
 * results agree with the definition within rounding, and repeat bit for bit: sums run in an order that
 * depends on sizes alone.
 *
 * Matrix products go through the forward pass's `linear`: see transformer_backward.c. */
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

/* y = norm(x): dx (+)= the gradient by x, d_gain += that by the gain, d_bias += that by the bias. */
typedef struct {
    const void *x, *dy; /* (rows, width) */
    const float *gain;  /* as floats; NULL: ones. A device makes them out of `stored` by itself. */
    void *dx;           /* (rows, width); may be dy unless `add` */
    int add;
    float *d_gain, *d_bias; /* NULL: not wanted */
    int rms;
    float epsilon;
    size_t rows, width;
    zest_weight stored;
    zest_perturbation perturbation;
} zest_norm_backward;

/* Gradients by the queries, keys and values of an attention, which are laid out like these and written, not
 * added to. With a mask on its weights: element (row·heads + head)·longest + key. */
typedef struct {
    zest_attention forward; /* without kv_end */
    const void *d_out;      /* laid out like out */
    void *dq, *dk, *dv;
    const zest_mask *mask; /* or NULL; on the host wherever the rest is */
    size_t longest;        /* keys of the longest sequence a model takes */
    size_t keys, rows;     /* devices only: keys of the longest sequence, queries of all of the batch */
} zest_attention_backward;

/* The other way round of a list of rows that were read: who read a row. Sum i goes to row targets[i] and adds
 * rows sources[s], s from runs[starts[i]] to runs[starts[i + 1]] - 1, in order. */
typedef struct {
    const uint32_t *targets; /* NULL: 0, 1, ... */
    const uint32_t *starts, *runs, *sources;
    size_t count, run_count; /* sums; runs, of at most ZEST_INDEX_RUN sources */
    int divided;             /* some sum has more than one run */
} zest_index;
enum { ZEST_INDEX_RUN = 32 };

/* out[target] = (with add: +=) the sum of its rows of x. */
typedef struct {
    zest_index index;
    const void *x;
    void *out; /* with add: floats on a device too */
    size_t x_stride, out_stride, width;
    int add;
} zest_collect;

/* logits = features rows': d = by rows, and by' features is added where the words' rows lie in the head. */
typedef struct {
    const float *by;  /* items × count: the gradient by the logits; floats on a device too */
    const void *rows; /* count × width: the head's, at the place */
    const void *features;
    void *d; /* like features: items × width */
    const uint32_t *words;
    float *d_weight, *d_bias; /* of the whole head; NULL: not wanted */
    size_t items, count, width;
} zest_words_backward;

/* d[r][w] = weights[r] (p - [w is the target]), p the softmax of a row whose sum is known. */
typedef struct {
    zest_logit_block block;
    const zest_logit_sum *sums;
    const double *weights;
    void *d;
    size_t d_stride;
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
    /* d by out becomes d by x; with up, d by up goes to d_up. */
    void (*activate_back)(void *d, void *d_up, const void *x, const void *up, size_t count,
                          zest_activation activation, int threads, zest_workspace *scratch);
    /* out[i] += the sum of column i of x */
    int (*sum_columns)(const void *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                       zest_workspace *scratch);
    /* out = mask x (+ residual, which may be NULL) */
    void (*drop)(void *out, const void *x, const void *residual, size_t count, const zest_mask *mask,
                 int threads, zest_workspace *scratch);
    /* Rows that are moved (one lane), and rows that are added up. */
    int (*copy)(const zest_copy_rows *job, int threads, zest_workspace *scratch);
    int (*collect)(const zest_collect *job, int threads, zest_workspace *scratch);
    /* out = -x, floats on a device too */
    void (*negate)(float *out, const float *x, size_t count, int threads, zest_workspace *scratch);
    int (*words)(const zest_words_backward *job, int threads, zest_workspace *scratch);
    int (*logits)(const zest_logits_backward *job, int threads, zest_workspace *scratch);
} zest_backward;

/* The table that goes with the forward pass's. */
const zest_backward *zest_backward_for(const zest_ops *operations);

extern const zest_backward zest_backward_plain, zest_backward_avx2, zest_backward_avx512, zest_backward_cuda;

/* Rows whose columns are summed without interruption. Fixed: it decides the rounding of the sums. */
enum { ZEST_BACKWARD_ROWS = 64 };

/* The plain C operations, one file each, for backward_plain.c to put into a table. */

int zest_plain_norm_backward(const zest_norm_backward *job, int threads, zest_workspace *scratch);
int zest_plain_attention_backward(const zest_attention_backward *job, int threads, zest_workspace *scratch);
int zest_plain_attention_masked(const zest_attention_backward *job, int threads, zest_workspace *scratch);
void zest_plain_activate(void *out, const void *x, const void *up, size_t count, zest_activation activation,
                         int threads, zest_workspace *scratch);
void zest_plain_activate_backward(void *d, void *d_up, const void *x, const void *up, size_t count,
                                  zest_activation activation, int threads, zest_workspace *scratch);
int zest_plain_sum_columns(const void *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                           zest_workspace *scratch);
void zest_plain_drop(void *out, const void *x, const void *residual, size_t count, const zest_mask *mask,
                     int threads, zest_workspace *scratch);
int zest_plain_copy(const zest_copy_rows *job, int threads, zest_workspace *scratch);
int zest_plain_collect(const zest_collect *job, int threads, zest_workspace *scratch);
void zest_plain_negate(float *out, const float *x, size_t count, int threads, zest_workspace *scratch);
int zest_plain_words_backward(const zest_words_backward *job, int threads, zest_workspace *scratch);
int zest_plain_logits_backward(const zest_logits_backward *job, int threads, zest_workspace *scratch);

/* The end of every level's table: operations that are no work beside the others. */
#define ZEST_PLAIN_OF_ROWS                                                             \
    zest_plain_copy, zest_plain_collect, zest_plain_negate, zest_plain_words_backward, \
        zest_plain_logits_backward

/* Factors of `count` elements from `first` on: 0 or the mask's scale. */
void zest_plain_mask(const zest_noise *noise, const zest_mask *mask, uint64_t first, size_t count,
                     float *out);

#endif
