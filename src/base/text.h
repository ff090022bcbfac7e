/* Numbers as text, with a decimal point in every locale.
 *
 * strtod and printf follow the process's locale. A program that calls setlocale and links the library would
 * otherwise read and write "0,02" where files, options and JSON have "0.02". */
#ifndef ZEST_BASE_TEXT_H
#define ZEST_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* strtod in the C locale. */
double zest_number_parse(const char *text, char **end);

/* The whole text as a decimal integer from low to high: digits, perhaps after a minus sign, and nothing
 * else. Returns 0, and leaves *number alone, for anything else. */
int zest_integer_parse(const char *text, int64_t low, int64_t high, int64_t *number);

/* snprintf and vsnprintf in the C locale. */
int zest_number_format(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int zest_number_vformat(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* Edit distance of the first `size` bytes of a from the word b, ignoring case; SIZE_MAX for words of 64 bytes
 * and more. */
size_t zest_edit_distance(const char *a, size_t size, const char *b);

/* Whether text has no control characters, so that it may appear in a message or on a terminal. */
int zest_text_is_printable(const char *text, size_t size);

#endif
