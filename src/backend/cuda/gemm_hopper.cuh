/* D = act(A W' + bias) or A W' + bias + residual on compute capability 9.0, for all lanes in one launch, bf16
 * or fp16, sums in fp32. A block stays on its processor and takes one tile of 128 x COLUMNS after the other:
 *
 *   warp 0       copies pieces of 64 inputs of A and W ahead into STAGES rooms;
 *   warps 4..11  two groups of consumers, 64 rows each, multiply, add bias and residual, round, and put their
 *                half of the tile down in shared memory;
 *   warps 1..3   the finishers, fetch bias and residual for the halves, apply what an activation costs, and
 *                store them, all of it while the consumers are at the next tile.
 *
 * Two blocks of a cluster have tiles below each other and share the pieces of W: each copies half of every
 * piece to both. */
#ifndef ZEST_BACKEND_CUDA_GEMM_HOPPER_CUH
#define ZEST_BACKEND_CUDA_GEMM_HOPPER_CUH

#include "backend/cuda/hopper.cuh"

struct hopper_job {
    CUtensorMap a, weight, out, residual;
    const void *bias; /* NULL: none */
    int64_t bias_lane;
    unsigned outputs, pieces; /* pieces: of 64 inputs */
    unsigned heights, widths, lanes, band,
        work;                  /* tiles a lane; heights and bands in clusters; all of them */
    int a_moves, weight_moves; /* 0: the same for all lanes */
    int residual_there, activation;
};

enum { HOPPER_ROWS = 128, HOPPER_THREADS = 384, HOPPER_FINISHERS = 96 };

template <class T> __device__ __forceinline__ uint32_t relu2(uint32_t both);
template <> __device__ __forceinline__ uint32_t relu2<__nv_bfloat16>(uint32_t both) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(both) : "r"(0));
    return both;
}
template <> __device__ __forceinline__ uint32_t relu2<__half>(uint32_t both) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(both) : "r"(0));
    return both;
}

/* COLUMNS: 128, 192 or 256. CLUSTER: 1 or 2 blocks. ROOMS: halves of tiles that can lie in shared memory at
 * once, 1 or 2. LAG: the second group of consumers begins a piece after the first, so that one multiplies
 * while the other one puts its half down. */
template <class T, int COLUMNS, int STAGES, int CLUSTER, int ROOMS, int LAG> struct hopper {
    enum {
        A_BYTES = HOPPER_ROWS * 128,
        W_BYTES = COLUMNS * 128,
        STAGE_BYTES = A_BYTES + W_BYTES,
        PANELS = COLUMNS / 64, /* of a half: 64 columns, 64 rows of 128 bytes, swizzled as the copies do */
        PANEL_BYTES = 64 * 128,
        HALF_BYTES = PANELS * PANEL_BYTES,
        HALVES_AT = STAGES * STAGE_BYTES,
        BIAS_AT = HALVES_AT + ROOMS * HALF_BYTES, /* floats, for each group of consumers */
        BARRIERS_AT = BIAS_AT + 2 * COLUMNS * 4,
        FULL = BARRIERS_AT, /* STAGES of them each; then two each, one for a group of consumers */
        EMPTY = FULL + 8 * STAGES,
        READY = EMPTY + 8 * STAGES, /* room, bias and residual for the half */
        PUT = READY + 16,           /* the half lies in its room */
        BYTES = PUT + 16
    };
    /* A tile of 128 x COLUMNS by its number. Lanes come one after the other; within a lane, bands of rows so
     * low that their A stays in the cache while all of W passes. */
    struct tile {
        int row, column, lane;
    };
    static __device__ __forceinline__ tile tile_of(const hopper_job &job, unsigned number, unsigned rank) {
        unsigned each = job.heights * job.widths, within = number % each, band = job.band * job.widths;
        unsigned first = within / band * job.band, height = min(job.band, job.heights - first);
        within %= band;
        return {(int)((first + within % height) * CLUSTER + rank) * HOPPER_ROWS,
                (int)(within / height) * COLUMNS, (int)(number / each)};
    }
    static __device__ __forceinline__ unsigned first() { return blockIdx.x / CLUSTER; }
    static __device__ __forceinline__ unsigned step() { return gridDim.x / CLUSTER; }

    /* ---- Warp 0 ---- */

    static __device__ __forceinline__ void produce(const hopper_job &job, uint32_t base, unsigned rank) {
        unsigned stage = 0, phase = 0;
        const int part = COLUMNS / CLUSTER;
        for (unsigned n = first(); n < job.work; n += step()) {
            const tile t = tile_of(job, n, rank);
            for (unsigned piece = 0; piece < job.pieces; piece++) {
                uint32_t a = base + stage * STAGE_BYTES, w = a + A_BYTES, full = base + FULL + 8 * stage;
                int column = (int)piece * 64;
                barrier_wait(base + EMPTY + 8 * stage, phase ^ 1);
                barrier_arrive_expecting(full, STAGE_BYTES);
                tile_load(a, &job.a, full, column, t.row, job.a_moves ? t.lane : 0);
                if (CLUSTER == 1)
                    tile_load(w, &job.weight, full, column, t.column, job.weight_moves ? t.lane : 0);
                else
                    tile_load_shared(w + rank * part * 128, &job.weight, full, column,
                                     t.column + (int)rank * part, job.weight_moves ? t.lane : 0, 3);
                if (++stage == STAGES) stage = 0, phase ^= 1;
            }
        }
    }

    /* ---- Consumers ---- */

    /* One thread a warp for each block of the cluster: all of them copy into this stage of ours. */
    static __device__ __forceinline__ void release(uint32_t base, unsigned stage, unsigned thread) {
        if (CLUSTER == 1) {
            if (thread == 0) barrier_arrive(base + EMPTY + 8 * stage);
        } else if (thread < CLUSTER)
            barrier_arrive_at(base + EMPTY + 8 * stage, thread);
    }

    static __device__ __forceinline__ void multiply(uint32_t base, unsigned pieces, unsigned group,
                                                    unsigned thread, int lag, unsigned &stage,
                                                    unsigned &phase, float *sums) {
        unsigned before = 0;
        for (unsigned piece = 0; piece < pieces; piece++) {
            uint32_t at = base + stage * STAGE_BYTES;
            uint64_t a = operand_at(at + group * 64 * 128), w = operand_at(at + A_BYTES);
            barrier_wait(base + FULL + 8 * stage, phase);
            products_begin();
#pragma unroll
            for (int k = 0; k < 4; k++) /* 16 inputs are 32 bytes */
                product64<T, COLUMNS>::add(sums, a + 2 * k, w + 2 * k, piece || k);
            products_close();
            if (LAG && lag && !piece) some_arrive(2, 256);
            if (piece) {
                products_wait<1>();
                release(base, before, thread);
            }
            before = stage;
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
        products_wait<0>();
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) asm volatile("" : "+f"(sums[i])); /* not to be read earlier */
        release(base, before, thread);
    }

    /* The sums of a group of consumers, finished but for a costly activation, into the room of its half. What
     * is added to a panel is read first, so that one wait is enough. */
    template <int RESIDUAL>
    static __device__ __forceinline__ void put(const float *bias, uint32_t room, int relu,
                                               const float *sums) {
        const unsigned thread = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + thread % 16;
        uint32_t at[4];
#pragma unroll
        for (int i = 0; i < 4; i++) at[i] = room + row * 128 + ((2 * i + thread / 16) ^ row % 8) * 16;
#pragma unroll
        for (int p = 0; p < PANELS; p++) {
            float2 add[8];
            uint32_t r[4][4];
#pragma unroll
            for (int i = 0; i < 8; i++) add[i] = *(const float2 *)(bias + p * 64 + i * 8 + thread % 4 * 2);
            if (RESIDUAL)
#pragma unroll
                for (int i = 0; i < 4; i++) fragment_load(r[i], at[i] + p * PANEL_BYTES);
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4;
                     j++) { /* 8 x 8 each: left above, left below, right above, right below */
                    const float *s = sums + p * 32 + i * 8 + j * 2;
                    float2 x = add[2 * i + j / 2];
                    x.x += s[0], x.y += s[1];
                    if (RESIDUAL) {
                        const float2 more = unpack<T>(r[i][j]);
                        x.x += more.x, x.y += more.y;
                    }
                    r[i][j] = pack<T>(x.x, x.y);
                    if (relu) r[i][j] = relu2<T>(r[i][j]);
                }
                fragment_store(at[i] + p * PANEL_BYTES, r[i]);
            }
        }
    }

    static __device__ __forceinline__ void consume(const hopper_job &job, char *shared, uint32_t base) {
        const unsigned group = threadIdx.x / 128 - 1, thread = threadIdx.x % 32;
        const float *bias = (const float *)(shared + BIAS_AT) + group * COLUMNS;
        const uint32_t room = base + HALVES_AT + (ROOMS == 1 ? 0 : group * HALF_BYTES);
        unsigned stage = 0, phase = 0, turn = 0;
        float sums[COLUMNS / 2];
        if (LAG && group == 1) some_sync(2, 256);
        for (unsigned n = first(); n < job.work; n += step(), turn ^= 1) {
            multiply(base, job.pieces, group, thread, group == 0 && n == first(), stage, phase, sums);
            barrier_wait(base + READY + 8 * group, turn);
            if (job.residual_there)
                put<1>(bias, room, 0, sums);
            else
                put<0>(bias, room, job.activation == ZEST_ACT_RELU, sums);
            writes_for_copies();
            __syncwarp();
            if (thread == 0) barrier_arrive(base + PUT + 8 * group);
        }
    }

    /* ---- Finishers ---- */

    /* Half h is the second one (h odd) or the first of this block's tile number h / 2. */
    static __device__ __forceinline__ int half_of(const hopper_job &job, unsigned h, unsigned rank, tile *t) {
        unsigned n = first() + h / 2 * step();
        if (n >= job.work) return 0;
        *t = tile_of(job, n, rank);
        t->row += (int)(h % 2) * 64;
        return 1;
    }

    /* Its room is free: bias and residual go there. */
    static __device__ __forceinline__ void prepare(const hopper_job &job, char *shared, uint32_t base,
                                                   unsigned h, unsigned rank, unsigned thread) {
        tile t;
        if (!half_of(job, h, rank, &t)) return;
        const uint32_t ready = base + READY + 8 * (h % 2);
        float *bias = (float *)(shared + BIAS_AT) + h % 2 * COLUMNS;
        const T *from = (const T *)job.bias + t.lane * job.bias_lane;
        for (unsigned i = thread; i < COLUMNS; i += HOPPER_FINISHERS)
            bias[i] = job.bias && t.column + i < job.outputs ? to_float(from[t.column + i]) : 0.0f;
        if (thread || !job.residual_there) {
            barrier_arrive(ready);
            return;
        }
        barrier_arrive_expecting(ready, HALF_BYTES);
        for (int p = 0; p < PANELS; p++)
            tile_load(base + HALVES_AT + h % ROOMS * HALF_BYTES + p * PANEL_BYTES, &job.residual, ready,
                      t.column + 64 * p, t.row, t.lane);
    }

    template <int ACT> static __device__ __forceinline__ void activate_half(char *room, unsigned thread) {
        for (unsigned i = thread; i < HALF_BYTES / 16; i += HOPPER_FINISHERS) {
            float x[8];
            T *at = (T *)(room + 16 * i);
            load8(at, x);
#pragma unroll
            for (int j = 0; j < 8; j++) x[j] = activate(x[j], ACT);
            store8(at, x);
        }
    }

    static __device__ __forceinline__ int costly(int activation) {
        return activation != ZEST_ACT_NONE && activation != ZEST_ACT_RELU;
    }

    static __device__ __forceinline__ void finish(const hopper_job &job, char *shared, uint32_t base,
                                                  unsigned rank) {
        const unsigned thread = threadIdx.x - 32;
        tile t;
        for (unsigned h = 0; h < ROOMS; h++) prepare(job, shared, base, h, rank, thread);
        for (unsigned h = 0; half_of(job, h, rank, &t); h++) {
            const unsigned room = HALVES_AT + h % ROOMS * HALF_BYTES;
            barrier_wait(base + PUT + 8 * (h % 2), h / 2 % 2);
            if (costly(job.activation)) {
                if (job.activation == ZEST_ACT_GELU)
                    activate_half<ZEST_ACT_GELU>(shared + room, thread);
                else if (job.activation == ZEST_ACT_GELU_TANH)
                    activate_half<ZEST_ACT_GELU_TANH>(shared + room, thread);
                else
                    activate_half<ZEST_ACT_SILU>(shared + room, thread);
                writes_for_copies();
                some_sync(1, HOPPER_FINISHERS);
            }
            if (thread == 0) {
                for (int p = 0; p < PANELS; p++)
                    tile_store(&job.out, base + room + p * PANEL_BYTES, t.column + 64 * p, t.row, t.lane);
                tile_stores_close();
                tile_stores_read();
            }
            prepare(job, shared, base, h + ROOMS, rank, thread);
        }
        if (thread == 0) tile_stores_done();
    }

    /* ---- All of them ---- */

    static __device__ __forceinline__ void begin(const hopper_job &job, uint32_t base) {
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
                barrier_init(base + READY + 8 * i, HOPPER_FINISHERS);
                barrier_init(base + PUT + 8 * i, 4);
            }
            barrier_init_done();
        }
        __syncthreads();
        if (CLUSTER > 1) cluster_sync();
    }
};

/* Registers of a thread: when a block starts, and then of the two kinds. 96 sums leave a quarter of the
 * register file to the kernel that makes weights in the stream beside; with 128 sums the compiler wants more
 * to start with, which it takes from the number of threads that a block may have. */
template <int COLUMNS> struct hopper_registers {
    enum {
        LIMIT = COLUMNS == 256 ? 384 : 512,
        FEW = COLUMNS == 256 ? 88 : 64,
        MANY = COLUMNS == 256 ? 208 : 160
    };
};

template <class T, int COLUMNS, int STAGES, int CLUSTER, int ROOMS, int LAG>
static __global__ void __launch_bounds__(hopper_registers<COLUMNS>::LIMIT, 1)
    hopper_kernel(const __grid_constant__ hopper_job job) {
    typedef hopper<T, COLUMNS, STAGES, CLUSTER, ROOMS, LAG> H;
    extern __shared__ __align__(1024) char shared[]; /* which the swizzle counts from */
    const uint32_t base = shared_address(shared);
    const unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;
    H::begin(job, base);
    if (threadIdx.x < 128) {
        registers_less<hopper_registers<COLUMNS>::FEW>();
        if (threadIdx.x >= 32)
            H::finish(job, shared, base, rank);
        else if (threadIdx.x == 0)
            H::produce(job, base, rank);
    } else {
        registers_more<hopper_registers<COLUMNS>::MANY>();
        H::consume(job, shared, base);
    }
    __syncwarp();
    if (CLUSTER > 1) cluster_sync(); /* the other block may still write here and arrive at our barriers */
}

#endif
