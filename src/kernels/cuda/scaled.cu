/* Operations that few models have, element by element: scaled sums, soft caps, offsets of gains. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };

template <class T>
static __global__ void __launch_bounds__(THREADS)
    add_scaled_kernel(T *out, const T *x, float factor, const T *y, size_t count) {
    const size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (i >= count) return;
    const float scaled = factor * to_float(x[i]);
    out[i] = from_float<T>(y ? fmaf(factor, to_float(x[i]), to_float(y[i])) : scaled);
}

static __global__ void __launch_bounds__(THREADS) soft_cap_kernel(float *x, size_t count, float cap) {
    const size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (i < count) x[i] = cap * tanhf(x[i] / cap);
}

static __global__ void __launch_bounds__(THREADS)
    offset_kernel(float *gain, int64_t lane, size_t width, float offset) {
    const size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (i < width) gain[blockIdx.y * lane + i] += offset;
}

void zest_cuda_add_scaled(void *out, const void *x, float factor, const void *y, size_t count, int threads,
                          zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_CUDA_DISPATCH(cuda->base.compute, T,
                       (add_scaled_kernel<T><<<zest_cuda_blocks(count, THREADS), THREADS, 0, cuda->stream>>>(
                           (T *)out, (const T *)x, factor, (const T *)y, count)));
    (void)zest_cuda_launched(cuda, "adding scaled activations");
}

void zest_cuda_soft_cap(float *x, size_t count, float cap, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    soft_cap_kernel<<<zest_cuda_blocks(count, THREADS), THREADS, 0, cuda->stream>>>(x, count, cap);
    (void)zest_cuda_launched(cuda, "capping logits");
}

int zest_cuda_offset_gain(zest_cuda *cuda, float *gain, int64_t lane, size_t width, size_t lanes,
                          float offset) {
    const dim3 grid(zest_cuda_blocks(width, THREADS), (unsigned)lanes);
    offset_kernel<<<grid, THREADS, 0, cuda->stream>>>(gain, lane, width, offset);
    return zest_cuda_launched(cuda, "adding to the gain of a norm");
}
