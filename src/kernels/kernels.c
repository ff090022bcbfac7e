/* Which table of operations a CPU gets, how a device is opened, and the peak throughput of the CPU. */
#include <math.h>

#include "io/gguf.h"
#include "kernels/ops.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/device.h"
#include "base/clock.h"

const zest_vector_ops *zest_vector_ops_for(zest_cpu cpu) {
    switch (cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX:
    case ZEST_CPU_AVX512BF16:
    case ZEST_CPU_AVX512: return &zest_vector_ops_avx512;
    case ZEST_CPU_AVX2: return &zest_vector_ops_avx2;
#endif
    default: return &zest_vector_ops_plain;
    }
}

const zest_ops *zest_ops_for(zest_cpu cpu) {
    switch (cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX: return &zest_ops_amx;
    case ZEST_CPU_AVX512BF16: return &zest_ops_avx512bf16;
    case ZEST_CPU_AVX512: return &zest_ops_avx512;
    case ZEST_CPU_AVX2: return &zest_ops_avx2;
#endif
    default: return &zest_ops_plain;
    }
}

size_t zest_weight_bytes(const zest_weight *weight, size_t elements) {
    size_t block_elements, bytes;
    if (!weight->block_type || !zest_gguf_block_size((uint32_t)weight->block_type, &block_elements, &bytes))
        return elements * zest_dtype_size(weight->dtype);
    return elements / block_elements * bytes;
}

zest_status zest_device_open(zest_device_kind kind, zest_compute compute, zest_device **device,
                             zest_error *error) {
    *device = NULL;
    if (kind != ZEST_DEVICE_CUDA)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the CPU is not opened as a device");
#ifdef ZEST_CUDA
    return zest_cuda_open(compute, device, error);
#else
    (void)compute;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "this zest was built without CUDA: install nvcc and run 'make CUDA=on', or use "
                          "--device cpu");
#endif
}

void zest_device_close(zest_device *device) {
    if (device) device->operations->device->close(device);
}

zest_status zest_device_take_error(zest_device *device, zest_error *error) {
    const zest_error found = device->error;
    device->error = (zest_error){0};
    if (!found.status)
        return zest_error_set(
            error, ZEST_ERROR_DEVICE,
            "an operation on the device failed without a reason: run again, or use --device cpu");
    return zest_error_set(error, found.status, "%s", found.message);
}

enum { FLOATS = 1024, ROUNDS = 25, LOOPS = 1000000 };

double zest_peak_plain(long loops, const float *data, float *sink) {
    float sums[8] = {0};
    for (long i = 0; i < loops; i++)
        for (int j = 0; j < 8; j++) sums[j] += data[j] * data[8 + j];
    for (int j = 0; j < 8; j++) *sink += sums[j];
    return 16.0 * (double)loops;
}

static zest_peak_round *round_for(zest_cpu cpu, zest_compute compute) {
#if defined(__x86_64__)
    if (compute == ZEST_COMPUTE_BF16 && cpu >= ZEST_CPU_AMX) return zest_peak_amx;
    if (compute == ZEST_COMPUTE_BF16 && cpu >= ZEST_CPU_AVX512BF16) return zest_peak_avx512bf16;
    if (cpu >= ZEST_CPU_AVX512) return zest_peak_avx512;
    if (cpu >= ZEST_CPU_AVX2) return zest_peak_avx2;
#endif
    (void)cpu, (void)compute;
    return zest_peak_plain;
}

double zest_peak_measure(zest_cpu cpu, zest_compute compute, int threads) {
    zest_peak_round *round = round_for(cpu, compute);
    _Alignas(64) float data[FLOATS];
    double best = 0;
    zest_noise_for(cpu)->normal(data, 1, 0, FLOATS);
    for (int i = 0; i < ROUNDS; i++) {
        double done = 0, began = zest_clock_now();
        float sink = 0;
#pragma omp parallel num_threads(threads) reduction(+ : done, sink)
        done += round(LOOPS, data, &sink);
        double rate = done / (zest_clock_now() - began);
        /* sink depends on every product; it is never NaN, but the compiler cannot know */
        if (rate > best && !isnan(sink)) best = rate;
    }
    return best;
}
