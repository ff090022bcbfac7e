/* The noise on a GPU, from the same header, against the CPU's: every bit of normals, signs' source bits,
 * lanes and update. Exit status 77 when there is no GPU. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng/normal.h"
#include "zest.h"

extern "C" {
typedef void zest_noise_fill(float *out, uint64_t seed, uint64_t first, size_t count);
typedef struct {
    zest_noise_fill *normal, *sign;
} zest_noise;
extern const zest_noise zest_noise_plain;
}

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

__global__ void fill(float *out, uint64_t seed, uint64_t block, size_t blocks) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < blocks;
         i += (size_t)gridDim.x * blockDim.x)
        zest_normal4(seed, ZEST_STREAM_NORMAL, block + i, out + 4 * i);
}

/* x = fma(c, z, x) for three directions: the update of optim/step.c in the same order. */
__global__ void update(float *x, uint64_t seed, size_t blocks, float c0, float c1, float c2) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < blocks;
         i += (size_t)gridDim.x * blockDim.x) {
        const float c[3] = {c0, c1, c2};
        for (int k = 0; k < 3; k++) {
            float z[4];
            zest_normal4(seed + k, ZEST_STREAM_NORMAL, i, z);
            for (int j = 0; j < 4; j++) x[4 * i + j] = ZEST_FMA(c[k], z[j], x[4 * i + j]);
        }
    }
}

/* Every square root that a radius can need. */
__global__ void roots(unsigned long long *bad, uint32_t from, uint32_t to) {
    for (uint64_t i = from + blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i <= to;
         i += (uint64_t)gridDim.x * blockDim.x) {
        float x = __uint_as_float((uint32_t)i);
        if (__float_as_uint(ZEST_SQRT(x)) != __float_as_uint(__fsqrt_rn(x))) atomicAdd(bad, 1ull);
    }
}

static size_t wrong_roots(void) {
    unsigned long long *device, count[2] = {0, 0};
    const float ends[2] = {1e-8f, 64.0f};
    uint32_t bits[2];
    memcpy(bits, ends, sizeof bits);
    check(cudaMalloc(&device, sizeof *device), "cudaMalloc");
    check(cudaMemcpy(device, count, sizeof *device, cudaMemcpyHostToDevice), "copy");
    roots<<<1024, 256>>>(device, bits[0], bits[1]);
    roots<<<1, 1>>>(device, 0, 0);
    check(cudaGetLastError(), "roots");
    check(cudaMemcpy(count, device, sizeof *device, cudaMemcpyDeviceToHost), "copy");
    cudaFree(device);
    return (size_t)count[0];
}

static size_t differences(const float *a, const float *b, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += memcmp(&a[i], &b[i], 4) != 0;
    return count;
}

int main(void) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) return 77;
    const size_t n = (size_t)1 << 24, blocks = n / 4;
    float *host = (float *)malloc(n * 4), *back = (float *)malloc(n * 4), *z = (float *)malloc(n * 4),
          *device;
    if (!host || !back || !z) return 1;
    check(cudaMalloc(&device, n * 4), "cudaMalloc");
    size_t bad = 0;
    const uint64_t starts[] = {0, ((uint64_t)1 << 32) - 100}; /* the second crosses the counter's low word */
    for (uint64_t start : starts) {
        fill<<<1024, 256>>>(device, 12345, start, blocks);
        check(cudaGetLastError(), "fill");
        check(cudaMemcpy(back, device, n * 4, cudaMemcpyDeviceToHost), "copy");
        zest_noise_plain.normal(host, 12345, 4 * start, n);
        bad += differences(host, back, n);
    }
    const float c[3] = {1e-3f, -2.5e-4f, 3.3e-2f};
    for (size_t i = 0; i < n; i++) host[i] = 0.02f * (float)(i % 1000) - 7;
    check(cudaMemcpy(device, host, n * 4, cudaMemcpyHostToDevice), "copy");
    update<<<1024, 256>>>(device, 777, blocks, c[0], c[1], c[2]);
    check(cudaGetLastError(), "update");
    check(cudaMemcpy(back, device, n * 4, cudaMemcpyDeviceToHost), "copy");
    for (int k = 0; k < 3; k++) {
        zest_noise_plain.normal(z, 777 + k, 0, n);
        for (size_t i = 0; i < n; i++) host[i] = fmaf(c[k], z[i], host[i]);
    }
    bad += differences(host, back, n);
    size_t roots_differ = wrong_roots();
    printf("%zu of %zu numbers differ, %zu roots\n", bad, 3 * n, roots_differ);
    bad += roots_differ;
    cudaFree(device);
    free(host);
    free(back);
    free(z);
    return bad != 0;
}
