/* Attention's gradients on tensor cores, bf16, for head sizes that eight divides, up to 256. No matrix of
 * scores in memory. Two kernels, so that every number has one writer and a fixed order of sums:
 *
 *     queries: 64 of a head go past the keys twice, first for their sum of exponentials and sum of p dp,
 *              which they leave for the second kernel, then for dq (where all keys are one tile, the scores
 *              stay);
 *     keys:    64 of a key head go past the queries of all heads that share it, for dk and dv.
 *
 * Scores and sums are fp32; p and ds are rounded to bf16 for the products with them. The forward pass with a
 * mask is the first kernel with values in the place of keys. */
#include "kernels/cuda/mma.cuh"
#include "grad/cuda/backward.cuh"

enum { QUERIES = 16 * WARPS, OWN = 16 * WARPS };

/* A warp's 16 rows of `a` times all rows of a tile. */
template <class T, int SIZE, int TILES>
static __device__ __forceinline__ void scores(float s[TILES][4], const T *a, const T *tile, unsigned thread) {
    const int ROW = SIZE + PAD;
#pragma unroll
    for (int i = 0; i < TILES * 4; i++) (&s[0][0])[i] = 0;
#pragma unroll
    for (int i = 0; i < SIZE / 16; i++) {
        uint32_t own[4];
        load4(own, a + thread % 16 * ROW + thread / 16 * 8 + i * 16);
        add_scores<T, ROW, TILES>(s, own, tile + i * 16, thread);
    }
}

/* ---- Queries ---- */

/* The running maximum, sum of exponentials and sum of these times dp of a thread's two rows; scores beyond a
 * row's limit are minus infinity. Of the sums every thread has its own columns' part. */
template <int TILES, bool FORWARD>
static __device__ __forceinline__ void add_tile(const float s[TILES][4], const float dp[TILES][4],
                                                float scale2, float most[2], float sum[2], float dot[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float top = most[i];
#pragma unroll
        for (int j = 0; j < TILES; j++) top = fmaxf(top, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
        top = most_of_four(top);
        float safe = top == -INFINITY ? 0.0f : top * scale2;
        float shrink = exp2f(fmaf(most[i], scale2, -safe)), add = 0, add_dot = 0;
        most[i] = top;
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float e = exp2f(fmaf(s[j][2 * i + c], scale2, -safe));
                add += e;
                if (!FORWARD) add_dot = fmaf(e, dp[j][2 * i + c], add_dot);
            }
        sum[i] = fmaf(sum[i], shrink, add);
        if (!FORWARD) dot[i] = fmaf(dot[i], shrink, add_dot);
    }
}

template <class T, int SIZE, int KEYS, bool FORWARD, bool MASKED>
static __global__ void __launch_bounds__(THREADS)
    queries_kernel(const __grid_constant__ attention_back_job job) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, TILES = KEYS / 8, COLUMNS = SIZE / 8;
    T *sq = (T *)shared_raw, *sd = sq + QUERIES * ROW, *sk = FORWARD ? sd : sd + QUERIES * ROW,
      *sv = sk + KEYS * ROW;
    unsigned sequence = blockIdx.z, head = blockIdx.y, tile = blockIdx.x * QUERIES;
    unsigned q0 = job.q_start[sequence], queries = job.q_start[sequence + 1] - q0;
    if (tile >= queries) return;
    unsigned k0 = job.kv_start[sequence], keys = job.kv_start[sequence + 1] - k0;
    unsigned past = keys - queries, here = min(queries - tile, (unsigned)QUERIES);
    size_t row0 = q0 + tile, at = head * job.head_size;
    size_t kv = k0 * job.kv_stride + head / job.group * job.head_size;
    const T *k = (const T *)job.k + kv, *v = (const T *)job.v + kv;
    unsigned warp = threadIdx.x / 32, thread = threadIdx.x % 32, across = thread % 4 * 2, down = thread / 4;
    fetch<T, SIZE, QUERIES>(sq, (const T *)job.q + row0 * job.q_stride + at, job.q_stride, here,
                            job.head_size);
    if (!FORWARD)
        fetch<T, SIZE, QUERIES>(sd, (const T *)job.d_out + row0 * job.out_stride + at, job.out_stride, here,
                                job.head_size);
    close_group();

    float s[TILES][4], dp[TILES][4], result[COLUMNS][4];
    float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, dot[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&result[0][0])[i] = 0;
    unsigned seen = job.causal ? min(keys, past + tile + here) : keys;
    for (int turn = 0; turn < 2; turn++) {
        for (unsigned first = 0; first < seen; first += KEYS) {
            if (!turn || seen > KEYS) {
                unsigned rows = min(keys - first, (unsigned)KEYS);
                __syncthreads(); /* the tile before is no longer read */
                fetch<T, SIZE, KEYS>(sk, k + first * job.kv_stride, job.kv_stride, rows, job.head_size);
                fetch<T, SIZE, KEYS>(sv, v + first * job.kv_stride, job.kv_stride, rows, job.head_size);
                close_group();
                arrived<0>();
                scores<T, SIZE, TILES>(s, sq + warp * 16 * ROW, sk, thread);
                if (!FORWARD) scores<T, SIZE, TILES>(dp, sd + warp * 16 * ROW, sv, thread);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    unsigned row = warp * 16 + down + 8 * i;
                    unsigned limit = job.causal ? min(keys, past + tile + row + 1) : keys;
#pragma unroll
                    for (int j = 0; j < TILES; j++) {
                        unsigned key = first + j * 8 + across;
                        if (key >= limit) s[j][2 * i] = -INFINITY;
                        if (key + 1 >= limit) s[j][2 * i + 1] = -INFINITY;
                        if (!MASKED || FORWARD) continue;
                        float m[2];
                        mask2(job.mask, ((row0 + row) * job.heads + head) * job.longest + key, m);
                        dp[j][2 * i] *= m[0], dp[j][2 * i + 1] *= m[1];
                    }
                }
            }
            if (!turn) {
                add_tile<TILES, FORWARD>(s, dp, job.scale2, most, sum, dot);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) /* sum: the log2 of the sum of exponentials by now; dot: of p dp */
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    float m[2] = {1, 1};
                    if (FORWARD && MASKED)
                        mask2(job.mask,
                              ((row0 + warp * 16 + down + 8 * i) * job.heads + head) * job.longest + first +
                                  j * 8 + across,
                              m);
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        float p = exp2f(fmaf(s[j][2 * i + c], job.scale2, -sum[i]));
                        dp[j][2 * i + c] = FORWARD ? p * m[c] : p * (dp[j][2 * i + c] - dot[i]) * job.scale;
                    }
                }
            gather<T, ROW, TILES, COLUMNS>(result, dp, FORWARD ? sv : sk, thread);
        }
        if (turn) break;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned row = warp * 16 + down + 8 * i;
            float all = sum_of_four(sum[i]), products = sum_of_four(dot[i]);
            sum[i] = fmaf(most[i], job.scale2, log2f(all));
            dot[i] = products / all;
            if (!FORWARD && thread % 4 == 0 && row < here)
                job.stats[(row0 + row) * job.heads + head] = make_float2(sum[i], dot[i]);
        }
    }
    const float one[2] = {1, 1};
    T *to = FORWARD ? (T *)job.out + row0 * job.out_stride + at : (T *)job.dq + row0 * job.q_stride + at;
    store_rows<T, COLUMNS>(to, FORWARD ? job.out_stride : job.q_stride, result, one, warp * 16, here,
                           job.head_size, thread);
}

/* ---- Keys ---- */

/* PARTS blocks share a tile of keys where the results do not fit into the registers: each has its columns. */
template <class T, int SIZE, int TILE, int PARTS, bool MASKED>
static __global__ void __launch_bounds__(THREADS)
    keys_kernel(const __grid_constant__ attention_back_job job) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, TILES = TILE / 8, COLUMNS = SIZE / 8 / PARTS;
    T *sk = (T *)shared_raw, *sv = sk + OWN * ROW, *sq = sv + OWN * ROW, *sd = sq + TILE * ROW;
    float2 *stats = (float2 *)(sd + TILE * ROW);
    unsigned sequence = blockIdx.z, kv_head = blockIdx.y / PARTS, part = blockIdx.y % PARTS,
             tile = blockIdx.x * OWN;
    unsigned q0 = job.q_start[sequence], queries = job.q_start[sequence + 1] - q0;
    unsigned k0 = job.kv_start[sequence], keys = job.kv_start[sequence + 1] - k0, past = keys - queries;
    if (tile >= keys) return;
    unsigned here = min(keys - tile, (unsigned)OWN);
    size_t kv = (size_t)(k0 + tile) * job.kv_stride + kv_head * job.head_size;
    unsigned warp = threadIdx.x / 32, thread = threadIdx.x % 32, across = thread % 4 * 2, down = thread / 4;
    fetch<T, SIZE, OWN>(sk, (const T *)job.k + kv, job.kv_stride, here, job.head_size);
    fetch<T, SIZE, OWN>(sv, (const T *)job.v + kv, job.kv_stride, here, job.head_size);
    close_group();

    float s[TILES][4], dp[TILES][4], dk[COLUMNS][4], dv[COLUMNS][4];
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&dk[0][0])[i] = (&dv[0][0])[i] = 0;
    unsigned begin = job.causal && tile > past ? (tile - past) / TILE * TILE : 0; /* who sees them first */
    for (unsigned head = kv_head * job.group; head < (kv_head + 1) * job.group; head++)
        for (unsigned first = begin; first < queries; first += TILE) {
            unsigned rows = min(queries - first, (unsigned)TILE);
            size_t row0 = q0 + first, at = head * job.head_size;
            __syncthreads(); /* the tile before is no longer read */
            fetch<T, SIZE, TILE>(sq, (const T *)job.q + row0 * job.q_stride + at, job.q_stride, rows,
                                 job.head_size);
            fetch<T, SIZE, TILE>(sd, (const T *)job.d_out + row0 * job.out_stride + at, job.out_stride, rows,
                                 job.head_size);
            close_group();
            if (threadIdx.x < TILE)
                stats[threadIdx.x] = threadIdx.x < rows ? job.stats[(row0 + threadIdx.x) * job.heads + head]
                                                        : make_float2(0, 0);
            arrived<0>();
            scores<T, SIZE, TILES>(s, sk + warp * 16 * ROW, sq, thread);
            scores<T, SIZE, TILES>(dp, sv + warp * 16 * ROW, sd, thread);
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    unsigned row = j * 8 + across + c;
                    float2 of = stats[row];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        unsigned key = tile + warp * 16 + down + 8 * i;
                        int visible = row < rows && key < keys && (!job.causal || key <= past + first + row);
                        float p = visible ? exp2f(fmaf(s[j][2 * i + c], job.scale2, -of.x)) : 0.0f, m = 1;
                        if (MASKED)
                            m = mask1(job.mask, ((row0 + row) * job.heads + head) * job.longest + key);
                        s[j][2 * i + c] = p * m;
                        dp[j][2 * i + c] = p * (dp[j][2 * i + c] * m - of.y) * job.scale;
                    }
                }
            gather<T, ROW, TILES, COLUMNS>(dv, s, sd + part * COLUMNS * 8, thread);
            gather<T, ROW, TILES, COLUMNS>(dk, dp, sq + part * COLUMNS * 8, thread);
        }
    const float one[2] = {1, 1};
    unsigned skipped = part * COLUMNS * 8, left = job.head_size > skipped ? job.head_size - skipped : 0;
    store_rows<T, COLUMNS>((T *)job.dk + kv + skipped, job.kv_stride, dk, one, warp * 16, here, left, thread);
    store_rows<T, COLUMNS>((T *)job.dv + kv + skipped, job.kv_stride, dv, one, warp * 16, here, left, thread);
}

/* ---- Choosing ---- */

struct mma_grid {
    unsigned query_tiles, key_tiles, heads, kv_heads, sequences;
};

template <class T, int SIZE, int KEYS, int TILE, int PARTS>
static int launch(zest_cuda *cuda, const attention_back_job *job, const mma_grid *of, int forward) {
    const size_t row = (SIZE + PAD) * sizeof(T);
    dim3 queries(of->query_tiles, of->heads, of->sequences),
        keys(of->key_tiles, of->kv_heads * PARTS, of->sequences);
    if (forward)
        return attention_back_run(cuda, queries_kernel<T, SIZE, KEYS, true, true>, job, queries, THREADS,
                                  (QUERIES + 2 * KEYS) * row);
    size_t first = (2 * QUERIES + 2 * KEYS) * row,
           second = (2 * OWN + 2 * TILE) * row + TILE * sizeof(float2);
    if (job->mask.threshold)
        return attention_back_run(cuda, queries_kernel<T, SIZE, KEYS, false, true>, job, queries, THREADS,
                                  first) ||
               attention_back_run(cuda, keys_kernel<T, SIZE, TILE, PARTS, true>, job, keys, THREADS, second);
    return attention_back_run(cuda, queries_kernel<T, SIZE, KEYS, false, false>, job, queries, THREADS,
                              first) ||
           attention_back_run(cuda, keys_kernel<T, SIZE, TILE, PARTS, false>, job, keys, THREADS, second);
}

static int choose(zest_cuda *cuda, const attention_back_job *job, const mma_grid *of, int forward) {
    typedef __nv_bfloat16 T;
    if (job->head_size <= 32) return launch<T, 32, 64, 64, 1>(cuda, job, of, forward);
    if (job->head_size <= 64) return launch<T, 64, 64, 64, 1>(cuda, job, of, forward);
    if (job->head_size <= 96) return launch<T, 96, 64, 32, 1>(cuda, job, of, forward);
    if (job->head_size <= 128) return launch<T, 128, 64, 32, 1>(cuda, job, of, forward);
    return launch<T, 256, 32, 32, 2>(cuda, job, of, forward);
}

/* Sixteen bytes at a time in, four out. */
static int suits(const zest_cuda *cuda, const zest_attention_backward *job, int forward) {
    const zest_attention *a = &job->forward;
    uintptr_t in = (uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v;
    uintptr_t out =
        forward ? (uintptr_t)a->out : (uintptr_t)job->dq | (uintptr_t)job->dk | (uintptr_t)job->dv;
    if (!forward) in |= (uintptr_t)job->d_out;
    return cuda->base.compute == ZEST_COMPUTE_BF16 && a->head_dim % 8 == 0 && a->head_dim <= 256 &&
           in % 16 == 0 && out % 4 == 0 && (a->q_stride | a->kv_stride | a->out_stride) % 8 == 0;
}

int zest_backward_cuda_attention_mma(zest_cuda *cuda, const zest_attention_backward *job, int forward,
                                     float2 *stats) {
    const zest_attention *a = &job->forward;
    if (!suits(cuda, job, forward)) return 1;
    mma_grid grid = {zest_cuda_blocks(a->max_queries, QUERIES), zest_cuda_blocks(job->keys, OWN),
                     (unsigned)a->heads, (unsigned)a->kv_heads, 0};
    int bad = attention_back_launches(job, stats, [&](const attention_back_job *some, unsigned sequences) {
        grid.sequences = sequences;
        return choose(cuda, some, &grid, forward);
    });
    return bad ? -1 : 0;
}
