#include "base/number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The C libraries hand out one constant object for "C", so this neither allocates nor needs to be freed; it
 * is freed all the same, as POSIX asks. */
static locale_t c_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double zest_number_parse(const char *text, char **end) {
    locale_t c = c_locale();
    if (!c) return strtod(text, end);
    double number = strtod_l(text, end, c);
    freelocale(c);
    return number;
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
