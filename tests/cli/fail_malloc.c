/* To be preloaded: the allocation number FAIL_AT since the start of main fails. The number of allocations until exit,
 * and how many of them were not freed, are written to the file FAIL_COUNT. What libraries allocate before main and
 * after exit is not counted: CUDA's do, and end the process themselves when they cannot. glibc only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static atomic_long live;
static atomic_long calls;
static atomic_int counting;
static long fail_at;
static int (*program)(int, char **, char **);

static int fails(void) {
    if (!atomic_load(&counting)) return 0;
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (call != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}

static void *counted(void *block) {
    if (block && atomic_load(&counting)) atomic_fetch_add(&live, 1);
    return block;
}

void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : counted(__libc_calloc(count, size)); }

void *realloc(void *old, size_t size) {
    if (fails()) return NULL;
    void *block = __libc_realloc(old, size);
    return old ? block : counted(block);
}

void *memalign(size_t alignment, size_t size) {
    return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    if (block && atomic_load(&counting)) atomic_fetch_sub(&live, 1);
    __libc_free(block);
}

static void end(void) {
    const char *path = getenv("FAIL_COUNT");
    long made = atomic_load(&calls), kept = atomic_load(&live);
    atomic_store(&counting, 0);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld %ld\n", made, kept);
    fclose(file);
}

static int counted_main(int argc, char **argv, char **environment) {
    const char *text = getenv("FAIL_AT");
    fail_at = text ? atol(text) : 0;
    atexit(end); /* the last to be registered is the first to run */
    atomic_store(&counting, 1);
    return program(argc, argv, environment);
}

typedef int start_function(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                           void (*)(void), void *);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    start_function *start;
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    program = main;
    return start(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
