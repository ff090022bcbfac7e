/* First-order methods: what ZEST is compared with. A step asks for losses and gradients of one batch at one
 * or more places and then moves the weights:
 *
 *     sgd     G = g(x)                                              one gradient
 *     adamw   the same, moved by Adam with decoupled decay          one
 *     sam     G = g(x + r g(x)/|g(x)|)                              two
 *             or g(x + e_i) where f(x + e_i) is largest             k losses, one gradient or a few
 *     esam    G = mean of g(x + e_i), e_i ~ U(r S^(d-1))            k
 *     tsam    G = sum of w_i g(x + e_i), w = softmax(t f(x + e_i))  k, or 2k with an ascent
 *
 * One method a file, with its source. The weights are written by the move alone: a random neighbour is a
 * direction's seed and a scale, regenerated inside the arithmetic and never stored; SAM's neighbour is a
 * point of its own. So nothing has to be restored, and nothing can drift. Memory beside the weights, in
 * floats: the gradient (d), sam and tsam with an ascent a point (d), momentum d, adamw 2d. tsam gathers its
 * weighted sum as it goes (a softmax with a running maximum), so it needs no k gradients.
 *
 * Arithmetic: an element of e_i is about r/sqrt(d), 1e-6 for r = 0.01 and 1e8 weights: far below the rounding
 * of a weight to bf16. In bf16 arithmetic nothing is left of it where the weights are bf16, and a few flips
 * of the last place where they are fp32. So esam, tsam and sam want fp32 arithmetic; there a neighbour is
 * what it should be, whatever the weights are stored in.
 *
 * A step is a function of the weights, the arrays below, the seed and the step's number: with those a run
 * goes on bit for bit. Results do not depend on the number of threads. */
#ifndef ZEST_BASELINES_OPTIMIZER_H
#define ZEST_BASELINES_OPTIMIZER_H

#include "base/error.h"
#include "grad/grad.h"

typedef enum {
    ZEST_METHOD_SGD,
    ZEST_METHOD_ADAMW,
    ZEST_METHOD_SAM,
    ZEST_METHOD_ESAM,
    ZEST_METHOD_TSAM,
    ZEST_METHOD_COUNT
} zest_method_kind;

const char *zest_optimizer_name(zest_method_kind kind); /* "sgd", ... */
int zest_optimizer_find(const char *name, zest_method_kind *kind);

typedef struct {
    zest_method_kind kind;
    double momentum;              /* of sgd's move, which sam, esam and tsam take too */
    double decay;                 /* sgd: added to the gradient as decay·x; adamw: apart from it */
    double clip;                  /* the norm of G at most; 0: as it is */
    double radius;                /* r */
    int random;                   /* sam: the worst of k random neighbours instead of the step uphill */
    size_t k;                     /* neighbours of esam, tsam and random sam */
    double tilt;                  /* t */
    double ascent;                /* tsam: one step of this length uphill from each neighbour; 0: none */
    double beta1, beta2, epsilon; /* adamw */
    uint64_t seed;
    int threads; /* 0: all cores */
    int nearest; /* 16-bit weights to the nearest, instead of stochastically */
    /* Where the weights, the gradient, points and arrays are; NULL: in the host's memory. The bits do not
     * depend on it. */
    zest_device *device;
} zest_method_options;

zest_method_options zest_optimizer_defaults(zest_method_kind kind);

/* Loss at a place, and gradient += factor times its gradient there. factor is what `weigh` says of the loss;
 * 1 when it is NULL; at 0 the gradient may be left out. number: of the evaluation within its step, from 0
 * (for dropout masks, say). The weights themselves are not to be changed. On a device gradient and point are
 * in its memory. */
typedef struct {
    zest_status (*evaluate)(void *user, const zest_eval_point *at, size_t number, float *gradient,
                            zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error);
    void *user;
} zest_method_oracle;

typedef struct {
    double loss;      /* at x (sgd, adamw, sam); the mean at the neighbours (esam, tsam, random sam) */
    double objective; /* what is minimised: tsam: log(mean of exp(t f))/t; sam: f at the point; else loss */
    double norm;      /* of G, before clipping */
    size_t evaluations, dropped; /* dropped: neighbours whose loss was not finite */
    int moved;                   /* 0: G was not finite, or nothing was left; the weights are as they were */
} zest_method_report;

typedef struct zest_optimizer zest_optimizer;

/* params: of F32, BF16 or F16 tensors; kept by reference. 16-bit weights move in fp32 and are rounded
 * stochastically, as in optim/step.h. */
zest_status zest_optimizer_new(const zest_params *params, const zest_vector_ops *ops,
                               const zest_method_options *options, zest_optimizer **method,
                               zest_error *error);
void zest_optimizer_free(zest_optimizer *method);

/* step: from 0. */
zest_status zest_optimizer_step(zest_optimizer *method, const zest_method_oracle *oracle, uint64_t step,
                                double lr, zest_method_report *report, zest_error *error);

/* What a run must save beside the weights: named arrays, zero at the start, to be read and written in place.
 * On a device these are copies in the host's memory: fetch makes them and brings them up to date, send brings
 * them back, and drop lets go of them. On the CPU all three have nothing to do. */
typedef struct {
    const char *name;
    float *data; /* NULL: on a device, and not fetched */
    size_t count;
} zest_method_array;

enum { ZEST_METHOD_ARRAYS = 2 };
size_t zest_optimizer_arrays(zest_optimizer *method, zest_method_array out[ZEST_METHOD_ARRAYS]);
zest_status zest_optimizer_download(zest_optimizer *method, zest_error *error);
zest_status zest_optimizer_upload(zest_optimizer *method, zest_error *error);
void zest_optimizer_drop(zest_optimizer *method);

size_t zest_optimizer_memory(const zest_optimizer *method); /* bytes held, in whichever memory */

/* A model's batch as the oracle of a method. */

/* Fill it, set objective and step before every step, and hand {zest_loss_and_grad_evaluate, &it} to the method. */
typedef struct {
    zest_grad *grad;
    const zest_model_objective *objective;
    const zest_dropout *dropout; /* rates, and the run's seed; NULL: none */
    uint64_t step;
} zest_oracle;

/* Evaluation `number` of a step has masks of its own, from (seed, step, number). */
zest_status zest_loss_and_grad_evaluate(void *user, const zest_eval_point *at, size_t number, float *gradient,
                                        zest_grad_weigh *weigh, void *weigher, double *loss,
                                        zest_error *error);

#endif
