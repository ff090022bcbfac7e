/* Examples: rows of a split encoded as tokens. */
#ifndef ZEST_TASK_EXAMPLES_H
#define ZEST_TASK_EXAMPLES_H

#include "chat/chat_template.h"
#include "model/model.h"
#include "task/split.h"
#include "task/template.h"
#include "tokenizer/tokenizer.h"

/* A text as tokens. Masked models: one per example, with the mask at `target`. Causal models: one for each
 * class or option (TEXT: for the right answer; CHAT: one or more, all of which are trained on), whose tokens from `target` on are the answer: at least
 * one, with at least one token before it. */
typedef struct {
    uint32_t first, length; /* offset and length in tokens */
    uint32_t target;        /* index of the mask or of the first answer token */
} zest_example_text;

typedef struct {
    zest_task_kind kind;
    int masked;       /* label words are predicted at the mask */
    int as_text;      /* trained on the token loss of the right answer */
    uint32_t *tokens; /* of all texts */
    size_t token_count;
    zest_example_text *texts;
    uint32_t *text_starts;      /* count + 1: an example's texts */
    zest_example_text *prompts; /* TEXT: the prompt of each example; NULL otherwise */
    unsigned char *learned;     /* CHAT: for every token, whether the loss counts it; NULL otherwise */
    uint32_t *answers;          /* index of the right class or option (after label noise); TEXT: 0 */
    uint32_t *row;              /* row index in the file */
    /* TEXT: the accepted texts of each example, NULL-terminated; NULL otherwise */
    char ***gold;
    uint32_t **right; /* CHOICE: per example, the number of right options and their indices; NULL otherwise */
    size_t count;
    uint32_t words[ZEST_TASK_MAX_CLASSES]; /* masked: the token of each label word */
    size_t word_count;
    size_t max_tokens;        /* TEXT: maximum number of new tokens */
    size_t cut;               /* number of texts that were truncated */
    unsigned char *truncated; /* per example: whether a text was truncated */
} zest_examples;

/* NULL or {0}: as the tokenizer does it. */
typedef struct {
    int start_given; /* causal texts start with `start` instead of the tokenizer's start token */
    int32_t start;   /* a token; -1: none. OPT's tokenizer has 2, MeZO used 0 */
    int unlabelled;  /* labels are not needed: a missing or unknown label is no error */
} zest_examples_options;

/* Encodes the rows of a split. Checks that each label word is one token (masked models). The rows may be
 * freed afterwards.
 *
 * Maximum length: the task's max_length (masked) or causal_length, at most the model's number of positions.
 *
 *     masked   fields are truncated to first_limit and other_limit, then the end of the text. If the mask
 *              would be lost, the fields before it are truncated first, the longest one token by token, until
 *              the mask and the template's text up to the next field (or the end token) fit.
 *     causal   the start token and the last tokens are kept. TEXT reserves max_tokens new tokens (default 50),
 *              at most half of all.
 *
 * CHAT     the first tokens are kept; if the assistant says none of them, the last ones up to the end of its last turn.
 * A TEXT answer is the first accepted text and a newline, in place of {answer}.
 * A CHOICE label is the text of a right option or its index from 0; of several right ones the first is the
 * answer. A label that matches two options is an error. */
zest_status zest_examples_make(const zest_task *task, const zest_rows *rows, const zest_split *split,
                               const zest_tokenizer *tokenizer, const zest_model_config *model,
                               zest_examples *examples, zest_error *error);
zest_status zest_examples_make_with(const zest_task *task, const zest_rows *rows, const zest_split *split,
                                    const zest_tokenizer *tokenizer, const zest_model_config *model,
                                    const zest_examples_options *options, zest_examples *examples,
                                    zest_error *error);
void zest_examples_free(zest_examples *examples);

/* ---- Internal to src/task (examples_chat.c) ---- */

/* A conversation as tokens. Start with {0}. */
typedef struct {
    zest_ids tokens;
    zest_buffer learned; /* a byte for every token: 1: the assistant says it */
    zest_example_text *texts;
    size_t count, cut; /* texts; those that were truncated */
} zest_encoded_chat;

/* row: {"messages": [...], "tools": ...} as text. The caller frees what *out has, whatever this returns. */
zest_status zest_examples_encode_chat(const zest_chat_template *chat, const zest_tokenizer *tokenizer,
                                      const char *row, size_t limit, zest_encoded_chat *out,
                                      zest_error *error);

#endif
