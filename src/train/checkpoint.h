/* Weights of a run on disk: a Hugging Face folder, with a note of the step it is from.
 *
 * The note (zest.json) holds the step and the fingerprint of the trained weights and is written last; a kill
 * in between leaves a note that does not fit, which is found out and only costs time, since the journal can
 * make the weights again. */
#ifndef ZEST_TRAIN_CHECKPOINT_H
#define ZEST_TRAIN_CHECKPOINT_H

#include "train/load.h"

zest_status zest_checkpoint_write(const char *folder, const zest_loaded *loaded, uint64_t step,
                                  zest_error *error);
/* What the note says; 0 when there is none that can be read. */
int zest_checkpoint_read(const char *folder, uint64_t *step, uint64_t *fingerprint);

/* Weights and a method's state at one step, for runs that no journal can rebuild.
 *
 * A snapshot is a Hugging Face folder with state.safetensors (where the method has a state) and a note,
 * zest.json: the step, the fingerprint of the weights and that of the state. The folder is replaced as a
 * whole: it is written as NAME.new, then NAME becomes NAME.old, NAME.new becomes NAME, and NAME.old goes.
 * Whatever happens in between, one of the three is whole, and its note tells which. */

/* state: arrays as tensors; NULL or none: there is no state. */
zest_status zest_checkpoint_write_state(const char *name, const zest_loaded *loaded, const zest_params *state,
                                        uint64_t step, zest_error *error);

typedef struct {
    char *path; /* NULL: none */
    uint64_t step;
} zest_checkpoint;

void zest_checkpoint_free(zest_checkpoint *snapshot);

/* Loads the newest under this name that is whole: weights and state are what the note says. 0: there is none.
 * options: of the run. Free both whatever this says. */
int zest_checkpoint_load(const char *name, const zest_options *options, zest_loaded *loaded,
                         zest_checkpoint *snapshot);
/* Fills the arrays of a state. */
zest_status zest_checkpoint_read_state(const zest_checkpoint *snapshot, const zest_params *state,
                                       zest_error *error);
/* For the run that goes on: the snapshot gets the name, and what else a kill left there goes. */
zest_status zest_checkpoint_recover(const char *name, zest_checkpoint *snapshot, zest_error *error);
/* What the newest note says, without looking at the weights; 0: there is none. */
int zest_checkpoint_step(const char *name, uint64_t *step);

#endif
