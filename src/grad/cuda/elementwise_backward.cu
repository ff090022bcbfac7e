/* Element by element: activations and their slopes, dropout, signs. Eight elements a thread where the
 * addresses allow it. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, EACH = 8 };

/* Eight elements from `at` on: whole, or as many as there are, the rest zero. */
template <class T>
static __device__ __forceinline__ void load_some(const T *x, size_t at, size_t count, int whole,
                                                 float out[EACH]) {
    if (whole && at + EACH <= count) {
        load8(x + at, out);
        return;
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) out[j] = at + j < count ? to_float(x[at + j]) : 0.0f;
}

template <class T>
static __device__ __forceinline__ void store_some(T *x, size_t at, size_t count, int whole,
                                                  const float in[EACH]) {
    if (whole && at + EACH <= count) {
        store8(x + at, in);
        return;
    }
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (at + j < count) x[at + j] = to_cell<T>(in[j]);
}

static int whole(const void *a, const void *b, const void *c, const void *d) {
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16 == 0;
}

/* Launches kernel<T>, one thread for every EACH of `count` elements; its arguments may name T. */
#define ZEST_OVER_ELEMENTS(scratch, count, what, kernel, ...)                                \
    do {                                                                                     \
        zest_cuda *cuda = zest_cuda_of(scratch);                                             \
        unsigned blocks = zest_cuda_blocks(count, THREADS * EACH);                           \
        if (!(count)) break;                                                                 \
        zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);                           \
        ZEST_BACKWARD_TYPED(cuda->base.compute, T,                                           \
                            (kernel<T><<<blocks, THREADS, 0, cuda->stream>>>(__VA_ARGS__))); \
        (void)zest_cuda_launched(cuda, what);                                                \
    } while (0)

/* ---- Activations ---- */

/* s + x s (1 - s) slope, s = 1/(1 + exp(-y)) */
static __device__ __forceinline__ float sigmoid_slope(float x, float y, float slope) {
    float s = 1.0f / (1.0f + expf(-y));
    return fmaf(x * s * (1.0f - s), slope, s);
}

/* As ../slopes.h has them. */
static __device__ __forceinline__ float slope_of(float x, int activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return x > 0.0f ? 1.0f : 0.0f;
    case ZEST_ACT_GELU: {
        float a = fabsf(x), phi = 0.398942280f * exp2_fast(-0.721347520f * x * x);
        float below = normal_tail(a > 6.0f ? 6.0f : a);
        return fmaf(x, phi, x > 0.0f ? 1.0f - below : below);
    }
    case ZEST_ACT_GELU_TANH: {
        float square = x * x, slope = 1.59576912f * fmaf(square, 0.134145f, 1.0f);
        return sigmoid_slope(x, 1.59576912f * fmaf(square * x, 0.044715f, x), slope);
    }
    case ZEST_ACT_SILU: return sigmoid_slope(x, x, 1.0f);
    default: return 1.0f;
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    activate_kernel(T *out, const T *x, const T *up, size_t count, int activation, int whole) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * EACH;
    if (at >= count) return;
    float y[EACH], u[EACH];
    load_some(x, at, count, whole, y);
    if (up) load_some(up, at, count, whole, u);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        y[j] = activate(y[j], activation);
        if (up) y[j] *= u[j];
    }
    store_some(out, at, count, whole, y);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    slope_kernel(T *d, T *d_up, const T *x, const T *up, size_t count, int activation, int whole) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * EACH;
    if (at >= count) return;
    float y[EACH], u[EACH], dy[EACH];
    load_some(x, at, count, whole, y);
    load_some(d, at, count, whole, dy);
    if (up) {
        float v[EACH];
        load_some(up, at, count, whole, u);
#pragma unroll
        for (int j = 0; j < EACH; j++) v[j] = activate(y[j], activation) * dy[j], dy[j] *= u[j];
        store_some(d_up, at, count, whole, v);
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) dy[j] *= slope_of(y[j], activation);
    store_some(d, at, count, whole, dy);
}

void zest_backward_cuda_activate(float *out, const float *x, const float *up, size_t count,
                                 zest_activation activation, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_OVER_ELEMENTS(scratch, count, "an activation", activate_kernel, (T *)(void *)out,
                       (const T *)(const void *)x, (const T *)(const void *)up, count, activation,
                       whole(out, x, up, NULL));
}

void zest_backward_cuda_activate_back(float *d, float *d_up, const float *x, const float *up, size_t count,
                                      zest_activation activation, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_OVER_ELEMENTS(scratch, count, "an activation's gradient", slope_kernel, (T *)(void *)d,
                       (T *)(void *)d_up, (const T *)(const void *)x, (const T *)(const void *)up, count,
                       activation, whole(d, x, up, up ? d_up : d));
}

/* ---- Dropout ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    drop_kernel(T *out, const T *x, const T *residual, size_t count, const zest_mask mask, int whole) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * EACH;
    if (at >= count) return;
    float m[EACH], y[EACH], r[EACH];
    mask8(mask, at / EACH, m);
    load_some(x, at, count, whole, y);
    if (residual) load_some(residual, at, count, whole, r);
#pragma unroll
    for (int j = 0; j < EACH; j++) y[j] = residual ? fmaf(m[j], y[j], r[j]) : m[j] * y[j];
    store_some(out, at, count, whole, y);
}

void zest_backward_cuda_drop(float *out, const float *x, const float *residual, size_t count,
                             const zest_mask *mask, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_OVER_ELEMENTS(scratch, count, "dropout", drop_kernel, (T *)(void *)out, (const T *)(const void *)x,
                       (const T *)(const void *)residual, count, *mask, whole(out, x, residual, NULL));
}

/* ---- Signs ---- */

static __global__ void __launch_bounds__(THREADS) negate_kernel(float *out, const float *x, size_t count) {
    size_t at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (at < count) out[at] = -x[at];
}

void zest_backward_cuda_negate(float *out, const float *x, size_t count, int threads,
                               zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    negate_kernel<<<zest_cuda_blocks(count, THREADS), THREADS, 0, cuda->stream>>>(out, x, count);
    (void)zest_cuda_launched(cuda, "signs");
}

extern "C" const zest_backward zest_backward_cuda = {ZEST_CPU_PLAIN,
                                                     zest_backward_cuda_norm,
                                                     zest_backward_cuda_attention,
                                                     zest_backward_cuda_attention_masked,
                                                     zest_backward_cuda_activate,
                                                     zest_backward_cuda_activate_back,
                                                     zest_backward_cuda_sum_columns,
                                                     zest_backward_cuda_drop,
                                                     zest_backward_cuda_copy,
                                                     zest_backward_cuda_collect,
                                                     zest_backward_cuda_negate,
                                                     zest_backward_cuda_words,
                                                     zest_backward_cuda_logits};
