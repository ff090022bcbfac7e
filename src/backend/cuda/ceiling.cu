/* What the GPU can do at best: a large product, a large copy, and noise alone. Random operands: power, and so
 * the clock, depends on the data. */
#include "backend/cuda/cells.cuh"

enum { SIZE = 8192, ROUNDS = 8, THREADS = 256 };

template <class T> static __global__ void fill_kernel(T *out, uint64_t blocks, uint64_t seed) {
    for (uint64_t i = blockIdx.x * (uint64_t)THREADS + threadIdx.x; i < blocks;
         i += (uint64_t)gridDim.x * THREADS) {
        float z[4];
        noise4(seed, 0, i, z);
        for (int j = 0; j < 4; j++) out[4 * i + (uint64_t)j] = to_cell<T>(z[j]);
    }
}

/* Seconds of the best of some rounds. */
template <class F> static int best_of(zest_cuda *cuda, F work, double *seconds) {
    cudaEvent_t begin, end;
    if (zest_cuda_failed(cuda, cudaEventCreate(&begin), "making an event")) return -1;
    if (zest_cuda_failed(cuda, cudaEventCreate(&end), "making an event")) {
        (void)cudaEventDestroy(begin);
        return -1;
    }
    *seconds = 1e9;
    int bad = 0;
    for (int i = 0; i < ROUNDS && !bad; i++) {
        float milliseconds = 0;
        bad = zest_cuda_failed(cuda, cudaEventRecord(begin, cuda->stream), "timing") || work() ||
              zest_cuda_failed(cuda, cudaEventRecord(end, cuda->stream), "timing") ||
              zest_cuda_failed(cuda, cudaEventSynchronize(end), "timing") ||
              zest_cuda_failed(cuda, cudaEventElapsedTime(&milliseconds, begin, end), "timing");
        if (!bad && i && 1e-3 * (double)milliseconds < *seconds) *seconds = 1e-3 * (double)milliseconds;
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return bad;
}

int zest_cuda_ceiling(zest_device *device, zest_device_ceiling *ceiling) {
    zest_cuda *cuda = zest_cuda_of(device);
    const zest_device_table *table = device->operations->device;
    const size_t elements = (size_t)SIZE * SIZE, bytes = elements * device->cell;
    char *data = (char *)table->allocate(device, 3 * bytes);
    if (!data) return -1;
    uint64_t blocks = 2 * elements / 4;
    double seconds = 0;
    auto fill = [&] {
        ZEST_CUDA_TYPED(device->compute, T,
                        (fill_kernel<T><<<cuda->processors * 16, THREADS, 0, cuda->stream>>>(
                            (T *)(void *)data, blocks, 1)));
        return zest_cuda_launched(cuda, "noise");
    };
    int bad = best_of(cuda, fill, &seconds);
    ceiling->normals = 4.0 * (double)blocks / seconds;
    zest_gemm gemm = {};
    gemm.weight = data;
    gemm.a = data + bytes;
    gemm.out = data + 2 * bytes;
    gemm.batch = 1;
    gemm.wide = device->compute == ZEST_COMPUTE_F32;
    gemm.rows = gemm.inputs = gemm.outputs = gemm.a_stride = gemm.out_stride = SIZE;
    bad = bad || best_of(
                     cuda, [&] { return zest_cuda_gemm(cuda, &gemm); }, &seconds);
    ceiling->gemm_flops = 2.0 * SIZE * (double)SIZE * SIZE / seconds;
    bad = bad || best_of(
                     cuda,
                     [&] {
                         return zest_cuda_failed(cuda,
                                                 cudaMemcpyAsync(data + bytes, data, bytes,
                                                                 cudaMemcpyDeviceToDevice, cuda->stream),
                                                 "copying");
                     },
                     &seconds);
    ceiling->copy_bytes = 2.0 * (double)bytes / seconds;
    table->release(device, data);
    return bad;
}
