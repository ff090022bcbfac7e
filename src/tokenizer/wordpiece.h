/* WordPiece, the model of BERT's tokenizers: a word is spelt by the longest token that it begins with, then
 * by the longest that continues it, and so on; a word that cannot be spelt to its end is one unknown token.
 */
#ifndef ZEST_TOKENIZER_WORDPIECE_H
#define ZEST_TOKENIZER_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/vocab.h"

/* The time for a word grows with its square, so files may not allow words of any length. 100 is usual. */
enum { ZEST_WORDPIECE_LONGEST_WORD = 10000 };

typedef struct {
    char *prefix; /* owned; of tokens that continue a word: "##". NULL: the tokenizer has another model */
    size_t prefix_size;
    size_t longest_word; /* in characters; a longer one is unknown */
    int32_t unknown;
    zest_spelling *tokens; /* the model's own, sorted; they point into the vocabulary */
    size_t count;
    size_t first[257];                   /* those that begin with byte b: first[b] to first[b + 1] */
    size_t continuing, continuing_count; /* those that begin with the prefix */
} zest_wordpiece;

/* Makes the tables, once the vocabulary is complete. source is for messages. */
zest_status zest_wordpiece_finish(zest_wordpiece *wordpiece, const zest_vocab *vocab, const char *source,
                                  zest_error *error);
void zest_wordpiece_free(zest_wordpiece *wordpiece);

/* Appends the tokens of a word (valid UTF-8, not empty). Memory: out->failed. */
void zest_wordpiece_encode(const zest_wordpiece *wordpiece, const char *word, size_t size, zest_ids *out);

#endif
