/* D = act(A W' + bias), A W' + bias + residual or a norm of the latter's rows on compute capability 9.0, for
 * all lanes in one launch, bf16 or fp16, sums in fp32. A block stays on its processor and takes one tile of
 * 128 rows and 256 columns after the other:
 *
 *   warp 0       copies pieces of 64 inputs of A and W ahead into STAGES rooms;
 *   warps 4..11  two groups of consumers multiply 64 rows each, finish the sums in their registers (bias,
 *                residual, activation or norm), round, and put them down in shared memory;
 *   warp 1       fetches bias, gains and residual ahead and stores what was put down, while the consumers go
 *                on.
 *
 * Two blocks are a cluster. Their tiles lie below each other and share the pieces of W: each copies half of
 * every piece to both. The GPU lowers its clock under such a load to stay within its power, so what counts is
 * less the waiting than what is moved for a product. */
#ifndef ZEST_KERNELS_CUDA_GEMM_SM90_CUH
#define ZEST_KERNELS_CUDA_GEMM_SM90_CUH

#include "kernels/cuda/gemm_sm90_norm.cuh"

/* ---- Activations of results that are rounded to 16 bits ---- */

template <class T> __device__ __forceinline__ uint32_t relu2(uint32_t both);
template <> __device__ __forceinline__ uint32_t relu2<__nv_bfloat16>(uint32_t both) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(both) : "r"(0));
    return both;
}
template <> __device__ __forceinline__ uint32_t relu2<__half>(uint32_t both) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(both) : "r"(0));
    return both;
}

/* log2 of the normal distribution's tail, for results of a type: from 0 to 6 right to 5e-5 of the tail for
 * fp16, a tenth of its rounding, and to 4e-4 for bf16, a fifth. Beyond 6, where the tail is below 1e-9, fp16
 * stays there, and bf16's polynomial goes on falling. */
template <class T> __device__ __forceinline__ float log2_tail(float a);
template <> __device__ __forceinline__ float log2_tail<__half>(float a) {
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(6.0f));
    float p = fmaf(2.29900616e-05f, a, -0.000611100113f);
    p = fmaf(p, a, 0.00719556632f);
    p = fmaf(p, a, -0.0511853397f);
    p = fmaf(p, a, -0.461271912f);
    p = fmaf(p, a, -1.15017426f);
    return fmaf(p, a, -1.00006473f);
}
template <> __device__ __forceinline__ float log2_tail<__nv_bfloat16>(float a) {
    float p = fmaf(-0.000201685229f, a, 0.00446761878f);
    p = fmaf(p, a, -0.0428328047f);
    p = fmaf(p, a, -0.472785507f);
    p = fmaf(p, a, -1.14439988f);
    return fmaf(p, a, -1.00053176f);
}

/* As gelu() in half as many instructions. Of an infinite x it makes NaN. */
template <class T> __device__ __forceinline__ float gelu_short(float x) {
    return fmaf(-fabsf(x), exp2_fast(log2_tail<T>(fabsf(x))), fmaxf(x, 0.0f));
}

__device__ __forceinline__ float bent(float x, const float bend[2]) {
    return __fdividef(x, 1.0f + exp2_fast(x * fmaf(bend[1] * x, x, bend[0])));
}

/* ---- Warp 0 ---- */

__device__ __forceinline__ void produce(const hopper_job &job, uint32_t base, unsigned rank) {
    unsigned stage = 0, phase = 0;
    const int part = COLUMNS / CLUSTER;
    for (unsigned turn = 0; number_of(turn) < job.work; turn++) {
        const hopper_tile t = tile_of(job, number_of(turn), rank);
        for (unsigned piece = 0; piece < job.pieces; piece++) {
            uint32_t a = base + stage * STAGE_BYTES, w = a + A_BYTES, full = base + FULL + 8 * stage;
            int column = (int)piece * 64;
            barrier_wait(base + EMPTY + 8 * stage, phase ^ 1);
            barrier_arrive_expecting(full, STAGE_BYTES);
            tile_load(a, &job.a, full, column, t.row, job.a_moves ? t.lane : 0);
            tile_load_shared(w + rank * part * 128, &job.weight, full, column, t.column + (int)rank * part,
                             job.weight_moves ? t.lane : 0, (1 << CLUSTER) - 1);
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

/* ---- Consumers ---- */

/* One thread a warp for each block of the cluster: all of them copy into this stage of ours. */
__device__ __forceinline__ void release(uint32_t base, unsigned stage) {
    if (threadIdx.x % 32 < CLUSTER) barrier_arrive_at(base + EMPTY + 8 * stage, threadIdx.x % 32);
}

/* The tile whose first piece is this block's piece `at`; the last piece is still on its way, and its stage is
 * returned. */
template <class T>
__device__ __forceinline__ unsigned multiply(uint32_t base, unsigned pieces, unsigned at,
                                             float sums[COLUMNS / 2]) {
    const unsigned group = threadIdx.x / 128 - 1;
    unsigned stage = at % STAGES, phase = at / STAGES % 2, before = 0;
    for (unsigned piece = 0; piece < pieces; piece++) {
        uint32_t here = base + stage * STAGE_BYTES;
        uint64_t a = operand_at(here + group * 64 * 128), w = operand_at(here + A_BYTES);
        barrier_wait(base + FULL + 8 * stage, phase);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) /* 16 inputs are 32 bytes */
            product<T, COLUMNS>(sums, a + 2 * k, w + 2 * k, piece || k);
        products_close();
        if (piece) {
            products_wait<1>();
            release(base, before);
        }
        before = stage;
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    return before;
}

/* What they do to their sums besides adding the bias. */
enum hopper_ending { HOPPER_PLAIN, HOPPER_RESIDUAL, HOPPER_NORM, HOPPER_RELU, HOPPER_GELU, HOPPER_BENT };

/* What is added to a panel. */
struct hopper_more {
    float2 bias[8];
    uint32_t residual[4][4];
};

template <int ENDING>
__device__ __forceinline__ void load_more(uint32_t room, const float *bias, int panel, hopper_more &more) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        more.bias[i] = *(const float2 *)(bias + panel * 64 + i * 8 + threadIdx.x % 4 * 2);
    if (ENDING == HOPPER_RESIDUAL || ENDING == HOPPER_NORM)
#pragma unroll
        for (int i = 0; i < 4; i++) fragment_load(more.residual[i], cells_at(room, panel, i));
}

template <class T, int ENDING> __device__ __forceinline__ uint32_t ended(const hopper_job &job, float2 x) {
    if (ENDING == HOPPER_GELU) x.x = gelu_short<T>(x.x), x.y = gelu_short<T>(x.y);
    if (ENDING == HOPPER_BENT) x.x = bent(x.x, job.bend), x.y = bent(x.y, job.bend);
    const uint32_t both = pack<T>(x.x, x.y);
    return ENDING == HOPPER_RELU ? relu2<T>(both) : both;
}

/* The sums of a group, finished, into its room; or, where a norm follows, measured and left where they are.
 * What is added to a panel is read while the one before it, or the product, is finished. */
template <class T, int ENDING>
__device__ __forceinline__ void put(const hopper_job &job, uint32_t room, const float *bias,
                                    hopper_more more[2], float sums[COLUMNS / 2], hopper_spread &spread) {
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        const hopper_more &here = more[p % 2];
        if (p + 1 < PANELS) load_more<ENDING>(room, bias, p + 1, more[(p + 1) % 2]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t r[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                /* 8 x 8 each: left above, left below, right above, right below */
                float *s = sums + p * 32 + i * 8 + j * 2;
                float2 x = here.bias[2 * i + j / 2];
                x.x += s[0], x.y += s[1];
                if (ENDING == HOPPER_RESIDUAL || ENDING == HOPPER_NORM) {
                    const float2 add = unpack<T>(here.residual[i][j]);
                    x.x += add.x, x.y += add.y;
                }
                if (ENDING == HOPPER_NORM) {
                    spread_add(spread, j % 2, x);
                    s[0] = x.x, s[1] = x.y;
                } else
                    r[j] = ended<T, ENDING>(job, x);
            }
            if (ENDING != HOPPER_NORM) fragment_store(cells_at(room, p, i), r);
        }
    }
}

template <class T, int ENDING>
__device__ __forceinline__ void consume(const hopper_job &job, char *shared, uint32_t base, unsigned rank) {
    const unsigned group = threadIdx.x / 128 - 1;
    const uint32_t room = room_of(base);
    float sums[COLUMNS / 2];
    for (unsigned turn = 0; number_of(turn) < job.work; turn++) {
        const float *vectors = vectors_of(shared, turn);
        hopper_more more[2];
        hopper_spread spread = {};
        const unsigned last = multiply<T>(base, job.pieces, turn * job.pieces, sums);
        barrier_wait(base + READY + 8 * group, turn % 2);
        load_more<ENDING>(room, vectors, 0, more[0]);
        products_finish<COLUMNS / 2>(sums);
        release(base, last);
        put<T, ENDING>(job, room, vectors, more, sums, spread);
        if (ENDING == HOPPER_NORM)
            put_normalized<T>(job, room, vectors + COLUMNS, tile_of(job, number_of(turn), rank), spread,
                              sums);
        writes_for_copies();
        barrier_arrive(base + PUT + 8 * group);
    }
}

/* ---- Warp 1 ---- */

template <class V>
__device__ __forceinline__ void copy_vector(float *to, const V *from, float absent, unsigned there) {
#pragma unroll 4
    for (unsigned i = threadIdx.x % 32; i < COLUMNS; i += 32)
        to[i] = from && i < there ? to_float(from[i]) : absent;
}

/* What all rows of a tile share. */
template <class T, int ENDING>
__device__ __forceinline__ void fetch_vectors(const hopper_job &job, char *shared, unsigned turn,
                                              unsigned rank) {
    if (number_of(turn) >= job.work) return;
    const hopper_tile t = tile_of(job, number_of(turn), rank);
    const unsigned there = job.outputs - (unsigned)t.column;
    float *to = vectors_of(shared, turn);
    const T *bias = (const T *)job.bias + t.lane * job.bias_lane + t.column;
    copy_vector(to, job.bias ? bias : NULL, 0.0f, there);
    if (ENDING != HOPPER_NORM) return;
    const int64_t at = t.lane * job.norm.lane + t.column;
    copy_vector(to + COLUMNS, job.norm.gain ? job.norm.gain + at : NULL, 1.0f, there);
    copy_vector(to + 2 * COLUMNS, job.norm.shift ? job.norm.shift + at : NULL, 0.0f, there);
}

/* The room of a group is free: the residual of its half of a tile goes there. */
__device__ __forceinline__ void fetch_residual(const hopper_job &job, uint32_t base, unsigned turn,
                                               unsigned group, unsigned rank) {
    if (number_of(turn) >= job.work) return;
    const hopper_tile t = tile_of(job, number_of(turn), rank);
    const uint32_t ready = base + READY + 8 * group;
    if (threadIdx.x % 32 || !job.residual_there) {
        barrier_arrive(ready); /* the vectors are there, too */
        return;
    }
    barrier_arrive_expecting(ready, HALF_BYTES);
    for (int p = 0; p < PANELS; p++)
        tile_load(base + HALVES_AT + group * HALF_BYTES + p * PANEL_BYTES, &job.residual, ready,
                  t.column + 64 * p, t.row + (int)group * 64, t.lane);
}

template <class T, int ENDING>
__device__ __forceinline__ void store(const hopper_job &job, char *shared, uint32_t base, unsigned rank) {
    fetch_vectors<T, ENDING>(job, shared, 0, rank);
    for (unsigned group = 0; group < 2; group++) fetch_residual(job, base, 0, group, rank);
    for (unsigned turn = 0; number_of(turn) < job.work; turn++) {
        const hopper_tile t = tile_of(job, number_of(turn), rank);
        fetch_vectors<T, ENDING>(job, shared, turn + 1, rank); /* both groups have put the turn before */
        for (unsigned group = 0; group < 2; group++) {
            barrier_wait(base + PUT + 8 * group, turn % 2);
            if (threadIdx.x % 32 == 0) {
                for (int p = 0; p < PANELS; p++)
                    tile_store(&job.out, base + HALVES_AT + group * HALF_BYTES + p * PANEL_BYTES,
                               t.column + 64 * p, t.row + (int)group * 64, t.lane);
                tile_stores_close();
                tile_stores_read();
            }
            __syncwarp();
            fetch_residual(job, base, turn + 1, group, rank);
        }
    }
    if (threadIdx.x % 32 == 0) tile_stores_done();
}

/* ---- All of them ---- */

__device__ __forceinline__ void begin(const hopper_job &job, uint32_t base) {
    if (threadIdx.x == 0) {
        tile_prefetch_map(&job.a);
        tile_prefetch_map(&job.weight);
        tile_prefetch_map(&job.out);
        if (job.residual_there) tile_prefetch_map(&job.residual);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(base + FULL + 8 * i, 1);
            barrier_init(base + EMPTY + 8 * i, 8 * CLUSTER); /* a consumers' warp each */
        }
        for (int i = 0; i < 2; i++) {
            barrier_init(base + READY + 8 * i, 32); /* each thread for what it has written itself */
            barrier_init(base + PUT + 8 * i, 128);
        }
        barrier_init_done();
    }
    cluster_sync();
}

/* 168 registers a thread when a block starts; then the consumers take what the others give back. */
template <class T, int ENDING>
static __global__ void __launch_bounds__(THREADS, 1) hopper_kernel(const __grid_constant__ hopper_job job) {
    extern __shared__ __align__(1024) char shared[]; /* which the swizzle counts from */
    const uint32_t base = shared_address(shared);
    const unsigned rank = cluster_rank();
    begin(job, base);
    if (threadIdx.x < 128) {
        registers_less<40>();
        if (threadIdx.x / 32 == 1)
            store<T, ENDING>(job, shared, base, rank);
        else if (ENDING == HOPPER_NORM && threadIdx.x >= 64)
            forget_before(job);
        else if (threadIdx.x == 0)
            produce(job, base, rank);
    } else {
        registers_more<232>();
        consume<T, ENDING>(job, shared, base, rank);
    }
    __syncwarp();
    cluster_sync(); /* the other block may still write here and arrive at our barriers */
}

#endif
