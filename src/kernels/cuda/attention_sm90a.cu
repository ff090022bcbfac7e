/* Attention for compute capability 9.0, head dimension 64, bf16 and fp16: TMA loads, wgmma, online softmax in
 * registers. Scores and accumulators are fp32; probabilities are rounded to the compute type for the product
 * with the values.
 *
 * Persistent: a block takes one q-tile (up to 128 queries of a head) after the other and loops over the
 * k/v-tiles of its sequence, 128 keys each. Its two warp groups have 64 queries each. Thread 0 is also the
 * producer and the tile scheduler: it runs one k/v-tile ahead, which may belong to the next q-tile, and
 * leaves a record of it in shared memory. Two blocks share a multiprocessor, and one works while the other
 * waits.
 *
 * A producer warp of its own would leave the consumers 104 registers a thread, which are too few. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/sm90.cuh"

/* Coordinates of a q-tile, fastest first: heads of the same rows follow each other, those of one key head
 * first. They are counted up digit by digit, so that no thread has to divide. */
enum { HEAD_IN_GROUP, KV_HEAD, Q_TILE, SEQUENCE, LANE, COORDINATES };

struct tile_coordinates {
    unsigned at[COORDINATES]; /* LANE takes what is left; beyond the lanes there are no tiles */
};

struct sm90_attention_params {
    CUtensorMap q, k, v;
    attention_params attention;
    unsigned counts[COORDINATES]; /* Q_TILE: of the longest sequence */
};

/* The producer's record of a k/v-tile. */
struct kv_tile {
    void *out;         /* of the q-tile's first query */
    int queries;       /* of the q-tile; 0: there are no more tiles */
    int keys;          /* of this k/v-tile */
    int visible;       /* how many of them the first query attends to, at most; each further query one more */
    unsigned q_buffer; /* which of the two holds the queries */
    int first_of_q, last_of_q;
};

/* The producer's state, in shared memory because registers are short. */
struct __align__(16) scheduler_state {
    tile_coordinates next, stride; /* the q-tile, and the step to the block's next one */
    unsigned q_tiles, kv_tiles;    /* so far */
    int first_key;                 /* of the next k/v-tile */
};

enum {
    THREADS = 256,
    HEAD = 64,
    TILE = 128,           /* queries of a q-tile, keys of a k/v-tile */
    WARP_GROUP_ROWS = 64, /* queries of a warp group, rows of a TMA load */
    TMA_BYTES = WARP_GROUP_ROWS * HEAD * 2,
    TILE_BYTES = 2 * TMA_BYTES,
    STAGES = 2
};
/* Shared memory: queries of this q-tile and the next; keys and values of STAGES k/v-tiles, and the records of
 * them; the scheduler's state; mbarriers. */
enum {
    KV_AT = 2 * TILE_BYTES,
    KV_TILES_AT = KV_AT + STAGES * 2 * TILE_BYTES,
    SCHEDULER_AT = KV_TILES_AT + STAGES * (int)sizeof(kv_tile),
    FULL = SCHEDULER_AT + (int)sizeof(scheduler_state),
    EMPTY = FULL + 8 * STAGES, /* of a stage; behind the last k/v-tile of a q-tile, of the queries too */
    SHARED_BYTES = EMPTY + 8 * STAGES
};
static_assert(2 * (SHARED_BYTES + 1024) <= 228 << 10, "two blocks a multiprocessor");

__device__ __forceinline__ kv_tile *kv_tile_at(char *shared, unsigned stage) {
    return (kv_tile *)(shared + KV_TILES_AT) + stage;
}

/* ---- Tile scheduler ---- */

struct q_tile {
    int lane, head, kv_head;
    int query, queries; /* the first row, and how many there are, at most TILE; <= 0: none */
    int key, keys;      /* of the sequence */
    int visible;        /* how many keys the first query attends to, at most; each further query one more */
};

__device__ __forceinline__ tile_coordinates coordinates_of(const sm90_attention_params &params,
                                                           unsigned index) {
    tile_coordinates coordinates;
#pragma unroll
    for (int i = 0; i < LANE; i++) coordinates.at[i] = index % params.counts[i], index /= params.counts[i];
    coordinates.at[LANE] = index;
    return coordinates;
}

__device__ __forceinline__ void advance(const sm90_attention_params &params, tile_coordinates &coordinates,
                                        const tile_coordinates &stride) {
    unsigned carry = 0;
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        coordinates.at[i] += stride.at[i] + carry;
        carry = coordinates.at[i] >= params.counts[i];
        if (carry) coordinates.at[i] -= params.counts[i];
    }
    coordinates.at[LANE] += stride.at[LANE] + carry;
}

__device__ __forceinline__ q_tile q_tile_at(const sm90_attention_params &params,
                                            const tile_coordinates &coordinates) {
    const attention_params &attention = params.attention;
    const unsigned sequence = coordinates.at[SEQUENCE];
    const int first = (int)attention.q_start[sequence], all = (int)attention.q_start[sequence + 1] - first,
              tile = (int)coordinates.at[Q_TILE] * TILE;
    q_tile q;
    q.lane = (int)coordinates.at[LANE];
    q.kv_head = (int)coordinates.at[KV_HEAD];
    q.head = (int)(coordinates.at[KV_HEAD] * attention.group_size + coordinates.at[HEAD_IN_GROUP]);
    q.query = first + tile;
    q.queries = min(all - tile, (int)TILE);
    q.key = (int)attention.kv_start[sequence];
    q.keys = (int)(attention.kv_end ? attention.kv_end[sequence] : attention.kv_start[sequence + 1]) - q.key;
    q.visible = attention.causal ? q.keys - all + tile + 1 : q.keys;
    return q;
}

/* ---- Producer (thread 0) ---- */

__device__ __forceinline__ uint32_t bytes_of(int rows) {
    return rows > WARP_GROUP_ROWS ? TILE_BYTES : TMA_BYTES;
}

/* Loads 64 or 128 rows. Those beyond `rows` belong to other sequences, or are zeros beyond the matrix. */
__device__ __forceinline__ void load_rows(uint32_t to, const CUtensorMap *tensormap, uint32_t full, int head,
                                          int row, int lane, int rows) {
    tma_load(to, tensormap, full, head * HEAD, row, lane);
    if (rows > WARP_GROUP_ROWS)
        tma_load(to + TMA_BYTES, tensormap, full, head * HEAD, row + WARP_GROUP_ROWS, lane);
}

template <class T>
__device__ __forceinline__ void load_kv_tile(const sm90_attention_params &params, const q_tile &q,
                                             const scheduler_state &at, kv_tile *tile, uint32_t base,
                                             uint32_t full) {
    const attention_params &attention = params.attention;
    const uint32_t stage = base + KV_AT + at.kv_tiles % STAGES * 2 * TILE_BYTES;
    const int rows = min(q.keys - at.first_key, (int)TILE);
    tile->out =
        (T *)attention.out + q.lane * attention.out_lane + q.query * attention.out_stride + q.head * HEAD;
    tile->queries = q.queries;
    tile->keys = rows;
    tile->visible = q.visible - at.first_key;
    tile->q_buffer = at.q_tiles % 2;
    tile->first_of_q = at.first_key == 0;
    tile->last_of_q = at.first_key + TILE >= min(q.keys, q.visible + q.queries - 1);
    mbarrier_arrive_expect_tx(full, 2 * bytes_of(rows) + (tile->first_of_q ? bytes_of(q.queries) : 0));
    if (tile->first_of_q)
        load_rows(base + tile->q_buffer * TILE_BYTES, &params.q, full, q.head, q.query, q.lane, q.queries);
    load_rows(stage, &params.k, full, q.kv_head, q.key + at.first_key, q.lane, rows);
    load_rows(stage + TILE_BYTES, &params.v, full, q.kv_head, q.key + at.first_key, q.lane, rows);
}

/* Loads the next k/v-tile, and the queries with the first one of a q-tile. The block is done with the stage,
 * or will be without this thread. */
template <class T>
__device__ __forceinline__ void load_next(const sm90_attention_params &params, char *shared, uint32_t base) {
    scheduler_state at = *(scheduler_state *)(shared + SCHEDULER_AT);
    const unsigned stage = at.kv_tiles % STAGES, phase = at.kv_tiles / STAGES % 2;
    const uint32_t full = base + FULL + 8 * stage;
    kv_tile *tile = kv_tile_at(shared, stage);
    q_tile q;
    for (; at.next.at[LANE] < params.counts[LANE]; advance(params, at.next, at.stride))
        if ((q = q_tile_at(params, at.next)).queries > 0) break; /* else the sequence is shorter */
    mbarrier_wait(base + EMPTY + 8 * stage, phase ^ 1);
    if (at.next.at[LANE] >= params.counts[LANE]) {
        tile->queries = 0;
        mbarrier_arrive(full);
        return;
    }
    load_kv_tile<T>(params, q, at, tile, base, full);
    at.kv_tiles++;
    at.first_key += TILE;
    if (tile->last_of_q) {
        at.first_key = 0, at.q_tiles++;
        advance(params, at.next, at.stride);
    }
    *(scheduler_state *)(shared + SCHEDULER_AT) = at;
}

/* ---- Consumers (two warp groups) ---- */

/* Of 64 queries. A thread has two rows, 8 apart, and two columns of every eight. */
struct softmax_state {
    float acc[HEAD / 2], row_max[2], row_sum[2]; /* row_sum: over the thread's columns */
};

__device__ __forceinline__ void reset(softmax_state &state) {
#pragma unroll
    for (int i = 0; i < HEAD / 2; i++) state.acc[i] = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) state.row_max[i] = -INFINITY, state.row_sum[i] = 0;
}

/* Scores of row i of a thread's two become probabilities; keys from `limit` on are masked. Rescales the
 * accumulators. */
template <int KEYS>
__device__ __forceinline__ void online_softmax(float s[KEYS / 2], int i, int limit, float scale,
                                               softmax_state &state) {
    float new_max = state.row_max[i];
    if (limit < KEYS) {
        const int first = (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (j * 8 + c >= limit - first) s[4 * j + 2 * i + c] = -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
        new_max = fmaxf(new_max, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
    new_max = quad_max(new_max);
    const float scaled_max = new_max == -INFINITY ? 0.0f : new_max * scale;
    const float rescale = exp2_fast(fmaf(state.row_max[i], scale, -scaled_max));
    float tile_sum[2] = {0, 0};
    state.row_max[i] = new_max;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float &x = s[4 * j + 2 * i + c];
            tile_sum[c] += x = exp2_fast(fmaf(x, scale, -scaled_max));
        }
    state.row_sum[i] = fmaf(state.row_sum[i], rescale, tile_sum[0] + tile_sum[1]);
#pragma unroll
    for (int j = 0; j < HEAD / 8; j++)
        state.acc[4 * j + 2 * i] *= rescale, state.acc[4 * j + 2 * i + 1] *= rescale;
}

/* 64 queries and KEYS keys and values; row i of a thread's two attends to the first limit[i] keys. */
template <class T, int KEYS>
__device__ __forceinline__ void process_tile(uint32_t queries, uint32_t stage, const int limit[2],
                                             float scale, softmax_state &state) {
    const uint64_t q = smem_descriptor(queries), k = smem_descriptor(stage),
                   v = smem_descriptor(stage + TILE_BYTES);
    float s[KEYS / 2];
    uint32_t p[KEYS / 4]; /* accumulators of q k' have the layout of the A operand of p v */
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < HEAD / 16; i++)
        wgmma<T, KEYS>(s, q + 2 * i, k + 2 * i, i); /* 16 columns are 32 bytes */
    wgmma_commit();
    wgmma_wait_all<KEYS / 2>(s);
#pragma unroll
    for (int i = 0; i < 2; i++) online_softmax<KEYS>(s, i, limit[i], scale, state);
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) p[i] = pack<T>(s[2 * i], s[2 * i + 1]);
    fence_operand<KEYS / 4>(p);
    fence_operand<HEAD / 2>(state.acc);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++) /* 16 rows are 2048 bytes */
        wgmma_rs<T>(state.acc, p + 4 * i, v + 128 * i);
    wgmma_commit();
    wgmma_wait_all<HEAD / 2>(state.acc);
}

/* threadIdx.x, read again: so that what follows from it is not kept in registers during the wgmmas. */
__device__ __forceinline__ unsigned reload_thread_index() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* Zeroes the values beyond the sequence's keys: they may be NaN, and 0 times NaN is NaN. Keys beyond need not
 * be zero, since their scores are masked. By all threads. */
__device__ __forceinline__ void clear_tail(char *values, int rows) {
    const int end = rows > WARP_GROUP_ROWS ? TILE : WARP_GROUP_ROWS;
    for (int i = rows * 8 + (int)threadIdx.x; i < end * 8; i += THREADS)
        ((uint4 *)values)[i] = make_uint4(0, 0, 0, 0);
    fence_proxy_async();
    __syncthreads();
}

/* A warp's 16 rows, normalised and rounded, go to shared memory in place of its queries and from there to
 * global memory 16 bytes at a time. A TMA store would overwrite the next sequence's rows. */
template <class T>
__device__ __forceinline__ void store_output(char *buffer, T *out, size_t stride, int rows,
                                             softmax_state &state) {
    const unsigned thread = reload_thread_index() % 32, row = thread % 16;
    const uint32_t to = shared_address(buffer) + row * 128;
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = quad_sum(state.row_sum[i]);
        inverse[i] = all == 0.0f ? 0.0f : 1.0f / all; /* no keys: 0 */
    }
#pragma unroll
    for (int i = 0; i < HEAD / 16; i++) {
        uint32_t r[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            r[j] = pack<T>(state.acc[8 * i + 2 * j] * inverse[j % 2],
                           state.acc[8 * i + 2 * j + 1] * inverse[j % 2]);
        stmatrix(to + ((2 * i + thread / 16) ^ row % 8) * 16, r);
    }
    __syncwarp();
    const unsigned row_in_warp = thread / 8, vector = thread % 8; /* 8 threads for a row */
    uint4 vectors[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        vectors[i] = *(const uint4 *)(buffer + (4 * i + row_in_warp) * 128 +
                                      (vector ^ (4 * i + row_in_warp) % 8) * 16);
    fence_proxy_async(); /* before the global stores, for which it would wait */
#pragma unroll
    for (int i = 0; i < 4; i++)
        if ((int)(4 * i + row_in_warp) < rows)
            *(uint4 *)(out + (4 * i + row_in_warp) * stride + vector * 8) = vectors[i];
}

/* ---- The kernel ---- */

__device__ __forceinline__ void init(const sm90_attention_params &params, char *shared, uint32_t base) {
    if (threadIdx.x == 0) {
        *(scheduler_state *)(shared + SCHEDULER_AT) = {coordinates_of(params, blockIdx.x),
                                                       coordinates_of(params, gridDim.x), 0, 0, 0};
        prefetch_tensormap(&params.q);
        prefetch_tensormap(&params.k);
        prefetch_tensormap(&params.v);
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(base + FULL + 8 * i, 1);
            mbarrier_init(base + EMPTY + 8 * i, THREADS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
}

/* A warp group's part of a k/v-tile. */
template <class T>
__device__ __forceinline__ void consume(const sm90_attention_params &params, const kv_tile *tile,
                                        char *shared, uint32_t stage, softmax_state &state) {
    const int group = (int)threadIdx.x / 128, first = group * WARP_GROUP_ROWS;
    const int rows = min(tile->queries - first, (int)WARP_GROUP_ROWS), visible = tile->visible + first;
    if (rows <= 0) return;
    if (tile->first_of_q) reset(state);
    const int row = (int)threadIdx.x / 32 % 4 * 16 + (int)threadIdx.x % 32 / 4;
    const int limit[2] = {min(tile->keys, visible + row), min(tile->keys, visible + row + 8)};
    const int kv_limit = min(tile->keys, visible + rows - 1);
    const uint32_t q = shared_address(shared) + tile->q_buffer * TILE_BYTES + first * 128;
    if (kv_limit > WARP_GROUP_ROWS)
        process_tile<T, TILE>(q, stage, limit, params.attention.scale, state);
    else if (kv_limit > 0)
        process_tile<T, WARP_GROUP_ROWS>(q, stage, limit, params.attention.scale, state);
    if (!tile->last_of_q) return;
    named_barrier_sync(1 + group, 128); /* the whole warp group is done with the queries */
    const int own = (int)reload_thread_index() / 32 * 16;
    store_output<T>(shared + tile->q_buffer * TILE_BYTES + own * 128,
                    (T *)tile->out + own * params.attention.out_stride, params.attention.out_stride,
                    tile->queries - own, state);
}

template <class T>
static __global__ void __launch_bounds__(THREADS, 2)
    attention_sm90_kernel(const __grid_constant__ sm90_attention_params params) {
    extern __shared__ __align__(1024) char shared[]; /* the swizzle needs 1024 */
    const uint32_t base = shared_address(shared);
    softmax_state state;
    init(params, shared, base);
    if (threadIdx.x == 0) load_next<T>(params, shared, base);
#pragma unroll 1
    for (unsigned iteration = 0;; iteration++) {
        const unsigned stage = iteration % STAGES, kv_offset = KV_AT + stage * 2 * TILE_BYTES;
        const kv_tile *tile = kv_tile_at(shared, stage);
        mbarrier_wait(base + FULL + 8 * stage, iteration / STAGES % 2);
        if (!tile->queries) break;
        if (tile->keys % WARP_GROUP_ROWS) clear_tail(shared + kv_offset + TILE_BYTES, tile->keys);
        if (threadIdx.x == 0) load_next<T>(params, shared, base);
        __syncwarp();
        consume<T>(params, tile, shared, base + kv_offset, state);
        mbarrier_arrive(base + EMPTY + 8 * stage); /* each thread for its own reads and writes */
    }
}

/* ---- Launch ---- */

#if defined ZEST_SM90A && CUDART_VERSION >= 12050

/* With 64 queries or fewer, half of a block would have nothing to do. */
static int is_supported(const zest_cuda *cuda, const zest_attention *args) {
    const size_t most = (size_t)1 << 30;
    return cuda->encode_tensormap && cuda->base.compute != ZEST_COMPUTE_F32 && args->head_dim == HEAD &&
           args->max_queries > WARP_GROUP_ROWS && args->rows && args->rows < most && args->kv_rows &&
           args->kv_rows < most && (args->lanes == 1 || (args->q_lane && args->kv_lane)) &&
           tma_aligned(args->q, args->q_stride, (int64_t)args->q_lane) &&
           tma_aligned(args->k, args->kv_stride, (int64_t)args->kv_lane) &&
           tma_aligned(args->v, args->kv_stride, (int64_t)args->kv_lane) &&
           tma_aligned(args->out, args->out_stride, (int64_t)args->out_lane);
}

/* Non-zero: the driver refused a TMA descriptor. */
static int make_params(const zest_cuda *cuda, const zest_attention *args, sm90_attention_params *params) {
    const int lanes = (int)args->lanes;
    const size_t columns = args->kv_heads * HEAD;
    params->attention = attention_params_of(args);
    params->counts[HEAD_IN_GROUP] = (unsigned)(args->heads / args->kv_heads);
    params->counts[KV_HEAD] = (unsigned)args->kv_heads;
    params->counts[Q_TILE] = zest_cuda_blocks(args->max_queries, TILE);
    params->counts[SEQUENCE] = (unsigned)args->sequences;
    params->counts[LANE] = (unsigned)args->lanes;
    return make_tensormap(cuda, &params->q, args->q, args->rows, args->heads * HEAD, args->q_stride, lanes,
                          (int64_t)args->q_lane, WARP_GROUP_ROWS) ||
           make_tensormap(cuda, &params->k, args->k, args->kv_rows, columns, args->kv_stride, lanes,
                          (int64_t)args->kv_lane, WARP_GROUP_ROWS) ||
           make_tensormap(cuda, &params->v, args->v, args->kv_rows, columns, args->kv_stride, lanes,
                          (int64_t)args->kv_lane, WARP_GROUP_ROWS);
}

template <class T> static int launch(zest_cuda *cuda, const sm90_attention_params *params) {
    const size_t most = 2 * (size_t)cuda->sm_count;
    size_t tiles = 1;
    for (int i = 0; i < COORDINATES; i++) tiles *= params->counts[i];
    if (zest_cuda_failed(cuda,
                         cudaFuncSetAttribute(attention_sm90_kernel<T>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
                         "computing attention"))
        return -1;
    const unsigned blocks = (unsigned)(tiles < most ? tiles : most);
    attention_sm90_kernel<T><<<blocks, THREADS, SHARED_BYTES, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "computing attention") ? -1 : 0;
}

int zest_cuda_attention_sm90(zest_cuda *cuda, const zest_attention *args) {
    sm90_attention_params params = {};
    if (!is_supported(cuda, args) || make_params(cuda, args, &params)) return 1;
    return cuda->base.compute == ZEST_COMPUTE_BF16 ? launch<__nv_bfloat16>(cuda, &params)
                                                   : launch<__half>(cuda, &params);
}

#else

int zest_cuda_attention_sm90(zest_cuda *, const zest_attention *) { return 1; }

#endif
