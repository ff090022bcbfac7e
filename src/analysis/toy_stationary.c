/* The landscape of the stationary regime (appendix B.9). */
#include "analysis/toy.h"

#include <math.h>

double zest_toy_stationary(const double *x, size_t n, void *user) {
    (void)n, (void)user;
    double const well = (x[0] * x[0] - 1) * (x[0] * x[0] - 1);
    return 0.2 * (well * (1 + 0.5 * x[0]) + (3 - 2 * x[0]) * x[1] * x[1]);
}

void zest_toy_stationary_gradient(const double x[2], double gradient[2]) {
    double const a = x[0] * x[0] - 1;
    gradient[0] = 0.2 * (4 * x[0] * a * (1 + 0.5 * x[0]) + 0.5 * a * a - 2 * x[1] * x[1]);
    gradient[1] = 0.4 * (3 - 2 * x[0]) * x[1];
}

void zest_toy_stationary_eigenvalues(const double x[2], double eigenvalues[2]) {
    double const a = x[0] * x[0] - 1;
    double const xx = 0.2 * ((4 * a + 8 * x[0] * x[0]) * (1 + 0.5 * x[0]) + 4 * x[0] * a);
    double const xy = -0.8 * x[1], yy = 0.4 * (3 - 2 * x[0]);
    double const middle = 0.5 * (xx + yy), half = hypot(0.5 * (xx - yy), xy);
    eigenvalues[0] = middle + half;
    eigenvalues[1] = middle - half;
}

/* Small steps downhill, until near a minimum. 10^4 of them pass any slow stretch within |x| < 2. */
zest_toy_basin zest_toy_stationary_basin(const double x[2]) {
    double at[2] = {x[0], x[1]}, gradient[2];
    for (int i = 0; i < 10000 && hypot(at[0], at[1]) < 10; i++) {
        if (hypot(at[0] - 1, at[1]) < 0.05) return ZEST_TOY_SHARP;
        if (hypot(at[0] + 1, at[1]) < 0.05) return ZEST_TOY_FLAT;
        zest_toy_stationary_gradient(at, gradient);
        at[0] -= 0.02 * gradient[0];
        at[1] -= 0.02 * gradient[1];
    }
    return ZEST_TOY_LOST;
}
