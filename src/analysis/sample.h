/* A few numbers, and what can be said about their mean. */
#ifndef ZEST_ANALYSIS_SAMPLE_H
#define ZEST_ANALYSIS_SAMPLE_H

#include <stddef.h>

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

#endif
