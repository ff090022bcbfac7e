/* Numbers as text in the C locale, and edit distance. */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* C libraries return a constant object for "C", so this does not allocate; it is freed anyway, as POSIX requires. */
static locale_t c_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double zest_number_parse(const char *text, char **end) {
    locale_t c = c_locale();
    if (!c) return strtod(text, end);
    double number = strtod_l(text, end, c);
    freelocale(c);
    return number;
}

int zest_integer_parse(const char *text, int64_t low, int64_t high, int64_t *number) {
    char *end;
    if (!isdigit((unsigned char)text[*text == '-'])) return 0; /* strtoll also takes blanks and a plus sign */
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end || errno || value < low || value > high) return 0;
    *number = value;
    return 1;
}

int zest_number_vformat(char *text, size_t size, const char *format, va_list arguments) {
    locale_t c = c_locale(), before = c ? uselocale(c) : (locale_t)0;
    int used = vsnprintf(text, size, format, arguments);
    if (!c) return used;
    uselocale(before);
    freelocale(c);
    return used;
}

int zest_number_format(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int used = zest_number_vformat(text, size, format, arguments);
    va_end(arguments);
    return used;
}

enum { MAX_WORD = 64 };

size_t zest_edit_distance(const char *a, size_t size, const char *b) {
    size_t row[MAX_WORD], length = strlen(b);
    if (length >= MAX_WORD || size >= MAX_WORD) return SIZE_MAX;
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; i <= size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            int differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            size_t best = diagonal + (size_t)differ;
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}

int zest_text_is_printable(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 32 || c == 127) return 0;
    }
    return 1;
}
