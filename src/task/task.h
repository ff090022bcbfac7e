/* Tasks: where the data is, what the prompt looks like, what the answers are. Built-in tasks are rows of a
 * table; others are read from task files. Both have the same type. */
#ifndef ZEST_TASK_TASK_H
#define ZEST_TASK_TASK_H

#include "task/rows.h"

typedef enum {
    ZEST_TASK_CLASSES, /* one of a few labels, each with a label word */
    ZEST_TASK_CHOICE,  /* one of the options of the row */
    ZEST_TASK_TEXT,    /* free text */
    ZEST_TASK_CHAT     /* conversations in the model's own chat template: loss on what the assistant says */
} zest_task_kind;

typedef enum { ZEST_METRIC_ACCURACY, ZEST_METRIC_F1, ZEST_METRIC_EM, ZEST_METRIC_LOSS } zest_metric;

typedef struct {
    const char *label; /* as in the data */
    const char *word;  /* label word: the model's answer, without a leading space */
} zest_task_class;

/* One layout of the files. test is what the published splits test on (often called dev or val). */
typedef struct {
    zest_rows_layout layout;
    const char *folder, *train, *dev, *test; /* dev NULL: sampled from train; test NULL: none */
} zest_task_source;

/* A task file has one source without a folder: paths are relative to the folder of the task file. */

enum { ZEST_TASK_MAX_CLASSES = 64, ZEST_TASK_SOURCES = 3 };

/* Templates: text with {field}, {mask} (masked models) or {answer} (causal models), \n for a newline, {{ and }}
 * for braces; see template.h. */
/* A data file that was found before. */
typedef struct {
    char *path;    /* NULL: it is looked for */
    size_t source; /* which of the task's sources it is */
} zest_task_place;

typedef struct {
    const char *name;    /* "SST-2" */
    const char *aliases; /* "SST2 sst2"; names are compared without case */
    const char *about;   /* one line */
    zest_task_kind kind;
    zest_task_source sources[ZEST_TASK_SOURCES]; /* alternatives; the first one found is read */
    size_t source_count;
    const char *masked, *causal; /* templates; NULL: no model of this kind can do the task */
    /* field with the label (CLASSES), the index of the right option from 0 or its text (CHOICE; there may
     * be several), or the accepted texts (TEXT) */
    const char *label;
    const char *options;     /* CHOICE: "choice1 choice2" or one field with several texts */
    const char *option_form; /* CHOICE: a template for {option}, or NULL */
    zest_task_class classes[ZEST_TASK_MAX_CLASSES]; /* in the order of their indices */
    size_t class_count;
    /* label words for causal models if they differ; ends with a NULL label */
    zest_task_class causal_classes[8];
    size_t max_length;               /* tokens, for masked models; 0: the model's maximum */
    size_t causal_length;            /* the same for causal models */
    size_t first_limit, other_limit; /* tokens of the first field, and of each other one, for masked models;
                                        * 0: no limit */
    zest_metric metric, select;      /* reported first; used to choose checkpoints */
    size_t dev_size;                 /* of the sampled split; 0: 500 */
    int train_as_text;               /* CHOICE: trained on the token loss of the right option */
    size_t max_tokens;               /* TEXT: maximum number of new tokens; 0: 50 */
    zest_task_place places[3];       /* by part; the paths are the caller's */
    /* Memory of a task from a file. */
    char *memory;
    char *path; /* path of the task file; NULL: built in */
    char *text; /* content of the task file */
} zest_task;

/* A task by name (ignoring case), or from a file if the name contains '/' or ends in ".task"; task_file.c
 * describes the format. Free it in either case. */
int zest_task_is_file(const char *name_or_file); /* it has a slash, or ends in .task */
zest_status zest_task_open(const char *name_or_file, zest_task *task, zest_error *error);
/* The task of a run from the run's copy of it: the content comes from the copy; name and data paths are
 * those of the original file. */
zest_status zest_task_open_copy(const char *copy, const char *original, zest_task *task, zest_error *error);
void zest_task_free(zest_task *task);
/* The built-in tasks in the order of the table; NULL after the last. */
const zest_task *zest_task_at(size_t index);

/* Reads the rows of a part. data: the folder given by --data; for a task file, its own folder if data is
 * empty. *rows is empty and the status OK if the task has no such part. Of several layouts causal models
 * read JSONL first, masked models the others. */
typedef enum { ZEST_PART_TRAIN, ZEST_PART_DEV, ZEST_PART_TEST } zest_task_part;
zest_status zest_task_read(const zest_task *task, const char *data, int causal, zest_task_part part,
                           zest_rows *rows, zest_error *error);
/* Which file it reads. path NULL: the task has no such part, or the file is not there. To be freed. */
zest_status zest_task_find(const zest_task *task, const char *data, int causal, zest_task_part part,
                           zest_task_place *place, zest_error *error);

/* The columns that a model of this kind reads of a row, without duplicates: those of the template and the
 * options, but not the label. Free it in any case. */
typedef struct {
    char **names;
    size_t count;
} zest_task_columns;

zest_status zest_task_columns_find(const zest_task *task, int causal, zest_task_columns *columns,
                                   zest_error *error);
void zest_task_columns_free(zest_task_columns *columns);

/* Whether this part has a file of its own. */
int zest_task_has_part(const zest_task *task, zest_task_part part);

/* The class of a row; an unknown label is an error with file and line. */
zest_status zest_task_class_of(const zest_task *task, const zest_rows *rows, size_t row, uint32_t *answer,
                               zest_error *error);

/* ---- Internal to src/task ---- */

/* Parses the content of `path` as that of the task file `original`: name and data paths come from there.
 * *task must be empty and stays so on error. */
zest_status zest_task_read_file(const char *path, const char *original, zest_task *task, zest_error *error);

#endif
