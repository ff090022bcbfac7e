/* Weights of a run on disk: a Hugging Face folder, with a note of the step it is from.
 *
 * The note (zest.json) holds the step and the fingerprint of the trained weights and is written last; a kill
 * in between leaves a note that does not fit, which is found out and only costs time, since the journal can
 * make the weights again. */
#ifndef ZEST_RUN_CHECKPOINT_H
#define ZEST_RUN_CHECKPOINT_H

#include "run/load.h"

zest_status zest_checkpoint_write(const char *folder, const zest_loaded *loaded, uint64_t step,
                                  zest_error *error);
/* What the note says; 0 when there is none that can be read. */
int zest_checkpoint_read(const char *folder, uint64_t *step, uint64_t *fingerprint);

#endif
