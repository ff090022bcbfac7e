/* Text from files, as a terminal may see it.
 *
 * A model, task or data file of a stranger can hold bytes that move the cursor, change the window's title or
 * hide text. Messages are always cleaned; results are cleaned when they go to a terminal and left as they are
 * in a file or pipe. */
#ifndef ZEST_CLI_TERMINAL_H
#define ZEST_CLI_TERMINAL_H

#include "base/buffer.h"

/* Appends the text with every control character but tab and newline escaped: ESC as \x1b, those beyond ASCII
 * and marks that change the direction of text as \u009b, bytes that are not UTF-8 as \xff. */
void zest_terminal_clean(const char *text, size_t size, zest_buffer *out);

#endif
