#include "analysis/sample.h"

#include <math.h>

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
