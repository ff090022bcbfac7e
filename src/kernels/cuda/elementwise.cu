/* Element by element: gather, rotary, gate, copies of rows. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };

/* ---- Gather ---- */

/* Rows of a table as the lanes see them, made before. */
struct made_rows {
    const float *rows;
    const uint32_t *ids;
    uint32_t first; /* row of the table that the first one is */
};
enum { MADE_MOST = ZEST_GATHER_PARTS - 1 };

struct gather_job {
    zest_weight table;
    zest_cuda_pairs pairs;
    const uint32_t *ids;
    void *out;
    int64_t lane;
    unsigned count, add, moves[2];
    made_rows made[MADE_MOST];
    int64_t made_lane;
    int made_count;
};

/* x + what was made for eight columns of a row and lane. */
static __device__ __forceinline__ void add_made8(const gather_job &job, int m, int64_t at, float x[8]) {
    float more[8];
    load8(job.made[m].rows + at, more);
#pragma unroll
    for (int j = 0; j < 8; j++) x[j] += more[j];
}

/* Eight columns of a row a thread, of which it reads the table once for all lanes. The lanes of a pair are
 * stored last, so that what they add is fetched at once. */
template <class T>
static __global__ void __launch_bounds__(THREADS) gather_kernel(const __grid_constant__ gather_job job) {
    const unsigned columns = (unsigned)job.table.columns, groups = columns / 8;
    const size_t thread = blockIdx.x * (size_t)THREADS + threadIdx.x, i = thread / groups;
    if (i >= job.count) return;
    const unsigned c = (unsigned)(thread - i * groups) * 8;
    const uint64_t at = (uint64_t)job.ids[i] * columns + c;
    int64_t made[MADE_MOST] = {};
#pragma unroll
    for (int m = 0; m < MADE_MOST; m++)
        if (m < job.made_count) made[m] = (int64_t)(job.made[m].ids[i] - job.made[m].first) * columns + c;
    float w[8], z[8] = {}, x[2][8];
    load_weight8(job.table.data, job.table.dtype, at, w);
    for (int p = (int)blockIdx.y; p < job.pairs.count; p += (int)gridDim.y) {
        const int first = p * job.pairs.lanes;
        T *const out = (T *)job.out + first * job.lane + i * columns + c;
        if (job.moves[0] | job.moves[1])
            noise8(job.pairs.seed[p], job.pairs.signs, (job.table.first + at) / 4, z);
#pragma unroll
        for (int l = 0; l < 2; l++) {
            if (l >= job.pairs.lanes) continue;
            if (job.add) load8(out + l * job.lane, x[l]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float own = job.moves[l] ? __fmaf_rn(job.pairs.scale[p][l], z[j], w[j]) : w[j];
                x[l][j] = job.add ? x[l][j] + own : own;
            }
#pragma unroll
            for (int m = 0; m < MADE_MOST; m++)
                if (m < job.made_count) add_made8(job, m, (first + l) * job.made_lane + made[m], x[l]);
        }
#pragma unroll
        for (int l = 0; l < 2; l++)
            if (l < job.pairs.lanes) store8(out + l * job.lane, x[l]);
    }
}

/* A block a row and pair, for tables that begin or end within a block of noise. */
template <class T>
static __global__ void __launch_bounds__(THREADS) gather_any_kernel(const __grid_constant__ gather_job job) {
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
                int lane = p * job.pairs.lanes + l;
                T *to = (T *)job.out + lane * job.lane + i * columns + c;
                float x = job.moves[l] ? __fmaf_rn(job.pairs.scale[p][l], z[j], w) : w;
                if (job.add) x += to_float(*to);
                for (int m = 0; m < job.made_count; m++)
                    x += job.made[m].rows[lane * job.made_lane +
                                          (job.made[m].ids[i] - job.made[m].first) * columns + c];
                *to = to_cell<T>(x);
            }
        }
    }
}

template <class T> static void gather(zest_cuda *cuda, const gather_job *job) {
    const uint64_t columns = job->table.columns;
    const uintptr_t at = (uintptr_t)job->table.data | (uintptr_t)job->out;
    const unsigned pairs = (unsigned)job->pairs.count;
    if ((columns | (uint64_t)job->lane) % 8 || job->table.first % 4 || at % 16) {
        gather_any_kernel<T><<<dim3(job->count, pairs), THREADS, 0, cuda->stream>>>(*job);
        return;
    }
    unsigned blocks = zest_cuda_blocks(job->count * (columns / 8), THREADS);
    dim3 grid(blocks, blocks < (unsigned)cuda->processors ? pairs : 1); /* few rows: a block a pair too */
    gather_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(*job);
}

/* The rows of a table that a batch uses, as a weight. */
static zest_weight rows_of(const zest_gather_part *part) {
    zest_weight rows = part->table;
    size_t before = part->first_row * rows.columns;
    rows.data = (const char *)rows.data + before * zest_dtype_size(rows.dtype);
    rows.first += before;
    rows.rows = part->row_count;
    return rows;
}

/* Makes the rows of further tables; NULL: there is no room. */
static zest_cuda_slot *make_rows(zest_cuda *cuda, const zest_gather_part *parts, int count,
                                 const zest_perturbation *p, gather_job *work) {
    zest_cuda_segment segments[MADE_MOST];
    int64_t at[MADE_MOST], lane = 0;
    for (int m = 0; m < count; m++) {
        at[m] = lane;
        lane += (int64_t)((parts[m].row_count * parts[m].table.columns + 63) / 64 * 64);
    }
    size_t bytes = zest_perturbation_lanes(p) * (size_t)lane * sizeof(float);
    zest_cuda_slot *slot = zest_cuda_slot_next(cuda, &cuda->linears, bytes, 0);
    if (!slot) return NULL;
    for (int m = 0; m < count; m++) {
        zest_weight rows = rows_of(&parts[m]);
        float *to = (float *)(void *)slot->weights.data + at[m];
        segments[m] = zest_cuda_segment_of(&rows, p, to, lane, ZEST_COMPUTE_F32);
        work->made[m] = {to, parts[m].ids, (uint32_t)parts[m].first_row};
    }
    work->made_count = count;
    work->made_lane = lane;
    return zest_cuda_make(cuda, slot, segments, (size_t)count, p) ? NULL : slot;
}

/* One pass over the result: a table whose noise is made on the way, and further ones that are made before. */
static int gather_pass(zest_cuda *cuda, const zest_gather *job, const zest_gather_part *parts, int further,
                       int add) {
    const zest_perturbation *p = &job->perturbation;
    gather_job work = {};
    zest_cuda_slot *slot = NULL;
    work.table = parts->table;
    work.pairs = zest_cuda_pairs_of(p);
    work.ids = parts->ids;
    work.out = job->out[0];
    if (p->lanes > 1) work.lane = zest_cuda_apart(job->out[0], job->out[1], cuda->base.element_size);
    work.count = (unsigned)job->count;
    work.add = (unsigned)add;
    for (int l = 0; l < p->lanes; l++) work.moves[l] = !parts->table.frozen && p->scale[l] != 0;
    if (further && !(slot = make_rows(cuda, parts + 1, further, p, &work))) return -1;
    {
        zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
        ZEST_CUDA_TYPED(cuda->base.compute, T, gather<T>(cuda, &work));
    }
    return zest_cuda_launched(cuda, "gathering embeddings") || (slot && zest_cuda_slot_used(cuda, slot)) ? -1
                                                                                                         : 0;
}

/* Tables that are not worth making before have a pass each, in order: the sums are the CPU's. */
int zest_cuda_gather(const zest_gather *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!job->count) return 0;
    for (size_t i = 0, next; i < job->part_count; i = next) {
        next = i + 1;
        while (next < job->part_count && zest_gather_perturbs_once(job->parts[next].row_count, job->count))
            next++;
        if (gather_pass(cuda, job, job->parts + i, (int)(next - i - 1), job->add || i)) return -1;
    }
    return 0;
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

void zest_cuda_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_size,
                      const uint32_t *positions, const float *cosines, const float *sines, int threads,
                      zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    size_t work = rows * heads * (head_size / 2);
    (void)threads;
    if (!work) return;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ATTENTION);
    ZEST_CUDA_TYPED(cuda->base.compute, T,
                    (rotary_kernel<T><<<zest_cuda_blocks(work, THREADS), THREADS, 0, cuda->stream>>>(
                        (T *)x, rows, stride, heads, head_size / 2, positions, cosines, sines)));
    (void)zest_cuda_launched(cuda, "applying rotary positions");
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

void zest_cuda_gate(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                    zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_TYPED(cuda->base.compute, T,
                    (gate_kernel<T><<<zest_cuda_blocks(count, THREADS * 8), THREADS, 0, cuda->stream>>>(
                        (T *)gate, (const T *)up, count, activation)));
    (void)zest_cuda_launched(cuda, "computing a gated activation");
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
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_TYPED(
        cuda->base.compute, T,
        (copy_kernel<T><<<grid, THREADS, 0, cuda->stream>>>((const T *)job->from, (T *)job->to, *job)));
    return zest_cuda_launched(cuda, "copying rows");
}

/* ---- Heads ---- */

/* A block has a row of the wide side: of the many rows of one head each, or of the heads side by side. */
template <class T>
static __global__ void __launch_bounds__(THREADS) head_kernel(const T *from, T *to, zest_head_rows job) {
    const unsigned size = (unsigned)job.head_size, heads = (unsigned)job.heads,
                   group = heads / (unsigned)job.kv_heads;
    const size_t width = job.kv_heads * size, side = heads * size, row = blockIdx.x;
    from += blockIdx.y * job.from_lane;
    to += blockIdx.y * job.to_lane;
    if (job.back) {
        for (unsigned c = threadIdx.x; c < side; c += THREADS)
            to[row * side + c] = from[(row * heads + c / size) * width + c / size / group * size + c % size];
        return;
    }
    const unsigned head = (unsigned)(row % heads), first = head / group * size;
    const T *own = from + row / heads * side + head * size;
    for (unsigned c = threadIdx.x; c < width; c += THREADS)
        to[row * width + c] = c >= first && c < first + size ? own[c - first] : to_cell<T>(0.0f);
}

int zest_cuda_head_rows(zest_device *device, const zest_head_rows *job) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!job->rows || !job->heads || !job->lanes) return 0;
    dim3 grid((unsigned)(job->back ? job->rows : job->rows * job->heads), (unsigned)job->lanes);
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_TYPED(
        cuda->base.compute, T,
        (head_kernel<T><<<grid, THREADS, 0, cuda->stream>>>((const T *)job->from, (T *)job->to, *job)));
    return zest_cuda_launched(cuda, "rearranging heads");
}
