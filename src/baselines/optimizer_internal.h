/* What the methods share. */
#ifndef ZEST_BASELINES_OPTIMIZER_INTERNAL_H
#define ZEST_BASELINES_OPTIMIZER_INTERNAL_H

#include "baselines/optimizer.h"
#include "baselines/vector_ops.h"

struct zest_optimizer {
    zest_method_options is;
    zest_optim_vectors sweeps; /* in whose memory the arrays are */
    float *gradient;           /* G, but for a factor */
    float *point;              /* sam uphill, tsam with an ascent: a gradient, then the point it leads to */
    float *arrays[ZEST_METHOD_ARRAYS]; /* momentum; or the two moments of adamw */
    float *copies[ZEST_METHOD_ARRAYS]; /* of them in the host's memory, while they are wanted there */
};

/* One step on its way. */
typedef struct {
    zest_optimizer *method;
    const zest_method_oracle *oracle;
    uint64_t step;
    double lr;
    zest_method_report *report;
    zest_error *error;
    double factor; /* G is this times method->gradient */
} zest_method_pass;

/* ---- One a method: gathers G ---- */

zest_status zest_sgd_compute_grad(zest_method_pass *pass); /* adamw's too */
zest_status zest_sam_compute_grad(zest_method_pass *pass);
zest_status zest_esam_compute_grad(zest_method_pass *pass);
zest_status zest_tsam_compute_grad(zest_method_pass *pass);

/* ---- The moves: by `factor` times the gradient ---- */

zest_status zest_sgd_apply(const zest_method_pass *pass, double factor);
zest_status zest_adamw_apply(const zest_method_pass *pass, double factor);

/* ---- optimizer.c ---- */

zest_status zest_optimizer_evaluate(zest_method_pass *pass, const zest_eval_point *at, float *gradient,
                                    zest_grad_weigh *weigh, void *weigher, double *loss);
/* Neighbour i of the step: the place refers to the direction. */
zest_status zest_optimizer_neighbour(zest_method_pass *pass, size_t i, zest_direction *direction,
                                     zest_eval_point *place);
zest_status zest_optimizer_zero_grad(const zest_optimizer *method, float *x, zest_error *error);
zest_status zest_optimizer_scale_grad(const zest_optimizer *method, float *x, double c, zest_error *error);
/* The norm, in blocks of fixed size; *norm may come out infinite or NaN. */
zest_status zest_optimizer_grad_norm(const zest_optimizer *method, const float *x, double *norm,
                                     zest_error *error);
/* The gradient in method->point becomes the point `length` uphill from a place. Returns 0 and leaves it when
 * the norm is not finite. */
zest_status zest_optimizer_ascend(zest_method_pass *pass, const zest_eval_point *from, double length,
                                  int *finite);

/* The arrays that a move of this step is about. */
zest_sweeps_move zest_optimizer_updating(const zest_method_pass *pass);

#endif
