/* Profiler: CUDA events around the operations of a pass, which are recorded without waiting; and the peak
 * (roofline) microbenchmark. */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dtype.cuh"

size_t zest_cuda_profile_begin(zest_cuda *cuda, zest_profile_part part) {
    if (!cuda->profiling) return 0;
    if (cuda->profile_event_count == cuda->profile_event_capacity) {
        size_t capacity = 2 * cuda->profile_event_capacity + 256;
        zest_cuda_profile_event *grown =
            (zest_cuda_profile_event *)realloc(cuda->profile_events, capacity * sizeof *grown);
        if (!grown) {
            (void)zest_cuda_no_memory(cuda, "profiler events", capacity * sizeof *grown);
            return 0;
        }
        cuda->profile_events = grown;
        for (size_t i = cuda->profile_event_capacity; i < capacity; i++) {
            if (zest_cuda_failed(cuda, cudaEventCreate(&grown[i].begin), "creating an event") ||
                zest_cuda_failed(cuda, cudaEventCreate(&grown[i].end), "creating an event"))
                return 0;
            cuda->profile_event_capacity = i + 1;
        }
    }
    zest_cuda_profile_event *event = &cuda->profile_events[cuda->profile_event_count++];
    event->kind = part;
    (void)zest_cuda_failed(cuda, cudaEventRecord(event->begin, cuda->stream), "recording a profiler event");
    return cuda->profile_event_count;
}

void zest_cuda_profile_end(zest_cuda *cuda, size_t event) {
    if (cuda->profiling && event)
        (void)zest_cuda_failed(cuda, cudaEventRecord(cuda->profile_events[event - 1].end, cuda->stream),
                               "recording a profiler event");
}

int zest_cuda_profile(zest_device *device, int on) {
    zest_cuda *cuda = zest_cuda_of(device);
    cuda->profiling = on;
    cuda->profile_event_count = 0;
    return 0;
}

int zest_cuda_profile_read(zest_device *device, double seconds[ZEST_PROFILE_PARTS]) {
    zest_cuda *cuda = zest_cuda_of(device);
    for (int i = 0; i < ZEST_PROFILE_PARTS; i++) seconds[i] = 0;
    if (zest_cuda_failed(cuda, cudaStreamSynchronize(cuda->stream), "waiting for the GPU")) return -1;
    for (size_t i = 0; i < cuda->profile_event_count; i++) {
        float milliseconds = 0;
        if (zest_cuda_failed(cuda,
                             cudaEventElapsedTime(&milliseconds, cuda->profile_events[i].begin,
                                                  cuda->profile_events[i].end),
                             "reading a profiler event"))
            return -1;
        seconds[cuda->profile_events[i].kind] += 1e-3 * (double)milliseconds;
    }
    return 0;
}

void zest_cuda_profile_close(zest_cuda *cuda) {
    for (size_t i = 0; i < cuda->profile_event_capacity; i++) {
        (void)cudaEventDestroy(cuda->profile_events[i].begin);
        (void)cudaEventDestroy(cuda->profile_events[i].end);
    }
    free(cuda->profile_events);
}

/* ---- Peak: a large GEMM, a large copy, and noise alone. Random operands, because power, and so the clock, depends on
 * the data. ---- */

enum { GEMM_SIZE = 8192, ROUNDS = 8, THREADS = 256 };

template <class T> static __global__ void fill_kernel(T *out, uint64_t blocks, uint64_t seed) {
    for (uint64_t i = blockIdx.x * (uint64_t)THREADS + threadIdx.x; i < blocks;
         i += (uint64_t)gridDim.x * THREADS) {
        float z[4];
        noise4(seed, 0, i, z);
        for (int j = 0; j < 4; j++) out[4 * i + (uint64_t)j] = from_float<T>(z[j]);
    }
}

/* The least time of some rounds, without the first. */
template <class F> static int best_seconds(zest_cuda *cuda, F launch, double *seconds) {
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
        bad = zest_cuda_failed(cuda, cudaEventRecord(begin, cuda->stream), "timing a kernel") || launch() ||
              zest_cuda_failed(cuda, cudaEventRecord(end, cuda->stream), "timing a kernel") ||
              zest_cuda_failed(cuda, cudaEventSynchronize(end), "timing a kernel") ||
              zest_cuda_failed(cuda, cudaEventElapsedTime(&milliseconds, begin, end), "timing a kernel");
        if (!bad && i && 1e-3 * (double)milliseconds < *seconds) *seconds = 1e-3 * (double)milliseconds;
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return bad;
}

int zest_cuda_peak(zest_device *device, zest_device_peak *peak) {
    zest_cuda *cuda = zest_cuda_of(device);
    const zest_device_table *table = device->operations->device;
    const size_t elements = (size_t)GEMM_SIZE * GEMM_SIZE, bytes = elements * device->element_size;
    char *data = (char *)table->allocate(device, 3 * bytes);
    if (!data) return -1;
    uint64_t blocks = 2 * elements / 4;
    double seconds = 0;
    auto fill = [&] {
        ZEST_CUDA_DISPATCH(device->compute, T,
                           (fill_kernel<T><<<cuda->sm_count * 16, THREADS, 0, cuda->stream>>>(
                               (T *)(void *)data, blocks, 1)));
        return zest_cuda_launched(cuda, "generating noise");
    };
    int bad = best_seconds(cuda, fill, &seconds);
    peak->normals = 4.0 * (double)blocks / seconds;
    zest_gemm gemm = {};
    gemm.weight = data;
    gemm.a = data + bytes;
    gemm.out = data + 2 * bytes;
    gemm.batch = 1;
    gemm.fp32_output = device->compute == ZEST_COMPUTE_F32;
    gemm.rows = gemm.inputs = gemm.outputs = gemm.a_stride = gemm.out_stride = GEMM_SIZE;
    bad = bad || best_seconds(
                     cuda, [&] { return zest_cuda_gemm(cuda, &gemm); }, &seconds);
    peak->gemm_flops = 2.0 * GEMM_SIZE * (double)GEMM_SIZE * GEMM_SIZE / seconds;
    bad = bad || best_seconds(
                     cuda,
                     [&] {
                         return zest_cuda_failed(cuda,
                                                 cudaMemcpyAsync(data + bytes, data, bytes,
                                                                 cudaMemcpyDeviceToDevice, cuda->stream),
                                                 "copying");
                     },
                     &seconds);
    peak->copy_bytes = 2.0 * (double)bytes / seconds;
    table->release(device, data);
    return bad;
}
