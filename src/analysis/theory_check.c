#include "analysis/theory.h"

#include <inttypes.h>
#include <math.h>

static zest_status check_numbers(zest_error *error, const char *name, const double *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i]))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "theory: %s %zu of %zu is not a finite number",
                                  name, i + 1, count);
    return ZEST_OK;
}

zest_status zest_theory_check(zest_ctx *ctx, const zest_landscape *landscape) {
    zest_error *error = zest_ctx_sink(ctx);
    if (!landscape || !landscape->eigenvalues || !landscape->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "theory: a landscape needs at least one eigenvalue");
    if (landscape->dimension < landscape->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "theory: dimension %" PRIu64 " is less than the number of eigenvalues, %zu",
                              landscape->dimension, landscape->count);
    if (!(landscape->rho > 0) || !isfinite(landscape->rho))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "theory: rho = %g, but it must be positive and finite", landscape->rho);
    zest_status status = check_numbers(error, "eigenvalue", landscape->eigenvalues, landscape->count);
    if (!status && landscape->gradient)
        status = check_numbers(error, "gradient component", landscape->gradient, landscape->count);
    return status;
}

zest_status zest_theory_check_tilt(zest_ctx *ctx, const zest_landscape *landscape, double t) {
    zest_status status = zest_theory_check(ctx, landscape);
    if (status) return status;
    if (t >= 0 && isfinite(t)) return ZEST_OK;
    return zest_error_set(
        zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
        "theory: t = %g, but it must be finite and at least 0 (t = infinity is zest_theory_worst)", t);
}

zest_status zest_theory_check_result(zest_ctx *ctx, double value, const char *what) {
    if (isfinite(value)) return ZEST_OK;
    return zest_error_set(
        zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
        "theory: %s leaves the range of double; eigenvalues, gradient, rho or t are too large", what);
}
