#include "optim/divergence.h"

#include <math.h>

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
