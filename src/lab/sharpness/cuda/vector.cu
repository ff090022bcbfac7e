/* Long vectors in GPU memory. A sum is one of fixed blocks, each summed by its threads in a fixed order; the
 * sums of the blocks are added on the host. So every run gives the same bits. */
#include <math.h>
#include <stdlib.h>

#include "kernels/cuda/tensor_loop.cuh"

extern "C" {
#include "lab/sharpness/sharpness_internal.h"
}

enum { THREADS = 256, MIN_BLOCK = 16384, MAX_BLOCKS = 2048 };

/* ---- Sums ---- */

struct product_of {
    const float *v;
    const double *w;
    __device__ __forceinline__ double operator()(size_t i) const { return (double)v[i] * w[i]; }
};

struct square_of {
    const double *w;
    __device__ __forceinline__ double operator()(size_t i) const { return w[i] * w[i]; }
};

struct distance_of {
    const double *a, *b;
    __device__ __forceinline__ double operator()(size_t i) const { return (a[i] - b[i]) * (a[i] - b[i]); }
};

struct float_square_of {
    const float *v;
    __device__ __forceinline__ double operator()(size_t i) const { return (double)v[i] * (double)v[i]; }
};

template <class Term>
static __global__ void __launch_bounds__(THREADS)
    sum_kernel(Term term, size_t count, size_t block_size, double *sums) {
    __shared__ double warp_sums[THREADS / 32];
    size_t first = blockIdx.x * block_size, end = count - first < block_size ? count : first + block_size;
    double sum = 0;
#pragma unroll 4
    for (size_t i = first + threadIdx.x; i < end; i += THREADS) sum += term(i);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++) sum += warp_sums[i];
    sums[blockIdx.x] = sum;
}

template <class Term> static double sum_of(const zest_vector_space *s, const Term &term) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    double sums[MAX_BLOCKS], sum = 0;
    size_t block_size = (s->count + MAX_BLOCKS - 1) / MAX_BLOCKS;
    if (block_size < MIN_BLOCK) block_size = MIN_BLOCK;
    unsigned blocks = zest_cuda_blocks(s->count, block_size);
    if (zest_cuda_reserve(cuda, &cuda->scratch, sizeof sums)) return NAN;
    double *block_sums = (double *)cuda->scratch.data;
    sum_kernel<<<blocks, THREADS, 0, cuda->stream>>>(term, s->count, block_size, block_sums);
    if (zest_cuda_launched(cuda, "summing a vector") ||
        s->device->operations->device->download(s->device, sums, block_sums, blocks * sizeof *sums))
        return NAN;
    for (unsigned b = 0; b < blocks; b++) sum += sums[b];
    return sum;
}

static double dot(const zest_vector_space *s, const float *v, const double *w) {
    return sum_of(s, product_of{v, w});
}

static double norm(const zest_vector_space *s, const double *w) { return sqrt(sum_of(s, square_of{w})); }

static double distance(const zest_vector_space *s, const double *a, const double *b) {
    return sqrt(sum_of(s, distance_of{a, b}));
}

static double square(const zest_vector_space *s, const float *v) { return sum_of(s, float_square_of{v}); }

/* ---- Elementwise ---- */

struct add_op {
    double *w;
    double c;
    const float *v;
    __device__ __forceinline__ void operator()(size_t i) const { w[i] += c * (double)v[i]; }
};

struct store_op {
    float *v;
    double c;
    const double *w;
    __device__ __forceinline__ void operator()(size_t i) const { v[i] = (float)(c * w[i]); }
};

struct scale_op {
    float *v;
    float c;
    __device__ __forceinline__ void operator()(size_t i) const { v[i] *= c; }
};

struct shift_op {
    float *v;
    double c;
    const float *u;
    __device__ __forceinline__ void operator()(size_t i) const {
        v[i] = (float)((double)v[i] + c * (double)u[i]);
    }
};

struct noise_op {
    float *v;
    uint64_t seed;
    int signs;
    __device__ __forceinline__ void operator()(size_t i) const { v[i] = noise1(seed, signs, i); }
};

template <class Op>
static __global__ void __launch_bounds__(THREADS) elementwise_kernel(const Op op, size_t count) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) op(i);
}

/* The device keeps an error; see zest_vector_check. */
template <class Op> static void for_each(const zest_vector_space *s, const Op &op) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    cuda->weights_dirty = 1; /* the prefetch stream may read the vector as weights */
    elementwise_kernel<<<zest_cuda_blocks(s->count, THREADS), THREADS, 0, cuda->stream>>>(op, s->count);
    (void)zest_cuda_launched(cuda, "updating a vector");
}

static void add(const zest_vector_space *s, double *w, double c, const float *v) {
    for_each(s, add_op{w, c, v});
}

static void store(const zest_vector_space *s, float *v, double c, const double *w) {
    for_each(s, store_op{v, c, w});
}

static void scale(const zest_vector_space *s, float *v, float c) { for_each(s, scale_op{v, c}); }

static void shift(const zest_vector_space *s, float *v, double c, const float *u) {
    for_each(s, shift_op{v, c, u});
}

static void normal(const zest_vector_space *s, float *v, uint64_t seed) { for_each(s, noise_op{v, seed, 0}); }

static void sign(const zest_vector_space *s, float *v, uint64_t seed) { for_each(s, noise_op{v, seed, 1}); }

static void clear(const zest_vector_space *s, void *x, size_t size) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    (void)zest_cuda_failed(cuda, cudaMemsetAsync(x, 0, s->count * size, cuda->stream), "clearing a vector");
}

static void copy(const zest_vector_space *s, float *to, const float *from) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    (void)zest_cuda_failed(
        cuda, cudaMemcpyAsync(to, from, s->count * sizeof *to, cudaMemcpyDeviceToDevice, cuda->stream),
        "copying a vector");
}

/* ---- Parameters ---- */

struct read_op {
    static const bool writes = false;
    float *to;
    __device__ __forceinline__ void operator()(uint64_t element, int low, int high, float x[8]) const {
        store_elements(to + element, low, high, x);
    }
};

static void read_all(const zest_vector_space *s, const zest_params *params, float *v) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    tensor_loop_params loop = {};
    unsigned blocks;
    if (!params->count) return;
    zest_cuda_tensor *tensors = zest_cuda_tensor_list(cuda, params, &blocks, &loop.chunks_per_block);
    if (!tensors) {
        (void)zest_cuda_no_memory(cuda, "a list of tensors", params->count * sizeof *tensors);
        return;
    }
    loop.tensors = (const zest_cuda_tensor *)s->device->operations->device->stage(
        s->device, tensors, params->count * sizeof *tensors);
    free(tensors);
    if (!loop.tensors) return;
    loop.tensor_count = (unsigned)params->count;
    cuda->weights_dirty = 1;
    tensor_loop_kernel<<<blocks, LOOP_THREADS, 0, cuda->stream>>>(loop, read_op{v});
    (void)zest_cuda_launched(cuda, "reading the weights");
}

/* ---- Rotation of a basis ---- */

enum { ROTATE_WIDTH = 32 }; /* elements of all vectors that a block works on */

/* basis (vectors, d) becomes matrix' basis (count, d), in place: the old elements of a block lie in shared
 * memory. */
static __global__ void __launch_bounds__(THREADS)
    rotate_kernel(float *basis, const double *matrix, unsigned vectors, unsigned count, size_t d) {
    extern __shared__ float old[]; /* (vectors, ROTATE_WIDTH) */
    unsigned e = threadIdx.x % ROTATE_WIDTH, row = threadIdx.x / ROTATE_WIDTH;
    size_t at = (size_t)blockIdx.x * ROTATE_WIDTH + e;
    for (unsigned i = row; i < vectors; i += THREADS / ROTATE_WIDTH)
        old[i * ROTATE_WIDTH + e] = at < d ? basis[i * d + at] : 0;
    __syncthreads();
    for (unsigned k = row; k < count && at < d; k += THREADS / ROTATE_WIDTH) {
        double sum = 0;
        for (unsigned i = 0; i < vectors; i++)
            sum += matrix[(size_t)i * count + k] * (double)old[i * ROTATE_WIDTH + e];
        basis[k * d + at] = (float)sum;
    }
}

static int rotate(const zest_vector_space *s, const zest_vector_rotation *args) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    size_t shared = args->vectors * ROTATE_WIDTH * sizeof(float);
    const double *staged = (const double *)s->device->operations->device->stage(
        s->device, args->rotation, args->vectors * args->count * sizeof *args->rotation);
    if (!staged) return -1;
    if (zest_cuda_shared(cuda, (const void *)rotate_kernel, shared, "rotating so many vectors")) return -1;
    rotate_kernel<<<zest_cuda_blocks(s->count, ROTATE_WIDTH), THREADS, shared, cuda->stream>>>(
        args->basis, staged, (unsigned)args->vectors, (unsigned)args->count, s->count);
    return zest_cuda_launched(cuda, "rotating vectors");
}

extern "C" const zest_vector_table zest_vector_cuda = {
    dot, norm, distance, square, clear, add, store, scale, shift, copy, normal, sign, read_all, rotate};
