/* Regular expressions of tokenizer files, matched in time and memory linear in the text: by backtracking, and once that
 * has taken more steps than the text gives reason for, by backtracking that remembers every (step, position) from which it
 * has failed. No lookbehind, no references, no atomic groups: so nothing but the step and the position decides whether the
 * rest matches. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tokenizer/regex_internal.h"
#include "tokenizer/unicode.h"

enum { MAX_PATTERN_SIZE = 1 << 16 };
/* Work that is free, and per byte of the text that has been passed; beyond it failures are remembered. Published patterns take
 * some ten steps a byte. */
enum { FREE_WORK = 4096, WORK_PER_BYTE = 128 };
static const size_t memory_limit = (size_t)1 << 30;

/* ---- Construction ---- */

static int copy_names(zest_regex *regex, const char *pattern, size_t size, const char *source) {
    regex->pattern = strndup(pattern, size);
    regex->source = strdup(source);
    return regex->pattern && regex->source;
}

zest_regex *zest_regex_new(const char *pattern, size_t size, const char *source, zest_error *error) {
    zest_regex_tree *tree = calloc(1, sizeof *tree);
    zest_regex *regex = calloc(1, sizeof *regex);
    zest_status status = ZEST_ERROR_FORMAT;
    const char *problem = NULL;
    if (!tree || !regex || !copy_names(regex, pattern, size, source)) {
        status = zest_error_memory(error, source, size);
    } else if (size > MAX_PATTERN_SIZE) {
        zest_error_set(error, status, "%s: the pattern is longer than %d bytes", source, MAX_PATTERN_SIZE);
    } else {
        zest_regex_parse(tree, pattern, size);
        problem = tree->problem;
        if (tree->failed)
            status = zest_error_memory(error, source, size);
        else if (!problem)
            status = zest_regex_compile(regex, tree, &problem, error);
    }
    if (problem)
        status =
            zest_error_set(error, ZEST_ERROR_FORMAT,
                           "%s: the pattern \"%.200s\" has %s near byte %zu, which is wrong or not supported",
                           source, regex->pattern, problem, tree->position);
    if (tree) zest_regex_tree_free(tree);
    free(tree);
    if (!status) return regex;
    zest_regex_free(regex);
    return NULL;
}

void zest_regex_free(zest_regex *regex) {
    if (!regex) return;
    free(regex->step);
    free(regex->block);
    free(regex->number);
    free(regex->pattern);
    free(regex->source);
    free(regex);
}

/* ---- Matching ---- */

/* Another way: to go on with this step at this place, and for a run at every place down to low as well. */
typedef struct {
    uint32_t step;
    size_t at, low; /* low SIZE_MAX: this place alone */
} other_way;

struct zest_regex_memory {
    other_way *way;
    size_t count, capacity;
    unsigned char *failed; /* bits: columns for each place from base on; NULL: nothing is remembered */
    size_t base, bytes;
    size_t work;
    int out_of_memory;
};

/* A match that is being looked for. */
typedef struct {
    const zest_regex *regex;
    zest_regex_memory *memory;
    const char *text;
    size_t size;
} search;

static inline unsigned number_at(const search *s, size_t at, size_t *length) {
    unsigned char byte = (unsigned char)s->text[at];
    uint32_t code;
    if (byte < 0x80) return *length = 1, s->regex->number[byte];
    *length = zest_unicode_read(s->text + at, &code);
    return s->regex->number[(size_t)s->regex->block[code >> 8] * 256 + (code & 255)];
}

static inline int is_in(const search *s, const zest_regex_classes *set, size_t at, size_t *length) {
    return at < s->size && zest_regex_in(set, number_at(s, at, length));
}

static size_t place_before(const search *s, size_t at) {
    do at--;
    while (at > 0 && ((unsigned char)s->text[at] & 0xC0) == 0x80);
    return at;
}

static void keep_way(const search *s, uint32_t step, size_t at, size_t low) {
    zest_regex_memory *m = s->memory;
    if (m->count == m->capacity) {
        size_t capacity = m->capacity ? 2 * m->capacity : 64;
        other_way *way = realloc(m->way, capacity * sizeof *way);
        if (!way) {
            m->out_of_memory = 1;
            return;
        }
        m->way = way;
        m->capacity = capacity;
    }
    m->way[m->count++] = (other_way){step, at, low};
}

/* Whether this step was here before; remembers that it was. */
static int seen(const search *s, const zest_regex_step *step, size_t at) {
    zest_regex_memory *m = s->memory;
    if (!m->failed) return 0;
    size_t bit = (at - m->base) * s->regex->columns + step->column;
    unsigned char mask = (unsigned char)(1u << bit % 8);
    if (m->failed[bit / 8] & mask) return 1;
    m->failed[bit / 8] |= mask;
    return 0;
}

/* What led to a match at this place did not fail. */
static void forget(const search *s, size_t at) {
    zest_regex_memory *m = s->memory;
    for (size_t c = 0; m->failed && c < s->regex->columns; c++) {
        size_t bit = (at - m->base) * s->regex->columns + c;
        m->failed[bit / 8] &= (unsigned char)~(1u << bit % 8);
    }
}

static int start_remembering(const search *s, size_t base) {
    zest_regex_memory *m = s->memory;
    size_t places = s->size - base + 1, columns = s->regex->columns;
    if (columns && places > memory_limit * 8 / columns) return 0;
    m->bytes = places * columns / 8 + 1;
    m->base = base;
    m->failed = calloc(m->bytes, 1);
    return m->failed != NULL;
}

/* As many as possible, and the shorter ones as other ways; 0: too few, or all that follows has failed before. */
static int take_run(const search *s, uint32_t index, size_t *at) {
    const zest_regex_step *step = &s->regex->step[index];
    size_t length, from = *at, low = from;
    uint32_t count = 0;
    int bounded = step->max != UINT32_MAX, remembers = s->memory->failed && !bounded;
    if (bounded && seen(s, step, from)) return 0;
    for (; count < step->max && is_in(s, &step->set, *at, &length); count++) {
        if (remembers && count >= step->min) {
            if (seen(s, step, *at)) return 0;
            if (!step->possessive) keep_way(s, index + 1, *at, SIZE_MAX);
        }
        *at += length;
        if (count + 1 == step->min) low = *at;
    }
    s->memory->work += count;
    if (count < step->min) return 0;
    if (remembers) return !seen(s, step, *at);
    if (!step->possessive && *at > low) keep_way(s, index + 1, *at, low);
    return 1;
}

/* The next other way; 0: there is none. */
static int next_way(const search *s, uint32_t *step, size_t *at) {
    zest_regex_memory *m = s->memory;
    while (m->count) {
        other_way *way = &m->way[m->count - 1];
        if (way->low == SIZE_MAX) {
            *step = way->step, *at = way->at;
            m->count--;
            return 1;
        }
        if (way->at > way->low) {
            way->at = place_before(s, way->at);
            *step = way->step, *at = way->at;
            return 1;
        }
        m->count--;
    }
    return 0;
}

/* Steps that look but do not move. */
static int holds(const search *s, const zest_regex_step *step, size_t at) {
    size_t length;
    switch ((zest_regex_op)step->op) {
    case ZEST_REGEX_OP_FOLLOWED: return is_in(s, &step->set, at, &length) != step->negated;
    case ZEST_REGEX_OP_LINE_START: return at == 0 || s->text[at - 1] == '\n';
    case ZEST_REGEX_OP_LINE_END: return at == s->size || s->text[at] == '\n';
    case ZEST_REGEX_OP_TEXT_START: return at == 0;
    case ZEST_REGEX_OP_TEXT_END: return at == s->size;
    case ZEST_REGEX_OP_WORD_EDGE: {
        int before = at > 0 && is_in(s, &step->set, place_before(s, at), &length);
        return (before != is_in(s, &step->set, at, &length)) != step->negated;
    }
    default: return 0;
    }
}

/* Which of two ways the next character leaves open: goes on with one and keeps the other. 0: none. */
static int take_split(const search *s, uint32_t *index, size_t at) {
    const zest_regex_step *step = &s->regex->step[*index];
    size_t length;
    if (seen(s, step, at)) return 0;
    unsigned number = at < s->size ? number_at(s, at, &length) : 0;
    int first = step->any[0] || (at < s->size && zest_regex_in(&step->set, number));
    int second = step->any[1] || (at < s->size && zest_regex_in(&step->other_head, number));
    if (first && second) keep_way(s, step->other, at, SIZE_MAX);
    *index = first ? step->to : step->other;
    return first || second;
}

/* The end of the match that starts here; SIZE_MAX: there is none, or the work exceeds what is allowed. */
static size_t match_here(const search *s, size_t start, size_t allowed) {
    zest_regex_memory *m = s->memory;
    const zest_regex_step *steps = s->regex->step;
    uint32_t index = 0;
    size_t at = start, length;
    m->count = 0;
    for (;;) {
        int ok;
        const zest_regex_step *step = &steps[index];
        if (++m->work > allowed || m->out_of_memory) return SIZE_MAX;
        switch ((zest_regex_op)step->op) {
        case ZEST_REGEX_OP_MATCH: return at;
        case ZEST_REGEX_OP_SET:
            if ((ok = is_in(s, &step->set, at, &length))) at += length, index++;
            break;
        case ZEST_REGEX_OP_RUN:
            ok = take_run(s, index, &at);
            index++;
            break;
        case ZEST_REGEX_OP_SPLIT: ok = take_split(s, &index, at); break;
        case ZEST_REGEX_OP_JUMP: index = step->to, ok = 1; break;
        default:
            ok = holds(s, step, at);
            index++;
            break;
        }
        if (!ok && !next_way(s, &index, &at)) return SIZE_MAX;
    }
}

/* ---- Iteration ---- */

zest_status zest_regex_begin(zest_regex_iterator *iterator, const zest_regex *regex, const char *text,
                             size_t size, zest_error *error) {
    zest_regex_memory *memory = iterator->memory ? iterator->memory : calloc(1, sizeof *memory);
    if (!memory) return zest_error_memory(error, regex->source, sizeof *memory);
    free(memory->failed);
    memory->failed = NULL;
    memory->work = 0;
    *iterator = (zest_regex_iterator){regex, memory, text, size, 0, SIZE_MAX};
    return ZEST_OK;
}

/* The first match at or after this place; *start SIZE_MAX: there is none. */
static zest_status find(const search *s, size_t from, size_t *start, size_t *end, zest_error *error) {
    zest_regex_memory *m = s->memory;
    size_t length = 1, allowed;
    for (size_t at = from; at <= s->size; at += at < s->size ? (number_at(s, at, &length), length) : 1) {
        if (!s->regex->any && !is_in(s, &s->regex->head, at, &length)) continue;
        allowed = m->failed ? SIZE_MAX : FREE_WORK + WORK_PER_BYTE * at;
        *end = match_here(s, at, allowed);
        if (*end == SIZE_MAX && m->work > allowed && !m->out_of_memory) {
            if (!start_remembering(s, at)) m->out_of_memory = 1;
            *end = match_here(s, at, SIZE_MAX);
        }
        if (m->out_of_memory) return zest_error_memory(error, s->regex->source, m->bytes);
        if (*end == SIZE_MAX) continue;
        forget(s, *end);
        *start = at;
        return ZEST_OK;
    }
    *start = SIZE_MAX;
    return ZEST_OK;
}

zest_status zest_regex_next(zest_regex_iterator *iterator, int *found, size_t *start, size_t *end,
                            zest_error *error) {
    const search s = {iterator->regex, iterator->memory, iterator->text, iterator->size};
    *found = 0;
    while (iterator->from <= iterator->size) {
        zest_status status = find(&s, iterator->from, start, end, error);
        if (status) return status;
        if (*start == SIZE_MAX) break;
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
    iterator->from = iterator->size + 1;
    return ZEST_OK;
}

size_t zest_regex_work(const zest_regex_iterator *iterator) {
    return iterator->memory ? iterator->memory->work : 0;
}

void zest_regex_iterator_free(zest_regex_iterator *iterator) {
    if (iterator->memory) {
        free(iterator->memory->way);
        free(iterator->memory->failed);
    }
    free(iterator->memory);
    *iterator = (zest_regex_iterator){0};
}
