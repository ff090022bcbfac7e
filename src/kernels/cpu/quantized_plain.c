/* Products with quantised weights in plain C: the reference of quantized_simd.h. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/quantized.h"
#include "kernels/cpu/simd_plain.h"
#include "kernels/cpu/activations.h"

int zest_quantized_takes(int type) {
    return type == ZEST_GGUF_TYPE_Q8_0 || type == ZEST_GGUF_TYPE_Q4_0 || type == ZEST_GGUF_TYPE_Q4_1 ||
           type == ZEST_GGUF_TYPE_Q5_0 || type == ZEST_GGUF_TYPE_Q5_1 || type == ZEST_GGUF_TYPE_Q4_K ||
           type == ZEST_GGUF_TYPE_Q5_K || type == ZEST_GGUF_TYPE_Q6_K;
}

/* Group g of a row: io/gguf_dequantize.c says how blocks are laid out. */
typedef struct {
    int q[Q_GROUP];
    float scale[2], min; /* scale: of each half */
} group;

static float half_at(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return zest_dtype_from_f16(half);
}

/* high: the fifth bits, bit i of the word for element i; or NULL. */
static void read_nibbles(const uint8_t *bytes, const uint8_t *high, int offset, group *out) {
    for (int i = 0; i < 16; i++) {
        out->q[i] = (bytes[i] & 15) - offset;
        out->q[i + 16] = (bytes[i] >> 4) - offset;
    }
    for (int i = 0; high && i < Q_GROUP; i++) out->q[i] += (high[i / 8] >> (i % 8) & 1) << 4;
}

/* Q4_K and Q5_K. */
static void read_k4(const uint8_t *block, const uint8_t *high, const uint8_t *nibbles, size_t g, group *out) {
    const uint8_t *packed = block + 4;
    int scale = g < 4 ? packed[g] & 63 : (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
    int min = g < 4 ? packed[g + 4] & 63 : packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    for (size_t i = 0; i < Q_GROUP; i++) {
        out->q[i] = nibbles[g / 2 * 32 + i] >> (g % 2 * 4) & 15;
        if (high) out->q[i] |= (high[i] >> g & 1) << 4;
    }
    out->scale[0] = out->scale[1] = half_at(block) * (float)scale;
    out->min = half_at(block + 2) * (float)min;
}

static void read_k6(const uint8_t *block, size_t g, group *out) {
    const uint8_t *low = block + g / 4 * 64 + g % 2 * 32, *top = block + 128 + g / 4 * 32;
    for (size_t i = 0; i < Q_GROUP; i++)
        out->q[i] = ((low[i] >> (g % 4 / 2 * 4) & 15) | (top[i] >> (g % 4 * 2) & 3) << 4) - 32;
    for (size_t h = 0; h < 2; h++)
        out->scale[h] = half_at(block + 208) * (float)(int8_t)block[192 + g * 2 + h];
}

static group read_group(const q_plan *p, const uint8_t *row, size_t g) {
    group out = {.min = 0};
    const uint8_t *block = row + g * p->block_bytes, *large = row + g / Q_GROUPS * p->block_bytes;
    switch (p->job->weight.block_type) {
    case ZEST_GGUF_TYPE_Q8_0:
        for (int i = 0; i < Q_GROUP; i++) out.q[i] = (int)(int8_t)block[2 + i];
        out.scale[0] = out.scale[1] = half_at(block);
        break;
    case ZEST_GGUF_TYPE_Q4_0:
        read_nibbles(block + 2, NULL, 8, &out);
        out.scale[0] = out.scale[1] = half_at(block);
        break;
    case ZEST_GGUF_TYPE_Q4_1:
        read_nibbles(block + 4, NULL, 0, &out);
        out.scale[0] = out.scale[1] = half_at(block);
        out.min = -half_at(block + 2);
        break;
    case ZEST_GGUF_TYPE_Q5_0:
        read_nibbles(block + 6, block + 2, 16, &out);
        out.scale[0] = out.scale[1] = half_at(block);
        break;
    case ZEST_GGUF_TYPE_Q5_1:
        read_nibbles(block + 8, block + 4, 0, &out);
        out.scale[0] = out.scale[1] = half_at(block);
        out.min = -half_at(block + 2);
        break;
    case ZEST_GGUF_TYPE_Q4_K: read_k4(large, NULL, large + 16, g % Q_GROUPS, &out); break;
    case ZEST_GGUF_TYPE_Q5_K: read_k4(large, large + 16, large + 48, g % Q_GROUPS, &out); break;
    default: read_k6(large, g % Q_GROUPS, &out); break;
    }
    return out;
}

static float by_halves(float *sums, int count) {
    for (int half = count / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

static float product(const q_plan *p, const uint8_t *row, int lane, size_t m) {
    const int8_t *a = q_row_of(p, lane, m);
    const float *scales = q_scales_of(p, lane, m), *totals = scales + q_padded(p->groups);
    float sums[16] = {0}, mins[8] = {0};
    for (size_t g = 0; g < p->groups; g++) {
        group w = read_group(p, row, g);
        for (size_t i = 0; i < 8; i++) {
            int dot = 0;
            for (size_t k = 4 * i; k < 4 * i + 4; k++) dot += w.q[k] * a[g * Q_GROUP + k];
            float *sum = &sums[g % 2 * 8 + i];
            *sum = fmaf(w.scale[i / 4] * scales[g], (float)dot, *sum);
        }
        mins[g % 8] = fmaf(w.min, totals[g], mins[g % 8]);
    }
    return by_halves(sums, 16) - by_halves(mins, 8);
}

int zest_quantized_plain(const zest_linear *job, int threads, zest_workspace *scratch) {
    q_plan p;
    if (!job->rows) return 0;
    if (!q_make_plan(job, scratch, &p)) return -1;
    for (int l = 0; l < job->perturbation.lanes; l++) {
        const float *residual = job->residual[l];
        float *out = job->out[l];
        for (size_t m = 0; m < job->rows; m++) q_quantize_row(&p, l, m);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (size_t n = 0; n < p.outputs; n++) {
            const uint8_t *row = (const uint8_t *)job->weight.data + n * p.row_bytes;
            float bias = 0;
            if (job->bias.data)
                (void)zest_dtype_to_float(job->bias.dtype, zest_weight_at(&job->bias, n), 1, &bias);
            for (size_t m = 0; m < job->rows; m++) {
                float y = product(&p, row, l, m);
                y = f_activate(job->bias.data ? y + bias : y, job->activation);
                if (residual) y += residual[m * job->residual_stride + n];
                out[m * job->out_stride + n] = y;
            }
        }
    }
    return 0;
}
