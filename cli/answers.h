/* What `zest predict` prints of a row: its columns, the label where there is one, the prediction. */
#ifndef ZEST_CLI_ANSWERS_H
#define ZEST_CLI_ANSWERS_H

#include <jansson.h>

#include "task/metric.h"

typedef struct {
    const zest_task *task;
    const zest_rows *rows; /* which the examples' row counts */
    const zest_examples *examples;
    const zest_predictions *predictions;
    json_t *const *objects; /* the rows as JSON, with all that they hold; NULL: their fields */
    size_t before;          /* rows of the input before these */
    int trusted;            /* every label is known: the examples are those of a split */
} zest_answers;

/* {"row": 7, COLUMNS, "label": .., "prediction": .., "probabilities": {..}, "truncated": true}. The label and
 * "truncated" are there when they apply; a column that has one of these names is called "input.NAME". NULL:
 * memory is short. */
json_t *zest_answers_object(const zest_answers *answers, size_t i);

/* The same as a line of a table. Its columns are those of the first object, which zest_answers_header names;
 * probabilities become one column, that of the prediction. Tabs and line breaks become blanks. */
void zest_answers_header(const json_t *first, zest_buffer *out);
void zest_answers_line(const json_t *first, const json_t *object, zest_buffer *out);

#endif
