/* What a sample of losses says, with 95 % intervals. */
#ifndef ZEST_ANALYSIS_STATISTICS_H
#define ZEST_ANALYSIS_STATISTICS_H

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

#endif
