/* Training: the loop of steps and evaluations, the best weights, log and checkpoints.
 *
 *     zeroth order   ask for lanes -> batch -> losses of 2k lanes -> tell: tilt, journal, update -> log
 *     first order    batch -> gradients -> update -> log, and a checkpoint from time to time
 *
 * Everything that decides the run is a function of its options and of the step's number (batches, directions,
 * dropout) or is recorded (losses in the journal, weights and state in checkpoints, evaluations in the log). So a
 * run that is killed and resumed takes the same steps, finds the same best weights and stops at the same step as one
 * that was not: zeroth-order runs on any machine, first-order runs on the same kind of machine.
 *
 * With --text the run is one of zest pretrain: language modelling, by AdamW. */
#ifndef ZEST_TRAIN_TRAINER_H
#define ZEST_TRAIN_TRAINER_H

#include <signal.h>

#include "optim/choose_t.h"
#include "optim/stop.h"
#include "task/metric.h"
#include "train/run_folder.h"

typedef enum {
    ZEST_TRAINED_STEPS,       /* all steps are done */
    ZEST_TRAINED_PATIENCE,    /* the dev examples got no better */
    ZEST_TRAINED_TIME,        /* --seconds are over */
    ZEST_TRAINED_INTERRUPTED, /* *stop was set */
    ZEST_TRAINED_DIVERGED,    /* the loss has exploded; the best weights are kept and evaluated */
} zest_trained_reason;

const char *zest_trainer_reason(zest_trained_reason reason);

/* Where a run stands: reported after every step (dev is the latest evaluation) and every evaluation. */
typedef struct {
    uint64_t step, steps;
    double loss, lr, effective, spread, slope, curvature, norm, tokens_per_second,
        seconds; /* NaN: the method has none */
    zest_metrics dev;
    uint64_t dev_step;
    double dev_seconds;             /* of the latest evaluation; NaN: none yet in this session */
    int evaluated;                  /* reported for an evaluation */
    int best;                       /* which is the best so far */
    const zest_tilt_advice *advice; /* on t, with a session's first evaluation after a step; else NULL */
} zest_trainer_progress;

/* The plan of a run. The texts last for the call. */
typedef struct {
    const zest_options *options; /* with every default filled in */
    const char *family, *weights;
    uint64_t parameters, trained;
    const char *task, *select;   /* select: what is best on the dev examples */
    size_t train, dev, test;     /* examples */
    size_t cut;                  /* texts that are too long and are shortened */
    uint64_t step;               /* after which a resumed run goes on */
    double epochs, batch_tokens; /* tokens of a batch, on the average */
    uint64_t evaluations;        /* of the dev examples, from the start to the end */
    uint64_t memory;             /* bytes of a step, estimated: of the device's memory if on_device */
    size_t live;                 /* pairs of lanes in memory at once; 0: the method has none */
    int on_device;
    /* of a dry run, which takes a step or two; else NaN and 0 */
    double step_seconds, total_seconds;
    uint64_t peak_bytes, device_peak_bytes; /* measured */
} zest_trainer_summary;

typedef struct {
    void (*on_start)(const zest_trainer_summary *summary, void *user); /* before the first step; or NULL */
    void (*on_progress)(const zest_trainer_progress *progress, void *user); /* or NULL */
    void (*on_rebuild)(uint64_t step, uint64_t wanted, void *user);         /* steps are replayed; or NULL */
    void (*on_evaluate)(uint64_t done, uint64_t all, void *user); /* examples are evaluated; or NULL */
    void (*on_note)(const char *sentence,
                    void *user); /* what a user should know about a resumed run; or NULL */
    void *user;
    volatile sig_atomic_t *stop; /* set by a signal handler; or NULL */
} zest_trainer_hooks;

typedef struct {
    zest_trained_reason reason;
    uint64_t step, best_step;
    zest_metrics start, dev, test; /* dev and test with the best weights; n = 0 when not evaluated */
    double seconds;
    uint64_t peak_bytes;        /* resident, of the process */
    uint64_t device_peak_bytes; /* of the device's memory; 0: the CPU */
    uint64_t dropped_pairs;
    size_t train, dev_count, test_count; /* examples */
    size_t cut;                          /* texts that were too long and were shortened */
    char metric[16];                     /* the task's: "accuracy" */
    zest_divergence divergence;          /* of the training loss */
} zest_trainer_result;

/* A new run in the folder --out. Without it nothing is saved, and the result is still that of the best weights. */
zest_status zest_trainer_run(zest_ctx *ctx, zest_options *options, const zest_trainer_hooks *hooks,
                             zest_trainer_result *result, zest_error *error);
/* Everything up to the first step, and one or two steps to time them: hooks->on_start gets the plan. Nothing is
 * written. */
zest_status zest_trainer_dry_run(zest_ctx *ctx, zest_options *options, const zest_trainer_hooks *hooks,
                                 zest_error *error);
/* Resumes a run. Of `given` only the options that were given count, and only those that may change: how long to
 * train, and where model and data are now (column `changes` of base/option_table.h). */
zest_status zest_trainer_resume(zest_ctx *ctx, const char *folder, const zest_options *given,
                                const zest_trainer_hooks *hooks, zest_trainer_result *result,
                                zest_error *error);

#endif
