/* Tables as plain text, for terminals: columns that line up, within a width.
 *
 *     static const zest_text_column columns[] = {{"run", ZEST_TEXT_NAME}, {"test", ZEST_TEXT_NUMBER}};
 *     zest_text_table table = {.columns = columns, .column_count = 2};
 *     zest_text_table_cell(&table, name), zest_text_table_cell(&table, "84.1");     row by row
 *     zest_text_table_write(&table, &out);
 *     zest_text_table_free(&table); */
#ifndef ZEST_LAB_STATS_TEXT_TABLE_H
#define ZEST_LAB_STATS_TEXT_TABLE_H

#include "base/buffer.h"

enum { ZEST_TEXT_WIDTH = 100, ZEST_TEXT_COLUMNS = 16 };

typedef enum {
    ZEST_TEXT_LEFT,
    ZEST_TEXT_NUMBER, /* to the right */
    ZEST_TEXT_NAME,   /* to the left; loses its middle where the table would be too wide */
} zest_text_kind;

typedef struct {
    const char *heading;
    zest_text_kind kind;
} zest_text_column;

typedef struct {
    const zest_text_column *columns;
    size_t column_count; /* at most ZEST_TEXT_COLUMNS */
    char **cells;        /* row by row */
    size_t count;
    int failed; /* memory ran out */
} zest_text_table;

/* The next cell. Bytes that are no UTF-8 are repaired, control characters left out. */
void zest_text_table_cell(zest_text_table *table, const char *text);
/* The same with the text of a buffer, which is freed. */
void zest_text_table_take(zest_text_table *table, zest_buffer *text);
/* A heading and the rows, each line at most ZEST_TEXT_WIDTH characters wide as long as names can give way.
 * Columns without any text are left out. */
void zest_text_table_write(const zest_text_table *table, zest_buffer *out);
void zest_text_table_free(zest_text_table *table);
/* A paragraph: cleaned in the same way, broken at blanks into lines of ZEST_TEXT_WIDTH. */
void zest_text_table_paragraph(zest_buffer *out, const char *text);

#endif
