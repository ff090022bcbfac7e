/* Standard normals from random bits by Box-Muller: four of them from one Philox block.
 *
 * Only IEEE additions, multiplications, explicit fused multiply-adds and square roots, in a fixed order, and
 * no branch: plain C, AVX2, AVX-512 and CUDA give the same bits. No libm. The polynomials come from
 * tools/fit_polynomials.py; their errors (1e-8) are far under float's own rounding.
 *
 * The largest magnitude is sqrt(66 ln 2) = 6.76, since the radius is made from 32 bits. */
#ifndef ZEST_RNG_NORMAL_H
#define ZEST_RNG_NORMAL_H

#include <math.h>
#include <string.h>

#include "rng/philox.h"

/* ---- Constants, shared with the vector versions ---- */

#define ZEST_NORMAL_STEP 2.3283064365386963e-10f /* 2^-32 */
#define ZEST_NORMAL_HALF_STEP 1.16415321826934814e-10f
#define ZEST_NORMAL_SQRT_HALF_BITS 0x3F3504F3 /* sqrt(1/2) as a float's bits */
#define ZEST_NORMAL_LN2 0.693147182f
#define ZEST_NORMAL_ANGLE 3.6572952e-10f /* (pi/2) 2^-32 */

/* log(1+f) = f - f^2/2 + f^3 P(f) */
#define ZEST_NORMAL_LOG_7 -0.0782319829f
#define ZEST_NORMAL_LOG_6 0.129857257f
#define ZEST_NORMAL_LOG_5 -0.131892383f
#define ZEST_NORMAL_LOG_4 0.141681254f
#define ZEST_NORMAL_LOG_3 -0.166169003f
#define ZEST_NORMAL_LOG_2 0.200027853f
#define ZEST_NORMAL_LOG_1 -0.25001049f
#define ZEST_NORMAL_LOG_0 0.333333105f

/* sin(a) = a + a z S(z), cos(a) = 1 - z/2 + z^2 C(z), z = a^2 */
#define ZEST_NORMAL_SIN_2 -0.000195058776f
#define ZEST_NORMAL_SIN_1 0.00833210256f
#define ZEST_NORMAL_SIN_0 -0.166666538f
#define ZEST_NORMAL_COS_2 2.44233343e-05f
#define ZEST_NORMAL_COS_1 -0.00138872326f
#define ZEST_NORMAL_COS_0 0.0416666456f

/* ---- IEEE operations that no compiler may contract or reassociate ---- */

#ifdef __CUDA_ARCH__
#define ZEST_FMA(a, b, c) __fmaf_rn(a, b, c)
#define ZEST_MUL(a, b) __fmul_rn(a, b)
#define ZEST_ADD(a, b) __fadd_rn(a, b)
#define ZEST_SQRT(a) zest_normal_sqrt(a)
/* A small whole number as a float: beside 1.5 2^23 steps are 1. Conversions are slow there. */
#define ZEST_SMALL(e) __fadd_rn(__uint_as_float(0x4B400000u + (uint32_t)(e)), -12582912.0f)
/* The rounded root of 0 and of 1e-8 .. 64, which is all that comes here: __fsqrt_rn without its branch for
 * the rest. tests/cuda/noise.cu compares all of them. */
static __device__ __forceinline__ float zest_normal_sqrt(float x) {
    float r; /* finite: what is added changes 0 alone */
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fadd_rn(x, 1e-30f)));
    float s = __fmul_rn(x, r);
    return __fmaf_rn(__fmaf_rn(-s, s, x), __fmul_rn(0.5f, r), s);
}
#else /* compiled with -ffp-contract=off */
#define ZEST_FMA(a, b, c) fmaf(a, b, c)
#define ZEST_MUL(a, b) ((a) * (b))
#define ZEST_ADD(a, b) ((a) + (b))
#define ZEST_SQRT(a) sqrtf(a)
#define ZEST_SMALL(e) ((float)(e))
#endif

ZEST_DEVICE uint32_t zest_normal_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ZEST_DEVICE float zest_normal_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* sqrt(-2 ln u) with u = (x + 1/2) 2^-32, in (0, 1]. */
ZEST_DEVICE float zest_normal_radius(uint32_t x) {
    float u = ZEST_FMA((float)x, ZEST_NORMAL_STEP, ZEST_NORMAL_HALF_STEP);
    /* u = m 2^e with m in [sqrt(1/2), sqrt(2)) */
    int32_t bits = (int32_t)zest_normal_bits(u), e = (bits - ZEST_NORMAL_SQRT_HALF_BITS) >> 23;
    float f = ZEST_ADD(zest_normal_float((uint32_t)(bits - (int32_t)((uint32_t)e << 23))), -1.0f);
    float p = ZEST_NORMAL_LOG_7;
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_6);
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_5);
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_4);
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_3);
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_2);
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_1);
    p = ZEST_FMA(p, f, ZEST_NORMAL_LOG_0);
    float square = ZEST_MUL(f, f);
    float log1p = ZEST_FMA(ZEST_MUL(square, f), p, ZEST_FMA(-0.5f, square, f));
    float log = ZEST_FMA(ZEST_SMALL(e), ZEST_NORMAL_LN2, log1p);
    /* u rounds to 1 for the largest x: then power is -0, and the radius +0. */
    float power = ZEST_MUL(-2.0f, log);
    return ZEST_SQRT(power > 0.0f ? power : 0.0f);
}

/* Cosine and sine of the angle 2 pi x / 2^32. The top bits, rounded, are the quadrant; the rest is an angle
 * in [-pi/4, pi/4). */
ZEST_DEVICE void zest_normal_sincos(uint32_t x, float *cosine, float *sine) {
    uint32_t turned = x + 0x20000000u, quadrant = turned >> 30;
    float a = ZEST_MUL((float)(int32_t)(x << 2), ZEST_NORMAL_ANGLE), z = ZEST_MUL(a, a);
    float s = ZEST_FMA(ZEST_FMA(ZEST_NORMAL_SIN_2, z, ZEST_NORMAL_SIN_1), z, ZEST_NORMAL_SIN_0);
    s = ZEST_FMA(ZEST_MUL(s, z), a, a);
    float c = ZEST_FMA(ZEST_FMA(ZEST_NORMAL_COS_2, z, ZEST_NORMAL_COS_1), z, ZEST_NORMAL_COS_0);
    c = ZEST_FMA(ZEST_MUL(z, z), c, ZEST_FMA(-0.5f, z, 1.0f));
    uint32_t sine_bits = zest_normal_bits(quadrant & 1 ? c : s),
             cosine_bits = zest_normal_bits(quadrant & 1 ? s : c);
    *sine = zest_normal_float(sine_bits ^ (turned & 0x80000000u));
    *cosine = zest_normal_float(cosine_bits ^ ((turned + 0x40000000u) & 0x80000000u));
}

/* Normals 4·position .. 4·position+3 of a stream. */
ZEST_DEVICE void zest_normal4(uint64_t key, uint32_t stream, uint64_t position, float out[4]) {
    zest_philox_block bits = zest_philox_at(key, stream, position);
    for (int half = 0; half < 4; half += 2) {
        float radius = zest_normal_radius(bits.word[half]), cosine, sine;
        zest_normal_sincos(bits.word[half + 1], &cosine, &sine);
        out[half] = ZEST_MUL(radius, cosine);
        out[half + 1] = ZEST_MUL(radius, sine);
    }
}

#endif
