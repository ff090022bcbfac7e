/* Weights as the lanes see them: W is read once, one draw of noise gives both lanes of a pair, and what the
 * matrix product wants is written. The bits before rounding to the compute type are those of the CPU.
 *
 * It happens in a stream beside the one of the operations, at low priority: it fills the processors that
 * products leave idle. A watched pass does it in line. */
#include "backend/cuda/cells.cuh"

enum { THREADS = 256, EACH = 8 };

struct make_job {
    zest_cuda_segment segment[ZEST_CUDA_SEGMENTS];
    int count;
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

/* Eight elements a thread, from a number that four divides. */
static __global__ void __launch_bounds__(THREADS) make_kernel(const __grid_constant__ make_job job) {
    int i = 0;
    while (i + 1 < job.count && blockIdx.x >= job.segment[i + 1].block) i++;
    const zest_cuda_segment &s = job.segment[i];
    uint64_t group = (uint64_t)(blockIdx.x - s.block) * THREADS + threadIdx.x;
    uint64_t number = (s.first & ~(uint64_t)3) + group * EACH;
    int64_t at = (int64_t)(number - s.first);
    if (at >= (int64_t)s.count) return;
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
    const zest_cuda_pairs &pairs = job.pairs;
    for (int p = 0; p < pairs.count; p++) {
        if (s.moves[0] | s.moves[1]) {
            noise4(pairs.seed[p], pairs.signs, number / 4, z);
            noise4(pairs.seed[p], pairs.signs, number / 4 + 1, z + 4);
        }
        for (int l = 0; l < pairs.lanes; l++) {
#pragma unroll
            for (int j = 0; j < EACH; j++)
                x[j] = s.moves[l] ? __fmaf_rn(pairs.scale[p][l], z[j], w[j]) : w[j];
            put_any(s, p * pairs.lanes + l, at, whole, x);
        }
    }
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
                             "making an event") ||
            zest_cuda_failed(cuda, cudaEventCreateWithFlags(&slot->used, cudaEventDisableTiming),
                             "making an event"))
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
    return zest_cuda_failed(cuda, cudaEventRecord(slot->used, cuda->stream), "marking a slot");
}

/* The stream beside waits for whoever read the slot last, and for changes of the weights themselves. */
static int begin_beside(zest_cuda *cuda, const zest_cuda_slot *slot) {
    if (cuda->has_changed) {
        cuda->has_changed = 0;
        if (zest_cuda_failed(cuda, cudaEventRecord(cuda->changed, cuda->stream), "marking a change") ||
            zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->beside, cuda->changed, 0), "waiting"))
            return -1;
    }
    return zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->beside, slot->used, 0), "waiting");
}

static int end_beside(zest_cuda *cuda, const zest_cuda_slot *slot) {
    return zest_cuda_failed(cuda, cudaEventRecord(slot->made, cuda->beside), "marking a slot") ||
           zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->stream, slot->made, 0), "waiting");
}

int zest_cuda_make(zest_cuda *cuda, zest_cuda_slot *slot, zest_cuda_segment *segments, size_t count,
                   const zest_perturbation *p) {
    make_job job = {};
    unsigned blocks = 0;
    if (!count) return 0;
    for (size_t i = 0; i < count; i++) {
        segments[i].block = blocks;
        blocks += zest_cuda_blocks(segments[i].count + segments[i].first % 4, THREADS * EACH);
        job.segment[i] = segments[i];
    }
    job.count = (int)count;
    job.pairs = zest_cuda_pairs_of(p);
    if (cuda->watching) {
        zest_cuda_watch_one watch(cuda, ZEST_TIME_NOISE);
        make_kernel<<<blocks, THREADS, 0, cuda->stream>>>(job);
        return zest_cuda_launched(cuda, "making the lanes' weights");
    }
    if (begin_beside(cuda, slot)) return -1;
    make_kernel<<<blocks, THREADS, 0, cuda->beside>>>(job);
    return zest_cuda_launched(cuda, "making the lanes' weights") || end_beside(cuda, slot);
}
