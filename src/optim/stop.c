/* Stop criteria and divergence: see stop.h. */
#include <math.h>

#include "optim/directions.h"
#include "optim/stop.h"

const char *zest_stop_name(zest_stop stop) {
    static const char *const names[] = {
        [ZEST_STOP_NONE] = "not stopped",
        [ZEST_STOP_STEPS] = "steps done",
        [ZEST_STOP_EVALUATIONS] = "evaluations spent",
        [ZEST_STOP_TIME] = "time is up",
        [ZEST_STOP_TARGET] = "target reached",
        [ZEST_STOP_STAGNATION] = "no progress",
        [ZEST_STOP_CALLBACK] = "stopped on request",
    };
    return (size_t)stop < sizeof names / sizeof names[0] ? names[stop] : "unknown";
}

void zest_stop_state_init(zest_stop_state *state) {
    *state = (zest_stop_state){.latest = NAN, .best = HUGE_VAL, .improved = HUGE_VAL};
}

static void note_loss(zest_stop_state *state, double loss, double tolerance) {
    state->latest = loss;
    if (!isfinite(loss)) return;
    if (loss < state->best) state->best = loss, state->best_step = state->steps;
    if (loss < state->improved - tolerance) state->improved = loss, state->improved_step = state->steps;
}

void zest_stop_state_update(zest_stop_state *state, const zest_options *options,
                            const zest_tilt_report *report, size_t evaluations, const double *center) {
    state->steps++;
    state->evaluations += evaluations;
    state->dropped_pairs += report->dropped;
    size_t k = (size_t)zest_options_whole(options, ZEST_OPTION_K),
           examples = zest_directions_of(options).examples;
    if (examples > 1) k = evaluations / 2; /* each loss is that of one example */
    state->bad_in_a_row = report->dropped >= k ? state->bad_in_a_row + 1 : 0;
    double tolerance = zest_options_number(options, ZEST_OPTION_TOLERANCE);
    if (center)
        note_loss(state, *center, tolerance);
    else if (!zest_options_whole(options, ZEST_OPTION_EVAL_EVERY))
        note_loss(state, report->mean, tolerance);
}

zest_stop zest_stop_state_check(const zest_stop_state *state, const zest_options *options, size_t cost,
                                double seconds) {
    uint64_t evals = zest_options_whole(options, ZEST_OPTION_EVALS);
    uint64_t patience = zest_options_whole(options, ZEST_OPTION_PATIENCE);
    double limit = zest_options_number(options, ZEST_OPTION_SECONDS);
    if (state->latest <= zest_options_number(options, ZEST_OPTION_TARGET)) return ZEST_STOP_TARGET;
    if (patience && state->steps - state->improved_step >= patience) return ZEST_STOP_STAGNATION;
    if (state->steps >= zest_options_whole(options, ZEST_OPTION_STEPS)) return ZEST_STOP_STEPS;
    if (evals && state->evaluations + cost > evals) return ZEST_STOP_EVALUATIONS;
    if (limit > 0 && seconds >= limit) return ZEST_STOP_TIME;
    return ZEST_STOP_NONE;
}

double zest_divergence_limit(const zest_divergence *d) {
    return d->begun ? fmax(10 * d->first, d->first + 10) : NAN;
}

void zest_divergence_note(zest_divergence *d, double loss) {
    d->latest = loss;
    if (!d->begun) { /* losses that were never finite are another trouble: see --max-bad-steps */
        d->begun = isfinite(loss);
        d->first = loss;
        return;
    }
    d->in_a_row = isfinite(loss) && loss <= zest_divergence_limit(d) ? 0 : d->in_a_row + 1;
}

int zest_divergence_found(const zest_divergence *d) { return d->in_a_row >= ZEST_DIVERGENCE_STEPS; }
