/* What the parts of zest's product kernel (gemm_sm90.cuh) share: the job, the places in shared memory, the
 * tiles. */
#ifndef ZEST_KERNELS_CUDA_GEMM_SM90_CUH
#define ZEST_KERNELS_CUDA_GEMM_SM90_CUH

#include "kernels/cuda/sm90.cuh"

/* Of the rows of the result: gemm_sm90.cuh. */
struct hopper_norm {
    const float *gain, *shift; /* NULL: 1 and 0 */
    int64_t lane;              /* between those of the lanes */
    float epsilon, each;       /* each: 1 / columns */
    uint64_t *parts;           /* of every row, one for each tile */
    uint64_t *before;          /* those of the product before with a norm: to be forgotten */
    unsigned before_count;
    unsigned *late; /* how many are on the list; blocks that have done theirs */
    unsigned *list;
    int patience; /* looks at others' parts */
    void *out;    /* as the job's map has it */
    size_t out_stride, rows;
    int64_t out_lane;
};

struct hopper_job {
    CUtensorMap a, weight, out, residual;
    const void *bias; /* NULL: none */
    int64_t bias_lane;
    unsigned outputs, pieces;             /* pieces: of 64 inputs */
    unsigned heights, widths, band, work; /* tiles a lane, heights and bands in clusters; all of them */
    int a_moves, weight_moves;            /* 0: the same for all lanes */
    int residual_there;
    float bend[2]; /* x / (1 + 2^(bend[0] x + bend[1] x^3)): SiLU and the tanh form of GELU */
    hopper_norm norm;
};

enum {
    THREADS = 384,
    CLUSTER = 2,
    STAGES = 3,
    ROWS = 128, /* of a tile */
    COLUMNS = 256,
    A_BYTES = ROWS * 128, /* of a piece */
    W_BYTES = COLUMNS * 128,
    STAGE_BYTES = A_BYTES + W_BYTES,
    PANELS = COLUMNS / 64, /* of a half: 64 columns, 64 rows of 128 bytes, swizzled as the copies do */
    PANEL_BYTES = 64 * 128,
    HALF_BYTES = PANELS * PANEL_BYTES
};
/* Places in shared memory: stages; a room for each group of consumers; bias, gain and shift of this tile's
 * and the next one's columns; barriers, STAGES of the first two kinds, one of the others for each group. */
enum {
    VECTORS = 3,
    HALVES_AT = STAGES * STAGE_BYTES,
    VECTORS_AT = HALVES_AT + 2 * HALF_BYTES,
    FULL = VECTORS_AT + 2 * VECTORS * COLUMNS * 4,
    EMPTY = FULL + 8 * STAGES,
    READY = EMPTY + 8 * STAGES, /* room, bias and residual for the half */
    PUT = READY + 16,           /* the half lies in its room */
    SHARED_BYTES = PUT + 16
};
static_assert(SHARED_BYTES <= 227 << 10, "a block has that much shared memory");

/* Where, in a panel of a group's room, a thread's rows of 16 columns are: i = 0..3. */
__device__ __forceinline__ uint32_t cells_at(uint32_t room, int panel, int i) {
    return (room ^ 32u * (unsigned)i) + (unsigned)panel * PANEL_BYTES;
}

__device__ __forceinline__ uint32_t room_of(uint32_t base) {
    const unsigned group = threadIdx.x / 128 - 1, thread = threadIdx.x % 32;
    const unsigned row = threadIdx.x / 32 % 4 * 16 + thread % 16;
    return base + HALVES_AT + group * HALF_BYTES + row * 128 + (thread / 16 ^ row % 8) * 16;
}

/* Bias, gain and shift of a turn's tile. */
__device__ __forceinline__ float *vectors_of(char *shared, unsigned turn) {
    return (float *)(shared + VECTORS_AT) + turn % 2 * (VECTORS * COLUMNS);
}

/* ---- Tiles ---- */

struct hopper_tile {
    int row, column, lane;
};

/* A tile by its number. Lanes come one after the other; within a lane, bands of rows so low that their A
 * stays in the cache while all of W passes. */
__device__ __forceinline__ hopper_tile tile_of(const hopper_job &job, unsigned number, unsigned rank) {
    unsigned each = job.heights * job.widths, within = number % each, band = job.band * job.widths;
    unsigned first = within / band * job.band, height = min(job.band, job.heights - first);
    within %= band;
    return {(int)((first + within % height) * CLUSTER + rank) * ROWS, (int)(within / height) * COLUMNS,
            (int)(number / each)};
}

/* This block's: a first one, then every so many. */
__device__ __forceinline__ unsigned number_of(unsigned turn) {
    return blockIdx.x / CLUSTER + turn * (gridDim.x / CLUSTER);
}

/* A norm of the rows that zest's product kernel gives (HOPPER_NORM). A row lies in several tiles beside each
 * other, each of another block. A warp measures its part of 16 rows, puts that down where the others find it,
 * waits for theirs, and normalizes its sums before they are rounded.
 *
 * So blocks wait for each other, and where programs share the GPU not all of them need be running: a warp
 * that has waited for long stores its rows as they are and puts them on a list, which late_kernel does behind
 * the product. From then on all wait less. */

enum { PARTS_MOST = 4 };  /* of a row: one for each thread that has it */
enum { SOME_LOOKS = 32 }; /* at others' parts, where other warps have waited in vain */

/* ---- Parts of rows: sum and sum of squares, in one word, so that they come together ---- */

/* Before they come: no sum gives that. */
__device__ const uint64_t no_part = ~(uint64_t)0;

__device__ __forceinline__ void part_store(uint64_t *at, float sum, float squares) {
    const uint64_t both = (uint64_t)__float_as_uint(squares) << 32 | __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(both) : "memory");
}

__device__ __forceinline__ uint64_t part_load(const uint64_t *at) {
    uint64_t both;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(at) : "memory");
    return both;
}

/* What a row's numbers are multiplied by, and what is added then, so that their mean is 0 and their
 * variance 1. Where the mean is large, digits of the variance are lost; a row that was rounded to 16 bits
 * before its norm, as it is when that has a kernel of its own, would have lost more. */
__device__ __forceinline__ float2 row_of(const hopper_job &job, float sum, float squares) {
    const float mean = sum * job.norm.each, above = fmaf(-mean, mean, squares * job.norm.each);
    const float scale = rsqrtf((above < 0 ? 0 : above) + job.norm.epsilon);
    return make_float2(scale, -mean * scale);
}

__device__ __forceinline__ float normalized(float x, float2 row, float gain, float shift) {
    return fmaf(fmaf(x, row.x, row.y), gain, shift);
}

/* Products take turns at two rooms for parts: what one has put down the next one forgets, by its warps 2 and
 * 3, which have nothing else to do. */
__device__ __forceinline__ void forget_before(const hopper_job &job) {
    for (unsigned i = blockIdx.x * 64 + threadIdx.x % 64; i < job.norm.before_count; i += gridDim.x * 64)
        job.norm.before[i] = no_part;
}

/* ---- A group's half of a tile ---- */

/* The number of the first of a warp's 16 rows. */
__device__ __forceinline__ unsigned first_row(const hopper_job &job, const hopper_tile &t) {
    return (unsigned)t.lane * (job.heights * CLUSTER * ROWS) + (unsigned)t.row +
           (threadIdx.x - 128) / 32 * 16;
}

/* Of a thread's two rows and its columns of them, even and odd ones. */
struct hopper_spread {
    float sum[2][2], square[2][2];
};

__device__ __forceinline__ void spread_add(hopper_spread &spread, int row, float2 x) {
    spread.sum[row][0] += x.x, spread.sum[row][1] += x.y;
    spread.square[row][0] = fmaf(x.x, x.x, spread.square[row][0]);
    spread.square[row][1] = fmaf(x.y, x.y, spread.square[row][1]);
}

/* Four threads have a row; columns beyond the last one were 0. */
__device__ __forceinline__ void publish(const hopper_job &job, const hopper_tile &t,
                                        const hopper_spread &spread) {
    const unsigned thread = threadIdx.x % 32, row = first_row(job, t) + thread / 4;
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        const float sum = sum_of_four(spread.sum[r][0] + spread.sum[r][1]);
        const float square = sum_of_four(spread.square[r][0] + spread.square[r][1]);
        if (thread % 4 == r)
            part_store(job.norm.parts + (row + 8 * r) * job.widths + (unsigned)t.column / COLUMNS, sum,
                       square);
    }
}

/* Four threads have two rows, and each looks for one part of both. False: some are not there, after a while.
 */
__device__ __forceinline__ bool await_rows(const hopper_job &job, const hopper_tile &t, float2 rows[2]) {
    const unsigned thread = threadIdx.x % 32, row = first_row(job, t) + thread / 4;
    const uint64_t *at = job.norm.parts + row * job.widths + thread % 4;
    uint64_t part[2] = {0, 0};
    bool there = false;
    for (int looks = 0; looks < job.norm.patience && !there; looks++) {
        if (looks == SOME_LOOKS && *(volatile unsigned *)job.norm.late) break;
        if (thread % 4 < job.widths) part[0] = part_load(at), part[1] = part_load(at + 8 * job.widths);
        there = __all_sync(~0u, part[0] != no_part && part[1] != no_part);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
        rows[r] = row_of(job, sum_of_four(__uint_as_float((uint32_t)part[r])),
                         sum_of_four(__uint_as_float((uint32_t)(part[r] >> 32))));
    return there;
}

/* What a panel is multiplied by, and what is added then. */
struct hopper_gains {
    float2 gain[8], shift[8];
};

__device__ __forceinline__ void load_gains(const float *gains, int panel, hopper_gains &of) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float *at = gains + panel * 64 + i * 8 + threadIdx.x % 4 * 2;
        of.gain[i] = *(const float2 *)at, of.shift[i] = *(const float2 *)(at + COLUMNS);
    }
}

/* Finished sums into their room: as they are, for late_kernel. */
template <class T>
__device__ __forceinline__ void put_late(const hopper_job &job, uint32_t room, const hopper_tile &t,
                                         const float sums[COLUMNS / 2]) {
    if (threadIdx.x % 32 == 0)
        job.norm.list[atomicAdd(job.norm.late, 1)] =
            first_row(job, t) / 16 * job.widths + (unsigned)t.column / COLUMNS;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < COLUMNS / 16; i++) {
        const float *s = sums + i * 8;
        const uint32_t r[4] = {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]),
                               pack<T>(s[6], s[7])};
        fragment_store(cells_at(room, i / 4, i % 4), r);
    }
}

/* Normalized, when they have been measured. gains: of the columns; the shifts stand behind. */
template <class T>
__device__ __forceinline__ void put_normalized(const hopper_job &job, uint32_t room, const float *gains,
                                               const hopper_tile &t, const hopper_spread &spread,
                                               const float sums[COLUMNS / 2]) {
    float2 rows[2];
    hopper_gains of[2];
    publish(job, t, spread);
    load_gains(gains, 0, of[0]);
    if (!await_rows(job, t, rows)) {
        put_late<T>(job, room, t, sums);
        return;
    }
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        const hopper_gains &here = of[p % 2];
        if (p + 1 < PANELS) load_gains(gains, p + 1, of[(p + 1) % 2]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t r[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float *s = sums + p * 32 + i * 8 + j * 2;
                const float2 gain = here.gain[2 * i + j / 2], shift = here.shift[2 * i + j / 2];
                r[j] = pack<T>(normalized(s[0], rows[j % 2], gain.x, shift.x),
                               normalized(s[1], rows[j % 2], gain.y, shift.y));
            }
            fragment_store(cells_at(room, p, i), r);
        }
    }
}

/* ---- Behind the product ---- */

/* A listed part of 16 rows. */
template <class T> __device__ void normalize_late(const hopper_job &job, unsigned number) {
    const unsigned tall = job.heights * CLUSTER * ROWS, at = number / job.widths * 16 + threadIdx.x / 8;
    const unsigned begin = number % job.widths * COLUMNS, end = min(begin + COLUMNS, job.outputs);
    const unsigned lane = at / tall, row = at % tall;
    float sum = 0, squares = 0;
    if (row >= job.norm.rows) return;
    for (unsigned i = 0; i < job.widths; i++) {
        const uint64_t both = part_load(job.norm.parts + at * job.widths + i);
        sum += __uint_as_float((uint32_t)both), squares += __uint_as_float((uint32_t)(both >> 32));
    }
    const float2 own = row_of(job, sum, squares);
    T *out = (T *)job.norm.out + lane * job.norm.out_lane + row * job.norm.out_stride;
    for (unsigned c = begin + threadIdx.x % 8; c < end; c += 8) {
        const float gain = job.norm.gain ? job.norm.gain[lane * job.norm.lane + c] : 1.0f;
        const float shift = job.norm.shift ? job.norm.shift[lane * job.norm.lane + c] : 0.0f;
        out[c] = to_cell<T>(normalized(to_float(out[c]), own, gain, shift));
    }
}

/* All that are listed. The last block empties the list. */
template <class T>
static __global__ void __launch_bounds__(128) late_kernel(const __grid_constant__ hopper_job job) {
    const unsigned late = *(volatile unsigned *)job.norm.late;
    if (!late) return;
    for (unsigned i = blockIdx.x; i < late; i += gridDim.x) normalize_late<T>(job, job.norm.list[i]);
    __syncthreads(); /* all have read how many */
    if (threadIdx.x == 0 && atomicAdd(job.norm.late + 1, 1) == gridDim.x - 1)
        job.norm.late[0] = job.norm.late[1] = 0;
}

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
