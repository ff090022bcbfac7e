/* What evaluations, predictions and measurements look at: a run at one of its steps, or a model. */
#ifndef ZEST_LM_TARGET_H
#define ZEST_LM_TARGET_H

#include "base/progress.h"
#include "train/broadcast.h"
#include "train/load.h"
#include "train/run_folder.h"

typedef struct {
    zest_options options; /* those of the run, and what was given on top */
    zest_loaded loaded;
    int is_run;
    uint64_t step;       /* of a run */
    zest_inputs inputs;  /* what the run was made from: to be set as `recorded` of the data that are loaded */
    zest_broadcast sent; /* files of rank 0, with --broadcast: `places` is to be set in these data, too */
} zest_target;

typedef struct {
    void (*note)(const char *sentences, void *user); /* what a user should know about the run; or NULL */
    void *user;
    zest_progress_callback rebuild; /* steps are replayed */
} zest_target_callbacks;

/* Close it whatever this says. */
zest_status zest_target_open(zest_ctx *ctx, zest_target *target, const char *path, const zest_options *given,
                             const zest_target_callbacks *callbacks, zest_error *error);
void zest_target_close(zest_target *target);

/* Is this path a model rather than a run? */
int zest_target_is_model(const char *path);

#endif
