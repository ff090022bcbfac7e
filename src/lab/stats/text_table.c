/* Plain-text tables for terminals. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lab/stats/stats.h"
#include "tokenizer/unicode.h"

enum { GAP = 2, MIN_NAME_WIDTH = 12 };

/* ---- Cells ---- */

static int is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

/* Makes text safe for a terminal; to be freed. */
static char *clean(const char *text) {
    zest_buffer valid = {0};
    size_t used = 0;
    zest_unicode_repair(text, strlen(text), &valid);
    if (!valid.data && !valid.failed) zest_buffer_text(&valid, "");
    for (size_t i = 0, step; valid.data && i < valid.size; i += step) {
        uint32_t code;
        step = zest_unicode_read(valid.data + i, &code);
        if (is_control(code)) continue;
        memmove(valid.data + used, valid.data + i, step);
        used += step;
    }
    if (valid.failed) zest_buffer_free(&valid);
    if (valid.data) valid.data[used] = '\0';
    return valid.data;
}

void zest_text_table_cell(zest_text_table *t, const char *text) {
    if (!(t->count & (t->count - 1))) { /* doubles the capacity */
        char **cells = realloc(t->cells, (t->count ? 2 * t->count : 1) * sizeof *cells);
        if (!cells) t->failed = 1;
        if (cells) t->cells = cells;
    }
    char *copy = t->failed ? NULL : clean(text);
    if (copy)
        t->cells[t->count++] = copy;
    else
        t->failed = 1;
}

void zest_text_table_cell_buffer(zest_text_table *t, zest_buffer *text) {
    t->failed |= text->failed;
    zest_text_table_cell(t, text->data ? text->data : "");
    zest_buffer_free(text);
}

void zest_text_table_free(zest_text_table *t) {
    for (size_t i = 0; i < t->count; i++) free(t->cells[i]);
    free(t->cells);
    *t = (zest_text_table){0};
}

/* ---- Widths ---- */

/* In characters, not bytes. */
static size_t width_of(const char *text) {
    size_t width = 0;
    for (; *text; text++) width += (*text & 0xc0) != 0x80;
    return width;
}

/* 0: the column is empty and omitted. */
static void find_widths(const zest_text_table *t, size_t *widths) {
    size_t total = 0, name = ZEST_TEXT_COLUMNS;
    memset(widths, 0, ZEST_TEXT_COLUMNS * sizeof *widths);
    for (size_t i = 0; i < t->count; i++) {
        size_t const width = width_of(t->cells[i]), c = i % t->column_count;
        if (width > widths[c]) widths[c] = width;
    }
    for (size_t c = 0; c < t->column_count; c++) {
        size_t const heading = width_of(t->columns[c].heading);
        if (widths[c] && heading > widths[c]) widths[c] = heading;
        if (widths[c]) total += widths[c] + (total ? GAP : 0);
        if (t->columns[c].kind == ZEST_TEXT_NAME && (name == ZEST_TEXT_COLUMNS || widths[c] > widths[name]))
            name = c;
    }
    if (name == ZEST_TEXT_COLUMNS || total <= ZEST_TEXT_WIDTH) return;
    size_t const excess = total - ZEST_TEXT_WIDTH;
    widths[name] = widths[name] > excess + MIN_NAME_WIDTH ? widths[name] - excess
                   : widths[name] > MIN_NAME_WIDTH        ? MIN_NAME_WIDTH
                                                          : widths[name];
}

/* ---- Lines ---- */

/* The end of the first `count` characters of a text. */
static const char *skip(const char *text, size_t count) {
    while (*text && count--)
        for (text++; (*text & 0xc0) == 0x80;) text++;
    return text;
}

/* The start and the end of a name are kept, since they distinguish it. */
static void add_cut(zest_buffer *out, const char *text, size_t width) {
    size_t const have = width_of(text), tail = (width - 1) / 2, head = width - 1 - tail;
    zest_buffer_add(out, text, (size_t)(skip(text, head) - text));
    zest_buffer_text(out, "\xe2\x80\xa6");
    zest_buffer_text(out, skip(text, have - tail));
}

static void add_line(const zest_text_table *t, const char *const *cells, const size_t *widths,
                     zest_buffer *out) {
    size_t owed = 0; /* pending blanks, dropped at the end of a line */
    for (size_t c = 0; c < t->column_count; c++) {
        if (!widths[c]) continue;
        size_t const have = width_of(cells[c]), pad = have < widths[c] ? widths[c] - have : 0;
        int const right = t->columns[c].kind == ZEST_TEXT_NUMBER;
        if (right) owed += pad;
        if (have) zest_buffer_format(out, "%*s", (int)owed, ""), owed = 0;
        if (have > widths[c])
            add_cut(out, cells[c], widths[c]);
        else
            zest_buffer_text(out, cells[c]);
        owed += GAP + (right ? 0 : pad);
    }
    zest_buffer_text(out, "\n");
}

void zest_text_table_write(const zest_text_table *t, zest_buffer *out) {
    size_t widths[ZEST_TEXT_COLUMNS];
    const char *headings[ZEST_TEXT_COLUMNS];
    out->failed |= t->failed;
    if (t->failed || !t->count || t->column_count > ZEST_TEXT_COLUMNS) return;
    find_widths(t, widths);
    for (size_t c = 0; c < t->column_count; c++) headings[c] = t->columns[c].heading;
    add_line(t, headings, widths, out);
    for (size_t i = 0; i + t->column_count <= t->count; i += t->column_count)
        add_line(t, (const char *const *)&t->cells[i], widths, out);
}

void zest_text_table_paragraph(zest_buffer *out, const char *text) {
    char *full = clean(text), *rest = full;
    size_t line = 0;
    if (!full) out->failed = 1;
    for (const char *word; rest && (word = strsep(&rest, " "));) {
        size_t const width = width_of(word);
        if (!width) continue;
        int const fits = !line || line + 1 + width <= ZEST_TEXT_WIDTH;
        if (line) zest_buffer_text(out, fits ? " " : "\n");
        line = fits && line ? line + 1 + width : width;
        zest_buffer_text(out, word);
    }
    if (line) zest_buffer_text(out, "\n");
    free(full);
}
