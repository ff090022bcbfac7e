/* A kernel over all weights: every element of every tensor once, as fp32, eight for a thread. What is done to
 * them is a type:
 *
 *     struct operation {
 *         static const bool writes;  // false: the weights stay as they are
 *         __device__ void operator()(uint64_t element, int low, int high, float x[8]) const;
 *     };
 *
 * element: the number of x[0] in the noise stream, a multiple of eight; elements low .. high - 1 of the eight
 * belong to the tensor. 16-bit weights are rounded with the bits that optim/step.c uses. */
#ifndef ZEST_KERNELS_CUDA_TENSOR_LOOP_CUH
#define ZEST_KERNELS_CUDA_TENSOR_LOOP_CUH

#include "kernels/cuda/dtype.cuh"

enum { LOOP_THREADS = 256, LOOP_WIDTH = 8, LOOP_CHUNK = LOOP_THREADS * LOOP_WIDTH };

struct tensor_loop_params {
    const zest_cuda_tensor *tensors;
    unsigned tensor_count, chunks_per_block;
    uint64_t rounding;
    int nearest;
};

/* Stochastic rounding, as in kernels/cpu/vector_ops.h. */
static __device__ __forceinline__ uint16_t round_bf16(float x, uint32_t random) {
    uint32_t bits = zest_normal_bits(x), sum = bits + random;
    uint32_t finite = (sum & 0x7f800000u) == 0x7f800000u ? (bits & 0x80000000u) | 0x7f7f0000u : sum;
    return (uint16_t)(((bits & 0x7f800000u) == 0x7f800000u ? bits : finite) >> 16);
}

static __device__ __forceinline__ uint16_t round_f16(float x, uint32_t random) {
    uint32_t bits = zest_normal_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) {
        uint32_t payload = magnitude >> 13 & 0x3ff;
        uint32_t result = magnitude == 0x7f800000 ? 0x7c00 : 0x7c00 | payload | (uint32_t)(payload == 0) << 9;
        return (uint16_t)(sign | result);
    }
    if (magnitude < 0x38800000) {
        uint32_t steps = (uint32_t)__fmul_rn(zest_normal_float(magnitude), 1099511627776.0f); /* 2^40 */
        return (uint16_t)(sign | (steps + random) >> 16);
    }
    uint32_t half = (magnitude - (112u << 23) + (random >> 3)) >> 13;
    return (uint16_t)(sign | (half < 0x7bff ? half : 0x7bff));
}

/* Elements low .. high - 1 of eight floats. */
static __device__ __forceinline__ void load_elements(const float *from, int low, int high,
                                                     float out[LOOP_WIDTH]) {
    if (low == 0 && high == LOOP_WIDTH) {
        load8(from, out);
        return;
    }
#pragma unroll
    for (int j = 0; j < LOOP_WIDTH; j++) out[j] = j >= low && j < high ? from[j] : 0;
}

static __device__ __forceinline__ void store_elements(float *to, int low, int high,
                                                      const float in[LOOP_WIDTH]) {
    if (low == 0 && high == LOOP_WIDTH) {
        store8(to, in);
        return;
    }
#pragma unroll
    for (int j = 0; j < LOOP_WIDTH; j++)
        if (j >= low && j < high) to[j] = in[j];
}

/* ---- Weights ---- */

/* Whether all eight belong to the tensor and are aligned for a load of 128 bits. */
static __device__ __forceinline__ int loop_is_aligned(const zest_cuda_tensor &t, int64_t at) {
    int size = t.dtype == ZEST_DTYPE_F32 ? 4 : 2;
    return at >= 0 && at + LOOP_WIDTH <= (int64_t)t.count &&
           (((uintptr_t)t.data + (uintptr_t)(at * size)) & 15) == 0;
}

static __device__ __forceinline__ void loop_load(const zest_cuda_tensor &t, int64_t at, int aligned,
                                                 float x[LOOP_WIDTH]) {
    if (aligned)
        load_weight8(t.data, t.dtype, (uint64_t)at, x);
    else
#pragma unroll
        for (int j = 0; j < LOOP_WIDTH; j++)
            x[j] = at + j >= 0 && at + j < (int64_t)t.count ? load_weight(t.data, t.dtype, (uint64_t)(at + j))
                                                            : 0;
}

static __device__ __forceinline__ void loop_store_16(const tensor_loop_params &params,
                                                     const zest_cuda_tensor &t, int64_t at, int aligned,
                                                     const float x[LOOP_WIDTH]) {
    zest_philox_block bits = zest_philox_at(params.rounding, ZEST_STREAM_ROUND, (t.first + (uint64_t)at) / 8);
    uint32_t packed[LOOP_WIDTH / 2];
#pragma unroll
    for (int j = 0; j < LOOP_WIDTH; j++) {
        uint32_t random = params.nearest ? 0x8000 : bits.word[j / 2] >> 16 * (j % 2) & 0xffff;
        uint32_t half = t.dtype == ZEST_DTYPE_BF16 ? round_bf16(x[j], random) : round_f16(x[j], random);
        packed[j / 2] = j % 2 ? packed[j / 2] | half << 16 : half;
    }
    uint16_t *to = (uint16_t *)t.data + at;
    if (aligned)
        *(uint4 *)to = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    else
#pragma unroll
        for (int j = 0; j < LOOP_WIDTH; j++)
            if (at + j >= 0 && at + j < (int64_t)t.count) to[j] = (uint16_t)(packed[j / 2] >> 16 * (j % 2));
}

static __device__ __forceinline__ void loop_store(const tensor_loop_params &params, const zest_cuda_tensor &t,
                                                  int64_t at, int aligned, const float x[LOOP_WIDTH]) {
    if (t.dtype != ZEST_DTYPE_F32) {
        loop_store_16(params, t, at, aligned, x);
        return;
    }
    float *to = (float *)t.data + at;
    if (aligned)
        store8(to, x);
    else
#pragma unroll
        for (int j = 0; j < LOOP_WIDTH; j++)
            if (at + j >= 0 && at + j < (int64_t)t.count) to[j] = x[j];
}

/* ---- The kernel ---- */

template <class Op>
static __device__ __forceinline__ void loop_step(const tensor_loop_params &params, const Op &op,
                                                 const zest_cuda_tensor &t, int64_t at) {
    int aligned = loop_is_aligned(t, at);
    int64_t left = (int64_t)t.count - at;
    float x[LOOP_WIDTH];
    loop_load(t, at, aligned, x);
    op(t.first + (uint64_t)at, at < 0 ? (int)-at : 0, left < LOOP_WIDTH ? (int)left : LOOP_WIDTH, x);
    if (Op::writes) loop_store(params, t, at, aligned, x);
}

/* A block has some chunks of one tensor, which it finds by binary search. */
template <class Op>
static __global__ void __launch_bounds__(LOOP_THREADS)
    tensor_loop_kernel(const __grid_constant__ tensor_loop_params params, const __grid_constant__ Op op) {
    unsigned low = 0, high = params.tensor_count;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (params.tensors[middle].block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    const zest_cuda_tensor t = params.tensors[low];
    int64_t at = (int64_t)((blockIdx.x - t.block) * params.chunks_per_block) * LOOP_CHUNK +
                 threadIdx.x * LOOP_WIDTH - (int64_t)(t.first & 7);
    for (unsigned chunk = 0; chunk < params.chunks_per_block && at < (int64_t)t.count;
         chunk++, at += LOOP_CHUNK)
        loop_step(params, op, t, at);
}

#endif
