/* The well-known patterns by hand. Every alternative of the pattern is a branch below, in the same order. */
#include "text/presplit.h"

#include "text/unicode.h"

enum { LETTER = ZEST_UNICODE_LETTER, NUMBER = ZEST_UNICODE_NUMBER, SPACE = ZEST_UNICODE_SPACE };
enum { KINDS = LETTER | NUMBER | SPACE };

/* Class of the character at `at`: LETTER, NUMBER, SPACE, or 0 for the rest. */
static inline unsigned kind_at(const char *at, size_t *length) {
    uint32_t code;
    *length = zest_unicode_read(at, &code);
    return zest_unicode_class(code) & KINDS;
}

/* End of the run of characters of one kind. */
static inline size_t run_of(const char *text, size_t size, size_t at, unsigned kind) {
    size_t length;
    while (at < size && kind_at(text + at, &length) == kind) at += length;
    return at;
}

/* 's 't 're 've 'm 'll 'd: its length, or 0. */
static size_t contraction(const char *text, size_t size) {
    if (size < 2) return 0;
    char a = text[1], b = size > 2 ? text[2] : '\0';
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* The same in any case. The long s (U+017F) is an s to a pattern that ignores case. */
static size_t contraction_any_case(const char *text, size_t size) {
    if (size > 2 && text[1] == '\xC5' && text[2] == '\xBF') return 3;
    char lower[3] = {text[0]};
    for (size_t i = 1; i < 3 && i < size; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 32 : text[i]);
    return contraction(lower, size < 3 ? size : 3);
}

/* \s+(?!\S)|\s+ : a run of spaces leaves its last one to what follows, unless it is alone or the text ends.
 */
static size_t spaces(const char *text, size_t size, size_t *run) {
    size_t at = 0, last = 0, length;
    while (at < size && kind_at(text + at, &length) == SPACE) last = at, at += length;
    *run = at;
    return at == size || last == 0 ? at : last;
}

size_t zest_presplit_gpt2(const char *text, size_t size) {
    size_t length, next, run;
    if (text[0] == '\'' && (length = contraction(text, size)) > 0) return length;
    unsigned kind = kind_at(text, &length);
    if (text[0] == ' ' && size > 1) { /* the optional space in front of a word, a number or signs */
        unsigned follows = kind_at(text + 1, &next);
        if (follows != SPACE) return run_of(text, size, 1 + next, follows);
    }
    return kind == SPACE ? spaces(text, size, &run) : run_of(text, size, length, kind);
}

static size_t newlines(const char *text, size_t size, size_t at) {
    while (at < size && (text[at] == '\r' || text[at] == '\n')) at++;
    return at;
}

size_t zest_presplit_cl100k(const char *text, size_t size, int digits) {
    size_t length, next = 0, run;
    if (text[0] == '\'' && (length = contraction_any_case(text, size)) > 0) return length;
    unsigned kind = kind_at(text, &length);
    if (kind == LETTER) return run_of(text, size, length, LETTER);
    unsigned follows = length < size ? kind_at(text + length, &next) : SPACE;
    if (kind != NUMBER && text[0] != '\r' && text[0] != '\n' && follows == LETTER)
        return run_of(text, size, length + next, LETTER);
    if (kind == NUMBER) {
        for (int i = 1; i < digits && length < size && kind_at(text + length, &next) == NUMBER; i++)
            length += next;
        return length;
    }
    if (kind == 0) return newlines(text, size, run_of(text, size, length, 0));
    if (text[0] == ' ' && follows == 0) return newlines(text, size, run_of(text, size, length + next, 0));
    size_t end = spaces(text, size, &run);
    for (size_t i = run; i-- > 0;) /* \s*[\r\n]+ ends behind the last newline of the run */
        if (text[i] == '\r' || text[i] == '\n') return i + 1;
    return end;
}
