/* What the parts of zest's product kernel (gemm_sm90.cuh) share: the job, the places in shared memory, the
 * tiles. */
#ifndef ZEST_KERNELS_CUDA_GEMM_SM90_ARGS_CUH
#define ZEST_KERNELS_CUDA_GEMM_SM90_ARGS_CUH

#include "kernels/cuda/sm90.cuh"

/* Of the rows of the result: gemm_sm90_norm.cuh. */
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

#endif
