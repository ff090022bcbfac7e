/* Progress of commands that can take more than a few seconds, on stderr.
 *
 *   terminal    one line that overwrites itself, at most six times a second:
 *                 train  31 % [######--------------] 1736/5600 steps, 2m10s left, loss 0.4121
 *   elsewhere   a line after 5 seconds and then every 30 seconds; nothing when the command is quicker:
 *                 zest: train: 1736 of 5600 steps (31 %), 2m10s left, loss 0.4121
 *
 *     zest_progress progress;
 *     zest_progress_begin(&progress, "eval", "examples", quiet);
 *     ...   zest_progress_update(&progress, done, total, NULL);     or hand zest_progress_sink(&progress) to
 *     ...                                                           a library function that takes a callback
 *     zest_progress_end(&progress);
 *
 * Calls are cheap: a clock is read and nothing else happens until a line is due. Not thread-safe. */
#ifndef ZEST_CLI_PROGRESS_H
#define ZEST_CLI_PROGRESS_H

#include <stddef.h>

#include "base/progress.h"

typedef struct {
    const char *label, *unit; /* not owned */
    int active;               /* 0: --quiet */
    int terminal;
    int shown;             /* a line is on the terminal */
    double command, stage; /* time at the start of the command, and of the stage */
    double first;          /* units done when the stage began */
    double last;           /* time of the last line; 0: none yet */
} zest_progress;

/* label: the activity, "train"; unit: what is counted, "steps". The unit "bytes" is shown as MiB with the
 * speed. */
void zest_progress_begin(zest_progress *progress, const char *label, const char *unit, int quiet);
/* The next stage of the same command, with its own speed; `done` units of it are done already. */
void zest_progress_stage(zest_progress *progress, const char *label, const char *unit, double done);
/* Whether an update would be shown now; for callers whose note is expensive. */
int zest_progress_due(const zest_progress *progress);
/* total 0: unknown. note: text after the time, or NULL. */
void zest_progress_update(zest_progress *progress, double done, double total, const char *note);
/* The same as a callback, without a note. */
zest_progress_callback zest_progress_sink(zest_progress *progress);
/* Clears the line on the terminal, before other output. */
void zest_progress_clear(zest_progress *progress);
void zest_progress_end(zest_progress *progress);

/* "45s", "2m10s", "3h05m", "2d04h" */
const char *zest_progress_duration(double seconds, char *text, size_t size);
/* The line for `now` (by zest_clock_now) in at most `width` bytes, without a line break. */
void zest_progress_line(const zest_progress *progress, double now, double done, double total,
                        const char *note, size_t width, char *text, size_t size);

#endif
