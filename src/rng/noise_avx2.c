/* Noise with AVX2 and FMA: eight Philox blocks, 32 normals, at a time. Bit-identical to noise.c. */
#include "rng/noise.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "rng/noise_law.h"
#include "rng/noise_simd.h"

typedef struct {
    __m256i word[4];
} words;

static inline __m256i set32(uint32_t value) { return _mm256_set1_epi32((int32_t)value); }
static inline __m256 horner(__m256 a, __m256 b, float c) { return _mm256_fmadd_ps(a, b, _mm256_set1_ps(c)); }

/* Four blocks, one per 64-bit lane, in the low halves (see noise_avx512.c). */
static inline words philox4(__m256i position, uint32_t stream, uint64_t key) {
    const __m256i multiplier0 = set32(ZEST_PHILOX_MULTIPLIER_0),
                  multiplier1 = set32(ZEST_PHILOX_MULTIPLIER_1);
    __m256i c0 = position, c1 = _mm256_srli_epi64(position, 32);
    __m256i c2 = set32(stream), c3 = _mm256_setzero_si256();
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ZEST_PHILOX_ROUNDS; round++) {
        __m256i product0 = _mm256_mul_epu32(c0, multiplier0), product1 = _mm256_mul_epu32(c2, multiplier1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1), set32(k0));
        c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3), set32(k1));
        c1 = product1;
        c3 = product0;
        k0 += ZEST_PHILOX_WEYL_0;
        k1 += ZEST_PHILOX_WEYL_1;
    }
    return (words){{c0, c1, c2, c3}};
}

/* There is no conversion of unsigned numbers: the fma of the two halves, both exact, rounds once as that
 * would. */
static inline __m256 float_of_unsigned(__m256i x) {
    __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16));
    __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(x, set32(0xFFFF)));
    return _mm256_fmadd_ps(high, _mm256_set1_ps(65536.0f), low);
}

/* zest_normal_radius */
static inline __m256 radius(__m256i x) {
    __m256 u = horner(float_of_unsigned(x), _mm256_set1_ps(ZEST_NORMAL_STEP), ZEST_NORMAL_HALF_STEP);
    __m256i bits = _mm256_castps_si256(u);
    __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(bits, set32(ZEST_NORMAL_SQRT_HALF_BITS)), 23);
    __m256 m = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(e, 23)));
    __m256 f = _mm256_add_ps(m, _mm256_set1_ps(-1.0f));
    __m256 p = horner(_mm256_set1_ps(ZEST_NORMAL_LOG_7), f, ZEST_NORMAL_LOG_6);
    p = horner(p, f, ZEST_NORMAL_LOG_5);
    p = horner(p, f, ZEST_NORMAL_LOG_4);
    p = horner(p, f, ZEST_NORMAL_LOG_3);
    p = horner(p, f, ZEST_NORMAL_LOG_2);
    p = horner(p, f, ZEST_NORMAL_LOG_1);
    p = horner(p, f, ZEST_NORMAL_LOG_0);
    __m256 square = _mm256_mul_ps(f, f);
    __m256 log1p =
        _mm256_fmadd_ps(_mm256_mul_ps(square, f), p, _mm256_fmadd_ps(_mm256_set1_ps(-0.5f), square, f));
    __m256 log = _mm256_fmadd_ps(_mm256_cvtepi32_ps(e), _mm256_set1_ps(ZEST_NORMAL_LN2), log1p);
    return _mm256_sqrt_ps(_mm256_max_ps(_mm256_mul_ps(_mm256_set1_ps(-2.0f), log), _mm256_setzero_ps()));
}

/* zest_normal_sincos, times the radius */
static inline void polar(__m256i x, __m256 radius, __m256 *first, __m256 *second) {
    __m256i quadrant = _mm256_srli_epi32(_mm256_add_epi32(x, set32(0x20000000u)), 30);
    __m256 a = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_slli_epi32(x, 2)), _mm256_set1_ps(ZEST_NORMAL_ANGLE));
    __m256 z = _mm256_mul_ps(a, a);
    __m256 s = horner(horner(_mm256_set1_ps(ZEST_NORMAL_SIN_2), z, ZEST_NORMAL_SIN_1), z, ZEST_NORMAL_SIN_0);
    s = _mm256_fmadd_ps(_mm256_mul_ps(s, z), a, a);
    __m256 c = horner(horner(_mm256_set1_ps(ZEST_NORMAL_COS_2), z, ZEST_NORMAL_COS_1), z, ZEST_NORMAL_COS_0);
    c = _mm256_fmadd_ps(_mm256_mul_ps(z, z), c, horner(_mm256_set1_ps(-0.5f), z, 1.0f));
    __m256 odd = _mm256_castsi256_ps(_mm256_slli_epi32(quadrant, 31));
    __m256 sine = _mm256_blendv_ps(s, c, odd), cosine = _mm256_blendv_ps(c, s, odd);
    __m256i sine_sign = _mm256_slli_epi32(_mm256_and_si256(quadrant, set32(2)), 30);
    __m256i next = _mm256_add_epi32(quadrant, set32(1));
    __m256i cosine_sign = _mm256_slli_epi32(_mm256_and_si256(next, set32(2)), 30);
    *first = _mm256_mul_ps(radius, _mm256_xor_ps(cosine, _mm256_castsi256_ps(cosine_sign)));
    *second = _mm256_mul_ps(radius, _mm256_xor_ps(sine, _mm256_castsi256_ps(sine_sign)));
}

/* Word w of blocks position .. position+7 in x[w], lanes chosen as in noise_avx512.c. */
static inline void words8(uint32_t stream, uint64_t key, uint64_t position, __m256i x[4]) {
    __m256i base = _mm256_set1_epi64x((long long)position);
    words even = philox4(_mm256_add_epi64(base, _mm256_setr_epi64x(0, 4, 1, 5)), stream, key);
    words odd = philox4(_mm256_add_epi64(base, _mm256_setr_epi64x(2, 6, 3, 7)), stream, key);
    for (int w = 0; w < 4; w++)
        x[w] = _mm256_blend_epi32(even.word[w], _mm256_slli_epi64(odd.word[w], 32), 0xAA);
}

static inline void store_in_order(void *out, __m256 n0, __m256 n1, __m256 n2, __m256 n3) {
    __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(n0, n1));
    __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(n2, n3));
    __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(n0, n1));
    __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(n2, n3));
    float *to = out;
    _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23)));
    _mm256_storeu_ps(to + 8, _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23)));
    _mm256_storeu_ps(to + 16, _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23)));
    _mm256_storeu_ps(to + 24, _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23)));
}

/* The 32 normals of eight blocks. */
static inline void normal32(void *out, uint64_t key, uint64_t position) {
    __m256i x[4];
    __m256 n0, n1, n2, n3;
    words8(ZEST_STREAM_NORMAL, key, position, x);
    polar(x[1], radius(x[0]), &n0, &n1);
    polar(x[3], radius(x[2]), &n2, &n3);
    store_in_order(out, n0, n1, n2, n3);
}

/* The 64 half-words of eight blocks. */
static inline void round64(void *out, uint64_t key, uint64_t position) {
    __m256i x[4];
    words8(ZEST_STREAM_ROUND, key, position, x);
    store_in_order(out, _mm256_castsi256_ps(x[0]), _mm256_castsi256_ps(x[1]), _mm256_castsi256_ps(x[2]),
                   _mm256_castsi256_ps(x[3]));
}

static void fill_normal(float *out, uint64_t seed, uint64_t first, size_t count) {
    zest_noise_groups((zest_noise_group){normal32, 32, 4, sizeof *out}, out, seed, first, count);
}

static void fill_round(uint16_t *out, uint64_t seed, uint64_t first, size_t count) {
    zest_noise_groups((zest_noise_group){round64, 64, 8, sizeof *out}, out, seed, first, count);
}

ZEST_NOISE_LAW_FUNCTION(fill_normal, zest_noise_sign_fill)

const zest_noise zest_noise_avx2 = {fill_normal, zest_noise_sign_fill, fill_round, fill_by_law, fill_vector};
#endif
