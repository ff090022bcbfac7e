/* The command line: --name value, --name=value, -l value, --flag, --no-flag, -- ; words keep their order. */
#ifndef ZEST_CLI_ARGUMENTS_H
#define ZEST_CLI_ARGUMENTS_H

#include "cli/command.h"

typedef struct {
    char **words; /* points into argv */
    int count;
    int help; /* --help or -h was there */
    int version;
} zest_arguments;

zest_status zest_arguments_parse(const zest_command *command, int argc, char **argv, zest_options *options,
                                 zest_arguments *arguments, zest_error *error);

#endif
