/* Examples: rows as the model sees them, encoded once. */
#ifndef ZEST_TASK_EXAMPLES_H
#define ZEST_TASK_EXAMPLES_H

#include "task/split.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "task/template.h"

/* A text as tokens. Masked: one for each example, with the mask at `asked`. Else one for each class or option
 * (TEXT: for the right answer alone), of which the tokens from `asked` on are the answer: at least one, with
 * at least one token before it. */
typedef struct {
    uint32_t first, length; /* in tokens */
    uint32_t asked;         /* counted from the text's first token */
} zest_example_text;

typedef struct {
    zest_task_kind kind;
    int masked;       /* label words at the mask */
    int as_text;      /* trained by the likelihood of the right answer alone (TOKENS) */
    uint32_t *tokens; /* of all texts */
    size_t token_count;
    zest_example_text *texts;
    uint32_t *text_starts;      /* count + 1: an example's texts */
    zest_example_text *prompts; /* TEXT: what to continue, one for each example; NULL elsewhere */
    uint32_t *answers;          /* the right class or option (label noise included); TEXT: 0 */
    uint32_t *row;              /* of the file */
    char ***gold;               /* TEXT: the right texts of each example, NULL-ended; NULL elsewhere */
    uint32_t **right; /* CHOICE: of each example, how many options are right and then which; NULL elsewhere */
    size_t count;
    uint32_t words[ZEST_TASK_CLASSES_MOST]; /* masked: the token of each class's word */
    size_t word_count;
    size_t max_tokens;        /* TEXT: new tokens at most */
    size_t cut;               /* texts that were too long and were shortened */
    unsigned char *truncated; /* of each example: was one of its texts shortened? */
} zest_examples;

/* NULL or {0}: what suits the tokenizer. */
typedef struct {
    int start_given; /* causal texts begin with `start` instead of what the tokenizer puts there */
    int32_t start;   /* a token; -1: none. OPT's tokenizer puts 2, MeZO used 0 */
    int unlabelled;  /* rows are only to be answered: a label that is missing or unknown does not matter */
} zest_examples_options;

/* Encodes the rows of a split. Checks that each label word is one token (masked) and says what to do
 * otherwise. Rows must outlive the examples only while this runs.
 *
 * Longest text: the task's max_length (masked) or causal_length, or what the model has room for if that is
 * less.
 *   masked   fields are held to first_limit and other_limit, and the end is cut off. Should the mask fall to
 *            the cut, fields before it are shortened first, the longest of them token by token, until the
 *            mask and the template's text up to the next field (or the end token) fit.
 *   causal   the start token and the last tokens stay. TEXT leaves room for max_tokens new ones (50 when the
 *            task does not say), at most half of all.
 * A TEXT answer is the first right text and a newline, in the place of {answer}.
 * A CHOICE label is the text of a right option, or the right option's number from 0; of several right ones
 * the first label is the answer. One that could be either of two options is refused. */
zest_status zest_examples_make(const zest_task *task, const zest_rows *rows, const zest_split *split,
                               const zest_tokenizer *tokenizer, const zest_model_config *model,
                               zest_examples *examples, zest_error *error);
zest_status zest_examples_make_with(const zest_task *task, const zest_rows *rows, const zest_split *split,
                                    const zest_tokenizer *tokenizer, const zest_model_config *model,
                                    const zest_examples_options *options, zest_examples *examples,
                                    zest_error *error);
void zest_examples_free(zest_examples *examples);

/* The order of epoch e of a run: a permutation that is a function of the seed, e and the number of examples
 * alone. Fisher and Yates's shuffle from the end; each place is drawn without bias (Lemire's method, with
 * rejection) from the words of Philox under the key `seed`, at the counters {0, 1, ...; low half of e; 16;
 * high half of e}. */
void zest_examples_order(const zest_examples *examples, uint64_t seed, uint64_t epoch, uint32_t *order);

/* How examples are made; seen by examples*.c. */

enum { ZEST_EXAMPLES_OPTION_FIELDS = 16 };

/* What all rows share. */
typedef struct {
    const zest_task *task;
    const zest_rows *rows;
    const zest_split *split;
    const zest_tokenizer *tokenizer;
    const zest_model_config *model;
    int masked;
    zest_template *prompt, *form; /* form: NULL when the options stand for themselves */
    const char *words[ZEST_TASK_CLASSES_MOST];
    zest_ids before;          /* causal: the start token */
    int32_t start, end, mask; /* masked; start and end -1: none */
    size_t limit;             /* tokens of the longest text */
    size_t max_tokens;        /* TEXT */
    int label;                /* field, or -1 */
    int unlabelled;           /* zest_examples_options */
    int option_fields[ZEST_EXAMPLES_OPTION_FIELDS];
    size_t option_field_count;
} zest_examples_maker;

/* One row, encoded. */
typedef struct {
    zest_ids tokens;
    zest_example_text *texts;
    size_t count;
    zest_example_text prompt; /* TEXT */
    uint32_t answer, *right;
    char **gold;
    size_t cut;
} zest_examples_made;

/* Room that is kept from row to row. */
typedef struct {
    zest_template_parts parts;
    size_t *lengths, *places; /* of each part's tokens; one block of memory, lengths first */
    size_t length_room;
    zest_ids ids, prompt_ids;
    zest_buffer text;
    const char **options;
    size_t option_count, option_room;
} zest_examples_scratch;

/* "FILE:LINE: ..." */
zest_status zest_examples_refuse(const zest_examples_maker *maker, size_t row, zest_error *error,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));

zest_status zest_examples_encode_masked(const zest_examples_maker *maker, size_t row,
                                        zest_examples_scratch *scratch, zest_examples_made *made,
                                        zest_error *error);
/* The class, the options or the right texts must be known already (scratch->options, made->gold). */
zest_status zest_examples_encode_causal(const zest_examples_maker *maker, size_t row,
                                        zest_examples_scratch *scratch, zest_examples_made *made,
                                        zest_error *error);

/* What is right: made->answer, right and gold; and scratch->options. index: of the split. */
zest_status zest_examples_find_answer(const zest_examples_maker *maker, size_t index,
                                      zest_examples_scratch *scratch, zest_examples_made *made,
                                      zest_error *error);
/* The fields that answers come from. */
zest_status zest_examples_find_fields(zest_examples_maker *maker, zest_error *error);

#endif
