/* A norm of the rows that zest's product kernel gives (HOPPER_NORM). A row lies in several tiles beside each
 * other, each of another block. A warp measures its part of 16 rows, puts that down where the others find it,
 * waits for theirs, and normalizes its sums before they are rounded.
 *
 * So blocks wait for each other, and where programs share the GPU not all of them need be running: a warp
 * that has waited for long stores its rows as they are and puts them on a list, which late_kernel does behind
 * the product. From then on all wait less. */
#ifndef ZEST_KERNELS_CUDA_GEMM_SM90_NORM_CUH
#define ZEST_KERNELS_CUDA_GEMM_SM90_NORM_CUH

#include "kernels/cuda/gemm_sm90_args.cuh"

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

#endif
