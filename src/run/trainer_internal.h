/* The trainer's insides, for the files that make it up: trainer.c (a run from end to end), trainer_step.c
 * (one step), trainer_eval.c (evaluations, best weights), trainer_tell.c (log, events, news). */
#ifndef ZEST_RUN_TRAINER_INTERNAL_H
#define ZEST_RUN_TRAINER_INTERNAL_H

#include "core/context.h"
#include "run/events.h"
#include "run/load.h"
#include "run/log.h"
#include "run/rebuild.h"
#include "run/trainer.h"

enum { ZEST_TRAINER_EVAL_TOKENS = 16384 }; /* in a batch of an evaluation */

typedef struct {
    zest_ctx *ctx;
    zest_options *options;
    const zest_trainer_hooks *hooks;
    zest_error *error;
    int kept; /* there is a folder */
    zest_folder folder;

    zest_loaded loaded;
    zest_loaded_data data;
    zest_stepper stepper;
    zest_journal_writer journal;
    zest_log_writer *log;
    zest_events *events;

    zest_batch batch;
    uint32_t *order; /* of the epoch */
    uint64_t epoch;  /* that order is of; UINT64_MAX: none yet */
    zest_model_lane *lanes;
    double *losses;                  /* of the lanes on the batch's examples */
    double *means;                   /* one a lane */
    double *scores;                  /* for objectives other than the loss */
    size_t losses_room, scores_room; /* numbers */
    double *recent;                  /* losses of the latest steps of this session: a ring, for advice on t */
    size_t recent_count;             /* steps; beyond ZEST_TILT_ADVICE_STEPS they replace the oldest */
    int advised;

    uint64_t step; /* taken so far */
    uint64_t bad_in_a_row, dropped;
    zest_metrics start, dev; /* dev: the latest */
    uint64_t dev_step;
    int any_dev;
    double best; /* by the selection; NaN: none */
    uint64_t best_step;
    double began, before; /* clock at the start of this session; seconds of the sessions before */
    double saved;         /* clock at the last checkpoint */
} zest_trainer;

double zest_trainer_seconds(const zest_trainer *t);

/* ---- trainer_step.c ---- */
/* The examples of the step behind t->step, the losses of its lanes, the update. */
zest_status zest_trainer_step(zest_trainer *t, zest_tilt_report *report, double *lr, double *seconds);

/* ---- trainer_eval.c ---- */
/* generate: answers of free text, too, not only their loss. */
zest_status zest_trainer_evaluate(zest_trainer *t, const zest_loaded *loaded, zest_task_part part,
                                  int generate, zest_metrics *metrics);
/* Evaluates the dev examples at t->step, keeps the weights if they are the best, and tells. */
zest_status zest_trainer_check_dev(zest_trainer *t);
/* Is it time? At the start, every --eval-every steps and behind the last one. */
int zest_trainer_dev_due(const zest_trainer *t);
/* What the log of a resumed run says about evaluations up to t->step; those that it lost are made again. */
zest_status zest_trainer_recall(zest_trainer *t, const zest_rebuild_job *job, const zest_log *log);

/* ---- trainer_tell.c ---- */
zest_status zest_trainer_tell_start(zest_trainer *t, int resumed);
zest_status zest_trainer_tell_step(zest_trainer *t, const zest_tilt_report *report, double lr,
                                   double seconds);
zest_status zest_trainer_tell_eval(zest_trainer *t, const zest_metrics *metrics, int best);
zest_status zest_trainer_tell_end(zest_trainer *t, const zest_trainer_result *result);

#endif
