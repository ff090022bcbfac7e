/* The tuner's insides, for the files that make it up. */
#ifndef ZEST_OPTIM_TUNER_H
#define ZEST_OPTIM_TUNER_H

#include <signal.h>

#include "optim/context.h"
#include "optim/journal.h"
#include "optim/lanes.h"
#include "optim/stop.h"
#include "optim/step.h"

struct zest_tuner {
    zest_ctx *ctx;
    zest_tensor tensor;
    zest_params params;
    zest_options options;
    int format; /* ZEST_FORMAT, or that of the journal that is continued */

    zest_objective_f32 objective_f32;
    zest_objective_f64 objective_f64;
    zest_objective_lanes objective_lanes;
    void *objective_user;
    void *point; /* one lane as a vector, for the vector objectives; made when first needed */

    zest_step stepper; /* made at the first step; from then on the method's options stand */
    int started;
    double *losses;
    zest_lanes lanes;
    int asked;

    zest_stop_state state;
    zest_journal_writer journal;
    volatile sig_atomic_t stop;
    int (*on_step)(const zest_step_report *, void *);
    void *on_step_user;
};

static inline zest_error *zest_tuner_sink(const zest_tuner *tuner) { return &tuner->ctx->error; }

/* Makes the stepper and its buffers, once. */
zest_status zest_tuner_prepare(zest_tuner *tuner);
/* Forgets what begin made, so that it is made anew with other options. Only before the first step. */
void zest_tuner_reset(zest_tuner *tuner);
/* Fills losses with the losses of all lanes. */
zest_status zest_tuner_evaluate(zest_tuner *tuner, const zest_lanes *lanes, double *losses);

#endif
