/* Templates: how a row becomes a prompt.
 *
 *     {sentence} It was{mask}.                         a masked model: label words stand at the mask
 *     {premise|drop-last}?{mask}, {hypothesis|lower-first}
 *     Question: {question|strip}\nAnswer: {answer}     a causal model
 *
 * A piece in braces is a field of the row, mask, answer, or (in a form around options) option. Behind bars
 * stand changes, applied from left to right:
 *     strip          whitespace at both ends off          strip-end      at the end only
 *     drop-last      the last character off, whatever it is
 *     drop-dot       one final "." off                    question-mark  "?" at the end if there is none
 *     lower-first, upper-first   the first character      lower          all of it
 *     lower-word     the first character, unless the first word is "I"
 *     first-word ... (see template.c for the full list)
 *     old=>new       every "old" replaced by "new"; effect=>so maps whole values as well
 * \n is a newline, {{ and }} are braces.
 *
 * For a masked model every piece is encoded by itself, without special tokens; a space directly before a
 * field is encoded with the field; the start and end tokens of the model stand around the whole. For a causal
 * model the text is put together first: what stands before {answer}, less trailing spaces, is the prompt;
 * with the answer, less spaces at both ends, it is the full text. Both begin with the start token, if the
 * model has one. */
#ifndef ZEST_DATA_TEMPLATE_H
#define ZEST_DATA_TEMPLATE_H

#include "data/rows.h"

typedef struct zest_template zest_template;

/* source is for messages: a task's name, or a file. Refuses unknown changes and braces that do not match. */
zest_status zest_template_parse(const char *text, const char *source, zest_template **out, zest_error *error);
void zest_template_free(zest_template *t);

/* Every field it names must be one of the rows'. */
zest_status zest_template_check(const zest_template *t, const zest_rows *rows, zest_error *error);

#endif
