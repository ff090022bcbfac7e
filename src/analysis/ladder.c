#include "analysis/ladder.h"

#include <math.h>

zest_status zest_ladder_choose(const zest_ladder_job *job, double *step, double *disagreement,
                               zest_error *error) {
    const zest_vector_space *space = &job->space;
    const zest_vector_table *vectors = zest_vector_operations(space);
    double *room = zest_vector_doubles(space, 2), size = job->start;
    if (!room) return zest_vector_no_room(space, "the choice of a step", 16 * (double)space->count, error);
    double *last = room, *now = room + space->count;
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
        double apart = vectors->distance(space, last, now), length = vectors->norm(space, now),
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
    zest_vector_free(space, room);
    return status ? status : zest_vector_check(space, error);
}
