/* Attention in fp32 arithmetic for any head size and address: what fp32 compute uses, and what the
 * tensor-core version leaves over. No matrix of scores in memory: a block takes 64 queries of a head past the
 * keys, 32 at a time, and keeps the running maximum, sum and result in registers. */
#include "kernels/cuda/attention.cuh"

enum { THREADS = 128, QUERIES = 64, KEYS = 32, PER = KEYS / 4, PAD = 4 };

/* Rows of a tile as floats; what is beyond the rows or the head is 0. */
template <class T, int SIZE>
static __device__ __forceinline__ void fetch(float *to, const T *from, size_t stride, unsigned rows,
                                             unsigned all, unsigned head_size) {
    for (unsigned i = threadIdx.x; i < all * SIZE; i += THREADS) {
        unsigned r = i / SIZE, d = i % SIZE;
        to[r * (SIZE + PAD) + d] = r < rows && d < head_size ? to_float(from[r * stride + d]) : 0.0f;
    }
}

/* Four threads share a query: thread i of them has keys i, i+4, ... of a tile and every fourth group of four
 * columns of the result. A thread has two queries, 32 apart. */
template <class T, int SIZE>
static __global__ void __launch_bounds__(THREADS)
    attention_kernel(const __grid_constant__ attention_job job) {
    extern __shared__ float shared[];
    float *sq = shared, *sk = sq + QUERIES * (SIZE + PAD), *sv = sk + KEYS * (SIZE + PAD);
    const int ROW = SIZE + PAD, COLUMNS = SIZE / 16; /* groups of four that a thread has */
    unsigned sequence = blockIdx.z / job.lanes, lane = blockIdx.z % job.lanes, head = blockIdx.y;
    unsigned q0 = job.q_start[sequence], queries = job.q_start[sequence + 1] - q0,
             tile = blockIdx.x * QUERIES;
    if (tile >= queries) return;
    unsigned k0 = job.kv_start[sequence],
             keys = (job.kv_end ? job.kv_end[sequence] : job.kv_start[sequence + 1]) - k0;
    unsigned past = keys - queries, here = min(queries - tile, (unsigned)QUERIES);
    const T *q = (const T *)job.q + lane * job.q_lane + (q0 + tile) * job.q_stride + head * job.head_size;
    size_t kv = lane * job.kv_lane + k0 * job.kv_stride + head / job.group * job.head_size;
    const T *k = (const T *)job.k + kv, *v = (const T *)job.v + kv;
    T *out = (T *)job.out + lane * job.out_lane + (q0 + tile) * job.out_stride + head * job.head_size;
    fetch<T, SIZE>(sq, q, job.q_stride, here, QUERIES, job.head_size);
    unsigned part = threadIdx.x % 4, row = threadIdx.x / 4;
    float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, result[2][COLUMNS][4];
#pragma unroll
    for (int i = 0; i < 2 * COLUMNS * 4; i++) (&result[0][0][0])[i] = 0;
    unsigned seen = job.causal ? min(keys, past + tile + here) : keys;
    for (unsigned first = 0; first < seen; first += KEYS) {
        unsigned rows = min(keys - first, (unsigned)KEYS);
        __syncthreads();
        fetch<T, SIZE>(sk, k + first * job.kv_stride, job.kv_stride, rows, KEYS, job.head_size);
        fetch<T, SIZE>(sv, v + first * job.kv_stride, job.kv_stride, rows, KEYS, job.head_size);
        __syncthreads();
        float s[2][PER];
#pragma unroll
        for (int i = 0; i < 2 * PER; i++) (&s[0][0])[i] = 0;
        for (int d = 0; d < SIZE; d += 4) {
            float4 a = *(const float4 *)(sq + row * ROW + d),
                   b = *(const float4 *)(sq + (row + 32) * ROW + d);
#pragma unroll
            for (int j = 0; j < PER; j++) {
                float4 x = *(const float4 *)(sk + (part + 4 * j) * ROW + d);
                s[0][j] = fmaf(a.x, x.x, fmaf(a.y, x.y, fmaf(a.z, x.z, fmaf(a.w, x.w, s[0][j]))));
                s[1][j] = fmaf(b.x, x.x, fmaf(b.y, x.y, fmaf(b.z, x.z, fmaf(b.w, x.w, s[1][j]))));
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned limit = job.causal ? min(keys, past + tile + row + 32 * i + 1) : keys;
            float top = most[i], add = 0;
#pragma unroll
            for (int j = 0; j < PER; j++) {
                s[i][j] = first + part + 4 * j < limit ? s[i][j] * job.scale : -INFINITY;
                top = fmaxf(top, s[i][j]);
            }
            top = most_of_four(top);
            float safe = top == -INFINITY ? 0.0f : top, shrink = exp2f(most[i] - safe);
            most[i] = top;
#pragma unroll
            for (int j = 0; j < PER; j++) add += s[i][j] = exp2f(s[i][j] - safe);
            sum[i] = fmaf(sum[i], shrink, add);
#pragma unroll
            for (int c = 0; c < COLUMNS * 4; c++) (&result[i][0][0])[c] *= shrink;
        }
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            float a = __shfl_sync(0xffffffffu, s[0][j / 4], j % 4, 4),
                  b = __shfl_sync(0xffffffffu, s[1][j / 4], j % 4, 4);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                float4 x = *(const float4 *)(sv + j * ROW + (c * 4 + part) * 4);
                float *r = result[0][c], *t = result[1][c];
                r[0] = fmaf(a, x.x, r[0]), r[1] = fmaf(a, x.y, r[1]), r[2] = fmaf(a, x.z, r[2]),
                r[3] = fmaf(a, x.w, r[3]);
                t[0] = fmaf(b, x.x, t[0]), t[1] = fmaf(b, x.y, t[1]), t[2] = fmaf(b, x.z, t[2]),
                t[3] = fmaf(b, x.w, t[3]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = sum_of_four(sum[i]);
        if (row + 32 * i >= here) continue;
        float inverse = 1.0f / all;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unsigned d = (c * 4 + part) * 4 + j;
                if (d < job.head_size)
                    out[(row + 32 * i) * job.out_stride + d] = to_cell<T>(result[i][c][j] * inverse);
            }
    }
}

template <class T, int SIZE> static int launch(zest_cuda *cuda, const attention_job *job, dim3 grid) {
    size_t bytes = (QUERIES + 2 * KEYS) * (SIZE + PAD) * sizeof(float);
    if (zest_cuda_shared(cuda, (const void *)attention_kernel<T, SIZE>, bytes, "computing attention"))
        return -1;
    attention_kernel<T, SIZE><<<grid, THREADS, bytes, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "computing attention");
}

template <class T> static int choose(zest_cuda *cuda, const attention_job *job, dim3 grid) {
    if (job->head_size <= 32) return launch<T, 32>(cuda, job, grid);
    if (job->head_size <= 64) return launch<T, 64>(cuda, job, grid);
    if (job->head_size <= 128) return launch<T, 128>(cuda, job, grid);
    return launch<T, 256>(cuda, job, grid);
}

int zest_cuda_attention(const zest_attention *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!job->sequences || !job->max_queries || !job->lanes) return 0;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ATTENTION);
    int done = zest_cuda_attention_hopper(cuda, job);
    if (done > 0) done = zest_cuda_attention_mma(cuda, job);
    if (done > 0) done = zest_cuda_attention_wide(cuda, job);
    if (done <= 0) return done;
    if (job->head_dim > 256)
        return zest_cuda_unsupported(cuda, "attention takes heads of at most 256 elements");
    return attention_launches(job, QUERIES, [&](const attention_job *some, dim3 grid) {
        int bad = 0;
        ZEST_CUDA_TYPED(cuda->base.compute, T, bad = choose<T>(cuda, some, grid));
        return bad;
    });
}
