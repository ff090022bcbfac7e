#include "methods/oracle.h"

zest_status zest_oracle_evaluate(void *user, const zest_place *at, size_t number, float *gradient,
                                 zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error) {
    const zest_oracle *oracle = user;
    zest_dropout dropout;
    zest_grad_job job = {.objective = oracle->objective,
                         .at = *at,
                         .gradient = gradient,
                         .factor = 1,
                         .weigh = weigh,
                         .user = weigher};
    if (oracle->dropout) {
        dropout = *oracle->dropout;
        dropout.seed = zest_seed(dropout.seed, oracle->step, number);
        job.dropout = &dropout;
    }
    return zest_grad_losses(oracle->grad, &job, NULL, loss, error);
}
