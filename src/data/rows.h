/* The rows of a data file: named texts, as the file has them. A field may hold several texts (the answers to
 * a question, the options of a choice). All text is valid UTF-8 without NUL. */
#ifndef ZEST_DATA_ROWS_H
#define ZEST_DATA_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"

typedef enum {
    ZEST_ROWS_TSV,   /* tabs, no quoting at all */
    ZEST_ROWS_CSV,   /* commas, double quotes */
    ZEST_ROWS_JSONL, /* an object a line */
    /* one file layout each, read into the fields that its task's template names */
    ZEST_ROWS_RECORD,  /* passage query entities answers options label: a row a query; see rows_superglue.c */
    ZEST_ROWS_MULTIRC, /* paragraph question candidate label: a row an answer to judge */
    ZEST_ROWS_WSC,     /* text span1_text span2_text label: spans put right as in "wsc.fixed" */
    ZEST_ROWS_SQUAD,   /* title context question answers */
    ZEST_ROWS_DROP,    /* passage question answers */
    ZEST_ROWS_BY_ENDING /* .tsv, .csv, .jsonl (.json, .ndjson) */
} zest_rows_format;

/* How to read a file. */
typedef struct {
    zest_rows_format format;
    int header;           /* TSV, CSV: the first line names the columns */
    const char *fields;   /* "sentence=0 label=1": names for columns, counted from 0, -1 the last, or named as
                           * in the header; for JSONL "answer=target.text": a path of keys; a name alone stands
                           * for itself; NULL: the names in the file */
    int skip_short;       /* TSV, CSV: leave out rows with too few columns (QQP has some); else an error */
    int all_answers;      /* DROP: validated_answers instead of answer */
    const char *optional; /* JSONL: a field that rows may lack, which then holds no text; or NULL */
} zest_rows_layout;

typedef struct {
    char *path;
    char **names; /* of the fields */
    size_t name_count, count;
    size_t *lines;          /* of each row in the file, from 1; SQUAD, DROP: the number of the question */
    uint32_t *starts;       /* count × name_count + 1 offsets into texts */
    char **texts;           /* rows may share them */
    char *memory;           /* what the texts point into */
    zest_fingerprint print; /* of the file's bytes */
} zest_rows;

/* *rows is empty on error. A malformed row is refused with file, line and what to do; so is a file without
 * rows. */
zest_status zest_rows_read(const char *path, const zest_rows_layout *layout, zest_rows *rows,
                           zest_error *error);
/* The same from memory; path is for messages. */
zest_status zest_rows_parse(const void *bytes, size_t size, const char *path, const zest_rows_layout *layout,
                            zest_rows *rows, zest_error *error);
void zest_rows_free(zest_rows *rows);

/* The number of a field, or -1. */
int zest_rows_field(const zest_rows *rows, const char *name);
/* The texts of a field in a row. Most layouts have one each; *count may be 0 for an empty JSON list. */
const char *const *zest_rows_get(const zest_rows *rows, size_t row, int field, size_t *count);

/* Text from a file as a message may show it: cut, and without control characters. Returns room. */
const char *zest_rows_show(const char *text, char room[64]);

#endif
