/* Products with quantised weights for AVX2, and for AVX-512 with VNNI: 32 integers in a vector. Include simd_avx2.h
 * first, and define Q_DOT(unsigned, signed), which adds the products of each four bytes, and QUANTIZED, the name of
 * the function. Bit-identical to quantized_plain.c.
 *
 * Weights are turned into bytes once for up to Q_ROWS rows of activations. */
#include <omp.h>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/perturbed_weight.h"
#include "kernels/cpu/quantized.h"

enum { Q_ROWS = 4, Q_OUTPUTS = 64 /* of a task */ };
#define Q_INLINE static inline __attribute__((always_inline))

/* Groups of a row: bytes, d_w of each lane, m of each group. */
typedef struct {
    __m256i q[Q_GROUPS];
    __m256 scale[Q_GROUPS], min;
} q_groups;

static inline float q_half(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

static inline __m256i q_load(const void *bytes) { return _mm256_loadu_si256((const __m256i *)bytes); }
static inline __m256i q_low(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
static inline __m256i q_high(__m256i x) { return q_low(_mm256_srli_epi16(x, 4)); }

/* 16 bytes of nibbles: elements i in the low ones, i + 16 in the high ones. */
static inline __m256i q_nibbles(const uint8_t *bytes) {
    __m128i x = _mm_loadu_si128((const __m128i *)bytes);
    return q_low(_mm256_set_m128i(_mm_srli_epi16(x, 4), x));
}

/* 32 bits as bytes of 0 or 16. */
static inline __m256i q_fifth_bits(const uint8_t *bytes) {
    int word;
    memcpy(&word, bytes, sizeof word);
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of), bit_of);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit_of), _mm256_set1_epi8(16));
}

/* Blocks of 32: where their parts are. */
typedef struct {
    size_t bytes, high, q; /* high: fifth bits; 0: none */
    int offset, has_min;
} q_layout;

Q_INLINE q_layout q_layout_of(int type) {
    switch (type) {
    case ZEST_GGUF_TYPE_Q4_0: return (q_layout){18, 0, 2, 8, 0};
    case ZEST_GGUF_TYPE_Q4_1: return (q_layout){20, 0, 4, 0, 1};
    case ZEST_GGUF_TYPE_Q5_0: return (q_layout){22, 2, 6, 16, 0};
    case ZEST_GGUF_TYPE_Q5_1: return (q_layout){24, 4, 8, 0, 1};
    default: return (q_layout){34, 0, 2, 0, 0};
    }
}

/* `count` of them. */
Q_INLINE void q_read_blocks(int type, const uint8_t *row, size_t count, q_groups *out) {
    const q_layout layout = q_layout_of(type);
    float mins[Q_GROUPS] = {0};
#pragma GCC unroll 8
    for (size_t g = 0; g < Q_GROUPS; g++) {
        if (g >= count) { /* not read, but the compiler cannot know */
            out->q[g] = _mm256_setzero_si256();
            out->scale[g] = _mm256_setzero_ps();
            continue;
        }
        const uint8_t *block = row + g * layout.bytes;
        out->scale[g] = _mm256_set1_ps(q_half(block));
        out->q[g] = type == ZEST_GGUF_TYPE_Q8_0 ? q_load(block + layout.q) : q_nibbles(block + layout.q);
        if (layout.high) out->q[g] = _mm256_or_si256(out->q[g], q_fifth_bits(block + layout.high));
        if (layout.offset) out->q[g] = _mm256_sub_epi8(out->q[g], _mm256_set1_epi8((char)layout.offset));
        if (layout.has_min) mins[g] = -q_half(block + 2);
    }
    out->min = layout.has_min ? _mm256_loadu_ps(mins) : _mm256_setzero_ps();
}

/* Eight bytes as floats. */
static inline __m256 q_bytes(uint32_t low, uint32_t high) {
    __m128i bytes = _mm_cvtsi64_si128((long long)((uint64_t)high << 32 | low));
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

/* Q4_K, and Q5_K with its fifth bits. Scales of six bits are unpacked four at a time. */
Q_INLINE void q_read_k4(int type, const uint8_t *block, q_groups *out) {
    const int fifth = type == ZEST_GGUF_TYPE_Q5_K;
    const uint8_t *nibbles = block + (fifth ? 48 : 16);
    uint32_t packed[3];
    float scales[Q_GROUPS];
    memcpy(packed, block + 4, sizeof packed);
    __m256 scale =
        q_bytes(packed[0] & 0x3f3f3f3f, (packed[2] & 0x0f0f0f0f) | (packed[0] >> 6 & 0x03030303) << 4);
    __m256 min =
        q_bytes(packed[1] & 0x3f3f3f3f, (packed[2] >> 4 & 0x0f0f0f0f) | (packed[1] >> 6 & 0x03030303) << 4);
    _mm256_storeu_ps(scales, _mm256_mul_ps(_mm256_set1_ps(q_half(block)), scale));
    out->min = _mm256_mul_ps(_mm256_set1_ps(q_half(block + 2)), min);
    const __m256i top = fifth ? q_load(block + 16) : _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int g = 0; g < Q_GROUPS; g++) {
        __m256i x = q_load(nibbles + g / 2 * 32);
        out->q[g] = g % 2 ? q_high(x) : q_low(x);
        if (fifth) {
            __m256i bit = _mm256_and_si256(_mm256_srli_epi16(top, g), _mm256_set1_epi8(1));
            out->q[g] = _mm256_or_si256(out->q[g], _mm256_slli_epi16(bit, 4));
        }
        out->scale[g] = _mm256_set1_ps(scales[g]);
    }
}

Q_INLINE void q_read_k6(const uint8_t *block, q_groups *out) {
    const __m256 all = _mm256_set1_ps(q_half(block + 208));
    float scales[2 * Q_GROUPS];
    for (int i = 0; i < 2; i++) {
        __m128i bytes = _mm_loadl_epi64((const __m128i *)(block + 192 + 8 * i));
        _mm256_storeu_ps(scales + 8 * i, _mm256_mul_ps(all, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))));
    }
#pragma GCC unroll 8
    for (int g = 0; g < Q_GROUPS; g++) {
        __m256i x = q_load(block + g / 4 * 64 + g % 2 * 32), top = q_load(block + 128 + g / 4 * 32);
        top = _mm256_and_si256(_mm256_srli_epi16(top, g % 4 * 2), _mm256_set1_epi8(3));
        x = _mm256_or_si256(g % 4 / 2 ? q_high(x) : q_low(x), _mm256_slli_epi16(top, 4));
        out->q[g] = _mm256_sub_epi8(x, _mm256_set1_epi8(32));
        out->scale[g] = _mm256_set_m128(_mm_set1_ps(scales[2 * g + 1]), _mm_set1_ps(scales[2 * g]));
    }
    out->min = _mm256_setzero_ps();
}

/* Sums of products of each four bytes. Signs go from the weights to the activations. */
Q_INLINE __m256i q_multiply(int is_signed, __m256i w, __m256i a) {
    return is_signed ? Q_DOT(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)) : Q_DOT(w, a);
}

/* One output of `rows` rows from m on, to out[0], out[stride], ... */
Q_INLINE void q_output(int type, int rows, const q_plan *p, int lane, size_t m, const uint8_t *weights,
                       float *out, size_t stride) {
    const int large =
        type == ZEST_GGUF_TYPE_Q4_K || type == ZEST_GGUF_TYPE_Q5_K || type == ZEST_GGUF_TYPE_Q6_K;
    const int has_min = large ? type != ZEST_GGUF_TYPE_Q6_K : q_layout_of(type).has_min;
    __m256 sum[Q_ROWS][2], mins[Q_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = mins[r] = _mm256_setzero_ps();
    for (size_t first = 0; first < p->groups; first += Q_GROUPS) {
        size_t here = large || p->groups - first >= Q_GROUPS ? Q_GROUPS : p->groups - first;
        q_groups w;
        if (type == ZEST_GGUF_TYPE_Q6_K)
            q_read_k6(weights, &w);
        else if (large)
            q_read_k4(type, weights, &w);
        else
            q_read_blocks(type, weights, here, &w);
        weights += large ? p->block_bytes : here * p->block_bytes;
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const int8_t *a = q_row_of(p, lane, m + (size_t)r) + first * Q_GROUP;
            const float *scales = q_scales_of(p, lane, m + (size_t)r) + first;
#pragma GCC unroll 8
            for (size_t g = 0; g < Q_GROUPS; g++) {
                if (g >= here) break;
                __m256i dot = q_multiply(!has_min, w.q[g], q_load(a + g * Q_GROUP));
                __m256 scale = _mm256_mul_ps(w.scale[g], _mm256_set1_ps(scales[g]));
                sum[r][g % 2] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dot), sum[r][g % 2]);
            }
            if (has_min)
                mins[r] = _mm256_fmadd_ps(w.min, _mm256_loadu_ps(scales + q_padded(p->groups)), mins[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        out[(size_t)r * stride] = v_total(_mm256_add_ps(sum[r][0], sum[r][1])) - v_total(mins[r]);
}

/* `rows` rows from m on by outputs first .. end-1. */
#define Q_CASE(type, rows_of)            \
    for (size_t n = first; n < end; n++) \
    q_output(type, rows_of, p, lane, m, data + n * p->row_bytes, c + (n - first), Q_OUTPUTS)
#define Q_TYPE(type)              \
    case type:                    \
        if (rows == 1)            \
            Q_CASE(type, 1);      \
        else                      \
            Q_CASE(type, Q_ROWS); \
        break
static void q_block(const q_plan *p, int lane, size_t m, size_t rows, size_t first, size_t end, float *c) {
    const uint8_t *data = p->job->weight.data;
    switch (p->job->weight.block_type) {
        Q_TYPE(ZEST_GGUF_TYPE_Q8_0);
        Q_TYPE(ZEST_GGUF_TYPE_Q4_0);
        Q_TYPE(ZEST_GGUF_TYPE_Q4_1);
        Q_TYPE(ZEST_GGUF_TYPE_Q5_0);
        Q_TYPE(ZEST_GGUF_TYPE_Q5_1);
        Q_TYPE(ZEST_GGUF_TYPE_Q4_K);
        Q_TYPE(ZEST_GGUF_TYPE_Q5_K);
        Q_TYPE(ZEST_GGUF_TYPE_Q6_K);
    default: break;
    }
}
#undef Q_TYPE
#undef Q_CASE

static void q_epilogue(const zest_linear *job, int lane, size_t row, size_t first, size_t count,
                       const float *c, const float *bias) {
    float *out = (float *)job->out[lane] + row * job->out_stride + first;
    const float *residual = job->residual[lane];
    if (residual) residual += row * job->residual_stride + first;
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t here = part_of(count, i);
        vec y = load_some(c + i, here);
        if (job->bias.data) y = v_add(y, load_some(bias + i, here));
        y = f_activate(y, job->activation);
        if (residual) y = v_add(y, load_some(residual + i, here));
        store_some(out + i, here, y);
    }
}

/* Q_OUTPUTS outputs of all rows. Rows that are left over are done one by one. */
static void q_task(const q_plan *p, int lane, size_t first) {
    const zest_linear *job = p->job;
    size_t end = p->outputs - first < Q_OUTPUTS ? p->outputs : first + Q_OUTPUTS;
    float c[Q_ROWS * Q_OUTPUTS], bias[Q_OUTPUTS];
    const zest_perturbation none = {.lanes = 1};
    if (job->bias.data) weight_values(&job->bias, &none, first, end - first, (float *const[2]){bias, NULL});
    for (size_t m = 0; m < job->rows;) {
        size_t rows = job->rows - m < Q_ROWS ? 1 : Q_ROWS;
        q_block(p, lane, m, rows, first, end, c);
        for (size_t r = 0; r < rows; r++)
            q_epilogue(job, lane, m + r, first, end - first, c + r * Q_OUTPUTS, bias);
        m += rows;
    }
}

int QUANTIZED(const zest_linear *job, int threads, zest_workspace *scratch) {
    q_plan p;
    if (!job->rows) return 0;
    if (!q_make_plan(job, scratch, &p)) return -1;
    size_t lanes = (size_t)job->perturbation.lanes, tasks = (p.outputs + Q_OUTPUTS - 1) / Q_OUTPUTS;
    double work = 0.5 * (double)(job->rows * p.outputs) * (double)p.inputs;
    for (size_t i = 0; job->rows == 1 && i < lanes; i++) q_quantize_row(&p, (int)i, 0);
    threads = useful_threads(threads, work);
#pragma omp parallel num_threads(threads)
    {
        if (job->rows > 1) {
#pragma omp for schedule(static)
            for (size_t i = 0; i < lanes * job->rows; i++)
                q_quantize_row(&p, (int)(i / job->rows), i % job->rows);
        }
#pragma omp for schedule(dynamic, 4)
        for (size_t i = 0; i < lanes * tasks; i++) q_task(&p, (int)(i / tasks), i % tasks * Q_OUTPUTS);
    }
    return 0;
}
