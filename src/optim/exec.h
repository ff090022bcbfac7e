/* An objective that is a program: copies of it run side by side, read points and answer losses.
 *
 * Protocol. A point is one line of decimal numbers with blanks between them, or (binary formats) dim
 * little-endian doubles or floats. The answer to each point, in order, is one line with a number ("nan" and
 * "inf" are allowed: such a pair is left out of the step). The program lives for the whole run; it should
 * flush after every answer. */
#ifndef ZEST_OPTIM_EXEC_H
#define ZEST_OPTIM_EXEC_H

#include "base/error.h"

typedef enum { ZEST_EXEC_TEXT, ZEST_EXEC_F64, ZEST_EXEC_F32 } zest_exec_format;

typedef struct zest_exec zest_exec;

/* Starts `jobs` copies of the command by /bin/sh. timeout: seconds for one answer, 0 for ever. */
zest_exec *zest_exec_start(const char *command, size_t jobs, zest_exec_format format, double timeout,
                           zest_error *error);
/* Calls on_wait once if the very first answer has not come after some seconds: the usual reason is a program
 * that does not flush its output. */
void zest_exec_on_wait(zest_exec *exec, void (*on_wait)(double seconds, void *user), void *user);
/* Closes their input, waits a moment, then kills what is left, also what the commands started. A guard process does
 * the same when this process is killed. A process that left its command's group is out of reach. */
void zest_exec_stop(zest_exec *exec);

/* A zest_objective_lanes over double, with the zest_exec as user. After a non-zero return, zest_exec_error
 * explains. */
int zest_exec_objective(const zest_lanes *lanes, double *losses, void *user);
const char *zest_exec_error(const zest_exec *exec);

#endif
