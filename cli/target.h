/* What sharpness looks at (lm/target.h), with a progress bar and notes. */
#ifndef ZEST_CLI_TARGET_H
#define ZEST_CLI_TARGET_H

#include "cli/command.h"
#include "lm/target.h"

/* Close it with zest_target_close whatever this says. */
zest_status zest_cli_target_open(zest_target *target, const char *path, const zest_options *given,
                                 zest_error *error);

/* Puts paths in place of the names of pulled models, in --model and where the command takes a MODEL. Files
 * and folders of such a name have precedence. *words: all words of the command line, to be freed one by one. */
zest_status zest_cli_model_find(const zest_command *command, zest_options *options,
                                const zest_arguments *arguments, char ***words, zest_error *error);

/* The name of a model for people: "ORG/NAME, commit 0123456" for one in the Hub's cache, else its path. */
void zest_cli_model_name(const char *path, zest_buffer *out);

#endif
