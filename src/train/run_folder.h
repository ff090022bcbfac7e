/* A run is a folder: options, task and inputs.json (run_inputs.h), journal, log.jsonl, TensorBoard events, best/
 * and last/ (Hugging Face folders), and, when it is finished, result.json. A run of `zest minimize` has start
 * and x instead of the models. The journal is written last of what a run begins with: where there is one, the
 * run has begun, and everything before it is there. */
#ifndef ZEST_TRAIN_RUN_FOLDER_H
#define ZEST_TRAIN_RUN_FOLDER_H

#include "base/option.h"

typedef struct {
    char *path, *options, *task, *inputs, *journal, *log, *best, *last, *result, *start;
} zest_run_folder;

/* The names; nothing is touched. path may also be that of the journal inside. */
zest_status zest_run_folder_of(const char *path, zest_run_folder *folder, zest_error *error);
void zest_run_folder_free(zest_run_folder *folder);

int zest_run_folder_is_training(const zest_run_folder *folder); /* a run of `zest train` */

/* The options that a run was started with, as far as these users know them. */
zest_status zest_run_folder_read_options(const zest_run_folder *folder, unsigned users, zest_options *options,
                                         zest_error *error);
zest_status zest_run_folder_write_options(const zest_run_folder *folder, unsigned users,
                                          const zest_options *options, zest_error *error);

#endif
