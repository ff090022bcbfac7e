/* Losses of a model and their gradients, by a backward pass. Only the first-order baselines and the measurements
 * of sharpness need it. Built without it (make GRAD=off) the library is forward-only. */
#ifndef ZEST_GRAD_GRAD_H
#define ZEST_GRAD_GRAD_H

#include "kernels/ops.h"
#include "io/tensor.h"
#include "zest.h"
#include "grad/backward.h"
#include "model/loss.h"

/* Where a loss and its gradient are evaluated. The weights themselves are never written for it: a random
 * neighbour is x + scale·v of a direction, whose noise is generated as weights are read, as for lanes; any other
 * point is given by its values. All zero: x itself. */
typedef struct {
    const zest_direction *direction; /* or NULL */
    double scale;
    const float *point; /* values of all trained parameters in order, instead; or NULL */
} zest_eval_point;

/* Values at a point, of elements first .. first+count-1 of one tensor, as floats. */
void zest_eval_point_read(const zest_eval_point *at, const zest_vector_ops *ops, const zest_tensor *tensor,
                          uint64_t first, size_t count, float *out);

/* The losses and their mean are those of zest_model_losses, bit for bit. The gradient is fp32, in the order of the
 * parameters of model->params (frozen tensors have none), and depends on nothing but the weights, the
 * batch and the options: not on the number of threads, not on `recompute`, bit for bit. Weights may be F32,
 * BF16 or F16. In bf16 arithmetic the operands of the backward products are rounded to bf16 too.
 *
 * Memory besides weights and gradient: the activations of all layers, or with `recompute` the inputs of all
 * layers and the activations of one, which is computed once more. */

/* ---- Dropout ---- */

/* Rates at the three kinds of sites where published recipes have it: on the embeddings (after their norm), on what
 * attention and MLP add to the residual stream, on the weights of attention. RoBERTa, BERT and GPT-2: 0.1 at
 * all three; OPT: 0.1 on what is added alone; the Llama family: none. A step takes a seed of its own. */
typedef struct {
    double embeddings, added, attention;
    uint64_t seed;
} zest_dropout;

/* The mask of a site in a layer; one that keeps all when dropout is NULL. Rates are multiples of 2^-16. */
zest_mask zest_dropout_mask(const zest_dropout *dropout, double rate, size_t layer, zest_dropout_site site);

/* ---- Passes ---- */

typedef struct {
    zest_compute compute; /* on a device: the device's */
    int threads;          /* 0: all cores */
    int recompute;        /* a third more arithmetic for a fraction of the memory */
    /* On a device: the runner whose weights and device the passes use; it must outlive them. NULL, or one without a
     * device: passes on the CPU. */
    zest_model_runner *runner;
} zest_grad_options;

/* Owns the memory of passes over one model, whose weights it only reads. One thread at a time. */
typedef struct zest_grad zest_grad;

zest_status zest_grad_new(const zest_model *model, const zest_ops *operations,
                          const zest_grad_options *options, zest_grad **grad, zest_error *error);
void zest_grad_free(zest_grad *grad);
size_t zest_grad_memory(const zest_grad *grad); /* bytes held */
/* Bytes that activations will take with a batch of `tokens`, `outputs` of which are predicted. An estimate: it
 * leaves out what does not grow with the batch. */
size_t zest_grad_plan_memory(const zest_grad *grad, size_t tokens, size_t outputs);

/* The factor of the gradient, called once the mean loss is known and before anything is added: so the caller may
 * rescale what it has accumulated so far. 0: the backward pass is left out. */
typedef double zest_grad_weigh(void *user, double mean);

typedef struct {
    const zest_model_objective *objective; /* shared prefixes are fine */
    zest_eval_point at;                    /* all zero: the weights themselves */
    const zest_dropout *dropout;           /* NULL: none */
    float *gradient; /* += factor times the gradient of the mean; NULL: losses alone. On a device this and
                      * at.point are floats in its memory, in the same order */
    double factor;
    zest_grad_weigh *weigh; /* instead of factor; or NULL */
    void *user;
} zest_grad_job;

/* losses: one an example, or NULL. mean: or NULL. */
zest_status zest_grad_losses(zest_grad *grad, const zest_grad_job *job, double *losses, double *mean,
                             zest_error *error);

#endif
