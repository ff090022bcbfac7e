/* A CUDA run-time library and a cuBLASLt without a GPU, for tests: device memory is host memory, copies are memcpy,
 * kernels are not run. Every call is written to a trace, with the arguments that a GPU would see. Linked in place of
 * libcudart; ZEST_CUBLASLT names the same file.
 *
 *   MOCK_CUDA_TRACE=FILE    where the trace goes; without it none is written
 *   MOCK_CUDA_SEED=N        chooses what timings say
 *   MOCK_CUDA_FREE=MIB      free memory at the start, of MOCK_CUDA_TOTAL=MIB
 *   MOCK_CUDA_RESULTS=vary  small downloads are numbers near 1 that differ, so that losses do; default: what the memory
 *                           holds, which is 0
 *   MOCK_CUDA_FAIL=N:CODE   call number N fails with this cudaError_t; errors from 700 on stay, as on a GPU
 *
 * A line of the trace is a call. Pointers are written as D<number of the allocation>+<offset> (device) or
 * H<number>+<offset> (pinned). The last lines count calls and what was not freed. */
#ifndef ZEST_TESTS_CUDA_MOCK_H
#define ZEST_TESTS_CUDA_MOCK_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel, as its object file registered it. */
typedef struct {
    const void *host; /* the function that stands for it */
    const void *fatbin;
    const char *name;
    int known; /* 1: parameters were found, -1: they were not */
    unsigned parameters;
    struct {
        unsigned offset, size;
    } parameter[16];
} mock_kernel;

/* ---- kernels.c ---- */

mock_kernel *mock_kernel_of(const void *host); /* or of a handle; NULL: not registered */
void mock_kernel_parameters(mock_kernel *kernel);

/* ---- trace.c ---- */

/* Non-zero: the error that this call must return. */
cudaError_t mock_call(const char *what);
cudaError_t mock_last_error(int clear);
void mock_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A value that may be a pointer. */
void mock_print_word(uint64_t word);
void mock_print_bytes(const void *data, size_t bytes);
void mock_print_content(const void *data, size_t bytes);
uint64_t mock_random(void); /* depends on MOCK_CUDA_SEED */
uint64_t mock_setting(const char *name, uint64_t initial);

/* ---- memory.c ---- */

/* The name of an allocation and the offset in it; NULL: not memory of ours. */
const char *mock_memory_find(uint64_t address, uint64_t *offset);
void mock_leaks(void);

/* ---- runtime.c ---- */

void mock_handles(void); /* streams and events that were not destroyed */

#endif
