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

zest_status zest_sgd_move(const zest_method_pass *pass, double factor) {
    const zest_method_options *is = &pass->method->is;
    const zest_sweeps *s = &pass->method->sweeps;
    float back = (float)-pass->lr;
    zest_sweeps_move move = zest_vectors_moving(pass);
    zest_sgd_numbers numbers = {.keep = (float)(1 - pass->lr * is->decay),
                                .slope = back * (float)factor,
                                .momentum = (float)is->momentum,
                                .factor = (float)factor,
                                .decay = (float)is->decay,
                                .back = back};
    return zest_sweeps_done(s, s->table->sgd(s, &move, &numbers), pass->error);
}
