/* What both gradients of attention are told, and how their work is launched. */
#ifndef ZEST_GRAD_CUDA_ATTENTION_BACKWARD_CUH
#define ZEST_GRAD_CUDA_ATTENTION_BACKWARD_CUH

#include "grad/cuda/backward.cuh"

struct attention_back_job {
    const void *q, *k, *v, *d_out;
    void *dq, *dk, *dv, *out;
    float2 *stats; /* of (row, head): the logarithm of the sum of exponentials, the sum of p dp */
    size_t q_stride, kv_stride, out_stride;
    const uint32_t *q_start, *kv_start;
    unsigned heads, group, head_size;
    int causal;
    float scale, scale2; /* the latter times log2(e) */
    zest_mask mask;
    uint64_t longest;
};

static inline attention_back_job attention_back_job_of(const zest_attention_backward *job, float2 *stats) {
    const zest_attention *a = &job->forward;
    return {a->q,
            a->k,
            a->v,
            job->d_out,
            job->dq,
            job->dk,
            job->dv,
            a->out,
            stats,
            a->q_stride,
            a->kv_stride,
            a->out_stride,
            a->q_start,
            a->kv_start,
            (unsigned)a->heads,
            (unsigned)(a->heads / a->kv_heads),
            (unsigned)a->head_dim,
            a->causal,
            a->scale,
            a->scale * 1.44269504f,
            job->mask ? *job->mask : zest_mask{0, 0, 1.0f},
            job->longest};
}

/* Room for a kernel's shared memory, and its launch. */
template <class Kernel>
static int attention_back_run(zest_cuda *cuda, Kernel *kernel, const attention_back_job *job, dim3 grid,
                              unsigned threads, size_t bytes) {
    if (zest_cuda_shared(cuda, (const void *)kernel, bytes, "attention's gradient")) return -1;
    kernel<<<grid, threads, bytes, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "attention's gradient");
}

/* launch(some, sequences) for as many sequences at a time as the blocks of the third dimension allow. Not 0:
 * it failed. */
template <class F>
static int attention_back_launches(const zest_attention_backward *job, float2 *stats, F launch) {
    const size_t most = 65535, sequences = job->forward.sequences;
    attention_back_job some = attention_back_job_of(job, stats);
    int bad = 0;
    for (size_t first = 0; first < sequences && !bad; first += most) {
        bad = launch(&some, (unsigned)(sequences - first < most ? sequences - first : most));
        some.q_start += most, some.kv_start += most;
    }
    return bad;
}

#endif
