/* What the files of the backward pass share.
 *
 * One set of passes for the CPU and a device: whatever looks into activations or gradients is an operation of
 * one of the two tables, and steps between activations are counted in cells (zest_model_offset). */
#ifndef ZEST_GRAD_GRAD_INTERNAL_H
#define ZEST_GRAD_GRAD_INTERNAL_H

#include "grad/grad.h"
#include "model/forward_pass.h"
#include "model/loss.h"

/* Lists of rows that were read, and by whom. */
typedef enum {
    ZEST_GRAD_ASKED, /* rows, by the last layer's rest */
    ZEST_GRAD_KEYS,  /* rows, by their copies among the keys written out */
    ZEST_GRAD_POSITIONS,
    ZEST_GRAD_TYPES,
    ZEST_GRAD_TOKENS,
    ZEST_GRAD_LISTS
} zest_grad_list;

struct zest_grad {
    const zest_model *model;
    zest_model view; /* the model with its weights where the place says */
    zest_model_runner *runner;
    const zest_backward *backward;
    int recompute;

    zest_model_buffer tape;    /* of every layer, or of one with `recompute` */
    zest_model_buffer inputs;  /* with `recompute`: x of every layer */
    zest_model_buffer d, wide; /* gradients on their way: of the stream; within a layer */
    zest_model_buffer a;       /* outputs of norms, made again */
    zest_model_buffer head;    /* what is kept of the head */
    zest_model_buffer small;   /* gains, words, gradients by a block of logits */
    zest_model_buffer sines;   /* of the rotation back, as floats */
    size_t angles;             /* positions that these reach */
    uint32_t *lists[ZEST_GRAD_LISTS], *key_sources;
    size_t list_counts[ZEST_GRAD_LISTS], key_count;
    zest_logit_sum *sums;
    double *scores, *weights;
    float *by;
    size_t sums_count, scores_count;
};

/* One job. */
typedef struct {
    zest_grad *grad;
    const zest_grad_job *job;
    zest_error *error;
    zest_forward_request request;
    zest_forward_pass pass;
    zest_lane_group lane; /* the place as a single lane */
    size_t rows, asked, row_cells;
    size_t longest_keys; /* of the sequence that has most */
    zest_forward_save save;
    int recomputing;      /* a layer's forward pass once more */
    const void *h;        /* (out_rows, embedding_size): the head's transform gets this */
    const void *features; /* (out_rows, embedding_size): the head multiplies this */
    /* Where the operations look for them: */
    const uint32_t *words, *targets;
    const zest_logit_sum *sums; /* of asked rows */
    zest_index by_rows, by_keys;
} zest_grad_pass;

/* ---- grad.c ---- */

zest_status zest_grad_view_new(zest_grad *grad, zest_error *error);
void zest_grad_view_at(zest_grad *grad, const zest_eval_point *place);
/* Where a weight's gradient is added; NULL: it is frozen, absent or not asked for. */
float *zest_grad_of(const zest_grad_pass *pass, const zest_weight *weight);

/* ---- grad.c ---- */

/* What an operation that failed is answered with; 0: it did not. */
zest_status zest_grad_done(const zest_grad_pass *pass, int failed);
/* A copy of small tables where the operations look for them, good for this pass. NULL: there is no room. */
const void *zest_grad_stage(zest_grad_pass *pass, const void *table, size_t bytes);
/* The index of a list of `count` rows that were read, out of `rows` there are. all: rows that nobody read
 * have a sum too, of nothing. */
zest_status zest_grad_index(zest_grad_pass *pass, zest_grad_list which, const uint32_t *list, size_t count,
                            size_t rows, int all, zest_index *index);
/* With parents: the row of each key that is written out. */
zest_status zest_grad_list_keys(zest_grad_pass *pass);

/* ---- saved_activations.c ---- */

/* The forward pass, with activations saved. */
zest_status zest_grad_forward(zest_grad_pass *pass);
/* With `recompute`: saves the activations of layer i once more. */
zest_status zest_grad_recompute_layer(zest_grad_pass *pass, size_t i);
/* Where a layer's activations lie. */
zest_saved_layer zest_grad_saved(const zest_grad_pass *pass, size_t i);
/* The dropout mask of a site, one that keeps all where there is no dropout. */
zest_mask zest_grad_mask(const zest_grad_pass *pass, size_t layer, zest_dropout_site site);
/* Memory for the pass; on a device it is foreseen whether there is enough. */
zest_status zest_grad_alloc(zest_grad_pass *pass);
/* The stream's gradient (0), and room for what branches off it (1, 2). */
void *zest_grad_stream(const zest_grad_pass *pass, size_t which);
/* Cells of the widest row outside a layer. */
size_t zest_grad_max_width(const zest_grad_pass *pass);

/* ---- loss_backward.c ---- */

/* Losses and mean out of the features. */
zest_status zest_grad_head(zest_grad_pass *pass, double *losses, double *mean);
/* d: gradient by the features. */
zest_status zest_grad_head_backward(zest_grad_pass *pass, double factor, void *d);

/* ---- transformer_backward.c ---- */

/* y = x W' + b: adds to the gradients of W and b; dx (+)= the gradient by x, where it is wanted. */
zest_status zest_grad_linear_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                      const void *x, const void *dy, size_t dy_stride, size_t rows, void *dx,
                                      int add);
/* The same for q, k and v side by side. */
zest_status zest_grad_qkv_backward(zest_grad_pass *pass, const zest_model_layer *layer, const void *x,
                                   const void *dqkv, void *dx, int add);
/* y = norm(x): dx (+)= the gradient by x. */
zest_status zest_grad_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm, const void *x,
                                    const void *dy, size_t rows, void *dx, int add);

/* ---- transformer_backward.c ---- */

/* Layer i: d by what came out becomes d by what came in. */
zest_status zest_grad_layer_backward(zest_grad_pass *pass, size_t i);
zest_status zest_grad_embed_backward(zest_grad_pass *pass);
/* d by the head's features becomes d by what the last layer gives. */
zest_status zest_grad_finish_backward(zest_grad_pass *pass);

#endif
