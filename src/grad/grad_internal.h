/* What the files of the backward pass share. */
#ifndef ZEST_GRAD_GRAD_INTERNAL_H
#define ZEST_GRAD_GRAD_INTERNAL_H

#include "grad/grad.h"
#include "models/forward_internal.h"
#include "models/losses_internal.h"

/* What is kept of a layer, one row a token. Outputs of norms and activations are made again when they are
 * wanted: that is cheap beside a matrix product. */
typedef struct {
    float *x;         /* what came in */
    float *qkv;       /* behind the rotation */
    float *context;   /* the last layer: asked rows alone */
    float *input;     /* the rows of x that attention's output was added to; x itself but in the last layer */
    float *middle;    /* input + attention */
    float *gate, *up; /* before the activation; gate NULL where there is none */
    float *end;       /* norms behind: middle's norm + MLP; else NULL */
} zest_grad_layer;

struct zest_grad {
    const zest_model *model;
    zest_model view; /* the model with its weights where the place says */
    zest_model_runner *runner;
    const zest_backward *backward;
    int recompute;

    zest_model_room tape;    /* of every layer, or of one with `recompute` */
    zest_model_room inputs;  /* with `recompute`: x of every layer */
    zest_model_room d, wide; /* gradients on their way: of the stream; within a layer */
    zest_model_room a;       /* outputs of norms, made again */
    zest_model_room head;    /* what is kept of the head */
    zest_model_room small;   /* gains and words as floats */
    zest_logit_sum *sums;
    double *scores, *weights;
    size_t sums_count, scores_count;
};

/* One job. */
typedef struct {
    zest_grad *grad;
    const zest_grad_job *job;
    zest_error *error;
    zest_model_request request;
    zest_model_pass pass;
    zest_model_pair lane; /* the place as a single lane */
    size_t rows, asked, row_floats;
    float *h;        /* asked rows behind final norm and projection: what the head's transform gets */
    float *normed;   /* behind the final norm, or NULL where there is none */
    float *dense;    /* of the head's transform, before its activation; or NULL */
    float *features; /* what the head multiplies */
    double *weights; /* of asked rows (TOKENS, OPTIONS): dlogits = weight (p - target) */
} zest_grad_pass;

/* ---- view.c ---- */

zest_status zest_grad_view_new(zest_grad *grad, zest_error *error);
void zest_grad_view_place(zest_grad *grad, const zest_place *place);
/* Where a weight's gradient is added; NULL: it is frozen, absent or not asked for. */
float *zest_grad_of(const zest_grad_pass *pass, const zest_weight *weight);

/* ---- remember.c: the forward pass, kept ---- */

zest_status zest_grad_remember(zest_grad_pass *pass);
/* Layer i once more, its activations into *kept. `out` may be NULL: then the layer ends where the backward
 * pass needs nothing more. */
zest_status zest_grad_remember_layer(zest_grad_pass *pass, size_t i, const zest_grad_layer *kept, float *out);
/* Where a layer's activations lie. */
zest_grad_layer zest_grad_kept(const zest_grad_pass *pass, size_t i);
size_t zest_grad_layer_rows(const zest_grad_pass *pass, size_t i); /* behind its attention */
zest_attention zest_grad_attention(const zest_grad_pass *pass, const float *qkv, float *out);
/* Keys and values of parents and children written out, into the runner's room for it. */
void zest_grad_write_out_keys(const zest_grad_pass *pass, const float *qkv);

/* Shorthands for one lane. */
zest_status zest_grad_map(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                          const float *a, size_t rows, size_t inputs, float *out, size_t out_stride,
                          const float *residual);
zest_status zest_grad_normed(zest_grad_pass *pass, const zest_model_affine *norm, const float *x, size_t rows,
                             float *out);

/* ---- loss.c ---- */

/* Losses and mean out of the features; and the weights of asked rows. */
zest_status zest_grad_head(zest_grad_pass *pass, double *losses, double *mean);
/* d: gradient by the features. */
zest_status zest_grad_head_backward(zest_grad_pass *pass, double factor, float *d);

/* ---- linear_backward.c ---- */

/* y = x W' + b: adds to the gradients of W and b; dx (+)= the gradient by x, where it is wanted. */
zest_status zest_grad_map_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                   const float *x, const float *dy, size_t dy_stride, size_t rows, float *dx,
                                   int add);
/* y = norm(x): dx (+)= the gradient by x. */
zest_status zest_grad_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm, const float *x,
                                    const float *dy, size_t rows, float *dx, int add);

/* ---- layer_backward.c, embed_backward.c ---- */

/* Layer i: d by what came out becomes d by what came in. */
zest_status zest_grad_layer_backward(zest_grad_pass *pass, size_t i);
zest_status zest_grad_embed_backward(zest_grad_pass *pass);
/* d by the head's features becomes d by what the last layer gives. */
zest_status zest_grad_finish_backward(zest_grad_pass *pass);

#endif
