/* Attention on tensor cores by mma.sync (compute capability 8.0 and newer), bf16 and fp16, head dimensions up
 * to 256 that eight divides. A block of four warps has 64 queries of a head, 16 a warp, and loops over tiles
 * of TILE_KV keys, which cp.async loads into two buffers. Scores and accumulators are fp32; probabilities are
 * rounded to the compute type for the product with the values. SIZE: head_dim, rounded up. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

enum { TILE_Q = 16 * WARPS };

/* ---- The kernel ---- */

template <class T, int SIZE, int TILE_KV, bool Q_IN_REGISTERS>
static __global__ void __launch_bounds__(THREADS, SIZE <= 64 ? 5 : 1)
    attention_mma_kernel(const __grid_constant__ attention_params params) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, STEPS = SIZE / 16, TILES = TILE_KV / 8, COLUMNS = SIZE / 8;
    const int STAGE = 2 * TILE_KV * ROW; /* keys, then values; two buffers of both */
    T *stages = (T *)shared_raw, *sq = stages + (Q_IN_REGISTERS ? 1 : 2) * STAGE;
    unsigned sequence = blockIdx.z / params.lanes, lane = blockIdx.z % params.lanes, head = blockIdx.y;
    unsigned q0 = params.q_start[sequence], queries = params.q_start[sequence + 1] - q0,
             tile = blockIdx.x * TILE_Q;
    if (tile >= queries) return;
    unsigned k0 = params.kv_start[sequence],
             keys = (params.kv_end ? params.kv_end[sequence] : params.kv_start[sequence + 1]) - k0;
    unsigned kv_offset = keys - queries, tile_rows = min(queries - tile, (unsigned)TILE_Q);
    const T *q =
        (const T *)params.q + lane * params.q_lane + (q0 + tile) * params.q_stride + head * params.head_dim;
    size_t kv = lane * params.kv_lane + k0 * params.kv_stride + head / params.group_size * params.head_dim;
    const T *k = (const T *)params.k + kv, *v = (const T *)params.v + kv;
    T *out =
        (T *)params.out + lane * params.out_lane + (q0 + tile) * params.out_stride + head * params.head_dim;
    unsigned warp = threadIdx.x / 32, thread = threadIdx.x % 32, column = thread % 4 * 2,
             row_in_warp = thread / 4;

    /* Fragments of the queries stay in registers where there are enough, else they are loaded again for every
     * tile of keys. With Q_IN_REGISTERS the queries pass through the second buffer. */
    static_assert(!Q_IN_REGISTERS || 2 * TILE_KV >= TILE_Q, "the second buffer holds the queries");
    auto load_kv = [&](unsigned first, T *to) {
        unsigned rows = first < keys ? min(keys - first, (unsigned)TILE_KV) : 0;
        load_tile<T, SIZE, TILE_KV>(to, k + first * params.kv_stride, params.kv_stride, rows,
                                    params.head_dim);
        cp_async_commit();
        load_tile<T, SIZE, TILE_KV>(to + TILE_KV * ROW, v + first * params.kv_stride, params.kv_stride, rows,
                                    params.head_dim);
        cp_async_commit();
    };
    uint32_t q_fragments[Q_IN_REGISTERS ? STEPS : 1][4];
    const T *q_rows = sq + (warp * 16 + thread % 16) * ROW + thread / 16 * 8;
    load_tile<T, SIZE, TILE_Q>(sq, q, params.q_stride, tile_rows, params.head_dim);
    cp_async_commit();
    load_kv(0, stages);
    cp_async_wait<2>();
    if (Q_IN_REGISTERS) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) ldmatrix_at(q_fragments[Q_IN_REGISTERS ? i : 0], q_rows + i * 16);
        __syncthreads();
    }

    float acc[COLUMNS][4], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&acc[0][0])[i] = 0;
    unsigned kv_limit = params.causal ? min(keys, kv_offset + tile + tile_rows) : keys;
    for (unsigned first = 0, buffer = 0; first < kv_limit; first += TILE_KV, buffer ^= 1) {
        const T *sk = stages + buffer * STAGE, *sv = sk + TILE_KV * ROW;
        if (first + TILE_KV < kv_limit) { /* prefetch the next tile */
            load_kv(first + TILE_KV, stages + (buffer ^ 1) * STAGE);
        } else {
            cp_async_commit();
            cp_async_commit();
        }
        cp_async_wait<3>();

        float s[TILES][4];
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) (&s[0][0])[i] = 0;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            uint32_t q_fragment[4], *a = q_fragments[Q_IN_REGISTERS ? i : 0];
            if (!Q_IN_REGISTERS) {
                ldmatrix_at(q_fragment, q_rows + i * 16);
                a = q_fragment;
            }
            mma_abt<T, ROW, TILES>(s, a, sk + i * 16, thread);
        }

#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned row = tile + warp * 16 + row_in_warp + 8 * i;
            unsigned limit = params.causal ? min(keys, kv_offset + row + 1) : keys;
            rescale_row<COLUMNS>(
                acc, i, online_softmax<TILES>(s, i, first, limit, params.scale, row_max[i], row_sum[i]));
        }
        cp_async_wait<2>();
        mma_pv<T, ROW, TILES, COLUMNS>(acc, s, sv, thread);
        __syncthreads();
    }

    /* A warp's rows go through shared memory, so that 16 bytes are stored at a time. */
    T *out_tile = stages + warp * 16 * ROW;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = quad_sum(row_sum[i]);
        float inverse = 1.0f / all;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            *(uint32_t *)(out_tile + (row_in_warp + 8 * i) * ROW + j * 8 + column) =
                pack<T>(acc[j][2 * i] * inverse, acc[j][2 * i + 1] * inverse);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 * SIZE / 8; i += 32) {
        unsigned r = (i + thread) / (SIZE / 8), d = (i + thread) % (SIZE / 8) * 8;
        if (warp * 16 + r < tile_rows && d < params.head_dim)
            *(uint4 *)(out + (warp * 16 + r) * params.out_stride + d) =
                *(const uint4 *)(out_tile + r * ROW + d);
    }
}

/* ---- Launch ---- */

template <class T, int SIZE, int TILE_KV, bool Q_IN_REGISTERS>
static int launch(zest_cuda *cuda, const attention_params *params, dim3 grid) {
    size_t bytes = (4 * TILE_KV + (Q_IN_REGISTERS ? 0 : TILE_Q)) * (SIZE + PAD) * sizeof(T);
    if (zest_cuda_shared(cuda, (const void *)attention_mma_kernel<T, SIZE, TILE_KV, Q_IN_REGISTERS>, bytes,
                         "computing attention"))
        return -1;
    attention_mma_kernel<T, SIZE, TILE_KV, Q_IN_REGISTERS><<<grid, THREADS, bytes, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "computing attention");
}

template <class T> static int choose(zest_cuda *cuda, const attention_params *params, dim3 grid) {
    if (params->head_dim <= 32) return launch<T, 32, 64, true>(cuda, params, grid);
    if (params->head_dim <= 64) return launch<T, 64, 64, true>(cuda, params, grid);
    if (params->head_dim <= 96) return launch<T, 96, 64, true>(cuda, params, grid);
    if (params->head_dim <= 128) return launch<T, 128, 64, true>(cuda, params, grid);
    return launch<T, 256, 32, false>(cuda, params, grid);
}

int zest_cuda_attention_mma(zest_cuda *cuda, const zest_attention *args) {
    uintptr_t bits = (uintptr_t)args->q | (uintptr_t)args->k | (uintptr_t)args->v | (uintptr_t)args->out;
    size_t steps =
        args->q_stride | args->kv_stride | args->out_stride | args->q_lane | args->kv_lane | args->out_lane;
    if (cuda->base.compute == ZEST_COMPUTE_F32 || args->head_dim % 8 || args->head_dim > 256 || bits % 16 ||
        steps % 8)
        return 1;
    return attention_launches(args, TILE_Q, [&](const attention_params *chunk, dim3 grid) {
        return cuda->base.compute == ZEST_COMPUTE_BF16 ? choose<__nv_bfloat16>(cuda, chunk, grid)
                                                       : choose<__half>(cuda, chunk, grid);
    });
}
