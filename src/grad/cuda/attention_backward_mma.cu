/* Gradients of attention on tensor cores by mma.sync, bf16, head dimensions up to 256 that eight divides.
 * Two kernels, so that every element has one writer and a fixed order of sums:
 *
 *     dq_kernel    64 queries of a head loop over the keys twice: first for the log-sum-exp and the sum of p dp, which they
 *                  store for the second kernel, then for dq (where all keys are one tile, the scores are kept)
 *     dkdv_kernel  64 keys of a key head loop over the queries of all heads that share it, for dk and dv
 *
 * Scores and accumulators are fp32; p and ds are rounded to bf16 for the products. The forward pass with a
 * dropout mask is dq_kernel with values in the place of keys (FORWARD). */
#include "kernels/cuda/mma.cuh"
#include "grad/cuda/backward.cuh"

enum { TILE_Q = 16 * WARPS, TILE_OWN = 16 * WARPS };

/* s (16, 8 TILES) = a warp's rows of a (16, SIZE) times tile' (8 TILES, SIZE). */
template <class T, int SIZE, int TILES>
static __device__ __forceinline__ void mma_rows(float s[TILES][4], const T *a, const T *tile,
                                                unsigned thread) {
    const int ROW = SIZE + PAD;
#pragma unroll
    for (int i = 0; i < TILES * 4; i++) (&s[0][0])[i] = 0;
#pragma unroll
    for (int i = 0; i < SIZE / 16; i++) {
        uint32_t own[4];
        ldmatrix_at(own, a + thread % 16 * ROW + thread / 16 * 8 + i * 16);
        mma_abt<T, ROW, TILES>(s, own, tile + i * 16, thread);
    }
}

/* ---- dq, or the forward pass with a mask ---- */

/* Online softmax statistics of a thread's two rows: maximum, sum of exponentials, and sum of these times dp.
 * Masked scores are minus infinity. Of the sums a thread has its own columns. */
template <int TILES, bool FORWARD>
static __device__ __forceinline__ void online_softmax_stats(const float s[TILES][4], const float dp[TILES][4],
                                                            float scale2, float row_max[2], float row_sum[2],
                                                            float dot[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float new_max = row_max[i];
#pragma unroll
        for (int j = 0; j < TILES; j++) new_max = fmaxf(new_max, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
        new_max = quad_max(new_max);
        float scaled_max = new_max == -INFINITY ? 0.0f : new_max * scale2;
        float rescale = exp2f(fmaf(row_max[i], scale2, -scaled_max)), tile_sum = 0, tile_dot = 0;
        row_max[i] = new_max;
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float e = exp2f(fmaf(s[j][2 * i + c], scale2, -scaled_max));
                tile_sum += e;
                if (!FORWARD) tile_dot = fmaf(e, dp[j][2 * i + c], tile_dot);
            }
        row_sum[i] = fmaf(row_sum[i], rescale, tile_sum);
        if (!FORWARD) dot[i] = fmaf(dot[i], rescale, tile_dot);
    }
}

template <class T, int SIZE, int TILE_KV, bool FORWARD, bool MASKED>
static __global__ void __launch_bounds__(THREADS)
    dq_kernel(const __grid_constant__ attention_grad_params params) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, TILES = TILE_KV / 8, COLUMNS = SIZE / 8;
    T *sq = (T *)shared_raw, *sd = sq + TILE_Q * ROW, *sk = FORWARD ? sd : sd + TILE_Q * ROW,
      *sv = sk + TILE_KV * ROW;
    unsigned sequence = blockIdx.z, head = blockIdx.y, tile = blockIdx.x * TILE_Q;
    unsigned q0 = params.q_start[sequence], queries = params.q_start[sequence + 1] - q0;
    if (tile >= queries) return;
    unsigned k0 = params.kv_start[sequence], keys = params.kv_start[sequence + 1] - k0;
    unsigned kv_offset = keys - queries, tile_rows = min(queries - tile, (unsigned)TILE_Q);
    size_t row0 = q0 + tile, at = head * params.head_dim;
    size_t kv = k0 * params.kv_stride + head / params.group_size * params.head_dim;
    const T *k = (const T *)params.k + kv, *v = (const T *)params.v + kv;
    unsigned warp = threadIdx.x / 32, thread = threadIdx.x % 32, column = thread % 4 * 2,
             row_in_warp = thread / 4;
    load_tile<T, SIZE, TILE_Q>(sq, (const T *)params.q + row0 * params.q_stride + at, params.q_stride,
                               tile_rows, params.head_dim);
    if (!FORWARD)
        load_tile<T, SIZE, TILE_Q>(sd, (const T *)params.d_out + row0 * params.out_stride + at,
                                   params.out_stride, tile_rows, params.head_dim);
    cp_async_commit();

    float s[TILES][4], dp[TILES][4], acc[COLUMNS][4];
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0}, dot[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&acc[0][0])[i] = 0;
    unsigned kv_limit = params.causal ? min(keys, kv_offset + tile + tile_rows) : keys;
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned first = 0; first < kv_limit; first += TILE_KV) {
            if (!pass || kv_limit > TILE_KV) {
                unsigned rows = min(keys - first, (unsigned)TILE_KV);
                __syncthreads(); /* the tile before is no longer read */
                load_tile<T, SIZE, TILE_KV>(sk, k + first * params.kv_stride, params.kv_stride, rows,
                                            params.head_dim);
                load_tile<T, SIZE, TILE_KV>(sv, v + first * params.kv_stride, params.kv_stride, rows,
                                            params.head_dim);
                cp_async_commit();
                cp_async_wait<0>();
                mma_rows<T, SIZE, TILES>(s, sq + warp * 16 * ROW, sk, thread);
                if (!FORWARD) mma_rows<T, SIZE, TILES>(dp, sd + warp * 16 * ROW, sv, thread);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    unsigned row = warp * 16 + row_in_warp + 8 * i;
                    unsigned limit = params.causal ? min(keys, kv_offset + tile + row + 1) : keys;
#pragma unroll
                    for (int j = 0; j < TILES; j++) {
                        unsigned key = first + j * 8 + column;
                        if (key >= limit) s[j][2 * i] = -INFINITY;
                        if (key + 1 >= limit) s[j][2 * i + 1] = -INFINITY;
                        if (!MASKED || FORWARD) continue;
                        float m[2];
                        mask2(params.mask, ((row0 + row) * params.heads + head) * params.longest + key, m);
                        dp[j][2 * i] *= m[0], dp[j][2 * i + 1] *= m[1];
                    }
                }
            }
            if (!pass) {
                online_softmax_stats<TILES, FORWARD>(s, dp, params.scale2, row_max, row_sum, dot);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) /* row_sum is the log2-sum-exp by now, dot the sum of p dp */
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    float m[2] = {1, 1};
                    if (FORWARD && MASKED)
                        mask2(params.mask,
                              ((row0 + warp * 16 + row_in_warp + 8 * i) * params.heads + head) *
                                      params.longest +
                                  first + j * 8 + column,
                              m);
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        float p = exp2f(fmaf(s[j][2 * i + c], params.scale2, -row_sum[i]));
                        dp[j][2 * i + c] =
                            FORWARD ? p * m[c] : p * (dp[j][2 * i + c] - dot[i]) * params.scale;
                    }
                }
            mma_pv<T, ROW, TILES, COLUMNS>(acc, dp, FORWARD ? sv : sk, thread);
        }
        if (pass) break;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned row = warp * 16 + row_in_warp + 8 * i;
            float all = quad_sum(row_sum[i]), products = quad_sum(dot[i]);
            row_sum[i] = fmaf(row_max[i], params.scale2, log2f(all));
            dot[i] = products / all;
            if (!FORWARD && thread % 4 == 0 && row < tile_rows)
                params.stats[(row0 + row) * params.heads + head] = make_float2(row_sum[i], dot[i]);
        }
    }
    const float one[2] = {1, 1};
    T *to = FORWARD ? (T *)params.out + row0 * params.out_stride + at
                    : (T *)params.dq + row0 * params.q_stride + at;
    store_rows<T, COLUMNS>(to, FORWARD ? params.out_stride : params.q_stride, acc, one, warp * 16, tile_rows,
                           params.head_dim, thread);
}

/* ---- dk and dv ---- */

/* SPLITS blocks share a tile of keys where the accumulators do not fit into registers: each has some of the
 * columns. */
template <class T, int SIZE, int TILE, int SPLITS, bool MASKED>
static __global__ void __launch_bounds__(THREADS)
    dkdv_kernel(const __grid_constant__ attention_grad_params params) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, TILES = TILE / 8, COLUMNS = SIZE / 8 / SPLITS;
    T *sk = (T *)shared_raw, *sv = sk + TILE_OWN * ROW, *sq = sv + TILE_OWN * ROW, *sd = sq + TILE * ROW;
    float2 *stats = (float2 *)(sd + TILE * ROW);
    unsigned sequence = blockIdx.z, kv_head = blockIdx.y / SPLITS, split = blockIdx.y % SPLITS,
             tile = blockIdx.x * TILE_OWN;
    unsigned q0 = params.q_start[sequence], queries = params.q_start[sequence + 1] - q0;
    unsigned k0 = params.kv_start[sequence], keys = params.kv_start[sequence + 1] - k0,
             kv_offset = keys - queries;
    if (tile >= keys) return;
    unsigned tile_rows = min(keys - tile, (unsigned)TILE_OWN);
    size_t kv = (size_t)(k0 + tile) * params.kv_stride + kv_head * params.head_dim;
    unsigned warp = threadIdx.x / 32, thread = threadIdx.x % 32, column = thread % 4 * 2,
             row_in_warp = thread / 4;
    load_tile<T, SIZE, TILE_OWN>(sk, (const T *)params.k + kv, params.kv_stride, tile_rows, params.head_dim);
    load_tile<T, SIZE, TILE_OWN>(sv, (const T *)params.v + kv, params.kv_stride, tile_rows, params.head_dim);
    cp_async_commit();

    float s[TILES][4], dp[TILES][4], dk[COLUMNS][4], dv[COLUMNS][4];
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&dk[0][0])[i] = (&dv[0][0])[i] = 0;
    unsigned begin = params.causal && tile > kv_offset ? (tile - kv_offset) / TILE * TILE
                                                       : 0; /* the first that attends to them */
    for (unsigned head = kv_head * params.group_size; head < (kv_head + 1) * params.group_size; head++)
        for (unsigned first = begin; first < queries; first += TILE) {
            unsigned rows = min(queries - first, (unsigned)TILE);
            size_t row0 = q0 + first, at = head * params.head_dim;
            __syncthreads(); /* the tile before is no longer read */
            load_tile<T, SIZE, TILE>(sq, (const T *)params.q + row0 * params.q_stride + at, params.q_stride,
                                     rows, params.head_dim);
            load_tile<T, SIZE, TILE>(sd, (const T *)params.d_out + row0 * params.out_stride + at,
                                     params.out_stride, rows, params.head_dim);
            cp_async_commit();
            if (threadIdx.x < TILE)
                stats[threadIdx.x] = threadIdx.x < rows
                                         ? params.stats[(row0 + threadIdx.x) * params.heads + head]
                                         : make_float2(0, 0);
            cp_async_wait<0>();
            mma_rows<T, SIZE, TILES>(s, sk + warp * 16 * ROW, sq, thread);
            mma_rows<T, SIZE, TILES>(dp, sv + warp * 16 * ROW, sd, thread);
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    unsigned row = j * 8 + column + c;
                    float2 grid = stats[row];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        unsigned key = tile + warp * 16 + row_in_warp + 8 * i;
                        int visible =
                            row < rows && key < keys && (!params.causal || key <= kv_offset + first + row);
                        float p = visible ? exp2f(fmaf(s[j][2 * i + c], params.scale2, -grid.x)) : 0.0f,
                              m = 1;
                        if (MASKED)
                            m = mask1(params.mask,
                                      ((row0 + row) * params.heads + head) * params.longest + key);
                        s[j][2 * i + c] = p * m;
                        dp[j][2 * i + c] = p * (dp[j][2 * i + c] * m - grid.y) * params.scale;
                    }
                }
            mma_pv<T, ROW, TILES, COLUMNS>(dv, s, sd + split * COLUMNS * 8, thread);
            mma_pv<T, ROW, TILES, COLUMNS>(dk, dp, sq + split * COLUMNS * 8, thread);
        }
    const float one[2] = {1, 1};
    unsigned skipped = split * COLUMNS * 8, left = params.head_dim > skipped ? params.head_dim - skipped : 0;
    store_rows<T, COLUMNS>((T *)params.dk + kv + skipped, params.kv_stride, dk, one, warp * 16, tile_rows,
                           left, thread);
    store_rows<T, COLUMNS>((T *)params.dv + kv + skipped, params.kv_stride, dv, one, warp * 16, tile_rows,
                           left, thread);
}

/* ---- Launch ---- */

struct mma_grid {
    unsigned query_tiles, key_tiles, heads, kv_heads, sequences;
};

template <class T, int SIZE, int TILE_KV, int TILE, int SPLITS>
static int launch(zest_cuda *cuda, const attention_grad_params *params, const mma_grid *grid, int forward) {
    const size_t row = (SIZE + PAD) * sizeof(T);
    dim3 queries(grid->query_tiles, grid->heads, grid->sequences),
        keys(grid->key_tiles, grid->kv_heads * SPLITS, grid->sequences);
    if (forward)
        return attention_grad_run(cuda, dq_kernel<T, SIZE, TILE_KV, true, true>, params, queries, THREADS,
                                  (TILE_Q + 2 * TILE_KV) * row);
    size_t first = (2 * TILE_Q + 2 * TILE_KV) * row,
           second = (2 * TILE_OWN + 2 * TILE) * row + TILE * sizeof(float2);
    if (params->mask.threshold)
        return attention_grad_run(cuda, dq_kernel<T, SIZE, TILE_KV, false, true>, params, queries, THREADS,
                                  first) ||
               attention_grad_run(cuda, dkdv_kernel<T, SIZE, TILE, SPLITS, true>, params, keys, THREADS,
                                  second);
    return attention_grad_run(cuda, dq_kernel<T, SIZE, TILE_KV, false, false>, params, queries, THREADS,
                              first) ||
           attention_grad_run(cuda, dkdv_kernel<T, SIZE, TILE, SPLITS, false>, params, keys, THREADS, second);
}

static int choose(zest_cuda *cuda, const attention_grad_params *params, const mma_grid *grid, int forward) {
    typedef __nv_bfloat16 T;
    if (params->head_dim <= 32) return launch<T, 32, 64, 64, 1>(cuda, params, grid, forward);
    if (params->head_dim <= 64) return launch<T, 64, 64, 64, 1>(cuda, params, grid, forward);
    if (params->head_dim <= 96) return launch<T, 96, 64, 32, 1>(cuda, params, grid, forward);
    if (params->head_dim <= 128) return launch<T, 128, 64, 32, 1>(cuda, params, grid, forward);
    return launch<T, 256, 32, 32, 2>(cuda, params, grid, forward);
}

/* Loads of 16 bytes, stores of 4. */
static int is_supported(const zest_cuda *cuda, const zest_attention_backward *args, int forward) {
    const zest_attention *a = &args->forward;
    uintptr_t in = (uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v;
    uintptr_t out =
        forward ? (uintptr_t)a->out : (uintptr_t)args->dq | (uintptr_t)args->dk | (uintptr_t)args->dv;
    if (!forward) in |= (uintptr_t)args->d_out;
    return cuda->base.compute == ZEST_COMPUTE_BF16 && a->head_dim % 8 == 0 && a->head_dim <= 256 &&
           in % 16 == 0 && out % 4 == 0 && (a->q_stride | a->kv_stride | a->out_stride) % 8 == 0;
}

int zest_backward_cuda_attention_mma(zest_cuda *cuda, const zest_attention_backward *args, int forward,
                                     float2 *stats) {
    const zest_attention *a = &args->forward;
    if (!is_supported(cuda, args, forward)) return 1;
    mma_grid grid = {zest_cuda_blocks(a->max_queries, TILE_Q), zest_cuda_blocks(args->keys, TILE_OWN),
                     (unsigned)a->heads, (unsigned)a->kv_heads, 0};
    int bad =
        attention_grad_launches(args, stats, [&](const attention_grad_params *chunk, unsigned sequences) {
            grid.sequences = sequences;
            return choose(cuda, chunk, &grid, forward);
        });
    return bad ? -1 : 0;
}
