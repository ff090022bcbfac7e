/* A norm of the rows that zest's product kernel gives (HOPPER_NORM). A row lies in several tiles beside each
 * other, each of another block. A warp measures its part of 16 rows (mean, squares around it), puts that down
 * where the others find it, leaves the sums in their room and goes on to the next tile. Some pieces later the
 * others' parts are there, and the rows are normalized and stored while the next tile is multiplied.
 *
 * So blocks wait for each other, and where programs share the GPU not all of them need be running: a warp
 * that has waited for long stores its rows as they are and puts them on a list, which late_kernel does behind
 * the product. */
#ifndef ZEST_BACKEND_CUDA_GEMM_HOPPER_NORM_CUH
#define ZEST_BACKEND_CUDA_GEMM_HOPPER_NORM_CUH

#include "backend/cuda/gemm_hopper_job.cuh"

enum { NORM_PIECE = 3 }; /* of the next tile, when the first panel is normalized: others are rarely later */
enum { PARTS_MOST = 4 }; /* of a row */

/* ---- Parts of rows: mean and squares around it, in one word, so that they come together ---- */

/* Before they come: no sum gives that. */
__device__ const uint64_t no_part = ~(uint64_t)0;

__device__ __forceinline__ void part_store(uint64_t *at, float mean, float squares) {
    const uint64_t both = (uint64_t)__float_as_uint(squares) << 32 | __float_as_uint(mean);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(both) : "memory");
}

__device__ __forceinline__ uint64_t part_load(const uint64_t *at) {
    uint64_t both;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(at) : "memory");
    return both;
}

/* Of a row, by its number among all lanes'. True: they are all there. */
__device__ __forceinline__ bool parts_load(const hopper_job &job, unsigned row, uint64_t parts[PARTS_MOST]) {
    bool there = true;
#pragma unroll
    for (unsigned i = 0; i < PARTS_MOST; i++) {
        parts[i] = i < job.widths ? part_load(job.norm.parts + row * job.widths + i) : 0;
        there = there && parts[i] != no_part;
    }
    return there;
}

/* The row's mean, and what its differences from it are multiplied by. */
__device__ __forceinline__ float2 merged(const hopper_job &job, const uint64_t parts[PARTS_MOST]) {
    float count = 0, mean = 0, square = 0;
#pragma unroll
    for (unsigned i = 0; i < PARTS_MOST; i++)
        if (i < job.widths) {
            const float more = (float)min((unsigned)COLUMNS, job.outputs - i * COLUMNS);
            const float share = more / (count + more), away = __uint_as_float((uint32_t)parts[i]) - mean;
            mean = fmaf(away, share, mean);
            square += fmaf(away * away, count * share, __uint_as_float((uint32_t)(parts[i] >> 32)));
            count += more;
        }
    return make_float2(mean, rsqrtf(fmaf(square, 1.0f / count, job.norm.epsilon)));
}

/* ---- A group's half of a tile ---- */

/* The number of the first of a warp's 16 rows. */
__device__ __forceinline__ unsigned first_row(const hopper_job &job, const hopper_tile &t) {
    return (unsigned)t.lane * (job.heights * CLUSTER * ROWS) + (unsigned)t.row +
           (threadIdx.x - 128) / 32 * 16;
}

__device__ __forceinline__ float sum_of_four(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* Of this warp's rows, of which a thread has two with every fourth pair of columns. */
__device__ __forceinline__ void measure(const hopper_job &job, const hopper_tile &t,
                                        const float sums[COLUMNS / 2]) {
    const int there = min(COLUMNS, (int)job.outputs - t.column);
    const unsigned thread = threadIdx.x % 32, row = first_row(job, t) + thread / 4;
    float sum[2][2] = {}, square[2][2] = {}, mean[2];
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) sum[i / 2 % 2][i % 2] += sums[i]; /* beyond the last column: 0 */
#pragma unroll
    for (int r = 0; r < 2; r++) mean[r] = sum_of_four(sum[r][0] + sum[r][1]) / (float)there;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) {
        const float away = sums[i] - mean[i / 2 % 2];
        if (i / 4 * 8 < there) square[i / 2 % 2][i % 2] = fmaf(away, away, square[i / 2 % 2][i % 2]);
    }
#pragma unroll
    for (unsigned r = 0; r < 2; r++) {
        const float squares = sum_of_four(square[r][0] + square[r][1]);
        if (thread % 4 == r)
            part_store(job.norm.parts + (row + 8 * r) * job.widths + (unsigned)t.column / COLUMNS, mean[r],
                       squares);
    }
    __syncwarp();
}

/* What the others have measured of this thread's rows; asked for some time before it is looked at. */
struct hopper_rows {
    uint64_t parts[2][PARTS_MOST];
    bool there, late;
    float2 at[2]; /* merged */
};

__device__ __forceinline__ void ask_rows(const hopper_job &job, const hopper_tile &t, hopper_rows &rows) {
    const unsigned row = first_row(job, t) + threadIdx.x % 32 / 4;
    rows.there = parts_load(job, row, rows.parts[0]) && parts_load(job, row + 8, rows.parts[1]);
}

__device__ __forceinline__ void await_rows(const hopper_job &job, const hopper_tile &t, hopper_rows &rows) {
    int patience = job.norm.patience;
    rows.late = job.norm.patience == 0;
    while (!rows.late && !__all_sync(~0u, rows.there)) {
        ask_rows(job, t, rows);
        rows.late = --patience == 0;
    }
#pragma unroll
    for (int r = 0; r < 2; r++) rows.at[r] = merged(job, rows.parts[r]);
    if (rows.late && threadIdx.x % 32 == 0)
        job.norm.list[atomicAdd(job.norm.late, 1)] =
            first_row(job, t) / 16 * job.widths + (unsigned)t.column / COLUMNS;
    __syncwarp();
}

__device__ __forceinline__ float normalized(float x, float2 row, float gain, float shift) {
    return fmaf((x - row.x) * row.y, gain, shift);
}

/* A panel, where it lies; only this warp has written its rows. */
template <class T>
__device__ __forceinline__ void normalize(const hopper_half &half, const float *vectors,
                                          const hopper_rows &rows, unsigned panel) {
    const float *gains = vectors + COLUMNS + panel * 64 + threadIdx.x % 4 * 2, *shifts = gains + COLUMNS;
    if (rows.late) return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t r[4];
        fragment_load(r, half.at[i] + panel * PANEL_BYTES);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 gain = *(const float2 *)(gains + i * 16 + j / 2 * 8),
                         shift = *(const float2 *)(shifts + i * 16 + j / 2 * 8), x = unpack<T>(r[j]);
            r[j] = pack<T>(normalized(x.x, rows.at[j % 2], gain.x, shift.x),
                           normalized(x.y, rows.at[j % 2], gain.y, shift.y));
        }
        fragment_store(half.at[i] + panel * PANEL_BYTES, r);
    }
}

/* ---- Behind the product ---- */

/* A listed part of 16 rows. */
template <class T> __device__ void normalize_late(const hopper_job &job, unsigned number) {
    const unsigned tall = job.heights * CLUSTER * ROWS, at = number / job.widths * 16 + threadIdx.x / 8;
    const unsigned begin = number % job.widths * COLUMNS, end = min(begin + COLUMNS, job.outputs);
    const unsigned lane = at / tall, row = at % tall;
    uint64_t parts[PARTS_MOST];
    if (row >= job.norm.rows) return;
    (void)parts_load(job, at, parts);
    const float2 own = merged(job, parts);
    T *out = (T *)job.norm.out + lane * job.norm.out_lane + row * job.norm.out_stride;
    for (unsigned c = begin + threadIdx.x % 8; c < end; c += 8) {
        const float gain = job.norm.gain ? job.norm.gain[lane * job.norm.lane + c] : 1.0f;
        const float shift = job.norm.shift ? job.norm.shift[lane * job.norm.lane + c] : 0.0f;
        out[c] = to_cell<T>(normalized(to_float(out[c]), own, gain, shift));
    }
}

/* All that are listed; then no part is there for the next product. As long as some are listed only the last
 * block may forget parts, since the others may still read them. */
template <class T>
static __global__ void __launch_bounds__(128) late_kernel(const __grid_constant__ hopper_job job) {
    const unsigned count = job.work / job.widths * CLUSTER * ROWS * job.widths;
    const unsigned late = *(volatile unsigned *)job.norm.late;
    __shared__ bool last;
    for (unsigned i = blockIdx.x; i < late; i += gridDim.x) normalize_late<T>(job, job.norm.list[i]);
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(job.norm.late + 1, 1) == gridDim.x - 1;
    __syncthreads();
    const unsigned first = late ? 0 : blockIdx.x, each = late ? 1 : gridDim.x;
    if (!late || last)
        for (unsigned i = first * blockDim.x + threadIdx.x; i < count; i += each * blockDim.x)
            job.norm.parts[i] = no_part;
    if (last && threadIdx.x == 0) job.norm.late[0] = job.norm.late[1] = 0;
}

#endif
