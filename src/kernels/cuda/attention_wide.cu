/* Attention of heads wider than 256 whose values are their keys and which all look at the same ones
 * (model/attention.c), on tensor cores, bf16 and fp16. Rows of queries are rows of one head each. A block takes
 * 16 of them past the keys, KEYS at a time, and its warps share the columns: each multiplies its own ones of
 * queries and keys, the parts of the scores meet in shared memory, and each makes its columns of the result.
 * So a key is read once. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

enum { ROWS = 16, SLICES = 8, BLOCK = 32 * SLICES };

/* Rows of a tile, a warp each; what is beyond the rows or the head is 0. */
template <class T, int SIZE, int COUNT>
__device__ __forceinline__ void fetch_rows(T *to, const T *from, size_t stride, unsigned rows,
                                           unsigned head_size) {
#pragma unroll
    for (int i = 0; i < COUNT; i += SLICES) {
        const unsigned r = i + threadIdx.x / 32, d = threadIdx.x % 32 * 8;
        const T *row = from + r * stride + d;
#pragma unroll
        for (int c = 0; c < SIZE; c += 256)
            copy_cells(to + r * (SIZE + PAD) + d + c, row + c, r < rows && d + c < head_size, from);
    }
    close_group();
}

/* All warps' parts, added up in one order; every thread has the same places of them in every warp. */
template <int TILES> __device__ __forceinline__ void add_parts(float2 *parts, float s[TILES][4]) {
    float2 *own = parts + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++)
        own[(threadIdx.x / 32 * 2 * TILES + i) * 32] = make_float2((&s[0][0])[2 * i], (&s[0][0])[2 * i + 1]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++) {
        float2 sum = own[i * 32];
#pragma unroll
        for (int w = 1; w < SLICES; w++) {
            const float2 part = own[(w * 2 * TILES + i) * 32];
            sum.x += part.x, sum.y += part.y;
        }
        (&s[0][0])[2 * i] = sum.x, (&s[0][0])[2 * i + 1] = sum.y;
    }
}

/* ---- The kernel ---- */

template <class T, int SIZE, int KEYS>
static __global__ void __launch_bounds__(BLOCK, SIZE <= 1024 ? 2 : 1)
    wide_kernel(const __grid_constant__ attention_job job, unsigned heads) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, OWN = SIZE / SLICES, STEPS = OWN / 16, COLUMNS = OWN / 8, TILES = KEYS / 8;
    T *stages = (T *)shared_raw; /* two tiles of keys */
    float2 *parts = (float2 *)(stages + 2 * KEYS * ROW);
    const unsigned sequence = blockIdx.z / job.lanes, lane = blockIdx.z % job.lanes;
    const unsigned q0 = job.q_start[sequence], queries = job.q_start[sequence + 1] - q0;
    const unsigned tile = blockIdx.x * ROWS, thread = threadIdx.x % 32, column = threadIdx.x / 32 * OWN;
    if (tile >= queries * heads) return;
    const unsigned here = min(queries * heads - tile, (unsigned)ROWS), k0 = job.kv_start[sequence];
    const unsigned keys = (job.kv_end ? job.kv_end[sequence] : job.kv_start[sequence + 1]) - k0;
    const unsigned past = keys - queries;
    const size_t at = ((size_t)q0 * heads + tile) * job.head_size;
    const T *k = (const T *)job.k + lane * job.kv_lane + k0 * job.kv_stride;
    /* Keys. */
    auto seen_by = [&](unsigned row) {
        return job.causal ? min(keys, past + (tile + row) / heads + 1) : keys;
    };
    auto fetch_tile = [&](unsigned first, T *to) {
        const unsigned rows = first < keys ? min(keys - first, (unsigned)KEYS) : 0;
        fetch_rows<T, SIZE, KEYS>(to, k + first * job.kv_stride, job.kv_stride, rows, job.head_size);
    };

    /* Queries pass through the second tile's room into registers. */
    static_assert(KEYS >= ROWS, "a tile of keys lends the queries its room");
    uint32_t fragment[STEPS][4];
    fetch_rows<T, SIZE, ROWS>(stages + KEYS * ROW, (const T *)job.q + lane * job.q_lane + at, job.head_size,
                              here, job.head_size);
    fetch_tile(0, stages);
    arrived<1>();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        load4(fragment[i], stages + (KEYS + thread % 16) * ROW + column + i * 16 + thread / 16 * 8);
    __syncthreads();

    const unsigned limit[2] = {seen_by(thread / 4), seen_by(thread / 4 + 8)}, seen = seen_by(here - 1);
    float result[COLUMNS][4], s[TILES][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&result[0][0])[i] = 0;
    for (unsigned first = 0, turn = 0; first < seen; first += KEYS, turn ^= 1) {
        const T *here_keys = stages + turn * KEYS * ROW + column;
        if (first + KEYS < seen) /* the next tile, while this one is worked on */
            fetch_tile(first + KEYS, stages + (turn ^ 1) * KEYS * ROW);
        else
            close_group();
        arrived<1>();
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) (&s[0][0])[i] = 0;
#pragma unroll
        for (int i = 0; i < STEPS; i++) add_scores<T, ROW, TILES>(s, fragment[i], here_keys + i * 16, thread);
        add_parts<TILES>(parts, s);
#pragma unroll
        for (int i = 0; i < 2; i++)
            shrink_row<COLUMNS>(result, i,
                                exponentials<TILES>(s, i, first, limit[i], job.scale, most[i], sum[i]));
        gather<T, ROW, TILES, COLUMNS>(result, s, here_keys, thread);
        __syncthreads();
    }
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float all = sum_of_four(sum[i]);
        inverse[i] = all == 0 ? 0.0f : 1.0f / all;
    }
    store_rows<T, COLUMNS>((T *)job.out + lane * job.out_lane + at + column, job.head_size, result, inverse,
                           0, here, job.head_size > column ? job.head_size - column : 0, thread);
}

/* ---- Choosing one ---- */

template <int SIZE> constexpr int keys_for() { return SIZE <= 512 ? 32 : 16; }

template <class T, int SIZE> static size_t shared_for() {
    return 2 * keys_for<SIZE>() * (SIZE + PAD) * sizeof(T) +
           (size_t)SLICES * (keys_for<SIZE>() / 8) * 2 * 32 * sizeof(float2);
}

template <class T, int SIZE>
static int launch(zest_cuda *cuda, const attention_job *job, unsigned heads, dim3 grid) {
    const size_t bytes = shared_for<T, SIZE>();
    if (zest_cuda_shared(cuda, (const void *)wide_kernel<T, SIZE, keys_for<SIZE>()>, bytes,
                         "computing attention"))
        return -1;
    wide_kernel<T, SIZE, keys_for<SIZE>()><<<grid, BLOCK, bytes, cuda->stream>>>(*job, heads);
    return zest_cuda_launched(cuda, "computing attention");
}

template <class T> static int choose(zest_cuda *cuda, const attention_job *job, unsigned heads, dim3 grid) {
    if (job->head_size <= 512) return launch<T, 512>(cuda, job, heads, grid);
    if (job->head_size <= 768) return launch<T, 768>(cuda, job, heads, grid);
    if (job->head_size <= 1024) return launch<T, 1024>(cuda, job, heads, grid);
    return launch<T, 2048>(cuda, job, heads, grid);
}

size_t zest_cuda_attention_widest(const zest_cuda *cuda) {
    if (cuda->base.compute == ZEST_COMPUTE_F32) return 256;
    if (shared_for<__half, 2048>() <= cuda->shared_most) return 2048;
    if (shared_for<__half, 1024>() <= cuda->shared_most) return 1024;
    return shared_for<__half, 512>() <= cuda->shared_most ? 512 : 256;
}

int zest_cuda_attention_wide(zest_cuda *cuda, const zest_attention *job) {
    const uintptr_t bits = (uintptr_t)job->q | (uintptr_t)job->k | (uintptr_t)job->out;
    const size_t steps = job->head_dim | job->kv_stride | job->q_lane | job->kv_lane | job->out_lane;
    const size_t side = job->heads * job->head_dim;
    if (job->head_dim <= 256 || job->head_dim > zest_cuda_attention_widest(cuda) || job->v != job->k ||
        job->kv_heads != 1 || job->q_stride != side || job->out_stride != side || bits % 16 || steps % 8)
        return 1;
    zest_attention rows = *job; /* a head each */
    rows.max_queries *= job->heads, rows.heads = 1;
    return attention_launches(&rows, ROWS, [&](const attention_job *some, dim3 grid) {
        const unsigned heads = (unsigned)job->heads;
        return cuda->base.compute == ZEST_COMPUTE_BF16 ? choose<__nv_bfloat16>(cuda, some, heads, grid)
                                                       : choose<__half>(cuda, some, heads, grid);
    });
}
