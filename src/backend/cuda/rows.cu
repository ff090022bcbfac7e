/* Element by element: gather, rotary, gate, copies of rows. */
#include "backend/cuda/cells.cuh"

enum { THREADS = 256 };

/* ---- Gather ---- */

struct gather_job {
    zest_weight table;
    zest_cuda_pairs pairs;
    const uint32_t *ids;
    void *out;
    int64_t lane;
    int add, moves[2];
};

/* Four elements that lie side by side. */
template <class T> struct alignas(4 * sizeof(T)) cells4 { T cell[4]; };

template <class W> static __device__ __forceinline__ float4 widen4(const void *data, uint64_t i) {
    const cells4<W> four = *(const cells4<W> *)((const W *)data + i);
    return make_float4(to_float(four.cell[0]), to_float(four.cell[1]), to_float(four.cell[2]),
                       to_float(four.cell[3]));
}
static __device__ __forceinline__ float4 load_weights4(const zest_weight &table, uint64_t i) {
    if (table.dtype == ZEST_DTYPE_F32) return widen4<float>(table.data, i);
    if (table.dtype == ZEST_DTYPE_BF16) return widen4<__nv_bfloat16>(table.data, i);
    return widen4<__half>(table.data, i);
}

/* A block a row and pair; four elements a thread, those of one block of noise. */
template <class T> static __global__ void __launch_bounds__(THREADS) gather_kernel(gather_job job) {
    const uint64_t columns = job.table.columns, i = blockIdx.x, row = job.ids[i] * columns;
    const int p = (int)blockIdx.y;
    T *const out = (T *)job.out + p * job.pairs.lanes * job.lane + i * columns;
    for (uint64_t c = threadIdx.x * 4; c < columns; c += blockDim.x * 4) {
        float z[4] = {0, 0, 0, 0};
        if (job.moves[0] | job.moves[1])
            noise4(job.pairs.seed[p], job.pairs.signs, (job.table.first + row + c) / 4, z);
        const float4 four = load_weights4(job.table, row + c);
        const float w[4] = {four.x, four.y, four.z, four.w};
        for (int l = 0; l < job.pairs.lanes; l++) {
            cells4<T> *to = (cells4<T> *)(out + l * job.lane + c), cells = {};
            if (job.add) cells = *to;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float x = job.moves[l] ? __fmaf_rn(job.pairs.scale[p][l], z[j], w[j]) : w[j];
                cells.cell[j] = to_cell<T>(job.add ? to_float(cells.cell[j]) + x : x);
            }
            *to = cells;
        }
    }
}

/* The same for tables that begin or end within a block of noise. */
template <class T> static __global__ void __launch_bounds__(THREADS) gather_any_kernel(gather_job job) {
    size_t columns = job.table.columns, i = blockIdx.x;
    int p = (int)blockIdx.y;
    uint64_t row = (uint64_t)job.ids[i] * columns, first = job.table.first + row;
    for (uint64_t block = first / 4 + threadIdx.x; block * 4 < first + columns; block += THREADS) {
        float z[4] = {0, 0, 0, 0};
        if (job.moves[0] | job.moves[1]) noise4(job.pairs.seed[p], job.pairs.signs, block, z);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint64_t number = block * 4 + (uint64_t)j;
            if (number < first || number >= first + columns) continue;
            uint64_t c = number - first;
            float w = load_weight(job.table.data, job.table.dtype, row + c);
            for (int l = 0; l < job.pairs.lanes; l++) {
                T *to = (T *)job.out + (p * job.pairs.lanes + l) * job.lane + i * columns + c;
                float x = job.moves[l] ? __fmaf_rn(job.pairs.scale[p][l], z[j], w) : w;
                *to = to_cell<T>(job.add ? to_float(*to) + x : x);
            }
        }
    }
}

template <class T> static void gather(zest_cuda *cuda, const gather_job *job, dim3 grid) {
    const uint64_t threads = (job->table.columns / 4 + 31) / 32 * 32;
    const uint64_t fours = job->table.columns | job->table.first | (uint64_t)job->lane;
    const uintptr_t at = (uintptr_t)job->table.data | (uintptr_t)job->out;
    if (fours % 4 || at % 16)
        gather_any_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(*job);
    else
        gather_kernel<T><<<grid, (unsigned)(threads < THREADS ? threads : THREADS), 0, cuda->stream>>>(*job);
}

int zest_cuda_gather(const zest_weight *table, const zest_perturbation *p, const uint32_t *ids, size_t count,
                     float *const out[2], int add, int threads, zest_scratch *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return 0;
    gather_job job = {*table, zest_cuda_pairs_of(p), ids, out[0], 0, add, {0, 0}};
    if (p->lanes > 1) job.lane = zest_cuda_apart(out[0], out[1], cuda->base.cell);
    dim3 grid((unsigned)count, (unsigned)job.pairs.count);
    for (int l = 0; l < p->lanes; l++) job.moves[l] = !table->frozen && p->scale[l] != 0;
    zest_cuda_watch_one watch(cuda, ZEST_TIME_ROWS);
    ZEST_CUDA_TYPED(cuda->base.compute, T, gather<T>(cuda, &job, grid));
    return zest_cuda_launched(cuda, "a gather");
}

/* ---- Rotary ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    rotary_kernel(T *x, size_t rows, size_t stride, size_t heads, size_t half, const uint32_t *positions,
                  const float *cosines, const float *sines) {
    size_t at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (at >= rows * heads * half) return;
    size_t i = at % half, h = at / half % heads, m = at / (half * heads);
    T *low = x + m * stride + h * 2 * half + i, *high = low + half;
    float c = cosines[positions[m] * half + i], s = sines[positions[m] * half + i];
    float a = to_float(*low), b = to_float(*high);
    *low = to_cell<T>(a * c - b * s);
    *high = to_cell<T>(b * c + a * s);
}

void zest_cuda_rotary(float *x, size_t rows, size_t stride, size_t heads, size_t head_size,
                      const uint32_t *positions, const float *cosines, const float *sines, int threads,
                      zest_scratch *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    size_t work = rows * heads * (head_size / 2);
    (void)threads;
    if (!work) return;
    zest_cuda_watch_one watch(cuda, ZEST_TIME_ATTENTION);
    ZEST_CUDA_TYPED(cuda->base.compute, T,
                    (rotary_kernel<T><<<zest_cuda_blocks(work, THREADS), THREADS, 0, cuda->stream>>>(
                        (T *)(void *)x, rows, stride, heads, head_size / 2, positions, cosines, sines)));
    (void)zest_cuda_launched(cuda, "rotary positions");
}

/* ---- Gate ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    gate_kernel(T *gate, const T *up, size_t count, int activation) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * 8;
    if (at >= count) return;
    if (at + 8 <= count && (((uintptr_t)gate | (uintptr_t)up) & 15) == 0) {
        float x[8], y[8];
        load8(gate + at, x);
        load8(up + at, y);
#pragma unroll
        for (int j = 0; j < 8; j++) x[j] = activate(x[j], activation) * y[j];
        store8(gate + at, x);
        return;
    }
    for (size_t i = at; i < at + 8 && i < count; i++)
        gate[i] = to_cell<T>(activate(to_float(gate[i]), activation) * to_float(up[i]));
}

void zest_cuda_gate(float *gate, const float *up, size_t count, zest_activation activation, int threads,
                    zest_scratch *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    zest_cuda_watch_one watch(cuda, ZEST_TIME_ROWS);
    ZEST_CUDA_TYPED(cuda->base.compute, T,
                    (gate_kernel<T><<<zest_cuda_blocks(count, THREADS * 8), THREADS, 0, cuda->stream>>>(
                        (T *)(void *)gate, (const T *)(const void *)up, count, activation)));
    (void)zest_cuda_launched(cuda, "a gate");
}

/* ---- Copies ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS) copy_kernel(const T *from, T *to, zest_copy_rows job) {
    from += blockIdx.y * job.from_lane;
    to += blockIdx.y * job.to_lane;
    size_t i = blockIdx.x, source = job.source ? job.source[i] : i, target = job.target ? job.target[i] : i;
    for (size_t c = threadIdx.x; c < job.width; c += THREADS)
        to[target * job.to_stride + c] = from[source * job.from_stride + c];
}

int zest_cuda_copy_rows(zest_device *device, const zest_copy_rows *job) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!job->count || !job->width || !job->lanes) return 0;
    dim3 grid((unsigned)job->count, (unsigned)job->lanes);
    zest_cuda_watch_one watch(cuda, ZEST_TIME_ROWS);
    ZEST_CUDA_TYPED(cuda->base.compute, T,
                    (copy_kernel<T><<<grid, THREADS, 0, cuda->stream>>>((const T *)(const void *)job->from,
                                                                        (T *)(void *)job->to, *job)));
    return zest_cuda_launched(cuda, "copying rows");
}
