/* What a training run is going to be, for people and scripts. */
#ifndef ZEST_CLI_SUMMARY_H
#define ZEST_CLI_SUMMARY_H

#include <jansson.h>

#include "run/trainer.h"

/* Lines "model   ...", "task    ..." and so on. */
void zest_summary_text(const zest_trainer_summary *summary, zest_buffer *out);
/* NULL: memory is short. */
json_t *zest_summary_json(const zest_trainer_summary *summary);

#endif
