/* The runs of a sweep as processes: each is `zest train` itself, so that a run in a sweep is the same run as
 * one by hand, and a crash ends one run and not the sweep. */
#ifndef ZEST_CLI_SWEEP_JOBS_H
#define ZEST_CLI_SWEEP_JOBS_H

#include "cli/output.h"
#include "lab/sweep/sweep.h"

/* --keep: the weights of finished runs */
typedef enum { ZEST_SWEEP_KEEP_ALL, ZEST_SWEEP_KEEP_BEST, ZEST_SWEEP_KEEP_NONE } zest_sweep_keep;

typedef struct {
    zest_sweep_plan *plan;
    const char *folder;
    size_t jobs;    /* at a time */
    size_t threads; /* for all of them together */
    zest_sweep_keep keep;
    int quiet;
    int interrupted; /* by Ctrl-C: what was running has stopped after its step */
} zest_sweep_jobs;

/* Makes all runs that are not finished; those that fail say why in the plan. */
zest_status zest_sweep_make_runs(zest_sweep_jobs *jobs, zest_error *error);
/* Lets these runs answer their test examples, unless they have: folder/answers/NAME.jsonl, read into the
 * plan. One that cannot is left without answers. */
zest_status zest_sweep_make_answers(zest_sweep_jobs *jobs, const size_t *runs, size_t count,
                                    zest_error *error);
/* Removes the weights that are not to be kept, once nobody asks for them any more. */
void zest_sweep_drop_weights(const zest_sweep_jobs *jobs);

#endif
