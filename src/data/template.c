/* Templates filled in with a row. */
#include "data/template.h"

#include <stdlib.h>
#include <string.h>

#include "data/template_internal.h"
#include "text/unicode.h"

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
