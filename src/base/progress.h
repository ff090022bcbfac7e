/* Progress callback of long-running functions. The library prints nothing; the program uses cli/progress.h. */
#ifndef ZEST_BASE_PROGRESS_H
#define ZEST_BASE_PROGRESS_H

#include <stdint.h>

/* `done` of `total` units of work are finished. Called often, so it must be cheap. */
typedef void zest_progress_function(uint64_t done, uint64_t total, void *user);

typedef struct {
    zest_progress_function *report; /* or NULL */
    void *user;
} zest_progress_callback;

/* to may be NULL. */
static inline void zest_progress_call(const zest_progress_callback *to, uint64_t done, uint64_t total) {
    if (to && to->report) to->report(done, total, to->user);
}

#endif
