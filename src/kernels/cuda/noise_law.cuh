/* The noise of elements by the law of their tensor (rng/noise_law.h), with the bits of kernels on the CPU. Laws whose
 * vectors are sums of stored inputs are not for these: see law_vectors.cu. */
#ifndef ZEST_KERNELS_CUDA_NOISE_LAW_CUH
#define ZEST_KERNELS_CUDA_NOISE_LAW_CUH

#include "kernels/cuda/dtype.cuh"

static __device__ __forceinline__ float law_factor(const zest_noise_law &law) {
    return law.factor != 0.0f ? law.factor : 1.0f;
}

/* Numbers number .. number+7 of the stream, of any alignment. */
static __device__ __forceinline__ void vector_noise8(uint64_t seed, int signs, uint64_t number,
                                                     float out[8]) {
    const unsigned shift = (unsigned)(number % 4);
    float all[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    noise8(seed, signs, number / 4, all);
    if (shift) noise4(seed, signs, number / 4 + 2, all + 8);
#pragma unroll
    for (int j = 0; j < 8; j++)
        out[j] = shift == 0 ? all[j] : shift == 1 ? all[j + 1] : shift == 2 ? all[j + 2] : all[j + 3];
}

/* An element of a matrix of low rank, without the factor. */
static __device__ __noinline__ float low_rank_noise1(const zest_noise_law &law, uint64_t seed, int signs,
                                                     uint64_t element) {
    const uint64_t at = element - law.first, row = at / law.columns, column = at - row * law.columns;
    float z = 0;
    for (uint32_t j = 0; j < law.rank; j++) {
        const uint64_t number = law.first + j * (law.rows + law.columns);
        const float u = noise1(seed, signs, number + row),
                    a = noise1(seed, signs, number + law.rows + column);
        z = j ? __fmaf_rn(u, a, z) : __fmul_rn(u, a);
    }
    return z;
}

/* Eight of them. Those before the matrix begins or behind its end have any value. */
static __device__ __noinline__ void low_rank_noise8(const zest_noise_law &law, uint64_t seed, int signs,
                                                    uint64_t element, float z[8]) {
    const uint64_t at = element - law.first, row = at / law.columns, column = at - row * law.columns;
    if (element < law.first || column + 8 > law.columns) {
        for (int j = 0; j < 8; j++) z[j] = low_rank_noise1(law, seed, signs, element + (uint64_t)j);
        return;
    }
    for (uint32_t j = 0; j < law.rank; j++) {
        const uint64_t number = law.first + j * (law.rows + law.columns);
        const float u = noise1(seed, signs, number + row);
        float a[8];
        vector_noise8(seed, signs, number + law.rows + column, a);
#pragma unroll
        for (int i = 0; i < 8; i++) z[i] = j ? __fmaf_rn(u, a[i], z[i]) : __fmul_rn(u, a[i]);
    }
}

/* z of an element. */
static __device__ __forceinline__ float law_noise1(const zest_noise_law &law, uint64_t seed, int signs,
                                                   uint64_t element) {
    const float z = law.rank ? low_rank_noise1(law, seed, signs, element) : noise1(seed, signs, element);
    return __fmul_rn(z, law_factor(law));
}

/* z of eight elements, the first of which has a number that four divides. */
static __device__ __forceinline__ void law_noise8(const zest_noise_law &law, uint64_t seed, int signs,
                                                  uint64_t element, float z[8]) {
    const float factor = law_factor(law);
    if (law.rank) {
        float low[8]; /* so that z stays in registers otherwise */
        low_rank_noise8(law, seed, signs, element, low);
#pragma unroll
        for (int j = 0; j < 8; j++) z[j] = low[j];
    } else
        noise8(seed, signs, element / 4, z);
    if (factor != 1.0f)
#pragma unroll
        for (int j = 0; j < 8; j++) z[j] = __fmul_rn(z[j], factor);
}

/* z of four elements, the first of which has a number that four divides. */
static __device__ __forceinline__ void law_noise4(const zest_noise_law &law, uint64_t seed, int signs,
                                                  uint64_t element, float z[4]) {
    if (!law.rank) noise4(seed, signs, element / 4, z);
#pragma unroll
    for (int j = 0; j < 4; j++)
        z[j] = __fmul_rn(law.rank ? low_rank_noise1(law, seed, signs, element + (uint64_t)j) : z[j],
                         law_factor(law));
}

#endif
