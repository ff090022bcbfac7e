/* The weights of a runner's model, wherever they live: in the model's arena, or in a copy on a device. */
#ifndef ZEST_MODELS_MOVE_H
#define ZEST_MODELS_MOVE_H

#include "core/update.h"
#include "models/forward.h"

/* Applies an update where the forward passes read the weights: the same bits on every device. */
zest_status zest_model_move(zest_model_runner *runner, const zest_update *update, zest_error *error);

/* Brings the arena up to date, to be saved, or told by its fingerprint; nothing to do on the CPU. */
zest_status zest_model_fetch(zest_model_runner *runner, zest_error *error);
/* The other way, behind a change of the arena. */
zest_status zest_model_send(zest_model_runner *runner, zest_error *error);

#endif
