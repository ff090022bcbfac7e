/* What commands share in talking to people and scripts. */
#ifndef ZEST_CLI_OUTPUT_H
#define ZEST_CLI_OUTPUT_H

#include <jansson.h>

#include "cli/command.h"

/* "zest: MESSAGE" on stderr. Returns the exit code that fits the status. */
int zest_output_fail(zest_status status, const char *message);
int zest_output_failf(zest_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A context, or NULL after a message on stderr. */
zest_ctx *zest_output_context(void);

/* Prints the object as one line and frees it. JSON knows no infinity or NaN: zest_output_real gives null for
 * them. Returns the exit code. */
int zest_output_json(json_t *object);
json_t *zest_output_real(double number);

#endif
