/* exp and the activations. One formula for every instruction set: include a simd_*.h first. Only IEEE
 * operations and explicit fused multiply-adds in a fixed order, so all of them give the same bits. A NaN
 * stays a NaN.
 *
 * The polynomials are weighted least-squares fits, reweighted to near minimax, coefficients rounded to float. */
#ifndef ZEST_KERNELS_CPU_ACTIVATIONS_H
#define ZEST_KERNELS_CPU_ACTIVATIONS_H

#include "kernels/ops.h"

/* exp(x) = 2^n (1 + q), q = r + r^2 Q(r), |r| <= ln(2)/2; relative error under 1.5e-7. Arguments are held in
 * [-87.3, 88.3], where 2^n is a normal number: below, the result is 1.2e-38 instead of less. Returns q. */
static inline vec f_exp_parts(vec x, vec *power) {
    const vec shift = v_set(12582912.0f); /* 1.5·2^23: adding it rounds to an integer */
    x = v_max(v_set(-87.3f), v_min(v_set(88.3f), x));
    vec shifted = v_fma(x, v_set(1.44269502f), shift), n = v_sub(shifted, shift);
    vec r = v_fma(n, v_set(-0.693145752f), x); /* ln 2 in two pieces; n times the first is exact */
    r = v_fma(n, v_set(-1.42860677e-06f), r);
    vec q = v_fma(v_set(0.00139505998f), r, v_set(0.00836895406f));
    q = v_fma(q, r, v_set(0.041666206f));
    q = v_fma(q, r, v_set(0.166665182f));
    q = v_fma(q, r, v_set(0.5f));
    *power = v_power(shifted);
    return v_fma(v_mul(r, r), q, r);
}

static inline vec f_exp(vec x) {
    vec power, q = f_exp_parts(x, &power);
    return v_mul(v_add(q, v_set(1.0f)), power);
}

/* tanh x = e/(e + 2) with e = exp(2x) - 1 = 2^n q + (2^n - 1), which keeps the digits of a small x. */
static inline vec f_tanh(vec x) {
    vec power, q = f_exp_parts(v_add(x, x), &power);
    vec e = v_fma(power, q, v_sub(power, v_set(1.0f)));
    return v_div(e, v_add(e, v_set(2.0f)));
}

static inline vec f_soft_cap(vec x, float cap) { return v_mul(v_set(cap), f_tanh(v_div(x, v_set(cap)))); }

/* Phi(-a) for a from 0 to 6: its logarithm is a polynomial in a; absolute error under 1e-7. */
static inline vec f_normal_tail(vec a) {
    vec p = v_fma(v_set(-1.98198489e-08f), a, v_set(5.84411907e-07f));
    p = v_fma(p, a, v_set(-7.39835559e-06f));
    p = v_fma(p, a, v_set(5.12119659e-05f));
    p = v_fma(p, a, v_set(-0.000185349985f));
    p = v_fma(p, a, v_set(-2.3116434e-05f));
    p = v_fma(p, a, v_set(0.0048511643f));
    p = v_fma(p, a, v_set(-0.0363803804f));
    p = v_fma(p, a, v_set(-0.318294108f));
    p = v_fma(p, a, v_set(-0.797887206f));
    p = v_fma(p, a, v_set(-0.693147063f));
    return f_exp(p);
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|). Beyond 6 the second term is less than 6e-9. */
static inline vec f_gelu(vec x) {
    vec a = v_min(v_set(6.0f), v_abs(x));
    return v_sub(v_max(v_set(0.0f), x), v_mul(a, f_normal_tail(a)));
}

/* x / (1 + exp(-y)) */
static inline vec f_times_sigmoid(vec x, vec y) {
    return v_div(x, v_add(v_set(1.0f), f_exp(v_sub(v_set(0.0f), y))));
}

/* x (1 + tanh(u))/2 = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline vec f_gelu_tanh(vec x) {
    vec cubic = v_fma(v_mul(v_mul(x, x), x), v_set(0.044715f), x);
    return f_times_sigmoid(x, v_mul(cubic, v_set(1.59576912f)));
}

static inline vec f_activate(vec x, zest_activation activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return v_max(v_set(0.0f), x);
    case ZEST_ACT_GELU: return f_gelu(x);
    case ZEST_ACT_GELU_TANH: return f_gelu_tanh(x);
    case ZEST_ACT_SILU: return f_times_sigmoid(x, x);
    default: return x;
    }
}

#endif
