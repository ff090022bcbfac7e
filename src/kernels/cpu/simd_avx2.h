/* The vector operations of the kernels: eight floats, AVX2 with FMA and F16C. */
#ifndef ZEST_KERNELS_CPU_SIMD_AVX2_H
#define ZEST_KERNELS_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "io/tensor.h"
#include "rng/noise.h"

#define VECTOR_NOISE zest_noise_avx2
typedef __m256 vec;
enum { WIDTH = 8 };

static inline vec v_set(float x) { return _mm256_set1_ps(x); }
static inline vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec v_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec v_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec v_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec v_min(vec a, vec b) { return _mm256_min_ps(a, b); }
static inline vec v_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec v_abs(vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vec v_power(vec shifted) {
    __m256i biased = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

static inline __m256i first_of(size_t count) { /* count <= 8 */
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vec a) { _mm256_storeu_ps(p, a); }
static inline vec v_load_part(const float *p, size_t count) { return _mm256_maskload_ps(p, first_of(count)); }
static inline void v_store_part(float *p, size_t count, vec a) { _mm256_maskstore_ps(p, first_of(count), a); }
/* The first `count` elements of a, the others of b. */
static inline vec v_first(size_t count, vec a, vec b) {
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(first_of(count)));
}

/* Sum and maximum of all elements, by halves: i and i + 4, then i and i + 2, ... */
static inline float v_total(vec a) {
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline float v_largest(vec a) {
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* Stored weights at any address. */
static inline vec v_widen(zest_dtype dtype, const void *p) {
    switch (dtype) {
    case ZEST_DTYPE_F16: return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
    case ZEST_DTYPE_BF16: {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
        return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    }
    default: return _mm256_loadu_ps(p);
    }
}

/* zest_dtype_to_bf16, left in a float */
static inline vec v_round_bf16(vec a) {
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    vec nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    vec chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan);
    return _mm256_and_ps(chosen, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

/* Of pairs of bf16: the first or the second of each as a float. */
static inline vec v_low_bf16(vec a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 16));
}
static inline vec v_high_bf16(vec a) {
    return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

/* Elements 1 0 3 2 5 4 7 6 */
static inline vec v_swap_pairs(vec a) { return _mm256_permute_ps(a, 0xB1); }

/* Rows become columns. */
static inline void v_transpose(vec a[WIDTH]) {
    vec b[WIDTH];
    for (int g = 0; g < WIDTH; g += 4) { /* four by four inside the 128-bit lanes */
        vec low01 = _mm256_unpacklo_ps(a[g], a[g + 1]), low23 = _mm256_unpacklo_ps(a[g + 2], a[g + 3]);
        vec high01 = _mm256_unpackhi_ps(a[g], a[g + 1]), high23 = _mm256_unpackhi_ps(a[g + 2], a[g + 3]);
        b[g] = _mm256_shuffle_ps(low01, low23, 0x44);
        b[g + 1] = _mm256_shuffle_ps(low01, low23, 0xEE);
        b[g + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
        b[g + 3] = _mm256_shuffle_ps(high01, high23, 0xEE);
    }
    for (int i = 0; i < 4; i++) { /* then the lanes themselves */
        a[i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
        a[4 + i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
    }
}

#endif
