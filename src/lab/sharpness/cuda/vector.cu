/* Long vectors in a GPU's memory. A sum is one of fixed blocks, each added up by its threads in a fixed
 * order, and the blocks' sums are added on the host: the same bits in every run. */
#include <math.h>
#include <stdlib.h>

#include "kernels/cuda/tensor_loop.cuh"

extern "C" {
#include "lab/sharpness/sharpness_internal.h"
}

enum { THREADS = 256, BLOCK_LEAST = 16384, BLOCKS_MOST = 2048 };

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
    sum_kernel(Term term, size_t count, size_t each, double *sums) {
    __shared__ double parts[THREADS / 32];
    size_t first = blockIdx.x * each, end = count - first < each ? count : first + each;
    double sum = 0;
#pragma unroll 4
    for (size_t i = first + threadIdx.x; i < end; i += THREADS) sum += term(i);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++) sum += parts[i];
    sums[blockIdx.x] = sum;
}

template <class Term> static double sum_of(const zest_vector_space *s, const Term &term) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    double sums[BLOCKS_MOST], sum = 0;
    size_t each = (s->count + BLOCKS_MOST - 1) / BLOCKS_MOST;
    if (each < BLOCK_LEAST) each = BLOCK_LEAST;
    unsigned blocks = zest_cuda_blocks(s->count, each);
    if (zest_cuda_reserve(cuda, &cuda->scratch, sizeof sums)) return NAN;
    double *room = (double *)cuda->scratch.data;
    sum_kernel<<<blocks, THREADS, 0, cuda->stream>>>(term, s->count, each, room);
    if (zest_cuda_launched(cuda, "summing a vector") ||
        s->device->operations->device->download(s->device, sums, room, blocks * sizeof *sums))
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

/* ---- Element by element ---- */

struct adding {
    double *w;
    double c;
    const float *v;
    __device__ __forceinline__ void operator()(size_t i) const { w[i] += c * (double)v[i]; }
};

struct storing {
    float *v;
    double c;
    const double *w;
    __device__ __forceinline__ void operator()(size_t i) const { v[i] = (float)(c * w[i]); }
};

struct scaling {
    float *v;
    float c;
    __device__ __forceinline__ void operator()(size_t i) const { v[i] *= c; }
};

struct shifting {
    float *v;
    double c;
    const float *u;
    __device__ __forceinline__ void operator()(size_t i) const {
        v[i] = (float)((double)v[i] + c * (double)u[i]);
    }
};

struct drawing {
    float *v;
    uint64_t seed;
    int signs;
    __device__ __forceinline__ void operator()(size_t i) const { v[i] = noise1(seed, signs, i); }
};

template <class Each>
static __global__ void __launch_bounds__(THREADS) each_kernel(const Each each, size_t count) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) each(i);
}

/* What fails is kept by the device, see zest_vector_check. */
template <class Each> static void for_each(const zest_vector_space *s, const Each &each) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    cuda->has_changed = 1; /* a pass may read the vector as weights, in the stream beside */
    each_kernel<<<zest_cuda_blocks(s->count, THREADS), THREADS, 0, cuda->stream>>>(each, s->count);
    (void)zest_cuda_launched(cuda, "updating a vector");
}

static void add(const zest_vector_space *s, double *w, double c, const float *v) {
    for_each(s, adding{w, c, v});
}

static void store(const zest_vector_space *s, float *v, double c, const double *w) {
    for_each(s, storing{v, c, w});
}

static void scale(const zest_vector_space *s, float *v, float c) { for_each(s, scaling{v, c}); }

static void shift(const zest_vector_space *s, float *v, double c, const float *u) {
    for_each(s, shifting{v, c, u});
}

static void normal(const zest_vector_space *s, float *v, uint64_t seed) { for_each(s, drawing{v, seed, 0}); }

static void sign(const zest_vector_space *s, float *v, uint64_t seed) { for_each(s, drawing{v, seed, 1}); }

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

struct reading {
    static const bool writes = false;
    float *to;
    __device__ __forceinline__ void operator()(uint64_t number, int low, int high, float x[8]) const {
        store_run(to + number, low, high, x);
    }
};

static void read_all(const zest_vector_space *s, const zest_params *params, float *v) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    sweep_job job = {};
    unsigned blocks;
    if (!params->count) return;
    zest_cuda_swept *tensors = zest_cuda_sweep_plan(cuda, params, &blocks, &job.turns);
    if (!tensors) {
        (void)zest_cuda_no_memory(cuda, "a list of tensors", params->count * sizeof *tensors);
        return;
    }
    job.tensors = (const zest_cuda_swept *)s->device->operations->device->stage(
        s->device, tensors, params->count * sizeof *tensors);
    free(tensors);
    if (!job.tensors) return;
    job.tensor_count = (unsigned)params->count;
    cuda->has_changed = 1;
    sweep_kernel<<<blocks, SWEEP_THREADS, 0, cuda->stream>>>(job, reading{v});
    (void)zest_cuda_launched(cuda, "reading the weights");
}

/* ---- Turning ---- */

enum { WIDE = 32 }; /* elements of all vectors that a block turns */

/* The old vectors of a few elements lie in shared memory, so the new ones may be written over them. */
static __global__ void __launch_bounds__(THREADS)
    turn_kernel(float *basis, const double *turn, unsigned vectors, unsigned count, size_t d) {
    extern __shared__ float old[]; /* vectors × WIDE */
    unsigned e = threadIdx.x % WIDE, row = threadIdx.x / WIDE;
    size_t at = (size_t)blockIdx.x * WIDE + e;
    for (unsigned i = row; i < vectors; i += THREADS / WIDE)
        old[i * WIDE + e] = at < d ? basis[i * d + at] : 0;
    __syncthreads();
    for (unsigned k = row; k < count && at < d; k += THREADS / WIDE) {
        double sum = 0;
        for (unsigned i = 0; i < vectors; i++) sum += turn[(size_t)i * count + k] * (double)old[i * WIDE + e];
        basis[k * d + at] = (float)sum;
    }
}

static int turn(const zest_vector_space *s, const zest_vector_rotation *job) {
    zest_cuda *cuda = zest_cuda_of(s->device);
    size_t shared = job->vectors * WIDE * sizeof(float);
    const double *staged = (const double *)s->device->operations->device->stage(
        s->device, job->turn, job->vectors * job->count * sizeof *job->turn);
    if (!staged) return -1;
    if (zest_cuda_shared(cuda, (const void *)turn_kernel, shared, "rotating so many vectors")) return -1;
    turn_kernel<<<zest_cuda_blocks(s->count, WIDE), THREADS, shared, cuda->stream>>>(
        job->basis, staged, (unsigned)job->vectors, (unsigned)job->count, s->count);
    return zest_cuda_launched(cuda, "rotating vectors");
}

extern "C" const zest_vector_table zest_vector_cuda = {dot,   norm,  distance, square, clear, add,      store,
                                                       scale, shift, copy,     normal, sign,  read_all, turn};
