/* GEMM with fused epilogues for compute capability 9.0: D = act(A W' + bias), A W' + bias + residual, or the
 * layer norm of the latter's rows; all lanes in one launch, bf16 or fp16 operands, fp32 accumulators.
 *
 *   A  (lanes, rows, inputs)    W  (lanes, outputs, inputs)    D, residual  (lanes, rows, outputs)
 *
 * Persistent and warp-specialised. A block of 384 threads stays on its multiprocessor and takes one output
 * tile of TILE_M x TILE_N = 128 x 256 after the other, in k-tiles of TILE_K = 64:
 *
 *   warp 0       producer: TMA loads of A and W into a ring of STAGES buffers
 *   warp 1       epilogue loads and stores: bias, gain, shift and residual of the next tile; TMA stores of D
 *   warps 2, 3   idle; with a fused norm they reset the row statistics of the GEMM before
 *   warps 4..11  two consumer warp groups: wgmma m64n256k16 on 64 rows each, epilogue in registers, result to shared
 *                memory
 *
 * Two blocks form a cluster. Their tiles lie below each other and share W: each block loads half of a W
 * k-tile and multicasts it to both. The GPU lowers its clock under this load to stay within its power, so the
 * kernel's speed depends less on waiting than on the bytes that move. */
#ifndef ZEST_KERNELS_CUDA_GEMM_SM90_CUH
#define ZEST_KERNELS_CUDA_GEMM_SM90_CUH

#include "kernels/cuda/sm90.cuh"

/* Layer norm in the epilogue. */
struct sm90_norm_params {
    const float *gain, *shift; /* (lanes, outputs); NULL: 1 and 0 */
    int64_t lane;              /* their lane stride */
    float epsilon, inv_outputs;
    uint64_t *stats;          /* partial row statistics: (padded rows of all lanes, n_tiles) */
    uint64_t *previous_stats; /* those of the GEMM with a norm before this one, to be reset */
    unsigned previous_count;
    unsigned *fallback_count; /* [0]: entries of the list; [1]: blocks of the fallback kernel that are done */
    unsigned *fallback_list;
    int spin_limit; /* how often a warp looks for the statistics of other blocks */
    void *out;      /* D, as its TMA descriptor has it */
    size_t out_stride, rows;
    int64_t out_lane;
};

struct sm90_gemm_params {
    CUtensorMap a, weight, out, residual;
    const void *bias; /* (lanes, outputs); NULL: none */
    int64_t bias_lane;
    unsigned outputs, k_tiles;
    unsigned m_tiles, n_tiles;       /* of a lane; m_tiles counts clusters of 2 x 128 rows */
    unsigned raster_group;           /* m_tiles that are taken together */
    unsigned tiles;                  /* lanes x m_tiles x n_tiles */
    int a_per_lane, weight_per_lane; /* 0: the same for all lanes */
    int has_residual;
    float activation_coefficients[2]; /* of swish() */
    sm90_norm_params norm;
};

enum {
    THREADS = 384,
    CLUSTER = 2,
    STAGES = 3,
    TILE_M = 128,
    TILE_N = 256,
    TILE_K = 64,                   /* 128 bytes, one swizzled row */
    A_BYTES = TILE_M * 2 * TILE_K, /* of a k-tile */
    W_BYTES = TILE_N * 2 * TILE_K,
    STAGE_BYTES = A_BYTES + W_BYTES,
    PANELS = TILE_N / 64, /* of a warp group's output: (64 rows, 64 columns), swizzled as TMA does */
    PANEL_BYTES = 64 * 128,
    OUTPUT_BYTES = PANELS * PANEL_BYTES /* of a warp group */
};
/* Shared memory: k-tiles; outputs of the two consumer warp groups (first their residual, then D); bias, gain
 * and shift of this tile's and the next tile's columns; mbarriers, STAGES of the first two kinds, one of the
 * others for each warp group. */
enum {
    VECTORS = 3,
    OUTPUT_AT = STAGES * STAGE_BYTES,
    VECTORS_AT = OUTPUT_AT + 2 * OUTPUT_BYTES,
    FULL = VECTORS_AT + 2 * VECTORS * TILE_N * 4,
    EMPTY = FULL + 8 * STAGES,
    EPILOGUE_READY = EMPTY + 8 * STAGES, /* the output buffer is free; vectors and residual are there */
    OUTPUT_READY = EPILOGUE_READY + 16,  /* the output buffer holds D */
    SHARED_BYTES = OUTPUT_READY + 16
};
static_assert(SHARED_BYTES <= 227 << 10, "shared memory of a block");

/* The address of a thread's fragment row in its warp group's output buffer; `panel` and i = 0..3, 16 columns
 * each, select the fragment. */
__device__ __forceinline__ uint32_t fragment_address(uint32_t output, int panel, int i) {
    return (output ^ 32u * (unsigned)i) + (unsigned)panel * PANEL_BYTES;
}

__device__ __forceinline__ uint32_t output_address(uint32_t base) {
    const unsigned group = threadIdx.x / 128 - 1, thread = threadIdx.x % 32;
    const unsigned row = threadIdx.x / 32 % 4 * 16 + thread % 16;
    return base + OUTPUT_AT + group * OUTPUT_BYTES + row * 128 + (thread / 16 ^ row % 8) * 16;
}

/* Bias, gain and shift of a tile's columns, double-buffered. */
__device__ __forceinline__ float *column_vectors(char *shared, unsigned iteration) {
    return (float *)(shared + VECTORS_AT) + iteration % 2 * (VECTORS * TILE_N);
}

/* ---- Persistent tile scheduler ---- */

struct output_tile {
    int row, column, lane;
};

/* Tiles are numbered lane by lane. Within a lane they are rastered in groups of rows that are small enough
 * for their A to stay in the L2 cache while all of W passes. */
__device__ __forceinline__ output_tile tile_at(const sm90_gemm_params &params, unsigned index,
                                               unsigned rank) {
    unsigned per_lane = params.m_tiles * params.n_tiles, within = index % per_lane,
             group = params.raster_group * params.n_tiles;
    unsigned first = within / group * params.raster_group,
             height = min(params.raster_group, params.m_tiles - first);
    within %= group;
    return {(int)((first + within % height) * CLUSTER + rank) * TILE_M, (int)(within / height) * TILE_N,
            (int)(index / per_lane)};
}

/* The tile of this cluster's iteration. */
__device__ __forceinline__ unsigned tile_index(unsigned iteration) {
    return blockIdx.x / CLUSTER + iteration * (gridDim.x / CLUSTER);
}

/* ---- Fused layer norm (EPILOGUE_NORM) ----
 *
 * A row lies in up to four tiles beside each other, each in another block. A warp rounds its results to the type of D,
 * reduces its part of 16 rows to partial statistics (sum and sum of squares), publishes them in global memory, waits for
 * those of the other blocks, and normalises.
 *
 * So blocks wait for each other, and where programs share the GPU not all of them need be running: two processes under
 * MPS could each hold the multiprocessors that the other's blocks wait for. No warp waits for ever. One that has waited
 * for spin_limit looks stores its rows as they are and puts them on a list for norm_fallback_kernel, which runs behind
 * the GEMM. From then on all warps wait less.
 *
 * Which warps give up is chance, and must not change a bit. norm_fallback_kernel reads the same numbers, since the
 * results were rounded before anything was done with them, and the same statistics, which it adds in the same order. */

enum { NORM_MAX_N_TILES = 4 }; /* a thread of a quad reads the statistics of one tile */
enum { SPIN_CHECK = 32 };      /* looks after which a warp gives up if others have done so */

/* Both statistics are one 64-bit word, so that they arrive together. This value stands for "not yet": no sum
 * gives it. */
__device__ const uint64_t stats_pending = ~(uint64_t)0;

__device__ __forceinline__ void stats_store(uint64_t *at, float sum, float squares) {
    const uint64_t both = (uint64_t)__float_as_uint(squares) << 32 | __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(both) : "memory");
}

__device__ __forceinline__ uint64_t stats_load(const uint64_t *at) {
    uint64_t both;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(at) : "memory");
    return both;
}

/* (1 / sigma, -mean / sigma) of a row. Where the mean is large, digits of the variance are lost; the rounding of
 * the row to 16 bits loses more. */
__device__ __forceinline__ float2 row_scale(const sm90_gemm_params &params, float sum, float squares) {
    const float mean = sum * params.norm.inv_outputs,
                variance = fmaf(-mean, mean, squares * params.norm.inv_outputs);
    const float scale = rsqrtf((variance < 0 ? 0 : variance) + params.norm.epsilon);
    return make_float2(scale, -mean * scale);
}

__device__ __forceinline__ float normalize(float x, float2 row, float gain, float shift) {
    return fmaf(fmaf(x, row.x, row.y), gain, shift);
}

/* The statistics are double-buffered: warps 2 and 3 reset those of the GEMM before. */
__device__ __forceinline__ void reset_previous_stats(const sm90_gemm_params &params) {
    for (unsigned i = blockIdx.x * 64 + threadIdx.x % 64; i < params.norm.previous_count; i += gridDim.x * 64)
        params.norm.previous_stats[i] = stats_pending;
}

/* The number of a warp's first row, among the padded rows of all lanes. */
__device__ __forceinline__ unsigned warp_row(const sm90_gemm_params &params, const output_tile &t) {
    return (unsigned)t.lane * (params.m_tiles * CLUSTER * TILE_M) + (unsigned)t.row +
           (threadIdx.x - 128) / 32 * 16;
}

/* Of a thread's two rows, over its even and its odd columns. */
struct row_partials {
    float sum[2][2], square[2][2];
};

__device__ __forceinline__ void add_to_partials(row_partials &partials, int row, float2 x) {
    partials.sum[row][0] += x.x, partials.sum[row][1] += x.y;
    partials.square[row][0] = fmaf(x.x, x.x, partials.square[row][0]);
    partials.square[row][1] = fmaf(x.y, x.y, partials.square[row][1]);
}

/* A quad has a row. Columns beyond the last one are 0. */
__device__ __forceinline__ void publish_stats(const sm90_gemm_params &params, const output_tile &t,
                                              const row_partials &partials) {
    const unsigned thread = threadIdx.x % 32, row = warp_row(params, t) + thread / 4;
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        const float sum = quad_sum(partials.sum[r][0] + partials.sum[r][1]);
        const float square = quad_sum(partials.square[r][0] + partials.square[r][1]);
        if (thread % 4 == r)
            stats_store(params.norm.stats + (row + 8 * r) * params.n_tiles + (unsigned)t.column / TILE_N, sum,
                        square);
    }
}

/* A quad has two rows, and each of its threads reads one tile's statistics of both. False: some did not come
 * in time. */
__device__ __forceinline__ bool wait_for_stats(const sm90_gemm_params &params, const output_tile &t,
                                               float2 rows[2]) {
    const unsigned thread = threadIdx.x % 32, row = warp_row(params, t) + thread / 4;
    const uint64_t *at = params.norm.stats + row * params.n_tiles + thread % 4;
    uint64_t stats[2] = {0, 0};
    bool complete = false;
    for (int looks = 0; looks < params.norm.spin_limit && !complete; looks++) {
        if (looks == SPIN_CHECK && *(volatile unsigned *)params.norm.fallback_count) break;
        if (thread % 4 < params.n_tiles)
            stats[0] = stats_load(at), stats[1] = stats_load(at + 8 * params.n_tiles);
        complete = __all_sync(~0u, stats[0] != stats_pending && stats[1] != stats_pending);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
        rows[r] = row_scale(params, quad_sum(__uint_as_float((uint32_t)stats[r])),
                            quad_sum(__uint_as_float((uint32_t)(stats[r] >> 32))));
    return complete;
}

/* Gain and shift of a thread's columns of a panel. */
struct norm_vectors {
    float2 gain[8], shift[8];
};

__device__ __forceinline__ void load_norm_vectors(const float *gains, int panel, norm_vectors &of) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float *at = gains + panel * 64 + i * 8 + threadIdx.x % 4 * 2;
        of.gain[i] = *(const float2 *)at, of.shift[i] = *(const float2 *)(at + TILE_N);
    }
}

/* Stores the results, which are rounded already, and lists the warp's rows for norm_fallback_kernel. */
template <class T>
__device__ __forceinline__ void store_for_fallback(const sm90_gemm_params &params, uint32_t output,
                                                   const output_tile &t, const float acc[TILE_N / 2]) {
    if (threadIdx.x % 32 == 0)
        params.norm.fallback_list[atomicAdd(params.norm.fallback_count, 1)] =
            warp_row(params, t) / 16 * params.n_tiles + (unsigned)t.column / TILE_N;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TILE_N / 16; i++) {
        const float *s = acc + i * 8;
        const uint32_t r[4] = {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]),
                               pack<T>(s[6], s[7])};
        stmatrix(fragment_address(output, i / 4, i % 4), r);
    }
}

/* The second half of the epilogue: normalises the accumulators. gains: of the tile's columns, the shifts
 * behind them. */
template <class T>
__device__ __forceinline__ void epilogue_norm(const sm90_gemm_params &params, uint32_t output,
                                              const float *gains, const output_tile &t,
                                              const row_partials &partials, const float acc[TILE_N / 2]) {
    float2 rows[2];
    norm_vectors of[2];
    publish_stats(params, t, partials);
    load_norm_vectors(gains, 0, of[0]);
    if (!wait_for_stats(params, t, rows)) {
        store_for_fallback<T>(params, output, t, acc);
        return;
    }
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        const norm_vectors &here = of[p % 2];
        if (p + 1 < PANELS) load_norm_vectors(gains, p + 1, of[(p + 1) % 2]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t r[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float *s = acc + p * 32 + i * 8 + j * 2;
                const float2 gain = here.gain[2 * i + j / 2], shift = here.shift[2 * i + j / 2];
                r[j] = pack<T>(normalize(s[0], rows[j % 2], gain.x, shift.x),
                               normalize(s[1], rows[j % 2], gain.y, shift.y));
            }
            stmatrix(fragment_address(output, p, i), r);
        }
    }
}

/* One entry of the list: (16 rows, TILE_N columns), in place. */
template <class T> __device__ void norm_fallback_rows(const sm90_gemm_params &params, unsigned entry) {
    const unsigned padded_rows = params.m_tiles * CLUSTER * TILE_M,
                   at = entry / params.n_tiles * 16 + threadIdx.x / 8;
    const unsigned begin = entry % params.n_tiles * TILE_N, end = min(begin + TILE_N, params.outputs);
    const unsigned lane = at / padded_rows, row = at % padded_rows;
    float sum[NORM_MAX_N_TILES] = {}, squares[NORM_MAX_N_TILES] = {};
    if (row >= params.norm.rows) return;
#pragma unroll
    for (unsigned i = 0; i < NORM_MAX_N_TILES; i++) {
        if (i >= params.n_tiles) continue;
        const uint64_t both = stats_load(params.norm.stats + at * params.n_tiles + i);
        sum[i] = __uint_as_float((uint32_t)both), squares[i] = __uint_as_float((uint32_t)(both >> 32));
    }
    /* in the order of quad_sum() */
    const float2 own = row_scale(params, (sum[0] + sum[1]) + (sum[2] + sum[3]),
                                 (squares[0] + squares[1]) + (squares[2] + squares[3]));
    T *out = (T *)params.norm.out + lane * params.norm.out_lane + row * params.norm.out_stride;
    for (unsigned c = begin + threadIdx.x % 8; c < end; c += 8) {
        const float gain = params.norm.gain ? params.norm.gain[lane * params.norm.lane + c] : 1.0f;
        const float shift = params.norm.shift ? params.norm.shift[lane * params.norm.lane + c] : 0.0f;
        out[c] = from_float<T>(normalize(to_float(out[c]), own, gain, shift));
    }
}

/* The rows that were listed; 8 threads a row. The last block empties the list. */
template <class T>
static __global__ void __launch_bounds__(128)
    norm_fallback_kernel(const __grid_constant__ sm90_gemm_params params) {
    const unsigned count = *(volatile unsigned *)params.norm.fallback_count;
    if (!count) return;
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x)
        norm_fallback_rows<T>(params, params.norm.fallback_list[i]);
    __syncthreads(); /* all have read the count */
    if (threadIdx.x == 0 && atomicAdd(params.norm.fallback_count + 1, 1) == gridDim.x - 1)
        params.norm.fallback_count[0] = params.norm.fallback_count[1] = 0;
}

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

/* log2 of the normal distribution's tail, for results of a type. From 0 to 6 the tail is right to 5e-5 of it
 * for fp16, a tenth of its rounding, and to 4e-4 for bf16, a fifth. Beyond 6, where the tail is below 1e-9,
 * fp16 stays there, and bf16's polynomial goes on falling. */
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

/* gelu() in half as many instructions. Of an infinite x it makes NaN. */
template <class T> __device__ __forceinline__ float gelu_fast(float x) {
    return fmaf(-fabsf(x), exp2_fast(log2_tail<T>(fabsf(x))), fmaxf(x, 0.0f));
}

/* x / (1 + 2^(c0 x + c1 x^3)): SiLU, and the tanh form of GELU. */
__device__ __forceinline__ float swish(float x, const float c[2]) {
    return __fdividef(x, 1.0f + exp2_fast(x * fmaf(c[1] * x, x, c[0])));
}

/* ---- Producer (warp 0) ---- */

__device__ __forceinline__ void produce(const sm90_gemm_params &params, uint32_t base, unsigned rank) {
    unsigned stage = 0, phase = 0;
    const int part = TILE_N / CLUSTER; /* rows of W that this block loads for the cluster */
    for (unsigned iteration = 0; tile_index(iteration) < params.tiles; iteration++) {
        const output_tile t = tile_at(params, tile_index(iteration), rank);
        for (unsigned k_tile = 0; k_tile < params.k_tiles; k_tile++) {
            uint32_t a = base + stage * STAGE_BYTES, w = a + A_BYTES, full = base + FULL + 8 * stage;
            int column = (int)k_tile * TILE_K;
            mbarrier_wait(base + EMPTY + 8 * stage, phase ^ 1);
            mbarrier_arrive_expect_tx(full, STAGE_BYTES);
            tma_load(a, &params.a, full, column, t.row, params.a_per_lane ? t.lane : 0);
            tma_load_multicast(w + rank * part * 128, &params.weight, full, column,
                               t.column + (int)rank * part, params.weight_per_lane ? t.lane : 0,
                               (1 << CLUSTER) - 1);
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

/* ---- Consumers (warps 4..11) ---- */

/* One thread of a warp for each block of the cluster, since all of them load into this stage of ours. */
__device__ __forceinline__ void release_stage(uint32_t base, unsigned stage) {
    if (threadIdx.x % 32 < CLUSTER) mbarrier_arrive_cluster(base + EMPTY + 8 * stage, threadIdx.x % 32);
}

/* The main loop over the k-tiles of an output tile; `first` counts the k-tiles of all tiles before. The
 * last wgmma is still running when it returns; the result is its stage. */
template <class T>
__device__ __forceinline__ unsigned mainloop(uint32_t base, unsigned k_tiles, unsigned first,
                                             float acc[TILE_N / 2]) {
    const unsigned group = threadIdx.x / 128 - 1;
    unsigned stage = first % STAGES, phase = first / STAGES % 2, before = 0;
    for (unsigned k_tile = 0; k_tile < k_tiles; k_tile++) {
        uint32_t here = base + stage * STAGE_BYTES;
        uint64_t a = smem_descriptor(here + group * 64 * 128), w = smem_descriptor(here + A_BYTES);
        mbarrier_wait(base + FULL + 8 * stage, phase);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++) /* 16 inputs are 32 bytes */
            wgmma<T, TILE_N>(acc, a + 2 * k, w + 2 * k, k_tile || k);
        wgmma_commit();
        if (k_tile) {
            wgmma_wait<1>();
            release_stage(base, before);
        }
        before = stage;
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    return before;
}

/* What the epilogue does besides adding the bias. */
enum sm90_epilogue {
    EPILOGUE_BIAS,
    EPILOGUE_RESIDUAL,
    EPILOGUE_NORM, /* residual, then norm */
    EPILOGUE_RELU,
    EPILOGUE_GELU,
    EPILOGUE_SWISH
};

/* Rounded to T, as floats. Without the asm the compiler keeps bf16 numbers packed instead of in the registers of the
 * accumulators, and has to move them around the next wgmma (58 registers spilled instead of none). */
template <class T> __device__ __forceinline__ float2 round_to(float2 x) {
    x = unpack<T>(pack<T>(x.x, x.y));
    asm volatile("" : "+f"(x.x), "+f"(x.y));
    return x;
}

/* What is added to a panel. */
struct epilogue_operands {
    float2 bias[8];
    uint32_t residual[4][4];
};

template <int EPILOGUE>
__device__ __forceinline__ void load_operands(uint32_t output, const float *bias, int panel,
                                              epilogue_operands &operands) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        operands.bias[i] = *(const float2 *)(bias + panel * 64 + i * 8 + threadIdx.x % 4 * 2);
    if (EPILOGUE == EPILOGUE_RESIDUAL || EPILOGUE == EPILOGUE_NORM)
#pragma unroll
        for (int i = 0; i < 4; i++) ldmatrix(operands.residual[i], fragment_address(output, panel, i));
}

/* Activation and rounding of two columns. */
template <class T, int EPILOGUE>
__device__ __forceinline__ uint32_t finish(const sm90_gemm_params &params, float2 x) {
    if (EPILOGUE == EPILOGUE_GELU) x.x = gelu_fast<T>(x.x), x.y = gelu_fast<T>(x.y);
    if (EPILOGUE == EPILOGUE_SWISH)
        x.x = swish(x.x, params.activation_coefficients), x.y = swish(x.y, params.activation_coefficients);
    const uint32_t both = pack<T>(x.x, x.y);
    return EPILOGUE == EPILOGUE_RELU ? relu2<T>(both) : both;
}

/* A warp group's accumulators (64 rows, TILE_N columns), finished, into its output buffer. With EPILOGUE_NORM
 * they stay in registers and partial row statistics are taken. The operands of a panel are loaded while the
 * one before it is finished; those of the first while the last wgmma runs. */
template <class T, int EPILOGUE>
__device__ __forceinline__ void epilogue(const sm90_gemm_params &params, uint32_t output, const float *bias,
                                         epilogue_operands operands[2], float acc[TILE_N / 2],
                                         row_partials &partials) {
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        const epilogue_operands &here = operands[p % 2];
        if (p + 1 < PANELS) load_operands<EPILOGUE>(output, bias, p + 1, operands[(p + 1) % 2]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t r[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                /* 8 x 8 each: left above, left below, right above, right below */
                float *s = acc + p * 32 + i * 8 + j * 2;
                float2 x = here.bias[2 * i + j / 2];
                x.x += s[0], x.y += s[1];
                if (EPILOGUE == EPILOGUE_RESIDUAL || EPILOGUE == EPILOGUE_NORM) {
                    const float2 add = unpack<T>(here.residual[i][j]);
                    x.x += add.x, x.y += add.y;
                }
                if (EPILOGUE == EPILOGUE_NORM) {
                    x = round_to<T>(x);
                    add_to_partials(partials, j % 2, x);
                    s[0] = x.x, s[1] = x.y;
                } else
                    r[j] = finish<T, EPILOGUE>(params, x);
            }
            if (EPILOGUE != EPILOGUE_NORM) stmatrix(fragment_address(output, p, i), r);
        }
    }
}

template <class T, int EPILOGUE>
__device__ __forceinline__ void consume(const sm90_gemm_params &params, char *shared, uint32_t base,
                                        unsigned rank) {
    const unsigned group = threadIdx.x / 128 - 1;
    const uint32_t output = output_address(base);
    float acc[TILE_N / 2];
    for (unsigned iteration = 0; tile_index(iteration) < params.tiles; iteration++) {
        const float *vectors = column_vectors(shared, iteration);
        epilogue_operands operands[2];
        row_partials partials = {};
        const unsigned last = mainloop<T>(base, params.k_tiles, iteration * params.k_tiles, acc);
        mbarrier_wait(base + EPILOGUE_READY + 8 * group, iteration % 2);
        load_operands<EPILOGUE>(output, vectors, 0, operands[0]);
        wgmma_wait_all<TILE_N / 2>(acc);
        release_stage(base, last);
        epilogue<T, EPILOGUE>(params, output, vectors, operands, acc, partials);
        if (EPILOGUE == EPILOGUE_NORM)
            epilogue_norm<T>(params, output, vectors + TILE_N, tile_at(params, tile_index(iteration), rank),
                             partials, acc);
        fence_proxy_async();
        mbarrier_arrive(base + OUTPUT_READY + 8 * group);
    }
}

/* ---- Epilogue loads and stores (warp 1) ---- */

template <class V>
__device__ __forceinline__ void copy_vector(float *to, const V *from, float absent, unsigned count) {
#pragma unroll 4
    for (unsigned i = threadIdx.x % 32; i < TILE_N; i += 32)
        to[i] = from && i < count ? to_float(from[i]) : absent;
}

template <class T, int EPILOGUE>
__device__ __forceinline__ void load_vectors(const sm90_gemm_params &params, char *shared, unsigned iteration,
                                             unsigned rank) {
    if (tile_index(iteration) >= params.tiles) return;
    const output_tile t = tile_at(params, tile_index(iteration), rank);
    const unsigned columns = params.outputs - (unsigned)t.column;
    float *to = column_vectors(shared, iteration);
    const T *bias = (const T *)params.bias + t.lane * params.bias_lane + t.column;
    copy_vector(to, params.bias ? bias : NULL, 0.0f, columns);
    if (EPILOGUE != EPILOGUE_NORM) return;
    const int64_t at = t.lane * params.norm.lane + t.column;
    copy_vector(to + TILE_N, params.norm.gain ? params.norm.gain + at : NULL, 1.0f, columns);
    copy_vector(to + 2 * TILE_N, params.norm.shift ? params.norm.shift + at : NULL, 0.0f, columns);
}

/* A warp group's output buffer is free: its part of the residual goes there. */
__device__ __forceinline__ void load_residual(const sm90_gemm_params &params, uint32_t base,
                                              unsigned iteration, unsigned group, unsigned rank) {
    if (tile_index(iteration) >= params.tiles) return;
    const output_tile t = tile_at(params, tile_index(iteration), rank);
    const uint32_t ready = base + EPILOGUE_READY + 8 * group;
    if (threadIdx.x % 32 || !params.has_residual) {
        mbarrier_arrive(ready); /* for the vectors that this thread has written */
        return;
    }
    mbarrier_arrive_expect_tx(ready, OUTPUT_BYTES);
    for (int p = 0; p < PANELS; p++)
        tma_load(base + OUTPUT_AT + group * OUTPUT_BYTES + p * PANEL_BYTES, &params.residual, ready,
                 t.column + 64 * p, t.row + (int)group * 64, t.lane);
}

template <class T, int EPILOGUE>
__device__ __forceinline__ void load_and_store(const sm90_gemm_params &params, char *shared, uint32_t base,
                                               unsigned rank) {
    load_vectors<T, EPILOGUE>(params, shared, 0, rank);
    for (unsigned group = 0; group < 2; group++) load_residual(params, base, 0, group, rank);
    for (unsigned iteration = 0; tile_index(iteration) < params.tiles; iteration++) {
        const output_tile t = tile_at(params, tile_index(iteration), rank);
        /* both warp groups are done with the vectors of the iteration before */
        load_vectors<T, EPILOGUE>(params, shared, iteration + 1, rank);
        for (unsigned group = 0; group < 2; group++) {
            mbarrier_wait(base + OUTPUT_READY + 8 * group, iteration % 2);
            if (threadIdx.x % 32 == 0) {
                for (int p = 0; p < PANELS; p++)
                    tma_store(&params.out, base + OUTPUT_AT + group * OUTPUT_BYTES + p * PANEL_BYTES,
                              t.column + 64 * p, t.row + (int)group * 64, t.lane);
                tma_store_commit();
                tma_store_wait_read();
            }
            __syncwarp();
            load_residual(params, base, iteration + 1, group, rank);
        }
    }
    if (threadIdx.x % 32 == 0) tma_store_wait();
}

/* ---- The kernel ---- */

__device__ __forceinline__ void init_barriers(const sm90_gemm_params &params, uint32_t base) {
    if (threadIdx.x == 0) {
        prefetch_tensormap(&params.a);
        prefetch_tensormap(&params.weight);
        prefetch_tensormap(&params.out);
        if (params.has_residual) prefetch_tensormap(&params.residual);
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(base + FULL + 8 * i, 1);
            mbarrier_init(base + EMPTY + 8 * i, 8 * CLUSTER); /* the consumer warps of the cluster */
        }
        for (int i = 0; i < 2; i++) {
            mbarrier_init(base + EPILOGUE_READY + 8 * i, 32);
            mbarrier_init(base + OUTPUT_READY + 8 * i, 128);
        }
        fence_mbarrier_init();
    }
    cluster_sync();
}

/* A block starts with 168 registers a thread; the consumers take those that the other warp group gives
 * back. */
template <class T, int EPILOGUE>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_sm90_kernel(const __grid_constant__ sm90_gemm_params params) {
    extern __shared__ __align__(1024) char shared[]; /* the swizzle needs 1024 */
    const uint32_t base = shared_address(shared);
    const unsigned rank = cluster_rank();
    init_barriers(params, base);
    if (threadIdx.x < 128) {
        setmaxnreg_dec<40>();
        if (threadIdx.x / 32 == 1)
            load_and_store<T, EPILOGUE>(params, shared, base, rank);
        else if (EPILOGUE == EPILOGUE_NORM && threadIdx.x >= 64)
            reset_previous_stats(params);
        else if (threadIdx.x == 0)
            produce(params, base, rank);
    } else {
        setmaxnreg_inc<232>();
        consume<T, EPILOGUE>(params, shared, base, rank);
    }
    __syncwarp();
    cluster_sync(); /* the other block may still write here and arrive at our mbarriers */
}

#endif
