/* Unicode: UTF-8, character classes used by tokenizer patterns, lower case, normal forms C and D. */
#ifndef ZEST_TOKENIZER_UNICODE_H
#define ZEST_TOKENIZER_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum {
    ZEST_UNICODE_LETTER = 1, /* \p{L} */
    ZEST_UNICODE_NUMBER = 2, /* \p{N} */
    ZEST_UNICODE_SPACE = 4,  /* \s, the White_Space property */
    ZEST_UNICODE_WORD = 8,   /* \w: alphabetic, marks, decimal digits, connectors, joiners */
};

/* The class bits of a character of Unicode 16.0. */
unsigned zest_unicode_class(uint32_t code);

enum {
    ZEST_UNICODE_CONTROL = 1,     /* removed by clean_text */
    ZEST_UNICODE_PUNCTUATION = 2, /* a pre-token of its own */
    ZEST_UNICODE_ACCENT = 4,      /* nonspacing marks, removed by strip_accents */
    ZEST_UNICODE_IDEOGRAPH = 8,   /* CJK characters, each a pre-token of its own */
};

/* The class of a character in BERT's normalizer and pre-tokenizer, as in Hugging Face tokenizers. */
unsigned zest_unicode_bert_class(uint32_t code);

/* The lower case of one character, regardless of context. Only U+0130 becomes two: *more is the second, else 0. */
uint32_t zest_unicode_lowercase(uint32_t code, uint32_t *more);

/* General categories, in the order of zest_unicode_categories. */
enum { ZEST_UNICODE_CATEGORIES = 30 };
const char *zest_unicode_category_name(int category);

/* The end of the grapheme cluster at the start of a text that is not empty (Unicode Standard Annex 29). */
size_t zest_unicode_cluster(const char *text, size_t size);

/* Length of the longest valid UTF-8 prefix. */
size_t zest_unicode_valid(const char *text, size_t size);
/* Appends the text with U+FFFD for every maximal invalid sequence, like Python's errors="replace" and Rust's
 * from_utf8_lossy. */
void zest_unicode_repair(const char *text, size_t size, zest_buffer *out);

/* Reads the character at `at`, which must be the start of one in valid UTF-8; returns its length. */
static inline size_t zest_unicode_read(const char *at, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)at;
    if (s[0] < 0x80) return *code = s[0], 1;
    if (s[0] < 0xE0) return *code = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu), 2;
    if (s[0] < 0xF0) return *code = (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu), 3;
    *code = (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
    return 4;
}

/* Writes the character's UTF-8 (at most 4 bytes, no NUL) and returns its length. */
size_t zest_unicode_write(uint32_t code, char *out);

/* Appends valid UTF-8 in normal form C. */
void zest_unicode_compose(const char *text, size_t size, zest_buffer *out);
/* The same in normal form D. */
void zest_unicode_decompose(const char *text, size_t size, zest_buffer *out);

/* ---- Tables, in unicode_tables.c; each is sorted ---- */

/* code << 4 | class bits: the class of this character and of those up to the next entry. */
extern const uint32_t zest_unicode_classes[];
extern const size_t zest_unicode_classes_count;
/* code << 5 | general category, likewise. */
extern const uint32_t zest_unicode_categories[];
extern const size_t zest_unicode_categories_count;
/* code << 4 | how it breaks grapheme clusters (unicode_clusters.c), likewise. */
extern const uint32_t zest_unicode_clusters[];
extern const size_t zest_unicode_clusters_count;
/* The same for zest_unicode_bert_class. */
extern const uint32_t zest_unicode_bert_classes[];
extern const size_t zest_unicode_bert_classes_count;
/* code << 32 | its lower case. */
extern const uint64_t zest_unicode_lowercases[];
extern const size_t zest_unicode_lowercases_count;
/* code << 8 | canonical combining class, likewise. */
extern const uint32_t zest_unicode_orders[];
extern const size_t zest_unicode_orders_count;
/* code << 36 | first << 18 | second: one step of the canonical decomposition; second 0 for a singleton. */
extern const uint64_t zest_unicode_decompositions[];
extern const size_t zest_unicode_decompositions_count;
/* Indices into the decompositions that may be undone, sorted by (first, second). */
extern const uint16_t zest_unicode_compositions[];
extern const size_t zest_unicode_compositions_count;

#endif
