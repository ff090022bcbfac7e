/* Characters: UTF-8, the classes that tokenizers' patterns ask for, lower case, and normal forms C and D. */
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
    ZEST_UNICODE_CONTROL = 1,     /* dropped when a text is cleaned */
    ZEST_UNICODE_PUNCTUATION = 2, /* a word of its own */
    ZEST_UNICODE_ACCENT = 4,      /* nonspacing marks, dropped with the accents */
    ZEST_UNICODE_IDEOGRAPH = 8,   /* Chinese characters, each a word of its own */
};

/* What BERT's normalizer and pre-tokenizer take a character for, as Hugging Face tokenizers has it. */
unsigned zest_unicode_bert_class(uint32_t code);

/* The lower case of one character, whatever stands around it. U+0130 alone becomes two: *more is the second,
 * else 0. */
uint32_t zest_unicode_lowercase(uint32_t code, uint32_t *more);

/* Length of the longest valid UTF-8 prefix. */
size_t zest_unicode_valid(const char *text, size_t size);
/* Appends the text with U+FFFD for every maximal run that cannot begin or continue a character, which is how
 * both Python's errors="replace" and Rust's from_utf8_lossy repair text. */
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

/* The character data behind tokenizer/unicode.h; each table is sorted. */

/* code << 4 | class bits: the class of this character and of those up to the next entry. */
extern const uint32_t zest_unicode_classes[];
extern const size_t zest_unicode_classes_count;
/* The same for what BERT's normalizer and pre-tokenizer ask. */
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
