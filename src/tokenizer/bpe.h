/* Byte-pair encoding of one piece of text: the lowest-ranked neighbours merge first, the leftmost of equals,
 * until no pair is in the list (Sennrich, Haddow, Birch 2016). */
#ifndef ZEST_TOKENIZER_BPE_H
#define ZEST_TOKENIZER_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/vocab.h"

typedef struct {
    uint64_t key; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank;
    int32_t merged;
} zest_bpe_pair;

typedef struct {
    zest_vocab vocab;
    zest_bpe_pair *pairs; /* open addressing */
    size_t slots, count;
    size_t reach;             /* how far behind its own slot a pair may lie */
    int32_t byte_symbol[256]; /* byte-level: the token that stands for this byte; -1: none */
    int32_t byte_token[256];  /* byte fallback: the token <0xNN>; -1: none */
    int32_t ascii[128];       /* tokens of one plain character */
    int byte_level;           /* pieces are bytes to be spelt as in byte_spelling; else they are characters */
    int byte_fallback;
    int fuse_unknown;
    int whole_first; /* a piece that is a token needs no merging ("ignore_merges") */
    int words_apart; /* made by zest_bpe_look: no token has a "▁" behind another character */
    int32_t unknown; /* for what the vocabulary cannot spell; -1: such characters are dropped */
} zest_bpe;

/* Room for the work on one piece; start with {0}, reuse for as many as you like. */
typedef struct {
    char *memory;
    size_t size;
    zest_buffer spelling;
} zest_bpe_scratch;

/* GPT-2's spelling of a byte as a printable character of one or two bytes in UTF-8: returns the character. */
uint32_t zest_bpe_spelling(unsigned char byte);
/* The byte that such a character spells; -1: none. */
int zest_bpe_spelt(uint32_t code);

/* A pair that is there already gets the new rank, as the last of equals wins in Hugging Face's table. */
zest_status zest_bpe_add(zest_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged,
                         zest_error *error);
/* Says that the model's own tokens are all there: call before added tokens join the vocabulary. */
void zest_bpe_seal(zest_bpe *bpe);
/* Looks for what makes encoding faster; call once all merges are there. */
void zest_bpe_look(zest_bpe *bpe);
void zest_bpe_free(zest_bpe *bpe);

/* Where the first word of a piece ends: before a "▁" that no merge can join to what precedes it. BPE of the
 * words one by one is that of the piece; only for words_apart. */
size_t zest_bpe_word(const char *piece, size_t size);

/* Appends the tokens of a piece (valid UTF-8, or any bytes when byte_level). Memory: out->failed. */
void zest_bpe_encode(const zest_bpe *bpe, zest_bpe_scratch *scratch, const char *piece, size_t size,
                     zest_ids *out);
void zest_bpe_scratch_free(zest_bpe_scratch *scratch);

/* The two ways of merging, which agree: short lists are swept, long ones kept in a heap. Both return the
 * number of symbols that are left in place; the second returns SIZE_MAX when memory is short. */
size_t zest_bpe_merge_short(const zest_bpe *bpe, int32_t *symbols, size_t count);
size_t zest_bpe_merge_long(const zest_bpe *bpe, zest_bpe_scratch *scratch, int32_t *symbols, size_t count);
enum { ZEST_BPE_SHORT = 64 };

#endif
