/* How far a mistyped word is from one that is known. */
#ifndef ZEST_BASE_DISTANCE_H
#define ZEST_BASE_DISTANCE_H

#include <stddef.h>

/* Edit distance of the first `size` bytes of a from the word b, without regard to case; SIZE_MAX for words of
 * 64 bytes and more. */
size_t zest_distance(const char *a, size_t size, const char *b);

#endif
