/* From hidden states and logits to what a loss needs. Sums of exponentials are fp64. */
#include <math_constants.h>

#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };

/* ---- A few words ---- */

struct words_job {
    zest_weight weight, bias;
    zest_cuda_pairs pairs;
    const void *h;
    float *out;
    int64_t h_lane, out_lane;
    size_t rows, width, count;
    const uint32_t *words;
    int moves[2], bias_moves[2];
};

/* A warp an output, both lanes of a pair: the noise of a word is drawn again for every row, which is cheaper
 * than keeping it. Weights are rounded to the compute's type, as the matrix products do. */
template <class T> static __global__ void __launch_bounds__(THREADS) words_kernel(words_job job) {
    size_t at = blockIdx.x * (size_t)(THREADS / 32) + threadIdx.x / 32;
    if (at >= job.rows * job.count) return;
    int p = (int)blockIdx.y, lanes = job.pairs.lanes;
    size_t m = at / job.count, w = at % job.count;
    uint64_t word = job.words[w], row = word * job.width, first = job.weight.first + row;
    float sum[2] = {0, 0};
    for (uint64_t block = first / 4 + threadIdx.x % 32; block * 4 < first + job.width; block += 32) {
        float z[4] = {0, 0, 0, 0};
        if (job.moves[0] | job.moves[1]) noise4(job.pairs.seed[p], job.pairs.signs, block, z);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint64_t number = block * 4 + (uint64_t)j;
            if (number < first || number >= first + job.width) continue;
            uint64_t c = number - first;
            float x = load_weight(job.weight.data, job.weight.dtype, row + c);
            for (int l = 0; l < lanes; l++) {
                const T *h = (const T *)job.h + (p * lanes + l) * job.h_lane + m * job.width;
                float y = job.moves[l] ? __fmaf_rn(job.pairs.scale[p][l], z[j], x) : x;
                sum[l] = fmaf(to_float(h[c]), to_float(to_cell<T>(y)), sum[l]);
            }
        }
    }
    for (int l = 0; l < lanes; l++) {
        float y = warp_sum(sum[l]);
        if (threadIdx.x % 32) continue;
        if (job.bias.data) {
            float b = load_weight(job.bias.data, job.bias.dtype, word);
            y += job.bias_moves[l]
                     ? __fmaf_rn(job.pairs.scale[p][l],
                                 noise1(job.pairs.seed[p], job.pairs.signs, job.bias.first + word), b)
                     : b;
        }
        job.out[(p * lanes + l) * job.out_lane + (int64_t)at] = y;
    }
}

int zest_cuda_words(zest_device *device, const zest_label_logits *job) {
    zest_cuda *cuda = zest_cuda_of(device);
    words_job work = {job->weight, job->bias,   zest_cuda_pairs_of(&job->perturbation),
                      job->h[0],   job->out[0], 0,
                      0,           job->rows,   job->width,
                      job->count,  job->words,  {0, 0},
                      {0, 0}};
    if (job->perturbation.lanes > 1) {
        work.h_lane = zest_cuda_apart(job->h[0], job->h[1], cuda->base.element_size);
        work.out_lane = zest_cuda_apart(job->out[0], job->out[1], sizeof(float));
    }
    dim3 grid(zest_cuda_blocks(job->rows * job->count, THREADS / 32), (unsigned)work.pairs.count);
    for (int l = 0; l < job->perturbation.lanes; l++) {
        work.moves[l] = !job->weight.frozen && job->perturbation.scale[l] != 0;
        work.bias_moves[l] = !job->bias.frozen && job->perturbation.scale[l] != 0;
    }
    if (!job->rows || !job->count) return 0;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_LOSS);
    ZEST_CUDA_TYPED(cuda->base.compute, T, (words_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(work)));
    return zest_cuda_launched(cuda, "computing label logits");
}

/* ---- The whole vocabulary ---- */

/* A block a row. A NaN anywhere makes the sum a NaN. */
static __global__ void __launch_bounds__(THREADS) sum_kernel(zest_logit_block block, zest_logit_sum *sums) {
    __shared__ float most_part[THREADS / 32];
    __shared__ double sum_part[THREADS / 32];
    size_t r = blockIdx.x;
    const float *logits = block.logits + r * block.count;
    float most = -CUDART_INF_F;
    for (size_t i = threadIdx.x; i < block.count; i += THREADS) most = fmaxf(most, logits[i]);
    most = over_warp(most, [](float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x % 32 == 0) most_part[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++) most = fmaxf(most, most_part[i]);
    zest_logit_sum old = {-CUDART_INF, 0, 0};
    if (block.first) old = sums[r];
    double top = fmax(old.max, (double)most), sum = 0;
    for (size_t i = threadIdx.x; i < block.count; i += THREADS) sum += exp((double)logits[i] - top);
#pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sum_part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = block.first ? old.sum * exp(old.max - top) : 0;
    for (int i = 0; i < THREADS / 32; i++) sum += sum_part[i];
    uint32_t target = block.targets[r];
    double value = target >= block.first && target - block.first < block.count
                       ? (double)logits[target - block.first]
                       : old.target;
    sums[r].max = top;
    sums[r].sum = sum;
    sums[r].target = value;
}

int zest_cuda_sum_logits(zest_device *device, const zest_logit_block *block, zest_logit_sum *sums) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!block->rows) return 0;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_LOSS);
    sum_kernel<<<(unsigned)block->rows, THREADS, 0, cuda->stream>>>(*block, sums);
    return zest_cuda_launched(cuda, "summing logits");
}

/* Of equal logits the smallest token wins; a NaN never does. */
static __device__ __forceinline__ zest_logit_best better(zest_logit_best a, zest_logit_best b) {
    return b.logit > a.logit || (b.logit == a.logit && b.token < a.token) ? b : a;
}

static __global__ void __launch_bounds__(THREADS) best_kernel(zest_logit_block block, zest_logit_best *best) {
    __shared__ zest_logit_best part[THREADS / 32];
    size_t r = blockIdx.x;
    const float *logits = block.logits + r * block.count;
    zest_logit_best mine = {-CUDART_INF_F, 0xffffffffu};
    for (size_t i = threadIdx.x; i < block.count; i += THREADS) {
        zest_logit_best one = {logits[i], (uint32_t)(block.first + i)};
        mine = better(mine, one);
    }
#pragma unroll
    for (int step = 16; step; step /= 2) {
        zest_logit_best other = {__shfl_xor_sync(0xffffffffu, mine.logit, step),
                                 __shfl_xor_sync(0xffffffffu, mine.token, step)};
        mine = better(mine, other);
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x) return;
    zest_logit_best result = {-CUDART_INF_F, 0};
    if (block.first) result = best[r];
    for (int i = 0; i < THREADS / 32; i++)
        if (part[i].logit > result.logit || (part[i].logit == result.logit && part[i].token < result.token))
            result = part[i];
    best[r] = result;
}

int zest_cuda_best_logits(zest_device *device, const zest_logit_block *block, zest_logit_best *best) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!block->rows) return 0;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_LOSS);
    best_kernel<<<(unsigned)block->rows, THREADS, 0, cuda->stream>>>(*block, best);
    return zest_cuda_launched(cuda, "choosing a token");
}
