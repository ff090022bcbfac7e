/* Tasks: where the data is, what the prompt looks like, what the answers are. Built-in ones are rows of a
 * table; a person's own is read from a task file. Both are the same thing. */
#ifndef ZEST_TASK_TASK_H
#define ZEST_TASK_TASK_H

#include "task/rows.h"

typedef enum {
    ZEST_TASK_CLASSES, /* one of a few labels, each with a word */
    ZEST_TASK_CHOICE,  /* one of the row's own options */
    ZEST_TASK_TEXT     /* free text */
} zest_task_kind;

typedef enum { ZEST_METRIC_ACCURACY, ZEST_METRIC_F1, ZEST_METRIC_EM, ZEST_METRIC_LOSS } zest_metric;

typedef struct {
    const char *label; /* as the data has it */
    const char *word;  /* what the model answers, without a leading space */
} zest_task_class;

/* One layout of a task's files. test is what the published splits test on (often called dev or val). */
typedef struct {
    zest_rows_layout layout;
    const char *folder, *train, *dev, *test; /* dev NULL: drawn from train; test NULL: there is none */
} zest_task_source;

/* A task file has one source, without a folder: its paths start from the task file's own folder. */

enum { ZEST_TASK_CLASSES_MOST = 64, ZEST_TASK_SOURCES = 3 };

/* Templates: text with {field}, {mask} (for masked models) or {answer} (for causal ones), \n for a newline,
 * {{ and }} for braces; see template.h. */
typedef struct {
    const char *name;    /* "SST-2" */
    const char *aliases; /* "SST2 sst2": names are compared without case, too */
    const char *about;   /* one line */
    zest_task_kind kind;
    zest_task_source sources[ZEST_TASK_SOURCES]; /* alternatives, the first that is there is read */
    size_t source_count;
    const char *masked, *causal; /* templates; NULL: no such model can do it */
    const char *label;           /* field with the label (CLASSES), the number of the right option from 0 or
                                  * its text (CHOICE; several: each is right), or the right texts (TEXT) */
    const char *options;         /* CHOICE: "choice1 choice2" or one field with several texts */
    const char *option_form;     /* CHOICE: a template around {option}, or NULL */
    zest_task_class classes[ZEST_TASK_CLASSES_MOST]; /* in the order of their indices */
    size_t class_count;
    zest_task_class causal_classes[8]; /* words for causal models where they differ; NULL label ends */
    size_t max_length;                 /* tokens, for masked models; 0: what the model has room for */
    size_t causal_length;              /* the same for causal models */
    size_t first_limit, other_limit;   /* tokens of the first field, and of each other one, for masked models;
                                        * 0: no limit */
    zest_metric metric, select;        /* what is reported first; what chooses between checkpoints */
    size_t dev_size;                   /* of the sampled split; 0: 500 */
    int train_as_text;                 /* CHOICE: trained by the likelihood of the right option alone */
    size_t max_tokens;                 /* TEXT: new tokens at most; 0: 50 */
    /* A task from a file owns its strings. */
    char *memory;
    char *path; /* of the task file; NULL: built in */
    char *text; /* all of the task file, as it was read */
} zest_task;

/* A task by name (without regard to case), or from a file when there is a '/' in it or it ends in ".task";
 * see task_file.c for the format. Free it in either case. */
int zest_task_is_file(const char *name_or_file); /* it has a slash, or ends in .task */
zest_status zest_task_open(const char *name_or_file, zest_task *task, zest_error *error);
/* The task that a run keeps a copy of: the text comes from the copy, everything else (its name, where its
 * data are) is as if it came from the original place. */
zest_status zest_task_open_copy(const char *copy, const char *original, zest_task *task, zest_error *error);
void zest_task_free(zest_task *task);
/* The built-in tasks, in the order of the table; NULL behind the last. */
const zest_task *zest_task_at(size_t index);

/* Reads a part's rows. data: the folder given by --data; of a task file, its own folder when data is empty.
 * *rows is empty and the status OK when the task has no such part. Of several layouts causal models take
 * JSONL first, masked ones the others. */
typedef enum { ZEST_PART_TRAIN, ZEST_PART_DEV, ZEST_PART_TEST } zest_task_part;
zest_status zest_task_read(const zest_task *task, const char *data, int causal, zest_task_part part,
                           zest_rows *rows, zest_error *error);

/* The columns that a model of this kind reads of a row, each once: those of the template and the options, but
 * not the label. Free it whatever this says. */
typedef struct {
    char **names;
    size_t count;
} zest_task_columns;

zest_status zest_task_columns_find(const zest_task *task, int causal, zest_task_columns *columns,
                                   zest_error *error);
void zest_task_columns_free(zest_task_columns *columns);

/* Is this part in a file of its own? */
int zest_task_has_part(const zest_task *task, zest_task_part part);

/* The class of a row; refuses a label that the task does not have, with file and line. */
zest_status zest_task_class_of(const zest_task *task, const zest_rows *rows, size_t row, uint32_t *answer,
                               zest_error *error);

/* What task*.c share. */

/* The text of `path`, understood as that of `original`: names and data are found from there. *task is empty
 * and is left so on error. */
zest_status zest_task_read_file(const char *path, const char *original, zest_task *task, zest_error *error);

#endif
