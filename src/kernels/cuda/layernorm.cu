/* norm: gains and biases are made for all lanes first, then rows pass through registers. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };
enum { MOST = 1024, TOGETHER = 4 }; /* threads of a block, rows that it takes at a time */

struct norm_job {
    const void *x;
    void *out;
    const float *gain, *bias;       /* of lane 0, as the others; NULL: none */
    int64_t lane, x_lane, out_lane; /* from lane to lane: of gains and biases, of activations */
    size_t rows, width;
    float epsilon;
    int rms;
};

/* The sums over the block of one number a row; `part` is not used again before the next sync of the block. */
static __device__ __forceinline__ void sums_of_rows(float x[TOGETHER], float4 part[MOST / 32]) {
    unsigned warps = blockDim.x / 32;
#pragma unroll
    for (int r = 0; r < TOGETHER; r++) x[r] = warp_sum(x[r]);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = make_float4(x[0], x[1], x[2], x[3]);
    __syncthreads();
    x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll 4
    for (unsigned w = 0; w < warps; w++) {
        float4 more = part[w];
        x[0] += more.x, x[1] += more.y, x[2] += more.z, x[3] += more.w;
    }
}

/* A thread has eight columns, their gains and biases, and takes some rows at a time past them, as many as it
 * takes to keep the memory busy. */
template <class T>
static __global__ void __launch_bounds__(MOST) row_kernel(const __grid_constant__ norm_job job) {
    __shared__ float4 part[2][MOST / 32];
    const unsigned l = blockIdx.y, at = threadIdx.x * 8, width = (unsigned)job.width;
    const float each = 1.0f / (float)width;
    const bool there = at < width;
    float gain[8], bias[8], x[8];
#pragma unroll
    for (int j = 0; j < 8; j++) gain[j] = 1, bias[j] = 0;
    if (there && job.gain) load8(job.gain + l * job.lane + at, gain);
    if (there && job.bias) load8(job.bias + l * job.lane + at, bias);
    const T *from = (const T *)job.x + l * job.x_lane + at;
    T *to = (T *)job.out + l * job.out_lane + at;
    for (size_t m = blockIdx.x * (size_t)TOGETHER; m < job.rows; m += (size_t)gridDim.x * TOGETHER) {
        const int rows = there ? (int)min(job.rows - m, (size_t)TOGETHER) : 0; /* of this thread's */
        const size_t first = m * width;
        cells8<T> cells[TOGETHER];
        float mean[TOGETHER] = {0, 0, 0, 0}, square[TOGETHER] = {0, 0, 0, 0};
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
            if (r < rows) cells[r] = fetch8(from + first + r * width);
        if (!job.rms) {
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
                if (r < rows) {
                    widen8(cells[r], x);
#pragma unroll
                    for (int j = 0; j < 8; j++) mean[r] += x[j];
                }
            sums_of_rows(mean, part[0]);
#pragma unroll
            for (int r = 0; r < TOGETHER; r++) mean[r] *= each;
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
            if (r < rows) {
                widen8(cells[r], x);
#pragma unroll
                for (int j = 0; j < 8; j++) square[r] = fmaf(x[j] - mean[r], x[j] - mean[r], square[r]);
            }
        sums_of_rows(square, part[1]);
        if (job.rms) __syncthreads(); /* there was no other one since the part was read */
#pragma unroll
        for (int r = 0; r < TOGETHER; r++)
            if (r < rows) {
                const float scale = rsqrtf(fmaf(square[r], each, job.epsilon));
                widen8(cells[r], x);
#pragma unroll
                for (int j = 0; j < 8; j++) x[j] = fmaf((x[j] - mean[r]) * scale, gain[j], bias[j]);
                store8(to + first + r * width, x);
            }
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
    size_t threads = (job->width + 255) / 256 * 32;
    int aligned = (job->width | (size_t)job->x_lane | (size_t)job->out_lane) % 8 == 0 &&
                  ((uintptr_t)job->x | (uintptr_t)job->out) % 16 == 0;
    if (!aligned || threads > MOST) {
        any_kernel<T><<<dim3((unsigned)job->rows, (unsigned)lanes), THREADS, 0, cuda->stream>>>(*job);
        return;
    }
    size_t all = (job->rows + TOGETHER - 1) / TOGETHER;
    size_t room = ((size_t)cuda->processors * (MOST / threads) + (size_t)lanes - 1) / (size_t)lanes;
    dim3 grid((unsigned)(all < room ? all : room), (unsigned)lanes);
    row_kernel<T><<<grid, (unsigned)threads, 0, cuda->stream>>>(*job);
}

static int run(zest_cuda *cuda, const norm_job *job, int lanes) {
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_NORM);
    ZEST_CUDA_TYPED(cuda->base.compute, T, launch<T>(cuda, job, lanes));
    return zest_cuda_launched(cuda, "computing a norm");
}

zest_cuda_slot *zest_cuda_norm_vectors(zest_cuda *cuda, const zest_norm *job, const zest_perturbation *p,
                                       zest_gemm_norm *norm) {
    size_t lanes = zest_perturbation_lanes(p), count = 0;
    int64_t lane = (int64_t)((job->width + 63) / 64 * 64);
    zest_cuda_slot *slot =
        zest_cuda_slot_next(cuda, &cuda->norms, 0, 2 * lanes * (size_t)lane * sizeof(float));
    if (!slot) return NULL;
    float *gain = (float *)slot->vectors.data, *bias = gain + (int64_t)lanes * lane;
    zest_cuda_segment segments[2];
    if (job->gain.data) segments[count++] = zest_cuda_segment_of(&job->gain, p, gain, lane, ZEST_COMPUTE_F32);
    if (job->bias.data) segments[count++] = zest_cuda_segment_of(&job->bias, p, bias, lane, ZEST_COMPUTE_F32);
    norm->there = 1, norm->rms = job->rms;
    norm->gain = job->gain.data ? gain : NULL, norm->bias = job->bias.data ? bias : NULL;
    norm->lane = lane, norm->epsilon = job->epsilon;
    return zest_cuda_make(cuda, slot, segments, count, p) ? NULL : slot;
}

int zest_cuda_norm_result(zest_cuda *cuda, const zest_gemm *done) {
    const zest_gemm_norm *is = &done->norm;
    const norm_job work = {done->out,      done->out,  is->gain,      is->bias,    is->lane, done->out_lane,
                           done->out_lane, done->rows, done->outputs, is->epsilon, is->rms};
    return run(cuda, &work, done->batch);
}

int zest_cuda_norm(const zest_norm *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const zest_perturbation *p = &job->perturbation;
    (void)threads;
    if (!job->rows) return 0;
    size_t lanes = zest_perturbation_lanes(p), size = cuda->base.element_size;
    zest_gemm_norm is = {};
    zest_cuda_slot *slot = zest_cuda_norm_vectors(cuda, job, p, &is);
    if (!slot) return -1;
    const norm_job work = {job->x[0],
                           job->out[0],
                           is.gain,
                           is.bias,
                           is.lane,
                           lanes > 1 ? zest_cuda_apart(job->x[0], job->x[1], size) : 0,
                           lanes > 1 ? zest_cuda_apart(job->out[0], job->out[1], size) : 0,
                           job->rows,
                           job->width,
                           job->epsilon,
                           job->rms};
    return run(cuda, &work, (int)lanes) || zest_cuda_slot_used(cuda, slot);
}
