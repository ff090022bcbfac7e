/* Added tokens: spellings that are cut out of the text as a whole before anything else sees it. */
#ifndef ZEST_TOKENIZER_ADDED_TOKENS_H
#define ZEST_TOKENIZER_ADDED_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/vocab.h"

typedef struct {
    char *content; /* owned; as it is looked for */
    size_t size;
    int32_t id;
    unsigned char special;
    unsigned char eats_left, eats_right; /* takes the white space beside it along */
    unsigned char single_word;           /* only where no word character touches it */
} zest_added_token;

/* A search for one takes as long as the longest of them: such a file is refused. */
enum { ZEST_ADDED_LONGEST = 4096 };

typedef struct {
    zest_added_token *token;
    size_t count, capacity;
    zest_spelling *sorted;    /* made by finish; their values are indices of token */
    unsigned char first[256]; /* some content begins with this byte */
} zest_added;

/* Takes over content, whether it succeeds or not. An empty content is left out. */
zest_status zest_added_add(zest_added *added, zest_added_token token, zest_error *error);
zest_status zest_added_finish(zest_added *added, zest_error *error); /* call when all are there */
void zest_added_free(zest_added *added);

/* The next token that counts at or behind *from, which is moved behind it: where it starts and stops with the
 * space that it eats, never before done (the end of the token before). NULL: none. literal: special tokens do
 * not count. */
const zest_added_token *zest_added_next(const zest_added *added, const char *text, size_t size, int literal,
                                        size_t done, size_t *from, size_t *start, size_t *stop);

#endif
