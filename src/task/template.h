/* Templates: how a row becomes a prompt.
 *
 *     {sentence} It was{mask}.                         a masked model: label words are predicted at the mask
 *     {premise|drop-last}?{mask}, {hypothesis|lower-first}
 *     Question: {question|strip}\nAnswer: {answer}     a causal model
 *     {option|lower-word}                              a form for the options of a choice
 *     {query|@placeholder=>{option}}
 *
 * A placeholder in braces is a field of the row (its first text, if it has several), mask, answer, or (in
 * a form for options) option. Filters after bars are applied from left to right:
 *     strip          remove white space at both ends
 *     strip-end      remove white space at the end
 *     drop-last      remove the last character
 *     drop-dot       remove one final "."
 *     question-mark  append "?" unless the text ends with it
 *     lower-first    the first character in lower case
 *     upper-first    the first character in upper case
 *     lower          lower case
 *     lower-word     the first word (up to a space) in lower case, unless it is "I"
 *     old=>new       replace every "old" by "new"; new may contain placeholders; blanks around the arrow count
 * Characters are code points of UTF-8 (invalid bytes become U+FFFD first). Case is the simple mapping of
 * Latin, Greek, Cyrillic, Armenian and full-width letters only. White space is that of Python.
 * \n is a newline, \t a tab, \\ \| \{ \} the character itself; {{ and }} are braces, too.
 *
 * For a masked model every segment is encoded separately, without special tokens; a space directly before
 * a field is encoded with the field, one directly before the mask belongs to the label words and is
 * removed; the start and end tokens of the model enclose the text. For a causal model the text is joined
 * first: the text before {answer} is the prompt, all of it the full text; spaces (not newlines) are
 * stripped at both ends, then all white space at the start. Both start with the start token, if the model
 * has one. Special tokens are recognised in the template, and in the fields of causal models. */
#ifndef ZEST_TASK_TEMPLATE_H
#define ZEST_TASK_TEMPLATE_H

#include "task/rows.h"

typedef struct zest_template zest_template;

/* Limits that keep a task file of a stranger from taking all memory or time: bytes of a template, nested
 * replacements, and bytes of the text made from one row. */
enum { ZEST_TEMPLATE_MAX_SIZE = 64 << 10, ZEST_TEMPLATE_MAX_DEPTH = 8, ZEST_TEMPLATE_MAX_TEXT = 16 << 20 };

/* source is for messages: the name of a task, or a file. Unknown filters and unbalanced braces are errors. */
zest_status zest_template_parse(const char *text, const char *source, zest_template **out, zest_error *error);
void zest_template_free(zest_template *t);

/* Checks that every field it names exists in the rows. */
zest_status zest_template_check(const zest_template *t, const zest_rows *rows, zest_error *error);

/* Checks the intended use: exactly one {mask} for MASKED, one {answer} for CAUSAL, an {option} for OPTION,
 * and no placeholder of the other uses. */
typedef enum { ZEST_TEMPLATE_MASKED, ZEST_TEMPLATE_CAUSAL, ZEST_TEMPLATE_OPTION } zest_template_use;
zest_status zest_template_expect(const zest_template *t, zest_template_use use, zest_error *error);

/* MASKED: the segments, in order, each to be encoded separately. */
typedef enum { ZEST_TEMPLATE_TEXT, ZEST_TEMPLATE_FIELD, ZEST_TEMPLATE_MASK } zest_template_part_kind;

typedef struct {
    zest_template_part_kind kind;
    size_t first, size; /* range in `text`; FIELD: with the space before it */
    int other;          /* FIELD: not the first field of the template */
} zest_template_segment;

/* Reused from row to row. Start with {0}. */
typedef struct {
    zest_buffer text;
    zest_template_segment *segments;
    size_t count, capacity;
} zest_template_segments;

zest_status zest_template_render_segments(const zest_template *t, const zest_rows *rows, size_t row,
                                          zest_template_segments *segments, zest_error *error);
void zest_template_segments_free(zest_template_segments *segments);

/* CAUSAL: appends the prompt (answer NULL), or the full text with this answer. */
zest_status zest_template_render(const zest_template *t, const zest_rows *rows, size_t row,
                                 const char *answer, zest_buffer *out, zest_error *error);
/* OPTION: appends the form for this option, without spaces at both ends. */
zest_status zest_template_render_option(const zest_template *t, const zest_rows *rows, size_t row,
                                        const char *option, zest_buffer *out, zest_error *error);

/* ---- Internal to src/task ---- */

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
    ZEST_TEMPLATE_NAMED, /* number of filters with a name */
    ZEST_TEMPLATE_REPLACE = ZEST_TEMPLATE_NAMED
} zest_template_filter_kind;

extern const char *const zest_template_filter_names[ZEST_TEMPLATE_NAMED];

typedef struct {
    zest_template_filter_kind kind;
    char *from;        /* REPLACE */
    zest_template *to; /* REPLACE: a template */
} zest_template_filter;

typedef enum {
    ZEST_TEMPLATE_NODE_TEXT,
    ZEST_TEMPLATE_NODE_FIELD,
    ZEST_TEMPLATE_NODE_MASK,
    ZEST_TEMPLATE_NODE_ANSWER,
    ZEST_TEMPLATE_NODE_OPTION
} zest_template_node_kind;

typedef struct {
    zest_template_node_kind kind;
    char *text; /* TEXT: literal with escapes resolved; FIELD: the name */
    size_t at;  /* byte offset in the template */
    zest_template_filter *filters;
    size_t filter_count;
} zest_template_node;

struct zest_template {
    char *source, *text; /* for messages */
    zest_template_node *nodes;
    size_t count;
};

/* The values of the placeholders. */
typedef struct {
    const zest_rows *rows;
    size_t row;
    const char *answer, *option;
    size_t limit;  /* largest size of a buffer */
    int *too_long; /* set when the limit is exceeded; the buffer is then marked as failed */
} zest_template_values;

/* Appends nodes first .. end-1; masks render as nothing. Out of memory: as in buffers. */
void zest_template_write(const zest_template *t, size_t first, size_t end, const zest_template_values *values,
                         zest_buffer *out);
/* Applies a filter to the text from byte `from` of the buffer to its end. */
void zest_template_apply_filter(const zest_template_filter *filter, const zest_template_values *values,
                                zest_buffer *text, size_t from);

/* Strips white space from the start of the text from byte `from` on, which must be valid UTF-8. */
void zest_template_strip_start(zest_buffer *text, size_t from);

uint32_t zest_template_lower(uint32_t code); /* of one character */
uint32_t zest_template_upper(uint32_t code);
int zest_template_is_space(uint32_t code); /* like str.isspace() of Python */

#endif
