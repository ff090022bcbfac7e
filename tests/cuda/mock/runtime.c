/* Streams, events, the device, launches. */
#include "tests/cuda/mock/mock.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The device: an H200 ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return mock_call("");
}
cudaError_t cudaGetDevice(int *ordinal) {
    *ordinal = 0;
    return mock_call("");
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int ordinal) {
    (void)ordinal;
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "mock H200");
    properties->major = 9, properties->minor = 0;
    properties->multiProcessorCount = 132;
    properties->totalGlobalMem = (size_t)mock_setting("MOCK_CUDA_TOTAL", 143771) << 20;
    return mock_call("");
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int ordinal) {
    (void)ordinal;
    *value = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10 : 0;
    return mock_call("");
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest) {
    *lowest = 0, *highest = -5;
    return mock_call("");
}

cudaError_t cudaGetLastError(void) { return mock_last_error(1); }
const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
           : error == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
                                              : "cudaErrorUnknown";
}
const char *cudaGetErrorString(cudaError_t error) {
    (void)error;
    return "an error of the mock";
}

/* The inputs of a tensor map, readable in the trace of the kernel that gets it. */
static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *data,
                       const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                       const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    uint64_t words[16] = {(uint64_t)(uintptr_t)data, (uint64_t)type << 32 | rank};
    unsigned at = 2;
    if (rank > 3) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++) words[at++] = sizes[i];
    for (unsigned i = 0; i + 1 < rank; i++) words[at++] = strides[i];
    for (unsigned i = 0; i < rank; i++) words[at++] = (uint64_t)box[i] << 32 | steps[i];
    words[at++] =
        (uint64_t)interleave << 48 | (uint64_t)swizzle << 32 | (uint64_t)promotion << 16 | (uint64_t)fill;
    memcpy(map, words, sizeof *map);
    return (uintptr_t)data % 16 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    (void)version, (void)flags;
    cudaError_t error = mock_call("");
    const int known = !strcmp(name, "cuTensorMapEncodeTiled");
    CUresult (*function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                         const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                         CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) = encode;
    memcpy(entry, &function, sizeof function);
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return error;
}

/* ---- Streams and events: numbers ---- */

static unsigned long streams, events, open_streams, open_events;

void mock_handles(void) {
    if (open_streams || open_events)
        mock_print("not destroyed: %lu streams, %lu events\n", open_streams, open_events);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    cudaError_t error = mock_call("cudaStreamCreate");
    if (error) return error;
    *stream = (cudaStream_t)(uintptr_t)++streams;
    open_streams++;
    mock_print(" %lu flags=%u priority=%d\n", streams, flags, priority);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = mock_call("cudaStreamDestroy");
    open_streams--;
    if (!error) mock_print(" %lu\n", (unsigned long)(uintptr_t)stream);
    return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t error = mock_call("cudaStreamSynchronize");
    if (!error) mock_print(" %lu\n", (unsigned long)(uintptr_t)stream);
    return error;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    cudaError_t error = mock_call("cudaStreamWaitEvent");
    if (!error)
        mock_print(" stream=%lu event=%lu flags=%u\n", (unsigned long)(uintptr_t)stream,
                   (unsigned long)(uintptr_t)event, flags);
    return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    cudaError_t error = mock_call("cudaEventCreate");
    if (error) return error;
    *event = (cudaEvent_t)(uintptr_t)++events;
    open_events++;
    mock_print(" %lu flags=%u\n", events, flags);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t error = mock_call("cudaEventDestroy");
    open_events--;
    if (!error) mock_print(" %lu\n", (unsigned long)(uintptr_t)event);
    return error;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t error = mock_call("cudaEventRecord");
    if (!error)
        mock_print(" event=%lu stream=%lu\n", (unsigned long)(uintptr_t)event,
                   (unsigned long)(uintptr_t)stream);
    return error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error = mock_call("cudaEventSynchronize");
    if (!error) mock_print(" %lu\n", (unsigned long)(uintptr_t)event);
    return error;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    (void)begin, (void)end;
    *milliseconds = 0.01f + (float)(mock_random() >> 40) * 0x1p-24f;
    cudaError_t error = mock_call("cudaEventElapsedTime");
    if (!error) mock_print("\n");
    return error;
}

/* ---- Kernels ---- */

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    memset(attributes, 0, sizeof *attributes);
    return mock_kernel_of(function) ? mock_call("") : cudaErrorInvalidDeviceFunction;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
    const mock_kernel *kernel = mock_kernel_of(function);
    cudaError_t error = mock_call("cudaFuncSetAttribute");
    if (!error) mock_print(" %s attribute=%d value=%d\n", kernel ? kernel->name : "?", (int)attribute, value);
    return error;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                          cudaStream_t stream, const cudaLaunchAttribute *attributes,
                          unsigned attribute_count) {
    mock_kernel *kernel = mock_kernel_of(function);
    cudaError_t error = mock_call("launch");
    if (error) return error;
    if (!kernel || !grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffff ||
        !block.x || block.x * block.y * block.z > 1024 || shared > 227 << 10) {
        fprintf(stderr, "mock CUDA: a launch that a GPU would refuse: %s\n", kernel ? kernel->name : "?");
        abort();
    }
    mock_kernel_parameters(kernel);
    mock_print(" %s grid=%u,%u,%u block=%u,%u,%u shared=%zu stream=%lu", kernel->name, grid.x, grid.y, grid.z,
               block.x, block.y, block.z, shared, (unsigned long)(uintptr_t)stream);
    for (unsigned i = 0; i < attribute_count; i++) {
        mock_print(" attribute %d:", (int)attributes[i].id);
        if (attributes[i].id == cudaLaunchAttributeClusterDimension)
            mock_print(" %u,%u,%u", attributes[i].val.clusterDim.x, attributes[i].val.clusterDim.y,
                       attributes[i].val.clusterDim.z);
    }
    if (kernel->known < 0) mock_print(" (parameters unknown)");
    for (unsigned i = 0; i < kernel->parameters; i++) {
        mock_print(" |");
        mock_print_bytes(arguments[i], kernel->parameter[i].size);
    }
    mock_print("\n");
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
    return launch(kernel, grid, block, arguments, shared, stream, NULL, 0);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream) {
    return launch(function, grid, block, arguments, shared, stream, NULL, 0);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    return launch(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                  config->stream, config->attrs, config->numAttrs);
}

static struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
    pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared;
    memcpy(stream, &pushed.stream, sizeof pushed.stream);
    return cudaSuccess;
}
