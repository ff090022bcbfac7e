/* Gradients of attention on CUDA cores in fp32, head dimensions up to 256, any alignment: for fp32 compute,
 * and for what the tensor-core kernels (attention_backward_mma.cu, which explains the two kernels) do not
 * support. A block has 32 rows of its own, queries or keys, and loops over tiles of 32 of the others; eight
 * threads share a row. Also the entry points, which pick the kernel. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, TILE = 32, ROW_THREADS = 8, KEYS_PER_THREAD = TILE / ROW_THREADS, PAD = 4 };

/* A tile (TILE, SIZE) of a matrix (rows, head_dim) as floats; beyond it zeros. */
template <class T, int SIZE>
static __device__ __forceinline__ void load_tile(float *to, const T *from, size_t stride, unsigned rows,
                                                 unsigned head_dim) {
    for (unsigned i = threadIdx.x; i < TILE * SIZE; i += THREADS) {
        unsigned r = i / SIZE, d = i % SIZE;
        to[r * (SIZE + PAD) + d] = r < rows && d < head_dim ? to_float(from[r * stride + d]) : 0.0f;
    }
}

/* Dot products of a row with rows lane_in_row, lane_in_row + 8, ... of a tile. */
template <int SIZE>
static __device__ __forceinline__ void dot_rows(float s[KEYS_PER_THREAD], const float *row, const float *tile,
                                                unsigned lane_in_row) {
#pragma unroll
    for (int j = 0; j < KEYS_PER_THREAD; j++) s[j] = 0;
    for (int d = 0; d < SIZE; d += 4) {
        float4 a = *(const float4 *)(row + d);
#pragma unroll
        for (int j = 0; j < KEYS_PER_THREAD; j++) {
            float4 x = *(const float4 *)(tile + (lane_in_row + ROW_THREADS * j) * (SIZE + PAD) + d);
            s[j] = fmaf(a.x, x.x, fmaf(a.y, x.y, fmaf(a.z, x.z, fmaf(a.w, x.w, s[j]))));
        }
    }
}

/* acc += w tile: w (TILE) is distributed over the eight threads of a row, and a thread has every eighth group
 * of four columns of acc. */
template <int SIZE>
static __device__ __forceinline__ void accumulate(float acc[SIZE / 32][4], const float w[KEYS_PER_THREAD],
                                                  const float *tile, unsigned lane_in_row) {
#pragma unroll
    for (int j = 0; j < TILE; j++) {
        float a = __shfl_sync(0xffffffffu, w[j / ROW_THREADS], j % ROW_THREADS, ROW_THREADS);
#pragma unroll
        for (int c = 0; c < SIZE / 32; c++) {
            float4 x = *(const float4 *)(tile + j * (SIZE + PAD) + (c * ROW_THREADS + (int)lane_in_row) * 4);
            acc[c][0] = fmaf(a, x.x, acc[c][0]), acc[c][1] = fmaf(a, x.y, acc[c][1]);
            acc[c][2] = fmaf(a, x.z, acc[c][2]), acc[c][3] = fmaf(a, x.w, acc[c][3]);
        }
    }
}

template <class T, int SIZE>
static __device__ __forceinline__ void store_row(T *to, const float acc[SIZE / 32][4], unsigned lane_in_row,
                                                 unsigned columns) {
#pragma unroll
    for (int c = 0; c < SIZE / 32; c++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned d = (c * ROW_THREADS + lane_in_row) * 4 + j;
            if (d < columns) to[d] = from_float<T>(acc[c][j]);
        }
}

template <class F> static __device__ __forceinline__ float row_reduce(float x, F f) {
#pragma unroll
    for (int step = 1; step < ROW_THREADS; step *= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

static __device__ __forceinline__ float reduce_sum(float x) {
    return row_reduce(x, [](float a, float b) { return a + b; });
}

/* ---- dq, or the forward pass with a mask ---- */

template <class T, int SIZE, bool FORWARD>
static __global__ void __launch_bounds__(THREADS)
    dq_kernel(const __grid_constant__ attention_grad_params params) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD;
    float *sq = (float *)shared_raw, *sd = sq + TILE * ROW, *sk = sd + TILE * ROW, *sv = sk + TILE * ROW;
    unsigned sequence = blockIdx.z, head = blockIdx.y, tile = blockIdx.x * TILE;
    unsigned q0 = params.q_start[sequence], queries = params.q_start[sequence + 1] - q0;
    if (tile >= queries) return;
    unsigned k0 = params.kv_start[sequence], keys = params.kv_start[sequence + 1] - k0,
             kv_offset = keys - queries;
    unsigned tile_rows = min(queries - tile, (unsigned)TILE), lane_in_row = threadIdx.x % ROW_THREADS,
             row = threadIdx.x / ROW_THREADS;
    size_t row0 = q0 + tile, at = head * params.head_dim;
    size_t kv = k0 * params.kv_stride + head / params.group_size * params.head_dim;
    const T *k = (const T *)params.k + kv, *v = (const T *)params.v + kv;
    load_tile<T, SIZE>(sq, (const T *)params.q + row0 * params.q_stride + at, params.q_stride, tile_rows,
                       params.head_dim);
    if (!FORWARD)
        load_tile<T, SIZE>(sd, (const T *)params.d_out + row0 * params.out_stride + at, params.out_stride,
                           tile_rows, params.head_dim);
    unsigned limit = params.causal ? min(keys, kv_offset + tile + row + 1) : keys;
    unsigned kv_limit = params.causal ? min(keys, kv_offset + tile + tile_rows) : keys;
    uint64_t element = ((row0 + row) * params.heads + head) * params.longest;
    float acc[SIZE / 32][4], row_max = -INFINITY, row_sum = 0, dot = 0;
#pragma unroll
    for (int i = 0; i < SIZE / 32 * 4; i++) (&acc[0][0])[i] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned first = 0; first < kv_limit; first += TILE) {
            unsigned rows = min(keys - first, (unsigned)TILE);
            __syncthreads(); /* the tile before is no longer read */
            load_tile<T, SIZE>(sk, k + first * params.kv_stride, params.kv_stride, rows, params.head_dim);
            load_tile<T, SIZE>(sv, v + first * params.kv_stride, params.kv_stride, rows, params.head_dim);
            __syncthreads();
            float s[KEYS_PER_THREAD], dp[KEYS_PER_THREAD], new_max = row_max, tile_sum = 0, tile_dot = 0;
            dot_rows<SIZE>(s, sq + row * ROW, sk, lane_in_row);
            if (!FORWARD) dot_rows<SIZE>(dp, sd + row * ROW, sv, lane_in_row);
#pragma unroll
            for (int j = 0; j < KEYS_PER_THREAD; j++) {
                unsigned key = first + lane_in_row + ROW_THREADS * j;
                s[j] = key < limit ? s[j] * params.scale : -INFINITY;
                new_max = fmaxf(new_max, s[j]);
                if (!FORWARD && params.mask.threshold) dp[j] *= mask1(params.mask, element + key);
            }
            if (!pass) {
                new_max = row_reduce(new_max, [](float a, float b) { return fmaxf(a, b); });
                float shift = new_max == -INFINITY ? 0.0f : new_max, rescale = expf(row_max - shift);
                row_max = new_max;
#pragma unroll
                for (int j = 0; j < KEYS_PER_THREAD; j++) {
                    float e = expf(s[j] - shift);
                    tile_sum += e;
                    if (!FORWARD) tile_dot = fmaf(e, dp[j], tile_dot);
                }
                row_sum = fmaf(row_sum, rescale, tile_sum);
                if (!FORWARD) dot = fmaf(dot, rescale, tile_dot);
                continue;
            }
#pragma unroll
            for (int j = 0; j < KEYS_PER_THREAD; j++) { /* row_sum is the log-sum-exp by now */
                float p = expf(s[j] - row_sum);
                if (!FORWARD)
                    s[j] = p * (dp[j] - dot) * params.scale;
                else
                    s[j] = params.mask.threshold
                               ? p * mask1(params.mask, element + first + lane_in_row + ROW_THREADS * j)
                               : p;
            }
            accumulate<SIZE>(acc, s, FORWARD ? sv : sk, lane_in_row);
        }
        if (pass) break;
        float all = reduce_sum(row_sum), products = reduce_sum(dot);
        row_sum = row_max + logf(all);
        dot = products / all;
        if (!FORWARD && lane_in_row == 0 && row < tile_rows)
            params.stats[(row0 + row) * params.heads + head] = make_float2(row_sum, dot);
    }
    if (row >= tile_rows) return;
    T *to = FORWARD ? (T *)params.out + (row0 + row) * params.out_stride + at
                    : (T *)params.dq + (row0 + row) * params.q_stride + at;
    store_row<T, SIZE>(to, acc, lane_in_row, params.head_dim);
}

/* ---- dk and dv ---- */

template <class T, int SIZE>
static __global__ void __launch_bounds__(THREADS)
    dkdv_kernel(const __grid_constant__ attention_grad_params params) {
    extern __shared__ uint4 shared_raw[];
    __shared__ float2 stats[TILE];
    const int ROW = SIZE + PAD;
    float *sk = (float *)shared_raw, *sv = sk + TILE * ROW, *sq = sv + TILE * ROW, *sd = sq + TILE * ROW;
    unsigned sequence = blockIdx.z, kv_head = blockIdx.y, tile = blockIdx.x * TILE;
    unsigned q0 = params.q_start[sequence], queries = params.q_start[sequence + 1] - q0;
    unsigned k0 = params.kv_start[sequence], keys = params.kv_start[sequence + 1] - k0,
             kv_offset = keys - queries;
    if (tile >= keys) return;
    unsigned tile_rows = min(keys - tile, (unsigned)TILE), lane_in_row = threadIdx.x % ROW_THREADS,
             row = threadIdx.x / ROW_THREADS, key = tile + row;
    size_t kv = (size_t)(k0 + tile) * params.kv_stride + kv_head * params.head_dim;
    load_tile<T, SIZE>(sk, (const T *)params.k + kv, params.kv_stride, tile_rows, params.head_dim);
    load_tile<T, SIZE>(sv, (const T *)params.v + kv, params.kv_stride, tile_rows, params.head_dim);
    float dk[SIZE / 32][4], dv[SIZE / 32][4];
#pragma unroll
    for (int i = 0; i < SIZE / 32 * 4; i++) (&dk[0][0])[i] = (&dv[0][0])[i] = 0;
    unsigned begin = params.causal && tile > kv_offset ? (tile - kv_offset) / TILE * TILE
                                                       : 0; /* the first that attends to them */
    for (unsigned head = kv_head * params.group_size; head < (kv_head + 1) * params.group_size; head++)
        for (unsigned first = begin; first < queries; first += TILE) {
            unsigned rows = min(queries - first, (unsigned)TILE);
            size_t row0 = q0 + first, at = head * params.head_dim;
            __syncthreads(); /* the tile before is no longer read */
            load_tile<T, SIZE>(sq, (const T *)params.q + row0 * params.q_stride + at, params.q_stride, rows,
                               params.head_dim);
            load_tile<T, SIZE>(sd, (const T *)params.d_out + row0 * params.out_stride + at, params.out_stride,
                               rows, params.head_dim);
            if (threadIdx.x < TILE)
                stats[threadIdx.x] = threadIdx.x < rows
                                         ? params.stats[(row0 + threadIdx.x) * params.heads + head]
                                         : make_float2(0, 0);
            __syncthreads();
            float s[KEYS_PER_THREAD], dp[KEYS_PER_THREAD];
            dot_rows<SIZE>(s, sk + row * ROW, sq, lane_in_row);
            dot_rows<SIZE>(dp, sv + row * ROW, sd, lane_in_row);
#pragma unroll
            for (int j = 0; j < KEYS_PER_THREAD; j++) {
                unsigned query = lane_in_row + ROW_THREADS * j;
                float2 grid = stats[query];
                int visible =
                    query < rows && key < keys && (!params.causal || key <= kv_offset + first + query);
                float p = visible ? expf(fmaf(s[j], params.scale, -grid.x)) : 0.0f, m = 1;
                if (params.mask.threshold)
                    m = mask1(params.mask, ((row0 + query) * params.heads + head) * params.longest + key);
                s[j] = p * m;
                dp[j] = p * (dp[j] * m - grid.y) * params.scale;
            }
            accumulate<SIZE>(dv, s, sd, lane_in_row);
            accumulate<SIZE>(dk, dp, sq, lane_in_row);
        }
    if (row >= tile_rows) return;
    store_row<T, SIZE>((T *)params.dk + kv + row * params.kv_stride, dk, lane_in_row, params.head_dim);
    store_row<T, SIZE>((T *)params.dv + kv + row * params.kv_stride, dv, lane_in_row, params.head_dim);
}

/* ---- Launch ---- */

struct grad_grid {
    dim3 queries, keys;
};

template <class T, int SIZE>
static int launch(zest_cuda *cuda, const attention_grad_params *params, const grad_grid *grid, int forward) {
    const size_t bytes = 4 * TILE * (SIZE + PAD) * sizeof(float);
    if (forward)
        return attention_grad_run(cuda, dq_kernel<T, SIZE, true>, params, grid->queries, THREADS, bytes);
    return attention_grad_run(cuda, dq_kernel<T, SIZE, false>, params, grid->queries, THREADS, bytes) ||
           attention_grad_run(cuda, dkdv_kernel<T, SIZE>, params, grid->keys, THREADS, bytes);
}

template <class T>
static int choose(zest_cuda *cuda, const attention_grad_params *params, const grad_grid *grid, int forward) {
    if (params->head_dim <= 32) return launch<T, 32>(cuda, params, grid, forward);
    if (params->head_dim <= 64) return launch<T, 64>(cuda, params, grid, forward);
    if (params->head_dim <= 128) return launch<T, 128>(cuda, params, grid, forward);
    return launch<T, 256>(cuda, params, grid, forward);
}

static int attend_fp32(zest_cuda *cuda, const zest_attention_backward *args, int forward, float2 *stats) {
    const zest_attention *a = &args->forward;
    return attention_grad_launches(args, stats, [&](const attention_grad_params *chunk, unsigned sequences) {
        grad_grid grid = {dim3(zest_cuda_blocks(a->max_queries, TILE), (unsigned)a->heads, sequences),
                          dim3(zest_cuda_blocks(args->keys, TILE), (unsigned)a->kv_heads, sequences)};
        int bad = 0;
        ZEST_BACKWARD_DISPATCH(cuda->base.compute, T, bad = choose<T>(cuda, chunk, &grid, forward));
        return bad;
    });
}

static int attend(const zest_attention_backward *args, int forward, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const zest_attention *a = &args->forward;
    if (!a->sequences || !a->max_queries || !args->rows) return 0;
    if (a->head_dim > 256)
        return zest_cuda_unsupported(cuda, "attention takes heads of at most 256 elements");
    if (!forward && zest_cuda_reserve(cuda, &cuda->scratch, args->rows * a->heads * sizeof(float2)))
        return -1;
    float2 *stats = (float2 *)cuda->scratch.data;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ATTENTION);
    int done = zest_backward_cuda_attention_window(cuda, args, forward, stats);
    if (done > 0) done = zest_backward_cuda_attention_mma(cuda, args, forward, stats);
    return done <= 0 ? done : attend_fp32(cuda, args, forward, stats);
}

int zest_backward_cuda_attention(const zest_attention_backward *args, int threads, zest_workspace *scratch) {
    (void)threads;
    return attend(args, 0, scratch);
}

int zest_backward_cuda_attention_masked(const zest_attention_backward *args, int threads,
                                        zest_workspace *scratch) {
    (void)threads;
    return attend(args, 1, scratch);
}
