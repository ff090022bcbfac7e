/* What all attentions are told, and how the work of those that take blocks of queries is launched. */
#ifndef ZEST_KERNELS_CUDA_ATTENTION_CUH
#define ZEST_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/dtype.cuh"

struct attention_job {
    const void *q, *k, *v;
    void *out;
    size_t q_stride, kv_stride, out_stride, q_lane, kv_lane, out_lane;
    const uint32_t *q_start, *kv_start, *kv_end;
    unsigned group, head_size, lanes;
    int causal;
    float scale; /* times log2(e) */
};

static inline attention_job attention_job_of(const zest_attention *job) {
    return {job->q,
            job->k,
            job->v,
            job->out,
            job->q_stride,
            job->kv_stride,
            job->out_stride,
            job->q_lane,
            job->kv_lane,
            job->out_lane,
            job->q_start,
            job->kv_start,
            job->kv_end,
            (unsigned)(job->heads / job->kv_heads),
            (unsigned)job->head_dim,
            (unsigned)job->lanes,
            job->causal,
            job->scale * 1.44269504f};
}

/* launch(some, grid) for as many sequences at a time as the blocks of the third dimension allow; a block has
 * that many queries. Not 0: it failed. */
template <class F> static int attention_launches(const zest_attention *job, size_t queries, F launch) {
    const size_t most = 65535 / job->lanes;
    int bad = 0;
    for (size_t first = 0; first < job->sequences && !bad; first += most) {
        size_t here = job->sequences - first < most ? job->sequences - first : most;
        attention_job some = attention_job_of(job);
        some.q_start += first, some.kv_start += first;
        if (some.kv_end) some.kv_end += first;
        bad = launch(&some, dim3(zest_cuda_blocks(job->max_queries, queries), (unsigned)job->heads,
                                 (unsigned)(here * job->lanes)));
    }
    return bad;
}

#endif
