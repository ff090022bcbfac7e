/* Attention with head dimensions over 256, up to 2048, where the values are the keys and all heads share
 * them: the queries of the last layer on the hidden states (model/attention.c). Tensor cores by mma.sync,
 * bf16 and fp16.
 *
 * A block of eight warps has 16 rows (query, head) and loops over tiles of TILE_KV keys. The warps split the
 * columns: each multiplies its slice of queries and keys, the partial scores are summed in shared memory, and
 * each accumulates its slice of the output. So a key is read once. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

enum { TILE_Q = 16, SLICES = 8, BLOCK = 32 * SLICES }; /* SLICES: warps */

/* A tile (COUNT, SIZE) of a matrix (rows, head_dim), a warp for a row; beyond it zeros. */
template <class T, int SIZE, int COUNT>
__device__ __forceinline__ void load_rows(T *to, const T *from, size_t stride, unsigned rows,
                                          unsigned head_dim) {
#pragma unroll
    for (int i = 0; i < COUNT; i += SLICES) {
        const unsigned r = i + threadIdx.x / 32, d = threadIdx.x % 32 * 8;
        const T *row = from + r * stride + d;
#pragma unroll
        for (int c = 0; c < SIZE; c += 256)
            cp_async_16(to + r * (SIZE + PAD) + d + c, row + c, r < rows && d + c < head_dim, from);
    }
    cp_async_commit();
}

/* Sums the partial scores of all warps, in one order. A thread has the same elements in every warp. */
template <int TILES> __device__ __forceinline__ void reduce_scores(float2 *partial, float s[TILES][4]) {
    float2 *own = partial + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++)
        own[(threadIdx.x / 32 * 2 * TILES + i) * 32] = make_float2((&s[0][0])[2 * i], (&s[0][0])[2 * i + 1]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++) {
        float2 sum = own[i * 32];
#pragma unroll
        for (int w = 1; w < SLICES; w++) {
            const float2 other = own[(w * 2 * TILES + i) * 32];
            sum.x += other.x, sum.y += other.y;
        }
        (&s[0][0])[2 * i] = sum.x, (&s[0][0])[2 * i + 1] = sum.y;
    }
}

/* ---- The kernel ---- */

template <class T, int SIZE, int TILE_KV>
static __global__ void __launch_bounds__(BLOCK, SIZE <= 1024 ? 2 : 1)
    attention_wide_kernel(const __grid_constant__ attention_params params, unsigned heads) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, OWN = SIZE / SLICES, STEPS = OWN / 16, COLUMNS = OWN / 8, TILES = TILE_KV / 8;
    T *stages = (T *)shared_raw; /* two buffers of keys */
    float2 *partial = (float2 *)(stages + 2 * TILE_KV * ROW);
    const unsigned sequence = blockIdx.z / params.lanes, lane = blockIdx.z % params.lanes;
    const unsigned q0 = params.q_start[sequence], queries = params.q_start[sequence + 1] - q0;
    const unsigned tile = blockIdx.x * TILE_Q, thread = threadIdx.x % 32, column = threadIdx.x / 32 * OWN;
    if (tile >= queries * heads) return;
    const unsigned tile_rows = min(queries * heads - tile, (unsigned)TILE_Q), k0 = params.kv_start[sequence];
    const unsigned keys = (params.kv_end ? params.kv_end[sequence] : params.kv_start[sequence + 1]) - k0;
    const unsigned kv_offset = keys - queries;
    const size_t at = ((size_t)q0 * heads + tile) * params.head_dim;
    const T *k = (const T *)params.k + lane * params.kv_lane + k0 * params.kv_stride;
    /* Keys that a row attends to. */
    auto visible = [&](unsigned row) {
        return params.causal ? min(keys, kv_offset + (tile + row) / heads + 1) : keys;
    };
    auto load_keys = [&](unsigned first, T *to) {
        const unsigned rows = first < keys ? min(keys - first, (unsigned)TILE_KV) : 0;
        load_rows<T, SIZE, TILE_KV>(to, k + first * params.kv_stride, params.kv_stride, rows,
                                    params.head_dim);
    };

    /* Queries pass through the second buffer into registers. */
    static_assert(TILE_KV >= TILE_Q, "the second buffer holds the queries");
    uint32_t q_fragments[STEPS][4];
    load_rows<T, SIZE, TILE_Q>(stages + TILE_KV * ROW, (const T *)params.q + lane * params.q_lane + at,
                               params.head_dim, tile_rows, params.head_dim);
    load_keys(0, stages);
    cp_async_wait<1>();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        ldmatrix_at(q_fragments[i],
                    stages + (TILE_KV + thread % 16) * ROW + column + i * 16 + thread / 16 * 8);
    __syncthreads();

    const unsigned limit[2] = {visible(thread / 4), visible(thread / 4 + 8)},
                   kv_limit = visible(tile_rows - 1);
    float acc[COLUMNS][4], s[TILES][4], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&acc[0][0])[i] = 0;
    for (unsigned first = 0, buffer = 0; first < kv_limit; first += TILE_KV, buffer ^= 1) {
        const T *keys_here = stages + buffer * TILE_KV * ROW + column;
        if (first + TILE_KV < kv_limit) /* prefetch the next tile */
            load_keys(first + TILE_KV, stages + (buffer ^ 1) * TILE_KV * ROW);
        else
            cp_async_commit();
        cp_async_wait<1>();
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) (&s[0][0])[i] = 0;
#pragma unroll
        for (int i = 0; i < STEPS; i++) mma_abt<T, ROW, TILES>(s, q_fragments[i], keys_here + i * 16, thread);
        reduce_scores<TILES>(partial, s);
#pragma unroll
        for (int i = 0; i < 2; i++)
            rescale_row<COLUMNS>(
                acc, i, online_softmax<TILES>(s, i, first, limit[i], params.scale, row_max[i], row_sum[i]));
        mma_pv<T, ROW, TILES, COLUMNS>(acc, s, keys_here, thread);
        __syncthreads();
    }
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float all = quad_sum(row_sum[i]);
        inverse[i] = all == 0 ? 0.0f : 1.0f / all;
    }
    store_rows<T, COLUMNS>((T *)params.out + lane * params.out_lane + at + column, params.head_dim, acc,
                           inverse, 0, tile_rows, params.head_dim > column ? params.head_dim - column : 0,
                           thread);
}

/* ---- Launch ---- */

template <int SIZE> constexpr int tile_kv() { return SIZE <= 512 ? 32 : 16; }

template <class T, int SIZE> static size_t shared_bytes() {
    return 2 * tile_kv<SIZE>() * (SIZE + PAD) * sizeof(T) +
           (size_t)SLICES * (tile_kv<SIZE>() / 8) * 2 * 32 * sizeof(float2);
}

template <class T, int SIZE>
static int launch(zest_cuda *cuda, const attention_params *params, unsigned heads, dim3 grid) {
    const size_t bytes = shared_bytes<T, SIZE>();
    if (zest_cuda_shared(cuda, (const void *)attention_wide_kernel<T, SIZE, tile_kv<SIZE>()>, bytes,
                         "computing attention"))
        return -1;
    attention_wide_kernel<T, SIZE, tile_kv<SIZE>()><<<grid, BLOCK, bytes, cuda->stream>>>(*params, heads);
    return zest_cuda_launched(cuda, "computing attention");
}

template <class T>
static int choose(zest_cuda *cuda, const attention_params *params, unsigned heads, dim3 grid) {
    if (params->head_dim <= 512) return launch<T, 512>(cuda, params, heads, grid);
    if (params->head_dim <= 768) return launch<T, 768>(cuda, params, heads, grid);
    if (params->head_dim <= 1024) return launch<T, 1024>(cuda, params, heads, grid);
    return launch<T, 2048>(cuda, params, heads, grid);
}

size_t zest_cuda_attention_max_head_dim(const zest_cuda *cuda) {
    if (cuda->base.compute == ZEST_COMPUTE_F32) return 256;
    if (shared_bytes<__half, 2048>() <= cuda->max_shared_bytes) return 2048;
    if (shared_bytes<__half, 1024>() <= cuda->max_shared_bytes) return 1024;
    return shared_bytes<__half, 512>() <= cuda->max_shared_bytes ? 512 : 256;
}

int zest_cuda_attention_wide(zest_cuda *cuda, const zest_attention *args) {
    const uintptr_t bits = (uintptr_t)args->q | (uintptr_t)args->k | (uintptr_t)args->out;
    const size_t steps = args->head_dim | args->kv_stride | args->q_lane | args->kv_lane | args->out_lane;
    const size_t side = args->heads * args->head_dim;
    if (args->head_dim <= 256 || args->head_dim > zest_cuda_attention_max_head_dim(cuda) ||
        args->v != args->k || args->kv_heads != 1 || args->q_stride != side || args->out_stride != side ||
        bits % 16 || steps % 8)
        return 1;
    zest_attention rows = *args; /* a row for each query and head */
    rows.max_queries *= args->heads, rows.heads = 1;
    return attention_launches(&rows, TILE_Q, [&](const attention_params *chunk, dim3 grid) {
        const unsigned heads = (unsigned)args->heads;
        return cuda->base.compute == ZEST_COMPUTE_BF16 ? choose<__nv_bfloat16>(cuda, chunk, heads, grid)
                                                       : choose<__half>(cuda, chunk, heads, grid);
    });
}
