/* Rows to be answered, split into records. Each record can be parsed separately, so that a malformed one does not
 * affect the others. */
#ifndef ZEST_LM_RECORDS_H
#define ZEST_LM_RECORDS_H

#include "task/task.h"
#include "zest_lm.h"

typedef struct {
    size_t start, size; /* bytes */
    size_t line;        /* in the input, from 1 */
} zest_records_item;

typedef struct {
    const char *name; /* for messages */
    const char *data; /* the caller's bytes, or lines */
    size_t size;
    zest_buffer lines;        /* of JSON, made from a Parquet file */
    int single;               /* all of it is one record */
    zest_records_item header; /* first line of a table with column names; size 0: none */
    zest_records_item *list;
    size_t count;
    zest_rows_layout layout; /* how a record is parsed */
    char *fields;            /* of the layout, where it has fields of its own */
    const char *column;      /* if every line is a text: the column that it is; else NULL */
} zest_records;

/* How to read it: a Parquet file as lines of JSON; format->format, or else
 *   - the ending of its name, .jsonl, .csv or .tsv;
 *   - JSON lines when the first character is {;
 *   - a table when the first line names the columns that the task reads, with tabs or commas between them;
 *   - a table as the task's own files are, when the line has its separator and is no text;
 *   - else, for a task with one column, every line is a text.
 * Tables and objects whose columns have the task's names are read by these names, with or without a label.
 * The bytes must outlive the records. Free them whatever this says. */
zest_status zest_records_read(zest_records *records, const zest_task *task, const zest_task_columns *columns,
                              const char *bytes, size_t size, const zest_lm_rows_format *format,
                              zest_error *error);
void zest_records_free(zest_records *records);

/* Parses records first .. end-1. Row r comes from record first + zest_records_of(records, rows, r) when
 * records have one line each. */
zest_status zest_records_parse(const zest_records *records, size_t first, size_t end, zest_rows *rows,
                               zest_error *error);
/* Whether each record has one line and one row. Then row r is record first + r, and its text may be shown
 * unchanged. */
int zest_records_are_objects(const zest_records *records);

#endif
