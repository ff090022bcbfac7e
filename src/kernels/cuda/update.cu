/* The update: one kernel for all tensors and all directions, the bits of optim/update.c. Every operation is
 * written out, so that nothing is contracted. */
#include <stdlib.h>

#include "kernels/cuda/tensor_loop.cuh"

enum { FEW = 32, TURNS = 4 };

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
    *turns = params->dimension > (uint64_t)cuda->processors * 64 * SWEEP_CHUNK ? TURNS : 1;
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
    if (!tensors) return zest_cuda_failed(cuda, cudaErrorMemoryAllocation, "listing tensors");
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
    return zest_cuda_launched(cuda, "the update");
}
