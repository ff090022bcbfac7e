/* Monotonic time in seconds. */
#ifndef ZEST_BASE_CLOCK_H
#define ZEST_BASE_CLOCK_H

#include <time.h>

static inline double zest_clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
