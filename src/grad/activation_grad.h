/* Derivatives of the activations, by which a gradient is multiplied on its way back. One formula for every
 * instruction set: include a simd_*.h and activations.h first, and define v_step(x): 1 where x > 0, else 0.
 *
 *     relu    1 where x > 0
 *     gelu    (x Phi(x))' = Phi(x) + x phi(x)
 *     silu    (x s(x))' = s + x s (1 - s), s = 1/(1 + exp(-x))
 *     tanh    gelu's approximation is x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3): s + x s (1 - s) 2u' */
#ifndef ZEST_GRAD_ACTIVATION_GRAD_H
#define ZEST_GRAD_ACTIVATION_GRAD_H

#include "kernels/cpu/activations.h"

/* Phi(x) = Phi(-a) + [x > 0] (1 - 2 Phi(-a)), a = |x|. */
static inline vec f_gelu_grad(vec x) {
    vec below = f_normal_tail(v_min(v_set(6.0f), v_abs(x)));
    vec phi = v_mul(v_set(0.398942280f), f_exp(v_mul(v_set(-0.5f), v_mul(x, x))));
    vec cumulative = v_fma(v_step(x), v_fma(v_set(-2.0f), below, v_set(1.0f)), below);
    return v_fma(x, phi, cumulative);
}

/* Derivative of x s(y) with s the sigmoid and slope = dy/dx: s + x s (1 - s) slope. */
static inline vec f_swish_grad(vec x, vec y, vec slope) {
    vec s = f_times_sigmoid(v_set(1.0f), y);
    return v_fma(v_mul(v_mul(x, s), v_sub(v_set(1.0f), s)), slope, s);
}

static inline vec f_gelu_tanh_grad(vec x) {
    vec square = v_mul(x, x), cubic = v_fma(v_mul(square, x), v_set(0.044715f), x);
    vec slope = v_mul(v_set(1.59576912f), v_fma(square, v_set(0.134145f), v_set(1.0f)));
    return f_swish_grad(x, v_mul(cubic, v_set(1.59576912f)), slope);
}

static inline vec f_activation_grad(vec x, zest_activation activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return v_step(x);
    case ZEST_ACT_GELU: return f_gelu_grad(x);
    case ZEST_ACT_GELU_TANH: return f_gelu_tanh_grad(x);
    case ZEST_ACT_SILU: return f_swish_grad(x, x, v_set(1.0f));
    default: return v_set(1.0f);
    }
}

#endif
