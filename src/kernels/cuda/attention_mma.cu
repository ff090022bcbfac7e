/* Attention on tensor cores, bf16 and fp16, for head sizes that eight divides, up to 256. No matrix of scores
 * in memory: four warps take 64 queries of a head past the keys, KEYS at a time; scores and results are fp32,
 * the probabilities are rounded to the compute's type for the second product. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

enum { QUERIES = 16 * WARPS };

/* ---- The kernel ---- */

template <class T, int SIZE, int KEYS, bool KEEP>
static __global__ void __launch_bounds__(THREADS, SIZE <= 64 ? 5 : 1)
    mma_kernel(const __grid_constant__ attention_job job) {
    extern __shared__ uint4 shared_raw[];
    const int ROW = SIZE + PAD, STEPS = SIZE / 16, TILES = KEYS / 8, COLUMNS = SIZE / 8;
    const int STAGE = 2 * KEYS * ROW; /* keys, then values; two tiles of them */
    T *stages = (T *)shared_raw, *sq = stages + (KEEP ? 1 : 2) * STAGE;
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
    unsigned warp = threadIdx.x / 32, thread = threadIdx.x % 32, across = thread % 4 * 2, down = thread / 4;

    /* Queries: in registers for good when there is room, else read again for every tile of keys. With KEEP
     * they pass through the room of the second tile, which holds QUERIES rows. */
    static_assert(!KEEP || 2 * KEYS >= QUERIES, "keys and values lend the queries their room");
    auto fetch_tile = [&](unsigned first, T *to) {
        unsigned rows = first < keys ? min(keys - first, (unsigned)KEYS) : 0;
        fetch<T, SIZE, KEYS>(to, k + first * job.kv_stride, job.kv_stride, rows, job.head_size);
        close_group();
        fetch<T, SIZE, KEYS>(to + KEYS * ROW, v + first * job.kv_stride, job.kv_stride, rows, job.head_size);
        close_group();
    };
    uint32_t fragment[KEEP ? STEPS : 1][4];
    const T *own = sq + (warp * 16 + thread % 16) * ROW + thread / 16 * 8;
    fetch<T, SIZE, QUERIES>(sq, q, job.q_stride, here, job.head_size);
    close_group();
    fetch_tile(0, stages);
    arrived<2>();
    if (KEEP) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) load4(fragment[KEEP ? i : 0], own + i * 16);
        __syncthreads();
    }

    float result[COLUMNS][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < COLUMNS * 4; i++) (&result[0][0])[i] = 0;
    unsigned seen = job.causal ? min(keys, past + tile + here) : keys;
    for (unsigned first = 0, turn = 0; first < seen; first += KEYS, turn ^= 1) {
        const T *sk = stages + turn * STAGE, *sv = sk + KEYS * ROW;
        if (first + KEYS < seen) { /* the next tile, while this one is worked on */
            fetch_tile(first + KEYS, stages + (turn ^ 1) * STAGE);
        } else {
            close_group();
            close_group();
        }
        arrived<3>();

        float s[TILES][4];
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) (&s[0][0])[i] = 0;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            uint32_t again[4], *a = fragment[KEEP ? i : 0];
            if (!KEEP) {
                load4(again, own + i * 16);
                a = again;
            }
            add_scores<T, ROW, TILES>(s, a, sk + i * 16, thread);
        }

#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned row = tile + warp * 16 + down + 8 * i;
            unsigned limit = job.causal ? min(keys, past + row + 1) : keys;
            shrink_row<COLUMNS>(result, i,
                                exponentials<TILES>(s, i, first, limit, job.scale, most[i], sum[i]));
        }
        arrived<2>();
        gather<T, ROW, TILES, COLUMNS>(result, s, sv, thread);
        __syncthreads();
    }

    /* A warp's rows, through shared memory that nobody reads any more: 16 bytes at a time are written. */
    T *mine = stages + warp * 16 * ROW;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = sum_of_four(sum[i]);
        float inverse = 1.0f / all;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            *(uint32_t *)(mine + (down + 8 * i) * ROW + j * 8 + across) =
                pack<T>(result[j][2 * i] * inverse, result[j][2 * i + 1] * inverse);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 * SIZE / 8; i += 32) {
        unsigned r = (i + thread) / (SIZE / 8), d = (i + thread) % (SIZE / 8) * 8;
        if (warp * 16 + r < here && d < job.head_size)
            *(uint4 *)(out + (warp * 16 + r) * job.out_stride + d) = *(const uint4 *)(mine + r * ROW + d);
    }
}

/* ---- Choosing one ---- */

template <class T, int SIZE, int KEYS, bool KEEP>
static int launch(zest_cuda *cuda, const attention_job *job, dim3 grid) {
    size_t bytes = (4 * KEYS + (KEEP ? 0 : QUERIES)) * (SIZE + PAD) * sizeof(T);
    if (zest_cuda_shared(cuda, (const void *)mma_kernel<T, SIZE, KEYS, KEEP>, bytes, "computing attention"))
        return -1;
    mma_kernel<T, SIZE, KEYS, KEEP><<<grid, THREADS, bytes, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "computing attention");
}

template <class T> static int choose(zest_cuda *cuda, const attention_job *job, dim3 grid) {
    if (job->head_size <= 32) return launch<T, 32, 64, true>(cuda, job, grid);
    if (job->head_size <= 64) return launch<T, 64, 64, true>(cuda, job, grid);
    if (job->head_size <= 96) return launch<T, 96, 64, true>(cuda, job, grid);
    if (job->head_size <= 128) return launch<T, 128, 64, true>(cuda, job, grid);
    return launch<T, 256, 32, false>(cuda, job, grid);
}

int zest_cuda_attention_mma(zest_cuda *cuda, const zest_attention *job) {
    uintptr_t bits = (uintptr_t)job->q | (uintptr_t)job->k | (uintptr_t)job->v | (uintptr_t)job->out;
    size_t steps =
        job->q_stride | job->kv_stride | job->out_stride | job->q_lane | job->kv_lane | job->out_lane;
    if (cuda->base.compute == ZEST_COMPUTE_F32 || job->head_dim % 8 || job->head_dim > 256 || bits % 16 ||
        steps % 8)
        return 1;
    return attention_launches(job, QUERIES, [&](const attention_job *some, dim3 grid) {
        return cuda->base.compute == ZEST_COMPUTE_BF16 ? choose<__nv_bfloat16>(cuda, some, grid)
                                                       : choose<__half>(cuda, some, grid);
    });
}
