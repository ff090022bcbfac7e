/* Embedding gather, rotary positions, gated activations, copies of rows and heads. */
#include "kernels/cuda/noise_law.cuh"

enum { THREADS = 256 };

/* ---- Gather: out (lanes, count, columns) = the sum of rows of perturbed tables ---- */

/* Rows of a further table, perturbed for all lanes in advance: (lanes, rows, columns). */
struct perturbed_rows {
    const float *rows;
    const uint32_t *ids;
    uint32_t first; /* the table row that rows[0] is */
};
enum { MAX_EXTRA_TABLES = ZEST_GATHER_PARTS - 1 };

struct gather_params {
    zest_weight table;
    zest_cuda_pairs pairs;
    const uint32_t *ids;
    void *out;
    int64_t lane;
    unsigned count, add, perturbed[2];
    perturbed_rows extra[MAX_EXTRA_TABLES];
    int64_t extra_lane;
    int extra_count;
};

/* x += eight columns of a further table. */
static __device__ __forceinline__ void add_extra8(const gather_params &params, int m, int64_t at,
                                                  float x[8]) {
    float more[8];
    load8(params.extra[m].rows + at, more);
#pragma unroll
    for (int j = 0; j < 8; j++) x[j] += more[j];
}

/* Eight columns of a row for a thread, which reads the table once for all lanes. Both lanes of a pair are
 * stored last, so that their loads are in flight together. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    gather_kernel(const __grid_constant__ gather_params params) {
    const unsigned columns = (unsigned)params.table.columns, groups = columns / 8;
    const size_t thread = blockIdx.x * (size_t)THREADS + threadIdx.x, i = thread / groups;
    if (i >= params.count) return;
    const unsigned c = (unsigned)(thread - i * groups) * 8;
    const uint64_t at = (uint64_t)params.ids[i] * columns + c;
    int64_t extra[MAX_EXTRA_TABLES] = {};
#pragma unroll
    for (int m = 0; m < MAX_EXTRA_TABLES; m++)
        if (m < params.extra_count)
            extra[m] = (int64_t)(params.extra[m].ids[i] - params.extra[m].first) * columns + c;
    float w[8], z[8] = {}, x[2][8];
    load_weight8(params.table.data, params.table.dtype, at, w);
    for (int p = (int)blockIdx.y; p < params.pairs.count; p += (int)gridDim.y) {
        const int first = p * params.pairs.lanes;
        T *const out = (T *)params.out + first * params.lane + i * columns + c;
        if (params.perturbed[0] | params.perturbed[1])
            law_noise8(params.table.law, params.pairs.seed[p], params.pairs.signs, params.table.first + at,
                       z);
#pragma unroll
        for (int l = 0; l < 2; l++) {
            if (l >= params.pairs.lanes) continue;
            if (params.add) load8(out + l * params.lane, x[l]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float own =
                    params.perturbed[l] ? __fmaf_rn(params.pairs.scale[p][l], z[j], w[j]) : w[j];
                x[l][j] = params.add ? x[l][j] + own : own;
            }
#pragma unroll
            for (int m = 0; m < MAX_EXTRA_TABLES; m++)
                if (m < params.extra_count)
                    add_extra8(params, m, (first + l) * params.extra_lane + extra[m], x[l]);
        }
#pragma unroll
        for (int l = 0; l < 2; l++)
            if (l < params.pairs.lanes) store8(out + l * params.lane, x[l]);
    }
}

/* A block for a row and pair: any alignment, tables that begin or end within a block of noise. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    gather_any_kernel(const __grid_constant__ gather_params params) {
    size_t columns = params.table.columns, i = blockIdx.x;
    int p = (int)blockIdx.y;
    uint64_t row = (uint64_t)params.ids[i] * columns, first = params.table.first + row;
    for (uint64_t block = first / 4 + threadIdx.x; block * 4 < first + columns; block += THREADS) {
        float z[4] = {0, 0, 0, 0};
        if (params.perturbed[0] | params.perturbed[1])
            law_noise4(params.table.law, params.pairs.seed[p], params.pairs.signs, block * 4, z);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint64_t number = block * 4 + (uint64_t)j;
            if (number < first || number >= first + columns) continue;
            uint64_t c = number - first;
            float w = load_weight(params.table.data, params.table.dtype, row + c);
            for (int l = 0; l < params.pairs.lanes; l++) {
                int lane = p * params.pairs.lanes + l;
                T *to = (T *)params.out + lane * params.lane + i * columns + c;
                float x = params.perturbed[l] ? __fmaf_rn(params.pairs.scale[p][l], z[j], w) : w;
                if (params.add) x += to_float(*to);
                for (int m = 0; m < params.extra_count; m++)
                    x += params.extra[m].rows[lane * params.extra_lane +
                                              (params.extra[m].ids[i] - params.extra[m].first) * columns + c];
                *to = from_float<T>(x);
            }
        }
    }
}

template <class T> static void gather(zest_cuda *cuda, const gather_params *params) {
    const uint64_t columns = params->table.columns;
    const uintptr_t at = (uintptr_t)params->table.data | (uintptr_t)params->out;
    const unsigned pairs = (unsigned)params->pairs.count;
    if ((columns | (uint64_t)params->lane) % 8 || params->table.first % 4 || at % 16) {
        gather_any_kernel<T><<<dim3(params->count, pairs), THREADS, 0, cuda->stream>>>(*params);
        return;
    }
    unsigned blocks = zest_cuda_blocks(params->count * (columns / 8), THREADS);
    dim3 grid(blocks,
              blocks < (unsigned)cuda->sm_count ? pairs : 1); /* few rows: pairs in blocks of their own */
    gather_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(*params);
}

/* The rows of a table that a batch uses, as a weight of their own. */
static zest_weight rows_of(const zest_gather_part *part) {
    zest_weight rows = part->table;
    size_t before = part->first_row * rows.columns;
    rows.data = (const char *)rows.data + before * zest_dtype_size(rows.dtype);
    rows.first += before;
    rows.rows = part->row_count;
    return rows;
}

/* Perturbs the rows of further tables. NULL: an error. */
static zest_cuda_slot *perturb_rows(zest_cuda *cuda, const zest_gather_part *parts, int count,
                                    const zest_perturbation *p, gather_params *params) {
    zest_cuda_segment segments[MAX_EXTRA_TABLES];
    int64_t at[MAX_EXTRA_TABLES], lane = 0;
    for (int m = 0; m < count; m++) {
        at[m] = lane;
        lane += (int64_t)((parts[m].row_count * parts[m].table.columns + 63) / 64 * 64);
    }
    size_t bytes = zest_perturbation_lanes(p) * (size_t)lane * sizeof(float);
    zest_cuda_slot *slot = zest_cuda_slot_next(cuda, &cuda->linear_slots, bytes, 0);
    if (!slot) return NULL;
    for (int m = 0; m < count; m++) {
        zest_weight rows = rows_of(&parts[m]);
        float *to = (float *)(void *)slot->weights.data + at[m];
        segments[m] = zest_cuda_segment_of(&rows, p, to, lane, ZEST_COMPUTE_F32);
        params->extra[m] = {to, parts[m].ids, (uint32_t)parts[m].first_row};
    }
    params->extra_count = count;
    params->extra_lane = lane;
    return zest_cuda_perturb(cuda, slot, segments, (size_t)count, p) ? NULL : slot;
}

/* One pass over the output: a table whose noise is drawn by the gather kernel, and further ones perturbed in
 * advance. */
static int gather_pass(zest_cuda *cuda, const zest_gather *args, const zest_gather_part *parts,
                       int extra_tables, int add) {
    const zest_perturbation *p = &args->perturbation;
    gather_params params = {};
    zest_cuda_slot *slot = NULL;
    params.table = parts->table;
    params.pairs = zest_cuda_pairs_of(p);
    params.ids = parts->ids;
    params.out = args->out[0];
    if (p->lanes > 1)
        params.lane = zest_cuda_lane_stride(args->out[0], args->out[1], cuda->base.element_size);
    params.count = (unsigned)args->count;
    params.add = (unsigned)add;
    for (int l = 0; l < p->lanes; l++) params.perturbed[l] = !parts->table.frozen && p->scale[l] != 0;
    if (extra_tables && !(slot = perturb_rows(cuda, parts + 1, extra_tables, p, &params))) return -1;
    {
        zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
        ZEST_CUDA_DISPATCH(cuda->base.compute, T, gather<T>(cuda, &params));
    }
    return zest_cuda_launched(cuda, "gathering embeddings") || (slot && zest_cuda_slot_release(cuda, slot))
               ? -1
               : 0;
}

/* Tables that are not worth perturbing in advance have a pass each, in order, so that sums are added as on
 * the CPU. */
int zest_cuda_gather(const zest_gather *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!args->count) return 0;
    for (size_t i = 0, next; i < args->part_count; i = next) {
        next = i + 1;
        while (next < args->part_count && zest_gather_perturbs_once(args->parts[next].row_count, args->count))
            next++;
        if (gather_pass(cuda, args, args->parts + i, (int)(next - i - 1), args->add || i)) return -1;
    }
    return 0;
}

/* ---- Rotary ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    rotary_kernel(T *x, size_t rows, size_t stride, size_t heads, size_t head_dim, size_t half,
                  const uint32_t *positions, const float *cosines, const float *sines) {
    size_t at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (at >= rows * heads * half) return;
    size_t i = at % half, h = at / half % heads, m = at / (half * heads);
    T *low = x + m * stride + h * head_dim + i, *high = low + half;
    float c = cosines[positions[m] * half + i], s = sines[positions[m] * half + i];
    float a = to_float(*low), b = to_float(*high);
    *low = from_float<T>(a * c - b * s);
    *high = from_float<T>(b * c + a * s);
}

void zest_cuda_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_dim, size_t rotary_dim,
                      const uint32_t *positions, const float *cosines, const float *sines, int threads,
                      zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    size_t params = rows * heads * (rotary_dim / 2);
    (void)threads;
    if (!params) return;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ATTENTION);
    ZEST_CUDA_DISPATCH(
        cuda->base.compute, T,
        (rotary_kernel<T><<<zest_cuda_blocks(params, THREADS), THREADS, 0, cuda->stream>>>(
            (T *)x, rows, stride, heads, head_dim, rotary_dim / 2, positions, cosines, sines)));
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
        gate[i] = from_float<T>(activate(to_float(gate[i]), activation) * to_float(up[i]));
}

void zest_cuda_gate(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                    zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_DISPATCH(cuda->base.compute, T,
                       (gate_kernel<T><<<zest_cuda_blocks(count, THREADS * 8), THREADS, 0, cuda->stream>>>(
                           (T *)gate, (const T *)up, count, activation)));
    (void)zest_cuda_launched(cuda, "computing a gated activation");
}

/* ---- Copies ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS) copy_kernel(const T *from, T *to, zest_copy_rows args) {
    from += blockIdx.y * args.from_lane;
    to += blockIdx.y * args.to_lane;
    size_t i = blockIdx.x, source = args.source ? args.source[i] : i,
           target = args.target ? args.target[i] : i;
    for (size_t c = threadIdx.x; c < args.width; c += THREADS)
        to[target * args.to_stride + c] = from[source * args.from_stride + c];
}

int zest_cuda_copy_rows(zest_device *device, const zest_copy_rows *args) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!args->count || !args->width || !args->lanes) return 0;
    dim3 grid((unsigned)args->count, (unsigned)args->lanes);
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_DISPATCH(
        cuda->base.compute, T,
        (copy_kernel<T><<<grid, THREADS, 0, cuda->stream>>>((const T *)args->from, (T *)args->to, *args)));
    return zest_cuda_launched(cuda, "copying rows");
}

/* ---- Heads ---- */

/* A block for a row of the output: of one head (rows, heads, kv_heads head_dim), or, back, of all heads. */
template <class T>
static __global__ void __launch_bounds__(THREADS) head_kernel(const T *from, T *to, zest_head_rows args) {
    const unsigned size = (unsigned)args.head_dim, heads = (unsigned)args.heads,
                   group = heads / (unsigned)args.kv_heads;
    const size_t width = args.kv_heads * size, side = heads * size, row = blockIdx.x;
    from += blockIdx.y * args.from_lane;
    to += blockIdx.y * args.to_lane;
    if (args.back) {
        for (unsigned c = threadIdx.x; c < side; c += THREADS)
            to[row * side + c] = from[(row * heads + c / size) * width + c / size / group * size + c % size];
        return;
    }
    const unsigned head = (unsigned)(row % heads), first = head / group * size;
    const T *own = from + row / heads * side + head * size;
    for (unsigned c = threadIdx.x; c < width; c += THREADS)
        to[row * width + c] = c >= first && c < first + size ? own[c - first] : from_float<T>(0.0f);
}

int zest_cuda_head_rows(zest_device *device, const zest_head_rows *args) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!args->rows || !args->heads || !args->lanes) return 0;
    dim3 grid((unsigned)(args->back ? args->rows : args->rows * args->heads), (unsigned)args->lanes);
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_DISPATCH(
        cuda->base.compute, T,
        (head_kernel<T><<<grid, THREADS, 0, cuda->stream>>>((const T *)args->from, (T *)args->to, *args)));
    return zest_cuda_launched(cuda, "rearranging heads");
}
