/* What the readers of the layouts share: a reader hands over rows field by field. */
#ifndef ZEST_DATA_ROWS_INTERNAL_H
#define ZEST_DATA_ROWS_INTERNAL_H

#include <jansson.h>

#include "data/rows.h"

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
