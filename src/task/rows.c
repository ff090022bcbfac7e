/* The rows of a data file: checks, readers of TSV and CSV, and the table in which all readers store rows. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"
#include "io/parquet.h"
#include "task/rows.h"
#include "tokenizer/unicode.h"

#define FILE_LIMIT ((size_t)16 << 30)

/* Rows may need so many times the bytes of their file. Real files stay below 8, but fields that are selected
 * again and again, or ReCoRD's options (entities times queries), could make any file fill the memory. */
enum { MAX_GROWTH = 64, MIN_LIMIT = 16 << 20 };

/* ---- Checks of the whole file, before a reader sees it ---- */

static size_t line_of(const char *data, size_t position) {
    size_t line = 1;
    for (const char *at = data; (at = memchr(at, '\n', position - (size_t)(at - data))); at++) line++;
    return line;
}

static int ends_in(const char *path, const char *end) {
    size_t size = strlen(path), tail = strlen(end);
    return size >= tail && !strcasecmp(path + size - tail, end);
}

static zest_status check_bytes(zest_rows_builder *b) {
    const char *data = b->file.data;
    size_t size = b->file.size;
    if (!size) return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s: is empty: it has no rows", b->path);
    b->is_parquet = zest_parquet_is(data, size);
    if (b->is_parquet) return ZEST_OK; /* its reader checks every text */
    const char *zero = memchr(data, 0, size);
    if (zero)
        return zest_rows_refuse(
            b, line_of(data, (size_t)(zero - data)),
            "has a zero byte, so it is not UTF-8 text (UTF-16? a spreadsheet?); save it as UTF-8");
    size_t valid = zest_unicode_valid(data, size);
    if (valid < size)
        return zest_rows_refuse(b, line_of(data, valid),
                                "byte 0x%02X is not valid UTF-8; save the file as UTF-8 "
                                "(iconv -f latin1 -t utf-8 turns Latin-1 into it)",
                                (unsigned char)data[valid]);
    if (size >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3)) b->begin = 3;
    return ZEST_OK;
}

/* ---- Construction of rows ---- */

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

/* Doubles the capacity. */
static int grow_rows(zest_rows_builder *b) {
    zest_rows *rows = b->rows;
    size_t capacity = b->row_capacity ? 2 * b->row_capacity : 256,
           limit = SIZE_MAX / 64 / (rows->name_count + 1);
    if (capacity > limit) return 0;
    size_t *lines = realloc(rows->lines, capacity * sizeof *lines);
    if (!lines) return 0;
    rows->lines = lines;
    uint32_t *starts = realloc(rows->starts, (capacity * rows->name_count + 1) * sizeof *starts);
    if (!starts) return 0;
    rows->starts = starts;
    if (!b->start_count) starts[b->start_count++] = 0;
    b->row_capacity = capacity;
    return 1;
}

int zest_rows_fits(zest_rows_builder *b, size_t bytes) {
    if (!b->failed && bytes > b->limit - b->used) b->too_large = b->failed = 1;
    return !b->failed;
}

/* Counts bytes that the rows need; 0: more than the file's size allows. */
static int use(zest_rows_builder *b, size_t bytes) {
    if (!zest_rows_fits(b, bytes)) return 0;
    b->used += bytes;
    return 1;
}

void zest_rows_begin(zest_rows_builder *b, size_t line) {
    if (!use(b, sizeof *b->rows->lines + b->rows->name_count * sizeof *b->rows->starts)) return;
    if (!b->failed && b->rows->count == b->row_capacity && !grow_rows(b)) b->failed = 1;
    if (!b->failed) b->rows->lines[b->rows->count++] = line;
}

size_t zest_rows_store(zest_rows_builder *b, const char *text, size_t size) {
    size_t offset = b->memory.size;
    if (!use(b, size + 1)) return 0;
    zest_buffer_add(&b->memory, text, size);
    zest_buffer_add(&b->memory, "", 1);
    return offset;
}

void zest_rows_add(zest_rows_builder *b, size_t offset) {
    if (!use(b, sizeof *b->offsets)) return;
    if (b->text_count == b->text_capacity) {
        size_t capacity = b->text_capacity ? 2 * b->text_capacity : 1024;
        size_t *offsets = realloc(b->offsets, capacity * sizeof *offsets);
        if (!offsets) {
            b->failed = 1;
            return;
        }
        b->offsets = offsets;
        b->text_capacity = capacity;
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

zest_status zest_rows_check(zest_rows_builder *b) {
    if (b->too_large)
        return zest_error_set(b->error, ZEST_ERROR_FORMAT,
                              "%s: its rows need more than %zu bytes (%d times its size, at least %d MiB); "
                              "select fewer fields, or split the file",
                              b->path, b->limit, MAX_GROWTH, MIN_LIMIT >> 20);
    if (b->failed || b->memory.failed)
        return zest_error_memory(b->error, b->path, b->memory.size + b->text_count * sizeof *b->offsets);
    return ZEST_OK;
}

/* Converts offsets to pointers. */
static zest_status finish_rows(zest_rows_builder *b) {
    zest_rows *rows = b->rows;
    zest_status status = zest_rows_check(b);
    if (status) return status;
    if (!rows->count)
        return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s: has no rows; is it the right file?", b->path);
    if (b->text_count > UINT32_MAX || rows->count > UINT32_MAX)
        return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s: more than 2^32 texts; split the file",
                              b->path);
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
    return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s, %s %zu: %s", b->path,
                          b->is_parquet ? "row" : "line", line, sentence);
}

/* ---- Selection of fields ---- */

static int is_gap(char c) { return c == ' ' || c == ',' || c == '\t'; }

static zest_status refuse_fields(zest_rows_builder *b, const char *why, const char *item, size_t size) {
    return zest_error_set(b->error, ZEST_ERROR_ARGUMENT,
                          "%s: fields: '%.*s' %s; write name=column or name=path, as in "
                          "'sentence=0 label=-1' or 'text=passage.text label'",
                          b->path, (int)(size < 60 ? size : 60), item, why);
}

/* Fields are found by comparing names, which takes the square of their number. */
static zest_status refuse_count(zest_rows_builder *b) {
    return zest_error_set(b->error, ZEST_ERROR_FORMAT,
                          "%s: has more than %d fields; select those that the template needs, as in fields = "
                          "text=0 label=1",
                          b->path, ZEST_ROWS_MAX_FIELDS);
}

static zest_status add_pick(zest_rows_builder *b, zest_rows_picks *picks, const char *item, size_t size) {
    const char *equals = memchr(item, '=', size);
    size_t name_size = equals ? (size_t)(equals - item) : size;
    if (!name_size || (equals && name_size + 1 == size)) return refuse_fields(b, "is half", item, size);
    if (picks->count == ZEST_ROWS_MAX_FIELDS) return refuse_count(b);
    zest_rows_pick *pick = &picks->picks[picks->count++];
    pick->name = strndup(item, name_size);
    pick->from = equals ? strndup(equals + 1, size - name_size - 1) : strndup(item, size);
    if (!pick->name || !pick->from) return zest_error_memory(b->error, "fields", size);
    for (size_t i = 0; i + 1 < picks->count; i++)
        if (!strcmp(picks->picks[i].name, pick->name)) return refuse_fields(b, "comes twice", item, size);
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
    if (!status && !picks->count) status = refuse_fields(b, "is empty", b->layout->fields, 60);
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

/* ---- TSV and CSV ----
 *
 * The bytes of the file are split into texts in place: a separator becomes the NUL that terminates the text before
 * it, and quoted text moves forward by as many bytes as its quotes had. */

typedef struct {
    zest_rows_builder *b;
    char *at, *end; /* the rest of the input */
    char separator;
    int quotes;
    size_t line; /* line number of `at` */
    /* offsets in the file of the columns of the current row */
    size_t *columns, count, capacity, row_line;
    size_t expected, *picked;
    int failed;
} table;

static void add_column(table *t, const char *text) {
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 32;
        size_t *columns = realloc(t->columns, capacity * sizeof *columns);
        if (!columns) {
            t->failed = 1;
            return;
        }
        t->columns = columns;
        t->capacity = capacity;
    }
    t->columns[t->count++] = (size_t)(text - t->b->file.data);
}

/* Terminates a plain text at its separator; returns whether the row continues. */
static int end_plain(table *t, char *text) {
    char *stop = t->at;
    while (stop < t->end && *stop != t->separator && *stop != '\n') stop++;
    int more = stop < t->end && *stop == t->separator;
    if (!more && stop < t->end) t->line++;
    t->at = stop < t->end ? stop + 1 : stop;
    if (!more && stop > text && stop[-1] == '\r') stop--;
    *stop = '\0'; /* the end of the file has a NUL already */
    add_column(t, text);
    return more;
}

/* The same for quoted text. *more: 1: the row continues, 0: it ends. */
static zest_status end_quoted(table *t, int *more) {
    size_t began = t->line;
    char *text = ++t->at, *out = text;
    for (;; t->at++) {
        char *quote = memchr(t->at, '"', (size_t)(t->end - t->at));
        if (!quote)
            return zest_rows_refuse(
                t->b, began, "the quote that starts here is never closed; write a quote inside quotes twice");
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
                                "text follows a closing quote; write a quote inside quotes twice");
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

/* Splits the next row that is not blank; no columns at the end of the file. */
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
    if (!status && t->failed)
        status = zest_error_memory(t->b->error, t->b->path, t->capacity * sizeof(size_t));
    return status;
}

/* ---- Columns by name ---- */

static const char *column(const table *t, size_t i) { return t->b->file.data + t->columns[i]; }

static zest_status refuse_column(table *t, const char *from) {
    zest_buffer known = {0};
    char capacity[64];
    for (size_t i = 0; i < t->count && known.size < 400; i++)
        zest_buffer_format(&known, "%s%s", i ? ", " : "", zest_rows_show(column(t, i), capacity));
    zest_status status =
        t->b->layout->header
            ? zest_rows_refuse(t->b, t->row_line, "has no column '%.60s'; its columns are %s", from,
                               known.data ? known.data : "")
            : zest_rows_refuse(t->b, t->row_line,
                               "column '%.60s' does not exist: the row has %zu columns, counted from 0 (-1 "
                               "is the last); a file without header has no names",
                               from, t->count);
    zest_buffer_free(&known);
    return status;
}

/* The column of a field, found in the first row of the file. */
static zest_status find_column(table *t, const char *from, size_t *found) {
    int64_t number, count = (int64_t)t->count;
    if (t->b->layout->header)
        for (size_t i = 0; i < t->count; i++)
            if (!strcmp(column(t, i), from)) return *found = i, ZEST_OK;
    if (!zest_integer_parse(from, -count, count - 1, &number)) return refuse_column(t, from);
    *found = (size_t)(number < 0 ? count + number : number);
    return ZEST_OK;
}

/* All columns, named as in the header or else by number. */
static zest_status name_all(table *t) {
    int header = t->b->layout->header;
    char capacity[64];
    if (t->count > ZEST_ROWS_MAX_FIELDS) return refuse_count(t->b);
    const char **names = calloc(t->count, sizeof *names);
    char(*numbers)[24] = calloc(t->count, sizeof *numbers);
    zest_status status = names && numbers ? ZEST_OK : zest_error_memory(t->b->error, t->b->path, t->count);
    for (size_t i = 0; i < t->count && !status; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%zu", i);
        names[i] = header ? column(t, i) : numbers[i];
        t->picked[i] = i;
        for (size_t j = 0; j < i && !status; j++)
            if (!strcmp(names[i], names[j]))
                status = zest_rows_refuse(
                    t->b, t->row_line,
                    "the column '%s' appears twice; select it by number, as in fields = text=0 label=1",
                    zest_rows_show(names[i], capacity));
    }
    if (!status) zest_rows_name(t->b, names, t->count);
    free(numbers);
    free(names);
    return status;
}

/* Reads the first row: the number of columns, and the selected ones. */
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

static zest_status add_row(table *t) {
    if (t->count < t->expected && t->b->layout->skip_short) return ZEST_OK;
    if (t->count != t->expected)
        return zest_rows_refuse(
            t->b, t->row_line, "has %zu field%s, but %s has %zu; %s", t->count, t->count == 1 ? "" : "s",
            t->b->layout->header ? "the header" : "the first row", t->expected,
            t->quotes ? "text with commas must be in double quotes" : "is a tab missing, or one in a text?");
    zest_rows_begin(t->b, t->row_line);
    for (size_t i = 0; i < t->b->rows->name_count; i++) zest_rows_add_field(t->b, t->columns[t->picked[i]]);
    return ZEST_OK;
}

static zest_status read_table(zest_rows_builder *b, zest_rows_format format) {
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
        status = add_row(&t);
        if (!status) status = zest_rows_check(b);
        if (!status) status = next_row(&t);
    }
    free(t.columns);
    free(t.picked);
    zest_buffer_free(&b->memory);
    b->memory = b->file; /* offsets refer to it */
    b->file = (zest_buffer){0};
    return status;
}

/* ---- Reading ---- */

static int format_by_extension(const char *path, zest_rows_format *format) {
    static const struct {
        const char *extension;
        zest_rows_format format;
    } known[] = {{".tsv", ZEST_ROWS_TSV},      {".csv", ZEST_ROWS_CSV},    {".jsonl", ZEST_ROWS_JSONL},
                 {".ndjson", ZEST_ROWS_JSONL}, {".json", ZEST_ROWS_JSONL}, {".parquet", ZEST_ROWS_JSONL}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (ends_in(path, known[i].extension)) return *format = known[i].format, 1;
    return 0;
}

static zest_status read_format(zest_rows_builder *b) {
    zest_rows_format format = b->layout->format;
    if (format == ZEST_ROWS_BY_EXTENSION && !format_by_extension(b->path, &format))
        return zest_error_set(
            b->error, ZEST_ERROR_ARGUMENT,
            "%s: unknown file extension; rename it to .jsonl, .parquet, .csv or .tsv, or set format "
            "= jsonl in the task file",
            b->path);
    int lines = format != ZEST_ROWS_TSV && format != ZEST_ROWS_CSV && format != ZEST_ROWS_SQUAD &&
                format != ZEST_ROWS_DROP;
    if (b->is_parquet && !lines)
        return zest_error_set(
            b->error, ZEST_ERROR_FORMAT,
            "%s: is a Parquet file, but a file of another format is needed here; a task file reads "
            "it (format = parquet, or a name that ends in .parquet)",
            b->path);
    switch (format) {
    case ZEST_ROWS_TSV:
    case ZEST_ROWS_CSV: return read_table(b, format);
    case ZEST_ROWS_JSONL: return zest_rows_jsonl(b);
    case ZEST_ROWS_RECORD: return zest_rows_record(b);
    case ZEST_ROWS_MULTIRC: return zest_rows_multirc(b);
    case ZEST_ROWS_WSC: return zest_rows_wsc(b);
    case ZEST_ROWS_SQUAD: return zest_rows_squad(b);
    case ZEST_ROWS_DROP: return zest_rows_drop(b);
    case ZEST_ROWS_CHAT: return zest_rows_chat(b);
    case ZEST_ROWS_BY_EXTENSION: break;
    }
    return zest_error_set(b->error, ZEST_ERROR_ARGUMENT, "%s: unknown format number %d", b->path, format);
}

/* Takes ownership of the builder's file. */
static zest_status build(zest_rows_builder *b) {
    b->rows->path = strdup(b->path);
    b->limit = b->file.size > MIN_LIMIT / MAX_GROWTH ? b->file.size * MAX_GROWTH : MIN_LIMIT;
    b->rows->print = zest_fingerprint_of(b->file.data, b->file.size); /* before readers modify it in place */
    zest_status status = b->rows->path ? check_bytes(b) : zest_error_memory(b->error, b->path, 1);
    if (!status) status = read_format(b);
    if (!status) status = finish_rows(b);
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
    if (!status && ends_in(path, ".parquet") && !zest_parquet_is(b.file.data, b.file.size))
        status = zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: is no Parquet file: it does not begin with PAR1; download it again (git clones "
            "without git-lfs have short texts in place of such files)",
            path);
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

const char *zest_rows_show(const char *text, char capacity[64]) {
    size_t used = 0;
    while (*text && used < 56) {
        uint32_t code;
        size_t length = zest_unicode_read(text, &code);
        int control = code < 32 || (code >= 127 && code < 160);
        if (control)
            capacity[used++] = '?';
        else
            memcpy(capacity + used, text, length), used += length;
        text += length;
    }
    memcpy(capacity + used, *text ? "..." : "", *text ? 4 : 1);
    return capacity;
}
