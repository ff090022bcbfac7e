/* The step of a difference quotient: too large a step is wrong by the next derivatives, too small a one by
 * rounding. Steps are tried down a ladder; where two neighbours agree best, the step between them is taken.
 */
#ifndef ZEST_ANALYSIS_LADDER_H
#define ZEST_ANALYSIS_LADDER_H

#include "analysis/vector.h"

/* The quotient with this step: a vector of doubles in the space. */
typedef zest_status zest_ladder_measure(void *user, double step, double *out, zest_error *error);

typedef struct {
    zest_ladder_measure *measure;
    void *user;
    zest_vector_space space;
    double start, ratio; /* the first step, and how much smaller the next one is (> 1) */
    int rungs;           /* steps at most */
} zest_ladder_job;

/* Steps that are farther apart than this say nothing about each other. */
#define ZEST_LADDER_AGREED 0.03

/* *disagreement: |a - b| / |b| of the best two neighbours. Takes room for two vectors of doubles. */
zest_status zest_ladder_choose(const zest_ladder_job *job, double *step, double *disagreement,
                               zest_error *error);

#endif
