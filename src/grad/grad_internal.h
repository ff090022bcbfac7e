/* What the files of the backward pass share: grad.c (one gradient from start to end), saved_activations.c (the
 * forward pass with activations saved), loss_backward.c and transformer_backward.c.
 *
 * One set of passes serves the CPU and devices: whatever reads activations or gradients is an operation of one
 * of the two tables (kernels/ops.h, backward.h), and steps between activations are counted in elements
 * (zest_model_offset). The weights are those at an evaluation point: grad->view. */
#ifndef ZEST_GRAD_GRAD_INTERNAL_H
#define ZEST_GRAD_GRAD_INTERNAL_H

#include "grad/grad.h"
#include "model/forward_pass.h"
#include "model/loss.h"

/* Lists of rows that were read, each turned into a scatter index. */
typedef enum {
    ZEST_GRAD_OUT_ROWS, /* rows, read by the last layer after its attention */
    ZEST_GRAD_KEYS,     /* rows, read by the copies of their keys for shared prefixes */
    ZEST_GRAD_POSITIONS,
    ZEST_GRAD_TYPES,
    ZEST_GRAD_TOKENS,
    ZEST_GRAD_LISTS
} zest_grad_list;

struct zest_grad {
    const zest_model *model;
    zest_model view; /* the model with its weights at the evaluation point */
    zest_model_runner *runner;
    const zest_backward *backward;
    int recompute;

    zest_model_buffer saved;      /* (layers, tokens, saved_width): activations; one layer with `recompute` */
    zest_model_buffer inputs;     /* (layers, tokens, hidden), with `recompute`: x of every layer */
    zest_model_buffer head_saved; /* (5, out_rows, hidden): activations after the layers */
    zest_model_buffer d_stream;   /* (3, tokens, hidden): gradients of the residual stream */
    zest_model_buffer layer_work; /* (tokens, ...): gradients within a layer */
    zest_model_buffer norm_out;   /* (tokens, hidden): outputs of norms, computed again */
    zest_model_buffer small_work; /* gains, label words, gradients of a block of logits */
    zest_model_buffer negated_sines[2]; /* (positions, head_dim/2), fp32: the rotation back */
    size_t angles[2];                   /* positions that these tables reach */
    uint32_t *lists[ZEST_GRAD_LISTS], *key_sources;
    size_t list_counts[ZEST_GRAD_LISTS], key_count;
    zest_logit_sum *sums; /* of output rows, on the host */
    double *scores;       /* of label words or items */
    double *weights;      /* of output rows: dlogits = weight (p - [target]) */
    float *d_logits;      /* (items, label words) */
    size_t sums_count, scores_count;
};

/* One gradient. */
typedef struct {
    zest_grad *grad;
    const zest_grad_job *job;
    zest_error *error;
    zest_forward_request request;
    zest_forward_pass forward;
    zest_lane_group lane;  /* the evaluation point as a single lane */
    size_t rows, out_rows; /* tokens; output rows */
    size_t layer_width;    /* elements a row that a layer saves */
    size_t longest_keys;   /* of the sequence that has most */
    zest_forward_save save;
    int recomputing;      /* a layer's forward pass runs once more */
    const void *h;        /* (out_rows, embedding_size): input of the head's transform */
    const void *features; /* (out_rows, embedding_size): what the head multiplies */
    /* In memory that the operations read: */
    const uint32_t *words, *targets;
    const zest_logit_sum *sums; /* of output rows */
    zest_scatter_index by_rows, by_keys;
} zest_grad_pass;

/* ---- grad.c ---- */

zest_status zest_grad_view_new(zest_grad *grad, zest_error *error);
void zest_grad_view_at(zest_grad *grad, const zest_eval_point *at);
/* The gradient of a weight, to be added to; NULL: it is frozen, absent or not wanted. */
float *zest_grad_weight_grad(const zest_grad_pass *pass, const zest_weight *weight);
/* The status of an operation that has failed or not. */
zest_status zest_grad_check(const zest_grad_pass *pass, int failed);
/* A copy of a small table in memory that the operations read, until the next pass. NULL: out of memory. */
const void *zest_grad_stage(zest_grad_pass *pass, const void *table, size_t bytes);
/* The scatter index of a list of `count` rows that were read, out of `rows`. all: rows that were not read have
 * a sum too, of nothing. */
zest_status zest_grad_index(zest_grad_pass *pass, zest_grad_list which, const uint32_t *list, size_t count,
                            size_t rows, int all, zest_scatter_index *index);
/* With shared prefixes: the index of the rows whose keys were copied. */
zest_status zest_grad_list_keys(zest_grad_pass *pass);

/* ---- saved_activations.c ---- */

/* The forward pass, with activations saved. */
zest_status zest_grad_forward(zest_grad_pass *pass);
/* With `recompute`: saves the activations of layer i once more. */
zest_status zest_grad_recompute_layer(zest_grad_pass *pass, size_t i);
/* Where a layer's activations are. */
zest_saved_layer zest_grad_saved(const zest_grad_pass *pass, size_t i);
/* The dropout mask of a site, one that keeps all where there is no dropout. */
zest_mask zest_grad_mask(const zest_grad_pass *pass, size_t layer, zest_dropout_site site);
/* The gradient of the residual stream (0), and buffers for its branches (1, 2): (tokens, hidden). */
void *zest_grad_d_stream(const zest_grad_pass *pass, size_t which);

/* ---- loss_backward.c ---- */

/* Losses and mean out of the features. */
zest_status zest_grad_head(zest_grad_pass *pass, double *losses, double *mean);
/* d: gradient of the features. */
zest_status zest_grad_head_backward(zest_grad_pass *pass, double factor, void *d);

/* ---- transformer_backward.c ---- */

/* y = x W' + b: adds to the gradients of W and b; dx (+)= the gradient of x, where it is wanted. */
zest_status zest_grad_linear_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                      const void *x, const void *dy, size_t dy_stride, size_t rows, void *dx,
                                      int add);
/* Layer i: the gradient of its output becomes that of its input. */
zest_status zest_grad_layer_backward(zest_grad_pass *pass, size_t i);
zest_status zest_grad_embed_backward(zest_grad_pass *pass);
/* The gradient of the features becomes that of the last layer's output. */
zest_status zest_grad_finish_backward(zest_grad_pass *pass);

#endif
