/* Two methods compared seed by seed: the interval of the mean difference, and what may be said about it. */
#ifndef ZEST_ANALYSIS_PAIRED_H
#define ZEST_ANALYSIS_PAIRED_H

#include "analysis/sample.h"

/* The mean of paired differences, one a seed; NaN for a seed that has none. examples: the test examples that
 * the metric is a share of, or 0 for a metric without steps, such as a loss.
 *
 * The interval is Student's with n - 1 degrees of freedom. It is never narrower than 1.96 times the least
 * binomial error: if a share differs by d, then at least a share |d| of the examples was answered
 * differently, so the variance of d is at least |d| (1 - |d|) / examples. |d| counts as one example at least.
 *
 * n = 1 has no interval. Nor have differences that are all equal, to half a step of the metric: their
 * variance of 0 says that the metric is coarse, not that seeds do not matter. */
zest_sample zest_paired_sample(const double *differences, size_t count, size_t examples);

typedef enum {
    ZEST_PAIRED_TOO_FEW,       /* fewer than 3 seeds, or their differences are all equal */
    ZEST_PAIRED_NO_DIFFERENCE, /* the 95 % interval holds 0 */
    ZEST_PAIRED_BETTER,
    ZEST_PAIRED_WORSE,
} zest_paired_verdict;

enum { ZEST_PAIRED_SEEDS = 3 }; /* a verdict needs so many */

zest_paired_verdict zest_paired_judge(const zest_sample *difference, int lower_is_better);

#endif
