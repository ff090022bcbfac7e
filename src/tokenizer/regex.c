/* Regular expressions of tokenizer files: translation from Oniguruma to PCRE2, compilation, matching. */
#include "tokenizer/tokenizer_internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tokenizer/unicode.h"

/* Limit of backtracking steps from one position in a text. Tokenizer patterns need a few per character; a
 * pattern with unbounded backtracking must not take seconds per position. */
enum { MAX_PATTERN_SIZE = 1 << 16, MIN_MATCH_STEPS = 10000, MATCH_PER_BYTE = 16, MAX_MATCH_STEPS = 10000000 };
enum { HEAP_LIMIT_KIB = 1 << 16 };

/* PCRE2's \s includes U+180E, which is not white space since Unicode 6.3. */
#define SPACES \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define WORDS "\\p{L}\\p{M}\\p{N}\\p{Pc}"

struct zest_regex {
    pcre2_code *code;
    char *pattern, *source;
};

/* ---- Translation from Oniguruma's syntax to PCRE2's ---- */

typedef struct {
    const char *at, *end;
    zest_buffer out;
    int in_class;
    const char *problem; /* the construct that cannot be translated */
} translation;

static void shorthand(translation *t, const char *set, int negated) {
    if (t->in_class && negated) {
        t->problem = "a negated shorthand such as \\S inside [...]";
    } else if (t->in_class) {
        zest_buffer_text(&t->out, set);
    } else {
        zest_buffer_format(&t->out, negated ? "[^%s]" : "[%s]", set);
    }
}

static void translate_escape(translation *t) {
    if (t->at + 1 >= t->end) {
        zest_buffer_add(&t->out, t->at++, 1);
        return;
    }
    char letter = t->at[1];
    t->at += 2;
    switch (letter) {
    case 's': shorthand(t, SPACES, 0); break;
    case 'S': shorthand(t, SPACES, 1); break;
    case 'w': shorthand(t, WORDS, 0); break;
    case 'W': shorthand(t, WORDS, 1); break;
    case 'h': shorthand(t, "0-9a-fA-F", 0); break;
    case 'H': shorthand(t, "0-9a-fA-F", 1); break;
    case 'u':
        if (t->end - t->at < 4) {
            t->problem = "\\u without four digits";
            break;
        }
        zest_buffer_format(&t->out, "\\x{%.4s}", t->at);
        t->at += 4;
        break;
    default: { /* \p{L} and the like: the braces are not a quantifier */
        const char *start = t->at - 2, *close = t->at < t->end && *t->at == '{'
                                                    ? memchr(t->at, '}', (size_t)(t->end - t->at))
                                                    : NULL;
        if (close) t->at = close + 1;
        zest_buffer_add(&t->out, start, (size_t)(t->at - start));
    }
    }
}

static void translate_class(translation *t) {
    if (!t->in_class) { /* '[': a caret or a bracket directly after it belongs to it */
        const char *start = t->at++;
        if (t->at < t->end && *t->at == '^') t->at++;
        if (t->at < t->end && *t->at == ']') t->at++;
        zest_buffer_add(&t->out, start, (size_t)(t->at - start));
        t->in_class = 1;
    } else if (*t->at == '[') {
        const char *close =
            t->end - t->at > 1 && t->at[1] == ':' ? memchr(t->at, ']', (size_t)(t->end - t->at)) : NULL;
        if (!close) {
            t->problem = "a class within a class, [[...]]";
            return;
        }
        zest_buffer_add(&t->out, t->at, (size_t)(close + 1 - t->at));
        t->at = close + 1;
    } else {
        zest_buffer_add(&t->out, t->at++, 1);
        t->in_class = 0;
    }
}

/* {n,m}: a + after it is possessive in PCRE2 but repeats in Oniguruma; {,m} exists in Oniguruma only. */
static void translate_brace(translation *t) {
    const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
    if (t->end - t->at > 1 && t->at[1] == ',') t->problem = "{,m} without a lower bound";
    if (close && close + 1 < t->end && close[1] == '+') t->problem = "{n,m}+";
    zest_buffer_add(&t->out, t->at++, 1);
}

/* Inline options: (?m) lets the dot match a newline in Oniguruma, but changes ^ and $ in PCRE2. */
static void translate_group(translation *t) {
    const char *at = t->at;
    if (t->end - at > 2 && at[1] == '?')
        for (at += 2; at < t->end && (*at == '-' || (*at >= 'a' && *at <= 'z')); at++)
            if (*at == 'm') t->problem = "the option (?m)";
    zest_buffer_add(&t->out, t->at++, 1);
}

static void translate(translation *t) {
    while (t->at < t->end && !t->problem) {
        char c = *t->at;
        if (c == '\\')
            translate_escape(t);
        else if (c == '[' || (c == ']' && t->in_class))
            translate_class(t);
        else if (t->in_class && c == '&' && t->end - t->at > 1 && t->at[1] == '&')
            t->problem = "the intersection of classes, &&";
        else if (!t->in_class && c == '{')
            translate_brace(t);
        else if (!t->in_class && c == '(')
            translate_group(t);
        else
            zest_buffer_add(&t->out, t->at++, 1);
    }
}

/* ---- Compilation ---- */

static zest_status compile(zest_regex *regex, const zest_buffer *pattern, zest_error *error) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return zest_error_memory(error, regex->source, pattern->size);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, 4 * MAX_PATTERN_SIZE);
    int code;
    PCRE2_SIZE position;
    /* In Oniguruma ^ and $ always match at line boundaries. */
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    regex->code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->size, options, &code, &position, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        char message[160] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the pattern \"%.200s\" does not compile: %s near byte %zu", regex->source,
                              regex->pattern, message, (size_t)position);
    }
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* without JIT the interpreter is used */
    return ZEST_OK;
}

zest_regex *zest_regex_new(const char *pattern, size_t size, const char *source, zest_error *error) {
    if (size > MAX_PATTERN_SIZE) {
        zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the pattern is longer than %d bytes", source,
                       MAX_PATTERN_SIZE);
        return NULL;
    }
    zest_regex *regex = calloc(1, sizeof *regex);
    translation t = {.at = pattern, .end = pattern + size};
    if (regex) regex->pattern = strndup(pattern, size);
    if (regex) regex->source = strdup(source);
    if (!regex || !regex->pattern || !regex->source) goto memory;
    zest_buffer_add(&t.out, "", 0);
    translate(&t);
    if (t.out.failed) goto memory;
    if (t.problem)
        zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the pattern \"%.200s\" has %s, which is not supported",
                       source, regex->pattern, t.problem);
    if (t.problem || compile(regex, &t.out, error)) {
        zest_regex_free(regex);
        regex = NULL;
    }
    zest_buffer_free(&t.out);
    return regex;
memory:
    zest_error_memory(error, source, size);
    zest_regex_free(regex);
    zest_buffer_free(&t.out);
    return NULL;
}

void zest_regex_free(zest_regex *regex) {
    if (!regex) return;
    pcre2_code_free(regex->code);
    free(regex->pattern);
    free(regex->source);
    free(regex);
}

/* ---- Matching ---- */

zest_status zest_regex_begin(zest_regex_iterator *iterator, const zest_regex *regex, const char *text,
                             size_t size, zest_error *error) {
    if (!iterator->match)
        iterator->match = pcre2_match_data_create(1, NULL); /* capture groups are not used */
    if (!iterator->limits) iterator->limits = pcre2_match_context_create(NULL);
    if (!iterator->match || !iterator->limits) return zest_error_memory(error, regex->source, 256);
    *iterator = (zest_regex_iterator){regex, iterator->match, iterator->limits, text, size, 0, SIZE_MAX};
    size_t steps =
        size < MAX_MATCH_STEPS / MATCH_PER_BYTE ? MIN_MATCH_STEPS + MATCH_PER_BYTE * size : MAX_MATCH_STEPS;
    pcre2_set_match_limit(iterator->limits, (uint32_t)steps);
    pcre2_set_heap_limit(iterator->limits, HEAP_LIMIT_KIB);
    return ZEST_OK;
}

static int match_once(zest_regex_iterator *iterator) {
    const zest_regex *regex = iterator->regex;
    PCRE2_SPTR text = (PCRE2_SPTR)iterator->text;
    int code = pcre2_match(regex->code, text, iterator->size, iterator->from, PCRE2_NO_UTF_CHECK,
                           iterator->match, iterator->limits);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has its stack on the heap */
        code = pcre2_match(regex->code, text, iterator->size, iterator->from,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, iterator->match, iterator->limits);
    return code;
}

zest_status zest_regex_next(zest_regex_iterator *iterator, int *found, size_t *start, size_t *end,
                            zest_error *error) {
    *found = 0;
    while (iterator->from <= iterator->size) {
        int code = match_once(iterator);
        if (code == PCRE2_ERROR_NOMATCH) return ZEST_OK;
        if (code < 0) {
            char message[160] = "";
            pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
            return zest_error_set(
                error, ZEST_ERROR_FORMAT, "%s: the pattern \"%.200s\" fails at byte %zu of a text of %zu: %s",
                iterator->regex->source, iterator->regex->pattern, iterator->from, iterator->size, message);
        }
        PCRE2_SIZE *ends = pcre2_get_ovector_pointer(iterator->match);
        /* \K may set the start after the end; such a match counts as empty. */
        *start = ends[0] < ends[1] ? ends[0] : ends[1], *end = ends[1];
        if (*start != *end || iterator->last != *end) {
            iterator->from = iterator->last = *end;
            *found = 1;
            return ZEST_OK;
        }
        uint32_t skipped; /* an empty match directly after the last one: continue one character later */
        iterator->from += iterator->from < iterator->size
                              ? zest_unicode_read(iterator->text + iterator->from, &skipped)
                              : 1;
    }
    return ZEST_OK;
}

void zest_regex_iterator_free(zest_regex_iterator *iterator) {
    pcre2_match_data_free(iterator->match);
    pcre2_match_context_free(iterator->limits);
    *iterator = (zest_regex_iterator){0};
}
