/* The trainer from inside. A run has operations, by the kind of its method, which take steps and save weights; and
 * a source, which it trains on. The loop in trainer.c knows neither.
 *
 *     trainer.c               a run from start to end        trainer_data.c     sources: a task's examples, plain text
 *     trainer_zeroth.c        steps by forward passes        trainer_eval.c     evaluations, the best weights
 *     trainer_first_order.c   steps by gradients             trainer_log.c      summary, log, progress
 *     trainer_parts.c         gradients of a batch in parts  trainer_resume.c   resuming a run
 *     trainer_ranks.c         several processes              trainer_covariance.c   rows of inputs */
#ifndef ZEST_TRAIN_TRAINER_INTERNAL_H
#define ZEST_TRAIN_TRAINER_INTERNAL_H

#include "optim/context.h"
#include "optim/tuner.h"
#include "task/corpus.h"
#include "train/broadcast.h"
#include "train/log.h"
#include "train/load.h"
#include "train/rebuild.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

enum { ZEST_TRAINER_EVAL_TOKENS = 16384 }; /* in a batch of an evaluation */

typedef struct zest_trainer zest_trainer;
typedef struct zest_trainer_gradients zest_trainer_gradients; /* trainer_first_order.c */
typedef struct zest_trainer_ranks zest_trainer_ranks;         /* trainer_ranks.c */

/* Statistics of a step. A number that the method does not have is NaN. */
typedef struct {
    double loss, lr, effective, spread, slope, curvature, t, scale, norm, seconds;
    uint64_t dropped;
    size_t passes; /* through the model, for the speed */
} zest_step_stats;

/* When weights may be saved: after a step, an evaluation, the best evaluation so far, at the end. */
typedef enum { ZEST_SAVE_STEP, ZEST_SAVE_EVAL, ZEST_SAVE_BEST, ZEST_SAVE_END } zest_save_reason;

typedef struct {
    /* Checks the options before anything is loaded; NULL: any will do. */
    zest_status (*check)(const zest_options *options, zest_error *error);
    /* Of a resumed run: t->step, and the weights of that step. */
    zest_status (*restore)(zest_trainer *t);
    /* Loads the weights of an earlier step into t->loaded. ZEST_ERROR_STATE: there are none of that step. */
    zest_status (*load_step)(zest_trainer *t, uint64_t step);
    /* Allocates what steps need: once model and examples are loaded, before the first step. */
    zest_status (*prepare)(zest_trainer *t);
    /* Of a resumed run on several ranks, after prepare: the state of rank 0 to all; NULL: there is none. */
    zest_status (*share)(zest_trainer *t);
    /* Takes one step and increments t->step. */
    zest_status (*step)(zest_trainer *t, zest_step_stats *stats);
    zest_status (*save)(zest_trainer *t, zest_save_reason reason);
    /* Bytes that a step needs with batches of so many tokens; after prepare. *live: pairs at once, or 0. */
    uint64_t (*memory)(zest_trainer *t, size_t tokens, size_t *live);
    void (*release)(zest_trainer *t); /* frees what prepare made, which refers to the model; twice is fine */
} zest_trainer_ops;

extern const zest_trainer_ops zest_trainer_zeroth_order, zest_trainer_first_order;

typedef struct {
    /* Loads the data and fills in counts, task and metrics. */
    zest_status (*load)(zest_trainer *t);
    /* The batch of step t->step, a function of seed and step: t->objective. */
    zest_status (*batch)(zest_trainer *t);
    /* Some of its examples, which last until the next call. */
    zest_status (*part)(zest_trainer *t, size_t first, size_t count, const zest_model_objective **objective);
    /* generate: also generate the answers of free-text tasks, not only their loss. */
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
    unsigned users;  /* whose options the run has: ZEST_FOR_TRAIN or ZEST_FOR_TRAINING */
    zest_comm *comm; /* the ranks of the run; while rank 0 reads its folder, a single process */
    zest_comm alone;
    zest_broadcast sent; /* files of rank 0, with --broadcast */
    int has_output_dir;  /* --out was given, and this rank writes it: rank 0 */
    int is_kept;         /* --out was given */
    int dry_run;
    zest_run_folder folder;

    zest_loaded loaded;
    zest_inputs inputs;          /* files that the run was made from */
    zest_journal_writer journal; /* of a first-order run only the header: its start, and its lock */
    zest_journal *record;        /* while a run is being resumed */
    int format;                  /* of the journal */
    zest_log_writer *log;
    zest_tensorboard *events;

    /* of the source */
    const char *task;
    size_t classes;
    zest_metric metric, select;
    size_t counts[3]; /* examples, by part */
    size_t cut;       /* texts that were truncated */
    zest_loaded_data data;
    zest_batch batch;
    zest_corpus corpus;
    zest_corpus_batch text;
    zest_batch part_batch; /* some examples of a batch */
    zest_corpus_batch part_text;
    const zest_model_objective *objective; /* of the batch */
    uint32_t *order;                       /* of the epoch */
    uint64_t epoch;                        /* of that order; UINT64_MAX: none yet */

    /* of the method */
    zest_tuner *tuner; /* zeroth-order: the optimiser */
    zest_model_lane *lanes;
    double *losses; /* (lanes, examples) */
    double *means;  /* (lanes): what the tuner is told: the objective of each, or the loss of its example */
    double *scores; /* (lanes, items or label words), for other objectives than the loss */
    size_t losses_capacity, scores_capacity; /* numbers */
    zest_batch one;                          /* example, where each has directions of its own */
    double *recent;      /* losses of the latest steps of this session: a ring buffer, for advice on t */
    size_t recent_count; /* steps of this session; the ring holds ZEST_TILT_ADVICE_STEPS */
    int advised;
    zest_trainer_gradients *gradients;
    zest_trainer_ranks *ranks;    /* NULL before the first step that is divided */
    zest_checkpoint resumed_from; /* first-order: the checkpoint to read the optimizer's state from */
    uint64_t saved_step;          /* of the last checkpoint; UINT64_MAX: none */

    struct {               /* of a run without --out: see trainer_eval.c */
        uint64_t start;    /* fingerprint of the initial weights */
        zest_buffer steps; /* zeroth-order: lr and losses of every step */
        char *best;        /* first-order: a copy of the best weights */
    } history;

    uint64_t step;         /* taken so far */
    uint64_t bad_in_a_row; /* first-order: steps without a finite loss and gradient */
    uint64_t dropped;      /* pairs */
    zest_divergence divergence;
    zest_metrics start, dev; /* dev: the latest */
    uint64_t dev_step;
    double dev_seconds; /* of the latest evaluation */
    int has_dev;        /* dev has been evaluated */
    double best;        /* best dev value by zest_trainer_selection; NaN: none */
    double best_loss;   /* of the same evaluation: decides between equal values */
    uint64_t best_step;
    int first_of_equals;   /* a run of zest 0.1: of equal values the first is best, whatever its loss */
    double began, earlier; /* clock at the start of this session; seconds of earlier sessions */
    double saved;          /* clock at the last checkpoint */
};

double zest_trainer_seconds(const zest_trainer *t);

/* ---- trainer.c ---- */

/* Sets ops, source and users from the options. */
void zest_trainer_select_ops(zest_trainer *t);
/* The model that the run starts from; without its weights, where rank 0 sends them. */
zest_status zest_trainer_load_model(zest_trainer *t);
zest_status zest_trainer_load(zest_trainer *t); /* the data, by the source; resolves --epochs */
zest_status zest_trainer_open_logs(zest_trainer *t);
/* Refuses several ranks for methods with gradients whose batches have only one part. */
zest_status zest_trainer_check_ranks(const zest_trainer *t);

/* ---- trainer_ranks.c ----
 *
 * With a single rank the functions that compare and send do nothing. */

/* The losses of the lanes on the batch, (lanes, examples), or their scores, (lanes, values), of which every rank computes
 * a share. */
zest_status zest_trainer_gather_losses(zest_trainer *t, size_t lanes, int scored, double *out);
/* counts[r] numbers of each rank r, one after the other. status: of this rank, whose failure is one of all. */
zest_status zest_trainer_gather_values(zest_trainer *t, zest_status status, const double *own,
                                       const size_t *counts, double *out);
/* The losses of a step, which the ranks compare with those of the next one. */
void zest_trainer_ranks_note(zest_trainer *t, const double *losses, size_t count);
/* Whether a rank was interrupted, or rank 0's time is over, before the latest step. */
int zest_trainer_ranks_stop(const zest_trainer *t, zest_trained_reason *reason);
/* Whether all ranks could start, with the same options, examples and weights. status: of this rank. */
zest_status zest_trainer_compare_start(zest_trainer *t, zest_status status);
/* Compares the weights every 100 steps; always: now. */
zest_status zest_trainer_compare_weights(zest_trainer *t, int always);
/* The trained weights of rank 0, to all, with --broadcast the others, too; and with them where a run stands. */
zest_status zest_trainer_send_weights(zest_trainer *t, const zest_loaded *loaded);
zest_status zest_trainer_send_state(zest_trainer *t);
void zest_trainer_ranks_free(zest_trainer *t);

/* ---- trainer_covariance.c: with --covariance inputs ---- */

/* Samples the rows of inputs of a new run, once the ranks have compared their start, and completes the option. */
zest_status zest_trainer_start_inputs(zest_trainer *t);
/* Those of rank 0 to the others. */
zest_status zest_trainer_send_inputs(zest_trainer *t);

/* ---- trainer_examples.c ---- */

/* Of a step whose examples have k directions each: (2, k) losses of examples first .. end-1, the plus lanes and the minus
 * lanes apart; and those of the step as the tuner takes them. */
zest_status zest_trainer_example_piece(zest_trainer *t, size_t first, size_t end, double *plus,
                                       double *minus);
zest_status zest_trainer_example_losses(zest_trainer *t, double *losses);

/* ---- trainer_resume.c ---- */

/* Options, weights and state as they were after the last recorded step. */
zest_status zest_trainer_restore(zest_trainer *t, const zest_options *given);

/* ---- trainer_eval.c ---- */

zest_metric zest_trainer_selection(const zest_trainer *t); /* the metric that selects the best weights */
/* Is an evaluation due? At the start, every --eval-every steps and after the last one. */
int zest_trainer_eval_due(const zest_trainer *t);
/* Evaluates the dev examples at t->step, saves the weights if they are the best, and logs. */
zest_status zest_trainer_evaluate_dev(zest_trainer *t);
/* Takes the evaluations up to t->step from the log of a resumed run, and repeats those that it lost. */
zest_status zest_trainer_restore_evals(zest_trainer *t, const zest_log *log);

/* A run without --out keeps what its best weights need. */
void zest_trainer_start_history(zest_trainer *t);
/* Zeroth-order: a step, before it is applied. */
zest_status zest_trainer_add_history(zest_trainer *t, const zest_record *record);
/* First-order: the weights are the best so far. */
zest_status zest_trainer_copy_best(zest_trainer *t);
/* Makes t->loaded the weights of t->best_step. Needs what prepare made. */
zest_status zest_trainer_restore_best(zest_trainer *t);
void zest_trainer_free_history(zest_trainer *t);

/* ---- trainer_log.c ---- */

void zest_trainer_report_start(zest_trainer *t);      /* to hooks->on_start */
zest_status zest_trainer_time_steps(zest_trainer *t); /* the dry run, after the start */
zest_status zest_trainer_log_start(zest_trainer *t, int resumed);
zest_status zest_trainer_log_step(zest_trainer *t, const zest_step_stats *stats);
zest_status zest_trainer_log_eval(zest_trainer *t, const zest_metrics *metrics, int best);
zest_status zest_trainer_log_end(zest_trainer *t, const zest_trainer_result *result);

#endif
