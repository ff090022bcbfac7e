#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

/* One walk over a text: the steps nest, each handing its pieces to the next. */
typedef struct {
    const zest_presplit *split;
    zest_presplit_scratch *scratch;
    zest_presplit_sink sink;
    void *user;
    zest_error *error;
} walk;

typedef struct {
    const char *text;
    size_t size;
    int first;
} piece;

static zest_status run_step(const walk *w, size_t k, piece p);

static zest_status cut_by_hand(const walk *w, size_t k, piece p) {
    const zest_presplit_step *step = &w->split->step[k];
    for (size_t at = 0; at < p.size;) {
        const char *text = p.text + at;
        size_t length = step->kind == ZEST_PRESPLIT_GPT2
                            ? zest_presplit_gpt2(text, p.size - at)
                            : zest_presplit_cl100k(text, p.size - at, step->count);
        zest_status status = run_step(w, k + 1, (piece){text, length, p.first && at == 0});
        if (status) return status;
        at += length;
    }
    return ZEST_OK;
}

/* Words, and punctuation one by one. */
static zest_status cut_words(const walk *w, size_t k, piece p) {
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

/* ---- Matches, then what to do with them --------------------------------------------------------------- */

static int add_span(zest_presplit_room *room, size_t start, size_t end, int match) {
    if (room->count == room->capacity) {
        size_t capacity = room->capacity ? 2 * room->capacity : 64;
        zest_presplit_span *spans = realloc(room->spans, capacity * sizeof *spans);
        if (!spans) return 0;
        room->spans = spans;
        room->capacity = capacity;
    }
    room->spans[room->count++] = (zest_presplit_span){start, end, match};
    return 1;
}

/* A match, and what was skipped before it. */
static int add_match(zest_presplit_room *room, size_t *done, size_t start, size_t end) {
    if (*done < start && !add_span(room, *done, start, 0)) return 0;
    *done = end;
    return add_span(room, start, end, 1);
}

static zest_status find_matches(const walk *w, const zest_presplit_step *step, zest_presplit_room *room,
                                piece p) {
    size_t done = 0, start, end;
    int ok = 1, found = 1;
    room->count = 0;
    if (step->kind == ZEST_PRESPLIT_REGEX) {
        zest_status status = zest_regex_begin(&room->walk, step->regex, p.text, p.size, w->error);
        while (!status && ok && found) {
            status = zest_regex_next(&room->walk, &found, &start, &end, w->error);
            if (!status && found) ok = add_match(room, &done, start, end);
        }
        if (status) return status;
    } else if (step->kind == ZEST_PRESPLIT_DIGITS) {
        uint32_t code;
        for (size_t at = 0, length; at < p.size && ok; at += length) {
            length = zest_unicode_read(p.text + at, &code);
            if (zest_unicode_class(code) & ZEST_UNICODE_NUMBER) ok = add_match(room, &done, at, at + length);
        }
    } else { /* marks: those of METASPACE and LITERAL */
        const char *at = p.text, *stop = p.text + p.size;
        while (ok && (at = memmem(at, (size_t)(stop - at), step->mark, step->mark_size))) {
            ok = add_match(room, &done, (size_t)(at - p.text), (size_t)(at - p.text) + step->mark_size);
            at += step->mark_size;
        }
    }
    if (ok && done < p.size) ok = add_span(room, done, p.size, 0);
    return ok ? ZEST_OK
              : zest_error_memory(w->error, "pieces of a text", room->capacity * sizeof *room->spans);
}

static void merge_contiguous(zest_presplit_room *room) {
    size_t kept = 0;
    for (size_t i = 0; i < room->count; i++) {
        if (kept && room->spans[kept - 1].match == room->spans[i].match)
            room->spans[kept - 1].end = room->spans[i].end;
        else
            room->spans[kept++] = room->spans[i];
    }
    room->count = kept;
}

/* The first match of a row joins the piece before it; the others stand alone. */
static void merge_with_previous(zest_presplit_room *room) {
    size_t kept = 0;
    int after_match = 0;
    for (size_t i = 0; i < room->count; i++) {
        zest_presplit_span span = room->spans[i];
        if (span.match && !after_match && kept)
            room->spans[kept - 1].end = span.end;
        else
            room->spans[kept++] = span;
        after_match = span.match;
    }
    room->count = kept;
}

static void merge_with_next(zest_presplit_room *room) {
    size_t kept = room->count;
    int after_match = 0;
    for (size_t i = room->count; i-- > 0;) {
        zest_presplit_span span = room->spans[i];
        if (span.match && !after_match && kept < room->count)
            room->spans[kept].start = span.start;
        else
            room->spans[--kept] = span;
        after_match = span.match;
    }
    room->count -= kept;
    memmove(room->spans, room->spans + kept, room->count * sizeof *room->spans);
}

static zest_status cut_at_matches(const walk *w, size_t k, piece p) {
    const zest_presplit_step *step = &w->split->step[k];
    zest_presplit_room *room = &w->scratch->room[k];
    zest_status status = find_matches(w, step, room, p);
    if (status) return status;
    if (step->invert)
        for (size_t i = 0; i < room->count; i++) room->spans[i].match = !room->spans[i].match;
    if (step->behaviour == ZEST_PRESPLIT_CONTIGUOUS) merge_contiguous(room);
    if (step->behaviour == ZEST_PRESPLIT_PREVIOUS) merge_with_previous(room);
    if (step->behaviour == ZEST_PRESPLIT_NEXT) merge_with_next(room);
    for (size_t i = 0; i < room->count && !status; i++) {
        zest_presplit_span span = room->spans[i];
        if (span.start == span.end || (step->behaviour == ZEST_PRESPLIT_REMOVED && span.match)) continue;
        piece part = {p.text + span.start, span.end - span.start, p.first && span.start == 0};
        status = run_step(w, k + 1, part);
    }
    return status;
}

/* ---- Steps that change the text ----------------------------------------------------------------------- */

static zest_status prefix_space(const walk *w, size_t k, piece p) {
    if (p.text[0] == ' ') return run_step(w, k + 1, p);
    zest_buffer *text = &w->scratch->room[k].text;
    text->size = 0;
    zest_buffer_add(text, " ", 1);
    zest_buffer_add(text, p.text, p.size);
    if (text->failed) return zest_error_memory(w->error, "a piece of text", p.size + 1);
    return run_step(w, k + 1, (piece){text->data, text->size, p.first});
}

static zest_status metaspace(const walk *w, size_t k, piece p) {
    const zest_presplit_step *step = &w->split->step[k];
    zest_buffer *text = &w->scratch->room[k].text;
    text->size = 0;
    int marked =
        p.text[0] == ' ' || (p.size >= step->mark_size && !memcmp(p.text, step->mark, step->mark_size));
    if (!marked &&
        (step->prepend == ZEST_PRESPLIT_ALWAYS || (step->prepend == ZEST_PRESPLIT_FIRST && p.first)))
        zest_buffer_add(text, step->mark, step->mark_size);
    const char *at = p.text, *stop = p.text + p.size, *space;
    while ((space = memchr(at, ' ', (size_t)(stop - at)))) {
        zest_buffer_add(text, at, (size_t)(space - at));
        zest_buffer_add(text, step->mark, step->mark_size);
        at = space + 1;
    }
    zest_buffer_add(text, at, (size_t)(stop - at));
    if (text->failed) return zest_error_memory(w->error, "a piece of text", p.size);
    piece changed = {text->data, text->size, p.first};
    return step->whole ? run_step(w, k + 1, changed) : cut_at_matches(w, k, changed);
}

static zest_status run_step(const walk *w, size_t k, piece p) {
    if (k == w->split->count) return w->sink(w->user, p.text, p.size);
    switch (w->split->step[k].kind) {
    case ZEST_PRESPLIT_PREFIX: return prefix_space(w, k, p);
    case ZEST_PRESPLIT_GPT2:
    case ZEST_PRESPLIT_CL100K: return cut_by_hand(w, k, p);
    case ZEST_PRESPLIT_METASPACE: return metaspace(w, k, p);
    case ZEST_PRESPLIT_BERT: return cut_words(w, k, p);
    case ZEST_PRESPLIT_DIGITS:
    case ZEST_PRESPLIT_REGEX:
    case ZEST_PRESPLIT_LITERAL: return cut_at_matches(w, k, p);
    }
    return ZEST_OK;
}

zest_status zest_presplit_run(const zest_presplit *split, zest_presplit_scratch *scratch, const char *text,
                              size_t size, int first, zest_presplit_sink sink, void *user,
                              zest_error *error) {
    walk w = {split, scratch, sink, user, error};
    return size ? run_step(&w, 0, (piece){text, size, first}) : ZEST_OK;
}

void zest_presplit_scratch_free(zest_presplit_scratch *scratch) {
    for (size_t k = 0; k < ZEST_PRESPLIT_STEPS; k++) {
        zest_buffer_free(&scratch->room[k].text);
        free(scratch->room[k].spans);
        zest_regex_walk_free(&scratch->room[k].walk);
    }
    *scratch = (zest_presplit_scratch){0};
}

void zest_presplit_free(zest_presplit *split) {
    for (size_t k = 0; k < split->count; k++) {
        zest_regex_free(split->step[k].regex);
        free(split->step[k].mark);
    }
    split->count = 0;
}

/* The well-known patterns by hand. Every alternative of the pattern is a branch below, in the same order. */

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
