/* Device and pinned memory, copies. Reads and writes outside an allocation end the program. */
#include "tests/cuda/mock/mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALLOCATIONS = 4096, ALIGNMENT = 512 };

static struct {
    uint64_t address, size;
    char name[12];
    int pinned;
} allocations[MAX_ALLOCATIONS];
static unsigned count, numbers[2];
static uint64_t allocated;

static unsigned find(uint64_t address) {
    for (unsigned i = 0; i < count; i++)
        if (address >= allocations[i].address && address - allocations[i].address < allocations[i].size)
            return i;
    return count;
}

const char *mock_memory_find(uint64_t address, uint64_t *offset) {
    const unsigned i = find(address);
    if (i == count) return NULL;
    *offset = address - allocations[i].address;
    return allocations[i].name;
}

static uint64_t total(void) { return mock_setting("MOCK_CUDA_TOTAL", 143771) << 20; }
static uint64_t free_memory(void) {
    const uint64_t at_first = mock_setting("MOCK_CUDA_FREE", 143000) << 20;
    return at_first > allocated ? at_first - allocated : 0;
}

static cudaError_t allocate(void **data, size_t size, int pinned) {
    *data = NULL;
    if (count == MAX_ALLOCATIONS || (!pinned && size > free_memory())) return cudaErrorMemoryAllocation;
    if (posix_memalign(data, ALIGNMENT, size)) return cudaErrorMemoryAllocation;
    if (!pinned && size < 1 << 26) memset(*data, 0, size); /* large ones: pages are 0 and stay untouched */
    allocations[count].address = (uint64_t)(uintptr_t)*data, allocations[count].size = size;
    allocations[count].pinned = pinned;
    (void)snprintf(allocations[count].name, sizeof allocations[count].name, "%c%u", pinned ? 'H' : 'D',
                   numbers[pinned]++);
    if (!pinned) allocated += size;
    mock_print(" %s bytes=%zu\n", allocations[count].name, size);
    count++;
    return cudaSuccess;
}

static cudaError_t release(void *data) {
    const unsigned i = find((uint64_t)(uintptr_t)data);
    if (i == count || allocations[i].address != (uint64_t)(uintptr_t)data) {
        fprintf(stderr, "mock CUDA: memory is freed that was not allocated\n");
        abort();
    }
    mock_print(" %s\n", allocations[i].name);
    if (!allocations[i].pinned) allocated -= allocations[i].size;
    free(data);
    allocations[i] = allocations[--count];
    return cudaSuccess;
}

void mock_leaks(void) {
    for (unsigned i = 0; i < count; i++) mock_print("not freed: %s\n", allocations[i].name);
}

cudaError_t cudaMalloc(void **data, size_t size) {
    cudaError_t error = mock_call("cudaMalloc");
    return error ? error : allocate(data, size, 0);
}

cudaError_t cudaMallocHost(void **data, size_t size) {
    cudaError_t error = mock_call("cudaMallocHost");
    return error ? error : allocate(data, size, 1);
}

/* A device that failed still gives back its memory here, so that leaks of zest alone are seen. */
cudaError_t cudaFree(void *data) {
    cudaError_t error = mock_call("cudaFree");
    if (data) (void)release(data);
    return error;
}

cudaError_t cudaFreeHost(void *data) {
    cudaError_t error = mock_call("cudaFreeHost");
    if (data) (void)release(data);
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    cudaError_t error = mock_call("");
    if (error) return error;
    *free_bytes = free_memory(), *total_bytes = total();
    return cudaSuccess;
}

/* ---- Copies ---- */

static void check(const void *data, size_t bytes, const char *what) {
    const unsigned i = find((uint64_t)(uintptr_t)data);
    if (!bytes) return;
    if (i < count && (uint64_t)(uintptr_t)data - allocations[i].address + bytes <= allocations[i].size)
        return;
    fprintf(stderr, "mock CUDA: %s of %zu bytes leaves the GPU's memory\n", what, bytes);
    abort();
}

/* Numbers near 1, as fp32 or 16 bits, that differ: bits 0x3f80 with a random part, the same in every run. */
static void vary(void *data, size_t bytes) {
    static uint64_t state = 1;
    const char *mode = getenv("MOCK_CUDA_RESULTS");
    if (!mode || strcmp(mode, "vary") || bytes > 1 << 16) return;
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t word = 0x3f803f80u | ((uint32_t)(state >> 40) & 0x003f003fu);
        memcpy((char *)data + i, &word, 4);
    }
}

static cudaError_t copy(const char *what, void *to, const void *from, size_t bytes,
                        enum cudaMemcpyKind kind) {
    cudaError_t error = mock_call(what);
    if (error) return error;
    if (kind != cudaMemcpyDeviceToHost) check(to, bytes, "a write");
    if (kind != cudaMemcpyHostToDevice) check(from, bytes, "a read");
    mock_print(" kind=%d", (int)kind);
    if (kind != cudaMemcpyDeviceToHost) mock_print_word((uint64_t)(uintptr_t)to);
    if (kind != cudaMemcpyHostToDevice) mock_print_word((uint64_t)(uintptr_t)from);
    if (kind == cudaMemcpyHostToDevice) mock_print_content(from, bytes);
    mock_print(" bytes=%zu", bytes);
    memmove(to, from, bytes);
    if (kind == cudaMemcpyDeviceToHost) vary(to, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t error = copy("cudaMemcpy", to, from, bytes, kind);
    if (!error) mock_print("\n");
    return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    cudaError_t error = copy("cudaMemcpyAsync", to, from, bytes, kind);
    if (!error) mock_print(" stream=%lu\n", (unsigned long)(uintptr_t)stream);
    return error;
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream) {
    cudaError_t error = mock_call("cudaMemsetAsync");
    if (error) return error;
    check(data, bytes, "a write");
    mock_print_word((uint64_t)(uintptr_t)data);
    mock_print(" value=%d bytes=%zu stream=%lu\n", value, bytes, (unsigned long)(uintptr_t)stream);
    memset(data, value, bytes);
    return cudaSuccess;
}
