/* TSV and CSV. The file's bytes are cut into texts where they lie: a separator becomes the NUL behind the
 * text before it, and text in quotes moves towards the front by as many bytes as its quotes had. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/rows.h"

typedef struct {
    zest_rows_builder *b;
    char *at, *end; /* what is still to be read */
    char separator;
    int quotes;
    size_t line; /* of `at` */
    /* the columns of the row that was read last, as offsets into the file */
    size_t *columns, count, room, row_line;
    size_t expected, *picked;
    int failed;
} table;

/* ---- Cutting ---- */

static void add_column(table *t, const char *text) {
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 32;
        size_t *columns = realloc(t->columns, room * sizeof *columns);
        if (!columns) {
            t->failed = 1;
            return;
        }
        t->columns = columns;
        t->room = room;
    }
    t->columns[t->count++] = (size_t)(text - t->b->file.data);
}

/* Ends a plain text at its separator; tells whether the row goes on. */
static int end_plain(table *t, char *text) {
    char *stop = t->at;
    while (stop < t->end && *stop != t->separator && *stop != '\n') stop++;
    int more = stop < t->end && *stop == t->separator;
    if (!more && stop < t->end) t->line++;
    t->at = stop < t->end ? stop + 1 : stop;
    if (!more && stop > text && stop[-1] == '\r') stop--;
    *stop = '\0'; /* at the file's end there is one already */
    add_column(t, text);
    return more;
}

/* The same for text in quotes. *more: 1 the row goes on, 0 it ends. */
static zest_status end_quoted(table *t, int *more) {
    size_t began = t->line;
    char *text = ++t->at, *out = text;
    for (;; t->at++) {
        char *quote = memchr(t->at, '"', (size_t)(t->end - t->at));
        if (!quote)
            return zest_rows_refuse(t->b, began,
                                    "the quote that begins here is never closed; a quote within quotes is "
                                    "written twice");
        for (char *c = t->at; c < quote; c++) t->line += *c == '\n';
        size_t size = (size_t)(quote - t->at);
        memmove(out, t->at, size);
        out += size;
        t->at = quote + 1;
        if (t->at == t->end || *t->at != '"') break;
        *out++ = '"';
    }
    char after = t->at < t->end ? *t->at : '\n';
    if (after == '\r' && (t->at + 1 == t->end || t->at[1] == '\n')) after = '\n', t->at += t->at + 1 < t->end;
    if (after != t->separator && after != '\n')
        return zest_rows_refuse(t->b, t->line,
                                "text follows a closing quote; a quote within quotes is written twice");
    *more = after == t->separator;
    if (!*more && t->at < t->end) t->line++;
    if (t->at < t->end) t->at++;
    *out = '\0';
    add_column(t, text);
    return ZEST_OK;
}

static int is_blank(const table *t) {
    return *t->at == '\n' || (*t->at == '\r' && t->at + 1 < t->end && t->at[1] == '\n');
}

/* Cuts the next row that is not blank; no columns at the end of the file. */
static zest_status next_row(table *t) {
    int more = 1;
    zest_status status = ZEST_OK;
    t->count = 0;
    for (; t->at < t->end && is_blank(t); t->line++) t->at += *t->at == '\r' ? 2 : 1;
    t->row_line = t->line;
    if (t->at == t->end) return ZEST_OK;
    while (more && !status) {
        if (t->quotes && t->at < t->end && *t->at == '"')
            status = end_quoted(t, &more);
        else
            more = end_plain(t, t->at);
    }
    if (!status && t->failed) status = zest_error_memory(t->b->error, t->b->path, t->room * sizeof(size_t));
    return status;
}

/* ---- Columns by name ---- */

static const char *column(const table *t, size_t i) { return t->b->file.data + t->columns[i]; }

static zest_status refuse_column(table *t, const char *from) {
    zest_buffer known = {0};
    char room[64];
    for (size_t i = 0; i < t->count && known.size < 400; i++)
        zest_buffer_format(&known, "%s%s", i ? ", " : "", zest_rows_show(column(t, i), room));
    zest_status status =
        t->b->layout->header
            ? zest_rows_refuse(t->b, t->row_line, "has no column '%.60s'; its columns are %s", from,
                               known.data ? known.data : "")
            : zest_rows_refuse(t->b, t->row_line,
                               "column '%.60s' is not there: the row has %zu, counted from 0 (-1 is the "
                               "last); a file without header has no names",
                               from, t->count);
    zest_buffer_free(&known);
    return status;
}

/* Where a field comes from, in the first row of the file. */
static zest_status find_column(table *t, const char *from, size_t *found) {
    char *end;
    errno = 0;
    long number = strtol(from, &end, 10);
    if (t->b->layout->header)
        for (size_t i = 0; i < t->count; i++)
            if (!strcmp(column(t, i), from)) return *found = i, ZEST_OK;
    if (*end || errno || number >= (long)t->count || -number > (long)t->count) return refuse_column(t, from);
    *found = number < 0 ? t->count - (size_t)-number : (size_t)number;
    return ZEST_OK;
}

/* All columns, by their names in the header or else by their numbers. */
static zest_status name_all(table *t) {
    int header = t->b->layout->header;
    char room[64];
    const char **names = calloc(t->count, sizeof *names);
    char(*numbers)[24] = calloc(t->count, sizeof *numbers);
    zest_status status = names && numbers ? ZEST_OK : zest_error_memory(t->b->error, t->b->path, t->count);
    for (size_t i = 0; i < t->count && !status; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%zu", i);
        names[i] = header ? column(t, i) : numbers[i];
        t->picked[i] = i;
        for (size_t j = 0; j < i && !status; j++)
            if (!strcmp(names[i], names[j]))
                status = zest_rows_refuse(t->b, t->row_line,
                                          "the column '%s' comes twice; say which by number, as in "
                                          "fields = text=0 label=1",
                                          zest_rows_show(names[i], room));
    }
    if (!status) zest_rows_name(t->b, names, t->count);
    free(numbers);
    free(names);
    return status;
}

/* Looks at the first row: how many columns, and which are wanted. */
static zest_status begin(table *t) {
    zest_rows_picks picks;
    zest_status status = zest_rows_picks_parse(t->b, &picks);
    t->expected = t->count;
    if (!status) {
        size_t count = picks.count ? picks.count : t->count;
        t->picked = calloc(count + 1, sizeof *t->picked);
        if (!t->picked) status = zest_error_memory(t->b->error, t->b->path, count * sizeof *t->picked);
    }
    if (!status && !picks.count) status = name_all(t);
    for (size_t i = 0; i < picks.count && !status; i++)
        status = find_column(t, picks.picks[i].from, &t->picked[i]);
    if (!status && picks.count) zest_rows_picks_name(t->b, &picks);
    zest_rows_picks_free(&picks);
    return status;
}

/* ---- Rows ---- */

static zest_status take_row(table *t) {
    if (t->count < t->expected && t->b->layout->skip_short) return ZEST_OK;
    if (t->count != t->expected)
        return zest_rows_refuse(t->b, t->row_line, "has %zu field%s, but %s has %zu; %s", t->count,
                                t->count == 1 ? "" : "s",
                                t->b->layout->header ? "the header" : "the first row", t->expected,
                                t->quotes ? "text with commas must stand in double quotes"
                                          : "is a tab missing, or one in a text?");
    zest_rows_begin(t->b, t->row_line);
    for (size_t i = 0; i < t->b->rows->name_count; i++) zest_rows_add_field(t->b, t->columns[t->picked[i]]);
    return ZEST_OK;
}

zest_status zest_rows_table(zest_rows_builder *b, zest_rows_format format) {
    table t = {.b = b,
               .at = b->file.data + b->begin,
               .end = b->file.data + b->file.size,
               .separator = format == ZEST_ROWS_CSV ? ',' : '\t',
               .quotes = format == ZEST_ROWS_CSV,
               .line = 1};
    zest_status status = next_row(&t);
    if (!status && t.count) {
        status = begin(&t);
        if (!status && b->layout->header) status = next_row(&t);
    }
    while (!status && t.count) {
        status = take_row(&t);
        if (!status) status = next_row(&t);
    }
    free(t.columns);
    free(t.picked);
    zest_buffer_free(&b->memory);
    b->memory = b->file; /* what the offsets count from */
    b->file = (zest_buffer){0};
    return status;
}
