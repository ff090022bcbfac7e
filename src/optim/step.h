/* One step of a run: directions, tilt, update, learning rate. The tuner takes new steps with it, and replay takes
 * recorded ones, so the two cannot differ. */
#ifndef ZEST_OPTIM_STEP_H
#define ZEST_OPTIM_STEP_H

#include "base/error.h"
#include "kernels/ops.h"
#include "io/tensor.h"
#include "base/option.h"

/* ---- The tilt (tilt.c) ---- */

/* Checks the options of a tilt. */
zest_status zest_tilt_check(const zest_tilt_options *options, zest_error *error);

/* zest_tilt on checked options. The coefficients are a function of IEEE operations alone (see
 * base/exp.h). */
void zest_tilt_compute(const zest_tilt_options *options, const double *losses, double *coefficients,
                       zest_tilt_report *report);

/* The two parts of the losses of k pairs, f+ = b_i + a_i and f- = b_i - a_i, as sums over the finite pairs. Over random
 * directions the mean of a_i is 0, since the sign of a direction is arbitrary. */
typedef struct {
    double pairs;     /* finite ones */
    double slope;     /* sum of a_i^2 */
    double curvature; /* sum of (b_i - mean b)^2 */
} zest_loss_parts;
zest_loss_parts zest_tilt_split(const double *losses, size_t k);

/* ---- The update: one pass over the parameters for all directions of a step ---- */

typedef struct {
    const zest_direction *directions;
    const double *g; /* coefficients of the gradient estimate */
    size_t k;
    double lr, decay;
    uint64_t rounding; /* seed */
    int nearest;       /* 16-bit weights to the nearest instead (ties away from zero) */
} zest_update;

/* x = (1 - lr decay) x - lr sum_i g_i v_i, element by element: first the decay, then for i in order
 * x = fma(c_i, z_i, x) with c_i = -lr g_i gain_i rounded once to the type of x. 16-bit weights are updated in
 * fp32 and rounded stochastically at the end, with bits from `rounding`: else most small updates would
 * vanish. A function of its arguments alone: the same bits for any number of threads and any backend.
 * Directions with g_i = 0 are left out. */
void zest_update_apply(const zest_vector_ops *ops, int threads, const zest_params *params,
                       const zest_update *update);

/* The same for a matrix whose noise has low rank, tile by tile (update_lowrank.c). */
int64_t zest_update_tiles(const zest_tensor *tensor);
void zest_update_tile(const zest_vector_ops *ops, const zest_tensor *tensor, int64_t tile,
                      const zest_update *update);

/* ---- The step ---- */

/* Where the parameters are. `apply` updates them there; NULL: they are in host memory, in params. */
typedef struct {
    const zest_params *params; /* with `apply`, only their names, types and sizes are read */
    zest_status (*apply)(void *user, const zest_update *update, zest_error *error);
    void *user;
} zest_step_storage;

enum { ZEST_AUTO_T_STEPS = 64, ZEST_AUTO_T_LEAST = 32 };
/* What t=auto remembers (auto_t.h): the latest steps, in a ring. */
typedef struct {
    uint64_t count; /* steps that were added */
    zest_loss_parts parts[ZEST_AUTO_T_STEPS];
} zest_auto_t;

/* The steps that momentum adds up (momentum.c): the one in hand, then those before it. */
typedef struct {
    double mu;                  /* 0: none */
    size_t k, steps, past;      /* past: steps before the one in hand, at most steps - 1 */
    zest_direction *directions; /* (steps, k) */
    double *g;                  /* (steps, k) */
} zest_momentum;
zest_status zest_momentum_init(zest_momentum *m, double mu, size_t steps, size_t k, zest_error *error);
void zest_momentum_free(zest_momentum *m);
/* The step in hand, and: it was taken. */
void zest_momentum_add(zest_momentum *m, const zest_direction *directions, const double *g);
void zest_momentum_keep(zest_momentum *m);

typedef enum {
    ZEST_LENGTH_ESTIMATE,
    ZEST_LENGTH_MEZO,
    ZEST_LENGTH_SPREAD
} zest_step_length; /* as in the table */

typedef struct {
    const zest_vector_ops *ops;
    int threads;
    zest_tilt_options tilt; /* with t=auto, t is that of the latest step */
    zest_step_length length;
    double max_step; /* in lengths of a perturbation; 0: no bound */
    zest_momentum momentum;
    size_t each;     /* pairs of one example, where each has its own (directions.h); else 0 */
    size_t padding;  /* pairs of this step without an example */
    int per_example; /* the tilt compares the pairs of each example */
    int auto_t;
    zest_auto_t seen;       /* the steps before this one */
    zest_loss_parts losses; /* of this step, which the next will have seen */
    zest_distribution distribution;
    uint64_t seed;
    double decay;
    zest_direction *directions; /* k, then the ball pairs' */
    double *coefficients;       /* k */
    uint64_t rounding;          /* seed of the step's stochastic rounding */
    int nearest;                /* no such rounding */
} zest_step;

/* format: ZEST_FORMAT for a new run, that of the journal for a recorded one. */
zest_status zest_step_init(zest_step *step, const zest_vector_ops *ops, const zest_options *options,
                           int format, zest_error *error);
void zest_step_free(zest_step *step);

/* Makes the directions of step `index` (from 0). with_ball: those of the ball pairs too, which only
 * evaluation needs. */
zest_status zest_step_draw_directions(zest_step *step, uint64_t index, uint64_t dimension, int with_ball,
                                      zest_error *error);
/* Computes the coefficients from the losses. lr: of the step, for max-step. */
void zest_step_tilt(zest_step *step, const double *losses, double lr, zest_tilt_report *report);
/* Of a step in which every example has its own pairs: coefficients and report where the tilt compares the pairs of each
 * example, and the padding (tilt_scope.c). */
void zest_step_tilt_examples(zest_step *step, const double *losses, zest_tilt_report *report);
/* The update that the coefficients give. 0: none, since every pair was dropped. */
int zest_step_update(const zest_step *step, double lr, const zest_tilt_report *report, zest_update *update);
/* Applies that update, if there is one, where the parameters are, and remembers the step. */
zest_status zest_step_apply(zest_step *step, const zest_step_storage *storage, double lr,
                            const zest_tilt_report *report, zest_error *error);
/* The number of latest steps that the next one depends on, besides the parameters: 0 without t=auto and momentum. */
uint64_t zest_step_memory(const zest_step *step);
/* Remembers a recorded step without taking it, and forgets all. A step that follows steps it has not taken itself must
 * be told the latest zest_step_memory of them, in order (zest_journal_recall). */
zest_status zest_step_recall(zest_step *step, const zest_record *record, uint64_t dimension,
                             zest_error *error);
void zest_step_forget(zest_step *step);
/* Takes a recorded step again. */
zest_status zest_step_replay(zest_step *step, const zest_record *record, const zest_step_storage *storage,
                             zest_tilt_report *report, zest_error *error);

/* Whether step-length or max-step is on. */
static inline int zest_step_has_length(const zest_step *step) {
    return step->length != ZEST_LENGTH_ESTIMATE || step->max_step > 0;
}
/* Scales the coefficients by the options step-length and max-step (step_length.c). */
void zest_step_fit_length(zest_step *step, const double *losses, double lr, zest_tilt_report *report);

/* ---- The learning rate ---- */

/* The rate of step `index`, counted from 0. Warm-up: lr (index+1)/W for the first W steps. Then, with p going
 * from 0 to 1 over the other steps: lr; lr (1 - (1-final) p); lr (final + (1-final) (1 + cos(pi p))/2). What
 * a run used is in its journal, so only new runs depend on the cosine of libm. */
double zest_step_lr(const zest_options *options, uint64_t index);

#endif
