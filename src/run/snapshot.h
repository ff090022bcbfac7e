/* Weights and a method's state at one step, for runs that no journal can rebuild.
 *
 * A snapshot is a Hugging Face folder with state.safetensors (where the method has a state) and a note,
 * zest.json: the step, the fingerprint of the weights and that of the state. The folder is replaced as a
 * whole: it is written as NAME.new, then NAME becomes NAME.old, NAME.new becomes NAME, and NAME.old goes.
 * Whatever happens in between, one of the three is whole, and its note tells which. */
#ifndef ZEST_RUN_SNAPSHOT_H
#define ZEST_RUN_SNAPSHOT_H

#include "run/load.h"

/* state: arrays as tensors; NULL or none: there is no state. */
zest_status zest_snapshot_write(const char *name, const zest_loaded *loaded, const zest_params *state,
                                uint64_t step, zest_error *error);

typedef struct {
    char *path; /* NULL: none */
    uint64_t step;
} zest_snapshot;

void zest_snapshot_free(zest_snapshot *snapshot);

/* Loads the newest under this name that is whole: weights and state are what the note says. 0: there is none.
 * options: of the run. Free both whatever this says. */
int zest_snapshot_load(const char *name, const zest_options *options, zest_loaded *loaded,
                       zest_snapshot *snapshot);
/* Fills the arrays of a state. */
zest_status zest_snapshot_read_state(const zest_snapshot *snapshot, const zest_params *state,
                                     zest_error *error);
/* For the run that goes on: the snapshot gets the name, and what else a kill left there goes. */
zest_status zest_snapshot_settle(const char *name, zest_snapshot *snapshot, zest_error *error);
/* What the newest note says, without looking at the weights; 0: there is none. */
int zest_snapshot_step(const char *name, uint64_t *step);

#endif
