/* The rows of a data file: named texts. A field may have several texts (the answers to a question, the
 * options of a choice). All text is valid UTF-8 without NUL. */
#ifndef ZEST_TASK_ROWS_H
#define ZEST_TASK_ROWS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

typedef enum {
    ZEST_ROWS_TSV,   /* tab-separated, no quoting */
    ZEST_ROWS_CSV,   /* comma-separated, double quotes */
    ZEST_ROWS_JSONL, /* one JSON object per line */
    /* layouts of published data sets, read into the fields that their templates name */
    ZEST_ROWS_RECORD,  /* passage query entities answers options label: one row per query; see rows_json.c */
    ZEST_ROWS_MULTIRC, /* paragraph question candidate label: one row per answer to judge */
    ZEST_ROWS_WSC,     /* text span1_text span2_text label: spans corrected as in "wsc.fixed" */
    ZEST_ROWS_SQUAD,   /* title context question answers */
    ZEST_ROWS_DROP,    /* passage question answers */
    ZEST_ROWS_CHAT,    /* conversation: {"messages": ..., "tools": ...} as JSON; see chat/conversation.h */
    ZEST_ROWS_BY_EXTENSION /* .tsv, .csv, .jsonl (.json, .ndjson, .parquet) */
} zest_rows_format;
/* A Parquet file takes the place of any file that has one JSON object per line. It is known by its first bytes. */

/* How to read a file. */
typedef struct {
    zest_rows_format format;
    int header; /* TSV, CSV: the first line names the columns */
    /* "sentence=0 label=1": fields and their columns, counted from 0 (-1 the last) or named as in the
     * header; for JSONL "answer=target.text", a path of keys; a single name stands for itself; NULL: all
     * names of the file */
    const char *fields;
    int skip_short;       /* TSV, CSV: skip rows with too few columns (QQP has some); else an error */
    int all_answers;      /* DROP: validated_answers instead of answer */
    const char *optional; /* JSONL: a field that rows may omit, which then has no text; or NULL */
} zest_rows_layout;

typedef struct {
    char *path;
    char **names; /* of the fields */
    size_t name_count, count;
    size_t *lines;    /* of each row in the file, from 1; Parquet: its number; SQUAD, DROP: of the question */
    uint32_t *starts; /* count × name_count + 1 offsets into texts */
    char **texts;     /* rows may share them */
    char *memory;     /* memory of the texts */
    zest_fingerprint print; /* fingerprint of the file */
} zest_rows;

/* *rows is empty on error. A malformed row is an error with file, line and what to do; so is a file
 * without rows. */
zest_status zest_rows_read(const char *path, const zest_rows_layout *layout, zest_rows *rows,
                           zest_error *error);
/* The same from memory; path is for messages. */
zest_status zest_rows_parse(const void *bytes, size_t size, const char *path, const zest_rows_layout *layout,
                            zest_rows *rows, zest_error *error);
void zest_rows_free(zest_rows *rows);

/* More fields than these are refused, unless the layout selects some. */
enum { ZEST_ROWS_MAX_FIELDS = 4096 };

/* The index of a field, or -1. */
int zest_rows_field(const zest_rows *rows, const char *name);
/* The texts of a field in a row. Most layouts have one; *count may be 0 for an empty JSON list. */
const char *const *zest_rows_get(const zest_rows *rows, size_t row, int field, size_t *count);

/* Copies text from a file for a message: truncated and without control characters. Returns buffer. */
const char *zest_rows_show(const char *text, char capacity[64]);

/* ---- Internal to src/task: readers add rows field by field ---- */

/* A field of the result and its source. */
typedef struct {
    char *name, *from; /* from: column number, column name or path of keys */
} zest_rows_pick;

typedef struct {
    zest_rows_pick *picks;
    size_t count;
} zest_rows_picks;

/* After a failed allocation, or when the rows need too many bytes for the size of their file, additions do nothing,
 * so a reader checks once, at the end. */
typedef struct {
    const char *path;
    const zest_rows_layout *layout;
    zest_error *error;
    zest_buffer file;   /* the bytes of the file; TSV and CSV modify them in place */
    size_t begin;       /* offset after the byte order mark */
    zest_buffer memory; /* the texts */
    size_t *offsets;    /* of each text in memory */
    size_t text_count, text_capacity;
    size_t start_count, row_capacity;
    zest_rows_picks *picks; /* JSONL */
    zest_rows *rows;
    size_t limit, used; /* bytes that the rows may need, and need */
    int failed, too_large;
    int is_parquet; /* messages say "row N" then */
} zest_rows_builder;

/* Sets the names of the fields; once, before the first row. */
void zest_rows_name(zest_rows_builder *b, const char *const *names, size_t count);
/* A row: begin, then for every field its texts and end_field. */
void zest_rows_begin(zest_rows_builder *b, size_t line);
/* Whether the rows may need so many more bytes; if not, they fail. */
int zest_rows_fits(zest_rows_builder *b, size_t bytes);
/* The error of additions that failed. */
zest_status zest_rows_check(zest_rows_builder *b);
/* Stores a text and returns its offset, which any number of rows may use. */
size_t zest_rows_store(zest_rows_builder *b, const char *text, size_t size);
void zest_rows_add(zest_rows_builder *b, size_t offset);
void zest_rows_end_field(zest_rows_builder *b);
/* A field with this one text. */
void zest_rows_add_field(zest_rows_builder *b, size_t offset);

/* "FILE, line N: ...", or row N */
zest_status zest_rows_refuse(zest_rows_builder *b, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Parses layout->fields; count is 0 for NULL. */
zest_status zest_rows_picks_parse(zest_rows_builder *b, zest_rows_picks *picks);
void zest_rows_picks_free(zest_rows_picks *picks);
void zest_rows_picks_name(zest_rows_builder *b, const zest_rows_picks *picks);

/* Reads a row of a file, as a JSON object. */
typedef zest_status zest_rows_reader(zest_rows_builder *b, const json_t *object, size_t line);
/* Calls on_row for every row of a Parquet file (rows_parquet.c). */
zest_status zest_rows_each_parquet(zest_rows_builder *b, zest_rows_reader *on_row);

/* Readers of the JSON layouts (rows_json.c). */
zest_status zest_rows_jsonl(zest_rows_builder *b);
zest_status zest_rows_record(zest_rows_builder *b);
zest_status zest_rows_multirc(zest_rows_builder *b);
zest_status zest_rows_wsc(zest_rows_builder *b);
zest_status zest_rows_squad(zest_rows_builder *b);
zest_status zest_rows_drop(zest_rows_builder *b);
zest_status zest_rows_chat(zest_rows_builder *b);

#endif
