/* Rung 1 of zest.h: one call. Minimises the Rosenbrock function in 10 dimensions from its values alone. */
#include <stdio.h>
#include <zest.h>

static double rosenbrock(const double *x, size_t n, void *user) {
    (void)user;
    double sum = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        sum += 100 * a * a + b * b;
    }
    return sum;
}

int main(void) {
    double x[10] = {0};
    zest_result result;
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) return 1;
    zest_status status =
        zest_minimize_f64(ctx, rosenbrock, NULL, x, 10,
                          "k=10 rho=1e-4 lr=5e-4 schedule=cosine steps=20000 target=1e-6 t=0.1", &result);
    if (status)
        fprintf(stderr, "%s\n", zest_ctx_error(ctx));
    else
        printf("%s: f = %.2e after %llu evaluations; x[9] = %.4f\n", zest_stop_name(result.stop), result.loss,
               (unsigned long long)result.evaluations, x[9]);
    zest_ctx_free(ctx);
    return status || result.loss > 1e-2;
}
