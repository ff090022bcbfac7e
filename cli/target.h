/* What eval and predict look at: a run at one of its steps, or a model. */
#ifndef ZEST_CLI_TARGET_H
#define ZEST_CLI_TARGET_H

#include <jansson.h>
#include <stdio.h>

#include "train/run_folder.h"
#include "train/load.h"
#include "task/metric.h"
#include "cli/command.h"

typedef struct {
    zest_options options; /* those of the run, and what was given on top */
    zest_loaded loaded;
    int is_run;
    uint64_t step;      /* of a run */
    zest_inputs inputs; /* what the run was made from: to be set as `recorded` of the data that are loaded */
} zest_target;

/* Close it whatever this says. */
zest_status zest_target_open(zest_target *subject, const char *path, const zest_options *given,
                             zest_error *error);
void zest_target_close(zest_target *subject);

/* Metrics for people and scripts. */

/* "test  accuracy 0.8257 (0.7991 to 0.8494)  loss 0.4012  n = 872"; nothing when there are no examples. */
void zest_metrics_print(const char *part, const char *metric, const zest_metrics *m, FILE *out);
/* "dev loss 0.4012  accuracy 0.8257" */
void zest_metrics_print_short(const zest_metrics *m, FILE *out);
/* {"n":872,"loss":..,"accuracy":..}: what was computed; null when there were no examples. */
json_t *zest_metrics_json(const zest_metrics *m);

/* A model as commands use it: weights, tokenizer, and the memory to run it. */

/* Puts paths in place of the names of pulled models, in --model and where the command takes a MODEL. Files
 * and folders of such a name have precedence. *words: all words of the command line, to be freed one by one.
 */
zest_status zest_cli_model_find(const zest_command *command, zest_options *options,
                                const zest_arguments *arguments, char ***words, zest_error *error);

/* Is this path a model rather than a run? */
int zest_cli_model_is(const char *path);

#endif
