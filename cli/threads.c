#include "cli/threads.h"

#include <stdlib.h>
#include <unistd.h>

/* Some microseconds: longer than the threads of one operation drift apart. */
static const char *const short_spin = "1000";

void zest_threads_be_polite(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    if (setenv("GOMP_SPINCOUNT", short_spin, 1)) return;
    execv("/proc/self/exe", argv); /* comes back only if it failed */
}
