#include <math.h>

#include "lab/stats/stats.h"

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

/* Mean and sum of squared deviations in one pass (Welford's). */
zest_sample zest_sample_of(const double *values, size_t count) {
    zest_sample s = {.mean = 0, .error = NAN, .low = NAN, .high = NAN};
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) continue;
        double delta = values[i] - s.mean;
        s.mean += delta / (double)++s.n;
        squares += delta * (values[i] - s.mean);
    }
    if (!s.n) s.mean = NAN;
    if (s.n < 2) return s;
    double n = (double)s.n;
    s.error = sqrt(squares / (n - 1) / n);
    double half = zest_sample_student_quantile(0.95, s.n - 1) * s.error;
    s.low = s.mean - half;
    s.high = s.mean + half;
    return s;
}

/* With whole degrees of freedom the distribution is a finite sum in the angle whose tangent is t / sqrt(n):
 * odd n begins with the angle itself, even n with its sine. */
double zest_sample_student(double t, size_t degrees) {
    double n = (double)degrees, angle = atan(t / sqrt(n)), c = cos(angle), s = sin(angle);
    size_t odd = degrees % 2;
    double term = odd ? c : 1, sum = 0;
    for (size_t i = odd ? 1 : 0; i + 2 <= degrees; i += 2) {
        sum += term;
        term *= c * c * (double)(i + 1) / (double)(i + 2);
    }
    const double pi = 3.14159265358979323846;
    return odd ? (angle + s * sum) * 2 / pi : s * sum;
}

double zest_sample_student_quantile(double probability, size_t degrees) {
    double low = 0, high = 1;
    if (!degrees || !(probability >= 0 && probability < 1)) return NAN;
    while (zest_sample_student(high, degrees) < probability && high < 1e12) high *= 2;
    for (int i = 0; i < 200 && low < high; i++) {
        double middle = 0.5 * (low + high);
        if (middle <= low || middle >= high) break;
        if (zest_sample_student(middle, degrees) < probability)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

double zest_sample_mcnemar(size_t only_first, size_t only_second) {
    size_t n = only_first + only_second, fewer = only_first < only_second ? only_first : only_second;
    double sum = 0;
    /* terms as logarithms: 2^-n is below the smallest double for n > 1074 */
    for (size_t i = 0; i <= fewer; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) -
                   (double)n * log(2));
    return fmin(1, 2 * sum);
}

static const double paired_z975 = 1.959963984540054; /* the normal's quantile at 0.975 */

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
    double half = fmax(s.high - s.mean, paired_z975 * least);
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
