/* Attention's gradients in fp32 arithmetic for any head size up to 256 and any address: what fp32 compute
 * uses, and what the tensor-core version (attention_backward_mma.cu, which says how) leaves over. A block has
 * 32 rows of its own (queries, or keys) and goes past the others 32 at a time; eight threads share a row. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, TILE = 32, SHARE = 8, PER = TILE / SHARE, PAD = 4 };

/* Rows of a tile as floats; what is beyond the rows or the head is 0. */
template <class T, int SIZE>
static __device__ __forceinline__ void fetch(float *to, const T *from, size_t stride, unsigned rows,
                                             unsigned head_size) {
    for (unsigned i = threadIdx.x; i < TILE * SIZE; i += THREADS) {
        unsigned r = i / SIZE, d = i % SIZE;
        to[r * (SIZE + PAD) + d] = r < rows && d < head_size ? to_float(from[r * stride + d]) : 0.0f;
    }
}

/* A row's products with rows part, part + 8, ... of a tile. */
template <int SIZE>
static __device__ __forceinline__ void scores(float s[PER], const float *row, const float *tile,
                                              unsigned part) {
#pragma unroll
    for (int j = 0; j < PER; j++) s[j] = 0;
    for (int d = 0; d < SIZE; d += 4) {
        float4 a = *(const float4 *)(row + d);
#pragma unroll
        for (int j = 0; j < PER; j++) {
            float4 x = *(const float4 *)(tile + (part + SHARE * j) * (SIZE + PAD) + d);
            s[j] = fmaf(a.x, x.x, fmaf(a.y, x.y, fmaf(a.z, x.z, fmaf(a.w, x.w, s[j]))));
        }
    }
}

/* result += the weights of a row, which its eight threads hold, times the tile's rows: a thread has every
 * eighth group of four columns. */
template <int SIZE>
static __device__ __forceinline__ void gather(float result[SIZE / 32][4], const float w[PER],
                                              const float *tile, unsigned part) {
#pragma unroll
    for (int j = 0; j < TILE; j++) {
        float a = __shfl_sync(0xffffffffu, w[j / SHARE], j % SHARE, SHARE);
#pragma unroll
        for (int c = 0; c < SIZE / 32; c++) {
            float4 x = *(const float4 *)(tile + j * (SIZE + PAD) + (c * SHARE + (int)part) * 4);
            result[c][0] = fmaf(a, x.x, result[c][0]), result[c][1] = fmaf(a, x.y, result[c][1]);
            result[c][2] = fmaf(a, x.z, result[c][2]), result[c][3] = fmaf(a, x.w, result[c][3]);
        }
    }
}

template <class T, int SIZE>
static __device__ __forceinline__ void store_row(T *to, const float result[SIZE / 32][4], unsigned part,
                                                 unsigned columns) {
#pragma unroll
    for (int c = 0; c < SIZE / 32; c++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned d = (c * SHARE + part) * 4 + j;
            if (d < columns) to[d] = to_cell<T>(result[c][j]);
        }
}

template <class F> static __device__ __forceinline__ float over_row(float x, F f) {
#pragma unroll
    for (int step = 1; step < SHARE; step *= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

static __device__ __forceinline__ float row_sum(float x) {
    return over_row(x, [](float a, float b) { return a + b; });
}

/* ---- Queries ---- */

template <class T, int SIZE, bool FORWARD>
static __global__ void __launch_bounds__(THREADS)
    queries_kernel(const __grid_constant__ attention_back_job job) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD;
    float *sq = (float *)shared_raw, *sd = sq + TILE * ROW, *sk = sd + TILE * ROW, *sv = sk + TILE * ROW;
    unsigned sequence = blockIdx.z, head = blockIdx.y, tile = blockIdx.x * TILE;
    unsigned q0 = job.q_start[sequence], queries = job.q_start[sequence + 1] - q0;
    if (tile >= queries) return;
    unsigned k0 = job.kv_start[sequence], keys = job.kv_start[sequence + 1] - k0, past = keys - queries;
    unsigned here = min(queries - tile, (unsigned)TILE), part = threadIdx.x % SHARE,
             row = threadIdx.x / SHARE;
    size_t row0 = q0 + tile, at = head * job.head_size;
    size_t kv = k0 * job.kv_stride + head / job.group * job.head_size;
    const T *k = (const T *)job.k + kv, *v = (const T *)job.v + kv;
    fetch<T, SIZE>(sq, (const T *)job.q + row0 * job.q_stride + at, job.q_stride, here, job.head_size);
    if (!FORWARD)
        fetch<T, SIZE>(sd, (const T *)job.d_out + row0 * job.out_stride + at, job.out_stride, here,
                       job.head_size);
    unsigned limit = job.causal ? min(keys, past + tile + row + 1) : keys;
    unsigned seen = job.causal ? min(keys, past + tile + here) : keys;
    uint64_t element = ((row0 + row) * job.heads + head) * job.longest;
    float result[SIZE / 32][4], most = -INFINITY, sum = 0, dot = 0;
#pragma unroll
    for (int i = 0; i < SIZE / 32 * 4; i++) (&result[0][0])[i] = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (unsigned first = 0; first < seen; first += TILE) {
            unsigned rows = min(keys - first, (unsigned)TILE);
            __syncthreads(); /* the tile before is no longer read */
            fetch<T, SIZE>(sk, k + first * job.kv_stride, job.kv_stride, rows, job.head_size);
            fetch<T, SIZE>(sv, v + first * job.kv_stride, job.kv_stride, rows, job.head_size);
            __syncthreads();
            float s[PER], dp[PER], top = most, add = 0, add_dot = 0;
            scores<SIZE>(s, sq + row * ROW, sk, part);
            if (!FORWARD) scores<SIZE>(dp, sd + row * ROW, sv, part);
#pragma unroll
            for (int j = 0; j < PER; j++) {
                unsigned key = first + part + SHARE * j;
                s[j] = key < limit ? s[j] * job.scale : -INFINITY;
                top = fmaxf(top, s[j]);
                if (!FORWARD && job.mask.threshold) dp[j] *= mask1(job.mask, element + key);
            }
            if (!turn) {
                top = over_row(top, [](float a, float b) { return fmaxf(a, b); });
                float safe = top == -INFINITY ? 0.0f : top, shrink = expf(most - safe);
                most = top;
#pragma unroll
                for (int j = 0; j < PER; j++) {
                    float e = expf(s[j] - safe);
                    add += e;
                    if (!FORWARD) add_dot = fmaf(e, dp[j], add_dot);
                }
                sum = fmaf(sum, shrink, add);
                if (!FORWARD) dot = fmaf(dot, shrink, add_dot);
                continue;
            }
#pragma unroll
            for (int j = 0; j < PER; j++) { /* sum: the logarithm of the sum of exponentials by now */
                float p = expf(s[j] - sum);
                if (!FORWARD)
                    s[j] = p * (dp[j] - dot) * job.scale;
                else
                    s[j] = job.mask.threshold ? p * mask1(job.mask, element + first + part + SHARE * j) : p;
            }
            gather<SIZE>(result, s, FORWARD ? sv : sk, part);
        }
        if (turn) break;
        float all = row_sum(sum), products = row_sum(dot);
        sum = most + logf(all);
        dot = products / all;
        if (!FORWARD && part == 0 && row < here)
            job.stats[(row0 + row) * job.heads + head] = make_float2(sum, dot);
    }
    if (row >= here) return;
    T *to = FORWARD ? (T *)job.out + (row0 + row) * job.out_stride + at
                    : (T *)job.dq + (row0 + row) * job.q_stride + at;
    store_row<T, SIZE>(to, result, part, job.head_size);
}

/* ---- Keys ---- */

template <class T, int SIZE>
static __global__ void __launch_bounds__(THREADS)
    keys_kernel(const __grid_constant__ attention_back_job job) {
    extern __shared__ uint4 shared_raw[];
    __shared__ float2 stats[TILE];
    const int ROW = SIZE + PAD;
    float *sk = (float *)shared_raw, *sv = sk + TILE * ROW, *sq = sv + TILE * ROW, *sd = sq + TILE * ROW;
    unsigned sequence = blockIdx.z, kv_head = blockIdx.y, tile = blockIdx.x * TILE;
    unsigned q0 = job.q_start[sequence], queries = job.q_start[sequence + 1] - q0;
    unsigned k0 = job.kv_start[sequence], keys = job.kv_start[sequence + 1] - k0, past = keys - queries;
    if (tile >= keys) return;
    unsigned here = min(keys - tile, (unsigned)TILE), part = threadIdx.x % SHARE, row = threadIdx.x / SHARE,
             key = tile + row;
    size_t kv = (size_t)(k0 + tile) * job.kv_stride + kv_head * job.head_size;
    fetch<T, SIZE>(sk, (const T *)job.k + kv, job.kv_stride, here, job.head_size);
    fetch<T, SIZE>(sv, (const T *)job.v + kv, job.kv_stride, here, job.head_size);
    float dk[SIZE / 32][4], dv[SIZE / 32][4];
#pragma unroll
    for (int i = 0; i < SIZE / 32 * 4; i++) (&dk[0][0])[i] = (&dv[0][0])[i] = 0;
    unsigned begin = job.causal && tile > past ? (tile - past) / TILE * TILE : 0; /* who sees them first */
    for (unsigned head = kv_head * job.group; head < (kv_head + 1) * job.group; head++)
        for (unsigned first = begin; first < queries; first += TILE) {
            unsigned rows = min(queries - first, (unsigned)TILE);
            size_t row0 = q0 + first, at = head * job.head_size;
            __syncthreads(); /* the tile before is no longer read */
            fetch<T, SIZE>(sq, (const T *)job.q + row0 * job.q_stride + at, job.q_stride, rows,
                           job.head_size);
            fetch<T, SIZE>(sd, (const T *)job.d_out + row0 * job.out_stride + at, job.out_stride, rows,
                           job.head_size);
            if (threadIdx.x < TILE)
                stats[threadIdx.x] = threadIdx.x < rows ? job.stats[(row0 + threadIdx.x) * job.heads + head]
                                                        : make_float2(0, 0);
            __syncthreads();
            float s[PER], dp[PER];
            scores<SIZE>(s, sk + row * ROW, sq, part);
            scores<SIZE>(dp, sv + row * ROW, sd, part);
#pragma unroll
            for (int j = 0; j < PER; j++) {
                unsigned query = part + SHARE * j;
                float2 of = stats[query];
                int visible = query < rows && key < keys && (!job.causal || key <= past + first + query);
                float p = visible ? expf(fmaf(s[j], job.scale, -of.x)) : 0.0f, m = 1;
                if (job.mask.threshold)
                    m = mask1(job.mask, ((row0 + query) * job.heads + head) * job.longest + key);
                s[j] = p * m;
                dp[j] = p * (dp[j] * m - of.y) * job.scale;
            }
            gather<SIZE>(dv, s, sd, part);
            gather<SIZE>(dk, dp, sq, part);
        }
    if (row >= here) return;
    store_row<T, SIZE>((T *)job.dk + kv + row * job.kv_stride, dk, part, job.head_size);
    store_row<T, SIZE>((T *)job.dv + kv + row * job.kv_stride, dv, part, job.head_size);
}

/* ---- Choosing ---- */

struct plain_grid {
    dim3 queries, keys;
};

template <class T, int SIZE>
static int launch(zest_cuda *cuda, const attention_back_job *job, const plain_grid *of, int forward) {
    const size_t bytes = 4 * TILE * (SIZE + PAD) * sizeof(float);
    if (forward)
        return attention_back_run(cuda, queries_kernel<T, SIZE, true>, job, of->queries, THREADS, bytes);
    return attention_back_run(cuda, queries_kernel<T, SIZE, false>, job, of->queries, THREADS, bytes) ||
           attention_back_run(cuda, keys_kernel<T, SIZE>, job, of->keys, THREADS, bytes);
}

template <class T>
static int choose(zest_cuda *cuda, const attention_back_job *job, const plain_grid *of, int forward) {
    if (job->head_size <= 32) return launch<T, 32>(cuda, job, of, forward);
    if (job->head_size <= 64) return launch<T, 64>(cuda, job, of, forward);
    if (job->head_size <= 128) return launch<T, 128>(cuda, job, of, forward);
    return launch<T, 256>(cuda, job, of, forward);
}

static int attend_plainly(zest_cuda *cuda, const zest_attention_backward *job, int forward, float2 *stats) {
    const zest_attention *a = &job->forward;
    return attention_back_launches(job, stats, [&](const attention_back_job *some, unsigned sequences) {
        plain_grid grid = {dim3(zest_cuda_blocks(a->max_queries, TILE), (unsigned)a->heads, sequences),
                           dim3(zest_cuda_blocks(job->keys, TILE), (unsigned)a->kv_heads, sequences)};
        int bad = 0;
        ZEST_BACKWARD_TYPED(cuda->base.compute, T, bad = choose<T>(cuda, some, &grid, forward));
        return bad;
    });
}

static int attend(const zest_attention_backward *job, int forward, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const zest_attention *a = &job->forward;
    if (!a->sequences || !a->max_queries || !job->rows) return 0;
    if (a->head_dim > 256)
        return zest_cuda_unsupported(cuda, "attention takes heads of at most 256 elements");
    if (!forward && zest_cuda_reserve(cuda, &cuda->scratch, job->rows * a->heads * sizeof(float2))) return -1;
    float2 *stats = (float2 *)cuda->scratch.data;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ATTENTION);
    int done = zest_backward_cuda_attention_mma(cuda, job, forward, stats);
    return done <= 0 ? done : attend_plainly(cuda, job, forward, stats);
}

int zest_backward_cuda_attention(const zest_attention_backward *job, int threads, zest_workspace *scratch) {
    (void)threads;
    return attend(job, 0, scratch);
}

int zest_backward_cuda_attention_masked(const zest_attention_backward *job, int threads,
                                        zest_workspace *scratch) {
    (void)threads;
    return attend(job, 1, scratch);
}
