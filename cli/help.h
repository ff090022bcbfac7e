/* What `zest --help`, `zest COMMAND --help` and the manual page say: all from the option table and the
 * commands. */
#ifndef ZEST_CLI_HELP_H
#define ZEST_CLI_HELP_H

#include "cli/command.h"

void zest_help_overview(zest_buffer *out);
void zest_help_command(const zest_command *command, zest_buffer *out);
void zest_help_manual(zest_buffer *out); /* roff, section 1 */

#endif
