#include "analysis/ladder.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/vector.h"
#include "base/memory.h"

zest_status zest_ladder_choose(const zest_ladder_job *job, double *step, double *disagreement,
                               zest_error *error) {
    double *room = zest_memory_new(2 * job->count * sizeof *room), size = job->start;
    if (!room) return zest_error_memory(error, "the choice of a step", 2 * job->count * sizeof *room);
    double *last = room, *now = room + job->count;
    int worse = 0;
    *step = job->start;
    *disagreement = HUGE_VAL;
    zest_status status = job->measure(job->user, size, last, error);
    /* Past the best rung the disagreement only grows: two worse ones in a row, and it is behind us. On the
     * rungs above it, where neighbours have nothing to do with each other, it goes up and down as it likes.
     */
    for (int i = 1; i < job->rungs && worse < 2 && !status; i++) {
        size /= job->ratio;
        status = job->measure(job->user, size, now, error);
        if (status) break;
        double apart = zest_vector_distance(last, now, job->count, job->threads),
               length = zest_vector_norm(now, job->count, job->threads),
               relative = length > 0  ? apart / length
                          : apart > 0 ? HUGE_VAL
                                      : 0;
        worse += *disagreement < ZEST_LADDER_AGREED;
        if (relative < *disagreement) {
            *disagreement = relative;
            *step = size * sqrt(job->ratio);
            worse = 0;
        }
        double *swap = last;
        last = now, now = swap;
    }
    free(room);
    return status;
}
