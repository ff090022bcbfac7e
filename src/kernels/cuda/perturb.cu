/* Perturbed weights, and the update: the two kernels that draw noise for all weights.
 *
 * Perturbation: W (count) becomes W + scale z (lanes, count) for the lanes of a group, in the type that the
 * GEMM reads. W is read once, and one draw of noise serves both lanes of a pair. Before rounding to the
 * compute type the bits are those of the CPU. It runs in the prefetch stream at low priority, on
 * multiprocessors that GEMMs leave idle; while the profiler is on, in the stream of the operations. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/noise_law.cuh"
#include "kernels/cuda/tensor_loop.cuh"

enum { THREADS = 256, WIDTH = 8, MAX_CHUNKS = 4, CHUNK = THREADS * WIDTH }; /* WIDTH: elements of a thread */

struct perturb_params {
    zest_cuda_segment segment[ZEST_CUDA_SEGMENTS];
    int count;
    unsigned chunks_per_block;
    zest_cuda_pairs pairs;
};

template <class T>
static __device__ __forceinline__ void store_as(const zest_cuda_segment &s, int lane, int64_t at,
                                                int vectorized, const float x[WIDTH]) {
    T *to = (T *)s.to + lane * s.lane;
    if (vectorized) {
        store8(to + at, x);
        return;
    }
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        if (at + j >= 0 && at + j < (int64_t)s.count) to[at + j] = from_float<T>(x[j]);
}

static __device__ __forceinline__ void store_any(const zest_cuda_segment &s, int lane, int64_t at,
                                                 int vectorized, const float x[WIDTH]) {
    if (s.out_type == ZEST_COMPUTE_F32)
        store_as<float>(s, lane, at, vectorized, x);
    else if (s.out_type == ZEST_COMPUTE_BF16)
        store_as<__nv_bfloat16>(s, lane, at, vectorized, x);
    else
        store_as<__half>(s, lane, at, vectorized, x);
}

/* Eight elements from one whose number is a multiple of four, of any type and alignment. */
static __device__ void perturb_any(const zest_cuda_segment &s, const zest_cuda_pairs &pairs, int64_t at) {
    uint64_t element = s.first + (uint64_t)at;
    int size = s.dtype == ZEST_DTYPE_F32 ? 4 : 2, out_size = s.out_type == ZEST_COMPUTE_F32 ? 4 : 2;
    int vectorized = at >= 0 && at + WIDTH <= (int64_t)s.count &&
                     (((uintptr_t)s.from + (uintptr_t)(at * size)) & 15) == 0 &&
                     (((uintptr_t)s.to + (uintptr_t)(at * out_size)) & 15) == 0 &&
                     (s.lane * out_size & 15) == 0;
    float w[WIDTH], z[WIDTH] = {0}, x[WIDTH];
    if (vectorized) {
        load_weight8(s.from, s.dtype, (uint64_t)at, w);
    } else {
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            w[j] = at + j >= 0 && at + j < (int64_t)s.count ? load_weight(s.from, s.dtype, (uint64_t)(at + j))
                                                            : 0;
    }
    for (int p = 0; p < pairs.count; p++) {
        if (s.perturbed[0] | s.perturbed[1]) law_noise8(s.law, pairs.seed[p], pairs.signs, element, z);
        for (int l = 0; l < pairs.lanes; l++) {
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
                x[j] = s.perturbed[l] ? __fmaf_rn(pairs.scale[p][l], z[j], w[j]) : w[j];
            store_any(s, p * pairs.lanes + l, at, vectorized, x);
        }
    }
}

/* The common case: aligned, both lanes perturbed, types known at compile time. */
template <class W, class T>
static __device__ __forceinline__ void perturb_vector(const zest_cuda_segment &s,
                                                      const zest_cuda_pairs &pairs, int64_t at) {
    uint64_t block = (s.first + (uint64_t)at) / 4;
    T *to = (T *)s.to + at;
    const float factor = law_factor(s.law);
    float w[WIDTH], z[WIDTH], x[WIDTH];
    load8((const W *)s.from + at, w);
    for (int p = 0; p < pairs.count; p++) {
        noise8(pairs.seed[p], pairs.signs, block, z);
        if (factor != 1.0f)
#pragma unroll
            for (int j = 0; j < WIDTH; j++) z[j] = __fmul_rn(z[j], factor);
#pragma unroll
        for (int l = 0; l < 2; l++) {
#pragma unroll
            for (int j = 0; j < WIDTH; j++) x[j] = __fmaf_rn(pairs.scale[p][l], z[j], w[j]);
            store8(to, x);
            to += s.lane;
        }
    }
}

/* A block has some chunks of one segment. */
template <class W, class T>
static __global__ void __launch_bounds__(THREADS, 6)
    perturb_kernel(const __grid_constant__ perturb_params params) {
    int i = 0;
    while (i + 1 < params.count && blockIdx.x >= params.segment[i + 1].block) i++;
    const zest_cuda_segment &s = params.segment[i];
    int64_t at = (int64_t)(blockIdx.x - s.block) * (params.chunks_per_block * (unsigned)CHUNK) +
                 threadIdx.x * WIDTH - (int64_t)(s.first & 3);
    for (unsigned chunk = 0; chunk < params.chunks_per_block && at < (int64_t)s.count; chunk++, at += CHUNK)
        if (s.vectorized && at + WIDTH <= (int64_t)s.count)
            perturb_vector<W, T>(s, params.pairs, at);
        else
            perturb_any(s, params.pairs, at);
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

int zest_cuda_is_perturbed(const zest_weight *weight, const zest_perturbation *p) {
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
    s.law = weight->law;
    s.out_type = (unsigned char)type;
    for (int l = 0; l < p->lanes; l++) s.perturbed[l] = !weight->frozen && p->scale[l] != 0;
    return s;
}

/* ---- Slots and the prefetch stream ---- */

int zest_cuda_ring_open(zest_cuda *cuda, zest_cuda_ring *ring, unsigned count) {
    for (; ring->count < count; ring->count++) {
        zest_cuda_slot *slot = &ring->slots[ring->count];
        if (zest_cuda_failed(cuda, cudaEventCreateWithFlags(&slot->ready, cudaEventDisableTiming),
                             "creating an event") ||
            zest_cuda_failed(cuda, cudaEventCreateWithFlags(&slot->consumed, cudaEventDisableTiming),
                             "creating an event"))
            return -1;
    }
    return 0;
}

void zest_cuda_ring_close(zest_cuda_ring *ring) {
    for (zest_cuda_slot &slot : ring->slots) { /* also one whose second event could not be made */
        if (slot.ready) (void)cudaEventDestroy(slot.ready);
        if (slot.consumed) (void)cudaEventDestroy(slot.consumed);
    }
}

zest_cuda_slot *zest_cuda_slot_next(zest_cuda *cuda, zest_cuda_ring *ring, size_t weights, size_t vectors) {
    zest_cuda_slot *slot = &ring->slots[ring->next++ % ring->count];
    return zest_cuda_reserve(cuda, &slot->weights, weights) ||
                   zest_cuda_reserve(cuda, &slot->vectors, vectors)
               ? NULL
               : slot;
}

int zest_cuda_slot_release(zest_cuda *cuda, zest_cuda_slot *slot) {
    return zest_cuda_failed(cuda, cudaEventRecord(slot->consumed, cuda->stream), "recording an event");
}

/* The prefetch stream waits for the operation that read the slot last, and for changes of the weights. */
static int wait_for_slot(zest_cuda *cuda, const zest_cuda_slot *slot) {
    if (cuda->weights_dirty) {
        cuda->weights_dirty = 0;
        if (zest_cuda_failed(cuda, cudaEventRecord(cuda->weights_changed, cuda->stream),
                             "recording an event") ||
            zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->prefetch_stream, cuda->weights_changed, 0),
                             "waiting for a stream"))
            return -1;
    }
    return zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->prefetch_stream, slot->consumed, 0),
                            "waiting for a stream");
}

/* The stream of the operations waits for the perturbed weights. */
static int publish_slot(zest_cuda *cuda, const zest_cuda_slot *slot) {
    return zest_cuda_failed(cuda, cudaEventRecord(slot->ready, cuda->prefetch_stream),
                            "recording an event") ||
           zest_cuda_failed(cuda, cudaStreamWaitEvent(cuda->stream, slot->ready, 0), "waiting for a stream");
}

int zest_cuda_slot_begin(zest_cuda *cuda, const zest_cuda_slot *slot) {
    return cuda->profiling ? 0 : wait_for_slot(cuda, slot);
}

int zest_cuda_slot_publish(zest_cuda *cuda, const zest_cuda_slot *slot) {
    return cuda->profiling ? 0 : publish_slot(cuda, slot);
}

cudaStream_t zest_cuda_slot_stream(const zest_cuda *cuda) {
    return cuda->profiling ? cuda->stream : cuda->prefetch_stream;
}

/* Whether perturb_vector can be used. */
static int is_vectorizable(const zest_cuda_segment *s, const zest_cuda_pairs *pairs, zest_dtype dtype,
                           zest_compute type) {
    size_t size = zest_cuda_element_size(type);
    return s->dtype == dtype && s->out_type == type && s->perturbed[0] && s->perturbed[1] && !s->law.rank &&
           pairs->lanes == 2 && s->first % 4 == 0 && (uintptr_t)s->from % 16 == 0 &&
           (uintptr_t)s->to % 16 == 0 && s->lane * (int64_t)size % 16 == 0;
}

/* With the shared-memory carveout of the GEMMs, which then need not change between the two kernels (OPT-1.3B:
 * 0.1839 s a step instead of 0.1847, in one run). */
template <class W, class T>
static int launch_typed(zest_cuda *cuda, const perturb_params *params, unsigned blocks, cudaStream_t stream) {
    if (zest_cuda_failed(cuda,
                         cudaFuncSetAttribute(perturb_kernel<W, T>,
                                              cudaFuncAttributePreferredSharedMemoryCarveout,
                                              cudaSharedmemCarveoutMaxShared),
                         "configuring shared memory"))
        return -1;
    perturb_kernel<W, T><<<blocks, THREADS, 0, stream>>>(*params);
    return zest_cuda_launched(cuda, "perturbing weights");
}

static int launch(zest_cuda *cuda, const perturb_params *params, unsigned blocks, cudaStream_t stream) {
    if (params->segment[0].dtype == ZEST_DTYPE_F32 && cuda->base.compute == ZEST_COMPUTE_BF16)
        return launch_typed<float, __nv_bfloat16>(cuda, params, blocks, stream);
    ZEST_CUDA_DISPATCH(cuda->base.compute, T, return (launch_typed<T, T>(cuda, params, blocks, stream)));
}

int zest_cuda_perturb(zest_cuda *cuda, zest_cuda_slot *slot, zest_cuda_segment *segments, size_t count,
                      const zest_perturbation *p) {
    perturb_params params = {};
    size_t chunks = 0, wave = (size_t)cuda->sm_count * 12;
    unsigned blocks = 0;
    if (!count) return 0;
    zest_compute type = cuda->base.compute;
    int from_f32 = segments[0].dtype == ZEST_DTYPE_F32 && type == ZEST_COMPUTE_BF16;
    zest_dtype dtype = from_f32 ? ZEST_DTYPE_F32 : zest_cuda_dtype(type);
    for (size_t i = 0; i < count; i++) chunks += segments[i].count / CHUNK;
    params.chunks_per_block = (unsigned)(chunks < wave                ? 1
                                         : chunks / wave < MAX_CHUNKS ? chunks / wave
                                                                      : MAX_CHUNKS);
    params.pairs = zest_cuda_pairs_of(p);
    for (size_t i = 0; i < count; i++) {
        if (segments[i].law.input_count && (segments[i].perturbed[0] | segments[i].perturbed[1]))
            return zest_cuda_unsupported(cuda, "this operation has no noise along a layer's inputs");
        segments[i].block = blocks;
        segments[i].vectorized = (unsigned char)is_vectorizable(&segments[i], &params.pairs, dtype, type);
        blocks += zest_cuda_blocks(segments[i].count + segments[i].first % 4,
                                   (size_t)CHUNK * params.chunks_per_block);
        params.segment[i] = segments[i];
    }
    params.count = (int)count;
    if (cuda->profiling) {
        zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_PERTURB);
        return launch(cuda, &params, blocks, cuda->stream);
    }
    return wait_for_slot(cuda, slot) || launch(cuda, &params, blocks, cuda->prefetch_stream) ||
                   publish_slot(cuda, slot)
               ? -1
               : 0;
}

/* ---- Update: one launch for all tensors and all directions, with the bits of optim/step.c ---- */

enum { FEW_TERMS = 32, UPDATE_CHUNKS = 4 };

/* x = keep x + sum of c z. Operations are written out, so that none are contracted. Few terms are kernel
 * parameters: then the compiler knows that the seeds are the same for all threads. */
struct update_terms {
    static const bool writes = true;
    const zest_update_term *terms; /* when there are more than FEW_TERMS */
    zest_update_term few[FEW_TERMS];
    unsigned count;
    float keep, factor; /* of the tensors' noise */

    __device__ __forceinline__ void add(const zest_update_term &term, uint64_t element,
                                        float x[LOOP_WIDTH]) const {
        float z[LOOP_WIDTH];
        noise8(term.seed, term.signs, element / 4, z);
        if (factor != 1.0f)
#pragma unroll
            for (int j = 0; j < LOOP_WIDTH; j++) z[j] = __fmul_rn(z[j], factor);
#pragma unroll
        for (int j = 0; j < LOOP_WIDTH; j++) x[j] = __fmaf_rn(term.c, z[j], x[j]);
    }

    __device__ __forceinline__ void operator()(uint64_t element, int, int, float x[LOOP_WIDTH]) const {
        if (keep != 1.0f)
#pragma unroll
            for (int j = 0; j < LOOP_WIDTH; j++) x[j] = __fmul_rn(x[j], keep);
        if (!terms)
            for (unsigned i = 0; i < count; i++) add(few[i], element, x);
        else
            for (unsigned i = 0; i < count; i++) add(terms[i], element, x);
    }
};

zest_cuda_tensor *zest_cuda_tensor_list(const zest_cuda *cuda, const zest_params *params, unsigned *blocks,
                                        unsigned *chunks_per_block) {
    zest_cuda_tensor *tensors = (zest_cuda_tensor *)malloc((params->count + 1) * sizeof *tensors);
    uint64_t next = 0;
    if (!tensors) return NULL;
    *chunks_per_block = params->dimension > (uint64_t)cuda->sm_count * 64 * LOOP_CHUNK ? UPDATE_CHUNKS : 1;
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *t = &params->tensors[i];
        tensors[i] = {t->data, t->first, t->count, next, t->dtype};
        next += (t->count + t->first % LOOP_WIDTH + *chunks_per_block * LOOP_CHUNK - 1) /
                (*chunks_per_block * LOOP_CHUNK);
    }
    *blocks = (unsigned)next;
    return tensors;
}

/* What all launches of an update share. */
struct update_job {
    tensor_loop_params loop;
    update_terms op;
    const zest_update_term *staged; /* all terms, in the device's memory; NULL: they are in op */
    uint64_t dimension;             /* of all tensors */
};

/* A launch for tensors of one law's kind: dense ones with the same factor, or one matrix of low rank. */
static int update_tensors(zest_cuda *cuda, const update_job *job, const zest_tensor *tensors, size_t count) {
    const zest_params params = {tensors, count, job->dimension};
    tensor_loop_params loop = job->loop;
    unsigned blocks;
    zest_cuda_tensor *list = zest_cuda_tensor_list(cuda, &params, &blocks, &loop.chunks_per_block);
    if (!list) return zest_cuda_no_memory(cuda, "a list of tensors", count * sizeof *list);
    loop.tensors = (const zest_cuda_tensor *)cuda->base.operations->device->stage(&cuda->base, list,
                                                                                  count * sizeof *list);
    free(list);
    if (!loop.tensors) return -1;
    loop.tensor_count = (unsigned)count;
    if (tensors->law.rank)
        return zest_cuda_update_low_rank(cuda, tensors, &loop, blocks, job->staged, job->op.count,
                                         job->op.keep);
    update_terms op = job->op;
    op.factor = tensors->law.factor != 0 ? tensors->law.factor : 1.0f;
    tensor_loop_kernel<<<blocks, LOOP_THREADS, 0, cuda->stream>>>(loop, op);
    return zest_cuda_launched(cuda, "updating the weights");
}

static int same_launch(const zest_tensor *a, const zest_tensor *b) {
    return !a->law.rank && !b->law.rank && a->law.factor == b->law.factor;
}

/* Tensors are put in groups by their laws, each in order. Without laws there is one. */
static int update_groups(zest_cuda *cuda, const update_job *job, const zest_params *params) {
    zest_tensor *group = (zest_tensor *)malloc(params->count * (sizeof *group + 1));
    if (!group) return zest_cuda_no_memory(cuda, "a list of tensors", params->count * sizeof *group);
    char *done = (char *)(group + params->count);
    int failed = 0;
    memset(done, 0, params->count);
    for (size_t i = 0; i < params->count && !failed; i++) {
        size_t count = 0;
        if (done[i]) continue;
        group[count++] = params->tensors[i];
        for (size_t j = i + 1; j < params->count; j++)
            if (!done[j] && same_launch(&params->tensors[i], &params->tensors[j]))
                group[count++] = params->tensors[j], done[j] = 1;
        failed = update_tensors(cuda, job, group, count);
    }
    free(group);
    return failed;
}

static int has_low_rank(const zest_params *params) {
    for (size_t i = 0; i < params->count; i++)
        if (params->tensors[i].law.rank) return 1;
    return 0;
}

int zest_cuda_update(zest_device *device, const zest_params *params, const zest_update_term *terms,
                     size_t count, float keep, uint64_t rounding, int nearest) {
    zest_cuda *cuda = zest_cuda_of(device);
    const zest_device_table *table = device->operations->device;
    if (!params->count) return 0;
    update_job job = {};
    if (count > FEW_TERMS || (count && has_low_rank(params))) {
        job.staged = (const zest_update_term *)table->stage(device, terms, count * sizeof *terms);
        if (!job.staged) return -1;
    }
    if (count > FEW_TERMS) job.op.terms = job.staged;
    for (size_t i = 0; i < count && count <= FEW_TERMS; i++) job.op.few[i] = terms[i];
    job.op.count = (unsigned)count;
    job.op.keep = keep;
    job.dimension = params->dimension;
    job.loop.rounding = rounding;
    job.loop.nearest = nearest;
    cuda->weights_dirty = 1;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_UPDATE);
    return update_groups(cuda, &job, params);
}
