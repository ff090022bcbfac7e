/* Rows of the caller, split into records. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "io/parquet.h"
#include "lm/records.h"

typedef enum { AUTO, LINES, TSV, CSV, JSONL } input_format;

typedef struct {
    zest_records *records;
    const zest_task *task;
    const zest_task_columns *columns;
    input_format format;
    int is_parquet;
    zest_error *error;
} reading;

/* ---- Records ---- */

static zest_status add_record(zest_records *r, zest_records_item record, zest_error *error) {
    if (!(r->count & (r->count - 1))) { /* full at powers of two */
        size_t capacity = r->count ? 2 * r->count : 1;
        zest_records_item *list = realloc(r->list, capacity * sizeof *list);
        if (!list) return zest_error_memory(error, r->name, capacity * sizeof *list);
        r->list = list;
    }
    r->list[r->count++] = record;
    return ZEST_OK;
}

/* No white space, unlike to strchr: a NUL, which the reader of rows reports. */
static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static int is_blank(const char *text, size_t size) {
    while (size && is_space(*text)) text++, size--;
    return !size;
}

/* The end of the record at `at`: its newline, or the end. In CSV a newline in a quoted cell belongs to the
 * cell. */
static size_t record_end(const zest_records *r, size_t at, int quotes) {
    const char *data = r->data;
    int begins = 1, inside = 0; /* at the start of a cell; inside quotes */
    for (; at < r->size && (inside || data[at] != '\n'); at++) {
        if (inside && data[at] == '"' && at + 1 < r->size && data[at + 1] == '"')
            at++; /* a quote within quotes is written twice */
        else if (quotes && data[at] == '"' && (begins || inside))
            inside = !inside;
        begins = !inside && data[at] == ',';
    }
    return at;
}

static zest_status cut(reading *in) {
    zest_records *r = in->records;
    const zest_rows_layout *l = &r->layout;
    size_t at = r->size >= 3 && !memcmp(r->data, "\xEF\xBB\xBF", 3) ? 3 : 0, line = 1;
    zest_status status = ZEST_OK;
    int header = (l->format == ZEST_ROWS_TSV || l->format == ZEST_ROWS_CSV) && l->header;
    if (l->format == ZEST_ROWS_SQUAD || l->format == ZEST_ROWS_DROP || r->single)
        return r->size ? add_record(r, (zest_records_item){0, r->size, 1}, in->error) : ZEST_OK;
    while (at < r->size && !status) {
        size_t end = record_end(r, at, l->format == ZEST_ROWS_CSV);
        zest_records_item record = {at, end - at, line};
        if (is_blank(r->data + at, end - at))
            ; /* skip */
        else if (header && !r->header.size)
            r->header = record;
        else
            status = add_record(r, record, in->error);
        for (; at < end; at++) line += r->data[at] == '\n';
        line++, at = end + 1;
    }
    return status;
}

/* ---- Format ---- */

static int ends_in(const char *path, const char *end) {
    size_t size = strlen(path), tail = strlen(end);
    return size > tail && !strcasecmp(path + size - tail, end);
}

static input_format format_of(const char *path) {
    if (ends_in(path, ".tsv")) return TSV;
    if (ends_in(path, ".csv")) return CSV;
    if (ends_in(path, ".jsonl") || ends_in(path, ".ndjson") || ends_in(path, ".json")) return JSONL;
    return ends_in(path, ".txt") ? LINES : AUTO;
}

/* The first line that is not blank; empty if there is none. */
static zest_records_item first_line(const zest_records *r) {
    size_t at = r->size >= 3 && !memcmp(r->data, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (at < r->size) {
        size_t end = record_end(r, at, 0);
        if (!is_blank(r->data + at, end - at)) return (zest_records_item){at, end - at, 1};
        at = end + 1;
    }
    return (zest_records_item){0};
}

/* Whether the name is one of the cells of the line. Quotes around a cell are ignored. */
static int has_cell(const char *line, size_t size, char separator, const char *name) {
    for (size_t at = 0; at <= size;) {
        const char *stop = memchr(line + at, separator, size - at);
        size_t end = stop ? (size_t)(stop - line) : size, first = at, last = end;
        if (last > first && line[last - 1] == '\r') last--;
        if (last > first + 1 && line[first] == '"' && line[last - 1] == '"') first++, last--;
        if (last - first == strlen(name) && !memcmp(line + first, name, last - first)) return 1;
        at = end + 1;
    }
    return 0;
}

static int names_columns(const reading *in, char separator) {
    zest_records_item line = first_line(in->records);
    for (size_t i = 0; i < in->columns->count; i++)
        if (!has_cell(in->records->data + line.start, line.size, separator, in->columns->names[i])) return 0;
    return in->columns->count > 0;
}

static input_format native_format(const zest_task_source *source) {
    switch (source->layout.format) {
    case ZEST_ROWS_TSV: return TSV;
    case ZEST_ROWS_CSV: return CSV;
    case ZEST_ROWS_JSONL: return JSONL;
    case ZEST_ROWS_BY_EXTENSION: return source->train ? format_of(source->train) : AUTO;
    default: return AUTO;
    }
}

/* The layout of the task's own files of this format, or NULL. */
static const zest_rows_layout *native_layout(const zest_task *task, input_format format) {
    for (size_t i = 0; i < task->source_count; i++)
        if (native_format(&task->sources[i]) == format) return &task->sources[i].layout;
    return NULL;
}

static input_format sniff(const reading *in) {
    zest_records_item line = first_line(in->records);
    const char *text = in->records->data + line.start;
    const zest_rows_layout *tsv = native_layout(in->task, TSV), *csv = native_layout(in->task, CSV);
    size_t blank = 0;
    while (blank < line.size && is_space(text[blank])) blank++;
    if (blank < line.size && text[blank] == '{') return JSONL;
    if (names_columns(in, '\t')) return TSV;
    if (names_columns(in, ',')) return CSV;
    int several = in->columns->count > 1; /* then no line can be a text */
    if (tsv && (several || !tsv->header) && memchr(text, '\t', line.size)) return TSV;
    if (csv && (several || !csv->header) && memchr(text, ',', line.size)) return CSV;
    return in->columns->count == 1 ? LINES : AUTO;
}

static int is_special(zest_rows_format format) {
    return format >= ZEST_ROWS_RECORD && format <= ZEST_ROWS_DROP;
}

static zest_status refuse_format(const reading *in) {
    zest_buffer names = {0}, object = {0};
    for (size_t i = 0; i < in->columns->count; i++) {
        zest_buffer_format(&names, "%s%s", i ? ", " : "", in->columns->names[i]);
        zest_buffer_format(&object, "%s\"%s\": \"...\"", i ? ", " : "", in->columns->names[i]);
    }
    int text = in->records->single;
    zest_status status = zest_error_set(
        in->error, ZEST_ERROR_ARGUMENT, "%s: the task %s reads %s%.200s; %s {%.300s}%s", in->records->name,
        in->task->name, in->columns->count == 1 ? "the column " : "the columns ",
        names.data ? names.data : "", text ? "give them as" : "give JSON lines",
        object.data ? object.data : "", text ? "" : ", or a table whose first line names them");
    zest_buffer_free(&names);
    zest_buffer_free(&object);
    return status;
}

/* ---- Parquet ---- */

/* Lines of JSON may have so many times the bytes of a Parquet file. */
enum { MAX_GROWTH = 64, LEAST_LINES = 16 << 20 };

static zest_status add_lines(const reading *in, zest_parquet *file, size_t limit) {
    zest_buffer *lines = &in->records->lines;
    for (;;) {
        json_t *row;
        zest_status status = zest_parquet_next(file, &row, in->error);
        if (status || !row) return status;
        zest_json_print(row, JSON_COMPACT, lines);
        json_decref(row);
        zest_buffer_text(lines, "\n");
        if (lines->failed) return zest_error_memory(in->error, in->records->name, lines->size);
        if (lines->size > limit)
            return zest_error_set(
                in->error, ZEST_ERROR_FORMAT,
                "%s: its rows have more than %zu bytes, %d times the size of the file; split it",
                in->records->name, limit, MAX_GROWTH);
    }
}

/* The caller's bytes become lines of JSON. */
static zest_status unpack_parquet(reading *in) {
    zest_records *r = in->records;
    zest_parquet *file;
    size_t limit = r->size > LEAST_LINES / MAX_GROWTH ? r->size * MAX_GROWTH : LEAST_LINES;
    zest_status status = zest_parquet_open(r->data, r->size, r->name, NULL, 0, &file, in->error);
    if (!status) status = add_lines(in, file, limit);
    zest_parquet_close(file);
    r->data = r->lines.data;
    r->size = r->lines.size;
    in->is_parquet = 1;
    return status;
}

/* ---- Fields ---- */

/* Objects with the columns as the task names them, or as in its own files. */
static zest_status choose_fields(reading *in, const zest_rows_layout *native) {
    zest_records *r = in->records;
    zest_records_item line = first_line(r);
    json_error_t problem;
    json_t *first = zest_json_load(r->data + line.start, r->single ? r->size : line.size,
                                   ZEST_JSON_BIG_AS_REAL, &problem);
    zest_buffer fields = {0};
    int named = 1;
    for (size_t i = 0; i < in->columns->count; i++) {
        named &= json_object_get(first, in->columns->names[i]) != NULL;
        zest_buffer_format(&fields, "%s ", in->columns->names[i]);
    }
    json_decref(first);
    if (in->task->label) zest_buffer_text(&fields, in->task->label);
    if (fields.failed || !fields.data) {
        zest_buffer_free(&fields);
        return zest_error_memory(in->error, "the fields", 0);
    }
    r->fields = fields.data;
    r->layout = (zest_rows_layout){.format = ZEST_ROWS_JSONL,
                                   .fields = named || !native || !native->fields ? r->fields : native->fields,
                                   .optional = in->task->label};
    return ZEST_OK;
}

static zest_status choose_table(reading *in, const zest_rows_layout *native) {
    zest_rows_format format = in->format == TSV ? ZEST_ROWS_TSV : ZEST_ROWS_CSV;
    int named = names_columns(in, in->format == TSV ? '\t' : ',');
    in->records->layout = named || !native ? (zest_rows_layout){.header = 1} : *native;
    in->records->layout.format = format;
    in->records->layout.skip_short = 0; /* a row with too few columns is an error */
    return ZEST_OK;
}

static int find_format(const char *name, input_format *format) {
    static const char *const names[] = {"auto", "lines", "tsv", "csv", "jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return *format = (input_format)i, 1;
    return 0;
}

static zest_status choose_layout(reading *in, const zest_lm_rows_format *format) {
    zest_records *r = in->records;
    const zest_rows_layout *own = &in->task->sources[0].layout;
    int text = r->single;
    if (format->format && !find_format(format->format, &in->format))
        return zest_error_set(in->error, ZEST_ERROR_ARGUMENT,
                              "'%.40s' is no format of rows; there are auto, lines, tsv, csv and jsonl",
                              format->format);
    if (in->is_parquet) in->format = JSONL;
    if (in->format == AUTO && is_special(own->format) && !text) return r->layout = *own, ZEST_OK;
    if (in->format == AUTO && !text) in->format = format_of(r->name);
    if (in->format == AUTO) in->format = sniff(in);
    if (text && in->format != JSONL) in->format = LINES;
    if (in->format == AUTO || (in->format == LINES && in->columns->count != 1)) return refuse_format(in);
    if (in->format == LINES) {
        r->column = in->columns->names[0];
        r->layout = (zest_rows_layout){.format = ZEST_ROWS_JSONL, .fields = r->column};
        return ZEST_OK;
    }
    const zest_rows_layout *native = native_layout(in->task, in->format);
    return in->format == JSONL ? choose_fields(in, native) : choose_table(in, native);
}

zest_status zest_records_read(zest_records *records, const zest_task *task, const zest_task_columns *columns,
                              const char *bytes, size_t size, const zest_lm_rows_format *format,
                              zest_error *error) {
    reading in = {.records = records, .task = task, .columns = columns, .error = error};
    *records = (zest_records){
        .name = format->name ? format->name : "rows", .data = bytes, .size = size, .single = format->single};
    zest_status status = zest_parquet_is(bytes, size) ? unpack_parquet(&in) : ZEST_OK;
    if (!status && records->size) status = choose_layout(&in, format);
    if (!status && records->size) status = cut(&in);
    if (!status && !records->count)
        status = zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "%s: has no rows; use --text TEXT, --input FILE, or --split test for the task's own",
            records->name);
    return status;
}

void zest_records_free(zest_records *records) {
    free(records->list);
    free(records->fields);
    zest_buffer_free(&records->lines);
    *records = (zest_records){0};
}

/* ---- Parsing ---- */

/* A plain line as a JSON object. Invalid UTF-8 is copied unchanged, and the reader of rows reports it. */
static void add_line(const char *column, const char *text, size_t size, zest_buffer *out) {
    if (size && text[size - 1] == '\r') size--;
    json_t *value = json_stringn(text, size), *object = value ? json_pack("{s:o}", column, value) : NULL;
    if (object)
        zest_json_print(object, JSON_COMPACT, out);
    else
        zest_buffer_add(out, text, size);
    json_decref(object);
}

/* One line of JSON: an object given with --text may have several. */
static void add_object(const char *text, size_t size, zest_buffer *out) {
    size_t start = out->size;
    zest_buffer_add(out, text, size);
    for (size_t i = start; i < out->size; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r') out->data[i] = ' ';
}

zest_status zest_records_parse(const zest_records *records, size_t first, size_t end, zest_rows *rows,
                               zest_error *error) {
    zest_buffer text = {0};
    const char *data = records->data;
    *rows = (zest_rows){0};
    if (records->header.size) {
        zest_buffer_add(&text, data + records->header.start, records->header.size);
        zest_buffer_text(&text, "\n");
    }
    for (size_t i = first; i < end; i++) {
        const zest_records_item *record = &records->list[i];
        if (records->column)
            add_line(records->column, data + record->start, record->size, &text);
        else if (records->layout.format == ZEST_ROWS_JSONL)
            add_object(data + record->start, record->size, &text);
        else
            zest_buffer_add(&text, data + record->start, record->size);
        zest_buffer_text(&text, "\n");
    }
    zest_status status =
        text.failed ? zest_error_memory(error, records->name, text.size)
                    : zest_rows_parse(text.data, text.size, records->name, &records->layout, rows, error);
    zest_buffer_free(&text);
    return status;
}

int zest_records_are_objects(const zest_records *records) {
    return records->layout.format == ZEST_ROWS_JSONL && !records->column;
}
