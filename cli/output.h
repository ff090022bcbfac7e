/* What commands share in talking to people and scripts: results on stdout, everything else on stderr. */
#ifndef ZEST_CLI_OUTPUT_H
#define ZEST_CLI_OUTPUT_H

#include <jansson.h>

#include "cli/command.h"

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

#endif
