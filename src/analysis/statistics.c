#include "analysis/statistics.h"

#include <math.h>

static const double z975 = 1.959963984540054;

/* Abramowitz and Stegun 26.7.5 from five degrees on; below that, numbers. */
double zest_statistics_student(size_t freedom) {
    static const double few[] = {HUGE_VAL, 12.7062, 4.30265, 3.18245, 2.77645};
    double n = (double)freedom, z = z975, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    if (freedom < sizeof few / sizeof *few) return few[freedom];
    return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return sum / (double)count;
}

/* Mean of (value - center)^power. */
static double moment(const double *values, size_t count, double center, int power) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double x = values[i] - center;
        sum += power == 2 ? x * x : x * x * x * x;
    }
    return sum / (double)count;
}

static zest_estimate around(double value, double half) {
    return (zest_estimate){value, value - half, value + half};
}

zest_estimate zest_statistics_mean(const double *values, size_t count) {
    if (!count) return (zest_estimate){NAN, NAN, NAN};
    double mean = mean_of(values, count), n = (double)count;
    if (count == 1) return (zest_estimate){mean, NAN, NAN};
    double error = sqrt(moment(values, count, mean, 2) / (n - 1));
    return around(mean, zest_statistics_student(count - 1) * error);
}

zest_estimate zest_statistics_spread(const double *values, size_t count) {
    if (count < 2) return (zest_estimate){NAN, NAN, NAN};
    double n = (double)count, mean = mean_of(values, count), second = moment(values, count, mean, 2);
    double sd = sqrt(second * n / (n - 1));
    if (!(second > 0)) return (zest_estimate){sd, sd, sd};
    /* a small sample cannot show a kurtosis far from what it can hold: at least that of normal losses */
    double kurtosis = fmax(moment(values, count, mean, 4) / (second * second), count < 30 ? 3 : 1);
    double half = zest_statistics_student(count - 1) * sqrt((kurtosis - 1) / (4 * n));
    return (zest_estimate){sd, sd * exp(-half), sd * exp(half)};
}

zest_estimate zest_statistics_tilted(const double *values, size_t count, size_t group, double t,
                                     double *effective) {
    *effective = (double)count;
    if (!count) return (zest_estimate){NAN, NAN, NAN};
    double top = values[0], sum = 0, square = 0, groups = 0, spread = 0, n = (double)(count / group);
    for (size_t i = 1; i < count; i++) top = fmax(top, values[i]);
    for (size_t i = 0; i < count; i++) {
        double w = exp(t * (values[i] - top));
        sum += w;
        square += w * w;
    }
    *effective = sum * sum / square;
    double value = t > 0 ? top + log(sum / (double)count) / t : mean_of(values, count);
    if (n < 2) return (zest_estimate){value, NAN, NAN};
    for (size_t i = 0; i + group <= count; i += group) {
        double own = 0; /* t = 0: the mean itself */
        for (size_t j = i; j < i + group; j++)
            own += t > 0 ? (double)count * exp(t * (values[j] - top)) / (sum * t) : values[j];
        groups += own / (double)group;
        spread += own / (double)group * (own / (double)group);
    }
    double variance = fmax(spread / n - groups / n * (groups / n), 0);
    return around(value, zest_statistics_student((size_t)n - 1) * sqrt(variance / (n - 1)));
}
