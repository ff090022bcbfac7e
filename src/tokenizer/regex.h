/* Regular expressions of tokenizer files, which are written for Oniguruma, run by PCRE2.
 *
 * Where the two differ, the pattern is translated; what cannot be is refused. \p{...} follows the Unicode
 * version of the PCRE2 that is linked, so characters newer than that fall into no class. */
#ifndef ZEST_TOKENIZER_REGEX_H
#define ZEST_TOKENIZER_REGEX_H

#include <stddef.h>

#include "base/error.h"

typedef struct zest_regex zest_regex;

/* source is for messages: where the pattern stands. */
zest_regex *zest_regex_new(const char *pattern, size_t size, const char *source, zest_error *error);
void zest_regex_free(zest_regex *regex);

/* A walk over the matches in valid UTF-8. Several walks may go over one regex at a time. */
typedef struct {
    const zest_regex *regex;
    void *match, *limits; /* PCRE2's memory for one match, and its limits; kept from walk to walk */
    const char *text;
    size_t size, from, last; /* last: end of the match before; SIZE_MAX: none */
} zest_regex_walk;

zest_status zest_regex_begin(zest_regex_walk *walk, const zest_regex *regex, const char *text, size_t size,
                             zest_error *error);
/* *found = 0 after the last. A pattern that backtracks without bound ends in an error. */
zest_status zest_regex_next(zest_regex_walk *walk, int *found, size_t *start, size_t *end, zest_error *error);
void zest_regex_walk_free(zest_regex_walk *walk);

#endif
