/* Gradients of logits: of label words, and of a block of the vocabulary. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, WIDTH = 4 };

/* ---- Label words ---- */

/* d (items, width) = by (items, count) rows (count, width); a block for an item. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    features_grad_kernel(const __grid_constant__ zest_label_words_backward args) {
    size_t i = blockIdx.x;
    const T *rows = (const T *)args.rows;
    T *d = (T *)args.d + i * args.width;
    for (size_t c = threadIdx.x; c < args.width; c += THREADS) {
        float sum = 0;
        for (size_t w = 0; w < args.count; w++)
            sum = fmaf(args.d_logits[i * args.count + w], to_float(rows[w * args.width + c]), sum);
        d[c] = from_float<T>(sum);
    }
}

/* d_weight[word] += by' features; a thread for a column of a word's row. A word that is listed twice is done
 * where it comes first. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    head_grad_kernel(const __grid_constant__ zest_label_words_backward args) {
    size_t c = blockIdx.y * (size_t)THREADS + threadIdx.x, w = blockIdx.x;
    uint32_t word = args.words[w];
    const T *features = (const T *)args.features;
    for (size_t earlier = 0; earlier < w; earlier++)
        if (args.words[earlier] == word) return;
    if (args.d_weight && c < args.width) {
        float sum = args.d_weight[word * args.width + c];
#pragma unroll 4
        for (size_t i = 0; i < args.items; i++) {
            float feature = to_float(features[i * args.width + c]);
            for (size_t v = w; v < args.count; v++)
                if (args.words[v] == word) sum = fmaf(args.d_logits[i * args.count + v], feature, sum);
        }
        args.d_weight[word * args.width + c] = sum;
    }
    if (args.d_bias && c == 0) {
        float sum = args.d_bias[word];
        for (size_t i = 0; i < args.items; i++)
            for (size_t v = w; v < args.count; v++)
                if (args.words[v] == word) sum += args.d_logits[i * args.count + v];
        args.d_bias[word] = sum;
    }
}

template <class T> static int label_logits_grad(zest_cuda *cuda, const zest_label_words_backward *args) {
    dim3 grid((unsigned)args->count, zest_cuda_blocks(args->width, THREADS));
    features_grad_kernel<T><<<(unsigned)args->items, THREADS, 0, cuda->stream>>>(*args);
    if (zest_cuda_launched(cuda, "computing the gradient of label logits")) return -1;
    if (!args->d_weight && !args->d_bias) return 0;
    head_grad_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(*args);
    return zest_cuda_launched(cuda, "computing the gradient of label logits");
}

int zest_backward_cuda_label_words(const zest_label_words_backward *args, int threads,
                                   zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    int failed = 0;
    (void)threads;
    if (!args->items || !args->count) return 0;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_LOSS);
    ZEST_BACKWARD_DISPATCH(cuda->base.compute, T, failed = label_logits_grad<T>(cuda, args));
    return failed;
}

/* ---- The whole vocabulary ---- */

/* d = weight (p - 1{target}); p - 1 of the target by expm1, without cancellation. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    logits_grad_kernel(const __grid_constant__ zest_logits_backward args) {
    __shared__ double shared_sum;
    size_t r = blockIdx.y, first = (size_t)blockIdx.x * (THREADS * WIDTH);
    if (threadIdx.x == 0) shared_sum = args.sums[r].max + log(args.sums[r].sum);
    __syncthreads();
    double sum = shared_sum, weight = args.weights[r];
    uint64_t target = args.block.targets[r];
    const float *logits = args.block.logits + r * args.block.count;
    T *d = (T *)args.d + r * args.d_stride;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        size_t w = first + (size_t)i * THREADS + threadIdx.x;
        if (w >= args.block.count) break;
        double below = (double)logits[w] - sum;
        double p = args.block.first + w == target ? expm1(below) : (double)expf((float)below);
        if (args.soft_cap != 0) {
            const float ratio = logits[w] / args.soft_cap;
            p *= (double)fmaf(-ratio, ratio, 1.0f);
        }
        d[w] = from_float<T>((float)(weight * p));
    }
}

int zest_backward_cuda_logits(const zest_logits_backward *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const size_t max_rows = 65535; /* of a launch: the second dimension of the grid */
    (void)threads;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_LOSS);
    for (size_t first = 0; first < args->block.rows; first += max_rows) {
        zest_logits_backward chunk = *args;
        size_t rows = args->block.rows - first < max_rows ? args->block.rows - first : max_rows;
        chunk.block.logits += first * args->block.count;
        chunk.block.targets += first;
        chunk.sums += first;
        chunk.weights += first;
        chunk.d = (void *)((char *)args->d + first * args->d_stride * cuda->base.element_size);
        dim3 grid(zest_cuda_blocks(args->block.count, THREADS * WIDTH), (unsigned)rows);
        ZEST_BACKWARD_DISPATCH(cuda->base.compute, T,
                               (logits_grad_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(chunk)));
        if (zest_cuda_launched(cuda, "computing the gradient of logits")) return -1;
    }
    return 0;
}
