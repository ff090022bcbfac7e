/* Attention on CUDA cores in fp32, head dimensions up to 256, any alignment: for fp32 compute, and for what
 * the tensor-core kernels do not support. A block of 128 threads has TILE_Q = 64 queries of a head and loops
 * over tiles of TILE_KV = 32 keys; online softmax, all state in registers. Also the entry point, which picks
 * the kernel. */
#include "kernels/cuda/attention.cuh"

enum { THREADS = 128, TILE_Q = 64, TILE_KV = 32, PER = TILE_KV / 4, PAD = 4 };

/* A tile (all, SIZE) of a matrix (rows, head_dim) as floats in shared memory; beyond it zeros. */
template <class T, int SIZE>
static __device__ __forceinline__ void load_tile(float *to, const T *from, size_t stride, unsigned rows,
                                                 unsigned all, unsigned head_dim) {
    for (unsigned i = threadIdx.x; i < all * SIZE; i += THREADS) {
        unsigned r = i / SIZE, d = i % SIZE;
        to[r * (SIZE + PAD) + d] = r < rows && d < head_dim ? to_float(from[r * stride + d]) : 0.0f;
    }
}

/* A quad shares a query: its thread i has keys i, i + 4, ... of a tile and every fourth group of four columns
 * of the accumulators. A thread has two queries, 32 apart. */
template <class T, int SIZE>
static __global__ void __launch_bounds__(THREADS)
    attention_kernel(const __grid_constant__ attention_params params) {
    extern __shared__ float shared[];
    float *sq = shared, *sk = sq + TILE_Q * (SIZE + PAD), *sv = sk + TILE_KV * (SIZE + PAD);
    const int ROW = SIZE + PAD, COLUMNS = SIZE / 16; /* groups of four columns of a thread */
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
    load_tile<T, SIZE>(sq, q, params.q_stride, tile_rows, TILE_Q, params.head_dim);
    unsigned quad_lane = threadIdx.x % 4, row = threadIdx.x / 4;
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0}, acc[2][COLUMNS][4];
#pragma unroll
    for (int i = 0; i < 2 * COLUMNS * 4; i++) (&acc[0][0][0])[i] = 0;
    unsigned kv_limit = params.causal ? min(keys, kv_offset + tile + tile_rows) : keys;
    for (unsigned first = 0; first < kv_limit; first += TILE_KV) {
        unsigned rows = min(keys - first, (unsigned)TILE_KV);
        __syncthreads();
        load_tile<T, SIZE>(sk, k + first * params.kv_stride, params.kv_stride, rows, TILE_KV,
                           params.head_dim);
        load_tile<T, SIZE>(sv, v + first * params.kv_stride, params.kv_stride, rows, TILE_KV,
                           params.head_dim);
        __syncthreads();
        float s[2][PER];
#pragma unroll
        for (int i = 0; i < 2 * PER; i++) (&s[0][0])[i] = 0;
        for (int d = 0; d < SIZE; d += 4) {
            float4 a = *(const float4 *)(sq + row * ROW + d),
                   b = *(const float4 *)(sq + (row + 32) * ROW + d);
#pragma unroll
            for (int j = 0; j < PER; j++) {
                float4 x = *(const float4 *)(sk + (quad_lane + 4 * j) * ROW + d);
                s[0][j] = fmaf(a.x, x.x, fmaf(a.y, x.y, fmaf(a.z, x.z, fmaf(a.w, x.w, s[0][j]))));
                s[1][j] = fmaf(b.x, x.x, fmaf(b.y, x.y, fmaf(b.z, x.z, fmaf(b.w, x.w, s[1][j]))));
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned limit = params.causal ? min(keys, kv_offset + tile + row + 32 * i + 1) : keys;
            float new_max = row_max[i], tile_sum = 0;
#pragma unroll
            for (int j = 0; j < PER; j++) {
                s[i][j] = first + quad_lane + 4 * j < limit ? s[i][j] * params.scale : -INFINITY;
                new_max = fmaxf(new_max, s[i][j]);
            }
            new_max = quad_max(new_max);
            float shift = new_max == -INFINITY ? 0.0f : new_max, rescale = exp2f(row_max[i] - shift);
            row_max[i] = new_max;
#pragma unroll
            for (int j = 0; j < PER; j++) tile_sum += s[i][j] = exp2f(s[i][j] - shift);
            row_sum[i] = fmaf(row_sum[i], rescale, tile_sum);
#pragma unroll
            for (int c = 0; c < COLUMNS * 4; c++) (&acc[i][0][0])[c] *= rescale;
        }
#pragma unroll
        for (int j = 0; j < TILE_KV; j++) {
            float a = __shfl_sync(0xffffffffu, s[0][j / 4], j % 4, 4),
                  b = __shfl_sync(0xffffffffu, s[1][j / 4], j % 4, 4);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                float4 x = *(const float4 *)(sv + j * ROW + (c * 4 + quad_lane) * 4);
                float *r = acc[0][c], *t = acc[1][c];
                r[0] = fmaf(a, x.x, r[0]), r[1] = fmaf(a, x.y, r[1]), r[2] = fmaf(a, x.z, r[2]),
                r[3] = fmaf(a, x.w, r[3]);
                t[0] = fmaf(b, x.x, t[0]), t[1] = fmaf(b, x.y, t[1]), t[2] = fmaf(b, x.z, t[2]),
                t[3] = fmaf(b, x.w, t[3]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = quad_sum(row_sum[i]);
        if (row + 32 * i >= tile_rows) continue;
        float inverse = 1.0f / all;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unsigned d = (c * 4 + quad_lane) * 4 + j;
                if (d < params.head_dim)
                    out[(row + 32 * i) * params.out_stride + d] = from_float<T>(acc[i][c][j] * inverse);
            }
    }
}

template <class T, int SIZE> static int launch(zest_cuda *cuda, const attention_params *params, dim3 grid) {
    size_t bytes = (TILE_Q + 2 * TILE_KV) * (SIZE + PAD) * sizeof(float);
    if (zest_cuda_shared(cuda, (const void *)attention_kernel<T, SIZE>, bytes, "computing attention"))
        return -1;
    attention_kernel<T, SIZE><<<grid, THREADS, bytes, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "computing attention");
}

template <class T> static int choose(zest_cuda *cuda, const attention_params *params, dim3 grid) {
    if (params->head_dim <= 32) return launch<T, 32>(cuda, params, grid);
    if (params->head_dim <= 64) return launch<T, 64>(cuda, params, grid);
    if (params->head_dim <= 128) return launch<T, 128>(cuda, params, grid);
    return launch<T, 256>(cuda, params, grid);
}

int zest_cuda_attention(const zest_attention *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!args->sequences || !args->max_queries || !args->lanes) return 0;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ATTENTION);
    int done = zest_cuda_attention_window(cuda, args);
    if (done <= 0) return done;
    done = zest_cuda_attention_sm90(cuda, args);
    if (done > 0) done = zest_cuda_attention_mma(cuda, args);
    if (done > 0) done = zest_cuda_attention_wide(cuda, args);
    if (done <= 0) return done;
    if (args->head_dim > 256)
        return zest_cuda_unsupported(cuda, "attention takes heads of at most 256 elements");
    return attention_launches(args, TILE_Q, [&](const attention_params *chunk, dim3 grid) {
        int bad = 0;
        ZEST_CUDA_DISPATCH(cuda->base.compute, T, bad = choose<T>(cuda, chunk, grid));
        return bad;
    });
}
