/* Templates: how a row becomes a prompt.
 *
 *     {sentence} It was{mask}.                         a masked model: label words stand at the mask
 *     {premise|drop-last}?{mask}, {hypothesis|lower-first}
 *     Question: {question|strip}\nAnswer: {answer}     a causal model
 *     {option|lower-word}                              a form around the options of a choice
 *     {query|@placeholder=>{option}}
 *
 * A piece in braces is a field of the row (its first text, where it holds several), mask, answer, or (in a
 * form around options) option. Behind bars stand changes, applied from left to right:
 *     strip          whitespace at both ends off
 *     strip-end      whitespace at the end off
 *     drop-last      the last character off, whatever it is
 *     drop-dot       one final "." off
 *     question-mark  "?" at the end if there is none
 *     lower-first    the first character in lower case
 *     upper-first    the first character in upper case
 *     lower          everything in lower case
 *     lower-word     the first word (up to a space) in lower case, unless it is "I"
 *     old=>new       every "old" becomes "new"; so effect=>so also maps a field that is "effect" as a whole.
 *                    new may hold pieces in braces; blanks around the arrow count, none are taken off
 * Characters are code points of UTF-8 (bytes that are none become U+FFFD first). Case is the simple mapping
 * of Latin, Greek, Cyrillic, Armenian and full-width letters, and no other. Whitespace is Python's.
 * \n is a newline, \t a tab, \\ \| \{ \} the character itself; {{ and }} are braces, too.
 *
 * For a masked model every piece is encoded by itself, without special tokens; a space directly before a
 * field is encoded with the field, one directly before the mask belongs to the label words and is left out;
 * the start and end tokens of the model stand around the whole. For a causal model the text is put together
 * first: what stands before {answer} is the prompt, all of it the full text; both lose spaces (newlines not)
 * at both ends, and then all whitespace at the front. Both begin with the start token, if the model has one.
 * Special tokens are recognised where the template spells them, and in the fields of causal models. */
#ifndef ZEST_TASK_TEMPLATE_H
#define ZEST_TASK_TEMPLATE_H

#include "task/rows.h"

typedef struct zest_template zest_template;

/* source is for messages: a task's name, or a file. Refuses unknown changes and braces that do not match. */
zest_status zest_template_parse(const char *text, const char *source, zest_template **out, zest_error *error);
void zest_template_free(zest_template *t);

/* Every field it names must be one of the rows'. */
zest_status zest_template_check(const zest_template *t, const zest_rows *rows, zest_error *error);

/* What it is for: the one {mask} of MASKED, the one {answer} of CAUSAL, the {option} of OPTION must be there,
 * and nothing that only the others have. */
typedef enum { ZEST_TEMPLATE_MASKED, ZEST_TEMPLATE_CAUSAL, ZEST_TEMPLATE_OPTION } zest_template_use;
zest_status zest_template_expect(const zest_template *t, zest_template_use use, zest_error *error);

/* MASKED: the pieces, in order, each to be encoded by itself. */
typedef enum { ZEST_TEMPLATE_TEXT, ZEST_TEMPLATE_FIELD, ZEST_TEMPLATE_MASK } zest_template_part_kind;

typedef struct {
    zest_template_part_kind kind;
    size_t first, size; /* its bytes in `text`; FIELD: with the space before it */
    int other;          /* FIELD: not the field that the template names first */
} zest_template_part;

/* Used again from row to row. Start with {0}. */
typedef struct {
    zest_buffer text;
    zest_template_part *parts;
    size_t count, capacity;
} zest_template_parts;

zest_status zest_template_render_parts(const zest_template *t, const zest_rows *rows, size_t row,
                                       zest_template_parts *parts, zest_error *error);
void zest_template_parts_free(zest_template_parts *parts);

/* CAUSAL: appends the prompt (answer NULL), or the full text with this answer. */
zest_status zest_template_render(const zest_template *t, const zest_rows *rows, size_t row,
                                 const char *answer, zest_buffer *out, zest_error *error);
/* OPTION: appends the form around this option, less spaces at both ends. */
zest_status zest_template_render_option(const zest_template *t, const zest_rows *rows, size_t row,
                                        const char *option, zest_buffer *out, zest_error *error);

/* What a template is made of; seen by template*.c, and by metric.c for the letters. */

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
