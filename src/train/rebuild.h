/* The model of a run at any of its steps: from an earlier checkpoint or from the start, by replaying the recorded
 * steps. The same bits on every machine. First-order runs record no steps: they have the start and the checkpoints. */
#ifndef ZEST_TRAIN_REBUILD_H
#define ZEST_TRAIN_REBUILD_H

#include "base/progress.h"
#include "optim/journal.h"
#include "optim/step.h"
#include "train/run_folder.h"
#include "train/load.h"

typedef struct {
    const zest_run_folder *folder;
    const zest_options *options; /* of the run; --model says where it started from */
    zest_journal *journal;
    zest_progress_callback progress; /* of the replay */
} zest_rebuild_job;

/* Loads the model into *loaded, with its tokenizer. Free it whatever this returns. */
zest_status zest_rebuild(const zest_rebuild_job *job, uint64_t step, zest_loaded *loaded, zest_error *error);

/* Of a run with --covariance inputs: reads the rows of inputs that its directions are made of, unless the model has them. */
zest_status zest_rebuild_inputs(const zest_run_folder *folder, const zest_journal *journal,
                                zest_loaded *loaded, zest_error *error);

/* A step as text: a number, "last", or "best" (the step that best/ holds, or that the result of a
 * finished run names). */
zest_status zest_rebuild_step(const zest_run_folder *folder, const zest_journal *journal, const char *text,
                              uint64_t *step, zest_error *error);

/* The same for a first-order run, from its start and its checkpoints. ZEST_ERROR_STATE: there is none of this step. */
zest_status zest_rebuild_checkpoint(const zest_run_folder *folder, const zest_options *options,
                                    const zest_journal *journal, const char *text, uint64_t *step,
                                    zest_loaded *loaded, zest_error *error);

/* The model of the run in a folder, for commands that only read it: opens the journal by itself.
 * ctx is where the journal reports. progress: NULL is fine. */
zest_status zest_rebuild_run(zest_ctx *ctx, const zest_run_folder *folder, const zest_options *options,
                             const char *step_text, const zest_progress_callback *progress, uint64_t *step,
                             zest_loaded *loaded, zest_error *error);
#endif
