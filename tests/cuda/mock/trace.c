/* The trace, settings, and errors that are asked for. */
#include "tests/cuda/mock/mock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *trace;
static int started;
static uint64_t calls, fail_at, random_state;
static cudaError_t fail_code, last_error, sticky;

uint64_t mock_setting(const char *name, uint64_t initial) {
    const char *value = getenv(name);
    return value && *value ? strtoull(value, NULL, 10) : initial;
}

static void start(void) {
    const char *file = getenv("MOCK_CUDA_TRACE"), *fail = getenv("MOCK_CUDA_FAIL");
    if (started) return;
    started = 1;
    random_state = mock_setting("MOCK_CUDA_SEED", 1);
    if (fail && strchr(fail, ':')) {
        fail_at = strtoull(fail, NULL, 10);
        fail_code = (cudaError_t)atoi(strchr(fail, ':') + 1);
    }
    if (!file || !*file) return;
    trace = fopen(file, "w");
    if (!trace) {
        perror(file);
        exit(99);
    }
    (void)setvbuf(trace, NULL, _IOFBF, 1 << 20);
}

__attribute__((destructor)) static void finish(void) {
    mock_leaks();
    mock_handles();
    mock_print("calls %llu\n", (unsigned long long)calls);
    if (trace) (void)fclose(trace);
    trace = NULL;
}

cudaError_t mock_call(const char *what) {
    start();
    calls++;
    cudaError_t error = sticky;
    if (fail_at && calls == fail_at) error = fail_code;
    if (error >= 700 && error < 800) sticky = error;
    if (error) last_error = error;
    mock_print("%s%s", what, error ? " FAILED\n" : "");
    return error;
}

cudaError_t mock_last_error(int clear) {
    cudaError_t error = last_error;
    if (clear) last_error = sticky;
    return error;
}

void mock_print(const char *format, ...) {
    va_list arguments;
    if (!trace) return;
    va_start(arguments, format);
    (void)vfprintf(trace, format, arguments);
    va_end(arguments);
}

/* An int at the end of a structure has four bytes of padding behind it, in which the stack left the upper half of some
 * address of this process. No argument of a kernel looks like that, since addresses of the GPU are known. */
static int has_padding(uint64_t word) {
    const uint64_t upper = word >> 32;
    return (upper >= 0x5500 && upper < 0x5700) || (upper >= 0x7e00 && upper < 0x8000);
}

void mock_print_word(uint64_t word) {
    uint64_t offset;
    const char *name = mock_memory_find(word, &offset);
    if (name && offset % 2 == 0) /* an odd one is a float with padding */
        mock_print(" %s+%llx", name, (unsigned long long)offset);
    else
        mock_print(" %llx", (unsigned long long)(has_padding(word) ? word & 0xffffffff : word));
}

/* As words of eight bytes, runs of zeros as 0*count. */
void mock_print_bytes(const void *data, size_t bytes) {
    const char *at = data;
    size_t zeros = 0;
    if (!trace) return;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, bytes - i < 8 ? bytes - i : 8);
        if (has_padding(word) && !(word & 0xffffffff)) word = 0;
        if (!word && i + 8 < bytes) {
            zeros++;
            continue;
        }
        if (zeros) mock_print(" 0*%zu", zeros);
        zeros = 0;
        mock_print_word(word);
    }
}

/* Of tables the words, since there may be addresses among them. */
void mock_print_content(const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t hash = 0xcbf29ce484222325;
    if (!trace) return;
    if (bytes <= 1 << 16) {
        mock_print_bytes(data, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3;
    mock_print(" hash=%016llx", (unsigned long long)hash);
}

/* splitmix64 */
uint64_t mock_random(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
