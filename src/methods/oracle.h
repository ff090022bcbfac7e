/* A model's batch as the oracle of a method. */
#ifndef ZEST_METHODS_ORACLE_H
#define ZEST_METHODS_ORACLE_H

#include "methods/method.h"

/* Fill it, set objective and step before every step, and hand {zest_oracle_evaluate, &it} to the method. */
typedef struct {
    zest_grad *grad;
    const zest_model_objective *objective;
    const zest_dropout *dropout; /* rates, and the run's seed; NULL: none */
    uint64_t step;
} zest_oracle;

/* Evaluation `number` of a step has masks of its own, from (seed, step, number). */
zest_status zest_oracle_evaluate(void *user, const zest_place *at, size_t number, float *gradient,
                                 zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error);

#endif
