/* Norms: rows into registers, and what they add to the gradients of gain and bias is summed by blocks, then
 * over the blocks. The formulas are those of ../norm_backward.c. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256 };

struct norm_back_job {
    const void *x, *dy;
    void *dx;
    zest_weight gain; /* data NULL: ones */
    zest_perturbation at;
    int moves, add, rms;
    float epsilon;
    size_t rows, width;
    float *partial; /* of each block: gain's, then bias's; NULL: not wanted */
};

static __device__ __forceinline__ float gain_at(const norm_back_job &job, size_t i) {
    if (!job.gain.data) return 1.0f;
    float w = load_weight(job.gain.data, job.gain.dtype, i);
    return job.moves ? __fmaf_rn(job.at.scale[0], noise1(job.at.seed, job.at.signs, job.gain.first + i), w)
                     : w;
}

/* Sum over the threads of a row. */
template <int ROW> static __device__ __forceinline__ float row_sum(float x) {
    return ROW == 32 ? warp_sum(x) : block_sum<THREADS>(x);
}

/* ROW threads a row (a warp or the block), in pieces of eight elements: width at most 8·ROW·VECTORS. */
template <class T, int ROW, int VECTORS>
static __global__ void __launch_bounds__(THREADS) rows_kernel(const __grid_constant__ norm_back_job job) {
    extern __shared__ uint4 norm_shared[];
    const int ROWS = THREADS / ROW;
    float *gains = (float *)norm_shared,
          *sums = gains + job.width; /* the latter when there are several rows */
    int lane = (int)threadIdx.x % ROW, slot = (int)threadIdx.x / ROW;
    float d_gain[VECTORS][8], d_bias[VECTORS][8], width = (float)job.width;
#pragma unroll
    for (int i = 0; i < VECTORS * 8; i++) (&d_gain[0][0])[i] = (&d_bias[0][0])[i] = 0;
    for (size_t i = threadIdx.x; i < job.width; i += THREADS) gains[i] = gain_at(job, i);
    __syncthreads();
    for (size_t row = (size_t)blockIdx.x * ROWS + (size_t)slot; row < job.rows;
         row += (size_t)gridDim.x * ROWS) {
        const T *x = (const T *)job.x + row * job.width, *dy = (const T *)job.dy + row * job.width;
        T *dx = (T *)job.dx + row * job.width;
        float h[VECTORS][8], d[VECTORS][8], sum = 0, mean = 0, square = 0, ones = 0, along = 0;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
#pragma unroll
            for (int j = 0; j < 8; j++) h[v][j] = d[v][j] = 0;
            if (at < job.width) {
                load8(x + at, h[v]);
                load8(dy + at, d[v]);
            }
#pragma unroll
            for (int j = 0; j < 8; j++) sum += h[v][j];
        }
        if (!job.rms) mean = row_sum<ROW>(sum) / width;
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                h[v][j] = (size_t)(v * ROW + lane) * 8 < job.width ? h[v][j] - mean : 0.0f;
                square = fmaf(h[v][j], h[v][j], square);
            }
        float scale = 1.0f / sqrtf(row_sum<ROW>(square) / width + job.epsilon);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
            if (at >= job.width) continue;
            float gain[8];
            load8(gains + at, gain);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                h[v][j] *= scale;
                d_gain[v][j] = fmaf(d[v][j], h[v][j], d_gain[v][j]);
                d_bias[v][j] += d[v][j];
                d[v][j] *= gain[j];
                ones += d[v][j];
                along = fmaf(d[v][j], h[v][j], along);
            }
        }
        float first = job.rms ? 0.0f : row_sum<ROW>(ones) / width, second = row_sum<ROW>(along) / width;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
            if (at >= job.width) continue;
            float old[8];
            if (job.add) load8(dx + at, old);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float y = fmaf(-second, h[v][j], d[v][j] - first) * scale;
                h[v][j] = job.add ? old[j] + y : y;
            }
            store8(dx + at, h[v]);
        }
    }
    if (!job.partial) return;
    float *to = job.partial + blockIdx.x * 2 * job.width;
    for (int s = 0; s < ROWS; s++) { /* the rows of a block one after the other */
        if (ROWS > 1) __syncthreads();
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
            if (slot != s || at >= job.width) continue;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float *g = (ROWS > 1 && s + 1 < ROWS ? sums : to) + at + j, *b = g + job.width;
                *g = s ? sums[at + j] + d_gain[v][j] : d_gain[v][j];
                *b = s ? sums[job.width + at + j] + d_bias[v][j] : d_bias[v][j];
            }
        }
    }
}

/* Any width and address: a block a row, which it reads four times; its sums stand in `partial`. */
template <class T>
static __global__ void __launch_bounds__(THREADS) any_kernel(const __grid_constant__ norm_back_job job) {
    float *g = job.partial ? job.partial + blockIdx.x * 2 * job.width : NULL, width = (float)job.width;
    for (size_t i = threadIdx.x; g && i < job.width; i += THREADS) g[i] = g[job.width + i] = 0;
    for (size_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const T *x = (const T *)job.x + row * job.width, *dy = (const T *)job.dy + row * job.width;
        T *dx = (T *)job.dx + row * job.width;
        float mean = 0, sum = 0, square = 0, ones = 0, along = 0;
        for (size_t i = threadIdx.x; i < job.width; i += THREADS) sum += to_float(x[i]);
        if (!job.rms) mean = block_sum<THREADS>(sum) / width;
        for (size_t i = threadIdx.x; i < job.width; i += THREADS)
            square = fmaf(to_float(x[i]) - mean, to_float(x[i]) - mean, square);
        float scale = 1.0f / sqrtf(block_sum<THREADS>(square) / width + job.epsilon);
        for (size_t i = threadIdx.x; i < job.width; i += THREADS) {
            float h = (to_float(x[i]) - mean) * scale, d = to_float(dy[i]), e = d * gain_at(job, i);
            ones += e;
            along = fmaf(e, h, along);
            if (g) g[i] = fmaf(d, h, g[i]), g[job.width + i] += d;
        }
        float first = job.rms ? 0.0f : block_sum<THREADS>(ones) / width,
              second = block_sum<THREADS>(along) / width;
        for (size_t i = threadIdx.x; i < job.width; i += THREADS) {
            float h = (to_float(x[i]) - mean) * scale, e = to_float(dy[i]) * gain_at(job, i);
            float y = fmaf(-second, h, e - first) * scale;
            dx[i] = to_cell<T>(job.add ? to_float(dx[i]) + y : y);
        }
    }
}

/* ---- Choosing one ---- */

static int aligned(const norm_back_job *job) {
    return job->width % 8 == 0 && ((uintptr_t)job->x | (uintptr_t)job->dy | (uintptr_t)job->dx) % 16 == 0 &&
           job->width <= 8192;
}

template <class T> static void launch(zest_cuda *cuda, const norm_back_job *job, unsigned blocks) {
    size_t gains = job->width * sizeof(float);
#define ZEST_ROWS_OF(row, n) \
    rows_kernel<T, row, n><<<blocks, THREADS, (row == 32 ? 3 : 1) * gains, cuda->stream>>>(*job)
    if (!aligned(job))
        any_kernel<T><<<blocks, THREADS, 0, cuda->stream>>>(*job);
    else if (job->width <= 256)
        ZEST_ROWS_OF(32, 1);
    else if (job->width <= 512)
        ZEST_ROWS_OF(32, 2);
    else if (job->width <= 768)
        ZEST_ROWS_OF(32, 3);
    else if (job->width <= 1024)
        ZEST_ROWS_OF(32, 4);
    else if (job->width <= 2048)
        ZEST_ROWS_OF(256, 1);
    else if (job->width <= 4096)
        ZEST_ROWS_OF(256, 2);
    else
        ZEST_ROWS_OF(256, 4);
#undef ZEST_ROWS_OF
}

int zest_backward_cuda_norm(const zest_norm_backward *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!job->rows) return 0;
    norm_back_job work = {job->x,      job->dy,           job->dx,
                          job->stored, job->perturbation, zest_cuda_moves(&job->stored, &job->perturbation),
                          job->add,    job->rms,          job->epsilon,
                          job->rows,   job->width,        NULL};
    size_t rows_each = aligned(&work) && job->width <= 1024 ? THREADS / 32 : 1;
    size_t most = (size_t)cuda->processors * 2, blocks = (job->rows + rows_each - 1) / rows_each;
    if (blocks > most) blocks = most;
    if (job->d_gain || job->d_bias) {
        if (zest_cuda_reserve(cuda, &cuda->scratch, blocks * 2 * job->width * sizeof(float))) return -1;
        work.partial = (float *)cuda->scratch.data;
    }
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_NORM);
    ZEST_BACKWARD_TYPED(cuda->base.compute, T, launch<T>(cuda, &work, (unsigned)blocks));
    if (zest_cuda_launched(cuda, "computing the gradient of a norm")) return -1;
    return work.partial ? zest_backward_cuda_finish_columns(cuda, work.partial, blocks, job->d_gain,
                                                            job->width, job->d_bias, job->width)
                        : 0;
}
