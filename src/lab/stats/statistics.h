/* What a sample of losses says, with 95 % intervals. */
#ifndef ZEST_LAB_STATS_STATISTICS_H
#define ZEST_LAB_STATS_STATISTICS_H

#include <stddef.h>

typedef struct {
    double value, low, high; /* NaN: not known */
} zest_estimate;

/* The 97.5 % quantile of Student's t with so many degrees of freedom (to about three digits). */
double zest_statistics_student(size_t freedom);

/* Mean of a sample, with Student's interval; count 1 has no interval. */
zest_estimate zest_statistics_mean(const double *values, size_t count);

/* Standard deviation. Interval: log s is about normal with variance (kurtosis - 1) / 4n, the kurtosis being
 * the sample's, so losses need not be normal; for normal ones it is close to the chi-square interval. */
zest_estimate zest_statistics_spread(const double *values, size_t count);

/* F_t = (1/t) log mean exp(t f), never overflowing; the mean when t = 0. The interval comes from the spread
 * of the weights (delta method) and is worth little when few of them carry the sum: `effective` says how
 * many, (sum w)^2 / sum w^2. Values come in groups of `group` that belong together (2 for antithetic pairs).
 */
zest_estimate zest_statistics_tilted(const double *values, size_t count, size_t group, double t,
                                     double *effective);

/* A few numbers, and what can be said about their mean. */

typedef struct {
    size_t n;
    double mean;      /* NaN: n = 0 */
    double error;     /* standard error of the mean; NaN: n < 2 */
    double low, high; /* Student's 95 % interval of the mean; NaN: n < 2 */
} zest_sample;

/* Numbers that are NaN do not count. */
zest_sample zest_sample_of(const double *values, size_t count);

/* P(|T| <= t) for Student's T with so many degrees of freedom, and the t at which it is `probability`. */
double zest_sample_student(double t, size_t degrees);
double zest_sample_student_quantile(double probability, size_t degrees);

/* McNemar's exact test: of the examples that only one of two got right, is the split a fair coin's? Two-sided
 * p; 1 when there are none. */
double zest_sample_mcnemar(size_t only_first, size_t only_second);

/* Two methods compared seed by seed: the interval of the mean difference, and what may be said about it. */

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
