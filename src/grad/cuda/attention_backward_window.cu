/* Gradients of attention with a sliding window or capped scores, and its forward pass with a mask, head dimensions up to
 * 256, any alignment. A warp has one query of one head (dq), or one key of one key head (dk and dv), and goes through
 * what is visible from there; an element of the head belongs to one thread. The formulas are those of
 * backward_plain.c. */
#include "grad/cuda/backward.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, PER = 256 / 32 }; /* PER: elements of a head that a thread has */

struct window_grad_params {
    attention_grad_params base;
    unsigned window; /* 0: none */
    float cap;
};

/* The capped score of a query and a key, and the slope of the cap. */
struct score {
    float value, slope;
};

template <class T>
static __device__ __forceinline__ void load_head(float x[PER], const T *from, unsigned head_dim) {
#pragma unroll
    for (int j = 0; j < PER; j++) {
        const unsigned d = threadIdx.x % 32 + 32 * j;
        x[j] = d < head_dim ? to_float(from[d]) : 0.0f;
    }
}

template <class T>
static __device__ __forceinline__ void store_head(T *to, const float x[PER], unsigned head_dim) {
#pragma unroll
    for (int j = 0; j < PER; j++) {
        const unsigned d = threadIdx.x % 32 + 32 * j;
        if (d < head_dim) to[d] = from_float<T>(x[j]);
    }
}

static __device__ __forceinline__ float dot_heads(const float x[PER], const float y[PER]) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < PER; j++) sum = fmaf(x[j], y[j], sum);
    return warp_sum(sum);
}

static __device__ __forceinline__ void add_head(float acc[PER], float weight, const float x[PER]) {
#pragma unroll
    for (int j = 0; j < PER; j++) acc[j] = fmaf(weight, x[j], acc[j]);
}

static __device__ __forceinline__ score score_of(const window_grad_params &params, const float q[PER],
                                                 const float k[PER]) {
    score s = {dot_heads(q, k) * params.base.scale, 1};
    if (params.cap == 0) return s;
    const float ratio = tanhf(s.value / params.cap);
    s.value = params.cap * ratio;
    s.slope = fmaf(-ratio, ratio, 1.0f);
    return s;
}

/* ---- dq, or the forward pass with a mask ---- */

template <class T, bool FORWARD>
static __global__ void __launch_bounds__(THREADS)
    dq_kernel(const __grid_constant__ window_grad_params params) {
    const attention_grad_params &p = params.base;
    const unsigned sequence = blockIdx.z, head = blockIdx.y, window = params.window;
    const unsigned q0 = p.q_start[sequence], queries = p.q_start[sequence + 1] - q0;
    const unsigned i = blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= queries) return;
    const unsigned k0 = p.kv_start[sequence], keys = p.kv_start[sequence + 1] - k0, at = keys - queries + i;
    const unsigned first = window && at >= window ? at - window + 1 : 0;
    const unsigned end = p.causal ? at + 1 : window && at + window < keys ? at + window : keys;
    const size_t row = q0 + i, h = head * p.head_dim;
    const size_t kv = (size_t)k0 * p.kv_stride + head / p.group_size * p.head_dim;
    const uint64_t element = (row * p.heads + head) * p.longest;
    float q[PER], d_out[PER], k[PER], v[PER], acc[PER] = {}, row_max = -INFINITY, sum = 0, products = 0;
    load_head(q, (const T *)p.q + row * p.q_stride + h, p.head_dim);
    if (!FORWARD) load_head(d_out, (const T *)p.d_out + row * p.out_stride + h, p.head_dim);
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned key = first; key < end; key++) {
            const float m = p.mask.threshold ? mask1(p.mask, element + key) : 1.0f;
            float dp = 0;
            load_head(k, (const T *)p.k + kv + key * p.kv_stride, p.head_dim);
            load_head(v, (const T *)p.v + kv + key * p.kv_stride, p.head_dim);
            const score s = score_of(params, q, k);
            if (!FORWARD) dp = dot_heads(d_out, v) * m;
            if (!pass) {
                const float new_max = fmaxf(row_max, s.value), rescale = expf(row_max - new_max),
                            e = expf(s.value - new_max);
                row_max = new_max;
                sum = fmaf(sum, rescale, e);
                products = fmaf(products, rescale, e * dp);
                continue;
            }
            const float weight = expf(s.value - sum); /* sum is the log-sum-exp by now */
            if (FORWARD)
                add_head(acc, weight * m, v);
            else
                add_head(acc, weight * (dp - products) * p.scale * s.slope, k);
        }
        if (pass) break;
        products /= sum;
        sum = row_max + logf(sum);
    }
    if (!FORWARD && threadIdx.x % 32 == 0) p.stats[row * p.heads + head] = make_float2(sum, products);
    if (FORWARD)
        store_head((T *)p.out + row * p.out_stride + h, acc, p.head_dim);
    else
        store_head((T *)p.dq + row * p.q_stride + h, acc, p.head_dim);
}

/* ---- dk and dv ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    dkdv_kernel(const __grid_constant__ window_grad_params params) {
    const attention_grad_params &p = params.base;
    const unsigned sequence = blockIdx.z, kv_head = blockIdx.y, window = params.window;
    const unsigned q0 = p.q_start[sequence], queries = p.q_start[sequence + 1] - q0;
    const unsigned k0 = p.kv_start[sequence], keys = p.kv_start[sequence + 1] - k0, past = keys - queries;
    const unsigned key = blockIdx.x * WARPS + threadIdx.x / 32;
    if (key >= keys) return;
    /* Queries that see the key stand from `from` to before `to`. */
    const unsigned before = window && key >= window ? key - window + 1 : 0;
    const unsigned from = max(p.causal ? key : before, past),
                   to = window && key + window < keys ? key + window : keys;
    const size_t kv = (size_t)(k0 + key) * p.kv_stride + kv_head * p.head_dim;
    float q[PER], d_out[PER], k[PER], v[PER], dk[PER] = {}, dv[PER] = {};
    load_head(k, (const T *)p.k + kv, p.head_dim);
    load_head(v, (const T *)p.v + kv, p.head_dim);
    for (unsigned head = kv_head * p.group_size; head < (kv_head + 1) * p.group_size; head++)
        for (unsigned at = from; at < to; at++) {
            const size_t row = q0 + (at - past), h = head * p.head_dim;
            load_head(q, (const T *)p.q + row * p.q_stride + h, p.head_dim);
            load_head(d_out, (const T *)p.d_out + row * p.out_stride + h, p.head_dim);
            const float2 stats = p.stats[row * p.heads + head];
            const float m = p.mask.threshold ? mask1(p.mask, (row * p.heads + head) * p.longest + key) : 1.0f;
            const score s = score_of(params, q, k);
            const float weight = expf(s.value - stats.x), dp = dot_heads(d_out, v) * m;
            add_head(dv, weight * m, d_out);
            add_head(dk, weight * (dp - stats.y) * p.scale * s.slope, q);
        }
    store_head((T *)p.dk + kv, dk, p.head_dim);
    store_head((T *)p.dv + kv, dv, p.head_dim);
}

/* ---- Launch ---- */

template <class T>
static int launch(zest_cuda *cuda, const zest_attention_backward *args, const window_grad_params *params,
                  unsigned sequences, int forward) {
    const zest_attention *a = &args->forward;
    const dim3 by_queries(zest_cuda_blocks(a->max_queries, WARPS), (unsigned)a->heads, sequences);
    const dim3 by_keys(zest_cuda_blocks(args->keys, WARPS), (unsigned)a->kv_heads, sequences);
    if (forward)
        dq_kernel<T, true><<<by_queries, THREADS, 0, cuda->stream>>>(*params);
    else
        dq_kernel<T, false><<<by_queries, THREADS, 0, cuda->stream>>>(*params);
    if (zest_cuda_launched(cuda, "computing the gradient of attention")) return -1;
    if (forward) return 0;
    dkdv_kernel<T><<<by_keys, THREADS, 0, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "computing the gradient of attention");
}

int zest_backward_cuda_attention_window(zest_cuda *cuda, const zest_attention_backward *args, int forward,
                                        float2 *stats) {
    const zest_attention *a = &args->forward;
    if (!a->window && a->soft_cap == 0) return 1;
    return attention_grad_launches(args, stats, [&](const attention_grad_params *chunk, unsigned sequences) {
        const window_grad_params params = {*chunk, (unsigned)a->window, a->soft_cap};
        int bad = 0;
        ZEST_BACKWARD_DISPATCH(cuda->base.compute, T,
                               bad = launch<T>(cuda, args, &params, sequences, forward));
        return bad;
    });
}
