/* To be preloaded: the allocation number FAIL_AT of the process fails. The number of allocations is written
 * to the file FAIL_COUNT at the end. glibc only. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long calls;
static long fail_at;

static int fails(void) {
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (call != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FAIL_AT");
    fail_at = text ? atol(text) : 0;
    atomic_store(&calls, 0);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAIL_COUNT");
    long made = atomic_load(&calls);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", made);
    fclose(file);
}
