/* The update: one kernel for all tensors and all directions, the bits of core/update.c. Every operation is
 * written out, so that nothing is contracted. */
#include <stdlib.h>

#include "backend/cuda/cells.cuh"

enum { THREADS = 256, EACH = 8, FEW = 32, TURNS = 4, CHUNK = THREADS * EACH };

struct update_tensor {
    void *data;
    uint64_t first, count;
    uint64_t block; /* of the launch that begins it */
    int dtype;
};

/* Few terms travel with the launch: seeds that all threads know to be the same cost no arithmetic of their
 * own. */
struct update_job {
    const update_tensor *tensors;
    const zest_device_term *terms; /* when there are more than FEW */
    zest_device_term few[FEW];
    unsigned tensor_count, term_count;
    float keep;
    uint64_t rounding;
    int nearest;
    unsigned turns; /* chunks a block */
};

/* As backend/cpu/sweep.h rounds. */
static __device__ __forceinline__ uint16_t round_bf16(float x, uint32_t random) {
    uint32_t bits = zest_normal_bits(x), sum = bits + random;
    uint32_t finite = (sum & 0x7f800000u) == 0x7f800000u ? (bits & 0x80000000u) | 0x7f7f0000u : sum;
    return (uint16_t)(((bits & 0x7f800000u) == 0x7f800000u ? bits : finite) >> 16);
}

static __device__ __forceinline__ uint16_t round_f16(float x, uint32_t random) {
    uint32_t bits = zest_normal_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) {
        uint32_t payload = magnitude >> 13 & 0x3ff;
        uint32_t result = magnitude == 0x7f800000 ? 0x7c00 : 0x7c00 | payload | (uint32_t)(payload == 0) << 9;
        return (uint16_t)(sign | result);
    }
    if (magnitude < 0x38800000) {
        uint32_t steps = (uint32_t)__fmul_rn(zest_normal_float(magnitude), 1099511627776.0f); /* 2^40 */
        return (uint16_t)(sign | (steps + random) >> 16);
    }
    uint32_t half = (magnitude - (112u << 23) + (random >> 3)) >> 13;
    return (uint16_t)(sign | (half < 0x7bff ? half : 0x7bff));
}

static __device__ __forceinline__ void add_term(const zest_device_term &term, uint64_t number,
                                                float x[EACH]) {
    float z[EACH];
    noise8(term.seed, term.signs, number / 4, z);
#pragma unroll
    for (int j = 0; j < EACH; j++) x[j] = __fmaf_rn(term.c, z[j], x[j]);
}

static __device__ __forceinline__ void move(const update_job &job, uint64_t number, float x[EACH]) {
    if (job.keep != 1.0f)
#pragma unroll
        for (int j = 0; j < EACH; j++) x[j] = __fmul_rn(x[j], job.keep);
    if (!job.terms)
        for (unsigned i = 0; i < job.term_count; i++) add_term(job.few[i], number, x);
    else
        for (unsigned i = 0; i < job.term_count; i++) add_term(job.terms[i], number, x);
}

/* Eight elements from a number that eight divides: two blocks of normals, one of rounding bits. */
static __device__ __forceinline__ void update_some(const update_job &job, const update_tensor &t,
                                                   int64_t at) {
    uint64_t number = t.first + (uint64_t)at;
    int size = t.dtype == ZEST_DTYPE_F32 ? 4 : 2;
    int whole =
        at >= 0 && at + EACH <= (int64_t)t.count && (((uintptr_t)t.data + (uintptr_t)(at * size)) & 15) == 0;
    float x[EACH];
    if (whole)
        load_weight8(t.data, t.dtype, (uint64_t)at, x);
    else
#pragma unroll
        for (int j = 0; j < EACH; j++)
            x[j] = at + j >= 0 && at + j < (int64_t)t.count ? load_weight(t.data, t.dtype, (uint64_t)(at + j))
                                                            : 0;
    move(job, number, x);
    if (t.dtype == ZEST_DTYPE_F32) {
        float *to = (float *)t.data + at;
        if (whole)
            store8(to, x);
        else
#pragma unroll
            for (int j = 0; j < EACH; j++)
                if (at + j >= 0 && at + j < (int64_t)t.count) to[j] = x[j];
        return;
    }
    zest_philox_block bits = zest_philox_at(job.rounding, ZEST_STREAM_ROUND, number / 8);
    uint32_t packed[EACH / 2];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        uint32_t random = job.nearest ? 0x8000 : bits.word[j / 2] >> 16 * (j % 2) & 0xffff;
        uint32_t half = t.dtype == ZEST_DTYPE_BF16 ? round_bf16(x[j], random) : round_f16(x[j], random);
        packed[j / 2] = j % 2 ? packed[j / 2] | half << 16 : half;
    }
    uint16_t *to = (uint16_t *)t.data + at;
    if (whole)
        *(uint4 *)to = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    else
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (at + j >= 0 && at + j < (int64_t)t.count) to[j] = (uint16_t)(packed[j / 2] >> 16 * (j % 2));
}

/* The tensor of a block is looked for once, then come some chunks of it. */
static __global__ void __launch_bounds__(THREADS) update_kernel(const __grid_constant__ update_job job) {
    unsigned low = 0, high = job.tensor_count;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (job.tensors[middle].block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    const update_tensor t = job.tensors[low];
    int64_t at =
        (int64_t)((blockIdx.x - t.block) * job.turns) * CHUNK + threadIdx.x * EACH - (int64_t)(t.first & 7);
    for (unsigned turn = 0; turn < job.turns && at < (int64_t)t.count; turn++, at += CHUNK)
        update_some(job, t, at);
}

int zest_cuda_update(zest_device *device, const zest_params *params, const zest_device_term *terms,
                     size_t count, float keep, uint64_t rounding, int nearest) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!params->count) return 0;
    update_tensor *tensors = (update_tensor *)malloc(params->count * sizeof *tensors);
    if (!tensors) return zest_cuda_failed(cuda, cudaErrorMemoryAllocation, "listing tensors");
    uint64_t blocks = 0;
    const unsigned turns = params->dimension > (uint64_t)cuda->processors * 64 * CHUNK ? TURNS : 1;
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *t = &params->tensors[i];
        tensors[i] = {t->data, t->first, t->count, blocks, t->dtype};
        blocks += (t->count + t->first % EACH + turns * CHUNK - 1) / (turns * CHUNK);
    }
    update_job job = {};
    job.tensors = (const update_tensor *)device->operations->device->stage(device, tensors,
                                                                           params->count * sizeof *tensors);
    free(tensors);
    if (count > FEW)
        job.terms =
            (const zest_device_term *)device->operations->device->stage(device, terms, count * sizeof *terms);
    for (size_t i = 0; i < count && count <= FEW; i++) job.few[i] = terms[i];
    if (!job.tensors || (count > FEW && !job.terms)) return -1;
    job.tensor_count = (unsigned)params->count;
    job.term_count = (unsigned)count;
    job.keep = keep;
    job.rounding = rounding;
    job.nearest = nearest;
    job.turns = turns;
    cuda->has_changed = 1;
    zest_cuda_watch_one watch(cuda, ZEST_TIME_UPDATE);
    update_kernel<<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(job);
    return zest_cuda_launched(cuda, "the update");
}
