/* What a template is made of; seen by template*.c, and by metric_text.c for the letters. */
#ifndef ZEST_DATA_TEMPLATE_INTERNAL_H
#define ZEST_DATA_TEMPLATE_INTERNAL_H

#include "data/template.h"

typedef enum {
    ZEST_TEMPLATE_STRIP,
    ZEST_TEMPLATE_STRIP_END,
    ZEST_TEMPLATE_DROP_LAST,
    ZEST_TEMPLATE_DROP_DOT,
    ZEST_TEMPLATE_QUESTION_MARK,
    ZEST_TEMPLATE_LOWER_FIRST,
    ZEST_TEMPLATE_UPPER_FIRST,
    ZEST_TEMPLATE_LOWER,
    ZEST_TEMPLATE_LOWER_WORD,
    ZEST_TEMPLATE_NAMED, /* how many have a name */
    ZEST_TEMPLATE_REPLACE = ZEST_TEMPLATE_NAMED
} zest_template_change_kind;

extern const char *const zest_template_change_names[ZEST_TEMPLATE_NAMED];

typedef struct {
    zest_template_change_kind kind;
    char *from;        /* REPLACE */
    zest_template *to; /* REPLACE: a template in its turn */
} zest_template_change;

typedef enum {
    ZEST_TEMPLATE_PIECE_TEXT,
    ZEST_TEMPLATE_PIECE_FIELD,
    ZEST_TEMPLATE_PIECE_MASK,
    ZEST_TEMPLATE_PIECE_ANSWER,
    ZEST_TEMPLATE_PIECE_OPTION
} zest_template_piece_kind;

typedef struct {
    zest_template_piece_kind kind;
    char *text; /* TEXT: it, escapes undone; FIELD: the name */
    size_t at;  /* where it begins in the template, in bytes */
    zest_template_change *changes;
    size_t change_count;
} zest_template_piece;

struct zest_template {
    char *source, *text; /* for messages */
    zest_template_piece *pieces;
    size_t count;
};

/* What the pieces of a template stand for. */
typedef struct {
    const zest_rows *rows;
    size_t row;
    const char *answer, *option;
} zest_template_values;

/* Appends pieces first .. end-1, put together; masks give nothing. Runs out of memory as buffers do. */
void zest_template_write(const zest_template *t, size_t first, size_t end, const zest_template_values *values,
                         zest_buffer *out);
/* Changes the text from byte `from` of the buffer to its end. */
void zest_template_change_text(const zest_template_change *change, const zest_template_values *values,
                               zest_buffer *text, size_t from);

/* Takes whitespace off the front of the text from byte `from` on, which must be valid UTF-8. */
void zest_template_strip_start(zest_buffer *text, size_t from);

uint32_t zest_template_lower(uint32_t code); /* of one character */
uint32_t zest_template_upper(uint32_t code);
int zest_template_is_space(uint32_t code); /* as str.isspace() of Python */

#endif
