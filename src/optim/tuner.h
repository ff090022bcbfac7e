/* The tuner from inside the library: zest.h's tuner, and one over parameters that live elsewhere than in one
 * vector of the caller, such as the weights of a model, on the host or on a device. */
#ifndef ZEST_OPTIM_TUNER_H
#define ZEST_OPTIM_TUNER_H

#include <signal.h>

#include "optim/context.h"
#include "optim/journal.h"
#include "optim/lanes.h"
#include "optim/stop.h"
#include "optim/step.h"

/* Records a step before it is applied. */
typedef zest_status (*zest_tuner_record)(void *user, const zest_record *record, zest_error *error);

struct zest_tuner {
    zest_ctx *ctx;
    zest_error *error;  /* where messages go: the context's, unless the caller has another */
    zest_tensor tensor; /* x of a tuner over one vector, which params then describes */
    zest_params params;
    zest_step_storage storage;
    const char *bad_advice; /* what to say after too many bad steps */
    zest_options options;
    int format; /* ZEST_FORMAT, or that of the journal that is continued */

    zest_objective_f32 objective_f32;
    zest_objective_f64 objective_f64;
    zest_objective_lanes objective_lanes;
    void *objective_user;
    void *point; /* one lane as a vector, for the vector objectives; made when first needed */

    zest_step step; /* made at the first step; from then on the method's options are fixed */
    int started;
    double *losses;
    zest_lanes lanes;
    int has_lanes; /* between ask and tell */

    zest_stop_state state;
    zest_journal_writer journal;
    zest_tuner_record record; /* instead of a journal of the tuner's own; NULL: none */
    void *record_user;
    volatile sig_atomic_t stop;
    int (*on_step)(const zest_step_report *, void *);
    void *on_step_user;
};

static inline zest_error *zest_tuner_sink(const zest_tuner *tuner) { return tuner->error; }

/* A tuner over parameters in any storage, which is copied. It has no vector: its objective gets lanes, of which
 * zest_lanes_describe gives direction and scale. bad_advice ends the message after too many bad steps. */
zest_tuner *zest_tuner_new_storage(zest_ctx *ctx, const zest_step_storage *storage, const char *bad_advice,
                                   zest_error *error);
/* Takes all options from `options` and continues after `steps` steps of a run in `format`. The lanes never include
 * the center: eval-every means something else where there are examples to evaluate on. */
zest_status zest_tuner_configure(zest_tuner *tuner, const zest_options *options, int format, uint64_t steps);
/* Every step goes to `record` before it is applied. */
void zest_tuner_on_record(zest_tuner *tuner, zest_tuner_record record, void *user);

/* zest_tuner_start_journal in two steps: see zest_journal_reserve. */
zest_status zest_tuner_reserve_journal(zest_tuner *tuner, const char *path);
zest_status zest_tuner_commit_journal(zest_tuner *tuner);

#endif
