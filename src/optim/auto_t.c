/* --t auto: see auto_t.h. */
#include "optim/auto_t.h"

#include <math.h>

void zest_auto_t_add(zest_auto_t *seen, const zest_loss_parts *parts) {
    seen->parts[seen->count++ % ZEST_AUTO_T_STEPS] = *parts;
}

/* Always from the oldest step to the latest: the sum depends on the last steps alone, not on where a session began. */
double zest_auto_t_next(const zest_auto_t *seen) {
    zest_loss_parts all = {0};
    double differences = 0;
    uint64_t first = seen->count > ZEST_AUTO_T_STEPS ? seen->count - ZEST_AUTO_T_STEPS : 0;
    for (uint64_t i = first; i < seen->count; i++) {
        const zest_loss_parts *step = &seen->parts[i % ZEST_AUTO_T_STEPS];
        all.pairs += step->pairs;
        all.slope += step->slope;
        all.curvature += step->curvature;
        if (step->pairs > 1) differences += step->pairs - 1;
    }
    if (differences < ZEST_AUTO_T_LEAST) return 0;
    double by_curvature = 0.5 / sqrt(2 * (all.curvature / differences)),
           by_slope = 1 / sqrt(all.slope / all.pairs);
    double t = by_curvature < by_slope ? by_curvature : by_slope;
    return isfinite(t) ? t : 0; /* no differences at all, or beyond all numbers */
}
