#include "analysis/paired.h"

#include <math.h>

static const double z975 = 1.959963984540054; /* the normal's quantile at 0.975 */

/* Are all differences the same? Sums of doubles that should be equal differ in the last digits. */
static int all_equal(const double *values, size_t count, double mean, double step) {
    double tolerance = step > 0 ? 0.5 * step : 1e-9 * fabs(mean);
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) continue;
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    return high - low <= tolerance;
}

/* The least standard error of a difference of two shares of the same examples. */
static double least_error(double difference, double examples) {
    double share = fmax(fabs(difference), 1 / examples);
    return sqrt(share * (1 - share) / examples);
}

zest_sample zest_paired_sample(const double *differences, size_t count, size_t examples) {
    zest_sample s = zest_sample_of(differences, count);
    double step = examples ? 1 / (double)examples : 0;
    if (s.n < 2) return s;
    if (all_equal(differences, count, s.mean, step)) {
        s.error = s.low = s.high = NAN;
        return s;
    }
    if (!examples) return s;
    double least = least_error(s.mean, (double)examples);
    double half = fmax(s.high - s.mean, z975 * least);
    s.error = fmax(s.error, least);
    s.low = s.mean - half;
    s.high = s.mean + half;
    return s;
}

zest_paired_verdict zest_paired_judge(const zest_sample *difference, int lower_is_better) {
    if (difference->n < ZEST_PAIRED_SEEDS || isnan(difference->low)) return ZEST_PAIRED_TOO_FEW;
    if (difference->low <= 0 && difference->high >= 0) return ZEST_PAIRED_NO_DIFFERENCE;
    return (difference->mean > 0) != (lower_is_better != 0) ? ZEST_PAIRED_BETTER : ZEST_PAIRED_WORSE;
}
