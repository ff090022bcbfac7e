/* Logits and what losses need of them. h (lanes, rows, hidden); logits (rows, count) in fp32, a block of the
 * vocabulary at a time; sums of exponentials in fp64. */
#include <math_constants.h>

#include "kernels/cuda/noise_law.cuh"

enum { THREADS = 256 };

/* ---- Label words ---- */

struct label_logits_params {
    zest_weight weight, bias;
    zest_cuda_pairs pairs;
    const void *h;
    float *out;
    int64_t h_lane, out_lane;
    size_t rows, width, count;
    const uint32_t *words;
    int perturbed[2], bias_perturbed[2];
};

/* A warp for a logit, in both lanes of a pair. The noise of a word is drawn again for every row, which is
 * cheaper than keeping it. Weights are rounded to the compute type, as for GEMMs. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    label_logits_kernel(const __grid_constant__ label_logits_params params) {
    size_t at = blockIdx.x * (size_t)(THREADS / 32) + threadIdx.x / 32;
    if (at >= params.rows * params.count) return;
    int p = (int)blockIdx.y, lanes = params.pairs.lanes;
    size_t m = at / params.count, w = at % params.count;
    uint64_t word = params.words[w], row = word * params.width, first = params.weight.first + row;
    float sum[2] = {0, 0};
    for (uint64_t block = first / 4 + threadIdx.x % 32; block * 4 < first + params.width; block += 32) {
        float z[4] = {0, 0, 0, 0};
        if (params.perturbed[0] | params.perturbed[1])
            law_noise4(params.weight.law, params.pairs.seed[p], params.pairs.signs, block * 4, z);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint64_t number = block * 4 + (uint64_t)j;
            if (number < first || number >= first + params.width) continue;
            uint64_t c = number - first;
            float x = load_weight(params.weight.data, params.weight.dtype, row + c);
            for (int l = 0; l < lanes; l++) {
                const T *h = (const T *)params.h + (p * lanes + l) * params.h_lane + m * params.width;
                float y = params.perturbed[l] ? __fmaf_rn(params.pairs.scale[p][l], z[j], x) : x;
                sum[l] = fmaf(to_float(h[c]), to_float(from_float<T>(y)), sum[l]);
            }
        }
    }
    for (int l = 0; l < lanes; l++) {
        float y = warp_sum(sum[l]);
        if (threadIdx.x % 32) continue;
        if (params.bias.data) {
            float b = load_weight(params.bias.data, params.bias.dtype, word);
            y += params.bias_perturbed[l]
                     ? __fmaf_rn(params.pairs.scale[p][l],
                                 law_noise1(params.bias.law, params.pairs.seed[p], params.pairs.signs,
                                            params.bias.first + word),
                                 b)
                     : b;
        }
        params.out[(p * lanes + l) * params.out_lane + (int64_t)at] = y;
    }
}

int zest_cuda_label_logits(zest_device *device, const zest_label_logits *args) {
    zest_cuda *cuda = zest_cuda_of(device);
    label_logits_params params = {args->weight,
                                  args->bias,
                                  zest_cuda_pairs_of(&args->perturbation),
                                  args->h[0],
                                  args->out[0],
                                  0,
                                  0,
                                  args->rows,
                                  args->width,
                                  args->count,
                                  args->words,
                                  {0, 0},
                                  {0, 0}};
    if (args->perturbation.lanes > 1) {
        params.h_lane = zest_cuda_lane_stride(args->h[0], args->h[1], cuda->base.element_size);
        params.out_lane = zest_cuda_lane_stride(args->out[0], args->out[1], sizeof(float));
    }
    dim3 grid(zest_cuda_blocks(args->rows * args->count, THREADS / 32), (unsigned)params.pairs.count);
    for (int l = 0; l < args->perturbation.lanes; l++) {
        params.perturbed[l] = !args->weight.frozen && args->perturbation.scale[l] != 0;
        params.bias_perturbed[l] = !args->bias.frozen && args->perturbation.scale[l] != 0;
    }
    if (!args->rows || !args->count) return 0;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_LOSS);
    ZEST_CUDA_DISPATCH(cuda->base.compute, T,
                       (label_logits_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(params)));
    return zest_cuda_launched(cuda, "computing label logits");
}

/* ---- The whole vocabulary ---- */

/* Online log-sum-exp over blocks of the vocabulary; a block for a row. A NaN anywhere makes the sum NaN. */
static __global__ void __launch_bounds__(THREADS)
    sum_logits_kernel(zest_logit_block block, zest_logit_sum *sums) {
    __shared__ float warp_max[THREADS / 32];
    __shared__ double warp_sums[THREADS / 32];
    size_t r = blockIdx.x;
    const float *logits = block.logits + r * block.count;
    float row_max = -CUDART_INF_F;
    for (size_t i = threadIdx.x; i < block.count; i += THREADS) row_max = fmaxf(row_max, logits[i]);
    row_max = warp_reduce(row_max, [](float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x % 32 == 0) warp_max[threadIdx.x / 32] = row_max;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++) row_max = fmaxf(row_max, warp_max[i]);
    zest_logit_sum old = {-CUDART_INF, 0, 0};
    if (block.first) old = sums[r];
    double new_max = fmax(old.max, (double)row_max), sum = 0;
    for (size_t i = threadIdx.x; i < block.count; i += THREADS) sum += exp((double)logits[i] - new_max);
#pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = block.first ? old.sum * exp(old.max - new_max) : 0;
    for (int i = 0; i < THREADS / 32; i++) sum += warp_sums[i];
    uint32_t target = block.targets[r];
    double value = target >= block.first && target - block.first < block.count
                       ? (double)logits[target - block.first]
                       : old.target;
    sums[r].max = new_max;
    sums[r].sum = sum;
    sums[r].target = value;
}

int zest_cuda_sum_logits(zest_device *device, const zest_logit_block *block, zest_logit_sum *sums) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!block->rows) return 0;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_LOSS);
    sum_logits_kernel<<<(unsigned)block->rows, THREADS, 0, cuda->stream>>>(*block, sums);
    return zest_cuda_launched(cuda, "summing logits");
}

/* Of equal logits the smallest token is taken; NaN never is. */
static __device__ __forceinline__ zest_logit_best better(zest_logit_best a, zest_logit_best b) {
    return b.logit > a.logit || (b.logit == a.logit && b.token < a.token) ? b : a;
}

static __global__ void __launch_bounds__(THREADS)
    best_logits_kernel(zest_logit_block block, zest_logit_best *best) {
    __shared__ zest_logit_best warp_sums[THREADS / 32];
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
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x) return;
    zest_logit_best result = {-CUDART_INF_F, 0};
    if (block.first) result = best[r];
    for (int i = 0; i < THREADS / 32; i++)
        if (warp_sums[i].logit > result.logit ||
            (warp_sums[i].logit == result.logit && warp_sums[i].token < result.token))
            result = warp_sums[i];
    best[r] = result;
}

int zest_cuda_best_logits(zest_device *device, const zest_logit_block *block, zest_logit_best *best) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!block->rows) return 0;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_LOSS);
    best_logits_kernel<<<(unsigned)block->rows, THREADS, 0, cuda->stream>>>(*block, best);
    return zest_cuda_launched(cuda, "choosing a token");
}
