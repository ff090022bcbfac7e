/* A language model as commands use it, through zest_lm.h, and the texts that a command works on. */
#ifndef ZEST_CLI_LM_H
#define ZEST_CLI_LM_H

#include <jansson.h>
#include <stdio.h>

#include "base/option.h"
#include "cli/command.h"
#include "zest_lm.h"

/* ---- Texts: one given as an option, or every line of standard input. A line with a problem is refused with its
 * number; the others are still answered. ---- */

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

/* Appends the next line of standard input that is not empty; *found = 0 at its end. */
zest_status zest_lines_next(zest_lines *lines, int *found, zest_error *error);

/* Says what is wrong with text i on stderr, and in *results when that is not NULL; counts it. */
void zest_lines_refuse(zest_lines *lines, size_t i, const char *message, json_t **results);

/* ---- The model ---- */

typedef struct {
    zest_ctx *ctx; /* its own */
    zest_lm *lm;
    zest_lm_info info;
} zest_cli_lm;

/* Loads the model, or only its tokenizer, with those of the given options that a model takes. Close it
 * whatever this says. */
zest_status zest_cli_lm_open(zest_cli_lm *m, const char *path, int tokenizer_only,
                             const zest_options *options, zest_error *error);
/* The same for a run at a step. progress (or NULL) is told of steps that are replayed. */
zest_status zest_cli_lm_open_run(zest_cli_lm *m, const char *path, const char *step,
                                 const zest_options *options, zest_lm_progress progress, void *user,
                                 zest_error *error);
void zest_cli_lm_close(zest_cli_lm *m);

/* Appends those of the given options that say how tokens are chosen, as zest_lm_generate_options wants them. */
zest_status zest_cli_lm_sampling(const zest_options *options, zest_buffer *text, zest_error *error);

/* A command that does `work` on texts with a model: reads the texts (option `given`, or standard input), opens
 * the model, and prints what work put into *results when --json asked for it (else results is NULL, and work
 * prints). Texts that work refuses make the command fail in the end. */
typedef zest_status zest_cli_work(zest_cli_lm *m, const zest_options *options, zest_lines *lines,
                                  json_t **results, zest_error *error);
int zest_cli_lm_run(const zest_options *options, const char *path, zest_option_id given, zest_cli_work *work);

/* status, with the context's message in error. */
zest_status zest_cli_lm_error(const zest_cli_lm *m, zest_status status, zest_error *error);

/* Tokens, to be freed. Start with {0}. */
typedef struct {
    int32_t *data;
    size_t count;
} zest_cli_tokens;

/* The tokens of a text instead of those that are there. flags: as zest_lm_encode's. */
zest_status zest_cli_lm_encode(zest_cli_lm *m, const char *text, unsigned flags, zest_cli_tokens *tokens,
                               zest_error *error);
/* Appends the text of ids[first .. count). */
zest_status zest_cli_lm_decode(zest_cli_lm *m, const int32_t *ids, size_t first, size_t count, unsigned flags,
                               zest_buffer *text, zest_error *error);

/* Metrics for people and scripts. */

/* "test  accuracy 0.8257 (0.7991 to 0.8494)  loss 0.4012  n = 872"; nothing when there are no examples. */
void zest_metrics_print(const char *part, const char *metric, const zest_lm_metrics *m, FILE *out);
/* "dev loss 0.4012  accuracy 0.8257" */
void zest_metrics_print_short(const zest_lm_metrics *m, FILE *out);
/* {"n":872,"loss":..,"accuracy":..}: what was computed; null when there were no examples. */
json_t *zest_metrics_json(const zest_lm_metrics *m);

/* Options for zest_lm_train and its like: what was given to the command. NULL: see ctx. */
zest_lm_options *zest_cli_lm_options(zest_ctx *ctx, const zest_command *command, const zest_options *given);

#endif
