/* Templates filled in with a row. */
#include <stdlib.h>
#include <string.h>

#include "task/template.h"
#include "tokenizer/unicode.h"

static const char *field_text(const zest_template_piece *piece, const zest_template_values *values) {
    size_t count = 0;
    int field = zest_rows_field(values->rows, piece->text);
    const char *const *texts = field < 0 ? NULL : zest_rows_get(values->rows, values->row, field, &count);
    return count ? texts[0] : "";
}

static void write_piece(const zest_template_piece *piece, const zest_template_values *values,
                        zest_buffer *out) {
    const char *text = piece->kind == ZEST_TEMPLATE_PIECE_TEXT     ? piece->text
                       : piece->kind == ZEST_TEMPLATE_PIECE_FIELD  ? field_text(piece, values)
                       : piece->kind == ZEST_TEMPLATE_PIECE_ANSWER ? values->answer
                       : piece->kind == ZEST_TEMPLATE_PIECE_OPTION ? values->option
                                                                   : NULL;
    size_t from = out->size, size = text ? strlen(text) : 0;
    if (zest_unicode_valid(text ? text : "", size) < size)
        zest_unicode_repair(text, size, out);
    else
        zest_buffer_add(out, text ? text : "", size);
    for (size_t c = 0; c < piece->change_count && !out->failed; c++)
        zest_template_change_text(&piece->changes[c], values, out, from);
}

void zest_template_write(const zest_template *t, size_t first, size_t end, const zest_template_values *values,
                         zest_buffer *out) {
    for (size_t i = first; i < end; i++) write_piece(&t->pieces[i], values, out);
}

/* ---- Causal models ---- */

/* Takes spaces, and only those, off both ends of the text from `from` on. */
static void strip_spaces(zest_buffer *out, size_t from) {
    if (out->failed || !out->data) return;
    size_t at = from;
    while (out->size > from && out->data[out->size - 1] == ' ') out->size--;
    while (at < out->size && out->data[at] == ' ') at++;
    memmove(out->data + from, out->data + at, out->size - at);
    out->size -= at - from;
    out->data[out->size] = 0;
}

static zest_status finish(const zest_buffer *out, zest_error *error) {
    return out->failed || !out->data ? zest_error_memory(error, "a prompt", out->size) : ZEST_OK;
}

zest_status zest_template_render(const zest_template *t, const zest_rows *rows, size_t row,
                                 const char *answer, zest_buffer *out, zest_error *error) {
    zest_template_values values = {.rows = rows, .row = row, .answer = answer};
    size_t from = out->size, end = t->count;
    for (size_t i = 0; i < t->count && !answer; i++)
        if (t->pieces[i].kind == ZEST_TEMPLATE_PIECE_ANSWER) end = i < end ? i : end;
    zest_buffer_text(out, "");
    zest_template_write(t, 0, end, &values, out);
    strip_spaces(out, from);
    if (!out->failed && out->data) zest_template_strip_start(out, from);
    return finish(out, error);
}

zest_status zest_template_render_option(const zest_template *t, const zest_rows *rows, size_t row,
                                        const char *option, zest_buffer *out, zest_error *error) {
    zest_template_values values = {.rows = rows, .row = row, .option = option};
    size_t from = out->size;
    zest_buffer_text(out, "");
    zest_template_write(t, 0, t->count, &values, out);
    strip_spaces(out, from);
    return finish(out, error);
}

/* ---- Masked models ---- */

static zest_status add_part(zest_template_parts *parts, zest_template_part part, zest_error *error) {
    if (parts->count == parts->capacity) {
        size_t capacity = parts->capacity ? 2 * parts->capacity : 8;
        zest_template_part *more = realloc(parts->parts, capacity * sizeof *more);
        if (!more) return zest_error_memory(error, "the pieces of a prompt", capacity * sizeof *more);
        parts->parts = more;
        parts->capacity = capacity;
    }
    parts->parts[parts->count++] = part;
    return ZEST_OK;
}

static const char *first_field(const zest_template *t) {
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces[i].kind == ZEST_TEMPLATE_PIECE_FIELD) return t->pieces[i].text;
    return "";
}

/* Takes from a literal the space that the next piece wants: a field's is encoded with it, the mask's stands
 * in the label words. */
static void give_space(const zest_template *t, size_t i, zest_template_part *part, zest_buffer *text) {
    if (i + 1 == t->count || !part->size || text->data[text->size - 1] != ' ') return;
    zest_template_piece_kind next = t->pieces[i + 1].kind;
    part->size -= next == ZEST_TEMPLATE_PIECE_FIELD || next == ZEST_TEMPLATE_PIECE_MASK;
    text->size -= next == ZEST_TEMPLATE_PIECE_MASK;
}

static zest_template_part make_part(const zest_template *t, size_t i, const zest_template_values *values,
                                    size_t left, zest_buffer *text) {
    const zest_template_piece *piece = &t->pieces[i];
    zest_template_part part = {.kind = ZEST_TEMPLATE_MASK, .first = text->size};
    zest_template_write(t, i, i + 1, values, text);
    part.size = text->size - part.first;
    if (piece->kind == ZEST_TEMPLATE_PIECE_TEXT) {
        part.kind = ZEST_TEMPLATE_TEXT;
        if (!text->failed) give_space(t, i, &part, text);
    } else if (piece->kind == ZEST_TEMPLATE_PIECE_FIELD) {
        part.kind = ZEST_TEMPLATE_FIELD;
        part.size += part.first - left;
        part.first = left;
        part.other = strcmp(piece->text, first_field(t)) != 0;
    }
    return part;
}

zest_status zest_template_render_parts(const zest_template *t, const zest_rows *rows, size_t row,
                                       zest_template_parts *parts, zest_error *error) {
    zest_template_values values = {.rows = rows, .row = row};
    zest_status status = ZEST_OK;
    size_t left = 0; /* where the part before ends: behind it may lie the space that it gave away */
    parts->count = parts->text.size = 0;
    zest_buffer_text(&parts->text, "");
    for (size_t i = 0; i < t->count && !status; i++) {
        zest_template_part part = make_part(t, i, &values, left, &parts->text);
        left = part.first + part.size;
        status = add_part(parts, part, error);
    }
    return status ? status : finish(&parts->text, error);
}

void zest_template_parts_free(zest_template_parts *parts) {
    zest_buffer_free(&parts->text);
    free(parts->parts);
    *parts = (zest_template_parts){0};
}

/* Changes to the text of a field. */

const char *const zest_template_change_names[ZEST_TEMPLATE_NAMED] = {
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

/* ---- Characters ---- */

/* Capital letters first .. last in steps of `step` have their small letters `shift` further on. Left out is
 * what has no single small letter that leads back (U+0130, U+1E9E). */
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

/* The last character before `end`, and where it begins. */
static size_t last_character(const char *text, size_t end, uint32_t *code) {
    size_t at = end - 1;
    while (at && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
    zest_unicode_read(text + at, code);
    return at;
}

/* ---- Changes ---- */

/* Puts these bytes in place of bytes at .. end-1 of the buffer. */
static void replace(zest_buffer *text, size_t at, size_t end, const char *bytes, size_t size) {
    size_t behind = text->size - end, after = at + size;
    if (size > end - at) {
        zest_buffer_add(text, bytes, size - (end - at)); /* only for the room */
        if (text->failed) return;
    }
    memmove(text->data + after, text->data + end, behind);
    memcpy(text->data + at, bytes, size);
    text->size = after + behind;
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

/* The characters from `at` to `end` through a mapping. Letters keep their length in all but a few cases. */
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

static void replace_all(const zest_template_change *change, const zest_template_values *values,
                        zest_buffer *text, size_t from) {
    zest_buffer to = {0};
    size_t size = strlen(change->from);
    zest_buffer_text(&to, "");
    zest_template_write(change->to, 0, change->to->count, values, &to);
    if (to.failed) text->failed = 1;
    for (size_t at = from; !text->failed && at + size <= text->size;) {
        const char *found = memmem(text->data + at, text->size - at, change->from, size);
        if (!found) break;
        at = (size_t)(found - text->data);
        replace(text, at, at + size, to.data, to.size);
        at += to.size;
    }
    zest_buffer_free(&to);
}

void zest_template_change_text(const zest_template_change *change, const zest_template_values *values,
                               zest_buffer *text, size_t from) {
    uint32_t code = 0;
    size_t last = text->size > from ? last_character(text->data, text->size, &code) : from;
    size_t first_end = text->size > from ? from + zest_unicode_read(text->data + from, &code) : from;
    char end = text->size > from ? text->data[text->size - 1] : 0;
    switch (change->kind) {
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
    case ZEST_TEMPLATE_REPLACE: replace_all(change, values, text, from); break;
    }
}
