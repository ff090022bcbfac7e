/* Changing text before it is split ("normalizers"). */
#ifndef ZEST_TOKENIZER_NORMALIZER_H
#define ZEST_TOKENIZER_NORMALIZER_H

#include <stddef.h>

#include "base/memory.h"
#include "base/error.h"
#include "tokenizer/regex.h"

typedef enum {
    ZEST_NORMALIZE_PREPEND, /* content in front of a text that is not empty */
    ZEST_NORMALIZE_REPLACE, /* every pattern, or every match of regex, by content */
    ZEST_NORMALIZE_COMPOSE, /* normal form C */
    /* The parts of BERT's normalizer: */
    ZEST_NORMALIZE_CLEAN,         /* control characters go, white space becomes spaces */
    ZEST_NORMALIZE_IDEOGRAPHS,    /* spaces around every Chinese character */
    ZEST_NORMALIZE_STRIP_ACCENTS, /* normal form D without nonspacing marks */
    ZEST_NORMALIZE_LOWERCASE,
} zest_normalize_kind;

typedef struct {
    zest_normalize_kind kind;
    char *content, *pattern; /* owned */
    size_t content_size, pattern_size;
    zest_regex *regex; /* instead of pattern */
} zest_normalize_step;

enum { ZEST_NORMALIZE_STEPS = 16 };

typedef struct {
    zest_normalize_step step[ZEST_NORMALIZE_STEPS];
    size_t count;
} zest_normalize;

/* Room for the work; start with {0}. */
typedef struct {
    zest_buffer text[2], decomposed;
    zest_regex_walk walk;
} zest_normalize_scratch;

/* *out is the text itself or lies in scratch, where it stays until the next call. A file whose steps make a
 * text longer and longer is refused: see ZEST_NORMALIZE_GROWTH. */
zest_status zest_normalize_run(const zest_normalize *normalize, zest_normalize_scratch *scratch,
                               const char *text, size_t size, const char **out, size_t *out_size,
                               zest_error *error);

/* No published normalizer or decoder makes a text more than a few times longer. A chain of replacements in a
 * hostile file could make it 4^16 times longer. */
enum { ZEST_NORMALIZE_GROWTH = 32, ZEST_NORMALIZE_SLACK = 4096 };
static inline size_t zest_normalize_limit(size_t size) {
    return ZEST_NORMALIZE_GROWTH * size + ZEST_NORMALIZE_SLACK;
}

/* Appends text with every pattern (not empty) replaced by content. It stops once out is larger than limit. */
void zest_normalize_replace(const char *text, size_t size, const char *pattern, size_t pattern_size,
                            const char *content, size_t content_size, size_t limit, zest_buffer *out);

void zest_normalize_scratch_free(zest_normalize_scratch *scratch);
void zest_normalize_free(zest_normalize *normalize);

#endif
