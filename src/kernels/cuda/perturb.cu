/* Weights as the lanes see them: W is read once, one draw of noise gives both lanes of a pair, and what the
 * matrix product wants is written. The bits before rounding to the compute type are those of the CPU.
 *
 * It happens in a stream beside the one of the operations, at low priority: it fills the processors that
 * products leave idle. A watched pass does it in line. */
#include <stdlib.h>

#include "kernels/cuda/dtype.cuh"
#include "kernels/cuda/tensor_loop.cuh"

enum { THREADS = 256, EACH = 8, TURNS = 4, CHUNK = THREADS * EACH };

struct make_job {
    zest_cuda_segment segment[ZEST_CUDA_SEGMENTS];
    int count;
    unsigned turns; /* chunks a block */
    zest_cuda_pairs pairs;
};

template <class T>
static __device__ __forceinline__ void put(const zest_cuda_segment &s, int lane, int64_t at, int whole,
                                           const float x[EACH]) {
    T *to = (T *)s.to + lane * s.lane;
    if (whole) {
        store8(to + at, x);
        return;
    }
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (at + j >= 0 && at + j < (int64_t)s.count) to[at + j] = to_cell<T>(x[j]);
}

static __device__ __forceinline__ void put_any(const zest_cuda_segment &s, int lane, int64_t at, int whole,
                                               const float x[EACH]) {
    if (s.type == ZEST_COMPUTE_F32)
        put<float>(s, lane, at, whole, x);
    else if (s.type == ZEST_COMPUTE_BF16)
        put<__nv_bfloat16>(s, lane, at, whole, x);
    else
        put<__half>(s, lane, at, whole, x);
}

/* Eight elements from a number that four divides, wherever they lie. */
static __device__ void make_some(const zest_cuda_segment &s, const zest_cuda_pairs &pairs, int64_t at) {
    uint64_t number = s.first + (uint64_t)at;
    int size = s.dtype == ZEST_DTYPE_F32 ? 4 : 2, room = s.type == ZEST_COMPUTE_F32 ? 4 : 2;
    int whole = at >= 0 && at + EACH <= (int64_t)s.count &&
                (((uintptr_t)s.from + (uintptr_t)(at * size)) & 15) == 0 &&
                (((uintptr_t)s.to + (uintptr_t)(at * room)) & 15) == 0 && (s.lane * room & 15) == 0;
    float w[EACH], z[EACH] = {0}, x[EACH];
    if (whole) {
        load_weight8(s.from, s.dtype, (uint64_t)at, w);
    } else {
#pragma unroll
        for (int j = 0; j < EACH; j++)
            w[j] = at + j >= 0 && at + j < (int64_t)s.count ? load_weight(s.from, s.dtype, (uint64_t)(at + j))
                                                            : 0;
    }
    for (int p = 0; p < pairs.count; p++) {
        if (s.moves[0] | s.moves[1]) noise8(pairs.seed[p], pairs.signs, number / 4, z);
        for (int l = 0; l < pairs.lanes; l++) {
#pragma unroll
            for (int j = 0; j < EACH; j++)
                x[j] = s.moves[l] ? __fmaf_rn(pairs.scale[p][l], z[j], w[j]) : w[j];
            put_any(s, p * pairs.lanes + l, at, whole, x);
        }
    }
}

/* The same for nearly all there is: aligned, both lanes move, the types known when this is compiled. */
template <class W, class T>
static __device__ __forceinline__ void make_whole(const zest_cuda_segment &s, const zest_cuda_pairs &pairs,
                                                  int64_t at) {
    uint64_t block = (s.first + (uint64_t)at) / 4;
    T *to = (T *)s.to + at;
    float w[EACH], z[EACH], x[EACH];
    load8((const W *)s.from + at, w);
    for (int p = 0; p < pairs.count; p++) {
        noise8(pairs.seed[p], pairs.signs, block, z);
#pragma unroll
        for (int l = 0; l < 2; l++) {
#pragma unroll
            for (int j = 0; j < EACH; j++) x[j] = __fmaf_rn(pairs.scale[p][l], z[j], w[j]);
            store8(to, x);
            to += s.lane;
        }
    }
}

/* Some chunks a block, eight elements of each a thread. */
template <class W, class T>
static __global__ void __launch_bounds__(THREADS, 6) make_kernel(const __grid_constant__ make_job job) {
    int i = 0;
    while (i + 1 < job.count && blockIdx.x >= job.segment[i + 1].block) i++;
    const zest_cuda_segment &s = job.segment[i];
    int64_t at = (int64_t)(blockIdx.x - s.block) * (job.turns * (unsigned)CHUNK) + threadIdx.x * EACH -
                 (int64_t)(s.first & 3);
    for (unsigned turn = 0; turn < job.turns && at < (int64_t)s.count; turn++, at += CHUNK)
        if (s.fast && at + EACH <= (int64_t)s.count)
            make_whole<W, T>(s, job.pairs, at);
        else
            make_some(s, job.pairs, at);
}

zest_cuda_pairs zest_cuda_pairs_of(const zest_perturbation *p) {
    zest_cuda_pairs pairs = {};
    pairs.count = 1 + (int)p->more_count;
    pairs.lanes = p->lanes;
    pairs.signs = p->signs;
    for (int i = 0; i < pairs.count; i++) {
        const zest_perturbation *one = i ? &p->more[i - 1] : p;
        pairs.seed[i] = one->seed;
        pairs.scale[i][0] = one->scale[0];
        pairs.scale[i][1] = one->scale[1];
    }
    return pairs;
}

int zest_cuda_moves(const zest_weight *weight, const zest_perturbation *p) {
    return !weight->frozen && (p->scale[0] != 0 || (p->lanes > 1 && p->scale[1] != 0));
}

zest_cuda_segment zest_cuda_segment_of(const zest_weight *weight, const zest_perturbation *p, void *to,
                                       int64_t lane, zest_compute type) {
    zest_cuda_segment s = {};
    s.from = weight->data;
    s.to = to;
    s.lane = lane;
    s.first = weight->first;
    s.count = weight->rows * weight->columns;
    s.dtype = (unsigned char)weight->dtype;
    s.type = (unsigned char)type;
    for (int l = 0; l < p->lanes; l++) s.moves[l] = !weight->frozen && p->scale[l] != 0;
    return s;
}

/* ---- Slots ---- */

int zest_cuda_ring_open(zest_cuda *cuda, zest_cuda_ring *ring, unsigned count) {
    for (; ring->count < count; ring->count++) {
        zest_cuda_slot *slot = &ring->slots[ring->count];
        if (zest_cuda_failed(cuda, cudaEventCreateWithFlags(&slot->made, cudaEventDisableTiming),
                             "creating an event") ||
            zest_cuda_failed(cuda, cudaEventCreateWithFlags(&slot->used, cudaEventDisableTiming),
                             "creating an event"))
            return -1;
    }
    return 0;
}

void zest_cuda_ring_close(zest_cuda_ring *ring) {
    for (unsigned i = 0; i < ring->count; i++) {
        (void)cudaEventDestroy(ring->slots[i].made);
        (void)cudaEventDestroy(ring->slots[i].used);
    }
}

zest_cuda_slot *zest_cuda_slot_next(zest_cuda *cuda, zest_cuda_ring *ring, size_t weights, size_t vectors) {
    zest_cuda_slot *slot = &ring->slots[ring->next++ % ring->count];
    return zest_cuda_reserve(cuda, &slot->weights, weights) ||
                   zest_cuda_reserve(cuda, &slot->vectors, vectors)
               ? NULL
               : slot;
}

int zest_cuda_slot_used(zest_cuda *cuda, zest_cuda_slot *slot) {
    return zest_cuda_failed(cuda, cudaEventRecord(slot->used, cuda->stream), "recording an event");
}

/* The stream beside waits for whoever read the slot last, and for changes of the weights themselves. */
static int begin_beside(zest_cuda *cuda, const zest_cuda_slot *slot) {
    if (cuda->has_changed) {
        cuda->has_changed = 0;
        if (zest_cuda_failed(cuda, cudaEventRecord(cuda->changed, cuda->stream), "recording an event") ||
            zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->beside, cuda->changed, 0),
                             "waiting for a stream"))
            return -1;
    }
    return zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->beside, slot->used, 0), "waiting for a stream");
}

static int end_beside(zest_cuda *cuda, const zest_cuda_slot *slot) {
    return zest_cuda_failed(cuda, cudaEventRecord(slot->made, cuda->beside), "recording an event") ||
           zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->stream, slot->made, 0), "waiting for a stream");
}

/* Of the types that the kernel is compiled for, and nothing special about it. */
static int plain_segment(const zest_cuda_segment *s, const zest_cuda_pairs *pairs, zest_dtype dtype,
                         zest_compute type) {
    size_t size = zest_cuda_size(type);
    return s->dtype == dtype && s->type == type && s->moves[0] && s->moves[1] && pairs->lanes == 2 &&
           s->first % 4 == 0 && (uintptr_t)s->from % 16 == 0 && (uintptr_t)s->to % 16 == 0 &&
           s->lane * (int64_t)size % 16 == 0;
}

/* With the products' split of a processor's memory between cache and blocks, which then need not change
 * between the two (OPT-1.3B: 0.1839 s a step against 0.1847, in one run). */
template <class W, class T>
static int launch_typed(zest_cuda *cuda, const make_job *job, unsigned blocks, cudaStream_t stream) {
    if (zest_cuda_failed(cuda,
                         cudaFuncSetAttribute(make_kernel<W, T>,
                                              cudaFuncAttributePreferredSharedMemoryCarveout,
                                              cudaSharedmemCarveoutMaxShared),
                         "configuring shared memory"))
        return -1;
    make_kernel<W, T><<<blocks, THREADS, 0, stream>>>(*job);
    return zest_cuda_launched(cuda, "perturbing weights");
}

static int launch(zest_cuda *cuda, const make_job *job, unsigned blocks, cudaStream_t stream) {
    if (job->segment[0].dtype == ZEST_DTYPE_F32 && cuda->base.compute == ZEST_COMPUTE_BF16)
        return launch_typed<float, __nv_bfloat16>(cuda, job, blocks, stream);
    ZEST_CUDA_TYPED(cuda->base.compute, T, return (launch_typed<T, T>(cuda, job, blocks, stream)));
}

int zest_cuda_make(zest_cuda *cuda, zest_cuda_slot *slot, zest_cuda_segment *segments, size_t count,
                   const zest_perturbation *p) {
    make_job job = {};
    size_t chunks = 0, wave = (size_t)cuda->processors * 12;
    unsigned blocks = 0;
    if (!count) return 0;
    zest_compute type = cuda->base.compute;
    int widened = segments[0].dtype == ZEST_DTYPE_F32 && type == ZEST_COMPUTE_BF16;
    zest_dtype dtype = widened ? ZEST_DTYPE_F32 : zest_cuda_stored_as(type);
    for (size_t i = 0; i < count; i++) chunks += segments[i].count / CHUNK;
    job.turns = (unsigned)(chunks < wave ? 1 : chunks / wave < TURNS ? chunks / wave : TURNS);
    job.pairs = zest_cuda_pairs_of(p);
    for (size_t i = 0; i < count; i++) {
        segments[i].block = blocks;
        segments[i].fast = (unsigned char)plain_segment(&segments[i], &job.pairs, dtype, type);
        blocks += zest_cuda_blocks(segments[i].count + segments[i].first % 4, (size_t)CHUNK * job.turns);
        job.segment[i] = segments[i];
    }
    job.count = (int)count;
    if (cuda->watching) {
        zest_cuda_watch_one watch(cuda, ZEST_PROFILE_PERTURB);
        return launch(cuda, &job, blocks, cuda->stream);
    }
    return begin_beside(cuda, slot) || launch(cuda, &job, blocks, cuda->beside) || end_beside(cuda, slot) ? -1
                                                                                                          : 0;
}

/* The update: one kernel for all tensors and all directions, the bits of optim/step.c. Every operation is
 * written out, so that nothing is contracted. */

enum { FEW = 32, UPDATE_TURNS = 4 };

/* Few terms travel with the launch: seeds that all threads know to be the same cost no arithmetic of their
 * own. */
struct update_terms {
    static const bool writes = true;
    const zest_update_term *terms; /* when there are more than FEW */
    zest_update_term few[FEW];
    unsigned count;
    float keep;

    static __device__ __forceinline__ void add(const zest_update_term &term, uint64_t number,
                                               float x[SWEEP_EACH]) {
        float z[SWEEP_EACH];
        noise8(term.seed, term.signs, number / 4, z);
#pragma unroll
        for (int j = 0; j < SWEEP_EACH; j++) x[j] = __fmaf_rn(term.c, z[j], x[j]);
    }

    __device__ __forceinline__ void operator()(uint64_t number, int, int, float x[SWEEP_EACH]) const {
        if (keep != 1.0f)
#pragma unroll
            for (int j = 0; j < SWEEP_EACH; j++) x[j] = __fmul_rn(x[j], keep);
        if (!terms)
            for (unsigned i = 0; i < count; i++) add(few[i], number, x);
        else
            for (unsigned i = 0; i < count; i++) add(terms[i], number, x);
    }
};

zest_cuda_swept *zest_cuda_sweep_plan(const zest_cuda *cuda, const zest_params *params, unsigned *blocks,
                                      unsigned *turns) {
    zest_cuda_swept *tensors = (zest_cuda_swept *)malloc((params->count + 1) * sizeof *tensors);
    uint64_t next = 0;
    if (!tensors) return NULL;
    *turns = params->dimension > (uint64_t)cuda->processors * 64 * SWEEP_CHUNK ? UPDATE_TURNS : 1;
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *t = &params->tensors[i];
        tensors[i] = {t->data, t->first, t->count, next, t->dtype};
        next += (t->count + t->first % SWEEP_EACH + *turns * SWEEP_CHUNK - 1) / (*turns * SWEEP_CHUNK);
    }
    *blocks = (unsigned)next;
    return tensors;
}

int zest_cuda_update(zest_device *device, const zest_params *params, const zest_update_term *terms,
                     size_t count, float keep, uint64_t rounding, int nearest) {
    zest_cuda *cuda = zest_cuda_of(device);
    const zest_device_table *table = device->operations->device;
    if (!params->count) return 0;
    unsigned blocks;
    sweep_job job = {};
    zest_cuda_swept *tensors = zest_cuda_sweep_plan(cuda, params, &blocks, &job.turns);
    if (!tensors) return zest_cuda_no_memory(cuda, "a list of tensors", params->count * sizeof *tensors);
    job.tensors = (const zest_cuda_swept *)table->stage(device, tensors, params->count * sizeof *tensors);
    free(tensors);
    update_terms each = {};
    if (count > FEW)
        each.terms = (const zest_update_term *)table->stage(device, terms, count * sizeof *terms);
    for (size_t i = 0; i < count && count <= FEW; i++) each.few[i] = terms[i];
    if (!job.tensors || (count > FEW && !each.terms)) return -1;
    each.count = (unsigned)count;
    each.keep = keep;
    job.tensor_count = (unsigned)params->count;
    job.rounding = rounding;
    job.nearest = nearest;
    cuda->has_changed = 1;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_UPDATE);
    sweep_kernel<<<blocks, SWEEP_THREADS, 0, cuda->stream>>>(job, each);
    return zest_cuda_launched(cuda, "updating the weights");
}
