/* First-order optimizers: the baselines of ZEST. A step evaluates losses and gradients of one batch at one or more
 * points and then updates the weights:
 *
 *     sgd     G = g(x)                                              one gradient
 *     adamw   the same, with Adam's update and decoupled decay      one
 *     sam     G = g(x + r g(x)/|g(x)|)                              two
 *             or g(x + e_i) where f(x + e_i) is largest             k losses, one gradient or a few
 *     esam    G = mean of g(x + e_i), e_i ~ U(r S^(d-1))            k
 *     tsam    G = sum of w_i g(x + e_i), w = softmax(t f(x + e_i))  k, or 2k with an ascent
 *
 * Only the update writes the weights: a random neighbour is the seed of a direction and a scale, regenerated inside
 * the arithmetic and never stored; SAM's neighbour is a vector of its own. So nothing has to be restored, and nothing
 * can drift. Memory besides the weights, in floats: the gradient (d), sam and tsam with an ascent a point (d), momentum
 * d, adamw 2d. tsam accumulates its weighted sum with an online softmax, so it does not store k gradients.
 *
 * Arithmetic: an element of e_i is about r/sqrt(d), 1e-6 for r = 0.01 and 1e8 weights: far below the rounding
 * of a weight to bf16. In bf16 arithmetic nothing is left of it where the weights are bf16, and a few flips
 * of the last place where they are fp32. So esam, tsam and sam want fp32 arithmetic; there a neighbour is
 * accurate, whatever type the weights are stored in.
 *
 * A step is a function of the weights, the arrays below, the seed and the step's number: with those a run
 * goes on bit for bit. Results do not depend on the number of threads. */
#ifndef ZEST_BASELINES_OPTIMIZER_H
#define ZEST_BASELINES_OPTIMIZER_H

#include "base/error.h"
#include "grad/grad.h"

/* In the order of the choices of --method from ZEST_CHOICE_SGD on. */
typedef enum {
    ZEST_OPTIMIZER_SGD,
    ZEST_OPTIMIZER_ADAMW,
    ZEST_OPTIMIZER_SAM,
    ZEST_OPTIMIZER_ESAM,
    ZEST_OPTIMIZER_TSAM,
    ZEST_OPTIMIZER_COUNT
} zest_optimizer_kind;

typedef struct {
    zest_optimizer_kind kind;
    double momentum; /* of sgd, sam, esam and tsam */
    double decay;    /* sgd: added to the gradient as decay·x; adamw: apart from it */
    double clip;     /* the norm of G at most; 0: as it is */
    double radius;   /* r */
    int random;      /* sam: the worst of k random neighbours instead of the ascent step */
    size_t k;        /* neighbours of esam, tsam and random sam */
    double tilt;     /* t */
    double ascent;   /* tsam: one gradient-ascent step of this length from each neighbour; 0: none */
    double beta1, beta2, epsilon; /* adamw */
    uint64_t seed;
    int threads; /* 0: all cores */
    int nearest; /* 16-bit weights to the nearest, instead of stochastically */
    /* Where weights, gradient, points and arrays are; NULL: in host memory. The bits do not depend on it. */
    zest_device *device;
} zest_optimizer_options;

zest_optimizer_options zest_optimizer_defaults(zest_optimizer_kind kind);

/* What a step evaluates: the loss at a point, and gradient += factor times the gradient there. factor is what `weigh`
 * returns for the loss; 1 when it is NULL; at 0 the gradient may be left out. number: of the evaluation within its
 * step, from 0 (for dropout masks). It must not change the weights. On a device gradient and point are in its
 * memory. */
typedef struct {
    zest_status (*evaluate)(void *user, const zest_eval_point *at, size_t number, float *gradient,
                            zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error);
    void *user;
} zest_optimizer_closure;

typedef struct {
    double loss;      /* at x (sgd, adamw, sam); the mean at the neighbours (esam, tsam, random sam) */
    double objective; /* what is minimised: tsam: log(mean of exp(t f))/t; sam: f at the point; else loss */
    double norm;      /* of G, before clipping */
    size_t evaluations, dropped; /* dropped: neighbours whose loss was not finite */
    int moved; /* 0: G was not finite, or every neighbour was dropped; the weights are unchanged */
} zest_optimizer_report;

typedef struct zest_optimizer zest_optimizer;

/* params: of F32, BF16 or F16 tensors; kept by reference. 16-bit weights are updated in fp32 and
 * rounded stochastically, as in optim/step.h. */
zest_status zest_optimizer_new(const zest_params *params, const zest_vector_ops *ops,
                               const zest_optimizer_options *options, zest_optimizer **optimizer,
                               zest_error *error);
void zest_optimizer_free(zest_optimizer *optimizer);

/* step: from 0. */
zest_status zest_optimizer_step(zest_optimizer *optimizer, const zest_optimizer_closure *closure,
                                uint64_t step, double lr, zest_optimizer_report *report, zest_error *error);

/* The state that a run must save besides the weights: named arrays, zero at the start, to be read and written in
 * place. On a device these are copies in host memory: download makes and fills them, upload copies them back, drop
 * frees them. On the CPU all three do nothing. */
typedef struct {
    const char *name;
    float *data; /* NULL: on a device, and not downloaded */
    size_t count;
} zest_optimizer_array;

enum { ZEST_OPTIMIZER_ARRAYS = 2 };
size_t zest_optimizer_arrays(zest_optimizer *optimizer, zest_optimizer_array out[ZEST_OPTIMIZER_ARRAYS]);
zest_status zest_optimizer_download(zest_optimizer *optimizer, zest_error *error);
zest_status zest_optimizer_upload(zest_optimizer *optimizer, zest_error *error);
void zest_optimizer_drop(zest_optimizer *optimizer);

size_t zest_optimizer_memory(const zest_optimizer *optimizer); /* bytes allocated, in whichever memory */

/* A closure over a model's batch: fill it, set objective and step before every step, and give the optimizer
 * {zest_optimizer_evaluate_batch, &it}. */
typedef struct {
    zest_grad *grad;
    const zest_model_objective *objective;
    const zest_dropout *dropout; /* rates, and the run's seed; NULL: none */
    uint64_t step;
} zest_optimizer_batch;

/* Evaluation `number` of a step has masks of its own, from (seed, step, number). */
zest_status zest_optimizer_evaluate_batch(void *user, const zest_eval_point *at, size_t number,
                                          float *gradient, zest_grad_weigh *weigh, void *weigher,
                                          double *loss, zest_error *error);

#endif
