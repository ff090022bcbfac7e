/* Where a run stands: a function of its losses alone, so that a resumed run knows what the first one knew. */
#ifndef ZEST_OPTIM_STOP_H
#define ZEST_OPTIM_STOP_H

#include "base/option.h"

typedef struct {
    uint64_t steps, evaluations, dropped_pairs;
    uint64_t bad_in_a_row; /* steps without a finite pair */
    double latest;         /* the loss that the stop criteria look at; NaN before the first */
    double best;           /* the smallest of them */
    uint64_t best_step;
    double improved;        /* the best when it last fell by the tolerance */
    uint64_t improved_step; /* and when that was */
} zest_stop_state;

void zest_stop_state_init(zest_stop_state *state);

/* One step was taken. center: f(x) or NULL when it was not evaluated. */
void zest_stop_state_update(zest_stop_state *state, const zest_options *options,
                            const zest_tilt_report *report, size_t evaluations, const double *center);

/* The criterion that ends the run now, if any. cost: evaluations the next step would need; seconds: since its
 * start. */
zest_stop zest_stop_state_check(const zest_stop_state *state, const zest_options *options, size_t cost,
                                double seconds);

#endif
