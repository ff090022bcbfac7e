/* The CUDA device: errors, memory, copies between host and GPU, opening and closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

/* ---- Errors ---- */

int zest_cuda_failed(zest_cuda *cuda, cudaError_t error, const char *doing) {
    if (error == cudaSuccess) return 0;
    const zest_cuda_failure failure = {cudaGetErrorName(error), cudaGetErrorString(error), doing, cuda->name};
    if (!cuda->base.error.status) (void)zest_cuda_error_set(&cuda->base.error, &failure);
    return -1;
}

int zest_cuda_launched(zest_cuda *cuda, const char *doing) {
    return zest_cuda_failed(cuda, cudaGetLastError(), doing);
}

int zest_cuda_no_memory(zest_cuda *cuda, const char *what, size_t bytes) {
    if (!cuda->base.error.status) (void)zest_error_memory(&cuda->base.error, what, bytes);
    return -1;
}

int zest_cuda_unsupported(zest_cuda *cuda, const char *what) {
    if (!cuda->base.error.status)
        (void)zest_error_set(&cuda->base.error, ZEST_ERROR_DEVICE, "on the GPU %s, %s: use --device cpu",
                             cuda->name, what);
    return -1;
}

int zest_cuda_shared(zest_cuda *cuda, const void *kernel, size_t bytes, const char *doing) {
    if (bytes <= 48 << 10) return 0; /* every kernel may have those */
    if (bytes > cuda->max_shared_bytes) {
        if (!cuda->base.error.status)
            (void)zest_error_set(
                &cuda->base.error, ZEST_ERROR_DEVICE,
                "%s needs %zu KiB of shared memory, and the GPU %s has %zu for a block: use --device cpu",
                doing, (bytes + 1023) / 1024, cuda->name, cuda->max_shared_bytes / 1024);
        return -1;
    }
    return zest_cuda_failed(
        cuda, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), doing);
}

/* ---- Memory ---- */

static void *allocate(zest_device *device, size_t bytes) {
    zest_cuda *cuda = zest_cuda_of(device);
    void *data = NULL;
    if (cuda->allocation_count == cuda->allocation_capacity) {
        size_t capacity = 2 * cuda->allocation_capacity + 16;
        zest_cuda_allocation *grown =
            (zest_cuda_allocation *)realloc(cuda->allocations, capacity * sizeof *grown);
        if (!grown) {
            (void)zest_cuda_no_memory(cuda, "a list of GPU allocations", capacity * sizeof *grown);
            return NULL;
        }
        cuda->allocations = grown;
        cuda->allocation_capacity = capacity;
    }
    int over_limit =
        cuda->settings.memory_limit && cuda->bytes_allocated + bytes > cuda->settings.memory_limit;
    cudaError_t error = over_limit ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        size_t free_bytes = 0, total = 0;
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&free_bytes, &total);
        if (!cuda->base.error.status)
            (void)zest_cuda_error_memory(&cuda->base.error, bytes, free_bytes, total, cuda->bytes_allocated,
                                         cuda->settings.memory_limit);
        return NULL;
    }
    if (zest_cuda_failed(cuda, error, "allocating memory")) return NULL;
    cuda->allocations[cuda->allocation_count].data = data;
    cuda->allocations[cuda->allocation_count++].size = bytes;
    cuda->bytes_allocated += bytes;
    if (cuda->bytes_allocated > cuda->peak_bytes) cuda->peak_bytes = cuda->bytes_allocated;
    return data;
}

static void release(zest_device *device, void *data) {
    zest_cuda *cuda = zest_cuda_of(device);
    for (size_t i = 0; data && i < cuda->allocation_count; i++) {
        if (cuda->allocations[i].data != data) continue;
        (void)cudaFree(data); /* waits for the work that uses it */
        cuda->bytes_allocated -= cuda->allocations[i].size;
        cuda->allocations[i] = cuda->allocations[--cuda->allocation_count];
        return;
    }
}

int zest_cuda_reserve(zest_cuda *cuda, zest_cuda_buffer *buffer, size_t bytes) {
    if (bytes <= buffer->size) return 0;
    release(&cuda->base, buffer->data);
    buffer->size = 0;
    buffer->data = (char *)allocate(&cuda->base, bytes);
    if (!buffer->data) return -1;
    buffer->size = bytes;
    return 0;
}

static size_t bytes_allocated(const zest_device *device, size_t *peak) {
    const zest_cuda *cuda = (const zest_cuda *)device;
    if (peak) *peak = cuda->peak_bytes;
    return cuda->bytes_allocated;
}

static size_t available(zest_device *device) {
    zest_cuda *cuda = zest_cuda_of(device);
    size_t free_bytes = 0, total = 0;
    if (zest_cuda_failed(cuda, cudaMemGetInfo(&free_bytes, &total), "reading how much memory is free"))
        return 0;
    size_t left = cuda->bytes_allocated < cuda->settings.memory_limit
                      ? cuda->settings.memory_limit - cuda->bytes_allocated
                      : 0;
    return cuda->settings.memory_limit && left < free_bytes ? left : free_bytes;
}

/* A thirty-second of the GPU's memory is left to the driver, cuBLAS and the screen. */
static size_t capacity(const zest_device *device) {
    const zest_cuda *cuda = (const zest_cuda *)device;
    const size_t usable = cuda->memory - cuda->memory / 32;
    return cuda->settings.memory_limit && cuda->settings.memory_limit < usable ? cuda->settings.memory_limit
                                                                               : usable;
}

static const char *name(const zest_device *device) { return ((const zest_cuda *)device)->name; }

/* ---- Copies ---- */

/* Pinned host memory, which is not reused before the upload from it is done. */
static char *reserve_pinned(zest_cuda *cuda, size_t bytes) {
    if (cuda->pinned_used + bytes > cuda->pinned_size) {
        if (zest_cuda_failed(cuda, cudaEventSynchronize(cuda->uploaded), "waiting for uploads")) return NULL;
        cuda->pinned_used = 0;
        if (bytes > cuda->pinned_size) {
            size_t size = 2 * bytes + (8 << 20); /* the tables of many passes, so that waiting is rare */
            if (cuda->pinned) (void)cudaFreeHost(cuda->pinned);
            cuda->pinned = NULL, cuda->pinned_size = 0;
            cudaError_t error = cudaMallocHost((void **)&cuda->pinned, size);
            if (error == cudaErrorMemoryAllocation)
                (void)zest_cuda_no_memory(cuda, "uploads to the GPU, in pinned memory", size);
            if (zest_cuda_failed(cuda, error, "allocating pinned memory")) return NULL;
            cuda->pinned_size = size;
        }
    }
    char *here = cuda->pinned + cuda->pinned_used;
    cuda->pinned_used += (bytes + 63) / 64 * 64;
    if (cuda->pinned_used > cuda->pinned_size) cuda->pinned_used = cuda->pinned_size;
    return here;
}

static int upload(zest_device *device, void *to, const void *from, size_t bytes) {
    zest_cuda *cuda = zest_cuda_of(device);
    enum { LARGE = 1 << 22 };
    if (!bytes) return 0;
    cuda->weights_dirty = 1;
    if (bytes > LARGE) /* weights: synchronous */
        return zest_cuda_failed(cuda, cudaStreamSynchronize(cuda->stream), "waiting for a stream") ||
               zest_cuda_failed(cuda, cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice),
                                "copying to the GPU");
    char *here = reserve_pinned(cuda, bytes);
    if (!here) return -1;
    memcpy(here, from, bytes);
    return zest_cuda_failed(cuda, cudaMemcpyAsync(to, here, bytes, cudaMemcpyHostToDevice, cuda->stream),
                            "copying to the GPU") ||
           zest_cuda_failed(cuda, cudaEventRecord(cuda->uploaded, cuda->stream), "recording an event");
}

static int download(zest_device *device, void *to, const void *from, size_t bytes) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (cuda->base.error.status) return -1;
    return zest_cuda_failed(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, cuda->stream),
                            "copying from the GPU") ||
           zest_cuda_failed(cuda, cudaStreamSynchronize(cuda->stream), "waiting for the GPU");
}

static const void *stage(zest_device *device, const void *from, size_t bytes) {
    zest_cuda *cuda = zest_cuda_of(device);
    size_t size = (bytes + 255) / 256 * 256;
    if (cuda->staged_used + size > cuda->staged.size) {
        /* Tables that are in use stay where they are. */
        size_t wanted = 2 * (cuda->staged.size + size) + 65536;
        char *grown = (char *)allocate(device, wanted);
        if (!grown) return NULL;
        cuda->staged.data = grown; /* the old buffer is freed with the device */
        cuda->staged.size = wanted;
        cuda->staged_used = 0;
    }
    char *here = cuda->staged.data + cuda->staged_used;
    cuda->staged_used += size;
    return upload(device, here, from, bytes) ? NULL : here;
}

static int unstage(zest_device *device) {
    zest_cuda *cuda = zest_cuda_of(device);
    cuda->staged_used = 0;
    return cuda->base.error.status ? -1 : 0;
}

/* ---- Opening ---- */

static void close_device(zest_device *device) {
    zest_cuda *cuda = zest_cuda_of(device);
    if (!cuda) return;
    if (cuda->prefetch_stream) (void)cudaStreamSynchronize(cuda->prefetch_stream);
    if (cuda->stream) (void)cudaStreamSynchronize(cuda->stream);
    zest_cuda_ring_close(&cuda->linear_slots);
    zest_cuda_ring_close(&cuda->norm_slots);
    zest_cuda_profile_close(cuda);
    zest_cuda_cublas_close(cuda);
    for (size_t i = 0; i < cuda->allocation_count; i++) (void)cudaFree(cuda->allocations[i].data);
    if (cuda->pinned) (void)cudaFreeHost(cuda->pinned);
    if (cuda->uploaded) (void)cudaEventDestroy(cuda->uploaded);
    if (cuda->weights_changed) (void)cudaEventDestroy(cuda->weights_changed);
    if (cuda->prefetch_stream) (void)cudaStreamDestroy(cuda->prefetch_stream);
    if (cuda->stream) (void)cudaStreamDestroy(cuda->stream);
    free(cuda->allocations);
    free(cuda->plans);
    free(cuda);
}

static const zest_device_table device_table = {
    close_device,
    bytes_allocated,
    available,
    capacity,
    name,
    allocate,
    release,
    upload,
    download,
    stage,
    unstage,
    zest_cuda_copy_rows,
    zest_cuda_head_rows,
    zest_cuda_label_logits,
    zest_cuda_sum_logits,
    zest_cuda_best_logits,
    zest_cuda_update,
    zest_cuda_profile,
    zest_cuda_profile_read,
    zest_cuda_peak,
};

static const zest_ops forward_table = {
    ZEST_CPU_PLAIN, zest_cuda_linear, zest_cuda_norm,       zest_cuda_attention, zest_cuda_rotary,
    zest_cuda_gate, zest_cuda_gather, zest_cuda_add_scaled, zest_cuda_soft_cap,  &device_table,
};

static int open_streams(zest_cuda *cuda) {
    int lowest = 0, highest = 0;
    return zest_cuda_failed(cuda, cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                            "reading stream priorities") ||
           zest_cuda_failed(cuda, cudaStreamCreateWithPriority(&cuda->stream, cudaStreamNonBlocking, highest),
                            "creating a stream") ||
           zest_cuda_failed(
               cuda, cudaStreamCreateWithPriority(&cuda->prefetch_stream, cudaStreamNonBlocking, lowest),
               "creating a stream") ||
           zest_cuda_failed(cuda, cudaEventCreateWithFlags(&cuda->uploaded, cudaEventDisableTiming),
                            "creating an event") ||
           zest_cuda_failed(cuda, cudaEventCreateWithFlags(&cuda->weights_changed, cudaEventDisableTiming),
                            "creating an event") ||
           zest_cuda_ring_open(cuda, &cuda->linear_slots, ZEST_CUDA_LINEAR_SLOTS) ||
           zest_cuda_ring_open(cuda, &cuda->norm_slots, ZEST_CUDA_NORM_SLOTS);
}

static __global__ void probe_kernel(void) {}

/* All kernels are compiled for the same GPUs, so one stands for all. Other errors are reported by the calls
 * that fail because of them. */
static zest_cuda_code find_code(void) {
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
    (void)cudaGetLastError();
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
        return ZEST_CUDA_CODE_MISSING;
    return status == cudaErrorUnsupportedPtxVersion || status == cudaErrorInvalidPtx ||
                   status == cudaErrorJitCompilerNotFound
               ? ZEST_CUDA_CODE_NEWER_PTX
               : ZEST_CUDA_CODE_FOUND;
}

static zest_status open_all(zest_cuda *cuda, zest_error *error) {
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && !count) status = cudaErrorNoDevice;
    if (zest_cuda_failed(cuda, status, "looking for a GPU"))
        return zest_device_take_error(&cuda->base, error);
    cudaDeviceProp properties;
    int shared = 0;
    if (zest_cuda_failed(cuda, cudaGetDevice(&cuda->ordinal), "selecting the GPU") ||
        zest_cuda_failed(cuda, cudaGetDeviceProperties(&properties, cuda->ordinal),
                         "reading the GPU's properties") ||
        zest_cuda_failed(
            cuda, cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->ordinal),
            "reading the GPU's properties"))
        return zest_device_take_error(&cuda->base, error);
    snprintf(cuda->name, sizeof cuda->name, "%s", properties.name);
    if (zest_cuda_error_gpu(cuda->name, properties.major, properties.minor, find_code(), ZEST_CUDA_ARCH,
                            error))
        return ZEST_ERROR_ARGUMENT;
    if (open_streams(cuda)) return zest_device_take_error(&cuda->base, error);
    cuda->sm_count = properties.multiProcessorCount;
    cuda->base.multiprocessors = (size_t)properties.multiProcessorCount;
    cuda->max_shared_bytes = (size_t)shared;
    cuda->memory = properties.totalGlobalMem;
    cuda->base.max_head_dim = zest_cuda_attention_max_head_dim(cuda);
    if (properties.major == 9 && properties.minor == 0 && zest_cuda_gemm_sm90_open(cuda))
        return zest_device_take_error(&cuda->base, error);
    return zest_cuda_cublas_open(cuda, error);
}

extern "C" zest_status zest_cuda_open(zest_compute compute, zest_device **device, zest_error *error) {
    zest_cuda *cuda = (zest_cuda *)calloc(1, sizeof *cuda);
    *device = NULL;
    if (!cuda) return zest_error_memory(error, "a device", sizeof *cuda);
    cuda->base.operations = &forward_table;
    cuda->base.compute = compute;
    cuda->base.element_size = zest_cuda_element_size(compute);
    zest_status status = zest_cuda_settings_read(&cuda->settings, error);
    if (compute != ZEST_COMPUTE_F32) cuda->settings.split_f32 = 0;
    if (!status) status = open_all(cuda, error);
    if (status) {
        close_device(&cuda->base);
        return status;
    }
    *device = &cuda->base;
    return ZEST_OK;
}
