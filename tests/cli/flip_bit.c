/* To be preloaded into one rank: on SIGUSR1 a bit of the weights is another one. The weights are the first block of at
 * least FLIP_SIZE bytes that is allocated on a boundary; the bit is in its middle. glibc only. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

extern void *__libc_memalign(size_t alignment, size_t size);

static _Atomic(volatile unsigned char *) weights;
static size_t smallest;

void *aligned_alloc(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    volatile unsigned char *none = NULL;
    if (block && smallest && size >= smallest)
        atomic_compare_exchange_strong(&weights, &none, (unsigned char *)block + size / 2);
    return block;
}

static void flip(int signal) {
    (void)signal;
    volatile unsigned char *at = atomic_load(&weights);
    if (at) *at ^= 1;
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("FLIP_SIZE");
    smallest = text ? strtoul(text, NULL, 10) : 0;
    if (smallest) (void)signal(SIGUSR1, flip);
}
