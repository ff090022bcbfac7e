/* The length of a step: options step-length and max-step.
 *
 * g are the coefficients of the directions that the tilt gives, g0 those of MeZO from the same losses. |g| stands for
 * the length of a step: that of sum g_i v_i is sqrt(d) |g|, as a root mean square over directions.
 *
 *     estimate   g
 *     mezo       g |g0| / |g|        the tilt turns the step and does not shorten it: comparisons with MeZO at the
 *                                    same lr are fair
 *     spread     g rho / sigma       sigma: standard deviation of the 2k losses. The step does not depend on the scale
 *                                    of the loss (FZOO's normalisation)
 *
 * Then, with B = max-step, a step is no longer than B perturbations, of length rho sqrt(d): losses that were measured
 * there say nothing about points further away.
 *
 *     g min(1, B rho / (lr |g|))
 *
 * Functions of the recorded losses, lr and IEEE operations alone, as the tilt is. */
#include <math.h>

#include "optim/step.h"

/* Scaled by the largest, so that no square overflows. */
static double norm(const double *g, size_t k) {
    double top = 0, sum = 0;
    for (size_t i = 0; i < k; i++) top = fmax(top, fabs(g[i]));
    if (!(top > 0)) return 0;
    for (size_t i = 0; i < k; i++) sum += (g[i] / top) * (g[i] / top);
    return top * sqrt(sum);
}

static double factor_of(const zest_step *step, const double *losses, double length,
                        const zest_tilt_report *report) {
    zest_loss_parts parts;
    switch (step->length) {
    case ZEST_LENGTH_MEZO:
        if (report->t == 0) return 1;                  /* exactly MeZO */
        parts = zest_tilt_split(losses, step->tilt.k); /* g0_i = a_i / (rho n) of n finite pairs */
        return sqrt(parts.slope) / (step->tilt.rho * parts.pairs) / length;
    case ZEST_LENGTH_SPREAD: return step->tilt.rho / report->spread;
    default: return 1;
    }
}

void zest_step_fit_length(zest_step *step, const double *losses, double lr, zest_tilt_report *report) {
    double *g = step->coefficients, length = norm(g, step->tilt.k);
    if (!(length > 0)) return;
    double factor = factor_of(step, losses, length, report);
    if (!isfinite(factor)) factor = 1; /* a spread that no number holds */
    double most = step->max_step * step->tilt.rho, move = lr * (length * factor);
    if (step->max_step > 0 && move > most) factor *= most / move;
    report->scale = factor;
    for (size_t i = 0; i < step->tilt.k && factor != 1; i++) g[i] *= factor;
}
