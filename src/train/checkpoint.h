/* Checkpoints: the weights of a run in a Hugging Face folder, with the step in zest.json.
 *
 * zest.json has the step, the fingerprint of the trained weights and the journal's checksum, and is written
 * last. A kill in between leaves a fingerprint that does not match: the checkpoint is then ignored, and the
 * journal gives the weights. */
#ifndef ZEST_TRAIN_CHECKPOINT_H
#define ZEST_TRAIN_CHECKPOINT_H

#include "optim/journal.h"
#include "train/load.h"

/* journal: its checksum at the step (that of the header for first-order runs); NULL: the folder is no part of a run. */
zest_status zest_checkpoint_write(const char *folder, const zest_loaded *loaded, uint64_t step,
                                  const uint32_t *journal, zest_error *error);
/* Whether zest.json has the checksum of another journal. Older ones have none and pass. recorded: the journal has the
 * run's steps; 0: a first-order run. */
int zest_checkpoint_is_foreign(const char *name, const zest_journal *journal, int recorded);
/* Reads zest.json; 0: there is none, or it is damaged. */
int zest_checkpoint_read(const char *folder, uint64_t *step, uint64_t *fingerprint);

/* Weights and optimizer state of one step, for first-order runs, which no journal can rebuild.
 *
 * The folder also has state.safetensors (where the optimizer has a state), whose fingerprint is in zest.json too. It is
 * replaced atomically: it is written as NAME.new, then NAME becomes NAME.old, NAME.new becomes NAME, and NAME.old is
 * removed. After a kill at any moment one of the three is complete, and the fingerprints tell which. */

/* state: arrays as tensors; NULL or none: there is no state. */
zest_status zest_checkpoint_write_state(const char *name, const zest_loaded *loaded, const zest_params *state,
                                        uint64_t step, uint32_t journal, zest_error *error);

typedef struct {
    char *path; /* NULL: none */
    uint64_t step;
} zest_checkpoint;

void zest_checkpoint_free(zest_checkpoint *checkpoint);

/* Loads the newest of the three whose weights and state match their fingerprints. checkpoint->path is NULL when there
 * is none. One that cannot be read now (short memory, a failing disk) is an error, not a reason to do without it.
 * options: of the run. Free both whatever this returns. */
zest_status zest_checkpoint_load(const char *name, const zest_options *options, zest_loaded *loaded,
                                 zest_checkpoint *checkpoint, zest_error *error);
/* Reads the state into its arrays. */
zest_status zest_checkpoint_read_state(const zest_checkpoint *checkpoint, const zest_params *state,
                                       zest_error *error);
/* Before a run is resumed: renames the checkpoint to `name` and removes what a kill left of the other two. */
zest_status zest_checkpoint_recover(const char *name, zest_checkpoint *checkpoint, zest_error *error);
/* The newest step, without reading the weights; 0: there is none. */
int zest_checkpoint_step(const char *name, uint64_t *step);

#endif
