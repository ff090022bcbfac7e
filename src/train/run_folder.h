/* A run is a folder: options, task and inputs.json (run_folder.h), journal, log.jsonl, TensorBoard events, best/
 * and last/ (Hugging Face folders), with --covariance inputs covariance.safetensors (model/input_rows.h), and, when it
 * is finished, result.json. A run of `zest minimize` has start
 * and x instead of the models. The journal is written last of what a run begins with: where there is one, the
 * run has begun, and everything before it is there. */
#ifndef ZEST_TRAIN_RUN_FOLDER_H
#define ZEST_TRAIN_RUN_FOLDER_H

#include "base/option.h"
#include "base/memory.h"
#include "base/hash.h"
#include "model/model.h"

typedef struct {
    char *path, *options, *task, *inputs, *journal, *log, *best, *last, *result, *start, *covariance;
} zest_run_folder;

/* The names; nothing is touched. path may also be that of the journal inside. */
zest_status zest_run_folder_of(const char *path, zest_run_folder *folder, zest_error *error);
void zest_run_folder_free(zest_run_folder *folder);

int zest_run_folder_is_training(const zest_run_folder *folder); /* a run of `zest train` */

/* Refuses a run that would be written through a symbolic link: best/, last/ or one of their versions, the journal or
 * the log. The other files are replaced as a whole, which leaves alone what a link points to. */
zest_status zest_run_folder_check_links(const zest_run_folder *folder, zest_error *error);

/* Refuses a path, to be written by another command, that is a file, a checkpoint or the folder of a run. One that does
 * not exist is fine. */
zest_status zest_run_folder_refuse_target(const char *path, zest_error *error);

/* Removes temporary files that killed processes left in the folder and in its checkpoints. For who holds the run's
 * lock. */
void zest_run_folder_remove_temporaries(const zest_run_folder *folder);

/* The options that a run was started with, as far as these users know them. */
zest_status zest_run_folder_read_options(const zest_run_folder *folder, unsigned users, zest_options *options,
                                         zest_error *error);
/* The same, with those that were given on top. */
zest_status zest_run_folder_merge_options(const zest_run_folder *folder, const zest_options *given,
                                          zest_options *options, zest_error *error);
zest_status zest_run_folder_write_options(const zest_run_folder *folder, unsigned users,
                                          const zest_options *options, zest_error *error);

/* ---- inputs.c: files that a run was made from ----
 *
 * RUN/task is a copy of the task file, and RUN/inputs.json has the fingerprints of the files that stay outside.
 *
 *   {"zest": "0.2.0", "start": "51d0..", "options": {"seed": "0", ..},             those that cannot change
 *    "task":  {"name": "reviews", "file": "/home/me/reviews.task", "xxh3": "a1.."},       of a task file
 *    "data":  [{"name": "train", "file": "/home/me/train.tsv", "bytes": 8123, "xxh3": "0f3c.."}, ..],
 *    "model": [{"name": "config.json", "file": "/models/m/config.json", "bytes": 571, "xxh3": "77a0.."}, ..],
 *    "frozen": "9be1.."}                                         of the tensors that are not trained, if any
 *
 * Data files are hashed whole. Of a model's files the first 16 MiB are (settings, tokenizers, headers); its
 * weights have fingerprints of their own: that of the trained tensors is in the journal's header, that of the
 * others is "frozen".
 *
 * A run made by zest 0.1 has neither file: it is read as before, and nothing can be checked. */

typedef struct {
    char *name; /* data: "train", "dev", "test" or "text"; model: the file's name in the model's folder */
    char *path; /* where it was when the run began */
    zest_fingerprint print;
} zest_input_file;

typedef struct {
    zest_input_file *files;
    size_t count;
} zest_input_list;

typedef struct {
    int recorded;    /* 0: a run of zest 0.1, or no run at all */
    char *task_name; /* of the task, for people */
    char *task_file; /* where the task file was; NULL: a built-in task */
    char *task_copy; /* RUN/task; NULL: as above */
    zest_input_list data, model;
    int has_frozen;
    uint64_t frozen;
    int other_task;    /* the user gave another task than the run's: its data are not recorded */
    int allow_changed; /* --allow-changed-files */
} zest_inputs;

/* Of a new run: */

zest_status zest_inputs_add_data(zest_inputs *inputs, const char *part, const char *path,
                                 zest_fingerprint print, zest_error *error);
/* path: as --model has it. */
zest_status zest_inputs_add_model(zest_inputs *inputs, const char *path, const zest_model *model,
                                  zest_error *error);
/* start: the weights. task_text: the bytes of the task file; NULL for a built-in task. Each file is written
 * as a whole. */
zest_status zest_inputs_write(const zest_inputs *inputs, const zest_run_folder *folder, const char *task_text,
                              const zest_options *options, unsigned users, const zest_params *start,
                              zest_error *error);

/* Of an existing run: */

/* Without inputs.json *inputs is empty (recorded = 0) and the status OK. Free it whatever this returns. */
zest_status zest_inputs_read(zest_inputs *inputs, const zest_run_folder *folder, zest_error *error);
void zest_inputs_free(zest_inputs *inputs);

/* Refuse a file that has changed since the run began, unless --allow-changed-files was given. Files that are not
 * recorded pass; inputs NULL: none is. */
zest_status zest_inputs_check_data(const zest_inputs *inputs, const char *part, const char *path,
                                   zest_fingerprint print, zest_error *error);
/* path: where the model is now. */
zest_status zest_inputs_check_model(const zest_inputs *inputs, const char *path, zest_error *error);
zest_status zest_inputs_check_frozen(const zest_inputs *inputs, const char *path, const zest_model *model,
                                     zest_error *error);
/* A task file given for a resumed run must have the bytes of the run's own copy. */
zest_status zest_inputs_check_task(const zest_inputs *inputs, const char *path, zest_error *error);

/* ---- run_check.c ---- */

/* Refuses a run whose options, journal, inputs.json, task, log and checkpoints do not belong together, and says which
 * one is foreign. */
zest_status zest_run_check(const zest_run_folder *folder, const struct zest_journal *journal,
                           zest_error *error);
/* An option of these users that cannot change in a run. */
int zest_run_check_is_fixed(int id, unsigned users);

/* Notes for the user: that the task file outside has changed, or that the run has no inputs.json. One sentence a line;
 * empty when all is well. task: where the task file is now. */
void zest_inputs_notes(const zest_inputs *inputs, const zest_run_folder *folder, const char *task,
                       zest_buffer *out);

#endif
