/* The vocabulary: spelling to id and id to spelling. */
#ifndef ZEST_TOKENIZER_VOCAB_H
#define ZEST_TOKENIZER_VOCAB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/error.h"

enum { ZEST_VOCAB_LIMIT = 1 << 22 }; /* ids stay below: tables are as long as the largest id */

typedef struct {
    zest_buffer text; /* all spellings, each followed by a NUL */
    uint32_t *start;  /* by id; UINT32_MAX: no such token */
    uint32_t *length;
    size_t size; /* the largest id and one */
    size_t own;  /* bytes of text when the model's own tokens were complete; added tokens lie behind */
    size_t capacity;
    size_t count;  /* tokens */
    int32_t *slot; /* open addressing by spelling: id, or -1 */
    size_t slots;  /* a power of two, or 0 */
    size_t reach;  /* how far behind its own slot a token may lie */
} zest_vocab;

/* Start with {0}. A spelling or an id that is there already is refused; so is a vocabulary whose spellings
 * were chosen to collide in the table. source is for messages. */
zest_status zest_vocab_add(zest_vocab *vocab, const char *token, size_t size, int64_t id, const char *source,
                           zest_error *error);
void zest_vocab_free(zest_vocab *vocab);

/* Says that the model's own tokens are complete: call before added tokens join. */
void zest_vocab_seal(zest_vocab *vocab);
int zest_vocab_is_own(const zest_vocab *vocab, int32_t id);
int32_t zest_vocab_find_own(const zest_vocab *vocab, const char *token, size_t size); /* -1: none */

int32_t zest_vocab_find(const zest_vocab *vocab, const char *token, size_t size); /* -1: none */
const char *zest_vocab_token(const zest_vocab *vocab, int32_t id, size_t *size);  /* NULL: none */

/* A growing list of token ids. */

/* Start with {0}. When memory runs out, failed is set and further additions do nothing. */
typedef struct {
    int32_t *data;
    size_t count, capacity;
    int failed;
} zest_ids;

int zest_ids_reserve(zest_ids *ids, size_t more); /* 0: failed */
void zest_ids_add(zest_ids *ids, int32_t id);
void zest_ids_add_all(zest_ids *ids, const int32_t *more, size_t count); /* `more` may lie in ids itself */
void zest_ids_free(zest_ids *ids);

/* Hashes for tables in memory; nothing of them is ever stored. */

/* Tables are at most half full, so nothing lies this far from its own slot by chance. A file that was made to
 * collide is refused, and a search never takes more steps than this. */
enum { ZEST_HASH_REACH = 4096 };

static inline uint64_t zest_hash_mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

static inline uint64_t zest_hash(const char *bytes, size_t size) {
    uint64_t hash = size, word;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        hash = zest_hash_mix(hash ^ word);
    }
    word = 0;
    for (size_t i = 0; i < size; i++) word = word << 8 | (unsigned char)bytes[i];
    return zest_hash_mix(zest_hash_mix(hash ^ word) + size);
}

/* A sorted list of spellings, for the longest one that a text begins with. The search narrows the list byte
 * by byte, so that it takes as long as the match and not as long as the list. */

typedef struct {
    const char *text; /* not owned */
    size_t size;      /* not 0 */
    uint32_t value;   /* the caller's */
} zest_spelling;

void zest_spellings_sort(zest_spelling *list, size_t count);

/* list is sorted, and all of it agrees in its first `known` bytes, which the text to compare with lacks.
 * Of equal spellings it is the one with the largest value. NULL: the text begins with none of them. */
const zest_spelling *zest_spellings_longest(const zest_spelling *list, size_t count, size_t known,
                                            const char *text, size_t size);

/* The part of the list that begins with these bytes: its first index, and how many there are. */
size_t zest_spellings_range(const zest_spelling *list, size_t count, const char *prefix, size_t size,
                            size_t *found);

/* Added tokens: spellings that are cut out of the text as a whole before anything else sees it. */

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
