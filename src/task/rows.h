/* The rows of a data file: named texts, as the file has them. A field may hold several texts (the answers to
 * a question, the options of a choice). All text is valid UTF-8 without NUL. */
#ifndef ZEST_TASK_ROWS_H
#define ZEST_TASK_ROWS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/error.h"
#include "base/hash.h"

typedef enum {
    ZEST_ROWS_TSV,   /* tabs, no quoting at all */
    ZEST_ROWS_CSV,   /* commas, double quotes */
    ZEST_ROWS_JSONL, /* an object a line */
    /* one file layout each, read into the fields that its task's template names */
    ZEST_ROWS_RECORD,   /* passage query entities answers options label: a row a query; see rows_json.c */
    ZEST_ROWS_MULTIRC,  /* paragraph question candidate label: a row an answer to judge */
    ZEST_ROWS_WSC,      /* text span1_text span2_text label: spans put right as in "wsc.fixed" */
    ZEST_ROWS_SQUAD,    /* title context question answers */
    ZEST_ROWS_DROP,     /* passage question answers */
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

/* What the readers of the layouts share: a reader hands over rows field by field. */

/* A field of the result and where it comes from. */
typedef struct {
    char *name, *from; /* from: column number, column name or path of keys */
} zest_rows_pick;

typedef struct {
    zest_rows_pick *picks;
    size_t count;
} zest_rows_picks;

/* Additions after a failed allocation do nothing, so that a reader asks once, at the end. */
typedef struct {
    const char *path;
    const zest_rows_layout *layout;
    zest_error *error;
    zest_buffer file;   /* the bytes as read; TSV and CSV cut them in place */
    size_t begin;       /* behind the byte order mark */
    zest_buffer memory; /* the texts */
    size_t *offsets;    /* of each text in memory */
    size_t text_count, text_room;
    size_t start_count, row_room;
    zest_rows_picks *picks; /* JSONL */
    zest_rows *rows;
    int failed;
} zest_rows_builder;

/* The names of the fields; once, before the first row. */
void zest_rows_name(zest_rows_builder *b, const char *const *names, size_t count);
/* A row: begin, then for every field its texts and end_field. */
void zest_rows_begin(zest_rows_builder *b, size_t line);
/* Keeps a text and tells its offset, by which any number of rows can have it. */
size_t zest_rows_keep(zest_rows_builder *b, const char *text, size_t size);
void zest_rows_add(zest_rows_builder *b, size_t offset);
void zest_rows_end_field(zest_rows_builder *b);
/* A field with this one text. */
void zest_rows_add_field(zest_rows_builder *b, size_t offset);
/* Turns offsets into pointers. */
zest_status zest_rows_finish(zest_rows_builder *b);

/* "FILE, line N: ..." */
zest_status zest_rows_refuse(zest_rows_builder *b, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Parses layout->fields; count is 0 for NULL. */
zest_status zest_rows_picks_parse(zest_rows_builder *b, zest_rows_picks *picks);
void zest_rows_picks_free(zest_rows_picks *picks);
void zest_rows_picks_name(zest_rows_builder *b, const zest_rows_picks *picks);

/* Parses a line (or, as line 0, a whole file) that must be a JSON object. */
zest_status zest_rows_load_json(zest_rows_builder *b, const char *text, size_t size, size_t line,
                                json_t **json);
/* Calls take for every line that is not blank. */
typedef zest_status zest_rows_take(zest_rows_builder *b, const json_t *object, size_t line);
zest_status zest_rows_each_line(zest_rows_builder *b, zest_rows_take *take);
/* A member that must be a string. */
zest_status zest_rows_member(zest_rows_builder *b, const json_t *object, const char *key, size_t line,
                             const json_t **text);
/* Keeps a string, or a number or truth value as text; 0 when it is neither. null is the empty text. */
int zest_rows_keep_json(zest_rows_builder *b, const json_t *value, size_t *offset);
size_t zest_rows_keep_string(zest_rows_builder *b, const json_t *string);

/* The readers. */
zest_status zest_rows_table(zest_rows_builder *b, zest_rows_format format);
zest_status zest_rows_jsonl(zest_rows_builder *b);
zest_status zest_rows_record(zest_rows_builder *b);
zest_status zest_rows_multirc(zest_rows_builder *b);
zest_status zest_rows_wsc(zest_rows_builder *b);
zest_status zest_rows_squad(zest_rows_builder *b);
zest_status zest_rows_drop(zest_rows_builder *b);

#endif
