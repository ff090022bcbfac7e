/* The vectors u_j and a_j that noise of low rank is made of (rng/noise_law.h), of several directions at once: for
 * forward passes (linear_lowrank.cu) and for updates (update_lowrank.cu). */
#include "kernels/cuda/noise_law.cuh"

enum { THREADS = 256, MOST_CHUNKS = 1024 };

/* An element as it is stored: u of an update times its coefficient, rounded once (optim/update_lowrank.c). */
static __device__ __forceinline__ float stored(double coefficient, bool scaled, float z) {
    return scaled ? __double2float_rn(__dmul_rn(coefficient, (double)z)) : z;
}

/* Independent numbers: a thread has four that come out of one block of random bits. */
static __device__ __forceinline__ void fill_plain(const zest_cuda_law_side &side, float *to, uint64_t number,
                                                  uint64_t seed, int signs, double coefficient, bool scaled) {
    const uint64_t first = number + side.first, end = first + side.count;
    for (uint64_t block = first / 4 + blockIdx.y * THREADS + threadIdx.x; block * 4 < end;
         block += (uint64_t)gridDim.y * THREADS) {
        float z[4];
        noise4(seed, signs, block, z);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint64_t n = block * 4 + (uint64_t)j;
            if (n >= first && n < end) to[n - first] = stored(coefficient, scaled, z[j]);
        }
    }
}

/* Sums over the stored inputs: a thread has an element. z: (inputs), shared. */
static __device__ __forceinline__ void fill_mixed(const zest_noise_law &law, const zest_cuda_law_side &side,
                                                  float *to, uint64_t width, uint64_t number, uint64_t seed,
                                                  int signs, double coefficient, bool scaled, float *z) {
    for (unsigned s = threadIdx.x; s < law.input_count; s += THREADS) z[s] = noise1(seed, signs, number + s);
    __syncthreads();
    for (uint64_t i = blockIdx.y * THREADS + threadIdx.x; i < side.count;
         i += (uint64_t)gridDim.y * THREADS) {
        const float *y = law.inputs + side.first + i;
        float sum = 0;
        for (uint32_t s = 0; s < law.input_count; s++)
            sum = s ? __fmaf_rn(z[s], y[s * width], sum) : __fmul_rn(z[0], y[0]);
        to[i] = stored(coefficient, scaled, sum);
    }
}

/* A block for a chunk (y) of a vector: direction i and factor j (x), side (z). */
static __global__ void __launch_bounds__(THREADS)
    vectors_kernel(const __grid_constant__ zest_cuda_law_vectors v) {
    __shared__ float z[ZEST_NOISE_INPUTS];
    const zest_noise_law &law = v.law;
    const unsigned i = blockIdx.x / law.rank, j = blockIdx.x - i * law.rank;
    const bool is_rows = blockIdx.z == ZEST_NOISE_ROWS, scaled = is_rows && v.terms;
    const zest_cuda_law_side &side = v.side[is_rows ? ZEST_NOISE_ROWS : ZEST_NOISE_COLUMNS];
    const uint64_t seed = v.terms ? v.terms[i].seed : v.pairs.seed[i];
    const int signs = v.terms ? v.terms[i].signs : v.pairs.signs;
    const double coefficient = v.terms ? __dmul_rn(v.terms[i].exact, (double)law_factor(law)) : 1.0;
    const uint64_t number = law.first + j * (law.rows + law.columns) + (is_rows ? 0 : law.rows);
    float *to = side.to + (size_t)blockIdx.x * side.stride;
    if (!law.input_count || is_rows != (law.inputs_are_rows != 0))
        fill_plain(side, to, number, seed, signs, coefficient, scaled);
    else
        fill_mixed(law, side, to, is_rows ? law.rows : law.columns, number, seed, signs, coefficient, scaled,
                   z);
}

int zest_cuda_fill_law_vectors(zest_cuda *cuda, const zest_cuda_law_vectors *vectors, cudaStream_t stream) {
    const size_t rows = vectors->side[ZEST_NOISE_ROWS].count,
                 columns = vectors->side[ZEST_NOISE_COLUMNS].count, longest = rows > columns ? rows : columns;
    const unsigned chunks =
        zest_cuda_blocks(longest + 3, (size_t)THREADS * (vectors->law.input_count ? 1 : 4));
    const dim3 grid(vectors->count * vectors->law.rank, chunks < MOST_CHUNKS ? chunks : MOST_CHUNKS, 2);
    if (!vectors->count || !longest) return 0;
    vectors_kernel<<<grid, THREADS, 0, stream>>>(*vectors);
    return zest_cuda_launched(cuda, "drawing vectors of noise");
}
