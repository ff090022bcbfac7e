/* Element types in kernels: conversion to and from fp32, vectors of eight, noise, activations, reductions.
 * Arithmetic is fp32; activations and weights are stored as fp32, bf16 or fp16. */
#ifndef ZEST_KERNELS_CUDA_DTYPE_CUH
#define ZEST_KERNELS_CUDA_DTYPE_CUH

#include "kernels/cuda/cuda.h"
#include "rng/normal.h"

/* zest_norm_offset on the device. */
static __device__ __forceinline__ size_t vector_offset(size_t i, size_t heads, size_t stride, size_t width) {
    return heads ? i / heads * stride + i % heads * width : i * width;
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
template <class T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __half from_float<__half>(float x) { return __float2half_rn(x); }

/* ---- Vectors: two elements of 16 bits in a word, eight elements in one or two loads of 128 bits ---- */

template <class T> __device__ __forceinline__ uint32_t pack(float low, float high);
template <> __device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&both;
}
template <> __device__ __forceinline__ uint32_t pack<__half>(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return *(uint32_t *)&both;
}

template <class T> __device__ __forceinline__ float2 unpack(uint32_t both);
template <> __device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t both) {
    return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
}
template <> __device__ __forceinline__ float2 unpack<__half>(uint32_t both) {
    return __half22float2(*(const __half2 *)&both);
}

/* Eight elements as they lie in memory. */
template <class T> struct vec8 { uint4 raw[sizeof(T) / 2]; };

template <class T> __device__ __forceinline__ vec8<T> load_vec8(const T *from) {
    vec8<T> vec;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 2); i++) vec.raw[i] = ((const uint4 *)from)[i];
    return vec;
}

template <class T> __device__ __forceinline__ void vec8_to_float(const vec8<T> &in, float out[8]) {
    const uint32_t *words = (const uint32_t *)in.raw;
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) * 2; i++) {
        if constexpr (sizeof(T) == 2) {
            const float2 both = unpack<T>(words[i]);
            out[2 * i] = both.x, out[2 * i + 1] = both.y;
        } else
            out[i] = __uint_as_float(words[i]);
    }
}

/* Eight elements at an address that 16 divides. */
template <class T> __device__ __forceinline__ void load8(const T *from, float out[8]) {
    vec8_to_float(load_vec8(from), out);
}

/* One store of 128 bits: the compiler alone would emit four where registers are scarce. */
__device__ __forceinline__ void store_128(void *to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

template <class T> __device__ __forceinline__ void store8(T *to, const float in[8]) {
    if constexpr (sizeof(T) == 2)
        store_128(to, pack<T>(in[0], in[1]), pack<T>(in[2], in[3]), pack<T>(in[4], in[5]),
                  pack<T>(in[6], in[7]));
    else
#pragma unroll
        for (int i = 0; i < 8; i += 4)
            store_128(to + i, __float_as_uint(in[i]), __float_as_uint(in[i + 1]), __float_as_uint(in[i + 2]),
                      __float_as_uint(in[i + 3]));
}

/* ---- Shared memory and fragments of tensor cores ---- */

__device__ __forceinline__ uint32_t shared_address(const void *at) {
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* ldmatrix: four 8 x 8 matrices; each thread passes the address of one row. */
__device__ __forceinline__ void ldmatrix(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* ---- Stored weights, whose dtype is known at run time only ---- */

__device__ __forceinline__ float load_weight(const void *data, int dtype, uint64_t i) {
    if (dtype == ZEST_DTYPE_F32) return ((const float *)data)[i];
    if (dtype == ZEST_DTYPE_BF16) return to_float(((const __nv_bfloat16 *)data)[i]);
    return to_float(((const __half *)data)[i]);
}

__device__ __forceinline__ void load_weight8(const void *data, int dtype, uint64_t i, float out[8]) {
    if (dtype == ZEST_DTYPE_F32)
        load8((const float *)data + i, out);
    else if (dtype == ZEST_DTYPE_BF16)
        load8((const __nv_bfloat16 *)data + i, out);
    else
        load8((const __half *)data + i, out);
}

/* ---- Noise: the bits of rng/noise.c ---- */

/* z of elements 4 block .. 4 block + 3. */
__device__ __forceinline__ void noise4(uint64_t seed, int signs, uint64_t block, float z[4]) {
    if (!signs) {
        zest_normal4(seed, ZEST_STREAM_NORMAL, block, z);
        return;
    }
    zest_philox_block bits = zest_philox_at(seed, ZEST_STREAM_SIGN, block / 32);
    unsigned w = (unsigned)(block / 8 % 4);
    uint32_t word = w == 0 ? bits.word[0] : w == 1 ? bits.word[1] : w == 2 ? bits.word[2] : bits.word[3];
    word >>= block % 8 * 4;
#pragma unroll
    for (int j = 0; j < 4; j++) z[j] = word >> j & 1 ? -1.0f : 1.0f;
}

/* Two consecutive blocks, which share the keys of the Philox rounds. */
__device__ __forceinline__ void noise8(uint64_t seed, int signs, uint64_t block, float z[8]) {
    if (!signs) {
        zest_normal4(seed, ZEST_STREAM_NORMAL, block, z);
        zest_normal4(seed, ZEST_STREAM_NORMAL, block + 1, z + 4);
        return;
    }
    noise4(seed, 1, block, z);
    noise4(seed, 1, block + 1, z + 4);
}

/* A single element. */
__device__ __forceinline__ float noise1(uint64_t seed, int signs, uint64_t element) {
    float z[4];
    noise4(seed, signs, element / 4, z);
    unsigned j = (unsigned)(element % 4);
    return j == 0 ? z[0] : j == 1 ? z[1] : j == 2 ? z[2] : z[3];
}

/* ---- Activations ---- */

/* 2^x with a relative error of about 2e-7; subnormal results are 0. */
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Phi(-a), 0 <= a <= 6, by the polynomial of kernels/cpu/activations.h. */
__device__ __forceinline__ float normal_tail(float a) {
    float p = fmaf(-1.98198489e-08f, a, 5.84411907e-07f);
    p = fmaf(p, a, -7.39835559e-06f);
    p = fmaf(p, a, 5.12119659e-05f);
    p = fmaf(p, a, -0.000185349985f);
    p = fmaf(p, a, -2.3116434e-05f);
    p = fmaf(p, a, 0.0048511643f);
    p = fmaf(p, a, -0.0363803804f);
    p = fmaf(p, a, -0.318294108f);
    p = fmaf(p, a, -0.797887206f);
    p = fmaf(p, a, -0.693147063f);
    return exp2_fast(p * 1.44269504f);
}

/* x Phi(x); absolute error under 2e-7 max(1, |x|). */
__device__ __forceinline__ float gelu(float x) {
    float a = fabsf(x);
    a = a > 6.0f ? 6.0f : a; /* a NaN stays */
    return (x > 0.0f ? x : 0.0f) - a * normal_tail(a);
}

/* NaN stays NaN. */
__device__ __forceinline__ float activate(float x, int activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return x < 0.0f ? 0.0f : x;
    case ZEST_ACT_GELU: return gelu(x);
    case ZEST_ACT_GELU_TANH: {
        float u = 1.59576912f * fmaf(x * x * x, 0.044715f, x);
        return x / (1.0f + expf(-u));
    }
    case ZEST_ACT_SILU: return x / (1.0f + expf(-x));
    default: return x;
    }
}

/* ---- Reductions ---- */

template <class F> __device__ __forceinline__ float warp_reduce(float x, F f) {
#pragma unroll
    for (int step = 16; step; step /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
    return warp_reduce(x, [](float a, float b) { return a + b; });
}

/* Over a block; every thread gets the sum. */
template <int THREADS> __device__ float block_sum(float x) {
    __shared__ float warp_sums[THREADS / 32];
    x = warp_sum(x);
    __syncthreads(); /* a call before may still be reading */
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < THREADS / 32; i++) sum += warp_sums[i];
    return sum;
}

/* Over a quad: the four threads that share a row of accumulators. */
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

#endif
