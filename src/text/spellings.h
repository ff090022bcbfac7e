/* A sorted list of spellings, for the longest one that a text begins with. The search narrows the list byte
 * by byte, so that it takes as long as the match and not as long as the list. */
#ifndef ZEST_TEXT_SPELLINGS_H
#define ZEST_TEXT_SPELLINGS_H

#include <stddef.h>
#include <stdint.h>

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

#endif
