/* Rows as they are put together. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/rows_internal.h"

void zest_rows_name(zest_rows_builder *b, const char *const *names, size_t count) {
    zest_rows *rows = b->rows;
    rows->names = calloc(count + 1, sizeof *rows->names);
    if (!rows->names) {
        b->failed = 1;
        return;
    }
    rows->name_count = count;
    for (size_t i = 0; i < count; i++)
        if (!(rows->names[i] = strdup(names[i]))) b->failed = 1;
}

/* Room for twice the rows there were. */
static int grow_rows(zest_rows_builder *b) {
    zest_rows *rows = b->rows;
    size_t room = b->row_room ? 2 * b->row_room : 256, most = SIZE_MAX / 64 / (rows->name_count + 1);
    if (room > most) return 0;
    size_t *lines = realloc(rows->lines, room * sizeof *lines);
    if (!lines) return 0;
    rows->lines = lines;
    uint32_t *starts = realloc(rows->starts, (room * rows->name_count + 1) * sizeof *starts);
    if (!starts) return 0;
    rows->starts = starts;
    if (!b->start_count) starts[b->start_count++] = 0;
    b->row_room = room;
    return 1;
}

void zest_rows_begin(zest_rows_builder *b, size_t line) {
    if (!b->failed && b->rows->count == b->row_room && !grow_rows(b)) b->failed = 1;
    if (!b->failed) b->rows->lines[b->rows->count++] = line;
}

size_t zest_rows_keep(zest_rows_builder *b, const char *text, size_t size) {
    size_t offset = b->memory.size;
    zest_buffer_add(&b->memory, text, size);
    zest_buffer_add(&b->memory, "", 1);
    return offset;
}

void zest_rows_add(zest_rows_builder *b, size_t offset) {
    if (b->failed) return;
    if (b->text_count == b->text_room) {
        size_t room = b->text_room ? 2 * b->text_room : 1024;
        size_t *offsets = realloc(b->offsets, room * sizeof *offsets);
        if (!offsets) {
            b->failed = 1;
            return;
        }
        b->offsets = offsets;
        b->text_room = room;
    }
    b->offsets[b->text_count++] = offset;
}

void zest_rows_end_field(zest_rows_builder *b) {
    if (!b->failed) b->rows->starts[b->start_count++] = (uint32_t)b->text_count;
}

void zest_rows_add_field(zest_rows_builder *b, size_t offset) {
    zest_rows_add(b, offset);
    zest_rows_end_field(b);
}

zest_status zest_rows_finish(zest_rows_builder *b) {
    zest_rows *rows = b->rows;
    if (b->failed || b->memory.failed)
        return zest_error_memory(b->error, b->path, b->memory.size + b->text_count * sizeof *b->offsets);
    if (!rows->count)
        return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s: has no rows; is it the right file?", b->path);
    if (b->text_count > UINT32_MAX || rows->count > UINT32_MAX)
        return zest_error_set(b->error, ZEST_ERROR_FORMAT,
                              "%s: more than 2^32 texts; cut the file into smaller ones", b->path);
    rows->texts = malloc((b->text_count + 1) * sizeof *rows->texts);
    if (!rows->texts) return zest_error_memory(b->error, b->path, (b->text_count + 1) * sizeof *rows->texts);
    for (size_t i = 0; i < b->text_count; i++) rows->texts[i] = b->memory.data + b->offsets[i];
    rows->texts[b->text_count] = NULL;
    rows->memory = b->memory.data;
    b->memory = (zest_buffer){0};
    return ZEST_OK;
}

zest_status zest_rows_refuse(zest_rows_builder *b, size_t line, const char *format, ...) {
    char sentence[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s, line %zu: %s", b->path, line, sentence);
}

/* ---- Which fields ---- */

static int is_gap(char c) { return c == ' ' || c == ',' || c == '\t'; }

static zest_status refuse_fields(zest_rows_builder *b, const char *why, const char *piece, size_t size) {
    return zest_error_set(b->error, ZEST_ERROR_ARGUMENT,
                          "%s: fields: '%.*s' %s; write name=column or name=path, as in "
                          "'sentence=0 label=-1' or 'text=passage.text label'",
                          b->path, (int)(size < 60 ? size : 60), piece, why);
}

static zest_status add_pick(zest_rows_builder *b, zest_rows_picks *picks, const char *piece, size_t size) {
    const char *equals = memchr(piece, '=', size);
    size_t name_size = equals ? (size_t)(equals - piece) : size;
    if (!name_size || (equals && name_size + 1 == size)) return refuse_fields(b, "is half", piece, size);
    zest_rows_pick *pick = &picks->picks[picks->count++];
    pick->name = strndup(piece, name_size);
    pick->from = equals ? strndup(equals + 1, size - name_size - 1) : strndup(piece, size);
    if (!pick->name || !pick->from) return zest_error_memory(b->error, "fields", size);
    for (size_t i = 0; i + 1 < picks->count; i++)
        if (!strcmp(picks->picks[i].name, pick->name)) return refuse_fields(b, "comes twice", piece, size);
    return ZEST_OK;
}

zest_status zest_rows_picks_parse(zest_rows_builder *b, zest_rows_picks *picks) {
    const char *at = b->layout->fields;
    *picks = (zest_rows_picks){0};
    if (!at) return ZEST_OK;
    picks->picks = calloc(strlen(at) / 2 + 1, sizeof *picks->picks);
    if (!picks->picks) return zest_error_memory(b->error, "fields", strlen(at));
    zest_status status = ZEST_OK;
    while (!status) {
        while (is_gap(*at)) at++;
        size_t size = strcspn(at, " ,\t");
        if (!size) break;
        status = add_pick(b, picks, at, size);
        at += size;
    }
    if (!status && !picks->count) status = refuse_fields(b, "names nothing", b->layout->fields, 60);
    return status;
}

void zest_rows_picks_free(zest_rows_picks *picks) {
    for (size_t i = 0; i < picks->count; i++) {
        free(picks->picks[i].name);
        free(picks->picks[i].from);
    }
    free(picks->picks);
    *picks = (zest_rows_picks){0};
}

void zest_rows_picks_name(zest_rows_builder *b, const zest_rows_picks *picks) {
    const char **names = calloc(picks->count + 1, sizeof *names);
    if (!names) {
        b->failed = 1;
        return;
    }
    for (size_t i = 0; i < picks->count; i++) names[i] = picks->picks[i].name;
    zest_rows_name(b, names, picks->count);
    free(names);
}
