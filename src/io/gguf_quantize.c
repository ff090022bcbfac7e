/* Floats to the blocks of GGUF tensors: the reverse of gguf_dequantize.c, whose comments say how blocks are laid out.
 *
 * The types of 32 elements take their scale from the largest value of the block. The K types have a scale for each
 * group of 16 or 32, itself a small integer under a scale for all 256: groups are fitted by least squares, then their
 * scales are rounded, then the elements are rounded again to the scales that the file will have. */
#include <math.h>
#include <string.h>

#include "io/gguf_write.h"
#include "io/tensor.h"

enum { BLOCK = 256 };

static int clamp(float value, int low, int high) {
    return value <= (float)low ? low : value >= (float)high ? high : (int)roundf(value);
}

/* Stores a scale and returns it as a reader will see it. */
static float put_half(uint8_t *bytes, float value) {
    uint16_t half = zest_dtype_to_f16(value);
    memcpy(bytes, &half, sizeof half);
    return zest_dtype_from_f16(half);
}

static int half_is_finite(const uint8_t *bytes) { return (bytes[1] & 0x7c) != 0x7c; }

/* The element with the largest magnitude, with its sign; the first of equals. */
static float extreme(const float *x, int count) {
    float found = 0;
    for (int i = 0; i < count; i++)
        if (fabsf(x[i]) > fabsf(found)) found = x[i];
    return found;
}

static float inverse(float scale) { return scale != 0 ? 1.0f / scale : 0; }

/* ---- Blocks of 32. Truncation after + 0.5, as the reference implementation rounds ---- */

static void put_nibbles(const uint8_t *q, uint8_t *out) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void put_fifth_bits(const uint8_t *q, uint8_t *out) {
    memset(out, 0, 4);
    for (int i = 0; i < 32; i++) out[i / 8] |= (uint8_t)((q[i] >> 4) << (i % 8));
}

/* Around zero: 2·half levels, the extreme value at the lowest. */
static float symmetric(const float *x, int half, uint8_t *q) {
    float scale = extreme(x, 32) / (float)-half, factor = inverse(scale);
    for (int i = 0; i < 32; i++) {
        int level = (int)(x[i] * factor + ((float)half + 0.5f));
        q[i] = (uint8_t)(level < 2 * half ? level : 2 * half - 1);
    }
    return scale;
}

/* From the smallest to the largest value. */
static float affine(const float *x, int levels, uint8_t *q, float *min) {
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    float scale = (high - low) / (float)levels, factor = inverse(scale);
    for (int i = 0; i < 32; i++) {
        int level = (int)((x[i] - low) * factor + 0.5f);
        q[i] = (uint8_t)(level < levels ? level : levels);
    }
    *min = low;
    return scale;
}

static int write_q4_0(const float *x, uint8_t *block) {
    uint8_t q[32];
    put_half(block, symmetric(x, 8, q));
    put_nibbles(q, block + 2);
    return half_is_finite(block);
}

static int write_q4_1(const float *x, uint8_t *block) {
    uint8_t q[32];
    float min;
    put_half(block, affine(x, 15, q, &min));
    put_half(block + 2, min);
    put_nibbles(q, block + 4);
    return half_is_finite(block) && half_is_finite(block + 2);
}

static int write_q5_0(const float *x, uint8_t *block) {
    uint8_t q[32];
    put_half(block, symmetric(x, 16, q));
    put_fifth_bits(q, block + 2);
    put_nibbles(q, block + 6);
    return half_is_finite(block);
}

static int write_q5_1(const float *x, uint8_t *block) {
    uint8_t q[32];
    float min;
    put_half(block, affine(x, 31, q, &min));
    put_half(block + 2, min);
    put_fifth_bits(q, block + 4);
    put_nibbles(q, block + 8);
    return half_is_finite(block) && half_is_finite(block + 2);
}

static int write_q8_0(const float *x, uint8_t *block) {
    float scale = fabsf(extreme(x, 32)) / 127, factor = inverse(scale);
    put_half(block, scale);
    for (int i = 0; i < 32; i++) block[2 + i] = (uint8_t)(int8_t)clamp(x[i] * factor, -127, 127);
    return half_is_finite(block);
}

/* ---- Fits of a group ---- */

typedef struct {
    float scale, min; /* x ≈ scale·q - min, both at least 0 */
} fit;

/* Least squares for given levels q: the normal equations of x = s q + o, with o <= 0. Returns the squared error. */
static double solve(const float *x, const int *q, int count, fit *out) {
    double sum_q = 0, sum_qq = 0, sum_x = 0, sum_xq = 0, error = 0;
    for (int i = 0; i < count; i++) {
        sum_q += q[i];
        sum_qq += (double)q[i] * q[i];
        sum_x += (double)x[i];
        sum_xq += (double)x[i] * q[i];
    }
    double determinant = count * sum_qq - sum_q * sum_q, scale = 0, offset = sum_x / count;
    if (determinant > 0) {
        scale = (count * sum_xq - sum_q * sum_x) / determinant;
        offset = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
    }
    if (offset > 0) {
        offset = 0;
        scale = sum_qq > 0 ? sum_xq / sum_qq : 0;
    }
    if (scale < 0) scale = 0;
    for (int i = 0; i < count; i++) {
        double d = scale * q[i] + offset - (double)x[i];
        error += d * d;
    }
    *out = (fit){(float)scale, (float)-offset};
    return error;
}

/* Levels 0 .. levels: tries steps around that from the smallest to the largest value, and solves for each. */
static fit fit_affine(const float *x, int count, int levels) {
    float low = 0, high = x[0];
    for (int i = 0; i < count; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    fit best = {0, -low}, found;
    if (!(high > low)) return best;
    double least = INFINITY;
    for (int trial = -5; trial <= 10; trial++) {
        int q[32];
        float factor = ((float)levels + 0.1f * (float)trial) / (high - low);
        for (int i = 0; i < count; i++) q[i] = clamp((x[i] - low) * factor, 0, levels);
        double error = solve(x, q, count, &found);
        if (error < least) least = error, best = found;
    }
    return best;
}

/* Levels -half .. half-1: the scale, of either sign, with the least squared error Σx² - (Σxq)²/Σqq. */
static float fit_symmetric(const float *x, int count, int half) {
    float most = extreme(x, count), best = 0;
    double largest = 0;
    for (int trial = -9; trial <= 9 && most != 0; trial++) {
        float factor = -((float)half + 0.1f * (float)trial) / most;
        double sum_xq = 0, sum_qq = 0;
        for (int i = 0; i < count; i++) {
            int q = clamp(x[i] * factor, -half, half - 1);
            sum_xq += (double)x[i] * q;
            sum_qq += (double)q * q;
        }
        double explained = sum_qq > 0 ? sum_xq * sum_xq / sum_qq : 0;
        if (explained > largest) largest = explained, best = (float)(sum_xq / sum_qq);
    }
    return best;
}

/* ---- Blocks of 256 ---- */

/* Fits all groups; their scales and minima as integers up to `most` under the two halves at `halves`. */
static int fit_groups(const float *x, int groups, int levels, int most, uint8_t *halves, fit *rounded,
                      int *scales, int *mins) {
    fit fits[16];
    float max_scale = 0, max_min = 0;
    int count = BLOCK / groups;
    for (int g = 0; g < groups; g++) {
        fits[g] = fit_affine(x + g * count, count, levels);
        max_scale = fmaxf(max_scale, fits[g].scale);
        max_min = fmaxf(max_min, fits[g].min);
    }
    float scale = put_half(halves, max_scale / (float)most),
          min = put_half(halves + 2, max_min / (float)most);
    for (int g = 0; g < groups; g++) {
        scales[g] = clamp(fits[g].scale * inverse(scale), 0, most);
        mins[g] = clamp(fits[g].min * inverse(min), 0, most);
        rounded[g] = (fit){scale * (float)scales[g], min * (float)mins[g]};
    }
    return half_is_finite(halves) && half_is_finite(halves + 2);
}

static int level(const fit *group, float x, int levels) {
    return clamp((x + group->min) * inverse(group->scale), 0, levels);
}

static int write_q2_k(const float *x, uint8_t *block) {
    fit rounded[16];
    int scales[16], mins[16], fits = fit_groups(x, 16, 3, 15, block + 80, rounded, scales, mins);
    memset(block + 16, 0, 64);
    for (int g = 0; g < 16; g++) {
        block[g] = (uint8_t)(scales[g] | mins[g] << 4);
        for (int i = 0; i < 16; i++)
            block[16 + g / 8 * 32 + g % 2 * 16 + i] |=
                (uint8_t)(level(&rounded[g], x[g * 16 + i], 3) << (g % 8 / 2 * 2));
    }
    return fits;
}

static void put_group_scales(const int *scales, const int *mins, uint8_t *packed) {
    for (int g = 0; g < 4; g++) {
        packed[g] = (uint8_t)(scales[g] | (scales[g + 4] >> 4) << 6);
        packed[g + 4] = (uint8_t)(mins[g] | (mins[g + 4] >> 4) << 6);
        packed[g + 8] = (uint8_t)((scales[g + 4] & 15) | (mins[g + 4] & 15) << 4);
    }
}

/* high: where the fifth bits go; NULL for Q4_K. */
static int write_groups(const float *x, uint8_t *block, uint8_t *high, uint8_t *nibbles) {
    fit rounded[8];
    int scales[8], mins[8], levels = high ? 31 : 15;
    int fits = fit_groups(x, 8, levels, 63, block, rounded, scales, mins);
    put_group_scales(scales, mins, block + 4);
    memset(nibbles, 0, 128);
    if (high) memset(high, 0, 32);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) {
            int q = level(&rounded[g], x[g * 32 + i], levels);
            nibbles[g / 2 * 32 + i] |= (uint8_t)((q & 15) << (g % 2 * 4));
            if (high) high[i] |= (uint8_t)((q >> 4) << g);
        }
    return fits;
}

static int write_q4_k(const float *x, uint8_t *block) { return write_groups(x, block, NULL, block + 16); }
static int write_q5_k(const float *x, uint8_t *block) {
    return write_groups(x, block, block + 16, block + 48);
}

/* Sixteen groups around zero: their scales as integers -half .. half-1 under the half at `bytes`. */
static int fit_signed_groups(const float *x, int levels, int half, uint8_t *bytes, int *scales,
                             float *rounded) {
    float fits[16];
    for (int g = 0; g < 16; g++) fits[g] = fit_symmetric(x + g * 16, 16, levels);
    float scale = put_half(bytes, extreme(fits, 16) / (float)-half);
    for (int g = 0; g < 16; g++) {
        scales[g] = clamp(fits[g] * inverse(scale), -half, half - 1);
        rounded[g] = scale * (float)scales[g];
    }
    return half_is_finite(bytes);
}

static int write_q3_k(const float *x, uint8_t *block) {
    int scales[16];
    float rounded[16];
    int fits = fit_signed_groups(x, 4, 32, block + 108, scales, rounded);
    memset(block, 0, 108);
    for (int g = 0; g < 16; g++) {
        int packed = scales[g] + 32;
        block[96 + g % 8] |= (uint8_t)((packed & 15) << (g / 8 * 4));
        block[104 + g % 4] |= (uint8_t)((packed >> 4) << (g / 4 * 2));
        for (int i = 0; i < 16; i++) {
            int q = clamp(x[g * 16 + i] * inverse(rounded[g]), -4, 3) + 4;
            block[g % 2 * 16 + i] |= (uint8_t)((q >> 2) << (g / 2));
            block[32 + g / 8 * 32 + g % 2 * 16 + i] |= (uint8_t)((q & 3) << (g % 8 / 2 * 2));
        }
    }
    return fits;
}

static int write_q6_k(const float *x, uint8_t *block) {
    int scales[16];
    float rounded[16];
    int fits = fit_signed_groups(x, 32, 128, block + 208, scales, rounded);
    memset(block, 0, 192);
    for (int g = 0; g < 16; g++) block[192 + g] = (uint8_t)(int8_t)scales[g];
    for (int i = 0; i < BLOCK; i++) {
        int q = clamp(x[i] * inverse(rounded[i / 16]), -32, 31) + 32;
        int half = i / 128, s = i / 32 % 4;
        block[half * 64 + s % 2 * 32 + i % 32] |= (uint8_t)((q & 15) << (s / 2 * 4));
        block[128 + half * 32 + i % 32] |= (uint8_t)((q >> 4) << 2 * s);
    }
    return fits;
}

/* ---- Types ---- */

static int (*const writers[])(const float *values, uint8_t *block) = {
    [ZEST_GGUF_TYPE_Q4_0] = write_q4_0, [ZEST_GGUF_TYPE_Q4_1] = write_q4_1,
    [ZEST_GGUF_TYPE_Q5_0] = write_q5_0, [ZEST_GGUF_TYPE_Q5_1] = write_q5_1,
    [ZEST_GGUF_TYPE_Q8_0] = write_q8_0, [ZEST_GGUF_TYPE_Q2_K] = write_q2_k,
    [ZEST_GGUF_TYPE_Q3_K] = write_q3_k, [ZEST_GGUF_TYPE_Q4_K] = write_q4_k,
    [ZEST_GGUF_TYPE_Q5_K] = write_q5_k, [ZEST_GGUF_TYPE_Q6_K] = write_q6_k,
};

static int is_quantized(zest_gguf_type type) {
    return (size_t)type < sizeof writers / sizeof *writers && writers[type];
}

int zest_gguf_can_quantize(zest_gguf_type type) {
    return is_quantized(type) || type == ZEST_GGUF_TYPE_F32 || type == ZEST_GGUF_TYPE_F16 ||
           type == ZEST_GGUF_TYPE_BF16;
}

static int all_finite(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return 0;
    return 1;
}

static int write_plain(zest_gguf_type type, const float *values, size_t columns, void *row) {
    zest_dtype dtype = type == ZEST_GGUF_TYPE_F32   ? ZEST_DTYPE_F32
                       : type == ZEST_GGUF_TYPE_F16 ? ZEST_DTYPE_F16
                                                    : ZEST_DTYPE_BF16;
    const uint8_t *bytes = row;
    zest_dtype_from_float(dtype, values, columns, row);
    for (size_t i = 0; dtype == ZEST_DTYPE_F16 && i < columns; i++)
        if (!half_is_finite(bytes + 2 * i)) return 0;
    return 1;
}

int zest_gguf_quantize(zest_gguf_type type, const float *values, size_t columns, void *row) {
    size_t elements, bytes;
    uint8_t *block = row;
    if (!zest_gguf_can_quantize(type) || !zest_gguf_block_size((uint32_t)type, &elements, &bytes) ||
        columns % elements || !all_finite(values, columns))
        return 0;
    if (!is_quantized(type)) return write_plain(type, values, columns, row);
    for (size_t first = 0; first < columns; first += elements, block += bytes)
        if (!writers[type](values + first, block)) return 0;
    return 1;
}
