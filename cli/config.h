/* --config FILE: options from a file. The format is that of a run's options file, so that a run can be
 * repeated from it: lines `name = value`, blank lines, and lines that begin with #. */
#ifndef ZEST_CLI_CONFIG_H
#define ZEST_CLI_CONFIG_H

#include "cli/command.h"

/* Sets what the file says, except for options that are given already: the command line wins. A file may serve
 * several commands, so options of other commands are skipped; a name that no command knows is refused with
 * its line. An empty value leaves the default. */
zest_status zest_config_read(const zest_command *command, const char *path, zest_options *options,
                             zest_error *error);

#endif
