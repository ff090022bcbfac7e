/* Output of commands: results on stdout, everything else on stderr. */
#ifndef ZEST_CLI_OUTPUT_H
#define ZEST_CLI_OUTPUT_H

#include <jansson.h>
#include <signal.h>

#include "base/memory.h"
#include "cli/command.h"

/* ---- Messages, with control characters escaped ---- */

/* "zest: MESSAGE" on stderr. Returns the exit code for the status. */
int zest_output_fail(zest_status status, const char *message);
int zest_output_failf(zest_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a notice that is not a failure. */
void zest_output_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Results; zest_output_finish checks once that they could be written ---- */

/* Prints text that may come from a file: on a terminal control characters are escaped. */
void zest_output_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a buffer, which is freed. Returns the exit code: a failure when out of memory. */
int zest_output_buffer(zest_buffer *text);
/* Whether stdout can still be written. A long-running command may stop when it cannot. */
int zest_output_broken(void);

/* Called once, at the end of a command: returns `code`, or failure when a result could not be written. A
 * closed pipe, as in `zest ... | head`, needs no message. */
int zest_output_finish(int code);

/* ---- JSON ---- */

/* Helpers to build a result. When out of memory, *to becomes NULL and stays so: zest_output_json then
 * fails, and nothing incomplete is printed. */
void zest_output_set(json_t **to, const char *key, json_t *value);
void zest_output_append(json_t **to, json_t *value);
/* JSON has no infinity or NaN: null. */
json_t *zest_output_real(double number);
/* Bytes that are not UTF-8 become U+FFFD. */
json_t *zest_output_string(const char *text);
/* Appends the object as one line, with so many digits, and frees it. */
void zest_output_dump(json_t *object, int digits, zest_buffer *out);
/* Prints the object as one line and frees it. Returns the exit code. */
int zest_output_json(json_t *object);

/* Sentences, one per line, each as "zest: SENTENCE" on stderr. */
void zest_output_notes(const char *lines);

/* A context, or NULL after a message on stderr. */
zest_ctx *zest_output_context(void);

/* ---- Ctrl-C requests a clean end; a second one ends zest at once ---- */

/* From now on SIGINT and SIGTERM set the returned flag. */
volatile sig_atomic_t *zest_output_catch_interrupt(void);

/* ---- Waiting of OpenMP threads ---- */

/* OpenMP's threads wait by spinning for milliseconds, which is right on an empty machine and ruinous on a
 * busy one: a spinning thread keeps the core that the thread it waits for needs (small models became ten
 * times slower). Its runtime reads how long to spin when the process starts, so the program starts itself
 * once more with a short spin, unless the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Returns when there
 * is nothing to do, or when it cannot be done. */
void zest_limit_omp_spin(char **argv);

#endif
