/* The vector operations of the kernels: sixteen floats, AVX-512. */
#ifndef ZEST_KERNELS_CPU_SIMD_AVX512_H
#define ZEST_KERNELS_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "rng/noise.h"
#include "io/tensor.h"

#define VECTOR_NOISE zest_noise_avx512
typedef __m512 vec;
enum { WIDTH = 16 };

static inline vec v_set(float x) { return _mm512_set1_ps(x); }
static inline vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec v_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec v_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec v_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec v_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec v_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec v_abs(vec a) { return _mm512_abs_ps(a); }
static inline vec v_power(vec shifted) {
    __m512i biased = _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

static inline __mmask16 first_of(size_t count) { return (__mmask16)((1u << count) - 1); } /* count <= 16 */
static inline vec v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vec a) { _mm512_storeu_ps(p, a); }
static inline vec v_load_part(const float *p, size_t count) {
    return _mm512_maskz_loadu_ps(first_of(count), p);
}
static inline void v_store_part(float *p, size_t count, vec a) {
    _mm512_mask_storeu_ps(p, first_of(count), a);
}
/* The first `count` elements of a, the others of b. */
static inline vec v_first(size_t count, vec a, vec b) { return _mm512_mask_blend_ps(first_of(count), b, a); }

/* Sum and maximum of all elements, by halves: i and i + 8, then i and i + 4, ... */
static inline float v_total(vec a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline float v_largest(vec a) {
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* Stored weights at any address. */
static inline vec v_widen(zest_dtype dtype, const void *p) {
    switch (dtype) {
    case ZEST_DTYPE_F16: return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    case ZEST_DTYPE_BF16: {
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
    }
    default: return _mm512_loadu_ps(p);
    }
}

/* zest_dtype_to_bf16, left in a float */
static inline vec v_round_bf16(vec a) {
    __m512i bits = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    rounded = _mm512_mask_blend_epi32(nan, rounded, quiet);
    return _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32((int)0xffff0000)));
}

/* Of pairs of bf16: the first or the second of each as a float. */
static inline vec v_low_bf16(vec a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 16));
}
static inline vec v_high_bf16(vec a) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32((int)0xffff0000)));
}

/* Elements 1 0 3 2 5 4 ... */
static inline vec v_swap_pairs(vec a) { return _mm512_permute_ps(a, 0xB1); }

/* Rows become columns. */
static inline void v_transpose(vec a[WIDTH]) {
    vec b[WIDTH];
    for (int g = 0; g < WIDTH; g += 4) { /* four by four inside the 128-bit lanes */
        __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(a[g], a[g + 1]));
        __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(a[g + 2], a[g + 3]));
        __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(a[g], a[g + 1]));
        __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(a[g + 2], a[g + 3]));
        b[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
        b[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
        b[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
        b[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
    }
    for (int i = 0; i < 4; i++) { /* then the lanes themselves */
        vec low01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x44),
            high01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xEE);
        vec low23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x44);
        vec high23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xEE);
        a[i] = _mm512_shuffle_f32x4(low01, low23, 0x88);
        a[4 + i] = _mm512_shuffle_f32x4(low01, low23, 0xDD);
        a[8 + i] = _mm512_shuffle_f32x4(high01, high23, 0x88);
        a[12 + i] = _mm512_shuffle_f32x4(high01, high23, 0xDD);
    }
}

#ifdef __AVX512BF16__
/* 32 consecutive floats as sixteen pairs of bf16, the first of a pair in the low half. The conversion flushes
 * subnormals, as the multiplication does with them anyway. */
static inline vec v_pairs(vec low, vec high) {
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Two rows of sixteen as pairs. */
static inline vec v_pairs_of_rows(vec even, vec odd) {
    __m512i low = _mm512_srli_epi32(_mm512_castps_si512(v_round_bf16(even)), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_castps_si512(v_round_bf16(odd))));
}

static inline vec v_multiply_pairs(vec a, vec b, vec c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
#endif

#endif
