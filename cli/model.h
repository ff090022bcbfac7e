/* A model as commands use it: weights, tokenizer, and the memory to run it. */
#ifndef ZEST_CLI_MODEL_H
#define ZEST_CLI_MODEL_H

#include <jansson.h>

#include "cli/arguments.h"
#include "cli/lines.h"
#include "run/load.h"

/* Puts paths in place of the names of pulled models, in --model and where the command takes a MODEL. Files
 * and folders of such a name have precedence. *words: all words of the command line, to be freed one by one.
 */
zest_status zest_cli_model_find(const zest_command *command, zest_options *options,
                                const zest_arguments *arguments, char ***words, zest_error *error);

/* Is this path a model rather than a run? */
int zest_cli_model_is(const char *path);

/* A command that does `work` on texts with a model: reads the texts (option `given`, or standard input),
 * opens the model, and prints what work put into *results when --json asked for it (else results is NULL, and
 * work prints). Texts that work refuses make the command fail in the end. */
typedef zest_status zest_cli_work(const zest_loaded *m, const zest_options *options, zest_lines *lines,
                                  json_t **results, zest_error *error);
int zest_cli_model_run(const zest_options *options, const char *path, zest_option_id given,
                       zest_cli_work *work);

#endif
