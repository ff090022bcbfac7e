/* Noise with AVX-512: sixteen Philox blocks, 64 normals, at a time. Bit-identical to noise.c. */
#include "rng/noise.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "rng/noise_law.h"
#include "rng/noise_simd.h"

typedef struct {
    __m512i word[4];
} words;

/* The upper halves of products, by a shuffle: on Intel's cores a shift would wait for the multiplier's port. */
static inline __m512i high_half(__m512i product) { return _mm512_shuffle_epi32(product, _MM_PERM_DDBB); }

/* Eight blocks, one per 64-bit lane. Only the low halves count: the multiplication ignores the high ones, so
 * what the xors leave there does no harm. */
static inline words philox8(__m512i position, uint32_t stream, uint64_t key) {
    const __m512i multiplier0 = _mm512_set1_epi64(ZEST_PHILOX_MULTIPLIER_0);
    const __m512i multiplier1 = _mm512_set1_epi64(ZEST_PHILOX_MULTIPLIER_1);
    __m512i c0 = position, c1 = _mm512_srli_epi64(position, 32);
    __m512i c2 = _mm512_set1_epi64(stream), c3 = _mm512_setzero_si512();
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ZEST_PHILOX_ROUNDS; round++) {
        __m512i product0 = _mm512_mul_epu32(c0, multiplier0), product1 = _mm512_mul_epu32(c2, multiplier1);
        /* 0x96: the exclusive or of three */
        c0 = _mm512_ternarylogic_epi64(high_half(product1), c1, _mm512_set1_epi64(k0), 0x96);
        c2 = _mm512_ternarylogic_epi64(high_half(product0), c3, _mm512_set1_epi64(k1), 0x96);
        c1 = product1;
        c3 = product0;
        k0 += ZEST_PHILOX_WEYL_0;
        k1 += ZEST_PHILOX_WEYL_1;
    }
    return (words){{c0, c1, c2, c3}};
}

/* zest_normal_radius */
static inline __m512 radius(__m512i x) {
    __m512 u = _mm512_fmadd_ps(_mm512_cvtepu32_ps(x), _mm512_set1_ps(ZEST_NORMAL_STEP),
                               _mm512_set1_ps(ZEST_NORMAL_HALF_STEP));
    __m512i bits = _mm512_castps_si512(u);
    __m512i e = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(ZEST_NORMAL_SQRT_HALF_BITS)), 23);
    __m512 f = _mm512_add_ps(_mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(e, 23))),
                             _mm512_set1_ps(-1.0f));
    __m512 p = _mm512_set1_ps(ZEST_NORMAL_LOG_7);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_6));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_5));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_4));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_3));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_2));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_1));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(ZEST_NORMAL_LOG_0));
    __m512 square = _mm512_mul_ps(f, f);
    __m512 log1p =
        _mm512_fmadd_ps(_mm512_mul_ps(square, f), p, _mm512_fmadd_ps(_mm512_set1_ps(-0.5f), square, f));
    __m512 log = _mm512_fmadd_ps(_mm512_cvtepi32_ps(e), _mm512_set1_ps(ZEST_NORMAL_LN2), log1p);
    return _mm512_sqrt_ps(_mm512_max_ps(_mm512_mul_ps(_mm512_set1_ps(-2.0f), log), _mm512_setzero_ps()));
}

/* zest_normal_sincos, times the radius */
static inline void polar(__m512i x, __m512 radius, __m512 *first, __m512 *second) {
    const __m512i two = _mm512_set1_epi32(2);
    __m512i quadrant = _mm512_srli_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x20000000)), 30);
    __m512 a = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_slli_epi32(x, 2)), _mm512_set1_ps(ZEST_NORMAL_ANGLE));
    __m512 z = _mm512_mul_ps(a, a);
    __m512 s = _mm512_fmadd_ps(_mm512_set1_ps(ZEST_NORMAL_SIN_2), z, _mm512_set1_ps(ZEST_NORMAL_SIN_1));
    s = _mm512_fmadd_ps(s, z, _mm512_set1_ps(ZEST_NORMAL_SIN_0));
    s = _mm512_fmadd_ps(_mm512_mul_ps(s, z), a, a);
    __m512 c = _mm512_fmadd_ps(_mm512_set1_ps(ZEST_NORMAL_COS_2), z, _mm512_set1_ps(ZEST_NORMAL_COS_1));
    c = _mm512_fmadd_ps(c, z, _mm512_set1_ps(ZEST_NORMAL_COS_0));
    c = _mm512_fmadd_ps(_mm512_mul_ps(z, z), c,
                        _mm512_fmadd_ps(_mm512_set1_ps(-0.5f), z, _mm512_set1_ps(1.0f)));
    __mmask16 odd = _mm512_test_epi32_mask(quadrant, _mm512_set1_epi32(1));
    __m512i sine = _mm512_castps_si512(_mm512_mask_blend_ps(odd, s, c));
    __m512i cosine = _mm512_castps_si512(_mm512_mask_blend_ps(odd, c, s));
    __m512i sine_sign = _mm512_slli_epi32(_mm512_and_si512(quadrant, two), 30);
    __m512i next = _mm512_add_epi32(quadrant, _mm512_set1_epi32(1));
    __m512i cosine_sign = _mm512_slli_epi32(_mm512_and_si512(next, two), 30);
    *first = _mm512_mul_ps(radius, _mm512_castsi512_ps(_mm512_xor_si512(cosine, cosine_sign)));
    *second = _mm512_mul_ps(radius, _mm512_castsi512_ps(_mm512_xor_si512(sine, sine_sign)));
}

/* Word w of blocks position .. position+15 in x[w]. Which block sits in which lane is chosen so that
 * four-by-four transpositions inside the 128-bit lanes (store_in_order) leave the words in order. */
static inline void words16(uint32_t stream, uint64_t key, uint64_t position, __m512i x[4]) {
    const __m512i even_lanes = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i odd_lanes = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    __m512i base = _mm512_set1_epi64((long long)position);
    words even = philox8(_mm512_add_epi64(base, even_lanes), stream, key);
    words odd = philox8(_mm512_add_epi64(base, odd_lanes), stream, key);
    for (int w = 0; w < 4; w++)
        x[w] = _mm512_mask_shuffle_epi32(even.word[w], 0xAAAA, odd.word[w], _MM_PERM_CCAA);
}

static inline void store_in_order(void *out, __m512 n0, __m512 n1, __m512 n2, __m512 n3) {
    __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(n0, n1));
    __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(n2, n3));
    __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(n0, n1));
    __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(n2, n3));
    char *to = out;
    _mm512_storeu_pd(to, _mm512_unpacklo_pd(low01, low23));
    _mm512_storeu_pd(to + 64, _mm512_unpackhi_pd(low01, low23));
    _mm512_storeu_pd(to + 128, _mm512_unpacklo_pd(high01, high23));
    _mm512_storeu_pd(to + 192, _mm512_unpackhi_pd(high01, high23));
}

/* The 64 normals of sixteen blocks. */
static inline void normal64(void *out, uint64_t key, uint64_t position) {
    __m512i x[4];
    __m512 n0, n1, n2, n3;
    words16(ZEST_STREAM_NORMAL, key, position, x);
    polar(x[1], radius(x[0]), &n0, &n1);
    polar(x[3], radius(x[2]), &n2, &n3);
    store_in_order(out, n0, n1, n2, n3);
}

/* The 128 half-words of sixteen blocks. */
static inline void round128(void *out, uint64_t key, uint64_t position) {
    __m512i x[4];
    words16(ZEST_STREAM_ROUND, key, position, x);
    store_in_order(out, _mm512_castsi512_ps(x[0]), _mm512_castsi512_ps(x[1]), _mm512_castsi512_ps(x[2]),
                   _mm512_castsi512_ps(x[3]));
}

static void fill_normal(float *out, uint64_t seed, uint64_t first, size_t count) {
    zest_noise_groups((zest_noise_group){normal64, 64, 4, sizeof *out}, out, seed, first, count);
}

static void fill_round(uint16_t *out, uint64_t seed, uint64_t first, size_t count) {
    zest_noise_groups((zest_noise_group){round128, 128, 8, sizeof *out}, out, seed, first, count);
}

ZEST_NOISE_LAW_FUNCTION(fill_normal, zest_noise_sign_fill)

const zest_noise zest_noise_avx512 = {fill_normal, zest_noise_sign_fill, fill_round, fill_by_law,
                                      fill_vector};
#endif
