/* Element types of tensors: names, sizes, conversions; the fingerprint of parameters. */
#include <string.h>
#include <xxhash.h>

#include "io/tensor.h"

uint64_t zest_params_fingerprint(const zest_params *params) {
    uint64_t print = XXH3_64bits(&params->dimension, sizeof params->dimension);
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *tensor = &params->tensors[i];
        const char *type = zest_dtype_name(tensor->dtype);
        print = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), print);
        print = XXH3_64bits_withSeed(type, strlen(type), print);
        print = XXH3_64bits_withSeed(&tensor->count, sizeof tensor->count, print);
        print =
            XXH3_64bits_withSeed(tensor->data, (size_t)tensor->count * zest_dtype_size(tensor->dtype), print);
    }
    return print;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "model files are little-endian and are used in place");

static const struct {
    const char *name;
    size_t size;
} table[ZEST_DTYPE_COUNT] = {
    [ZEST_DTYPE_BOOL] = {"BOOL", 1},       [ZEST_DTYPE_U8] = {"U8", 1},
    [ZEST_DTYPE_I8] = {"I8", 1},           [ZEST_DTYPE_F8_E5M2] = {"F8_E5M2", 1},
    [ZEST_DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [ZEST_DTYPE_I16] = {"I16", 2},
    [ZEST_DTYPE_U16] = {"U16", 2},         [ZEST_DTYPE_F16] = {"F16", 2},
    [ZEST_DTYPE_BF16] = {"BF16", 2},       [ZEST_DTYPE_I32] = {"I32", 4},
    [ZEST_DTYPE_U32] = {"U32", 4},         [ZEST_DTYPE_F32] = {"F32", 4},
    [ZEST_DTYPE_F64] = {"F64", 8},         [ZEST_DTYPE_I64] = {"I64", 8},
    [ZEST_DTYPE_U64] = {"U64", 8},
};

const char *zest_dtype_name(zest_dtype dtype) {
    return (unsigned)dtype < ZEST_DTYPE_COUNT ? table[dtype].name : "?";
}

size_t zest_dtype_size(zest_dtype dtype) {
    return (unsigned)dtype < ZEST_DTYPE_COUNT ? table[dtype].size : 0;
}

int zest_dtype_find(const char *name, zest_dtype *dtype) {
    for (int i = 0; i < ZEST_DTYPE_COUNT; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *dtype = (zest_dtype)i;
            return 1;
        }
    }
    return 0;
}

int zest_dtype_is_real(zest_dtype dtype) {
    return dtype == ZEST_DTYPE_F64 || dtype == ZEST_DTYPE_F32 || dtype == ZEST_DTYPE_F16 ||
           dtype == ZEST_DTYPE_BF16;
}

/* Files promise no alignment, hence memcpy for every element: it compiles to plain (vector) loads. */
#define CONVERT(type_in, type_out, expression)                          \
    do {                                                                \
        const unsigned char *source = from;                             \
        unsigned char *target = (unsigned char *)out;                   \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++) {        \
            type_in in;                                                 \
            memcpy(&in, source + i * sizeof in, sizeof in);             \
            type_out result = expression;                               \
            memcpy(target + i * sizeof result, &result, sizeof result); \
        }                                                               \
    } while (0)

zest_status zest_dtype_to_float(zest_dtype dtype, const void *from, size_t count, float *out) {
    switch (dtype) {
    case ZEST_DTYPE_F32:
        if (count) memcpy(out, from, count * sizeof *out);
        return ZEST_OK;
    case ZEST_DTYPE_F64: CONVERT(double, float, (float)in); return ZEST_OK;
    case ZEST_DTYPE_F16: CONVERT(uint16_t, float, zest_dtype_from_f16(in)); return ZEST_OK;
    case ZEST_DTYPE_BF16: CONVERT(uint16_t, float, zest_dtype_from_bf16(in)); return ZEST_OK;
    default: return ZEST_ERROR_ARGUMENT;
    }
}

zest_status zest_dtype_from_float(zest_dtype dtype, const float *values, size_t count, void *out) {
    const void *from = values;
    switch (dtype) {
    case ZEST_DTYPE_F32:
        if (count) memcpy(out, from, count * sizeof *values);
        return ZEST_OK;
    case ZEST_DTYPE_F64: CONVERT(float, double, (double)in); return ZEST_OK;
    case ZEST_DTYPE_F16: CONVERT(float, uint16_t, zest_dtype_to_f16(in)); return ZEST_OK;
    case ZEST_DTYPE_BF16: CONVERT(float, uint16_t, zest_dtype_to_bf16(in)); return ZEST_OK;
    default: return ZEST_ERROR_ARGUMENT;
    }
}
