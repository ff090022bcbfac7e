/* The update: one sweep over the parameters for all directions of a step. */
#ifndef ZEST_CORE_UPDATE_H
#define ZEST_CORE_UPDATE_H

#include "backend/ops.h"
#include "params/params.h"

typedef struct {
    const zest_direction *directions;
    const double *g; /* coefficients of the gradient estimate */
    size_t k;
    double lr, decay;
    uint64_t rounding; /* seed */
    int nearest;       /* 16-bit weights to the nearest instead (ties away from zero) */
} zest_update;

/* x = (1 - lr decay) x - lr sum_i g_i v_i, element by element: first the decay, then for i in order
 * x = fma(c_i, z_i, x) with c_i = -lr g_i gain_i rounded once to the type of x. 16-bit weights are updated in
 * fp32 and rounded stochastically at the end, with bits from `rounding`: else most small updates would
 * vanish. A function of its arguments alone: the same bits for any number of threads and any backend.
 * Directions with g_i = 0 are left out. */
void zest_update_apply(const zest_ops *ops, int threads, const zest_params *params,
                       const zest_update *update);

#endif
