/* norm: gains and biases are made for all lanes first, then a warp takes a row into registers. */
#include "backend/cuda/cells.cuh"

enum { THREADS = 256, ROWS = THREADS / 32 };

struct norm_job {
    const void *x;
    void *out;
    const float *gain, *bias;       /* of lane 0, as the others; NULL: none */
    int64_t lane, x_lane, out_lane; /* from lane to lane: of gains and biases, of activations */
    size_t rows, width;
    float epsilon;
    int rms;
};

/* Rows of up to 256·VECTORS elements, in pieces of eight. */
template <class T, int VECTORS> static __global__ void __launch_bounds__(THREADS) row_kernel(norm_job job) {
    size_t m = blockIdx.x * (size_t)ROWS + threadIdx.x / 32;
    int l = (int)blockIdx.y, lane = (int)threadIdx.x % 32;
    if (m >= job.rows) return;
    const T *from = (const T *)job.x + l * job.x_lane + m * job.width;
    T *to = (T *)job.out + l * job.out_lane + m * job.width;
    const float *gain = job.gain ? job.gain + l * job.lane : NULL,
                *bias = job.bias ? job.bias + l * job.lane : NULL;
    float x[VECTORS][8], sum = 0, mean = 0, square = 0, width = (float)job.width;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        size_t at = (size_t)(v * 32 + lane) * 8;
        if (at < job.width)
            load8(from + at, x[v]);
        else
#pragma unroll
            for (int j = 0; j < 8; j++) x[v][j] = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) sum += x[v][j];
    }
    if (!job.rms) mean = warp_sum(sum) / width;
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        if ((size_t)(v * 32 + lane) * 8 < job.width)
#pragma unroll
            for (int j = 0; j < 8; j++) square = fmaf(x[v][j] - mean, x[v][j] - mean, square);
    float scale = 1.0f / sqrtf(warp_sum(square) / width + job.epsilon);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        size_t at = (size_t)(v * 32 + lane) * 8;
        if (at >= job.width) continue;
        float g[8], b[8];
        if (gain) load8(gain + at, g);
        if (bias) load8(bias + at, b);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float y = (x[v][j] - mean) * scale;
            if (gain) y *= g[j];
            x[v][j] = bias ? y + b[j] : y;
        }
        store8(to + at, x[v]);
    }
}

/* Any width and address: a block a row, which it reads three times. */
template <class T> static __global__ void __launch_bounds__(THREADS) any_kernel(norm_job job) {
    size_t m = blockIdx.x;
    int l = (int)blockIdx.y;
    const T *from = (const T *)job.x + l * job.x_lane + m * job.width;
    T *to = (T *)job.out + l * job.out_lane + m * job.width;
    float sum = 0, mean = 0, square = 0, width = (float)job.width;
    if (!job.rms) {
        for (size_t i = threadIdx.x; i < job.width; i += THREADS) sum += to_float(from[i]);
        mean = block_sum<THREADS>(sum) / width;
    }
    for (size_t i = threadIdx.x; i < job.width; i += THREADS) {
        float x = to_float(from[i]) - mean;
        square = fmaf(x, x, square);
    }
    float scale = 1.0f / sqrtf(block_sum<THREADS>(square) / width + job.epsilon);
    for (size_t i = threadIdx.x; i < job.width; i += THREADS) {
        float y = (to_float(from[i]) - mean) * scale;
        if (job.gain) y *= job.gain[l * job.lane + i];
        if (job.bias) y += job.bias[l * job.lane + i];
        to[i] = to_cell<T>(y);
    }
}

template <class T> static void launch(zest_cuda *cuda, const norm_job *job, int lanes) {
    size_t vectors = (job->width + 255) / 256;
    int aligned = (job->width | (size_t)job->x_lane | (size_t)job->out_lane) % 8 == 0 &&
                  ((uintptr_t)job->x | (uintptr_t)job->out) % 16 == 0;
    dim3 grid(zest_cuda_blocks(job->rows, ROWS), (unsigned)lanes);
#define ZEST_ROWS_OF(n) row_kernel<T, n><<<grid, THREADS, 0, cuda->stream>>>(*job)
    if (!aligned || vectors > 16)
        any_kernel<T><<<dim3((unsigned)job->rows, (unsigned)lanes), THREADS, 0, cuda->stream>>>(*job);
    else if (vectors <= 2)
        ZEST_ROWS_OF(2);
    else if (vectors <= 3)
        ZEST_ROWS_OF(3);
    else if (vectors <= 4)
        ZEST_ROWS_OF(4);
    else if (vectors <= 8)
        ZEST_ROWS_OF(8);
    else
        ZEST_ROWS_OF(16);
#undef ZEST_ROWS_OF
}

int zest_cuda_norm(const zest_norm *job, int threads, zest_scratch *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const zest_perturbation *p = &job->perturbation;
    (void)threads;
    if (!job->rows) return 0;
    size_t lanes = zest_perturbation_lanes(p), size = cuda->base.cell;
    int64_t lane = (int64_t)((job->width + 63) / 64 * 64);
    zest_cuda_slot *slot =
        zest_cuda_slot_next(cuda, &cuda->norms, 0, 2 * lanes * (size_t)lane * sizeof(float));
    if (!slot) return -1;
    float *gain = (float *)slot->vectors.data, *bias = gain + (int64_t)lanes * lane;
    zest_cuda_segment segments[2];
    size_t count = 0;
    if (job->gain.data) segments[count++] = zest_cuda_segment_of(&job->gain, p, gain, lane, ZEST_COMPUTE_F32);
    if (job->bias.data) segments[count++] = zest_cuda_segment_of(&job->bias, p, bias, lane, ZEST_COMPUTE_F32);
    if (zest_cuda_make(cuda, slot, segments, count, p)) return -1;
    norm_job work = {job->x[0],
                     job->out[0],
                     job->gain.data ? gain : NULL,
                     job->bias.data ? bias : NULL,
                     lane,
                     lanes > 1 ? zest_cuda_apart(job->x[0], job->x[1], size) : 0,
                     lanes > 1 ? zest_cuda_apart(job->out[0], job->out[1], size) : 0,
                     job->rows,
                     job->width,
                     job->epsilon,
                     job->rms};
    {
        zest_cuda_watch_one watch(cuda, ZEST_TIME_NORM);
        ZEST_CUDA_TYPED(cuda->base.compute, T, launch<T>(cuda, &work, (int)lanes));
    }
    return zest_cuda_launched(cuda, "a norm") || zest_cuda_slot_used(cuda, slot);
}
