/* Where a run stands: a function of its losses alone, so that a resumed run knows what the first one knew. */
#ifndef ZEST_CORE_RUN_STATE_H
#define ZEST_CORE_RUN_STATE_H

#include "base/option.h"

typedef struct {
    uint64_t steps, evaluations, dropped_pairs;
    uint64_t bad_in_a_row; /* steps without a finite pair */
    double latest;         /* the loss that the stop criteria look at; NaN before the first */
    double best;           /* the smallest of them */
    uint64_t best_step;
    double improved;        /* the best when it last fell by the tolerance */
    uint64_t improved_step; /* and when that was */
} zest_run_state;

void zest_run_state_init(zest_run_state *state);

/* One step was taken. center: f(x) or NULL when it was not evaluated. */
void zest_run_state_note(zest_run_state *state, const zest_options *options, const zest_tilt_report *report,
                         size_t evaluations, const double *center);

/* The criterion that ends the run now, if any. cost: evaluations the next step would need; seconds: since its
 * start. */
zest_stop zest_run_state_stop(const zest_run_state *state, const zest_options *options, size_t cost,
                              double seconds);

#endif
