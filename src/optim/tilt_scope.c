/* The tilt of a step in which every example has k pairs of its own (directions.h), option tilt-scope.
 *
 *     step       one tilt over all k B pairs, as if they were those of one objective: losses of hard examples count more
 *     example    g = (1/B) sum over e of the tilted estimate of example e from its own k pairs: an example's losses are
 *                compared with each other alone, and every example counts alike
 *
 * At t = 0 both are the mean of all two-point estimates. */
#include <math.h>

#include "optim/directions.h"
#include "optim/step.h"

static int is_padding(const double *losses, size_t pair) {
    return losses[2 * pair] == ZEST_DIRECTIONS_PADDING;
}

static void tilt_each(zest_step *step, const double *losses, zest_tilt_report *report) {
    zest_tilt_options own = step->tilt;
    size_t examples = 0, k = own.k = step->each;
    double effective = 0, saturation = 0, tilted = 0;
    report->flipped = report->dropped = 0;
    for (size_t p = 0; p < step->tilt.k; p += k) {
        zest_tilt_report one;
        zest_tilt_compute(&own, losses + 2 * p, step->coefficients + p, &one);
        if (!is_padding(losses, p)) report->dropped += one.dropped;
        if (one.dropped == k) continue;
        examples++;
        report->flipped += one.flipped;
        effective += one.effective;
        saturation += one.saturation;
        tilted += one.tilted;
    }
    if (!examples) return;
    report->effective = effective; /* of all pairs */
    report->saturation = saturation / (double)examples;
    report->tilted = tilted / (double)examples;
    for (size_t p = 0; p < step->tilt.k; p++) step->coefficients[p] /= (double)examples;
}

void zest_step_tilt_examples(zest_step *step, const double *losses, zest_tilt_report *report) {
    step->padding = 0;
    for (size_t p = 0; p < step->tilt.k; p++) step->padding += is_padding(losses, p);
    report->dropped -= step->padding;
    if (step->per_example) tilt_each(step, losses, report);
}
