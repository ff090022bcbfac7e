/* The attention of attention_sm90.cuh for jobs that suit it: which they are, and how it is launched.
 * Elsewhere than on compute capability 9.0 it refuses everything. */
#include "kernels/cuda/cuda.h"

#if defined ZEST_SM90A && CUDART_VERSION >= 12050
#include "kernels/cuda/attention_sm90.cuh"

/* Up to 64 queries, half of a block would have nothing to do. */
static int suits(const zest_cuda *cuda, const zest_attention *job) {
    const size_t most = (size_t)1 << 30;
    return cuda->describe_tiles && cuda->base.compute != ZEST_COMPUTE_F32 && job->head_dim == HEAD &&
           job->max_queries > HALF && job->rows && job->rows < most && job->kv_rows && job->kv_rows < most &&
           (job->lanes == 1 || (job->q_lane && job->kv_lane)) &&
           tiles_aligned(job->q, job->q_stride, (int64_t)job->q_lane) &&
           tiles_aligned(job->k, job->kv_stride, (int64_t)job->kv_lane) &&
           tiles_aligned(job->v, job->kv_stride, (int64_t)job->kv_lane) &&
           tiles_aligned(job->out, job->out_stride, (int64_t)job->out_lane);
}

/* Not 0: the driver does not take such tiles. */
static int describe_work(const zest_cuda *cuda, const zest_attention *job, attention_work *work) {
    const int lanes = (int)job->lanes;
    const size_t columns = job->kv_heads * HEAD;
    work->job = attention_job_of(job);
    work->counts[MEMBER] = (unsigned)(job->heads / job->kv_heads);
    work->counts[KV_HEAD] = (unsigned)job->kv_heads;
    work->counts[TILE] = zest_cuda_blocks(job->max_queries, ROWS);
    work->counts[SEQUENCE] = (unsigned)job->sequences;
    work->counts[LANE] = (unsigned)job->lanes;
    return describe_tiles(cuda, &work->q, job->q, job->rows, job->heads * HEAD, job->q_stride, lanes,
                          (int64_t)job->q_lane, HALF) ||
           describe_tiles(cuda, &work->k, job->k, job->kv_rows, columns, job->kv_stride, lanes,
                          (int64_t)job->kv_lane, HALF) ||
           describe_tiles(cuda, &work->v, job->v, job->kv_rows, columns, job->kv_stride, lanes,
                          (int64_t)job->kv_lane, HALF);
}

template <class T> static int launch(zest_cuda *cuda, const attention_work *work) {
    const size_t most = 2 * (size_t)cuda->processors;
    size_t units = 1;
    for (int i = 0; i < DIGITS; i++) units *= work->counts[i];
    if (zest_cuda_failed(cuda,
                         cudaFuncSetAttribute(attention_hopper_kernel<T>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
                         "attention's shared memory"))
        return -1;
    const unsigned blocks = (unsigned)(units < most ? units : most);
    attention_hopper_kernel<T><<<blocks, THREADS, SHARED_BYTES, cuda->stream>>>(*work);
    return zest_cuda_launched(cuda, "attention") ? -1 : 0;
}

int zest_cuda_attention_hopper(zest_cuda *cuda, const zest_attention *job) {
    attention_work work = {};
    if (!suits(cuda, job) || describe_work(cuda, job, &work)) return 1;
    return cuda->base.compute == ZEST_COMPUTE_BF16 ? launch<__nv_bfloat16>(cuda, &work)
                                                   : launch<__half>(cuda, &work);
}

#else

int zest_cuda_attention_hopper(zest_cuda *, const zest_attention *) { return 1; }

#endif
