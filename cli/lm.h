/* A language model as commands use it, through zest_lm.h. */
#ifndef ZEST_CLI_LM_H
#define ZEST_CLI_LM_H

#include <jansson.h>

#include "cli/command.h"
#include "cli/records.h"
#include "zest_lm.h"

/* A command that does `work` on texts with a model: reads the texts (option `given`, or standard input), opens
 * the model, and prints what work put into *results when --json asked for it (else results is NULL, and work
 * prints). work returns a status with its message in ctx; texts that it refuses make the command fail in the
 * end. tokenizer_only: no weights are read. */
typedef zest_status zest_cli_work(zest_ctx *ctx, zest_lm *lm, const zest_options *options, zest_lines *lines,
                                  json_t **results);
int zest_cli_lm_run(const zest_options *options, const char *path, int tokenizer_only, zest_option_id given,
                    zest_cli_work *work);

/* The tokens of a text, to be freed; NULL: see ctx. flags: as zest_lm_encode's. */
int32_t *zest_cli_encode(zest_lm *lm, const char *text, unsigned flags, size_t *count, zest_status *status);
/* The text of tokens, to be freed; NULL: see ctx. */
char *zest_cli_decode(zest_lm *lm, const int32_t *ids, size_t first, size_t count, unsigned flags,
                      zest_status *status);

#endif
