/* From the gradient by logits back: of a few words, and of a block of the vocabulary. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, EACH = 4 };

/* ---- A few words ---- */

/* A block an item: d = by rows. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    features_kernel(const __grid_constant__ zest_words_backward job) {
    size_t i = blockIdx.x;
    const T *rows = (const T *)job.rows;
    T *d = (T *)job.d + i * job.width;
    for (size_t c = threadIdx.x; c < job.width; c += THREADS) {
        float sum = 0;
        for (size_t w = 0; w < job.count; w++)
            sum = fmaf(job.by[i * job.count + w], to_float(rows[w * job.width + c]), sum);
        d[c] = to_cell<T>(sum);
    }
}

/* A thread a column of a word's row. A word that stands in the list twice is done where it comes first. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    head_kernel(const __grid_constant__ zest_words_backward job) {
    size_t c = blockIdx.y * (size_t)THREADS + threadIdx.x, w = blockIdx.x;
    uint32_t word = job.words[w];
    const T *features = (const T *)job.features;
    for (size_t earlier = 0; earlier < w; earlier++)
        if (job.words[earlier] == word) return;
    if (job.d_weight && c < job.width) {
        float sum = job.d_weight[word * job.width + c];
#pragma unroll 4
        for (size_t i = 0; i < job.items; i++) {
            float feature = to_float(features[i * job.width + c]);
            for (size_t v = w; v < job.count; v++)
                if (job.words[v] == word) sum = fmaf(job.by[i * job.count + v], feature, sum);
        }
        job.d_weight[word * job.width + c] = sum;
    }
    if (job.d_bias && c == 0) {
        float sum = job.d_bias[word];
        for (size_t i = 0; i < job.items; i++)
            for (size_t v = w; v < job.count; v++)
                if (job.words[v] == word) sum += job.by[i * job.count + v];
        job.d_bias[word] = sum;
    }
}

template <class T> static int words(zest_cuda *cuda, const zest_words_backward *job) {
    dim3 grid((unsigned)job->count, zest_cuda_blocks(job->width, THREADS));
    features_kernel<T><<<(unsigned)job->items, THREADS, 0, cuda->stream>>>(*job);
    if (zest_cuda_launched(cuda, "computing the gradient of label logits")) return -1;
    if (!job->d_weight && !job->d_bias) return 0;
    head_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "computing the gradient of label logits");
}

int zest_backward_cuda_words(const zest_words_backward *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    int failed = 0;
    (void)threads;
    if (!job->items || !job->count) return 0;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_LOSS);
    ZEST_BACKWARD_TYPED(cuda->base.compute, T, failed = words<T>(cuda, job));
    return failed;
}

/* ---- The whole vocabulary ---- */

/* p - 1 of the target without cancellation; the others to float's precision. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    logits_kernel(const __grid_constant__ zest_logits_backward job) {
    __shared__ double shared_sum;
    size_t r = blockIdx.y, first = (size_t)blockIdx.x * (THREADS * EACH);
    if (threadIdx.x == 0) shared_sum = job.sums[r].max + log(job.sums[r].sum);
    __syncthreads();
    double sum = shared_sum, weight = job.weights[r];
    uint64_t target = job.block.targets[r];
    const float *logits = job.block.logits + r * job.block.count;
    T *d = (T *)job.d + r * job.d_stride;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        size_t w = first + (size_t)i * THREADS + threadIdx.x;
        if (w >= job.block.count) break;
        double below = (double)logits[w] - sum;
        double p = job.block.first + w == target ? expm1(below) : (double)expf((float)below);
        d[w] = to_cell<T>((float)(weight * p));
    }
}

int zest_backward_cuda_logits(const zest_logits_backward *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const size_t most = 65535; /* rows of a launch, by the blocks of the second dimension */
    (void)threads;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_LOSS);
    for (size_t first = 0; first < job->block.rows; first += most) {
        zest_logits_backward some = *job;
        size_t rows = job->block.rows - first < most ? job->block.rows - first : most;
        some.block.logits += first * job->block.count;
        some.block.targets += first;
        some.sums += first;
        some.weights += first;
        some.d = (void *)((char *)job->d + first * job->d_stride * cuda->base.element_size);
        dim3 grid(zest_cuda_blocks(job->block.count, THREADS * EACH), (unsigned)rows);
        ZEST_BACKWARD_TYPED(cuda->base.compute, T,
                            (logits_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(some)));
        if (zest_cuda_launched(cuda, "computing the gradient of logits")) return -1;
    }
    return 0;
}
