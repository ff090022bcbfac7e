/* The character data behind text/unicode.h; each table is sorted. */
#ifndef ZEST_TEXT_UNICODE_TABLES_H
#define ZEST_TEXT_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

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
