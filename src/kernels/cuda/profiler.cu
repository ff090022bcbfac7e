/* Clocks around the operations of a pass. Events are only recorded, nobody waits. */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dtype.cuh"

size_t zest_cuda_begin(zest_cuda *cuda, zest_profile_part kind) {
    if (!cuda->watching) return 0;
    if (cuda->mark_count == cuda->mark_room) {
        size_t room = 2 * cuda->mark_room + 256;
        zest_cuda_mark *grown = (zest_cuda_mark *)realloc(cuda->marks, room * sizeof *grown);
        if (!grown) return 0;
        cuda->marks = grown;
        for (size_t i = cuda->mark_room; i < room; i++) {
            if (zest_cuda_failed(cuda, cudaEventCreate(&grown[i].begin), "creating an event") ||
                zest_cuda_failed(cuda, cudaEventCreate(&grown[i].end), "creating an event"))
                return 0;
            cuda->mark_room = i + 1;
        }
    }
    zest_cuda_mark *mark = &cuda->marks[cuda->mark_count++];
    mark->kind = kind;
    (void)zest_cuda_failed(cuda, cudaEventRecord(mark->begin, cuda->stream), "recording a profiler event");
    return cuda->mark_count;
}

void zest_cuda_end(zest_cuda *cuda, size_t mark) {
    if (cuda->watching && mark)
        (void)zest_cuda_failed(cuda, cudaEventRecord(cuda->marks[mark - 1].end, cuda->stream),
                               "recording a profiler event");
}

int zest_cuda_watch(zest_device *device, int on) {
    zest_cuda *cuda = zest_cuda_of(device);
    cuda->watching = on;
    cuda->mark_count = 0;
    return 0;
}

int zest_cuda_times(zest_device *device, double seconds[ZEST_PROFILE_PARTS]) {
    zest_cuda *cuda = zest_cuda_of(device);
    for (int i = 0; i < ZEST_PROFILE_PARTS; i++) seconds[i] = 0;
    if (zest_cuda_failed(cuda, cudaStreamSynchronize(cuda->stream), "waiting for the GPU")) return -1;
    for (size_t i = 0; i < cuda->mark_count; i++) {
        float milliseconds = 0;
        if (zest_cuda_failed(cuda,
                             cudaEventElapsedTime(&milliseconds, cuda->marks[i].begin, cuda->marks[i].end),
                             "reading a profiler event"))
            return -1;
        seconds[cuda->marks[i].kind] += 1e-3 * (double)milliseconds;
    }
    return 0;
}

void zest_cuda_forget_marks(zest_cuda *cuda) {
    for (size_t i = 0; i < cuda->mark_room; i++) {
        (void)cudaEventDestroy(cuda->marks[i].begin);
        (void)cudaEventDestroy(cuda->marks[i].end);
    }
    free(cuda->marks);
}

/* What the GPU can do at best: a large product, a large copy, and noise alone. Random operands: power, and so
 * the clock, depends on the data. */

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
    if (zest_cuda_failed(cuda, cudaEventCreate(&begin), "creating an event")) return -1;
    if (zest_cuda_failed(cuda, cudaEventCreate(&end), "creating an event")) {
        (void)cudaEventDestroy(begin);
        return -1;
    }
    *seconds = 1e9;
    int bad = 0;
    for (int i = 0; i < ROUNDS && !bad; i++) {
        float milliseconds = 0;
        bad = zest_cuda_failed(cuda, cudaEventRecord(begin, cuda->stream), "timing a kernel") || work() ||
              zest_cuda_failed(cuda, cudaEventRecord(end, cuda->stream), "timing a kernel") ||
              zest_cuda_failed(cuda, cudaEventSynchronize(end), "timing a kernel") ||
              zest_cuda_failed(cuda, cudaEventElapsedTime(&milliseconds, begin, end), "timing a kernel");
        if (!bad && i && 1e-3 * (double)milliseconds < *seconds) *seconds = 1e-3 * (double)milliseconds;
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return bad;
}

int zest_cuda_ceiling(zest_device *device, zest_device_peak *ceiling) {
    zest_cuda *cuda = zest_cuda_of(device);
    const zest_device_table *table = device->operations->device;
    const size_t elements = (size_t)SIZE * SIZE, bytes = elements * device->element_size;
    char *data = (char *)table->allocate(device, 3 * bytes);
    if (!data) return -1;
    uint64_t blocks = 2 * elements / 4;
    double seconds = 0;
    auto fill = [&] {
        ZEST_CUDA_TYPED(device->compute, T,
                        (fill_kernel<T><<<cuda->processors * 16, THREADS, 0, cuda->stream>>>(
                            (T *)(void *)data, blocks, 1)));
        return zest_cuda_launched(cuda, "generating noise");
    };
    int bad = best_of(cuda, fill, &seconds);
    ceiling->normals = 4.0 * (double)blocks / seconds;
    zest_gemm gemm = {};
    gemm.weight = data;
    gemm.a = data + bytes;
    gemm.out = data + 2 * bytes;
    gemm.batch = 1;
    gemm.fp32_output = device->compute == ZEST_COMPUTE_F32;
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
