/* What zest train and zest pretrain share: a run from its options to its last line of output. */
#ifndef ZEST_CLI_TRAINING_H
#define ZEST_CLI_TRAINING_H

#include "base/option.h"

/* Starts the run that the options ask for, or goes on with the one in --resume. Returns the exit status. */
int zest_training_run(const zest_options *given);

#endif
