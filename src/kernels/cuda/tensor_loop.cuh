/* One sweep over all weights: every number of every tensor once, as floats, eight to a thread. What is done
 * to them is a type:
 *
 *     struct thing {
 *         static const bool writes;  // else the weights stay as they are
 *         __device__ void operator()(uint64_t number, int low, int high, float x[8]) const;
 *     };
 *
 * number is that of x[0], a multiple of eight; low .. high-1 are the elements that are there. 16-bit weights
 * are rounded with the bits that optim/step.c uses. */
#ifndef ZEST_KERNELS_CUDA_TENSOR_LOOP_CUH
#define ZEST_KERNELS_CUDA_TENSOR_LOOP_CUH

#include "kernels/cuda/dtype.cuh"

enum { SWEEP_THREADS = 256, SWEEP_EACH = 8, SWEEP_CHUNK = SWEEP_THREADS * SWEEP_EACH };

struct sweep_job {
    const zest_cuda_swept *tensors;
    unsigned tensor_count, turns; /* turns: chunks a block */
    uint64_t rounding;
    int nearest;
};

/* As kernels/cpu/vector_ops.h rounds. */
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

/* Elements low .. high-1 of eight floats at a number that eight divides. */
static __device__ __forceinline__ void load_run(const float *from, int low, int high, float out[SWEEP_EACH]) {
    if (low == 0 && high == SWEEP_EACH) {
        load8(from, out);
        return;
    }
#pragma unroll
    for (int j = 0; j < SWEEP_EACH; j++) out[j] = j >= low && j < high ? from[j] : 0;
}

static __device__ __forceinline__ void store_run(float *to, int low, int high, const float in[SWEEP_EACH]) {
    if (low == 0 && high == SWEEP_EACH) {
        store8(to, in);
        return;
    }
#pragma unroll
    for (int j = 0; j < SWEEP_EACH; j++)
        if (j >= low && j < high) to[j] = in[j];
}

/* ---- Weights ---- */

/* The eight at once: they are all there, and lie where a wide access may go. */
static __device__ __forceinline__ int sweep_whole(const zest_cuda_swept &t, int64_t at) {
    int size = t.dtype == ZEST_DTYPE_F32 ? 4 : 2;
    return at >= 0 && at + SWEEP_EACH <= (int64_t)t.count &&
           (((uintptr_t)t.data + (uintptr_t)(at * size)) & 15) == 0;
}

static __device__ __forceinline__ void sweep_load(const zest_cuda_swept &t, int64_t at, int whole,
                                                  float x[SWEEP_EACH]) {
    if (whole)
        load_weight8(t.data, t.dtype, (uint64_t)at, x);
    else
#pragma unroll
        for (int j = 0; j < SWEEP_EACH; j++)
            x[j] = at + j >= 0 && at + j < (int64_t)t.count ? load_weight(t.data, t.dtype, (uint64_t)(at + j))
                                                            : 0;
}

static __device__ __forceinline__ void sweep_store_16(const sweep_job &job, const zest_cuda_swept &t,
                                                      int64_t at, int whole, const float x[SWEEP_EACH]) {
    zest_philox_block bits = zest_philox_at(job.rounding, ZEST_STREAM_ROUND, (t.first + (uint64_t)at) / 8);
    uint32_t packed[SWEEP_EACH / 2];
#pragma unroll
    for (int j = 0; j < SWEEP_EACH; j++) {
        uint32_t random = job.nearest ? 0x8000 : bits.word[j / 2] >> 16 * (j % 2) & 0xffff;
        uint32_t half = t.dtype == ZEST_DTYPE_BF16 ? round_bf16(x[j], random) : round_f16(x[j], random);
        packed[j / 2] = j % 2 ? packed[j / 2] | half << 16 : half;
    }
    uint16_t *to = (uint16_t *)t.data + at;
    if (whole)
        *(uint4 *)to = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    else
#pragma unroll
        for (int j = 0; j < SWEEP_EACH; j++)
            if (at + j >= 0 && at + j < (int64_t)t.count) to[j] = (uint16_t)(packed[j / 2] >> 16 * (j % 2));
}

static __device__ __forceinline__ void sweep_store(const sweep_job &job, const zest_cuda_swept &t, int64_t at,
                                                   int whole, const float x[SWEEP_EACH]) {
    if (t.dtype != ZEST_DTYPE_F32) {
        sweep_store_16(job, t, at, whole, x);
        return;
    }
    float *to = (float *)t.data + at;
    if (whole)
        store8(to, x);
    else
#pragma unroll
        for (int j = 0; j < SWEEP_EACH; j++)
            if (at + j >= 0 && at + j < (int64_t)t.count) to[j] = x[j];
}

/* ---- The sweep ---- */

template <class Each>
static __device__ __forceinline__ void sweep_some(const sweep_job &job, const Each &each,
                                                  const zest_cuda_swept &t, int64_t at) {
    int whole = sweep_whole(t, at);
    int64_t left = (int64_t)t.count - at;
    float x[SWEEP_EACH];
    sweep_load(t, at, whole, x);
    each(t.first + (uint64_t)at, at < 0 ? (int)-at : 0, left < SWEEP_EACH ? (int)left : SWEEP_EACH, x);
    if (Each::writes) sweep_store(job, t, at, whole, x);
}

/* The tensor of a block is looked for once, then come some chunks of it. */
template <class Each>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    sweep_kernel(const __grid_constant__ sweep_job job, const __grid_constant__ Each each) {
    unsigned low = 0, high = job.tensor_count;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (job.tensors[middle].block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    const zest_cuda_swept t = job.tensors[low];
    int64_t at = (int64_t)((blockIdx.x - t.block) * job.turns) * SWEEP_CHUNK + threadIdx.x * SWEEP_EACH -
                 (int64_t)(t.first & 7);
    for (unsigned turn = 0; turn < job.turns && at < (int64_t)t.count; turn++, at += SWEEP_CHUNK)
        sweep_some(job, each, t, at);
}

#endif
