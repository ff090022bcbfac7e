#include "data/rows.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "data/rows_internal.h"
#include "text/unicode.h"

#define FILE_LIMIT ((size_t)16 << 30)

/* ---- Checks of the whole file, before any reader sees it ---- */

static size_t line_of(const char *data, size_t position) {
    size_t line = 1;
    for (const char *at = data; (at = memchr(at, '\n', position - (size_t)(at - data))); at++) line++;
    return line;
}

static zest_status check_bytes(zest_rows_builder *b) {
    const char *data = b->file.data;
    size_t size = b->file.size;
    if (!size) return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s: is empty: it has no rows", b->path);
    const char *zero = memchr(data, 0, size);
    if (zero)
        return zest_rows_refuse(b, line_of(data, (size_t)(zero - data)),
                                "has a zero byte, so this is no UTF-8 text (UTF-16? a table of another "
                                "program?); save it as UTF-8");
    size_t valid = zest_unicode_valid(data, size);
    if (valid < size)
        return zest_rows_refuse(b, line_of(data, valid),
                                "byte 0x%02X is no UTF-8; save the file as UTF-8 "
                                "(iconv -f latin1 -t utf-8 turns Latin-1 into it)",
                                (unsigned char)data[valid]);
    if (size >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3)) b->begin = 3;
    return ZEST_OK;
}

/* ---- Reading ---- */

static int ends_in(const char *path, const char *end) {
    size_t size = strlen(path), tail = strlen(end);
    return size >= tail && !strcasecmp(path + size - tail, end);
}

static int format_by_ending(const char *path, zest_rows_format *format) {
    static const struct {
        const char *ending;
        zest_rows_format format;
    } known[] = {{".tsv", ZEST_ROWS_TSV},
                 {".csv", ZEST_ROWS_CSV},
                 {".jsonl", ZEST_ROWS_JSONL},
                 {".ndjson", ZEST_ROWS_JSONL},
                 {".json", ZEST_ROWS_JSONL}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (ends_in(path, known[i].ending)) return *format = known[i].format, 1;
    return 0;
}

static zest_status read_format(zest_rows_builder *b) {
    zest_rows_format format = b->layout->format;
    if (format == ZEST_ROWS_BY_ENDING && !format_by_ending(b->path, &format))
        return zest_error_set(b->error, ZEST_ERROR_ARGUMENT,
                              "%s: the ending does not tell the format; call it .jsonl, .csv or .tsv, or say "
                              "format = jsonl in the task file",
                              b->path);
    switch (format) {
    case ZEST_ROWS_TSV:
    case ZEST_ROWS_CSV: return zest_rows_table(b, format);
    case ZEST_ROWS_JSONL: return zest_rows_jsonl(b);
    case ZEST_ROWS_RECORD: return zest_rows_record(b);
    case ZEST_ROWS_MULTIRC: return zest_rows_multirc(b);
    case ZEST_ROWS_WSC: return zest_rows_wsc(b);
    case ZEST_ROWS_SQUAD: return zest_rows_squad(b);
    case ZEST_ROWS_DROP: return zest_rows_drop(b);
    case ZEST_ROWS_BY_ENDING: break;
    }
    return zest_error_set(b->error, ZEST_ERROR_ARGUMENT, "%s: no format with the number %d", b->path, format);
}

/* Takes over the builder's file. */
static zest_status build(zest_rows_builder *b) {
    b->rows->path = strdup(b->path);
    b->rows->print = zest_fingerprint_of(b->file.data, b->file.size); /* before readers cut it in place */
    zest_status status = b->rows->path ? check_bytes(b) : zest_error_memory(b->error, b->path, 1);
    if (!status) status = read_format(b);
    if (!status) status = zest_rows_finish(b);
    if (status) zest_rows_free(b->rows);
    zest_buffer_free(&b->file);
    zest_buffer_free(&b->memory);
    free(b->offsets);
    return status;
}

zest_status zest_rows_read(const char *path, const zest_rows_layout *layout, zest_rows *rows,
                           zest_error *error) {
    zest_rows_builder b = {.path = path, .layout = layout, .error = error, .rows = rows};
    *rows = (zest_rows){0};
    zest_status status = zest_file_read(path, FILE_LIMIT, &b.file, error);
    if (!status) return build(&b);
    zest_buffer_free(&b.file);
    return status;
}

zest_status zest_rows_parse(const void *bytes, size_t size, const char *path, const zest_rows_layout *layout,
                            zest_rows *rows, zest_error *error) {
    zest_rows_builder b = {.path = path, .layout = layout, .error = error, .rows = rows};
    *rows = (zest_rows){0};
    zest_buffer_add(&b.file, bytes, size);
    if (!b.file.failed) return build(&b);
    return zest_error_memory(error, path, size);
}

void zest_rows_free(zest_rows *rows) {
    if (!rows) return;
    for (size_t i = 0; i < rows->name_count; i++) free(rows->names[i]);
    free(rows->names);
    free(rows->path);
    free(rows->lines);
    free(rows->starts);
    free(rows->texts);
    free(rows->memory);
    *rows = (zest_rows){0};
}

int zest_rows_field(const zest_rows *rows, const char *name) {
    for (size_t i = 0; i < rows->name_count; i++)
        if (!strcmp(rows->names[i], name)) return (int)i;
    return -1;
}

const char *const *zest_rows_get(const zest_rows *rows, size_t row, int field, size_t *count) {
    const uint32_t *start = rows->starts + row * rows->name_count + (size_t)field;
    *count = start[1] - start[0];
    return (const char *const *)rows->texts + start[0];
}

const char *zest_rows_show(const char *text, char room[64]) {
    size_t used = 0;
    while (*text && used < 56) {
        uint32_t code;
        size_t length = zest_unicode_read(text, &code);
        int control = code < 32 || (code >= 127 && code < 160);
        if (control)
            room[used++] = '?';
        else
            memcpy(room + used, text, length), used += length;
        text += length;
    }
    memcpy(room + used, *text ? "..." : "", *text ? 4 : 1);
    return room;
}
