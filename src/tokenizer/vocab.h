/* The vocabulary (token to id and id to token), lists of token ids, sorted spellings, and added tokens. */
#ifndef ZEST_TOKENIZER_VOCAB_H
#define ZEST_TOKENIZER_VOCAB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { ZEST_VOCAB_LIMIT = 1 << 22 }; /* exclusive bound of ids: tables are as long as the largest id */

typedef struct {
    zest_buffer text; /* all spellings, each followed by a NUL */
    uint32_t *start;  /* by id; UINT32_MAX: no such token */
    uint32_t *length;
    size_t size; /* the largest id plus one */
    size_t own;  /* size of text when the model's own tokens were complete; added tokens follow */
    size_t capacity;
    size_t count;  /* tokens */
    int32_t *slot; /* open addressing by spelling: id, or -1 */
    size_t slots;  /* a power of two, or 0 */
    size_t reach;  /* largest distance of a token from its own slot */
} zest_vocab;

/* Start with {0}. A duplicate token or id is an error; so are tokens chosen to collide in the hash table. source
 * is for messages. */
zest_status zest_vocab_add(zest_vocab *vocab, const char *token, size_t size, int64_t id, const char *source,
                           zest_error *error);
void zest_vocab_free(zest_vocab *vocab);

/* Marks the model's own tokens as complete: call before added tokens are added. */
void zest_vocab_seal(zest_vocab *vocab);
int zest_vocab_is_model_token(const zest_vocab *vocab, int32_t id);
int32_t zest_vocab_find_model_token(const zest_vocab *vocab, const char *token, size_t size); /* -1: none */

int32_t zest_vocab_find(const zest_vocab *vocab, const char *token, size_t size); /* -1: none */
const char *zest_vocab_token(const zest_vocab *vocab, int32_t id, size_t *size);  /* NULL: none */

/* A growing list of token ids. Start with {0}. When out of memory, failed is set and further additions do
 * nothing. */
typedef struct {
    int32_t *data;
    size_t count, capacity;
    int failed;
} zest_ids;

void zest_ids_add(zest_ids *ids, int32_t id);
void zest_ids_add_all(zest_ids *ids, const int32_t *more, size_t count); /* `more` may point into ids */
void zest_ids_free(zest_ids *ids);

/* ---- Hashes for tables in memory; they are never stored ---- */

/* Tables are at most half full, so no entry is this far from its own slot by chance. A file made to collide is
 * an error, and a search never takes more steps than this. */
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

/* ---- Sorted spellings, for a longest-prefix search whose time depends on the match, not on the list ---- */

typedef struct {
    const char *text; /* not owned */
    size_t size;      /* not 0 */
    uint32_t value;   /* the caller's */
} zest_spelling;

void zest_spellings_sort(zest_spelling *list, size_t count);

/* The longest spelling that is a prefix of the text; NULL: none. The list is sorted; all of it agrees in its
 * first `known` bytes, which the text does not contain. Of equal spellings the one with the largest value. */
const zest_spelling *zest_spellings_longest_prefix(const zest_spelling *list, size_t count, size_t known,
                                                   const char *text, size_t size);

/* The range of the list that starts with this prefix: returns its first index; *found is its length. */
size_t zest_spellings_range(const zest_spelling *list, size_t count, const char *prefix, size_t size,
                            size_t *found);

/* ---- Added tokens: split off the text before any other step ---- */

typedef struct {
    char *content; /* owned; as it is matched */
    size_t size;
    int32_t id;
    unsigned char special;
    unsigned char lstrip, rstrip; /* also consumes adjacent white space */
    unsigned char single_word;    /* matches only without adjacent word characters */
} zest_added_token;

/* bytes; limits the time of a search */
enum { ZEST_ADDED_MAX_SIZE = 4096 };

typedef struct {
    zest_added_token *token;
    size_t count, capacity;
    zest_spelling *sorted;    /* set by finish; values are indices of token */
    unsigned char first[256]; /* some content begins with this byte */
} zest_added;

/* Takes ownership of content, also on error. An empty content is ignored. */
zest_status zest_added_add(zest_added *added, zest_added_token token, zest_error *error);
zest_status zest_added_finish(zest_added *added, zest_error *error); /* call after the last one was added */
void zest_added_free(zest_added *added);

/* The next match at or after *from, which is moved past it; [*start, *stop) includes the stripped white space
 * and never starts before done (the end of the previous token). NULL: none. literal: ignore special tokens. */
const zest_added_token *zest_added_next(const zest_added *added, const char *text, size_t size, int literal,
                                        size_t done, size_t *from, size_t *start, size_t *stop);

#endif
