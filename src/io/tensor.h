/* Element types of tensors, the exact conversions between float and the 16-bit types, and lists of named
 * tensors.
 *
 * The 16-bit conversions round to nearest, ties to even, in integer arithmetic or in float operations
 * whose result no flushed subnormal can change. So the bits do not depend on the compiler, the instruction
 * set or a flush-to-zero mode. A NaN stays a NaN and keeps its sign and the payload bits that fit: 16 bits
 * -> float -> 16 bits gives back every pattern. */
#ifndef ZEST_IO_TENSOR_H
#define ZEST_IO_TENSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "rng/noise_law.h"

/* In the order of the safetensors format, narrow before wide: writers sort by it, so the order is part of the
 * files that zest saves. Weights are F64, F32, F16 or BF16; other types (a position_ids buffer, say) are copied
 * but have no conversion. */
typedef enum {
    ZEST_DTYPE_BOOL,
    ZEST_DTYPE_U8,
    ZEST_DTYPE_I8,
    ZEST_DTYPE_F8_E5M2,
    ZEST_DTYPE_F8_E4M3,
    ZEST_DTYPE_I16,
    ZEST_DTYPE_U16,
    ZEST_DTYPE_F16,
    ZEST_DTYPE_BF16,
    ZEST_DTYPE_I32,
    ZEST_DTYPE_U32,
    ZEST_DTYPE_F32,
    ZEST_DTYPE_F64,
    ZEST_DTYPE_I64,
    ZEST_DTYPE_U64,
    ZEST_DTYPE_COUNT
} zest_dtype;

const char *zest_dtype_name(zest_dtype dtype); /* as safetensors spells it: "BF16"; "?" for no dtype */
size_t zest_dtype_size(zest_dtype dtype);      /* bytes of an element; 0 for no dtype */
int zest_dtype_find(const char *name, zest_dtype *dtype); /* 0: unknown name */
int zest_dtype_is_real(zest_dtype dtype);                 /* F64, F32, F16 or BF16 */

/* count elements to float and back. The 16-bit side and doubles may be unaligned. ZEST_ERROR_ARGUMENT
 * when the dtype is none of the four real ones. */
zest_status zest_dtype_to_float(zest_dtype dtype, const void *from, size_t count, float *out);
zest_status zest_dtype_from_float(zest_dtype dtype, const float *values, size_t count, void *out);

static inline uint32_t zest_dtype_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float zest_dtype_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float zest_dtype_from_bf16(uint16_t half) {
    return zest_dtype_bits_float((uint32_t)half << 16);
}

static inline uint16_t zest_dtype_to_bf16(float value) {
    uint32_t bits = zest_dtype_float_bits(value);
    uint32_t nan = bits >> 16 | ((bits >> 16 & 0x7f) == 0)
                                    << 6; /* a payload in the low bits must not become inf */
    uint32_t rounded =
        (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* carries into the exponent, up to inf, by itself */
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float zest_dtype_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    uint32_t rebias =
        magnitude >= 0x7c00 ? 224u << 23 : 112u << 23; /* inf and NaN move to the top exponent */
    uint32_t normal = (magnitude << 13) + rebias;
    uint32_t subnormal = zest_dtype_float_bits((float)(int32_t)magnitude * 0x1p-24f);
    return zest_dtype_bits_float(sign | (magnitude < 0x400 ? subnormal : normal));
}

static inline uint16_t zest_dtype_to_f16(float value) {
    uint32_t bits = zest_dtype_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t normal = magnitude - (112u << 23);
    normal = (normal + 0xfff + (normal >> 13 & 1)) >> 13;
    /* Below 2^-14 the steps of f16 are 2^-24, which are the steps of float just above 0.5: the addition
     * rounds. */
    uint32_t small = zest_dtype_float_bits(zest_dtype_bits_float(magnitude) + 0.5f) - 0x3f000000;
    uint32_t payload = magnitude >> 13 & 0x3ff;
    uint32_t nan = 0x7c00 | payload | (payload == 0) << 9;
    uint32_t result = magnitude < 0x38800000 ? small : normal;
    if (magnitude >= 0x477ff000) result = 0x7c00; /* from 65520, half way to 65536, on */
    if (magnitude > 0x7f800000) result = nan;
    return (uint16_t)(sign | result);
}

/* ---- Parameters ----
 *
 * The parameters of a run: named tensors whose elements are numbered consecutively. Noise is a function of that
 * number, so the noise of an element does not depend on the other tensors or on the order of processing. */

typedef struct {
    const char *name;
    zest_dtype dtype;
    uint64_t first; /* number of its first element */
    uint64_t count;
    void *data;
    zest_noise_law law; /* of its noise */
} zest_tensor;

typedef struct {
    const zest_tensor *tensors;
    size_t count;
    uint64_t dimension; /* elements of all tensors together */
} zest_params;

/* A hash of names, types, sizes and every byte of the data: two sets of parameters with the same fingerprint
 * are the same. Also detects a wrong starting point. */
uint64_t zest_params_fingerprint(const zest_params *params);

#endif
