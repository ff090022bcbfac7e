/* A model as commands use it: weights, tokenizer, and the memory to run it. */
#ifndef ZEST_CLI_MODEL_H
#define ZEST_CLI_MODEL_H

#include <jansson.h>

#include "base/option.h"
#include "models/forward.h"
#include "text/tokenizer.h"

typedef struct {
    zest_model *model;
    zest_tokenizer *tokenizer;
    zest_model_runner *runner;
} zest_cli_model;

/* path: a Hugging Face folder or a GGUF file. Weights, compute and threads come from the options. Close it
 * whatever open says. */
zest_status zest_cli_model_open(zest_cli_model *m, const char *path, const zest_options *options,
                                zest_error *error);
void zest_cli_model_close(zest_cli_model *m);

/* Is this path a model rather than a run? */
int zest_cli_model_is(const char *path);

zest_model_options zest_cli_model_options(const zest_options *options);
zest_model_runner_options zest_cli_model_runner_options(const zest_options *options);

/* The texts a command works on: the given one, or every line of standard input. To be freed with free_lines.
 */
typedef struct {
    char **text;
    size_t count;
} zest_cli_lines;

zest_status zest_cli_lines_read(zest_cli_lines *lines, const char *given, zest_error *error);
void zest_cli_lines_free(zest_cli_lines *lines);

/* A command that does `work` on texts with a model: reads the texts (option `given`, or standard input),
 * opens the model, and prints what work put into results when --json asked for it (else results is NULL, and
 * work prints). */
typedef zest_status zest_cli_work(const zest_cli_model *m, const zest_options *options,
                                  const zest_cli_lines *lines, json_t *results, zest_error *error);
int zest_cli_model_run(const zest_options *options, const char *path, zest_option_id given,
                       zest_cli_work *work);

#endif
