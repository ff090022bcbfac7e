/* Stop criteria and divergence. Their state is a function of the losses alone, so that a resumed run has the state of
 * one that was not stopped. */
#ifndef ZEST_OPTIM_STOP_H
#define ZEST_OPTIM_STOP_H

#include <stdint.h>

#include "base/option.h"

typedef struct {
    uint64_t steps, evaluations, dropped_pairs;
    uint64_t bad_in_a_row; /* steps without a finite pair */
    double latest;         /* the loss that the stop criteria look at; NaN before the first */
    double best;           /* the smallest of them */
    uint64_t best_step;
    double improved;        /* the best when it last fell by more than the tolerance */
    uint64_t improved_step; /* and its step */
} zest_stop_state;

void zest_stop_state_init(zest_stop_state *state);

/* One step was taken. center: f(x) or NULL when it was not evaluated. */
void zest_stop_state_update(zest_stop_state *state, const zest_options *options,
                            const zest_tilt_report *report, size_t evaluations, const double *center);

/* The criterion that ends the run now, if any. cost: evaluations the next step would need; seconds: since its
 * start. */
zest_stop zest_stop_state_check(const zest_stop_state *state, const zest_options *options, size_t cost,
                                double seconds);

/* Has training diverged?
 *
 * A step is bad when its mean loss is not finite, or above
 *
 *     max(10 L, L + 10)     L: the mean loss of the first step that has a finite one
 *
 * and training has diverged after ZEST_DIVERGENCE_STEPS bad steps in a row. Healthy runs stay far below: the
 * cross-entropy of a model that knows nothing is log(classes) or log(vocabulary), and L itself is of that
 * size. A learning rate that is too large gets there within a few steps and does not come back. */

enum { ZEST_DIVERGENCE_STEPS = 10 };

/* Start with {0}. */
typedef struct {
    int begun;
    double first;      /* L */
    double latest;     /* mean loss of the last step */
    uint64_t in_a_row; /* bad steps up to now */
} zest_divergence;

/* The mean loss of the next step; NaN: it has none. */
void zest_divergence_note(zest_divergence *d, double loss);
double zest_divergence_limit(const zest_divergence *d); /* NaN before the first finite loss */
int zest_divergence_found(const zest_divergence *d);

#endif
