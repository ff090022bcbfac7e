/* The trainer's insides. A run has a way, which is how it takes and keeps steps, and a source, which is what
 * it trains on; the loop knows neither.
 *
 *     trainer.c         a run from end to end         zeroth.c   forward passes and a journal
 *     trainer_start.c  a run that goes on            first_order.c    gradients and snapshots
 *     trainer_eval.c    evaluations, what is best     trainer_start.c     the examples of a task
 *     trainer_log.c    log, events, news             trainer_start.c     text, for zest pretrain
 *     trainer_eval.c  the best weights without a folder
 *     trainer_start.c   what the run is going to be */
#ifndef ZEST_TRAIN_TRAINER_INTERNAL_H
#define ZEST_TRAIN_TRAINER_INTERNAL_H

#include "optim/context.h"
#include "optim/tuner.h"
#include "task/corpus.h"
#include "train/log.h"
#include "train/load.h"
#include "train/rebuild.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

enum { ZEST_TRAINER_EVAL_TOKENS = 16384 }; /* in a batch of an evaluation */

typedef struct zest_trainer zest_trainer;
typedef struct zest_trainer_gradients zest_trainer_gradients; /* first_order.c */

/* What a step was like. A number that the method does not have is NaN. */
typedef struct {
    double loss, lr, effective, spread, norm, seconds;
    uint64_t dropped;
    size_t passes; /* through the model, for the speed */
} zest_step_stats;

/* When weights may be kept. */
typedef enum { ZEST_SAVE_STEP, ZEST_SAVE_EVAL, ZEST_SAVE_BEST, ZEST_SAVE_END } zest_save_reason;

typedef struct {
    zest_status (*check)(const zest_options *options, zest_error *error); /* the options, before anything */
    /* Of a resumed run: how far it is, and the weights there. */
    zest_status (*restore)(zest_trainer *t);
    /* The weights of an earlier step instead of those in t->loaded. ZEST_ERROR_STATE: they are not kept. */
    zest_status (*weights)(zest_trainer *t, uint64_t step);
    /* What steps need: behind model and examples, before the first step. */
    zest_status (*prepare)(zest_trainer *t);
    /* The step behind t->step, which it counts up. */
    zest_status (*step)(zest_trainer *t, zest_step_stats *stats);
    zest_status (*save)(zest_trainer *t, zest_save_reason moment);
    /* Bytes that a step takes with batches of so many tokens, behind arm. *live: pairs at once, or 0. */
    uint64_t (*memory)(zest_trainer *t, size_t tokens, size_t *live);
    void (*release)(zest_trainer *t); /* what arm made, which refers to the model; twice is fine */
} zest_trainer_ops;

extern const zest_trainer_ops zest_trainer_zeroth_order, zest_trainer_first_order;

typedef struct {
    /* Fills in counts, task and metrics. */
    zest_status (*load)(zest_trainer *t);
    /* The batch of step t->step, a function of seed and step: t->objective. */
    zest_status (*batch)(zest_trainer *t);
    /* generate: answers of free text, too, not only their loss. */
    zest_status (*evaluate)(zest_trainer *t, const zest_loaded *loaded, zest_task_part part, int generate,
                            zest_metrics *metrics);
    void (*free)(zest_trainer *t);
} zest_trainer_source;

extern const zest_trainer_source zest_trainer_task, zest_trainer_text;

struct zest_trainer {
    zest_ctx *ctx;
    zest_options *options;
    const zest_trainer_hooks *hooks;
    zest_error *error;
    const zest_trainer_ops *ops;
    const zest_trainer_source *source;
    unsigned users;     /* whose options the run has */
    int has_output_dir; /* there is a folder */
    int trying;         /* a dry run */
    zest_run_folder folder;

    zest_loaded loaded;
    zest_inputs inputs;          /* what the run was made from */
    zest_journal_writer journal; /* of a first-order run its header alone: the start, and the lock */
    zest_journal *record;        /* while a run is being resumed */
    zest_log_writer *log;
    zest_tensorboard *events;

    /* the source's */
    const char *task;
    size_t classes;
    zest_metric metric, select;
    size_t counts[3]; /* examples, by part */
    size_t cut;       /* texts that were too long and were shortened */
    zest_loaded_data data;
    zest_batch batch;
    zest_corpus corpus;
    zest_corpus_batch text;
    const zest_model_objective *objective; /* of the batch */
    uint32_t *order;                       /* of the epoch */
    uint64_t epoch;                        /* that order is of; UINT64_MAX: none yet */

    /* the way's */
    zest_tuner *tuner; /* of a zeroth-order run */
    zest_model_lane *lanes;
    double *losses;                          /* of the lanes on the batch's examples */
    double *means;                           /* one a lane */
    double *scores;                          /* for objectives other than the loss */
    size_t losses_capacity, scores_capacity; /* numbers */
    double *recent;      /* losses of the latest steps of this session: a ring, for advice on t */
    size_t recent_count; /* steps; beyond ZEST_TILT_ADVICE_STEPS they replace the oldest */
    int advised;
    zest_trainer_gradients *gradients;
    zest_checkpoint from; /* a resumed first-order run: what its state is read from */
    uint64_t saved_step;  /* of the last snapshot; UINT64_MAX: none */

    struct {               /* of a run without a folder: see trainer_eval.c */
        uint64_t start;    /* fingerprint of the first weights */
        zest_buffer steps; /* lr and losses of every step */
        char *weights;     /* the best ones, of a run with gradients */
    } memory;

    uint64_t step; /* taken so far */
    uint64_t bad_in_a_row, dropped;
    zest_divergence divergence;
    zest_metrics start, dev; /* dev: the latest */
    uint64_t dev_step;
    double dev_seconds; /* that it took */
    int any_dev;
    double best;      /* by the selection; NaN: none */
    double best_loss; /* on the same examples: decides between equal ones */
    uint64_t best_step;
    int first_of_equals;  /* a run of zest 0.1: of equal ones the first is best, whatever its loss */
    double began, before; /* clock at the start of this session; seconds of the sessions before */
    double saved;         /* clock at the last checkpoint */
};

double zest_trainer_seconds(const zest_trainer *t);

/* ---- trainer.c ---- */
/* What the options mean: way, source, users. */
void zest_trainer_select_ops(zest_trainer *t);
zest_status zest_trainer_load(zest_trainer *t); /* the examples, by the source */
zest_status zest_trainer_open_logs(zest_trainer *t);

/* ---- trainer_start.c ---- */
zest_trainer_summary zest_trainer_summarize(zest_trainer *t); /* behind arm */
void zest_trainer_announce(zest_trainer *t);                  /* to hooks->start */
zest_status zest_trainer_try(zest_trainer *t);                /* the dry run, behind the start */

/* ---- trainer_start.c ---- */
/* Options, weights and state as they were behind the last step that is kept. */
zest_status zest_trainer_restore(zest_trainer *t, const zest_options *given);

/* ---- trainer_start.c ---- */
/* The examples of step t->step: a part of the epoch's permutation. */
const uint32_t *zest_trainer_examples(zest_trainer *t, size_t *count);

/* ---- trainer_eval.c ---- */
zest_metric zest_trainer_selection(const zest_trainer *t); /* what is best by */
/* Evaluates the dev examples at t->step, keeps the weights if they are the best, and tells. */
zest_status zest_trainer_evaluate_dev(zest_trainer *t);
/* Is it time? At the start, every --eval-every steps and behind the last one. */
int zest_trainer_dev_due(const zest_trainer *t);
/* What the log of a resumed run says about evaluations up to t->step; those that it lost are made again. */
zest_status zest_trainer_restore_evals(zest_trainer *t, const zest_log *log);

/* ---- trainer_eval.c: a run without a folder ---- */
void zest_trainer_memory_begin(zest_trainer *t);
/* A zeroth-order step is about to be applied. */
zest_status zest_trainer_memory_step(zest_trainer *t, const zest_record *record);
/* The weights are the best so far. */
zest_status zest_trainer_memory_best(zest_trainer *t);
/* Makes the weights of t->best_step those of t->loaded. Needs what arm made. */
zest_status zest_trainer_memory_return(zest_trainer *t);
void zest_trainer_memory_free(zest_trainer *t);

/* ---- trainer_log.c ---- */
zest_status zest_trainer_log_start(zest_trainer *t, int resumed);
zest_status zest_trainer_log_step(zest_trainer *t, const zest_step_stats *stats);
zest_status zest_trainer_log_eval(zest_trainer *t, const zest_metrics *metrics, int best);
zest_status zest_trainer_log_end(zest_trainer *t, const zest_trainer_result *result);

#endif
