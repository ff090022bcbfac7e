/* What commands share in talking to people and scripts: results on stdout, everything else on stderr. */
#ifndef ZEST_CLI_OUTPUT_H
#define ZEST_CLI_OUTPUT_H

#include <jansson.h>
#include <signal.h>

#include "cli/command.h"
#include "base/memory.h"

/* ---- Messages. Control characters in them are escaped. ---- */

/* "zest: MESSAGE" on stderr. Returns the exit code that fits the status. */
int zest_output_fail(zest_status status, const char *message);
int zest_output_failf(zest_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for something worth saying that is no failure. */
void zest_output_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Results. Whether they could be written is checked once, by zest_output_finish. ---- */

/* Prints text that may come from a file: on a terminal its control characters are escaped. */
void zest_output_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a text that was put together. Frees the buffer; returns the exit code, a failure when memory
 * ran out on the way. */
int zest_output_buffer(zest_buffer *text);
/* Is stdout still of use? A command that prints for a long time may stop when it is not. */
int zest_output_broken(void);

/* Called once, when the command is done: `code`, or failure when a result could not be written. A reader that
 * went away, as in `zest ... | head`, needs no message. */
int zest_output_finish(int code);

/* ---- JSON ---- */

/* A result is built with these. When memory runs out, *to becomes NULL and stays so: zest_output_json then
 * fails, and nothing is printed with parts missing. */
void zest_output_set(json_t **to, const char *key, json_t *value);
void zest_output_append(json_t **to, json_t *value);
/* JSON knows no infinity or NaN: null stands for them. */
json_t *zest_output_real(double number);
/* Bytes that are not UTF-8 become U+FFFD. */
json_t *zest_output_string(const char *text);
/* Appends the object as one line, with reals of so many digits, and frees it. */
void zest_output_dump(json_t *object, int digits, zest_buffer *out);
/* Prints the object as one line and frees it. Returns the exit code. */
int zest_output_json(json_t *object);

/* Sentences, one a line, each as "zest: SENTENCE" on stderr. */
void zest_output_notes(const char *lines);

/* A context, or NULL after a message on stderr. */
zest_ctx *zest_output_context(void);

/* Ctrl-C asks for a clean end; a second one ends zest at once. */

/* From now on SIGINT and SIGTERM set the flag that is returned. */
volatile sig_atomic_t *zest_output_catch_interrupt(void);

/* How the program's threads wait for each other. */

/* OpenMP's threads wait by spinning for milliseconds, which is right on an empty machine and ruinous on a
 * busy one: a spinning thread keeps the core that the thread it waits for needs (small models became ten
 * times slower). Its runtime reads how long to spin when the process starts, so the program starts itself
 * once more with a short spin, unless the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Returns when there
 * is nothing to do, or when it cannot be done. */
void zest_limit_omp_spin(char **argv);

/* Text from files, as a terminal may see it.
 *
 * A model, task or data file of a stranger can hold bytes that move the cursor, change the window's title or
 * hide text. Messages are always cleaned; results are cleaned when they go to a terminal and left as they are
 * in a file or pipe. */

/* Appends the text with every control character but tab and newline escaped: ESC as \x1b, those beyond ASCII
 * and marks that change the direction of text as \u009b, bytes that are not UTF-8 as \xff. */
void zest_terminal_clean(const char *text, size_t size, zest_buffer *out);

#endif
