/* Stochastic gradient descent (Robbins and Monro 1951) with heavy-ball momentum (Polyak 1964):
 *
 *     g = G + decay x      m = momentum m + g      x = x - lr m
 *
 * which is also how the weights move under sam, esam and tsam. Clipping scales G down to a norm of at most
 * `clip` before anything else. */
#include "methods/method_internal.h"

zest_status zest_sgd_gather(zest_method_pass *pass) {
    zest_place here = {0};
    zest_status status =
        zest_vectors_evaluate(pass, &here, pass->method->gradient, NULL, NULL, &pass->report->loss);
    pass->report->objective = pass->report->loss;
    return status;
}

static void each(zest_method_pass *pass, const void *user, uint64_t first, size_t count, float *x) {
    const zest_method *method = pass->method;
    const zest_ops *ops = method->ops;
    float factor = *(const float *)user, lr = (float)-pass->lr, decay = (float)method->is.decay;
    float *g = method->gradient + first, *m = method->arrays[0] ? method->arrays[0] + first : NULL;
    if (!m) { /* x = (1 - lr decay) x - lr factor g */
        if (decay != 0) ops->scale_f32(x, (float)(1 - pass->lr * method->is.decay), count);
        ops->fma_f32(x, x, lr * factor, g, count);
        return;
    }
    ops->scale_f32(m, (float)method->is.momentum, count);
    ops->fma_f32(m, m, factor, g, count);
    if (decay != 0) ops->fma_f32(m, m, decay, x, count);
    ops->fma_f32(x, x, lr, m, count);
}

void zest_sgd_move(zest_method_pass *pass, double factor) {
    float rounded = (float)factor;
    zest_vectors_move(pass, each, &rounded);
}
