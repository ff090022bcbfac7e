/* The rows of a data file: named texts, as the file has them. A field may hold several texts (the answers to
 * a question, the options of a choice). */
#ifndef ZEST_DATA_ROWS_H
#define ZEST_DATA_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

typedef enum {
    ZEST_ROWS_TSV,   /* tabs, no quoting at all */
    ZEST_ROWS_CSV,   /* commas, double quotes */
    ZEST_ROWS_JSONL, /* an object a line */
    /* one file layout each, read into the fields that its task's template names */
    ZEST_ROWS_RECORD,
    ZEST_ROWS_MULTIRC,
    ZEST_ROWS_WSC,
    ZEST_ROWS_SQUAD,
    ZEST_ROWS_DROP
} zest_rows_format;

/* How to read a file. */
typedef struct {
    zest_rows_format format;
    int header;         /* TSV, CSV: the first line names the columns */
    const char *fields; /* "sentence=0 label=1": names for columns, counted from 0, -1 the last; for JSONL
                         * "answer=target.text": a path of keys; NULL: the names in the file */
} zest_rows_layout;

typedef struct {
    char *path;
    char **names; /* of the fields */
    size_t name_count, count;
    size_t *lines;    /* of each row in the file, from 1 */
    uint32_t *starts; /* count × name_count + 1 offsets into texts */
    char **texts;
    char *memory; /* what the texts point into */
} zest_rows;

/* *rows is empty on error. A malformed row is refused with file, line and what to do. */
zest_status zest_rows_read(const char *path, const zest_rows_layout *layout, zest_rows *rows,
                           zest_error *error);
void zest_rows_free(zest_rows *rows);

/* The number of a field, or -1. */
int zest_rows_field(const zest_rows *rows, const char *name);
/* The texts of a field in a row. */
const char *const *zest_rows_get(const zest_rows *rows, size_t row, int field, size_t *count);

#endif
