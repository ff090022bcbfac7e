/* Jinja's text as tokens: data between tags, with its white space trimmed, and what the tags contain. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_internal.h"
#include "tokenizer/unicode.h"

typedef struct {
    zest_jinja_arena *arena;
    const char *name, *at, *end;
    unsigned line;
    int line_starting; /* the text before `at` ends with a newline, or is empty */
    zest_jinja_tokens *tokens;
    zest_error *error;
} lexer;

zest_status zest_jinja_refuse(const char *name, unsigned line, zest_error *error, const char *format, ...) {
    char sentence[700];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s, line %u of the chat template: %s", name, line,
                          sentence);
}

static zest_status emit(lexer *l, zest_jinja_token_kind kind, const char *data, size_t size, unsigned line) {
    zest_jinja_tokens *t = l->tokens;
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 256;
        zest_jinja_token *more = realloc(t->token, capacity * sizeof *more);
        if (!more) return zest_error_memory(l->error, l->name, capacity * sizeof *more);
        t->token = more;
        t->capacity = capacity;
    }
    t->token[t->count++] = (zest_jinja_token){kind, {data, size}, line};
    return ZEST_OK;
}

/* Moves to `to` and counts the lines on the way. */
static void move(lexer *l, const char *to) {
    for (const char *c = l->at; c < to; c++) l->line += *c == '\n';
    if (to > l->at) l->line_starting = to[-1] == '\n';
    l->at = to;
}

static const char *skip_spaces(const char *at, const char *end) {
    return zest_jinja_strip((zest_jinja_text){at, (size_t)(end - at)}, (zest_jinja_text){0}, 1, 0).data;
}

/* ---- Data ---- */

/* The data before a tag. '-': without white space at its end. Otherwise, before a tag that prints nothing, without the
 * blanks that the line of the tag begins with; '+' keeps them. */
static zest_status emit_data(lexer *l, const char *stop, char sign, int prints) {
    const char *from = l->at, *end = stop;
    if (sign == '-') {
        zest_jinja_text kept =
            zest_jinja_strip((zest_jinja_text){from, (size_t)(end - from)}, (zest_jinja_text){0}, 0, 1);
        end = kept.data + kept.size;
    } else if (sign != '+' && !prints) {
        const char *line = end;
        while (line > from && line[-1] != '\n') line--;
        if ((line > from || l->line_starting) && skip_spaces(line, end) == end) end = line;
    }
    zest_status status = end > from ? emit(l, ZEST_JINJA_DATA, from, (size_t)(end - from), l->line) : ZEST_OK;
    move(l, stop);
    return status;
}

/* The end of a tag, "%}" or "#}", that stands at `close`: '-' before it removes the white space behind it, otherwise one
 * newline goes, unless there is a '+'. */
static const char *after_tag(const lexer *l, const char *close, char sign) {
    const char *next = close + 2;
    if (sign == '-') return skip_spaces(next, l->end);
    return next < l->end && *next == '\n' && sign != '+' ? next + 1 : next;
}

static zest_status comment(lexer *l) {
    unsigned line = l->line;
    const char *from = l->at + 2 + (l->at[2] == '-' || l->at[2] == '+');
    const char *close = from < l->end ? memmem(from, (size_t)(l->end - from), "#}", 2) : NULL;
    if (!close) return zest_jinja_refuse(l->name, line, l->error, "the comment has no end");
    move(l, after_tag(l, close, close > from ? close[-1] : ' '));
    return ZEST_OK;
}

/* Whether a tag at `at` is {% word %}; *sign is the one at its start, *close its end. */
static int is_tag(const lexer *l, const char *at, const char *word, char *sign, const char **close) {
    size_t size = strlen(word);
    if (l->end - at < 2 || at[0] != '{' || at[1] != '%') return 0;
    at += 2;
    *sign = at < l->end && (*at == '-' || *at == '+') ? *at++ : ' ';
    at = skip_spaces(at, l->end);
    if ((size_t)(l->end - at) < size || memcmp(at, word, size)) return 0;
    at = skip_spaces(at + size, l->end);
    *close = at;
    if (at < l->end && (*at == '-' || *at == '+')) at++;
    return l->end - at >= 2 && at[0] == '%' && at[1] == '}';
}

/* {% raw %}: data up to {% endraw %}. close is the sign or end of the first tag. */
static zest_status raw(lexer *l, const char *close) {
    unsigned line = l->line;
    const char *at = *close == '-' ? skip_spaces(close + 3, l->end) : close + 2 + (*close == '+'), *end_close;
    char sign;
    move(l, at);
    while (at < l->end && !is_tag(l, at, "endraw", &sign, &end_close)) at++;
    if (at >= l->end) return zest_jinja_refuse(l->name, line, l->error, "{%% raw %%} has no {%% endraw %%}");
    zest_status status = emit_data(l, at, sign, 0);
    char last = *end_close == '%' ? ' ' : *end_close;
    move(l, after_tag(l, end_close + (last != ' '), last));
    return status;
}

/* ---- Inside of tags ---- */

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static int hex_digits(const char *at, const char *end, int count, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < count; i++, at++) {
        char c = at < end ? (char)(*at | 32) : ' ';
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return 0;
        *code = *code * 16 + (uint32_t)digit;
    }
    return *code <= 0x10FFFF && (*code < 0xD800 || *code >= 0xE000);
}

/* The escape after a backslash at `at`, as in Python; *out is moved. 0: it is none that is supported. */
static const char *escape(const char *at, const char *end, char **out) {
    static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    const char *found = strchr(letters, *at);
    uint32_t code = 0;
    if (*at == '\n') return at + 1;
    if (*at && found) return *(*out)++ = bytes[found - letters], at + 1;
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (digits && hex_digits(at + 1, end, digits, &code)) {
        *out += zest_unicode_write(code, *out);
        return at + 1 + digits;
    }
    if (digits || *at == 'N') return NULL;
    if (*at >= '0' && *at <= '7') {
        const char *stop = at;
        while (stop < end && stop < at + 3 && *stop >= '0' && *stop <= '7')
            code = code * 8 + (uint32_t)(*stop++ - '0');
        *out += zest_unicode_write(code, *out);
        return stop;
    }
    *(*out)++ = '\\'; /* an unknown escape stays as it is */
    return at;
}

static zest_status quoted(lexer *l) {
    char quote = *l->at;
    const char *from = l->at + 1, *stop = from;
    while (stop < l->end && *stop != quote) stop += *stop == '\\' ? 2 : 1;
    if (stop >= l->end) return zest_jinja_refuse(l->name, l->line, l->error, "a string has no end");
    size_t size = (size_t)(stop - from);
    /* "\x80" becomes two bytes out of four, "\U0010FFFF" four out of ten: escapes never grow */
    char *text = zest_jinja_arena_new(l->arena, size + 1), *out = text;
    if (!text) return zest_error_memory(l->error, l->name, size);
    for (const char *at = from; at < stop;) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        at = escape(at + 1, stop, &out);
        if (!at)
            return zest_jinja_refuse(l->name, l->line, l->error,
                                     "a string has an escape that is not supported");
    }
    zest_status status = emit(l, ZEST_JINJA_QUOTED, text, (size_t)(out - text), l->line);
    move(l, stop + 1);
    return status;
}

static zest_status number(lexer *l) {
    const char *at = l->at;
    zest_jinja_token_kind kind = ZEST_JINJA_INTEGER;
    while (at < l->end && (is_digit(*at) || *at == '_')) at++;
    if (l->end - at > 1 && *at == '.' && is_digit(at[1])) {
        kind = ZEST_JINJA_REAL;
        for (at++; at < l->end && (is_digit(*at) || *at == '_');) at++;
    }
    const char *power = at + 1;
    if (power < l->end && (*power == '+' || *power == '-')) power++;
    if (at < l->end && (*at | 32) == 'e' && power < l->end && is_digit(*power)) {
        kind = ZEST_JINJA_REAL;
        for (at = power; at < l->end && is_digit(*at);) at++;
    }
    if (at < l->end && is_letter(*at))
        return zest_jinja_refuse(l->name, l->line, l->error, "a number like this is not supported: '%.*s'",
                                 (int)(at + 1 - l->at), l->at);
    zest_status status = emit(l, kind, l->at, (size_t)(at - l->at), l->line);
    move(l, at);
    return status;
}

static zest_status word(lexer *l) {
    const char *at = l->at;
    while (at < l->end && (is_letter(*at) || is_digit(*at))) at++;
    zest_status status = emit(l, ZEST_JINJA_WORD, l->at, (size_t)(at - l->at), l->line);
    move(l, at);
    return status;
}

/* An operator or a bracket. open counts the brackets that are open. */
static zest_status sign(lexer *l, size_t *open) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    static const char one[] = "+-/*%~[](){}<>=.:|,;";
    size_t size = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two && l->end - l->at > 1; i++)
        if (!memcmp(l->at, two[i], 2)) size = 2;
    if (!size && *l->at && strchr(one, *l->at)) size = 1;
    if (!size)
        return zest_jinja_refuse(l->name, l->line, l->error, "the character 0x%02X is not part of Jinja",
                                 (unsigned)(unsigned char)*l->at);
    if (strchr("([{", *l->at)) ++*open;
    if (strchr(")]}", *l->at)) {
        if (!*open) return zest_jinja_refuse(l->name, l->line, l->error, "unexpected '%c'", *l->at);
        --*open;
    }
    zest_status status = emit(l, ZEST_JINJA_SIGN, l->at, size, l->line);
    move(l, l->at + size);
    return status;
}

/* The end of the tag at `at`, if it is one: "%}" or "}}", perhaps behind a sign. */
static const char *tag_end(const lexer *l, int prints, char *sign_out) {
    const char *at = l->at;
    *sign_out = *at == '-' || (*at == '+' && !prints) ? *at++ : ' ';
    return l->end - at >= 2 && at[0] == (prints ? '}' : '%') && at[1] == '}' ? at : NULL;
}

static zest_status tag(lexer *l, int prints) {
    unsigned line = l->line;
    size_t open = 0;
    zest_status status = emit(l, prints ? ZEST_JINJA_OUTPUT_BEGIN : ZEST_JINJA_BLOCK_BEGIN, l->at, 2, line);
    move(l, l->at + 2 + (l->end - l->at > 2 && (l->at[2] == '-' || l->at[2] == '+')));
    while (!status) {
        move(l, skip_spaces(l->at, l->end));
        if (l->at >= l->end) return zest_jinja_refuse(l->name, line, l->error, "a tag has no end");
        char last, c = *l->at;
        const char *close = open ? NULL : tag_end(l, prints, &last);
        if (close) {
            status = emit(l, prints ? ZEST_JINJA_OUTPUT_END : ZEST_JINJA_BLOCK_END, close, 2, l->line);
            move(l, prints && last != '-' ? close + 2 : after_tag(l, close, last));
            return status;
        }
        status = c == '\'' || c == '"' ? quoted(l)
                 : is_digit(c)         ? number(l)
                 : is_letter(c)        ? word(l)
                                       : sign(l, &open);
    }
    return status;
}

/* ---- The whole text ---- */

/* The next tag of any kind; the end of the text if there is none. */
static const char *find_tag(const lexer *l) {
    for (const char *at = l->at; at < l->end - 1; at++) {
        at = memchr(at, '{', (size_t)(l->end - 1 - at));
        if (!at) break;
        if (at[1] == '{' || at[1] == '%' || at[1] == '#') return at;
    }
    return l->end;
}

static zest_status next_piece(lexer *l) {
    const char *here = find_tag(l), *close;
    char first = l->end - here > 2 && (here[2] == '-' || here[2] == '+') ? here[2] : ' ';
    if (here == l->end) return emit_data(l, here, '+', 1);
    int prints = here[1] == '{';
    zest_status status = emit_data(l, here, first, prints);
    if (status) return status;
    if (here[1] == '#') return comment(l);
    if (!prints && is_tag(l, here, "raw", &first, &close)) return raw(l, close);
    return tag(l, prints);
}

/* All newlines become \n, and one at the end is removed. */
static zest_jinja_text unify_newlines(zest_jinja_arena *arena, zest_jinja_text text) {
    char *copy = zest_jinja_arena_new(arena, text.size + 1), *out = copy;
    for (size_t i = 0; i < text.size && copy; i++) {
        char c = text.data[i];
        if (c == '\r' && i + 1 < text.size && text.data[i + 1] == '\n') continue;
        *out++ = c == '\r' ? '\n' : c;
    }
    if (out > copy && out[-1] == '\n') out--;
    return (zest_jinja_text){copy, copy ? (size_t)(out - copy) : 0};
}

zest_status zest_jinja_lexer_run(zest_jinja_arena *arena, zest_jinja_text text, const char *name,
                                 zest_jinja_tokens *tokens, zest_error *error) {
    text = unify_newlines(arena, text);
    if (!text.data) return zest_error_memory(error, name, text.size);
    lexer l = {.arena = arena,
               .name = name,
               .at = text.data,
               .end = text.data + text.size,
               .line = 1,
               .line_starting = 1,
               .tokens = tokens,
               .error = error};
    zest_status status = ZEST_OK;
    while (!status && l.at < l.end) status = next_piece(&l);
    return status ? status : emit(&l, ZEST_JINJA_END, l.end, 0, l.line);
}
