/* What the optimizers in optimizer.c share. */
#ifndef ZEST_BASELINES_OPTIMIZER_INTERNAL_H
#define ZEST_BASELINES_OPTIMIZER_INTERNAL_H

#include "baselines/optimizer.h"
#include "baselines/vector_ops.h"

struct zest_optimizer {
    zest_optimizer_options options;
    zest_optim_vectors vectors; /* the weights; the arrays are in the same memory */
    float *gradient;            /* (d): G, up to a factor */
    float *point; /* (d): sam by ascent, tsam with an ascent: a gradient, then the perturbed point */
    float *arrays[ZEST_OPTIMIZER_ARRAYS]; /* (d): momentum; or the two moments of adamw */
    float *copies[ZEST_OPTIMIZER_ARRAYS]; /* of them in host memory, after a download */
};

/* One step in progress. */
typedef struct {
    zest_optimizer *optimizer;
    const zest_optimizer_closure *closure;
    uint64_t step;
    double lr;
    zest_optimizer_report *report;
    zest_error *error;
    double factor; /* G is this times method->gradient */
} zest_optimizer_pass;

/* ---- One for each optimizer: computes G ---- */

zest_status zest_sgd_compute_grad(zest_optimizer_pass *pass); /* adamw's too */
zest_status zest_sam_compute_grad(zest_optimizer_pass *pass);
zest_status zest_esam_compute_grad(zest_optimizer_pass *pass);
zest_status zest_tsam_compute_grad(zest_optimizer_pass *pass);

/* ---- Updates by `factor` times the gradient ---- */

zest_status zest_sgd_apply(const zest_optimizer_pass *pass, double factor);
zest_status zest_adamw_apply(const zest_optimizer_pass *pass, double factor);

/* ---- Shared ---- */

zest_status zest_optimizer_evaluate(zest_optimizer_pass *pass, const zest_eval_point *at, float *gradient,
                                    zest_grad_weigh *weigh, void *weigher, double *loss);
/* Random point i of the step, on the sphere of the radius around x; it refers to the direction. */
zest_status zest_optimizer_neighbour(zest_optimizer_pass *pass, size_t i, zest_direction *direction,
                                     zest_eval_point *point);
zest_status zest_optimizer_zero_grad(const zest_optimizer *optimizer, float *x, zest_error *error);
zest_status zest_optimizer_scale_grad(const zest_optimizer *optimizer, float *x, double c, zest_error *error);
/* The norm, in blocks of fixed size; *norm may be infinite or NaN. */
zest_status zest_optimizer_grad_norm(const zest_optimizer *optimizer, const float *x, double *norm,
                                     zest_error *error);
/* Replaces the gradient in optimizer->point by the point `length` along it from `from`. *finite is 0, and nothing is
 * done, when its norm is not finite. */
zest_status zest_optimizer_ascend(zest_optimizer_pass *pass, const zest_eval_point *from, double length,
                                  int *finite);

/* The arrays of this step's update. */
zest_optim_update zest_optimizer_update_of(const zest_optimizer_pass *pass);

#endif
