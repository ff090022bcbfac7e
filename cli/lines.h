/* The texts that a command works on: one given as an option, or every line of standard input. A line with a
 * problem is refused with its number; the others are still answered. */
#ifndef ZEST_CLI_LINES_H
#define ZEST_CLI_LINES_H

#include <jansson.h>

#include "base/option.h"

typedef struct {
    char **text;
    size_t *number; /* of the line in standard input, from 1 */
    size_t count;
    size_t failed; /* lines that were refused */
    int given;     /* the text was an option */
} zest_lines;

/* The text of the option when it was given, else standard input without its empty lines. Free it whatever
 * this says. */
zest_status zest_lines_read(zest_lines *lines, const zest_options *options, zest_option_id option,
                            zest_error *error);
void zest_lines_free(zest_lines *lines);

/* Says what is wrong with text i on stderr, and in *results when that is not NULL; counts it. */
void zest_lines_refuse(zest_lines *lines, size_t i, const char *message, json_t **results);

#endif
