/* Loading from options: a model with its tokenizer and a runner; a task with its examples. */
#ifndef ZEST_TRAIN_LOAD_H
#define ZEST_TRAIN_LOAD_H

#include "base/option.h"
#include "optim/step.h"
#include "task/examples.h"
#include "model/forward_pass.h"
#include "train/run_folder.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    zest_model *model;
    zest_tokenizer *tokenizer;
    zest_model_runner *runner;
    int home_tokenizer; /* the tokenizer is that of `home`, the model that these weights were made from */
} zest_loaded;

/* weights: a Hugging Face folder or a GGUF file; the tokenizer is found there too, or else at `home`, the
 * model it was made from (NULL: there is none). Types, threads, live pairs and frozen tensors come from the
 * options. Free it whatever this returns. */
zest_status zest_load_model(zest_loaded *loaded, const char *weights, const char *home,
                            const zest_options *options, zest_error *error);
/* A checkpoint of a run, as stored: the run's options about types were applied when the run started. */
zest_status zest_load_checkpoint(zest_loaded *loaded, const char *folder, const zest_options *options,
                                 zest_error *error);
/* The model that a run starts from. With --text, one without weights gets random ones, from its config.json
 * and the seed. */
zest_status zest_load_start(zest_loaded *loaded, const zest_options *options, zest_error *error);
/* The same, and a model with its tokenizer at `home`, of which only the headers of the weight files are there: the
 * weights are anything, until they are written. */
zest_status zest_load_blank(zest_loaded *loaded, const char *home, const zest_options *options,
                            zest_error *error);
void zest_load_free(zest_loaded *loaded);

/* The trained weights as an optimiser's storage: updates are applied where the forward passes read them. */
zest_step_storage zest_load_storage(const zest_loaded *loaded);

/* Writes the model as a Hugging Face folder, with its tokenizer: the files it came with, or, from a GGUF
 * file, a tokenizer.json where it is of a kind that can be written. */
zest_status zest_load_save(const zest_loaded *loaded, const char *folder, zest_error *error);

/* Writes the model and its tokenizer as a GGUF file. type: see zest_model_find_gguf_type. */
zest_status zest_load_save_gguf(const zest_loaded *loaded, const char *path, int type, zest_error *error);

/* What the options say about a model's memory and its passes. */
zest_model_options zest_load_model_options(const zest_options *options);
zest_model_runner_options zest_load_runner_options(const zest_options *options);

/* Refuses --steps and --epochs that were given together. */
zest_status zest_load_check_length(const zest_options *given, zest_error *error);
/* Fills in what the options leave to the method and the kind of model: shots, batch, lr, steps or epochs,
 * eval-every. resolve_steps turns epochs into steps and leaves 0 epochs; examples: the number to train on. */
zest_status zest_load_resolve_defaults(zest_options *options, int causal, zest_error *error);
zest_status zest_load_resolve_steps(zest_options *options, size_t examples, zest_error *error);

typedef struct {
    char *path; /* NULL: the part has no file of its own, or was not read */
    zest_fingerprint print;
} zest_loaded_file;

/* Of a run's task and data: set `recorded` before they are loaded. Then the task is the run's own copy, and
 * files that have changed since the run began are refused. `places` is set before, too. */
typedef struct {
    const zest_inputs *recorded;   /* or NULL */
    const zest_task_place *places; /* (3): where the files are, if they need not be looked for; or NULL */
    zest_task task;
    zest_examples parts[3];    /* by zest_task_part; those that were requested */
    zest_loaded_file files[3]; /* that the rows came from */
} zest_loaded_data;

enum { ZEST_LOAD_TRAIN = 1, ZEST_LOAD_DEV = 2, ZEST_LOAD_TEST = 4 };

extern const char *const zest_load_part_names[3]; /* "train", "dev", "test" */

zest_status zest_load_data(zest_loaded_data *data, const zest_options *options, const zest_loaded *loaded,
                           unsigned parts, zest_error *error);
/* The task alone, without data. */
zest_status zest_load_task(zest_loaded_data *data, const zest_options *options, const zest_loaded *loaded,
                           zest_error *error);
/* All of the caller's rows as examples to predict: they need no label. */
zest_status zest_load_examples(const zest_loaded_data *data, const zest_options *options,
                               const zest_loaded *loaded, const zest_rows *rows, zest_examples *examples,
                               zest_error *error);
/* The rows of the file that a part's examples come from, which `row` of an example counts. */
zest_status zest_load_part_rows(const zest_loaded_data *data, const zest_options *options,
                                const zest_loaded *loaded, zest_task_part part, zest_rows *rows,
                                zest_error *error);
void zest_load_free_data(zest_loaded_data *data);

#endif
