/* exp and sinh in fp64 from IEEE operations. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/exp.h"

/* 2^n for n in [-1022, 1023]. */
static double power_of_two(int64_t n) {
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* exp(x) = 2^n exp(r) with |r| <= ln(2)/2; ln 2 is split into two parts so that r is exact to the last place. */
double zest_exp(double x) {
    static const double inverse_ln2 = 1.4426950408889634, ln2_high = 0x1.62e42fefa3800p-1,
                        ln2_low = 0x1.ef35793c76730p-45;
    if (x != x) return x;
    if (x > 709.782712893384) return HUGE_VAL;
    if (x < -745.2) return 0;
    double n = rint(x * inverse_ln2);
    double r = fma(-n, ln2_low, fma(-n, ln2_high, x));
    double sum = 1.0 / 6227020800.0; /* 1/13!; the first omitted term is 4e-18 */
    static const double inverse_factorials[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                                1.0 / 40320,     1.0 / 5040,     1.0 / 720,     1.0 / 120,
                                                1.0 / 24,        1.0 / 6,        0.5,           1.0};
    for (int i = 0; i < 12; i++) sum = fma(sum, r, inverse_factorials[i]);
    sum = fma(sum, r, 1.0);
    /* in two factors, so that neither overflows or underflows before the product does */
    int64_t exponent = (int64_t)n, half = exponent / 2;
    return sum * power_of_two(half) * power_of_two(exponent - half);
}

double zest_sinhc(double z) {
    double square = z * z, sum = 1.0 / 355687428096000.0; /* 1/17! */
    static const double inverse_factorials[] = {1.0 / 1307674368000.0,
                                                1.0 / 6227020800.0,
                                                1.0 / 39916800,
                                                1.0 / 362880,
                                                1.0 / 5040,
                                                1.0 / 120,
                                                1.0 / 6,
                                                1.0};
    for (int i = 0; i < 8; i++) sum = fma(sum, square, inverse_factorials[i]);
    return sum;
}
