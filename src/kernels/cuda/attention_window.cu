/* Attention with a sliding window or capped scores, head dimensions up to 256, any alignment. A warp has one query of
 * one head and goes through the keys that it sees, with a running maximum and sum; an element of the head belongs to one
 * thread. Such models are few, and the kernels of the others stay as they are. */
#include "kernels/cuda/attention.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, PER = 256 / 32 }; /* PER: elements of a head that a thread has */

struct window_params {
    attention_params base;
    unsigned window; /* 0: none */
    float scale, cap;
};

template <class T>
static __global__ void __launch_bounds__(THREADS)
    attention_window_kernel(const __grid_constant__ window_params params) {
    const attention_params &p = params.base;
    const unsigned sequence = blockIdx.z / p.lanes, lane = blockIdx.z % p.lanes, head = blockIdx.y;
    const unsigned q0 = p.q_start[sequence], queries = p.q_start[sequence + 1] - q0;
    const unsigned i = blockIdx.x * WARPS + threadIdx.x / 32, thread = threadIdx.x % 32;
    if (i >= queries) return;
    const unsigned k0 = p.kv_start[sequence],
                   keys = (p.kv_end ? p.kv_end[sequence] : p.kv_start[sequence + 1]) - k0;
    const unsigned at = keys - queries + i, window = params.window;
    const unsigned first = window && at >= window ? at - window + 1 : 0;
    const unsigned end = p.causal ? at + 1 : window && at + window < keys ? at + window : keys;
    const size_t from = (q0 + i) * p.q_stride + head * p.head_dim;
    const T *q = (const T *)p.q + lane * p.q_lane + from;
    const size_t kv = lane * p.kv_lane + k0 * p.kv_stride + head / p.group_size * p.head_dim;
    float x[PER], acc[PER], row_max = -INFINITY, sum = 0;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        const unsigned d = thread + 32 * j;
        x[j] = d < p.head_dim ? to_float(q[d]) : 0.0f;
        acc[j] = 0;
    }
    for (unsigned key = first; key < end; key++) {
        const T *k = (const T *)p.k + kv + key * p.kv_stride, *v = (const T *)p.v + kv + key * p.kv_stride;
        float s = 0;
#pragma unroll
        for (int j = 0; j < PER; j++)
            if (thread + 32 * j < p.head_dim) s = fmaf(x[j], to_float(k[thread + 32 * j]), s);
        s = warp_sum(s) * params.scale;
        if (params.cap != 0) s = params.cap * tanhf(s / params.cap);
        const float new_max = fmaxf(row_max, s), rescale = expf(row_max - new_max), e = expf(s - new_max);
        row_max = new_max;
        sum = fmaf(sum, rescale, e);
#pragma unroll
        for (int j = 0; j < PER; j++)
            if (thread + 32 * j < p.head_dim)
                acc[j] = fmaf(e, to_float(v[thread + 32 * j]), acc[j] * rescale);
    }
    T *out = (T *)p.out + lane * p.out_lane + (q0 + i) * p.out_stride + head * p.head_dim;
    const float inverse = sum == 0 ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int j = 0; j < PER; j++)
        if (thread + 32 * j < p.head_dim) out[thread + 32 * j] = from_float<T>(acc[j] * inverse);
}

int zest_cuda_attention_window(zest_cuda *cuda, const zest_attention *args) {
    if (!args->window && args->soft_cap == 0) return 1;
    if (args->head_dim > 32 * PER)
        return zest_cuda_unsupported(cuda, "attention takes heads of at most 256 elements");
    return attention_launches(args, WARPS, [&](const attention_params *chunk, dim3 grid) {
        const window_params params = {*chunk, (unsigned)args->window, args->scale, args->soft_cap};
        ZEST_CUDA_DISPATCH(cuda->base.compute, T,
                           (attention_window_kernel<T><<<grid, THREADS, 0, cuda->stream>>>(params)));
        return zest_cuda_launched(cuda, "computing attention");
    });
}
