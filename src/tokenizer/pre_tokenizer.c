/* Pre-tokenizers: splitting of a text into the pre-tokens that BPE or WordPiece encodes. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

/* State of a run. The steps nest: each passes its pieces to the next. */
typedef struct {
    const zest_pre_tokenizer *split;
    zest_pre_tokenizer_scratch *scratch;
    zest_pre_tokenizer_sink sink;
    void *user;
    zest_error *error;
} run_state;

typedef struct {
    const char *text;
    size_t size;
    int first;
} piece;

static zest_status run_step(const run_state *w, size_t k, piece p);

static zest_status split_builtin(const run_state *w, size_t k, piece p) {
    const zest_pre_tokenizer_step *step = &w->split->step[k];
    for (size_t at = 0; at < p.size;) {
        const char *text = p.text + at;
        size_t length = step->kind == ZEST_PRE_TOKENIZER_GPT2
                            ? zest_pre_tokenizer_gpt2(text, p.size - at)
                            : zest_pre_tokenizer_cl100k(text, p.size - at, step->count);
        zest_status status = run_step(w, k + 1, (piece){text, length, p.first && at == 0});
        if (status) return status;
        at += length;
    }
    return ZEST_OK;
}

/* Words, and punctuation characters one by one. */
static zest_status split_bert(const run_state *w, size_t k, piece p) {
    size_t start = 0, length; /* p.text[start, at) is the word so far */
    zest_status status = ZEST_OK;
    for (size_t at = 0; at < p.size && !status; at += length) {
        uint32_t code;
        length = zest_unicode_read(p.text + at, &code);
        int space = (zest_unicode_class(code) & ZEST_UNICODE_SPACE) != 0;
        if (!space && !(zest_unicode_bert_class(code) & ZEST_UNICODE_PUNCTUATION)) continue;
        if (start < at)
            status = run_step(w, k + 1, (piece){p.text + start, at - start, p.first && start == 0});
        if (!space && !status) status = run_step(w, k + 1, (piece){p.text + at, length, p.first && at == 0});
        start = at + length;
    }
    if (start < p.size && !status)
        status = run_step(w, k + 1, (piece){p.text + start, p.size - start, p.first && start == 0});
    return status;
}

/* ---- Splitting at matches ---- */

static int add_span(zest_pre_tokenizer_buffers *buffers, size_t start, size_t end, int match) {
    if (buffers->count == buffers->capacity) {
        size_t capacity = buffers->capacity ? 2 * buffers->capacity : 64;
        zest_pre_tokenizer_span *spans = realloc(buffers->spans, capacity * sizeof *spans);
        if (!spans) return 0;
        buffers->spans = spans;
        buffers->capacity = capacity;
    }
    buffers->spans[buffers->count++] = (zest_pre_tokenizer_span){start, end, match};
    return 1;
}

/* Adds a match and the text skipped before it. */
static int add_match(zest_pre_tokenizer_buffers *buffers, size_t *done, size_t start, size_t end) {
    if (*done < start && !add_span(buffers, *done, start, 0)) return 0;
    *done = end;
    return add_span(buffers, start, end, 1);
}

static zest_status find_matches(const run_state *w, const zest_pre_tokenizer_step *step,
                                zest_pre_tokenizer_buffers *buffers, piece p) {
    size_t done = 0, start, end;
    int ok = 1, found = 1;
    buffers->count = 0;
    if (step->kind == ZEST_PRE_TOKENIZER_REGEX) {
        zest_status status = zest_regex_begin(&buffers->iterator, step->regex, p.text, p.size, w->error);
        while (!status && ok && found) {
            status = zest_regex_next(&buffers->iterator, &found, &start, &end, w->error);
            if (!status && found) ok = add_match(buffers, &done, start, end);
        }
        if (status) return status;
    } else if (step->kind == ZEST_PRE_TOKENIZER_DIGITS) {
        uint32_t code;
        for (size_t at = 0, length; at < p.size && ok; at += length) {
            length = zest_unicode_read(p.text + at, &code);
            if (zest_unicode_class(code) & ZEST_UNICODE_NUMBER)
                ok = add_match(buffers, &done, at, at + length);
        }
    } else { /* the mark of METASPACE or LITERAL */
        const char *at = p.text, *stop = p.text + p.size;
        while (ok && (at = memmem(at, (size_t)(stop - at), step->mark, step->mark_size))) {
            ok = add_match(buffers, &done, (size_t)(at - p.text), (size_t)(at - p.text) + step->mark_size);
            at += step->mark_size;
        }
    }
    if (ok && done < p.size) ok = add_span(buffers, done, p.size, 0);
    return ok ? ZEST_OK
              : zest_error_memory(w->error, "pieces of a text", buffers->capacity * sizeof *buffers->spans);
}

static void merge_contiguous(zest_pre_tokenizer_buffers *buffers) {
    size_t count = 0;
    for (size_t i = 0; i < buffers->count; i++) {
        if (count && buffers->spans[count - 1].match == buffers->spans[i].match)
            buffers->spans[count - 1].end = buffers->spans[i].end;
        else
            buffers->spans[count++] = buffers->spans[i];
    }
    buffers->count = count;
}

/* The first match of a sequence joins the piece before it; the others are pieces of their own. */
static void merge_with_previous(zest_pre_tokenizer_buffers *buffers) {
    size_t count = 0;
    int after_match = 0;
    for (size_t i = 0; i < buffers->count; i++) {
        zest_pre_tokenizer_span span = buffers->spans[i];
        if (span.match && !after_match && count)
            buffers->spans[count - 1].end = span.end;
        else
            buffers->spans[count++] = span;
        after_match = span.match;
    }
    buffers->count = count;
}

static void merge_with_next(zest_pre_tokenizer_buffers *buffers) {
    size_t count = buffers->count;
    int after_match = 0;
    for (size_t i = buffers->count; i-- > 0;) {
        zest_pre_tokenizer_span span = buffers->spans[i];
        if (span.match && !after_match && count < buffers->count)
            buffers->spans[count].start = span.start;
        else
            buffers->spans[--count] = span;
        after_match = span.match;
    }
    buffers->count -= count;
    memmove(buffers->spans, buffers->spans + count, buffers->count * sizeof *buffers->spans);
}

static zest_status split_at_matches(const run_state *w, size_t k, piece p) {
    const zest_pre_tokenizer_step *step = &w->split->step[k];
    zest_pre_tokenizer_buffers *buffers = &w->scratch->step[k];
    zest_status status = find_matches(w, step, buffers, p);
    if (status) return status;
    if (step->invert)
        for (size_t i = 0; i < buffers->count; i++) buffers->spans[i].match = !buffers->spans[i].match;
    if (step->behaviour == ZEST_PRE_TOKENIZER_CONTIGUOUS) merge_contiguous(buffers);
    if (step->behaviour == ZEST_PRE_TOKENIZER_PREVIOUS) merge_with_previous(buffers);
    if (step->behaviour == ZEST_PRE_TOKENIZER_NEXT) merge_with_next(buffers);
    for (size_t i = 0; i < buffers->count && !status; i++) {
        zest_pre_tokenizer_span span = buffers->spans[i];
        if (span.start == span.end || (step->behaviour == ZEST_PRE_TOKENIZER_REMOVED && span.match)) continue;
        piece part = {p.text + span.start, span.end - span.start, p.first && span.start == 0};
        status = run_step(w, k + 1, part);
    }
    return status;
}

/* ---- Steps that change the text ---- */

/* A mark may be longer than the space that it replaces: 16 such steps in a hostile file could make a text 1024^16
 * times longer. */
static zest_status count_made(const run_state *w, const zest_buffer *text) {
    zest_pre_tokenizer_scratch *scratch = w->scratch;
    if (text->failed) return zest_error_memory(w->error, "a piece of text", text->size);
    scratch->made += text->size;
    if (scratch->made <= scratch->limit) return ZEST_OK;
    return zest_error_set(
        w->error, ZEST_ERROR_FORMAT,
        "the pre_tokenizer produces more than %zu bytes from a text; the tokenizer.json is damaged "
        "or hostile",
        scratch->limit);
}

static zest_status prefix_space(const run_state *w, size_t k, piece p) {
    if (p.text[0] == ' ') return run_step(w, k + 1, p);
    zest_buffer *text = &w->scratch->step[k].text;
    text->size = 0;
    zest_buffer_add(text, " ", 1);
    zest_buffer_add(text, p.text, p.size);
    zest_status status = count_made(w, text);
    return status ? status : run_step(w, k + 1, (piece){text->data, text->size, p.first});
}

static zest_status metaspace(const run_state *w, size_t k, piece p) {
    const zest_pre_tokenizer_step *step = &w->split->step[k];
    zest_buffer *text = &w->scratch->step[k].text;
    text->size = 0;
    int marked =
        p.text[0] == ' ' || (p.size >= step->mark_size && !memcmp(p.text, step->mark, step->mark_size));
    if (!marked && (step->prepend == ZEST_PRE_TOKENIZER_ALWAYS ||
                    (step->prepend == ZEST_PRE_TOKENIZER_FIRST && p.first)))
        zest_buffer_add(text, step->mark, step->mark_size);
    const char *at = p.text, *stop = p.text + p.size, *space;
    while (text->size <= w->scratch->limit && (space = memchr(at, ' ', (size_t)(stop - at)))) {
        zest_buffer_add(text, at, (size_t)(space - at));
        zest_buffer_add(text, step->mark, step->mark_size);
        at = space + 1;
    }
    zest_buffer_add(text, at, (size_t)(stop - at));
    zest_status status = count_made(w, text);
    if (status) return status;
    piece changed = {text->data, text->size, p.first};
    return step->whole ? run_step(w, k + 1, changed) : split_at_matches(w, k, changed);
}

static zest_status run_step(const run_state *w, size_t k, piece p) {
    if (k == w->split->count) return w->sink(w->user, p.text, p.size);
    switch (w->split->step[k].kind) {
    case ZEST_PRE_TOKENIZER_PREFIX: return prefix_space(w, k, p);
    case ZEST_PRE_TOKENIZER_GPT2:
    case ZEST_PRE_TOKENIZER_CL100K: return split_builtin(w, k, p);
    case ZEST_PRE_TOKENIZER_METASPACE: return metaspace(w, k, p);
    case ZEST_PRE_TOKENIZER_BERT: return split_bert(w, k, p);
    case ZEST_PRE_TOKENIZER_DIGITS:
    case ZEST_PRE_TOKENIZER_REGEX:
    case ZEST_PRE_TOKENIZER_LITERAL: return split_at_matches(w, k, p);
    }
    return ZEST_OK;
}

zest_status zest_pre_tokenizer_run(const zest_pre_tokenizer *split, zest_pre_tokenizer_scratch *scratch,
                                   const char *text, size_t size, int first, zest_pre_tokenizer_sink sink,
                                   void *user, zest_error *error) {
    run_state w = {split, scratch, sink, user, error};
    if (!scratch->limit) scratch->limit = zest_normalizer_limit(size);
    return size ? run_step(&w, 0, (piece){text, size, first}) : ZEST_OK;
}

void zest_pre_tokenizer_scratch_free(zest_pre_tokenizer_scratch *scratch) {
    for (size_t k = 0; k < ZEST_PRE_TOKENIZER_STEPS; k++) {
        zest_buffer_free(&scratch->step[k].text);
        free(scratch->step[k].spans);
        zest_regex_iterator_free(&scratch->step[k].iterator);
    }
    *scratch = (zest_pre_tokenizer_scratch){0};
}

void zest_pre_tokenizer_free(zest_pre_tokenizer *split) {
    for (size_t k = 0; k < split->count; k++) {
        zest_regex_free(split->step[k].regex);
        free(split->step[k].mark);
    }
    split->count = 0;
}

/* ---- Built-in splitters for well-known patterns: one branch for every alternative, in the same order ---- */

enum { LETTER = ZEST_UNICODE_LETTER, NUMBER = ZEST_UNICODE_NUMBER, SPACE = ZEST_UNICODE_SPACE };
enum { KINDS = LETTER | NUMBER | SPACE };

/* Class of the character at `at`: LETTER, NUMBER, SPACE, or 0 for the rest. */
static inline unsigned kind_at(const char *at, size_t *length) {
    uint32_t code;
    *length = zest_unicode_read(at, &code);
    return zest_unicode_class(code) & KINDS;
}

/* End of the sequence of characters of one class. */
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

/* The same, ignoring case. The long s (U+017F) matches s in a pattern that ignores case. */
static size_t contraction_any_case(const char *text, size_t size) {
    if (size > 2 && text[1] == '\xC5' && text[2] == '\xBF') return 3;
    char lower[3] = {text[0]};
    for (size_t i = 1; i < 3 && i < size; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 32 : text[i]);
    return contraction(lower, size < 3 ? size : 3);
}

/* \s+(?!\S)|\s+: all spaces but the last, which belongs to the next word; all of them when there is
 * one, or at the end of the text. */
static size_t spaces(const char *text, size_t size, size_t *run) {
    size_t at = 0, last = 0, length;
    while (at < size && kind_at(text + at, &length) == SPACE) last = at, at += length;
    *run = at;
    return at == size || last == 0 ? at : last;
}

size_t zest_pre_tokenizer_gpt2(const char *text, size_t size) {
    size_t length, next, run;
    if (text[0] == '\'' && (length = contraction(text, size)) > 0) return length;
    unsigned kind = kind_at(text, &length);
    if (text[0] == ' ' && size > 1) { /* the optional space before a word, a number or punctuation */
        unsigned follows = kind_at(text + 1, &next);
        if (follows != SPACE) return run_of(text, size, 1 + next, follows);
    }
    return kind == SPACE ? spaces(text, size, &run) : run_of(text, size, length, kind);
}

static size_t newlines(const char *text, size_t size, size_t at) {
    while (at < size && (text[at] == '\r' || text[at] == '\n')) at++;
    return at;
}

size_t zest_pre_tokenizer_cl100k(const char *text, size_t size, int digits) {
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
    for (size_t i = run; i-- > 0;) /* \s*[\r\n]+ ends after the last newline of the sequence */
        if (text[i] == '\r' || text[i] == '\n') return i + 1;
    return end;
}
