/* Templates: parsing, filters, and rendering with a row. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "task/template.h"
#include "tokenizer/unicode.h"

/* Whether the text may grow by so many bytes; otherwise rendering ends. */
static int may_grow(const zest_template_values *values, zest_buffer *text, size_t more) {
    if (text->size <= values->limit && more <= values->limit - text->size) return 1;
    *values->too_long = 1;
    text->failed = 1;
    return 0;
}

static const char *field_text(const zest_template_node *node, const zest_template_values *values) {
    size_t count = 0;
    int field = zest_rows_field(values->rows, node->text);
    const char *const *texts = field < 0 ? NULL : zest_rows_get(values->rows, values->row, field, &count);
    return count ? texts[0] : "";
}

static void render_node(const zest_template_node *node, const zest_template_values *values,
                        zest_buffer *out) {
    const char *text = node->kind == ZEST_TEMPLATE_NODE_TEXT     ? node->text
                       : node->kind == ZEST_TEMPLATE_NODE_FIELD  ? field_text(node, values)
                       : node->kind == ZEST_TEMPLATE_NODE_ANSWER ? values->answer
                       : node->kind == ZEST_TEMPLATE_NODE_OPTION ? values->option
                                                                 : NULL;
    size_t from = out->size, size = text ? strlen(text) : 0;
    if (!may_grow(values, out, size)) return;
    if (zest_unicode_valid(text ? text : "", size) < size)
        zest_unicode_repair(text, size, out);
    else
        zest_buffer_add(out, text ? text : "", size);
    for (size_t c = 0; c < node->filter_count && !out->failed; c++)
        zest_template_apply_filter(&node->filters[c], values, out, from);
}

void zest_template_write(const zest_template *t, size_t first, size_t end, const zest_template_values *values,
                         zest_buffer *out) {
    for (size_t i = first; i < end && !out->failed; i++) render_node(&t->nodes[i], values, out);
}

/* ---- Rendering for causal models ---- */

/* Strips spaces (no other white space) from both ends of the text from `from` on. */
static void strip_spaces(zest_buffer *out, size_t from) {
    if (out->failed || !out->data) return;
    size_t at = from;
    while (out->size > from && out->data[out->size - 1] == ' ') out->size--;
    while (at < out->size && out->data[at] == ' ') at++;
    memmove(out->data + from, out->data + at, out->size - at);
    out->size -= at - from;
    out->data[out->size] = 0;
}

static zest_status finish(const zest_template *t, int too_long, const zest_buffer *out, zest_error *error) {
    if (too_long)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: template '%.200s' makes more than %d MiB of text from one row; use fewer fields "
            "or replacements",
            t->source, t->text, ZEST_TEMPLATE_MAX_TEXT >> 20);
    return out->failed || !out->data ? zest_error_memory(error, "a prompt", out->size) : ZEST_OK;
}

zest_status zest_template_render(const zest_template *t, const zest_rows *rows, size_t row,
                                 const char *answer, zest_buffer *out, zest_error *error) {
    int too_long = 0;
    size_t from = out->size, end = t->count;
    zest_template_values values = {.rows = rows,
                                   .row = row,
                                   .answer = answer,
                                   .limit = from + ZEST_TEMPLATE_MAX_TEXT,
                                   .too_long = &too_long};
    for (size_t i = 0; i < t->count && !answer; i++)
        if (t->nodes[i].kind == ZEST_TEMPLATE_NODE_ANSWER) end = i < end ? i : end;
    zest_buffer_text(out, "");
    zest_template_write(t, 0, end, &values, out);
    strip_spaces(out, from);
    if (!out->failed && out->data) zest_template_strip_start(out, from);
    return finish(t, too_long, out, error);
}

zest_status zest_template_render_option(const zest_template *t, const zest_rows *rows, size_t row,
                                        const char *option, zest_buffer *out, zest_error *error) {
    int too_long = 0;
    size_t from = out->size;
    zest_template_values values = {.rows = rows,
                                   .row = row,
                                   .option = option,
                                   .limit = from + ZEST_TEMPLATE_MAX_TEXT,
                                   .too_long = &too_long};
    zest_buffer_text(out, "");
    zest_template_write(t, 0, t->count, &values, out);
    strip_spaces(out, from);
    return finish(t, too_long, out, error);
}

/* ---- Rendering for masked models ---- */

static zest_status add_segment(zest_template_segments *segments, zest_template_segment segment,
                               zest_error *error) {
    if (segments->count == segments->capacity) {
        size_t capacity = segments->capacity ? 2 * segments->capacity : 8;
        zest_template_segment *more = realloc(segments->segments, capacity * sizeof *more);
        if (!more) return zest_error_memory(error, "the pieces of a prompt", capacity * sizeof *more);
        segments->segments = more;
        segments->capacity = capacity;
    }
    segments->segments[segments->count++] = segment;
    return ZEST_OK;
}

static const char *first_field(const zest_template *t) {
    for (size_t i = 0; i < t->count; i++)
        if (t->nodes[i].kind == ZEST_TEMPLATE_NODE_FIELD) return t->nodes[i].text;
    return "";
}

/* Removes a space at the end of a literal: before a field it is encoded with the field, before the mask it
 * is part of the label words. */
static void move_space(const zest_template *t, size_t i, zest_template_segment *segment, zest_buffer *text) {
    if (i + 1 == t->count || !segment->size || text->data[text->size - 1] != ' ') return;
    zest_template_node_kind next = t->nodes[i + 1].kind;
    segment->size -= next == ZEST_TEMPLATE_NODE_FIELD || next == ZEST_TEMPLATE_NODE_MASK;
    text->size -= next == ZEST_TEMPLATE_NODE_MASK;
}

static zest_template_segment make_segment(const zest_template *t, size_t i,
                                          const zest_template_values *values, size_t left,
                                          zest_buffer *text) {
    const zest_template_node *node = &t->nodes[i];
    zest_template_segment segment = {.kind = ZEST_TEMPLATE_MASK, .first = text->size};
    zest_template_write(t, i, i + 1, values, text);
    segment.size = text->size - segment.first;
    if (node->kind == ZEST_TEMPLATE_NODE_TEXT) {
        segment.kind = ZEST_TEMPLATE_TEXT;
        if (!text->failed) move_space(t, i, &segment, text);
    } else if (node->kind == ZEST_TEMPLATE_NODE_FIELD) {
        segment.kind = ZEST_TEMPLATE_FIELD;
        segment.size += segment.first - left;
        segment.first = left;
        segment.other = strcmp(node->text, first_field(t)) != 0;
    }
    return segment;
}

zest_status zest_template_render_segments(const zest_template *t, const zest_rows *rows, size_t row,
                                          zest_template_segments *segments, zest_error *error) {
    int too_long = 0;
    zest_template_values values = {
        .rows = rows, .row = row, .limit = ZEST_TEMPLATE_MAX_TEXT, .too_long = &too_long};
    zest_status status = ZEST_OK;
    size_t left = 0; /* end of the previous segment: a space removed from it may follow */
    segments->count = segments->text.size = 0;
    zest_buffer_text(&segments->text, "");
    for (size_t i = 0; i < t->count && !status; i++) {
        zest_template_segment segment = make_segment(t, i, &values, left, &segments->text);
        left = segment.first + segment.size;
        status = add_segment(segments, segment, error);
    }
    return status ? status : finish(t, too_long, &segments->text, error);
}

void zest_template_segments_free(zest_template_segments *segments) {
    zest_buffer_free(&segments->text);
    free(segments->segments);
    *segments = (zest_template_segments){0};
}

/* ---- Filters ---- */

const char *const zest_template_filter_names[ZEST_TEMPLATE_NAMED] = {
    [ZEST_TEMPLATE_STRIP] = "strip",
    [ZEST_TEMPLATE_STRIP_END] = "strip-end",
    [ZEST_TEMPLATE_DROP_LAST] = "drop-last",
    [ZEST_TEMPLATE_DROP_DOT] = "drop-dot",
    [ZEST_TEMPLATE_QUESTION_MARK] = "question-mark",
    [ZEST_TEMPLATE_LOWER_FIRST] = "lower-first",
    [ZEST_TEMPLATE_UPPER_FIRST] = "upper-first",
    [ZEST_TEMPLATE_LOWER] = "lower",
    [ZEST_TEMPLATE_LOWER_WORD] = "lower-word",
};

/* Upper-case letters first .. last in steps of `step` have their lower case at an offset of `shift`.
 * Letters without a reversible single lower case are omitted (U+0130, U+1E9E). */
static const struct {
    uint32_t first, last;
    int32_t shift;
    uint32_t step;
} capitals[] = {
    {0x41, 0x5A, 32, 1},    {0xC0, 0xD6, 32, 1},    {0xD8, 0xDE, 32, 1},     {0x100, 0x12E, 1, 2},
    {0x132, 0x136, 1, 2},   {0x139, 0x147, 1, 2},   {0x14A, 0x176, 1, 2},    {0x178, 0x178, -121, 1},
    {0x179, 0x17D, 1, 2},   {0x1A0, 0x1A4, 1, 2},   {0x1AF, 0x1AF, 1, 1},    {0x1CD, 0x1DB, 1, 2},
    {0x1DE, 0x1EE, 1, 2},   {0x1F8, 0x21E, 1, 2},   {0x386, 0x386, 38, 1},   {0x388, 0x38A, 37, 1},
    {0x38C, 0x38C, 64, 1},  {0x38E, 0x38F, 63, 1},  {0x391, 0x3A1, 32, 1},   {0x3A3, 0x3AB, 32, 1},
    {0x400, 0x40F, 80, 1},  {0x410, 0x42F, 32, 1},  {0x460, 0x480, 1, 2},    {0x48A, 0x4BE, 1, 2},
    {0x4C0, 0x4C0, 15, 1},  {0x4C1, 0x4CD, 1, 2},   {0x4D0, 0x52E, 1, 2},    {0x531, 0x556, 48, 1},
    {0x1E00, 0x1E94, 1, 2}, {0x1EA0, 0x1EFE, 1, 2}, {0xFF21, 0xFF3A, 32, 1},
};

uint32_t zest_template_lower(uint32_t code) {
    for (size_t i = 0; i < sizeof capitals / sizeof *capitals && capitals[i].first <= code; i++)
        if (code <= capitals[i].last && (code - capitals[i].first) % capitals[i].step == 0)
            return code + (uint32_t)capitals[i].shift;
    return code;
}

uint32_t zest_template_upper(uint32_t code) {
    for (size_t i = 0; i < sizeof capitals / sizeof *capitals; i++) {
        uint32_t capital = code - (uint32_t)capitals[i].shift;
        if (capital >= capitals[i].first && capital <= capitals[i].last &&
            (capital - capitals[i].first) % capitals[i].step == 0)
            return capital;
    }
    return code;
}

int zest_template_is_space(uint32_t code) {
    if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
    return (zest_unicode_class(code) & ZEST_UNICODE_SPACE) != 0;
}

/* The last character before `end`, and its offset. */
static size_t last_character(const char *text, size_t end, uint32_t *code) {
    size_t at = end - 1;
    while (at && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
    zest_unicode_read(text + at, code);
    return at;
}

/* Replaces bytes at .. end-1 of the buffer by these bytes. */
static void replace(zest_buffer *text, size_t at, size_t end, const char *bytes, size_t size) {
    size_t tail = text->size - end, new_end = at + size;
    if (size == end - at) { /* moving the tail for every character of a text would be quadratic */
        memcpy(text->data + at, bytes, size);
        return;
    }
    if (size > end - at) {
        zest_buffer_add(text, bytes, size - (end - at)); /* only to grow the buffer */
        if (text->failed) return;
    }
    memmove(text->data + new_end, text->data + end, tail);
    memcpy(text->data + at, bytes, size);
    text->size = new_end + tail;
    text->data[text->size] = 0;
}

static void strip_end(zest_buffer *text, size_t from) {
    uint32_t code;
    while (text->size > from) {
        size_t at = last_character(text->data, text->size, &code);
        if (!zest_template_is_space(code)) break;
        text->size = at;
    }
    text->data[text->size] = 0;
}

void zest_template_strip_start(zest_buffer *text, size_t from) {
    size_t at = from;
    uint32_t code;
    while (at < text->size) {
        size_t length = zest_unicode_read(text->data + at, &code);
        if (!zest_template_is_space(code)) break;
        at += length;
    }
    replace(text, from, at, "", 0);
}

/* Maps the characters from `at` to `end`. The length in bytes rarely changes. */
static void map(zest_buffer *text, size_t at, size_t end, uint32_t (*mapping)(uint32_t)) {
    while (at < end && !text->failed) {
        char bytes[4];
        uint32_t code;
        size_t length = zest_unicode_read(text->data + at, &code), size;
        uint32_t mapped = mapping(code);
        if (mapped == code) {
            at += length;
            continue;
        }
        size = zest_unicode_write(mapped, bytes);
        replace(text, at, at + length, bytes, size);
        at += size;
        end = end - length + size;
    }
}

static void lower_word(zest_buffer *text, size_t from) {
    const char *space = memchr(text->data + from, ' ', text->size - from);
    size_t end = space ? (size_t)(space - text->data) : text->size;
    if (end - from == 1 && text->data[from] == 'I') return;
    map(text, from, end, zest_template_lower);
}

static void replace_all(const zest_template_filter *filter, const zest_template_values *values,
                        zest_buffer *text, size_t from) {
    zest_buffer to = {0}, out = {0};
    size_t size = strlen(filter->from);
    zest_buffer_text(&to, "");
    zest_template_write(filter->to, 0, filter->to->count, values, &to);
    if (to.failed) text->failed = 1;
    size_t at = from;
    while (!text->failed && at < text->size) {
        const char *rest = text->data + at; /* sanitizers check all of it at each call of memmem */
        const char *found = size == 1 ? memchr(rest, *filter->from, text->size - at)
                                      : memmem(rest, text->size - at, filter->from, size);
        size_t end = found ? (size_t)(found - text->data) : text->size;
        if (!may_grow(values, &out, end - at + to.size)) break;
        zest_buffer_add(&out, text->data + at, end - at);
        if (found) zest_buffer_add(&out, to.data, to.size);
        at = found ? end + size : end;
    }
    if (out.failed) text->failed = 1;
    if (!text->failed) {
        text->size = from;
        zest_buffer_add(text, out.data ? out.data : "", out.size);
    }
    zest_buffer_free(&out);
    zest_buffer_free(&to);
}

void zest_template_apply_filter(const zest_template_filter *filter, const zest_template_values *values,
                                zest_buffer *text, size_t from) {
    uint32_t code = 0;
    size_t last = text->size > from ? last_character(text->data, text->size, &code) : from;
    size_t first_end = text->size > from ? from + zest_unicode_read(text->data + from, &code) : from;
    char end = text->size > from ? text->data[text->size - 1] : 0;
    switch (filter->kind) {
    case ZEST_TEMPLATE_STRIP: strip_end(text, from), zest_template_strip_start(text, from); break;
    case ZEST_TEMPLATE_STRIP_END: strip_end(text, from); break;
    case ZEST_TEMPLATE_DROP_LAST: replace(text, last, text->size, "", 0); break;
    case ZEST_TEMPLATE_DROP_DOT:
        if (end == '.') replace(text, last, text->size, "", 0);
        break;
    case ZEST_TEMPLATE_QUESTION_MARK:
        if (end != '?') zest_buffer_text(text, "?");
        break;
    case ZEST_TEMPLATE_LOWER_FIRST: map(text, from, first_end, zest_template_lower); break;
    case ZEST_TEMPLATE_UPPER_FIRST: map(text, from, first_end, zest_template_upper); break;
    case ZEST_TEMPLATE_LOWER: map(text, from, text->size, zest_template_lower); break;
    case ZEST_TEMPLATE_LOWER_WORD: lower_word(text, from); break;
    case ZEST_TEMPLATE_REPLACE: replace_all(filter, values, text, from); break;
    }
}

/* ---- Parsing ---- */

typedef struct {
    const char *source, *text;
    int depth; /* of replacements, in which only fields and options are allowed */
    zest_error *error;
} parser;

static zest_status refuse(const parser *p, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static zest_status refuse(const parser *p, size_t at, const char *format, ...) {
    zest_buffer what = {0};
    size_t character = 1;
    va_list arguments;
    for (size_t i = 0; i < at; i++) character += ((unsigned char)p->text[i] & 0xC0) != 0x80;
    va_start(arguments, format);
    zest_buffer_vformat(&what, format, arguments);
    va_end(arguments);
    zest_status status =
        zest_error_set(p->error, ZEST_ERROR_ARGUMENT, "%s: template '%.200s', character %zu: %s", p->source,
                       p->text, character, what.failed || !what.data ? "it cannot be parsed" : what.data);
    zest_buffer_free(&what);
    return status;
}

static zest_status no_memory(const parser *p) {
    return zest_error_memory(p->error, "a template", strlen(p->text));
}

static zest_status refuse_change(const parser *p, size_t at, size_t size) {
    const char *nearest = NULL;
    size_t min_distance = 4; /* a larger distance is not a typing mistake */
    zest_buffer known = {0};
    for (size_t i = 0; i < ZEST_TEMPLATE_NAMED; i++) {
        const char *name = zest_template_filter_names[i];
        size_t d = zest_edit_distance(p->text + at, size, name);
        if (d < min_distance) min_distance = d, nearest = name;
        zest_buffer_format(&known, "%s, ", name);
    }
    zest_status status = refuse(p, at, "unknown filter '%.*s'%s%s%s; the filters are %sand old=>new",
                                (int)size, p->text + at, nearest ? "; did you mean '" : "",
                                nearest ? nearest : "", nearest ? "'?" : "", known.data ? known.data : "");
    zest_buffer_free(&known);
    return status;
}

/* Appends one character with its escape resolved, and advances. */
static zest_status read_character(const parser *p, size_t *at, size_t end, zest_buffer *out) {
    static const char escaped[] = "nt\\|{}", meant[] = "\n\t\\|{}";
    const char *text = p->text;
    if (text[*at] != '\\') {
        zest_buffer_add(out, text + (*at)++, 1);
        return ZEST_OK;
    }
    const char *found = *at + 1 < end ? strchr(escaped, text[*at + 1]) : NULL;
    if (!found || !*found)
        return refuse(
            p, *at, "a backslash must be followed by n, t, |, {, } or another backslash; write \\\\ for one");
    zest_buffer_add(out, &meant[found - escaped], 1);
    *at += 2;
    return ZEST_OK;
}

/* The range with escapes resolved, to be freed. */
static zest_status read_text(const parser *p, size_t at, size_t end, char **out) {
    zest_buffer text = {0};
    zest_status status = ZEST_OK;
    zest_buffer_text(&text, "");
    while (at < end && !status) status = read_character(p, &at, end, &text);
    if (!status && (text.failed || !text.data)) status = no_memory(p);
    if (status) zest_buffer_free(&text);
    *out = status ? NULL : text.data;
    return status;
}

static void trim(const char *text, size_t *at, size_t *end) {
    while (*at < *end && text[*at] == ' ') ++*at;
    while (*at < *end && text[*end - 1] == ' ') --*end;
}

/* The first position of one of `signs` outside inner braces, or end. */
static size_t find_outside(const char *text, size_t at, size_t end, const char *signs) {
    size_t size = strlen(signs);
    for (int depth = 0; at < end; at++) {
        if (text[at] == '\\' && at + 1 < end) {
            at++;
            continue;
        }
        if (!depth && end - at >= size && !memcmp(text + at, signs, size)) return at;
        depth += (text[at] == '{') - (text[at] == '}');
    }
    return end;
}

static zest_status parse(parser *p, size_t at, size_t end, zest_template **out);

static zest_template_node *add_node(zest_template *t, zest_template_node_kind kind, size_t at) {
    zest_template_node *more = realloc(t->nodes, (t->count + 1) * sizeof *more);
    if (!more) return NULL;
    t->nodes = more;
    more[t->count] = (zest_template_node){.kind = kind, .at = at};
    return &more[t->count++];
}

static zest_status add_replacement(parser *p, size_t at, size_t arrow, size_t end,
                                   zest_template_filter *filter) {
    if (arrow == at) return refuse(p, at, "there is nothing before '=>'; write old=>new");
    if (p->depth == ZEST_TEMPLATE_MAX_DEPTH)
        return refuse(p, at, "replacements may be nested %d deep, not deeper", ZEST_TEMPLATE_MAX_DEPTH);
    filter->kind = ZEST_TEMPLATE_REPLACE;
    zest_status status = read_text(p, at, arrow, &filter->from);
    p->depth++;
    if (!status) status = parse(p, arrow + 2, end, &filter->to);
    p->depth--;
    return status;
}

static zest_status add_change(parser *p, size_t at, size_t end, zest_template_node *node) {
    size_t arrow = find_outside(p->text, at, end, "=>");
    zest_template_filter *more = realloc(node->filters, (node->filter_count + 1) * sizeof *more);
    if (!more) return no_memory(p);
    node->filters = more;
    zest_template_filter *filter = &more[node->filter_count++];
    *filter = (zest_template_filter){0};
    if (arrow < end) return add_replacement(p, at, arrow, end, filter);
    trim(p->text, &at, &end);
    for (size_t i = 0; i < ZEST_TEMPLATE_NAMED; i++) {
        const char *name = zest_template_filter_names[i];
        if (strlen(name) != end - at || memcmp(name, p->text + at, end - at) != 0) continue;
        filter->kind = (zest_template_filter_kind)i;
        return ZEST_OK;
    }
    return refuse_change(p, at, end - at);
}

static int is_word(const char *text, size_t at, size_t end, const char *word) {
    return strlen(word) == end - at && !memcmp(text + at, word, end - at);
}

static zest_status add_name(const parser *p, size_t at, size_t end, zest_template *t,
                            zest_template_node **out) {
    size_t brace = at - 1;
    trim(p->text, &at, &end);
    if (at == end) return refuse(p, brace, "the braces are empty; name a field, or write {{ and }}");
    zest_template_node_kind kind = is_word(p->text, at, end, "mask")     ? ZEST_TEMPLATE_NODE_MASK
                                   : is_word(p->text, at, end, "answer") ? ZEST_TEMPLATE_NODE_ANSWER
                                   : is_word(p->text, at, end, "option") ? ZEST_TEMPLATE_NODE_OPTION
                                                                         : ZEST_TEMPLATE_NODE_FIELD;
    if (p->depth && (kind == ZEST_TEMPLATE_NODE_MASK || kind == ZEST_TEMPLATE_NODE_ANSWER))
        return refuse(p, brace, "{%.*s} is not allowed in a replacement", (int)(end - at), p->text + at);
    *out = add_node(t, kind, brace);
    if (!*out) return no_memory(p);
    return kind == ZEST_TEMPLATE_NODE_FIELD ? read_text(p, at, end, &(*out)->text) : ZEST_OK;
}

/* The content of braces: a name, then filters after bars. */
static zest_status add_braces(parser *p, size_t at, size_t end, zest_template *t) {
    size_t bar = find_outside(p->text, at, end, "|");
    zest_template_node *node = NULL;
    zest_status status = add_name(p, at, bar, t, &node);
    if (!status && bar < end && node->kind == ZEST_TEMPLATE_NODE_MASK)
        return refuse(p, bar, "a mask has no filters");
    while (!status && bar < end) {
        at = bar + 1;
        bar = find_outside(p->text, at, end, "|");
        status = add_change(p, at, bar, node);
    }
    return status;
}

/* Text up to the next placeholder. */
static zest_status add_literal(const parser *p, size_t *at, size_t end, zest_template *t) {
    const char *text = p->text;
    zest_buffer out = {0};
    zest_status status = ZEST_OK;
    size_t first = *at;
    while (*at < end && !status) {
        if (text[*at] != '{' && text[*at] != '}') {
            status = read_character(p, at, end, &out);
        } else if (*at + 1 < end && text[*at + 1] == text[*at]) {
            zest_buffer_add(&out, text + *at, 1);
            *at += 2;
        } else if (text[*at] == '{') {
            break;
        } else {
            status = refuse(p, *at, "'}' without '{'; write }} for a brace");
        }
    }
    zest_template_node *node = status || !out.size ? NULL : add_node(t, ZEST_TEMPLATE_NODE_TEXT, first);
    if (!status && (out.failed || (out.size && !node))) status = no_memory(p);
    if (status || !node)
        zest_buffer_free(&out);
    else
        node->text = out.data;
    return status;
}

static zest_status parse(parser *p, size_t at, size_t end, zest_template **out) {
    zest_template *t = *out = calloc(1, sizeof *t);
    zest_status status = t ? ZEST_OK : no_memory(p);
    while (at < end && !status) {
        status = add_literal(p, &at, end, t);
        if (status || at == end) break;
        size_t close = find_outside(p->text, at + 1, end, "}");
        if (close == end)
            status = refuse(p, at, "'{' is never closed; write {{ for a brace");
        else
            status = add_braces(p, at + 1, close, t);
        at = close + 1;
    }
    return status;
}

zest_status zest_template_parse(const char *text, const char *source, zest_template **out,
                                zest_error *error) {
    parser p = {.source = source, .text = text, .error = error};
    size_t size = strlen(text);
    *out = NULL;
    if (size > ZEST_TEMPLATE_MAX_SIZE)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%s: a template has %zu bytes, more than the %d allowed", source, size,
                              ZEST_TEMPLATE_MAX_SIZE);
    zest_status status = parse(&p, 0, size, out);
    if (!status) {
        (*out)->source = strdup(source);
        (*out)->text = strdup(text);
        if (!(*out)->source || !(*out)->text) status = no_memory(&p);
    }
    if (status) {
        zest_template_free(*out);
        *out = NULL;
    }
    return status;
}

void zest_template_free(zest_template *t) {
    if (!t) return;
    for (size_t i = 0; i < t->count; i++) {
        zest_template_node *node = &t->nodes[i];
        for (size_t c = 0; c < node->filter_count; c++) {
            free(node->filters[c].from);
            zest_template_free(node->filters[c].to);
        }
        free(node->filters);
        free(node->text);
    }
    free(t->nodes);
    free(t->source);
    free(t->text);
    free(t);
}

/* ---- Checks for the intended use ---- */

static zest_status check_inside(const zest_template *full, const zest_template *t, const zest_rows *rows,
                                zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < t->count && !status; i++) {
        const zest_template_node *node = &t->nodes[i];
        if (node->kind == ZEST_TEMPLATE_NODE_FIELD && zest_rows_field(rows, node->text) < 0) {
            parser p = {.source = full->source, .text = full->text, .error = error};
            zest_buffer has = {0};
            for (size_t f = 0; f < rows->name_count; f++)
                zest_buffer_format(&has, "%s%s", f ? ", " : "", rows->names[f]);
            status =
                refuse(&p, node->at, "%s has no field '%s'; it has %s", rows->path ? rows->path : "the data",
                       node->text, has.data && !has.failed ? has.data : "none");
            zest_buffer_free(&has);
        }
        for (size_t c = 0; c < node->filter_count && !status; c++)
            if (node->filters[c].to) status = check_inside(full, node->filters[c].to, rows, error);
    }
    return status;
}

zest_status zest_template_check(const zest_template *t, const zest_rows *rows, zest_error *error) {
    return check_inside(t, t, rows, error);
}

/* Number of nodes of a kind, and the last of them. */
static size_t count_kind(const zest_template *t, zest_template_node_kind kind, size_t *at) {
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->nodes[i].kind == kind) count++, *at = t->nodes[i].at;
        for (size_t c = 0; c < t->nodes[i].filter_count; c++)
            if (t->nodes[i].filters[c].to) count += count_kind(t->nodes[i].filters[c].to, kind, at);
    }
    return count;
}

zest_status zest_template_expect(const zest_template *t, zest_template_use use, zest_error *error) {
    static const struct {
        const char *name, *what;
        zest_template_node_kind kind;
    } uses[] = {{"{mask}", "of a masked model", ZEST_TEMPLATE_NODE_MASK},
                {"{answer}", "of a causal model", ZEST_TEMPLATE_NODE_ANSWER},
                {"{option}", "around options", ZEST_TEMPLATE_NODE_OPTION}};
    parser p = {.source = t->source, .text = t->text, .error = error};
    size_t at = 0, own_count = count_kind(t, uses[use].kind, &at);
    if (own_count > 1 && use != ZEST_TEMPLATE_OPTION)
        return refuse(&p, at, "a second %s; a template %s has one", uses[use].name, uses[use].what);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (i != (size_t)use && count_kind(t, uses[i].kind, &at))
            return refuse(&p, at, "%s is not allowed in a template %s, which has %s", uses[i].name,
                          uses[use].what, uses[use].name);
    if (!own_count) return refuse(&p, 0, "a template %s needs %s", uses[use].what, uses[use].name);
    return ZEST_OK;
}
