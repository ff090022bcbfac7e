/* --t auto: the tilt of a step, from the losses of the steps before it.
 *
 * Pair i of a step has the losses b_i + a_i and b_i - a_i; sd(a) and sd(b) are their standard deviations over the
 * directions, pooled over the last ZEST_AUTO_T_STEPS steps. Then
 *
 *     t = min( 1 / (2 sqrt(2) sd(b)),  1 / sd(a) )
 *
 * The first bound is the aim. Of a quadratic loss with the Hessian's eigenvalues lambda_i and Gaussian directions,
 * b_i = f + (rho^2/2) u'Hu has the variance (rho^4/2) sum lambda_i^2 >= (rho^4/2) lambda_max^2, so
 *
 *     t rho^2 lambda_max <= sqrt(2) t sd(b) = 1/2
 *
 * F_t is finite below 1 (Theorem 4.1), and the weights exp(t b_i) have a variance below 1/2. The second bound keeps the
 * slope from saturating the step: pairs are weighed by cosh(t a_i), and k of them count as k / cosh(t^2 sd(a)^2)
 * when a is Gaussian: as 0.65 k at t = 1/sd(a).
 *
 * t is 0, MeZO, until ZEST_AUTO_T_LEAST differences between pairs are known. As the spread of the losses falls, t
 * rises. It is a function of the recorded losses and of IEEE operations alone, so replay repeats it to the bit. */
#ifndef ZEST_OPTIM_AUTO_T_H
#define ZEST_OPTIM_AUTO_T_H

#include "optim/step.h"

void zest_auto_t_add(zest_auto_t *seen, const zest_loss_parts *parts);
/* The tilt of the step after those that were added. */
double zest_auto_t_next(const zest_auto_t *seen);

#endif
