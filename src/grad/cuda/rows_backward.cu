/* Rows that are moved, and rows that are added up where an index says: sums of many rows by runs, then over
 * the runs. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 128 };

int zest_backward_cuda_copy(const zest_copy_rows *job, int threads, zest_workspace *scratch) {
    (void)threads;
    return zest_cuda_copy_rows(scratch->device, job);
}

/* Sum i adds rows begin(i) .. begin(i+1)-1 of a list of sources. */
struct sum_job {
    const void *x;
    void *out;
    size_t x_stride, out_stride, width;
    const uint32_t *begins;
    const uint32_t *through; /* the begins are numbers of elements of this; NULL: they are the begins */
    const uint32_t *sources; /* NULL: the list is 0, 1, ... */
    const uint32_t *targets; /* NULL: sum i goes to row i */
    int add;
};

/* A block a sum; EACH elements a thread. */
template <class T, class Out, int EACH>
static __global__ void __launch_bounds__(THREADS) sum_kernel(const __grid_constant__ sum_job job) {
    size_t i = blockIdx.x, target = job.targets ? job.targets[i] : i;
    uint32_t begin = job.begins[i], end = job.begins[i + 1];
    if (job.through) begin = job.through[begin], end = job.through[end];
    Out *out = (Out *)job.out + target * job.out_stride;
    for (size_t c = (size_t)threadIdx.x * EACH; c < job.width; c += THREADS * EACH) {
        float sum[EACH] = {0}, x[EACH];
        if (job.add && EACH == 8) load8(out + c, sum);
        if (job.add && EACH == 1) sum[0] = to_float(out[c]);
#pragma unroll 4
        for (uint32_t s = begin; s < end; s++) {
            const T *row = (const T *)job.x + (job.sources ? job.sources[s] : s) * job.x_stride + c;
            if (EACH == 8)
                load8(row, x);
            else
                x[0] = to_float(*row);
#pragma unroll
            for (int j = 0; j < EACH; j++) sum[j] += x[j];
        }
        if (EACH == 8)
            store8(out + c, sum);
        else
            out[c] = to_cell<Out>(sum[0]);
    }
}

template <class T, class Out> static int sum(zest_cuda *cuda, const sum_job *job, size_t count) {
    int wide = (job->width | job->x_stride | job->out_stride) % 8 == 0 &&
               ((uintptr_t)job->x | (uintptr_t)job->out) % 16 == 0;
    if (!count) return 0;
    if (wide)
        sum_kernel<T, Out, 8><<<(unsigned)count, THREADS, 0, cuda->stream>>>(*job);
    else
        sum_kernel<T, Out, 1><<<(unsigned)count, THREADS, 0, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "adding up rows");
}

template <class T> static int collect(zest_cuda *cuda, const zest_collect *job) {
    const zest_index *index = &job->index;
    sum_job whole = {job->x,        job->out,    job->x_stride,  job->out_stride, job->width,
                     index->starts, index->runs, index->sources, index->targets,  job->add};
    if (index->divided) {
        size_t room = (job->width + 7) / 8 * 8;
        if (zest_cuda_reserve(cuda, &cuda->scratch, index->run_count * room * sizeof(float))) return -1;
        sum_job runs = {job->x, cuda->scratch.data, job->x_stride, room, job->width, index->runs,
                        NULL,   index->sources,     NULL,          0};
        if (sum<T, float>(cuda, &runs, index->run_count)) return -1;
        whole.x = cuda->scratch.data;
        whole.x_stride = room;
        whole.through = whole.sources = NULL;
        return job->add ? sum<float, float>(cuda, &whole, index->count)
                        : sum<float, T>(cuda, &whole, index->count);
    }
    return job->add ? sum<T, float>(cuda, &whole, index->count) : sum<T, T>(cuda, &whole, index->count);
}

int zest_backward_cuda_collect(const zest_collect *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    int failed = 0;
    (void)threads;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_BACKWARD_TYPED(cuda->base.compute, T, failed = collect<T>(cuda, job));
    return failed;
}
