#include "models/move.h"

#include "models/forward_internal.h"

zest_status zest_model_move(zest_model_runner *runner, const zest_update *update, zest_error *error) {
    (void)error;
    zest_update_apply(zest_ops_for(runner->operations->cpu), runner->threads, &runner->model->params, update);
    return ZEST_OK;
}

zest_status zest_model_fetch(zest_model_runner *runner, zest_error *error) {
    (void)runner, (void)error;
    return ZEST_OK;
}

zest_status zest_model_send(zest_model_runner *runner, zest_error *error) {
    (void)runner, (void)error;
    return ZEST_OK;
}
