/* Attention on compute capability 9.0 for heads of 64, bf16 and fp16: scores and results are fp32 and stay in
 * registers, the probabilities are rounded to the compute's type for the second product.
 *
 * A unit of work is up to 128 queries of a head. A block takes one unit after the other past the keys of its
 * sequence, a piece of 128 keys at a time; each of its two groups of four warps has 64 of the queries. Thread
 * 0 walks ahead: it fetches the next piece, which may belong to the next unit, while the block works on this
 * one, and leaves a note of what it is. Two blocks share a processor: what one waits for, the other uses.
 *
 * Warps of their own for the fetching would leave the others 104 registers a thread, which are too few. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/sm90.cuh"
#include "kernels/cuda/cuda.h"

/* A unit's number, digit by digit, so that nobody has to divide. The heads of the same rows come one after
 * the other; those that share a key head first. */
enum { MEMBER, KV_HEAD, TILE, SEQUENCE, LANE, DIGITS };

struct attention_place {
    unsigned at[DIGITS]; /* LANE: whatever is left; beyond the lanes there are no units */
};

struct attention_work {
    CUtensorMap q, k, v;
    attention_job job;
    unsigned counts[DIGITS]; /* TILE: of the longest sequence */
};

/* What a block has in shared memory while it works on a piece. */
struct attention_piece {
    void *out;        /* of the first query */
    int queries;      /* of the unit; 0: there are no more pieces */
    int keys;         /* of this piece */
    int reach;        /* so many of them the first query sees, or fewer; each further query one more */
    unsigned room;    /* of the queries */
    int begins, ends; /* the unit */
};

/* Where thread 0 is: the next piece. In shared memory too, since nobody has registers to spare for it. */
struct __align__(16) attention_walk {
    attention_place unit, step; /* step: to the block's next unit */
    unsigned units, pieces;     /* so far */
    int first;                  /* key */
};

enum {
    THREADS = 256,
    HEAD = 64,
    ROWS = 128, /* queries of a unit, keys of a piece */
    HALF = 64,  /* of a group; what a copy fetches */
    HALF_BYTES = HALF * HEAD * 2,
    TILE_BYTES = 2 * HALF_BYTES,
    STAGES = 2
};
/* Places in shared memory: queries of this unit and the next; keys and values of STAGES pieces, and notes of
 * what they are; barriers. */
enum {
    STAGES_AT = 2 * TILE_BYTES,
    PIECES_AT = STAGES_AT + STAGES * 2 * TILE_BYTES,
    WALK_AT = PIECES_AT + STAGES * (int)sizeof(attention_piece),
    FULL = WALK_AT + (int)sizeof(attention_walk),
    EMPTY = FULL + 8 * STAGES, /* of the stage; behind the last piece of a unit, of its queries too */
    SHARED_BYTES = EMPTY + 8 * STAGES
};
static_assert(2 * (SHARED_BYTES + 1024) <= 228 << 10, "two blocks a processor");

__device__ __forceinline__ attention_piece *piece_at(char *shared, unsigned stage) {
    return (attention_piece *)(shared + PIECES_AT) + stage;
}

/* ---- Units ---- */

struct attention_unit {
    int lane, head, kv_head;
    int query, queries; /* the first row, and how many at most ROWS there are; none: <= 0 */
    int key, keys;      /* of its sequence */
    int reach;          /* so many keys the first query sees, or fewer; each further query one more */
};

__device__ __forceinline__ attention_place place_of(const attention_work &work, unsigned number) {
    attention_place place;
#pragma unroll
    for (int i = 0; i < LANE; i++) place.at[i] = number % work.counts[i], number /= work.counts[i];
    place.at[LANE] = number;
    return place;
}

__device__ __forceinline__ void move_on(const attention_work &work, attention_place &place,
                                        const attention_place &step) {
    unsigned carry = 0;
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        place.at[i] += step.at[i] + carry;
        carry = place.at[i] >= work.counts[i];
        if (carry) place.at[i] -= work.counts[i];
    }
    place.at[LANE] += step.at[LANE] + carry;
}

__device__ __forceinline__ attention_unit unit_at(const attention_work &work, const attention_place &place) {
    const attention_job &job = work.job;
    const unsigned sequence = place.at[SEQUENCE];
    const int first = (int)job.q_start[sequence], all = (int)job.q_start[sequence + 1] - first,
              tile = (int)place.at[TILE] * ROWS;
    attention_unit u;
    u.lane = (int)place.at[LANE];
    u.kv_head = (int)place.at[KV_HEAD];
    u.head = (int)(place.at[KV_HEAD] * job.group + place.at[MEMBER]);
    u.query = first + tile;
    u.queries = min(all - tile, (int)ROWS);
    u.key = (int)job.kv_start[sequence];
    u.keys = (int)(job.kv_end ? job.kv_end[sequence] : job.kv_start[sequence + 1]) - u.key;
    u.reach = job.causal ? u.keys - all + tile + 1 : u.keys;
    return u;
}

/* ---- Thread 0 walks ahead ---- */

__device__ __forceinline__ uint32_t bytes_of(int rows) { return rows > HALF ? TILE_BYTES : HALF_BYTES; }

/* Of what lies behind the rows, some comes along: rows of others, or zeros behind the last one there is. */
__device__ __forceinline__ void fetch_rows(uint32_t to, const CUtensorMap *map, uint32_t full, int head,
                                           int row, int lane, int rows) {
    tile_load(to, map, full, head * HEAD, row, lane);
    if (rows > HALF) tile_load(to + HALF_BYTES, map, full, head * HEAD, row + HALF, lane);
}

template <class T>
__device__ __forceinline__ void fetch_piece(const attention_work &work, const attention_unit &u,
                                            const attention_walk &at, attention_piece *piece, uint32_t base,
                                            uint32_t full) {
    const attention_job &job = work.job;
    const uint32_t stage = base + STAGES_AT + at.pieces % STAGES * 2 * TILE_BYTES;
    const int rows = min(u.keys - at.first, (int)ROWS);
    piece->out = (T *)job.out + u.lane * job.out_lane + u.query * job.out_stride + u.head * HEAD;
    piece->queries = u.queries;
    piece->keys = rows;
    piece->reach = u.reach - at.first;
    piece->room = at.units % 2;
    piece->begins = at.first == 0;
    piece->ends = at.first + ROWS >= min(u.keys, u.reach + u.queries - 1);
    barrier_arrive_expecting(full, 2 * bytes_of(rows) + (piece->begins ? bytes_of(u.queries) : 0));
    if (piece->begins)
        fetch_rows(base + piece->room * TILE_BYTES, &work.q, full, u.head, u.query, u.lane, u.queries);
    fetch_rows(stage, &work.k, full, u.kv_head, u.key + at.first, u.lane, rows);
    fetch_rows(stage + TILE_BYTES, &work.v, full, u.kv_head, u.key + at.first, u.lane, rows);
}

/* The block is done with the piece before last, or will be without this thread's help. */
template <class T>
__device__ __forceinline__ void fetch_next(const attention_work &work, char *shared, uint32_t base) {
    attention_walk at = *(attention_walk *)(shared + WALK_AT);
    const unsigned stage = at.pieces % STAGES, phase = at.pieces / STAGES % 2;
    const uint32_t full = base + FULL + 8 * stage;
    attention_piece *piece = piece_at(shared, stage);
    attention_unit u;
    for (; at.unit.at[LANE] < work.counts[LANE]; move_on(work, at.unit, at.step))
        if ((u = unit_at(work, at.unit)).queries > 0) break; /* else its sequence is a shorter one */
    barrier_wait(base + EMPTY + 8 * stage, phase ^ 1);
    if (at.unit.at[LANE] >= work.counts[LANE]) {
        piece->queries = 0;
        barrier_arrive(full);
        return;
    }
    fetch_piece<T>(work, u, at, piece, base, full);
    at.pieces++;
    at.first += ROWS;
    if (piece->ends) {
        at.first = 0, at.units++;
        move_on(work, at.unit, at.step);
    }
    *(attention_walk *)(shared + WALK_AT) = at;
}

/* ---- A group's products ---- */

/* What 64 queries have so far. A thread has two rows, 8 apart, and two columns of every eight. */
struct attention_sums {
    float result[HEAD / 2], most[2], sum[2];
};

__device__ __forceinline__ void sums_begin(attention_sums &sums) {
#pragma unroll
    for (int i = 0; i < HEAD / 2; i++) sums.result[i] = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) sums.most[i] = -INFINITY, sums.sum[i] = 0;
}

/* Scores of row i of a thread's two become probabilities, of which the first `limit` are not 0. */
template <int KEYS>
__device__ __forceinline__ void soften(float s[KEYS / 2], int i, int limit, float scale,
                                       attention_sums &sums) {
    float top = sums.most[i];
    if (limit < KEYS) {
        const int first = (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (j * 8 + c >= limit - first) s[4 * j + 2 * i + c] = -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) top = fmaxf(top, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
    top = most_of_four(top);
    const float safe = top == -INFINITY ? 0.0f : top * scale;
    const float shrink = exp2_fast(fmaf(sums.most[i], scale, -safe));
    float add[2] = {0, 0};
    sums.most[i] = top;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float &x = s[4 * j + 2 * i + c];
            add[c] += x = exp2_fast(fmaf(x, scale, -safe));
        }
    sums.sum[i] = fmaf(sums.sum[i], shrink, add[0] + add[1]);
#pragma unroll
    for (int j = 0; j < HEAD / 8; j++)
        sums.result[4 * j + 2 * i] *= shrink, sums.result[4 * j + 2 * i + 1] *= shrink;
}

/* 64 queries and KEYS keys and values; row i of a thread's two sees the first limit[i] of them. */
template <class T, int KEYS>
__device__ __forceinline__ void attend(uint32_t queries, uint32_t stage, const int limit[2], float scale,
                                       attention_sums &sums) {
    const uint64_t q = operand_at(queries), k = operand_at(stage), v = operand_at(stage + TILE_BYTES);
    float s[KEYS / 2];
    uint32_t p[KEYS / 4]; /* as the sums of the first product lie, the second wants its rows */
    products_begin();
#pragma unroll
    for (int i = 0; i < HEAD / 16; i++)
        product<T, KEYS>(s, q + 2 * i, k + 2 * i, i); /* 16 columns: 32 bytes */
    products_close();
    products_finish<KEYS / 2>(s);
#pragma unroll
    for (int i = 0; i < 2; i++) soften<KEYS>(s, i, limit[i], scale, sums);
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) p[i] = pack<T>(s[2 * i], s[2 * i + 1]);
    hold<KEYS / 4>(p);
    hold<HEAD / 2>(sums.result);
    products_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++) /* 16 rows: 2048 bytes */
        product_down<T>(sums.result, p + 4 * i, v + 128 * i);
    products_close();
    products_finish<HEAD / 2>(sums.result);
}

/* ---- Before and after ---- */

/* threadIdx.x, read anew: what follows from it is not kept in registers while the products need them. */
__device__ __forceinline__ unsigned thread_again() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* Values behind the sequence's keys are somebody else's, or nobody's: they may be NaN, which a probability of
 * 0 would not take away, so that they are overwritten. Keys need not be: their scores are. By all threads. */
__device__ __forceinline__ void clear_rest(char *values, int rows) {
    const int end = rows > HALF ? ROWS : HALF;
    for (int i = rows * 8 + (int)threadIdx.x; i < end * 8; i += THREADS)
        ((uint4 *)values)[i] = make_uint4(0, 0, 0, 0);
    writes_for_copies();
    __syncthreads();
}

/* A warp's 16 rows, rounded, over its queries, which nobody needs any more, and from there to memory 16 bytes
 * at a time. Copies of whole tiles would overwrite the next sequence's rows. */
template <class T>
__device__ __forceinline__ void put(char *room, T *out, size_t stride, int rows, attention_sums &sums) {
    const unsigned thread = thread_again() % 32, row = thread % 16;
    const uint32_t to = shared_address(room) + row * 128;
    float inverse[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float all = sum_of_four(sums.sum[i]);
        inverse[i] = all == 0.0f ? 0.0f : 1.0f / all; /* without keys: 0 */
    }
#pragma unroll
    for (int i = 0; i < HEAD / 16; i++) {
        uint32_t r[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            r[j] = pack<T>(sums.result[8 * i + 2 * j] * inverse[j % 2],
                           sums.result[8 * i + 2 * j + 1] * inverse[j % 2]);
        fragment_store(to + ((2 * i + thread / 16) ^ row % 8) * 16, r);
    }
    __syncwarp();
    const unsigned down = thread / 8, across = thread % 8; /* 8 threads a row */
    uint4 cells[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        cells[i] = *(const uint4 *)(room + (4 * i + down) * 128 + (across ^ (4 * i + down) % 8) * 16);
    writes_for_copies(); /* before the stores, for which it would wait */
#pragma unroll
    for (int i = 0; i < 4; i++)
        if ((int)(4 * i + down) < rows) *(uint4 *)(out + (4 * i + down) * stride + across * 8) = cells[i];
}

/* ---- All of it ---- */

__device__ __forceinline__ void begin(const attention_work &work, char *shared, uint32_t base) {
    if (threadIdx.x == 0) {
        *(attention_walk *)(shared + WALK_AT) = {place_of(work, blockIdx.x), place_of(work, gridDim.x), 0, 0,
                                                 0};
        tile_prefetch_map(&work.q);
        tile_prefetch_map(&work.k);
        tile_prefetch_map(&work.v);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(base + FULL + 8 * i, 1);
            barrier_init(base + EMPTY + 8 * i, THREADS);
        }
        barrier_init_done();
    }
    __syncthreads();
}

/* A group's share of a piece. */
template <class T>
__device__ __forceinline__ void take(const attention_work &work, const attention_piece *piece, char *shared,
                                     uint32_t stage, attention_sums &sums) {
    const int group = (int)threadIdx.x / 128, first = group * HALF;
    const int here = min(piece->queries - first, (int)HALF), reach = piece->reach + first;
    if (here <= 0) return;
    if (piece->begins) sums_begin(sums);
    const int row = (int)threadIdx.x / 32 % 4 * 16 + (int)threadIdx.x % 32 / 4;
    const int limit[2] = {min(piece->keys, reach + row), min(piece->keys, reach + row + 8)};
    const int seen = min(piece->keys, reach + here - 1);
    const uint32_t q = shared_address(shared) + piece->room * TILE_BYTES + first * 128;
    if (seen > HALF)
        attend<T, ROWS>(q, stage, limit, work.job.scale, sums);
    else if (seen > 0)
        attend<T, HALF>(q, stage, limit, work.job.scale, sums);
    if (!piece->ends) return;
    some_sync(1 + group, 128); /* all four warps are done with the queries */
    const int own = (int)thread_again() / 32 * 16;
    put<T>(shared + piece->room * TILE_BYTES + own * 128, (T *)piece->out + own * work.job.out_stride,
           work.job.out_stride, piece->queries - own, sums);
}

template <class T>
static __global__ void __launch_bounds__(THREADS, 2)
    attention_hopper_kernel(const __grid_constant__ attention_work work) {
    extern __shared__ __align__(1024) char shared[]; /* which the swizzle counts from */
    const uint32_t base = shared_address(shared);
    attention_sums sums;
    begin(work, shared, base);
    if (threadIdx.x == 0) fetch_next<T>(work, shared, base);
#pragma unroll 1
    for (unsigned turn = 0;; turn++) {
        const unsigned stage = turn % STAGES, place = STAGES_AT + stage * 2 * TILE_BYTES;
        const attention_piece *piece = piece_at(shared, stage);
        barrier_wait(base + FULL + 8 * stage, turn / STAGES % 2);
        if (!piece->queries) break;
        if (piece->keys % HALF) clear_rest(shared + place + TILE_BYTES, piece->keys);
        if (threadIdx.x == 0) fetch_next<T>(work, shared, base);
        __syncwarp();
        take<T>(work, piece, shared, base + place, sums);
        barrier_arrive(base + EMPTY + 8 * stage); /* each thread for what it has read and written itself */
    }
}

/* The attention of attention_sm90a.cu for jobs that suit it: which they are, and how it is launched.
 * Elsewhere than on compute capability 9.0 it refuses everything. */

#if defined ZEST_SM90A && CUDART_VERSION >= 12050

/* Up to 64 queries, half of a block would have nothing to do. */
static int suits(const zest_cuda *cuda, const zest_attention *job) {
    const size_t most = (size_t)1 << 30;
    return cuda->describe_tiles && cuda->base.compute != ZEST_COMPUTE_F32 && job->head_dim == HEAD &&
           job->max_queries > HALF && job->rows && job->rows < most && job->kv_rows && job->kv_rows < most &&
           (job->lanes == 1 || (job->q_lane && job->kv_lane)) &&
           tiles_aligned(job->q, job->q_stride, (int64_t)job->q_lane) &&
           tiles_aligned(job->k, job->kv_stride, (int64_t)job->kv_lane) &&
           tiles_aligned(job->v, job->kv_stride, (int64_t)job->kv_lane) &&
           tiles_aligned(job->out, job->out_stride, (int64_t)job->out_lane);
}

/* Not 0: the driver does not take such tiles. */
static int describe_work(const zest_cuda *cuda, const zest_attention *job, attention_work *work) {
    const int lanes = (int)job->lanes;
    const size_t columns = job->kv_heads * HEAD;
    work->job = attention_job_of(job);
    work->counts[MEMBER] = (unsigned)(job->heads / job->kv_heads);
    work->counts[KV_HEAD] = (unsigned)job->kv_heads;
    work->counts[TILE] = zest_cuda_blocks(job->max_queries, ROWS);
    work->counts[SEQUENCE] = (unsigned)job->sequences;
    work->counts[LANE] = (unsigned)job->lanes;
    return describe_tiles(cuda, &work->q, job->q, job->rows, job->heads * HEAD, job->q_stride, lanes,
                          (int64_t)job->q_lane, HALF) ||
           describe_tiles(cuda, &work->k, job->k, job->kv_rows, columns, job->kv_stride, lanes,
                          (int64_t)job->kv_lane, HALF) ||
           describe_tiles(cuda, &work->v, job->v, job->kv_rows, columns, job->kv_stride, lanes,
                          (int64_t)job->kv_lane, HALF);
}

template <class T> static int launch(zest_cuda *cuda, const attention_work *work) {
    const size_t most = 2 * (size_t)cuda->processors;
    size_t units = 1;
    for (int i = 0; i < DIGITS; i++) units *= work->counts[i];
    if (zest_cuda_failed(cuda,
                         cudaFuncSetAttribute(attention_hopper_kernel<T>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
                         "computing attention"))
        return -1;
    const unsigned blocks = (unsigned)(units < most ? units : most);
    attention_hopper_kernel<T><<<blocks, THREADS, SHARED_BYTES, cuda->stream>>>(*work);
    return zest_cuda_launched(cuda, "computing attention") ? -1 : 0;
}

int zest_cuda_attention_hopper(zest_cuda *cuda, const zest_attention *job) {
    attention_work work = {};
    if (!suits(cuda, job) || describe_work(cuda, job, &work)) return 1;
    return cuda->base.compute == ZEST_COMPUTE_BF16 ? launch<__nv_bfloat16>(cuda, &work)
                                                   : launch<__half>(cuda, &work);
}

#else

int zest_cuda_attention_hopper(zest_cuda *, const zest_attention *) { return 1; }

#endif
