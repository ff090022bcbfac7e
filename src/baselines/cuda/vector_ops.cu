/* Vector operations of the first-order methods in GPU memory, with the bits of vector_ops.c. Elementwise
 * operations are written out, so that none are contracted; sums are added by as many threads as the host has
 * running sums, in the same order. */
#include <stdlib.h>

#include "kernels/cuda/tensor_loop.cuh"

extern "C" {
#include "optim/lanes.h"
#include "baselines/vector_ops.h"
#include "zest.h"
}

static_assert((int)ZEST_OPTIM_BLOCK == (int)ZEST_DIRECTION_BLOCK, "the same blocks of sums");
enum { BLOCK = ZEST_OPTIM_BLOCK, SLICE = ZEST_DIRECTION_SLICE, SLICES = BLOCK / SLICE };
enum { THREADS = 256, SUMS = 8 }; /* SUMS: running sums, as in zest_vector_ops.square_sum */

static size_t blocks_of(const zest_optim_vectors *s) { return (s->params.dimension + BLOCK - 1) / BLOCK; }
static size_t slices_of(const zest_optim_vectors *s) { return (s->params.dimension + SLICE - 1) / SLICE; }

extern "C" int zest_optim_vectors_cuda_open(zest_optim_vectors *s) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    const zest_device_table *table = s->device->operations->device;
    zest_cuda_tensor *tensors = zest_cuda_tensor_list(cuda, &s->params, &s->blocks, &s->chunks_per_block);
    if (!tensors) return zest_cuda_no_memory(cuda, "a list of tensors", s->params.count * sizeof *tensors);
    size_t bytes = s->params.count * sizeof *tensors;
    s->tensors = table->allocate(s->device, bytes);
    s->sums = (double *)table->allocate(s->device, (blocks_of(s) + slices_of(s)) * sizeof *s->sums);
    int failed = !s->tensors || !s->sums || table->upload(s->device, s->tensors, tensors, bytes);
    free(tensors);
    return failed;
}

/* ---- Vectors ---- */

static int clear(const zest_optim_vectors *s, float *x) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_UPDATE);
    return zest_cuda_failed(cuda, cudaMemsetAsync(x, 0, s->params.dimension * sizeof *x, cuda->stream),
                            "clearing a gradient");
}

static __global__ void __launch_bounds__(THREADS) scale_kernel(float *x, uint64_t count, float c) {
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 4 <= count) {
        float4 v = *(float4 *)(x + i);
        *(float4 *)(x + i) =
            make_float4(__fmul_rn(v.x, c), __fmul_rn(v.y, c), __fmul_rn(v.z, c), __fmul_rn(v.w, c));
        return;
    }
    for (; i < count; i++) x[i] = __fmul_rn(x[i], c);
}

static int scale(const zest_optim_vectors *s, float *x, float c) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_UPDATE);
    unsigned blocks = zest_cuda_blocks(s->params.dimension, 4 * THREADS);
    scale_kernel<<<blocks, THREADS, 0, cuda->stream>>>(x, s->params.dimension, c);
    return zest_cuda_launched(cuda, "scaling a gradient");
}

/* ---- Sums of squares ---- */

/* Element i of a run is added to the running sum of thread i % 8. */
static __device__ __forceinline__ double add_squares(const float *run, unsigned count, double sum) {
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < count; i += SUMS) {
        double v = (double)run[i];
        sum = __dadd_rn(sum, __dmul_rn(v, v));
    }
    return sum;
}

/* ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)); called by the first eight threads. */
static __device__ __forceinline__ double add_pairwise(double sum) {
#pragma unroll
    for (int step = 1; step < SUMS; step *= 2) sum = __dadd_rn(sum, __shfl_xor_sync(0xffu, sum, step));
    return sum;
}

/* A block of BLOCK elements: the first warp sums a tile while the others load the next one. */
enum { TILE = 2048, SQUARE_THREADS = 128 };

static __device__ __forceinline__ void load_tile(const float *from, unsigned count, float *tile) {
    unsigned thread = threadIdx.x - 32;
#pragma unroll 6
    for (unsigned i = 4 * thread; i + 4 <= count; i += 4 * (SQUARE_THREADS - 32))
        *(float4 *)(tile + i) = *(const float4 *)(from + i);
    for (unsigned i = (count & ~3u) + thread; i < count; i += SQUARE_THREADS - 32) tile[i] = from[i];
}

static __global__ void __launch_bounds__(SQUARE_THREADS)
    squares_kernel(const float *x, uint64_t count, double *sums) {
    __shared__ __align__(16) float tiles[2][TILE];
    const float *from = x + (uint64_t)blockIdx.x * BLOCK;
    uint64_t left = count - (uint64_t)blockIdx.x * BLOCK;
    unsigned length = left < BLOCK ? (unsigned)left : BLOCK;
    double sum = 0;
    if (threadIdx.x >= 32) load_tile(from, length < TILE ? length : TILE, tiles[0]);
    for (unsigned at = 0, buffer = 0; at < length; at += TILE, buffer ^= 1) {
        unsigned here = length - at < TILE ? length - at : TILE, next = length - at - here;
        __syncthreads();
        if (threadIdx.x >= 32)
            load_tile(from + at + here, next < TILE ? next : TILE, tiles[buffer ^ 1]);
        else if (threadIdx.x < SUMS)
            sum = add_squares(tiles[buffer], here, sum);
    }
    if (threadIdx.x < SUMS) sum = add_pairwise(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

static int squares(const zest_optim_vectors *s, const float *x, double *sums) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    size_t blocks = blocks_of(s);
    {
        zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_UPDATE);
        squares_kernel<<<(unsigned)blocks, SQUARE_THREADS, 0, cuda->stream>>>(x, s->params.dimension,
                                                                              s->sums);
    }
    return zest_cuda_launched(cuda, "computing the norm of a gradient") ||
           s->device->operations->device->download(s->device, sums, s->sums, blocks * sizeof *sums);
}

/* ---- Directions ---- */

/* The sum of squares of the noise of one slice. */
static __global__ void __launch_bounds__(THREADS)
    noise_squares_kernel(uint64_t seed, uint64_t count, double *sums) {
    static_assert(THREADS * 8 == SLICE, "eight normals a thread");
    __shared__ __align__(16) float noise[SLICE];
    uint64_t first = (uint64_t)blockIdx.x * SLICE;
    float z[8];
    noise8(seed, 0, first / 4 + 2 * threadIdx.x, z);
    store8(noise + 8 * threadIdx.x, z);
    __syncthreads();
    if (threadIdx.x >= SUMS) return;
    double sum =
        add_pairwise(add_squares(noise, count - first < SLICE ? (unsigned)(count - first) : SLICE, 0));
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* The sums of the slices of a block, added in order. */
static __global__ void add_slices_kernel(const double *slices, size_t slice_count, double *sums,
                                         size_t count) {
    size_t block = (size_t)blockIdx.x * blockDim.x + threadIdx.x, first = block * SLICES;
    double sum = 0;
    if (block >= count) return;
    for (size_t i = first; i < first + SLICES && i < slice_count; i++) sum = __dadd_rn(sum, slices[i]);
    sums[block] = sum;
}

static int sphere(const zest_optim_vectors *s, uint64_t seed, zest_direction *direction) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    size_t blocks = blocks_of(s), slices = slices_of(s);
    double *slice_sums = s->sums + blocks, square = 0, *sums = (double *)malloc(blocks * sizeof *sums);
    if (!sums) return zest_cuda_no_memory(cuda, "the norm of a direction", blocks * sizeof *sums);
    *direction = {seed, s->params.dimension, 1.0, ZEST_SPHERE};
    {
        zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_PERTURB);
        noise_squares_kernel<<<(unsigned)slices, THREADS, 0, cuda->stream>>>(seed, s->params.dimension,
                                                                             slice_sums);
        add_slices_kernel<<<zest_cuda_blocks(blocks, THREADS), THREADS, 0, cuda->stream>>>(slice_sums, slices,
                                                                                           s->sums, blocks);
    }
    int failed = zest_cuda_launched(cuda, "computing the norm of a direction") ||
                 s->device->operations->device->download(s->device, sums, s->sums, blocks * sizeof *sums);
    for (size_t b = 0; b < blocks && !failed; b++) square += sums[b];
    free(sums);
    zest_direction_normalize(direction, square);
    return failed;
}

/* ---- Weights ---- */

struct point_uphill {
    static const bool writes = false;
    float *point;
    float c, scale; /* scale: of the noise; 0: no noise */
    uint64_t seed;
    int signs;

    __device__ __forceinline__ void operator()(uint64_t element, int low, int high, float x[8]) const {
        float g[8], z[8];
        if (scale != 0) {
            noise8(seed, signs, element / 4, z);
#pragma unroll
            for (int j = 0; j < 8; j++) x[j] = __fmaf_rn(scale, z[j], x[j]);
        }
        load_elements(point + element, low, high, g);
#pragma unroll
        for (int j = 0; j < 8; j++) g[j] = __fmaf_rn(c, g[j], x[j]);
        store_elements(point + element, low, high, g);
    }
};

struct sgd_step {
    static const bool writes = true;
    const float *gradient;
    float *momentum; /* NULL: none */
    zest_sgd_coefficients coefficients;

    __device__ __forceinline__ void operator()(uint64_t element, int low, int high, float x[8]) const {
        float g[8], m[8];
        load_elements(gradient + element, low, high, g);
        if (!momentum) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                if (coefficients.decay != 0) x[j] = __fmul_rn(x[j], coefficients.keep);
                x[j] = __fmaf_rn(coefficients.slope, g[j], x[j]);
            }
            return;
        }
        load_elements(momentum + element, low, high, m);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            m[j] = __fmaf_rn(coefficients.factor, g[j], __fmul_rn(m[j], coefficients.momentum));
            if (coefficients.decay != 0) m[j] = __fmaf_rn(coefficients.decay, x[j], m[j]);
            x[j] = __fmaf_rn(coefficients.back, m[j], x[j]);
        }
        store_elements(momentum + element, low, high, m);
    }
};

struct adamw_step {
    static const bool writes = true;
    const float *gradient;
    float *first, *second;
    zest_adamw_coefficients coefficients;

    __device__ __forceinline__ void operator()(uint64_t element, int low, int high, float x[8]) const {
        float g[8], m[8], v[8];
        load_elements(gradient + element, low, high, g);
        load_elements(first + element, low, high, m);
        load_elements(second + element, low, high, v);
#pragma unroll
        for (int j = 0; j < 8; j++) zest_adamw_element(&coefficients, g[j], &m[j], &v[j], &x[j]);
        store_elements(first + element, low, high, m);
        store_elements(second + element, low, high, v);
    }
};

/* The prefetch stream must not read weights or a point before this is done. */
template <class Op>
static int run_loop(const zest_optim_vectors *s, const zest_optim_update *update, const Op &op) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    tensor_loop_params loop = {};
    loop.tensors = (const zest_cuda_tensor *)s->tensors;
    loop.tensor_count = (unsigned)s->params.count;
    loop.chunks_per_block = s->chunks_per_block;
    loop.rounding = update ? update->rounding : 0;
    loop.nearest = update ? update->nearest : 0;
    cuda->weights_dirty = 1;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_UPDATE);
    tensor_loop_kernel<<<s->blocks, LOOP_THREADS, 0, cuda->stream>>>(loop, op);
    return zest_cuda_launched(cuda, "updating the weights");
}

static int uphill(const zest_optim_vectors *s, const zest_eval_point *from, float c, float *point) {
    point_uphill op = {};
    op.point = point;
    op.c = c;
    if (from->direction && from->scale != 0) {
        op.scale = (float)(from->scale * from->direction->gain);
        op.seed = from->direction->seed;
        op.signs = from->direction->distribution == ZEST_RADEMACHER;
    }
    return run_loop(s, NULL, op);
}

static int sgd(const zest_optim_vectors *s, const zest_optim_update *update,
               const zest_sgd_coefficients *coefficients) {
    sgd_step op = {};
    op.gradient = update->gradient;
    op.momentum = update->first;
    op.coefficients = *coefficients;
    return run_loop(s, update, op);
}

static int adamw(const zest_optim_vectors *s, const zest_optim_update *update,
                 const zest_adamw_coefficients *coefficients) {
    adamw_step op = {};
    op.gradient = update->gradient;
    op.first = update->first;
    op.second = update->second;
    op.coefficients = *coefficients;
    return run_loop(s, update, op);
}

extern "C" const zest_optim_vector_ops zest_optim_vector_ops_cuda = {clear,  scale, squares, sphere,
                                                                     uphill, sgd,   adamw};
