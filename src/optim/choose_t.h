/* Advice on t: what the tilt does to a run's steps, and which t would have an effect, from the losses of the run.
 *
 * The losses of pair i are f+ = b_i + a_i and f- = b_i - a_i: a_i, half their difference, is the slope along the
 * direction, b_i, their mean, has its curvature. Over the directions of a step a_i varies like rho |gradient|,
 * b_i like rho^2. The tilt acts through both, in different ways:
 *
 *   curvature   pairs are weighed by exp(t b_i): directions along which the loss is higher on both sides count
 *               more. This is what makes the step sharpness-aware
 *   slope       a_i becomes tanh(t a_i)/t, and pairs are weighed by cosh(t a_i): large steps are damped. A MeZO
 *               step with another length
 *
 * So t is worth something where curvature counts before the slope saturates. Where it does not, no t helps, but
 * a larger rho does: b_i/a_i grows like rho.
 *
 * With Gaussian directions t has a limit, too: F_t is finite for t rho^2 lambda_max < 1 (Theorem 4.1), which holds for
 * t < 1 / (sqrt(2) sd(b)), since the variance of b_i is (rho^4/2) sum lambda_i^2 on a quadratic loss. */
#ifndef ZEST_OPTIM_CHOOSE_T_H
#define ZEST_OPTIM_CHOOSE_T_H

#include "base/memory.h"
#include "optim/journal.h"

typedef struct {
    size_t steps, k;  /* steps that were looked at */
    double t, rho;    /* of the run; with t=auto, of its latest step */
    double spread;    /* mean over steps of the standard deviation of the 2k losses of a step */
    double slope;     /* the same of a_i (about 0: the sign of a direction is arbitrary) */
    double curvature; /* the same of b_i */
    double effective; /* mean over steps of the effective sample size: the pairs that carry the step at t */
    double effective_slope, effective_curvature; /* the same if losses differed in a_i, or in b_i, alone */
    /* |g_t - g_0|/|g_0|, root mean square over steps: g_t are the coefficients of the directions, g_0 those of
     * MeZO. Then through a_i alone, and through b_i alone */
    double change, change_slope, change_curvature;
    /* t at which curvature alone leaves 0.9 k, k/2 and 2 effective pairs (of two pairs: 1.8, 1.5 and 1.1); NaN
     * with one pair, without any curvature, and where the slope comes first */
    double low, half, high;
    /* 1 / (sqrt(2) sd(b)), with sd(b) pooled over the steps: F_t is finite below it. NaN without any curvature. */
    double finite;
    /* Where the slope comes first: about the rho from which on curvature would; else NaN. */
    double better_rho;
} zest_tilt_advice;

enum { ZEST_TILT_ADVICE_STEPS = 64 }; /* enough for two digits of t */

/* losses: of each step 2 (k + ball_pairs), as zest_tilt takes them, `stride` numbers from step to step. */
zest_status zest_choose_t(const zest_tilt_options *tilt, const double *losses, size_t steps, size_t stride,
                          zest_tilt_advice *advice, zest_error *error);
/* From the last recorded steps; steps = 0 in the advice when there are none. */
zest_status zest_choose_t_journal(zest_journal *journal, zest_tilt_advice *advice, zest_error *error);

/* "t = 5 changes the steps by less than 1 %: at this rho and t the run equals MeZO; ..." Needs steps > 0. */
void zest_choose_t_text(const zest_tilt_advice *advice, zest_buffer *out);
/* t to two digits, which is what these losses can tell. */
double zest_choose_t_round(double t);

#endif
