/* What zest train and zest pretrain share: a run from its options to its last line of output. */
#ifndef ZEST_CLI_TRAIN_H
#define ZEST_CLI_TRAIN_H

#include <jansson.h>

#include "base/option.h"
#include "train/trainer.h"

/* Starts the run that the options ask for, or goes on with the one in --resume. Returns the exit status. */
int zest_training_run(const zest_options *given);

/* What a training run is going to be, for people and scripts. */

/* Lines "model   ...", "task    ..." and so on. */
void zest_summary_text(const zest_trainer_summary *summary, zest_buffer *out);
/* NULL: memory is short. */
json_t *zest_summary_json(const zest_trainer_summary *summary);

#endif
