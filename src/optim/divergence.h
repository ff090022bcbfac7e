/* Has training fallen apart? A rule that looks at the losses of the steps alone, so that a run that is
 * resumed from its record decides as one that was not stopped.
 *
 * A step is bad when its mean loss is not finite, or above
 *
 *     max(10 L, L + 10)     L: the mean loss of the first step that has a finite one
 *
 * and training has diverged after ZEST_DIVERGENCE_STEPS bad steps in a row. Healthy runs stay far below: the
 * cross-entropy of a model that knows nothing is log(classes) or log(vocabulary), and L itself is of that
 * size. A learning rate that is too large gets there within a few steps and does not come back. */
#ifndef ZEST_OPTIM_DIVERGENCE_H
#define ZEST_OPTIM_DIVERGENCE_H

#include <stdint.h>

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
