/* Examples: rows as the model sees them, encoded once. */
#ifndef ZEST_DATA_EXAMPLES_H
#define ZEST_DATA_EXAMPLES_H

#include "data/split.h"
#include "models/model.h"
#include "text/tokenizer.h"

/* A text as tokens. WORDS: one for each example, with the mask at `asked`. Else one for each option (or for
 * the right answer alone), of which the tokens from `asked` on are the answer. TEXT has a second use: the
 * first `asked` tokens are the prompt to continue. */
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
    uint32_t *text_starts; /* count + 1: an example's texts */
    uint32_t *answers;     /* the right class or option (label noise included) */
    uint32_t *row;         /* of the file */
    char ***gold;          /* TEXT: the right texts, NULL-ended; CHOICE with several right options: NULL */
    uint32_t **right;      /* CHOICE: all right options (ReCoRD), count first; NULL elsewhere */
    size_t count;
    uint32_t words[ZEST_TASK_CLASSES_MOST]; /* masked: the token of each class's word */
    size_t word_count;
    size_t cut; /* texts that were too long and were shortened */
} zest_examples;

/* Encodes the rows of a split. Checks that each label word is one token (masked) and says what to do
 * otherwise. Rows must outlive the examples only while this runs. */
zest_status zest_examples_make(const zest_task *task, const zest_rows *rows, const zest_split *split,
                               const zest_tokenizer *tokenizer, const zest_model_description *model,
                               zest_examples *examples, zest_error *error);
void zest_examples_free(zest_examples *examples);

/* The order of epoch e of a run: a permutation that is a function of the seed and e alone. */
void zest_examples_order(const zest_examples *examples, uint64_t seed, uint64_t epoch, uint32_t *order);

#endif
