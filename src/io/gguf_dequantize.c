/* Conversion of GGUF tensors to float.
 *
 * A quantised row is a sequence of blocks of 32 or 256 elements: f16 scales, then small integers. The
 * products are formed in float in the order written here, one rounding each, which gives the bits of the
 * reference implementation of the format. */
#include <stdlib.h>
#include <string.h>

#include "io/gguf.h"
#include "io/tensor.h"

static float half_at(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return zest_dtype_from_f16(half);
}

/* ---- Blocks of 32: element i in the low nibble of byte i, element i + 16 in the high one ---- */

static void read_q4_0(const uint8_t *block, float *out) {
    float scale = half_at(block);
    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)((block[2 + i] & 15) - 8);
        out[i + 16] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

static void read_q4_1(const uint8_t *block, float *out) {
    float scale = half_at(block), min = half_at(block + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)(block[4 + i] & 15) + min;
        out[i + 16] = scale * (float)(block[4 + i] >> 4) + min;
    }
}

/* The fifth bits of a block are one 32-bit word: bit i belongs to element i. */
static int fifth_bit(const uint8_t *word, int i) { return (word[i / 8] >> (i % 8) & 1) << 4; }

static void read_q5_0(const uint8_t *block, float *out) {
    float scale = half_at(block);
    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)(((block[6 + i] & 15) | fifth_bit(block + 2, i)) - 16);
        out[i + 16] = scale * (float)(((block[6 + i] >> 4) | fifth_bit(block + 2, i + 16)) - 16);
    }
}

static void read_q5_1(const uint8_t *block, float *out) {
    float scale = half_at(block), min = half_at(block + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)((block[8 + i] & 15) | fifth_bit(block + 4, i)) + min;
        out[i + 16] = scale * (float)((block[8 + i] >> 4) | fifth_bit(block + 4, i + 16)) + min;
    }
}

static void read_q8_0(const uint8_t *block, float *out) {
    float scale = half_at(block);
    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[2 + i] * scale;
}

/* ---- Blocks of 256: eight groups of 32, or sixteen of 16, with small scales under a common one ---- */

/* Of Q2_K and Q3_K: the two bits of element i of group g, one of sixteen. Each half of the block has 32 bytes; eight
 * groups share them, two to each pair of bits. */
static int two_bits(const uint8_t *bytes, int g, int i) {
    return bytes[g / 8 * 32 + g % 2 * 16 + i] >> (g % 8 / 2 * 2) & 3;
}

/* 16 bytes of scale (low nibble) and minimum, 64 of two-bit numbers, the common scale and minimum. */
static void read_q2_k(const uint8_t *block, float *out) {
    float all = half_at(block + 80), block_min = half_at(block + 82);
    for (int g = 0; g < 16; g++) {
        float scale = all * (float)(block[g] & 15), min = block_min * (float)(block[g] >> 4);
        for (int i = 0; i < 16; i++) out[g * 16 + i] = scale * (float)two_bits(block + 16, g, i) - min;
    }
}

/* Six-bit scale of group g, packed into 12 bytes: the low nibbles of groups 0-7 and the high ones of groups 8-15 in
 * the first 8, the top two bits of groups g, g + 4, g + 8 and g + 12 in byte g of the last 4. */
static int signed_group_scale(const uint8_t *packed, int g) {
    int low = packed[g % 8] >> (g / 8 * 4) & 15, top = packed[8 + g % 4] >> (g / 4 * 2) & 3;
    return (low | top << 4) - 32;
}

/* 32 bytes of third bits (bit n of byte i: element i of the n-th 32), 64 of two-bit numbers, 12 of scales, the common
 * scale. A third bit that is not set means minus 4. */
static void read_q3_k(const uint8_t *block, float *out) {
    float all = half_at(block + 108);
    for (int g = 0; g < 16; g++) {
        float scale = all * (float)signed_group_scale(block + 96, g);
        for (int i = 0; i < 16; i++) {
            int third = block[g % 2 * 16 + i] >> (g / 2) & 1;
            out[g * 16 + i] = scale * (float)(two_bits(block + 32, g, i) - (third ? 0 : 4));
        }
    }
}

/* Six-bit scale and minimum of group g, packed into 12 bytes: groups 0-3 in bytes g and g + 4; of
 * groups 4-7 the low four bits in byte g + 4, the top two in the tops of bytes g - 4 and g. */
static void group_scale(const uint8_t *packed, int g, int *scale, int *min) {
    if (g < 4) {
        *scale = packed[g] & 63;
        *min = packed[g + 4] & 63;
    } else {
        *scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
        *min = (packed[g + 4] >> 4) | (packed[g] >> 6) << 4;
    }
}

/* high: the fifth bits, bit g of byte i for element i of group g; NULL for Q4_K. */
static void read_groups(const uint8_t *block, const uint8_t *high, const uint8_t *nibbles, float *out) {
    float all = half_at(block), block_min = half_at(block + 2);
    for (int g = 0; g < 8; g++) {
        int group, group_min;
        group_scale(block + 4, g, &group, &group_min);
        float scale = all * (float)group, min = block_min * (float)group_min;
        const uint8_t *bytes = nibbles + g / 2 * 32; /* two groups share 32 bytes: low and high nibbles */
        for (int i = 0; i < 32; i++) {
            int q = g % 2 ? bytes[i] >> 4 : bytes[i] & 15;
            if (high) q |= (high[i] >> g & 1) << 4;
            out[g * 32 + i] = scale * (float)q - min;
        }
    }
}

static void read_q4_k(const uint8_t *block, float *out) { read_groups(block, NULL, block + 16, out); }
static void read_q5_k(const uint8_t *block, float *out) { read_groups(block, block + 16, block + 48, out); }

/* 128 bytes of low nibbles, 64 of two-bit tops, 16 signed scales, the common scale. Each half of the block
 * holds four groups of 32: groups 0 and 1 in the low nibbles of 64 bytes, 2 and 3 in the high ones. */
static void read_q6_k(const uint8_t *block, float *out) {
    const uint8_t *low = block, *top = block + 128;
    const int8_t *scales = (const int8_t *)(block + 192);
    float all = half_at(block + 208);
    for (int g = 0; g < 8; g++) {
        int half = g / 4, s = g % 4;
        for (int i = 0; i < 32; i++) {
            int nibble = low[half * 64 + s % 2 * 32 + i] >> (s / 2 * 4) & 15;
            int q = (nibble | (top[half * 32 + i] >> 2 * s & 3) << 4) - 32;
            out[g * 32 + i] = all * (float)scales[g * 2 + i / 16] * (float)q;
        }
    }
}

/* ---- Types ---- */

typedef struct {
    const char *name; /* NULL: unknown */
    size_t elements, bytes;
    void (*read)(const uint8_t *block, float *out); /* NULL: a plain dtype */
    int dtype;                                      /* -1: no conversion */
} type_row;

static const type_row types[] = {
    [ZEST_GGUF_TYPE_F32] = {"F32", 1, 4, NULL, ZEST_DTYPE_F32},
    [ZEST_GGUF_TYPE_F16] = {"F16", 1, 2, NULL, ZEST_DTYPE_F16},
    [ZEST_GGUF_TYPE_BF16] = {"BF16", 1, 2, NULL, ZEST_DTYPE_BF16},
    [ZEST_GGUF_TYPE_F64] = {"F64", 1, 8, NULL, ZEST_DTYPE_F64},
    [ZEST_GGUF_TYPE_I8] = {"I8", 1, 1, NULL, -1},
    [ZEST_GGUF_TYPE_I16] = {"I16", 1, 2, NULL, -1},
    [ZEST_GGUF_TYPE_I32] = {"I32", 1, 4, NULL, -1},
    [ZEST_GGUF_TYPE_I64] = {"I64", 1, 8, NULL, -1},
    [ZEST_GGUF_TYPE_Q4_0] = {"Q4_0", 32, 18, read_q4_0, -1},
    [ZEST_GGUF_TYPE_Q4_1] = {"Q4_1", 32, 20, read_q4_1, -1},
    [ZEST_GGUF_TYPE_Q5_0] = {"Q5_0", 32, 22, read_q5_0, -1},
    [ZEST_GGUF_TYPE_Q5_1] = {"Q5_1", 32, 24, read_q5_1, -1},
    [ZEST_GGUF_TYPE_Q8_0] = {"Q8_0", 32, 34, read_q8_0, -1},
    [ZEST_GGUF_TYPE_Q2_K] = {"Q2_K", 256, 84, read_q2_k, -1},
    [ZEST_GGUF_TYPE_Q3_K] = {"Q3_K", 256, 110, read_q3_k, -1},
    [ZEST_GGUF_TYPE_Q4_K] = {"Q4_K", 256, 144, read_q4_k, -1},
    [ZEST_GGUF_TYPE_Q5_K] = {"Q5_K", 256, 176, read_q5_k, -1},
    [ZEST_GGUF_TYPE_Q6_K] = {"Q6_K", 256, 210, read_q6_k, -1},
};

static const type_row *row_of(uint32_t type) {
    return type < sizeof types / sizeof types[0] && types[type].name ? &types[type] : NULL;
}

/* Types of llama.cpp that zest does not read, for messages. */
static const char *const unread[] = {
    [9] = "Q8_1",   [15] = "Q8_K",   [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
    [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",   [22] = "IQ2_S",  [23] = "IQ4_XS",
    [29] = "IQ1_M", [34] = "TQ1_0",  [35] = "TQ2_0",   [39] = "MXFP4",
};

const char *zest_gguf_type_name(zest_gguf_type type) {
    const type_row *row = row_of((uint32_t)type);
    if (row) return row->name;
    return (uint32_t)type < sizeof unread / sizeof *unread && unread[type] ? unread[type] : "?";
}

int zest_gguf_block_size(uint32_t type, size_t *elements, size_t *bytes) {
    const type_row *row = row_of(type);
    if (!row) return 0;
    *elements = row->elements;
    *bytes = row->bytes;
    return 1;
}

void zest_gguf_read_blocks(int type, const void *blocks, size_t count, float *out) {
    const type_row *row = row_of((uint32_t)type);
    const uint8_t *bytes = blocks;
    if (!row || !row->read) return;
    for (size_t i = 0; i < count; i += row->elements, bytes += row->bytes) row->read(bytes, out + i);
}

/* One row of a type that has a conversion. */
static void read_row(const zest_gguf_tensor *tensor, const type_row *type, size_t row, float *out) {
    const uint8_t *bytes = (const uint8_t *)tensor->data + row * tensor->row_size;
    if (!type->read) {
        zest_dtype_to_float((zest_dtype)type->dtype, bytes, tensor->columns, out);
        return;
    }
    for (size_t first = 0; first < tensor->columns; first += type->elements, bytes += type->bytes)
        type->read(bytes, out + first);
}

static zest_status find_conversion(const zest_gguf_tensor *tensor, const type_row **type, zest_error *error) {
    *type = row_of((uint32_t)tensor->type);
    if (*type && ((*type)->read || (*type)->dtype >= 0)) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "tensor '%.200s' is of type %s, which has no conversion to float", tensor->name,
                          zest_gguf_type_name(tensor->type));
}

static zest_status check_range(const zest_gguf_tensor *tensor, size_t first, size_t count, size_t rows,
                               zest_error *error) {
    if (first <= rows && count <= rows - first) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "tensor '%.200s' has %zu rows: rows %zu from %zu are out of range", tensor->name,
                          rows, count, first);
}

zest_status zest_gguf_read(const zest_gguf_tensor *tensor, size_t first_row, size_t rows, float *out,
                           zest_error *error) {
    const type_row *type;
    zest_status status = find_conversion(tensor, &type, error);
    if (!status) status = check_range(tensor, first_row, rows, tensor->rows, error);
    for (size_t i = 0; i < rows && !status; i++)
        read_row(tensor, type, first_row + i, out + i * tensor->columns);
    return status;
}

static zest_status refuse_heads(const zest_gguf_tensor *tensor, size_t heads, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "tensor '%.200s': %zu rows are not %zu heads of even size", tensor->name,
                          tensor->rank == 1 ? tensor->columns : tensor->rows, heads);
}

/* Index in the file of row `row` of a matrix whose heads have d rows each. */
static size_t permuted(size_t row, size_t d) {
    size_t head = row / d, within = row % d, half = within / (d / 2), i = within % (d / 2);
    return head * d + 2 * i + half;
}

zest_status zest_gguf_copy_rows(const zest_gguf_tensor *tensor, size_t heads, void *out, zest_error *error) {
    if (heads && (tensor->rows % heads || tensor->rows / heads % 2))
        return refuse_heads(tensor, heads, error);
    for (size_t i = 0; i < tensor->rows; i++)
        memcpy((char *)out + i * tensor->row_size,
               (const char *)tensor->data +
                   (heads ? permuted(i, tensor->rows / heads) : i) * tensor->row_size,
               tensor->row_size);
    return ZEST_OK;
}

zest_status zest_gguf_read_rotary(const zest_gguf_tensor *tensor, size_t heads, size_t first_row, size_t rows,
                                  float *out, zest_error *error) {
    const type_row *type;
    int bias = tensor->rank == 1;
    size_t all = bias ? tensor->columns : tensor->rows;
    zest_status status = find_conversion(tensor, &type, error);
    if (!status) status = check_range(tensor, first_row, rows, all, error);
    if (status || !rows) return status;
    if (!heads || all % heads || all / heads % 2) return refuse_heads(tensor, heads, error);
    size_t d = all / heads;
    if (!bias) {
        for (size_t i = 0; i < rows; i++)
            read_row(tensor, type, permuted(first_row + i, d), out + i * tensor->columns);
        return ZEST_OK;
    }
    float *bias_values = malloc(all * sizeof *bias_values);
    if (!bias_values) return zest_error_memory(error, tensor->name, all * sizeof *bias_values);
    read_row(tensor, type, 0, bias_values);
    for (size_t i = 0; i < rows; i++) out[i] = bias_values[permuted(first_row + i, d)];
    free(bias_values);
    return ZEST_OK;
}
