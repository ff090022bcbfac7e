/* How sure a figure is. */
#include <math.h>
#include <stdlib.h>

#include "data/examples_draw.h"
#include "data/metric.h"

enum { RESAMPLES = 2000 };

/* Wilson 1927: the values of p whose test at 5 % the observed share passes. */
void zest_metric_wilson(double hits, double n, double *low, double *high) {
    static const double z = 1.959963984540054; /* the normal's quantile at 0.975 */
    if (!(n > 0)) {
        *low = *high = NAN;
        return;
    }
    double p = hits / n, centre = p + z * z / (2 * n), width = z * sqrt((p * (1 - p) + z * z / (4 * n)) / n);
    *low = (centre - width) / (1 + z * z / n);
    *high = (centre + width) / (1 + z * z / n);
    if (hits <= 0) *low = 0; /* as they are without rounding */
    if (hits >= n) *high = 1;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantiles 0.025 and 0.975, linear between neighbours. */
static void percentiles(double values[RESAMPLES], double *low, double *high) {
    double *out[2] = {low, high};
    qsort(values, RESAMPLES, sizeof *values, ascending);
    for (int i = 0; i < 2; i++) {
        double place = (i ? 0.975 : 0.025) * (RESAMPLES - 1);
        size_t below = (size_t)place;
        *out[i] = values[below] + (place - (double)below) * (values[below + 1] - values[below]);
    }
}

static zest_examples_draw resample(size_t number) {
    return (zest_examples_draw){.number = number, .stream = ZEST_EXAMPLES_RESAMPLE};
}

void zest_metric_bootstrap_mean(const double *values, size_t count, double *low, double *high) {
    double means[RESAMPLES];
    *low = *high = NAN;
    if (!count) return;
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return;
    for (size_t r = 0; r < RESAMPLES; r++) {
        zest_examples_draw draw = resample(r);
        double sum = 0;
        for (size_t i = 0; i < count; i++) sum += values[zest_examples_draw_below(&draw, (uint32_t)count)];
        means[r] = sum / (double)count;
    }
    percentiles(means, low, high);
}

/* From how often class 1 was both said and right, and how often either. */
static double f1_of(size_t both, size_t said, size_t right) {
    return both ? 2 * (double)both / (double)(said + right) : 0;
}

double zest_metric_f1(const uint32_t *choice, const uint32_t *answers, size_t count) {
    size_t both = 0, said = 0, right = 0;
    for (size_t i = 0; i < count; i++) {
        both += choice[i] == 1 && answers[i] == 1;
        said += choice[i] == 1;
        right += answers[i] == 1;
    }
    return count ? f1_of(both, said, right) : NAN;
}

void zest_metric_bootstrap_f1(const uint32_t *choice, const uint32_t *answers, size_t count, double *low,
                              double *high) {
    double values[RESAMPLES];
    *low = *high = NAN;
    if (!count) return;
    for (size_t r = 0; r < RESAMPLES; r++) {
        zest_examples_draw draw = resample(r);
        size_t both = 0, said = 0, right = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t j = zest_examples_draw_below(&draw, (uint32_t)count);
            both += choice[j] == 1 && answers[j] == 1;
            said += choice[j] == 1;
            right += answers[j] == 1;
        }
        values[r] = f1_of(both, said, right);
    }
    percentiles(values, low, high);
}
