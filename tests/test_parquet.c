/* Parquet files: golden files of three writers against the same rows as lines of JSON; damaged files. */
#include "tests/rows.h"

#include <dirent.h>
#include <unistd.h>

#include "base/json.h"
#include "io/parquet.h"

#define FOLDER "tests/data/parquet/"

static void read_golden(const char *name, zest_buffer *out) {
    zest_error error = {0};
    char path[200];
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (zest_file_read(path, 1 << 26, out, &error)) fail_msg("%s", error.message);
}

/* Whether this build unpacks the file: zlib and libzstd are optional. */
static int can_unpack(const char *name) {
#ifndef ZEST_ZLIB
    if (strstr(name, "gzip")) return 0;
#endif
#ifndef ZEST_ZSTD
    static const char *const zstd[] = {"zstd", "pages", "schema", "polars", "nested-v2", "nested-duckdb"};
    for (size_t i = 0; i < sizeof zstd / sizeof *zstd; i++)
        if (strstr(name, zstd[i])) return 0;
#endif
    return name != NULL;
}

/* ---- Golden files ---- */

/* Every row of the file equals its line, and there are as many. */
static void compare(const char *name, const zest_buffer *file, const zest_buffer *lines,
                    const char *const *paths, size_t path_count) {
    zest_error error = {0};
    json_error_t problem;
    zest_parquet *p;
    json_t *row;
    const char *at = lines->data;
    if (zest_parquet_open(file->data, file->size, name, paths, path_count, &p, &error))
        fail_msg("%s", error.message);
    for (size_t number = 1;; number++) {
        if (zest_parquet_next(p, &row, &error)) fail_msg("row %zu: %s", number, error.message);
        if (!row) break;
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        json_t *wanted = zest_json_load(at, (size_t)(end - at), ZEST_JSON_BIG_AS_TEXT, &problem);
        assert_non_null(wanted);
        if (!json_equal(row, wanted)) fail_msg("%s, row %zu: %s", name, number, json_dumps(row, 0));
        json_decref(wanted);
        json_decref(row);
        at = end + 1;
    }
    assert_int_equal(*at, 0);
    zest_parquet_close(p);
}

static void test_goldens(void **state) {
    (void)state;
    static const char *const half_paths[] = {"text", "half"}, *const messages[] = {"messages"};
    DIR *folder = opendir(FOLDER);
    int compared = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *dash = strchr(entry->d_name, '-');
        if (!dash || !can_unpack(entry->d_name)) continue;
        zest_buffer file = {0}, lines = {0};
        char rows[100];
        snprintf(rows, sizeof rows, "%.*s.jsonl", (int)(dash - entry->d_name), entry->d_name);
        read_golden(entry->d_name, &file);
        read_golden(rows, &lines);
        const char *const *paths = NULL;
        if (!strncmp(rows, "other", 5)) paths = half_paths;
        if (!strncmp(rows, "chat", 4)) paths = messages;
        compare(entry->d_name, &file, &lines, paths, paths == half_paths ? 2 : 1);
        zest_buffer_free(&file);
        zest_buffer_free(&lines);
        compared++;
    }
    closedir(folder);
    assert_true(compared >= 14);
}

/* ---- Selection ---- */

/* Opens a golden file with these paths; NULL: refused, and error says why. */
static zest_parquet *open_paths(const zest_buffer *file, const char *const *paths, size_t count,
                                zest_error *error) {
    zest_parquet *p;
    zest_status status = zest_parquet_open(file->data, file->size, "f", paths, count, &p, error);
    assert_int_equal(status != ZEST_OK, p == NULL);
    return p;
}

static void assert_first_row(const char *name, const char *path, const char *json) {
    zest_buffer file = {0};
    zest_error error = {0};
    json_t *row;
    read_golden(name, &file);
    zest_parquet *p = open_paths(&file, &path, 1, &error);
    if (!p || zest_parquet_next(p, &row, &error)) fail_msg("%s", error.message);
    char *text = json_dumps(row, JSON_COMPACT);
    assert_string_equal(text, json);
    free(text);
    json_decref(row);
    zest_parquet_close(p);
    zest_buffer_free(&file);
}

static void test_selection(void **state) {
    (void)state;
    assert_first_row("nested-v1.parquet", "point.inner.name",
                     "{\"point\":{\"inner\":{\"name\":\"\xF0\x9F\x98\x80\"}}}");
    assert_first_row("nested-v1.parquet", "id", "{\"id\":0}");
    assert_first_row("nested-pages.parquet", "grid", "{\"grid\":[null,[74],[]]}");
    assert_first_row("other-types.parquet", "image.path", "{\"image\":{\"path\":\"0.jpg\"}}");
}

static void refuses_path(const zest_buffer *file, const char *path, const char *words) {
    zest_error error = {0};
    json_t *row = NULL;
    zest_parquet *p = open_paths(file, path ? &path : NULL, 1, &error);
    if (p && !zest_parquet_next(p, &row, &error)) fail_msg("accepted, but should say '%s'", words);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
    assert_null(row);
    zest_parquet_close(p);
}

static void test_types_that_are_not_read(void **state) {
    (void)state;
    zest_buffer file = {0};
    read_golden("other-types.parquet", &file);
    refuses_path(&file, "when", "the column 'when' is a timestamp, which zest does not read");
    refuses_path(&file, "day", "is a date");
    refuses_path(&file, "price", "is a decimal");
    refuses_path(&file, "map", "the column 'map' is a map");
    refuses_path(&file, "image", "column 'image.bytes': has a value that is not UTF-8 text");
    refuses_path(
        &file, "x",
        "has none of the columns that are needed; its columns are: text, when (timestamp, not read)");
    zest_buffer_free(&file);
}

/* ---- Rows of tasks ---- */

/* Rows of the Parquet file equal rows of the lines, by the same layout. */
static void same_rows(const char *parquet, const char *lines, zest_rows_layout layout) {
    zest_buffer a = {0}, b = {0};
    zest_rows x, y;
    zest_error error = {0};
    read_golden(parquet, &a);
    read_golden(lines, &b);
    if (zest_rows_parse(a.data, a.size, "x.parquet", &layout, &x, &error)) fail_msg("%s", error.message);
    if (zest_rows_parse(b.data, b.size, "x.jsonl", &layout, &y, &error)) fail_msg("%s", error.message);
    assert_int_equal(x.count, y.count);
    assert_int_equal(x.name_count, y.name_count);
    for (size_t row = 0; row < x.count; row++)
        for (size_t i = 0; i < x.name_count; i++) {
            size_t count, wanted;
            assert_string_equal(x.names[i], y.names[i]);
            const char *const *texts = zest_rows_get(&x, row, (int)i, &count), *const *others = zest_rows_get(
                                                                                   &y, row, (int)i, &wanted);
            assert_int_equal(count, wanted);
            for (size_t j = 0; j < count; j++) assert_string_equal(texts[j], others[j]);
        }
    assert_int_equal(x.lines[x.count - 1], x.count);
    zest_rows_free(&x);
    zest_rows_free(&y);
    zest_buffer_free(&a);
    zest_buffer_free(&b);
}

static void test_rows(void **state) {
    (void)state;
    zest_rows_layout by_ending = {.format = ZEST_ROWS_BY_EXTENSION};
    same_rows("flat-groups.parquet", "flat.jsonl", by_ending);
    same_rows("flat-duckdb2.parquet", "flat.jsonl", JSONL("input=text label answer=constant flag"));
    same_rows("nested-v1.parquet", "nested.jsonl", JSONL("id words=words grid"));
    same_rows("chat-snappy.parquet", "chat.jsonl", SPECIAL(ZEST_ROWS_CHAT));
    if (can_unpack("zstd")) same_rows("sharegpt-zstd.parquet", "sharegpt.jsonl", SPECIAL(ZEST_ROWS_CHAT));
}

static void test_row_messages(void **state) {
    (void)state;
    zest_buffer file = {0};
    read_golden("nested-v1.parquet", &file);
    refuses_bytes(file.data, file.size, JSONL("point.x"), "f, row 4: has no text \"point.x\"");
    refuses_bytes(file.data, file.size, JSONL("none"), "f: has none of the columns that are needed");
    refuses_bytes(file.data, file.size, SPECIAL(ZEST_ROWS_CHAT), "has none of the columns that are needed");
    refuses_bytes(file.data, file.size, SPECIAL(ZEST_ROWS_SQUAD),
                  "is a Parquet file, but a file of another format");
    refuses_bytes(file.data, file.size, TSV("a=0"), "is a Parquet file, but a file of another format");
    zest_buffer_free(&file);
    zest_rows rows;
    zest_error error = {0};
    char path[] = "/tmp/zest-parquet-XXXXXX.parquet";
    int descriptor = mkstemps(path, 8);
    assert_true(descriptor >= 0 && write(descriptor, "version https://git-lfs", 23) == 23 &&
                !close(descriptor));
    zest_rows_layout by_ending = {.format = ZEST_ROWS_BY_EXTENSION};
    assert_int_equal(zest_rows_read(path, &by_ending, &rows, &error), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "is no Parquet file"));
    unlink(path);
}

/* ---- Damaged files ---- */

/* Reads all rows of a copy whose end the address sanitizer sees. Returns the status. */
static zest_status read_all(const void *bytes, size_t size, size_t *rows, zest_error *error) {
    void *copy = malloc(size ? size : 1);
    zest_parquet *p;
    json_t *row = NULL;
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    zest_status status = zest_parquet_open(copy, size, "f", NULL, 0, &p, error);
    *rows = 0;
    while (!status && !(status = zest_parquet_next(p, &row, error)) && row) {
        json_decref(row);
        ++*rows;
    }
    if (status && (error->status != status || !error->message[0])) fail_msg("an error without a message");
    zest_parquet_close(p);
    free(copy);
    return status;
}

static const char *const hostile[] = {"flat-none.parquet",   "flat-snappy.parquet",  "flat-gzip.parquet",
                                      "flat-zstd.parquet",   "flat-lz4.parquet",     "flat-delta1.parquet",
                                      "flat-delta2.parquet", "flat-duckdb2.parquet", "nested-v1.parquet",
                                      "nested-v2.parquet",   "nested-polars.parquet"};

static void test_truncated(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        zest_buffer file = {0};
        zest_error error = {0};
        size_t rows;
        read_golden(hostile[i], &file);
        for (size_t size = 0; size < file.size; size++)
            if (!read_all(file.data, size, &rows, &error))
                fail_msg("%s: %zu bytes are enough", hostile[i], size);
        zest_buffer_free(&file);
    }
}

/* A flipped bit is refused, or changes values; it never reads outside and never makes more rows. */
static void test_flipped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        zest_buffer file = {0};
        zest_error error = {0};
        size_t rows, refused = 0;
        read_golden(hostile[i], &file);
        for (size_t at = 0; at < file.size; at++) {
            int bit = 1 << (at * 5 + i) % 8;
            file.data[at] = (char)(file.data[at] ^ bit);
            refused += read_all(file.data, file.size, &rows, &error) != ZEST_OK;
            assert_true(rows <= 60);
            file.data[at] = (char)(file.data[at] ^ bit);
        }
        assert_true(refused > file.size / 8);
        zest_buffer_free(&file);
    }
}

/* ---- Files made here ---- */

/* Thrift's compact protocol, with every field's number in full. */
static void put_number(zest_buffer *out, uint64_t n) {
    for (; n >= 128; n >>= 7) zest_buffer_add(out, &(char){(char)(n | 128)}, 1);
    zest_buffer_add(out, &(char){(char)n}, 1);
}

static void put_field(zest_buffer *out, int id, int type) {
    zest_buffer_add(out, &(char){(char)type}, 1);
    put_number(out, (uint64_t)id << 1);
}

static void put_integer(zest_buffer *out, int id, int64_t value) {
    put_field(out, id, 6);
    put_number(out, (uint64_t)value << 1);
}

static void put_text(zest_buffer *out, int id, const char *text) {
    put_field(out, id, 8);
    put_number(out, strlen(text));
    zest_buffer_text(out, text);
}

static void put_list(zest_buffer *out, int id, int type, size_t count) {
    put_field(out, id, 9);
    zest_buffer_add(out, &(char){(char)(0xF0 | type)}, 1);
    put_number(out, count);
}

static void put_end(zest_buffer *out) { zest_buffer_add(out, "", 1); }

/* A node of the schema. type < 0: it has children. */
typedef struct {
    const char *name;
    int type, repetition, children, converted;
} node;

static void put_node(zest_buffer *out, node n) {
    if (n.type >= 0) put_integer(out, 1, n.type);
    put_integer(out, 3, n.repetition);
    put_text(out, 4, n.name);
    if (n.children) put_integer(out, 5, n.children);
    if (n.converted) put_integer(out, 6, n.converted);
    put_end(out);
}

/* A page of version 2, not packed; the header says what the arguments say. */
typedef struct {
    int64_t count, encoding;
    const char *reps, *defs, *values;
    size_t rep_size, def_size, value_size;
} page;

static void put_page(zest_buffer *out, page p) {
    int64_t size = (int64_t)(p.rep_size + p.def_size + p.value_size);
    put_integer(out, 1, 3);
    put_integer(out, 2, size);
    put_integer(out, 3, size);
    put_field(out, 8, 12);
    put_integer(out, 1, p.count);
    put_integer(out, 4, p.encoding);
    put_integer(out, 5, (int64_t)p.def_size);
    put_integer(out, 6, (int64_t)p.rep_size);
    put_field(out, 7, 2);
    put_end(out);
    put_end(out);
    zest_buffer_add(out, p.reps, p.rep_size);
    zest_buffer_add(out, p.defs, p.def_size);
    zest_buffer_add(out, p.values, p.value_size);
}

typedef struct {
    int type;
    page page;
} made_column;

/* A file of so many equal row groups, whose columns have one page each, which all groups share. */
static void make_file(zest_buffer *out, const node *nodes, size_t node_count, const made_column *columns,
                      size_t count, int64_t rows, size_t groups) {
    size_t starts[8], sizes[8];
    zest_buffer_text(out, "PAR1");
    for (size_t i = 0; i < count; i++) {
        starts[i] = out->size;
        put_page(out, columns[i].page);
        sizes[i] = out->size - starts[i];
    }
    size_t footer = out->size;
    put_list(out, 2, 12, node_count);
    for (size_t i = 0; i < node_count; i++) put_node(out, nodes[i]);
    put_integer(out, 3, rows);
    put_list(out, 4, 12, groups);
    for (size_t g = 0; g < groups; g++) {
        put_list(out, 1, 12, count);
        for (size_t i = 0; i < count; i++) {
            put_field(out, 3, 12);
            put_integer(out, 1, columns[i].type);
            put_integer(out, 5, columns[i].page.count);
            put_integer(out, 7, (int64_t)sizes[i]);
            put_integer(out, 9, (int64_t)starts[i]);
            put_end(out);
            put_end(out);
        }
        put_integer(out, 3, rows);
        put_end(out);
    }
    put_end(out);
    uint32_t size = (uint32_t)(out->size - footer);
    zest_buffer_add(out, &size, 4); /* the machines of zest are little-endian */
    zest_buffer_text(out, "PAR1");
}

static void assert_made(const zest_buffer *file, const char *json) {
    zest_error error = {0};
    zest_parquet *p;
    json_t *row;
    zest_buffer text = {0};
    if (zest_parquet_open(file->data, file->size, "f", NULL, 0, &p, &error)) fail_msg("%s", error.message);
    for (;;) {
        if (zest_parquet_next(p, &row, &error)) fail_msg("%s", error.message);
        if (!row) break;
        zest_json_print(row, JSON_COMPACT, &text);
        json_decref(row);
    }
    assert_string_equal(text.data, json);
    zest_parquet_close(p);
    zest_buffer_free(&text);
}

/* Lists as older writers made them: a repeated column; a list whose repeated node is the element. */
static void test_old_lists(void **state) {
    (void)state;
    /* rows: [1, 2], [], [3]; levels as runs: (count << 1), value */
    made_column columns[] = {{1,
                              {.count = 4,
                               .reps = "\x02\x00\x02\x01\x04\x00",
                               .rep_size = 6,
                               .defs = "\x04\x01\x02\x00\x02\x01",
                               .def_size = 6,
                               .values = "\1\0\0\0\2\0\0\0\3\0\0\0",
                               .value_size = 12}}};
    const node bare[] = {{"root", -1, 0, 1, 0}, {"n", 1, 2, 0, 0}};
    zest_buffer file = {0};
    make_file(&file, bare, 2, columns, 1, 3, 1);
    assert_made(&file, "{\"n\":[1,2]}{\"n\":[]}{\"n\":[3]}");
    file.size = 0;
    const node two[] = {{"root", -1, 0, 1, 0}, {"n", -1, 0, 1, 3}, {"array", 1, 2, 0, 0}};
    make_file(&file, two, 3, columns, 1, 3, 1);
    assert_made(&file, "{\"n\":[1,2]}{\"n\":[]}{\"n\":[3]}");
    file.size = 0;
    const node tuple[] = {
        {"root", -1, 0, 1, 0}, {"n", -1, 0, 1, 3}, {"n_tuple", -1, 2, 1, 0}, {"x", 1, 0, 0, 0}};
    make_file(&file, tuple, 4, columns, 1, 3, 1);
    assert_made(&file, "{\"n\":[{\"x\":1},{\"x\":2}]}{\"n\":[]}{\"n\":[{\"x\":3}]}");
    zest_buffer_free(&file);
}

static void refuses_made(const zest_buffer *file, const char *words) {
    zest_error error = {0};
    size_t rows;
    if (!read_all(file->data, file->size, &rows, &error)) fail_msg("accepted, but should say '%s'", words);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
}

/* Columns of a list of structs that do not have the same lists. */
static void test_columns_that_disagree(void **state) {
    (void)state;
    const node nodes[] = {{"root", -1, 0, 1, 0}, {"n", -1, 2, 2, 0}, {"x", 1, 0, 0, 0}, {"y", 1, 0, 0, 0}};
    const page two_one = {.count = 3,
                          .reps = "\x02\x00\x02\x01\x02\x00",
                          .rep_size = 6,
                          .defs = "\x06\x01",
                          .def_size = 2,
                          .values = "\1\0\0\0\2\0\0\0\3\0\0\0",
                          .value_size = 12};
    page one_two = two_one, none = two_one, more = two_one;
    one_two.reps = "\x04\x00\x02\x01";
    one_two.rep_size = 4;
    none.defs = "\x04\x01\x02\x00";
    none.def_size = 4;
    more.count = 4;
    more.reps = "\x02\x00\x02\x01\x04\x00";
    more.defs = "\x08\x01";
    more.values = "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0";
    more.value_size = 16;
    made_column columns[] = {{1, two_one}, {1, two_one}};
    zest_buffer file = {0};
    make_file(&file, nodes, 4, columns, 2, 2, 1);
    assert_made(&file, "{\"n\":[{\"x\":1,\"y\":1},{\"x\":2,\"y\":2}]}{\"n\":[{\"x\":3,\"y\":3}]}");
    const struct {
        page page;
        const char *words;
    } bad[] = {{one_two, "column 'n.y': has other lists than its neighbours"},
               {none, "column 'n.y': has other lists than its neighbours"},
               {more, "column 'n.y': has more values than there are rows"}};
    for (size_t i = 0; i < 3; i++) {
        file.size = 0;
        columns[1].page = bad[i].page;
        make_file(&file, nodes, 4, columns, 2, 2, 1);
        refuses_made(&file, bad[i].words);
    }
    file.size = 0;
    columns[1].page = two_one;
    make_file(&file, nodes, 4, columns, 2, 3, 1);
    refuses_made(&file, "has fewer values than there are rows");
    const node same[] = {{"root", -1, 0, 1, 0}, {"n", -1, 2, 2, 0}, {"x", 1, 0, 0, 0}, {"x", 1, 0, 0, 0}};
    file.size = 0;
    make_file(&file, same, 4, columns, 2, 2, 1);
    refuses_made(&file, "has two columns 'x'");
    zest_buffer_free(&file);
}

/* Bytes that stand for far more rows, values or bytes than any real file of their size has. */
static void test_bombs(void **state) {
    (void)state;
    zest_buffer file = {0};
    const node nodes[] = {{"root", -1, 0, 1, 0}, {"n", 1, 1, 0, 0}},
               list[] = {{"root", -1, 0, 1, 0}, {"n", 1, 2, 0, 0}};
    const int64_t many = INT32_MAX;
    /* two billion rows of null: one run */
    made_column nulls = {1, {.count = many, .defs = "\xFE\xFF\xFF\xFF\x0F\x00", .def_size = 6}};
    make_file(&file, nodes, 2, &nulls, 1, many, 1);
    refuses_made(&file, "unpacks to more than any real data");
    zest_rows rows;
    zest_error error = {0};
    zest_rows_layout layout = JSONL("n");
    assert_int_equal(zest_rows_parse(file.data, file.size, "f", &layout, &rows, &error), ZEST_ERROR_FORMAT);
    /* one row, a list of two billion zeros */
    made_column zeros = {1,
                         {.count = many,
                          .encoding = 5,
                          .reps = "\x02\x00\xFC\xFF\xFF\xFF\x0F\x01",
                          .rep_size = 8,
                          .defs = "\xFE\xFF\xFF\xFF\x0F\x01",
                          .def_size = 6,
                          .values = "\x80\x01\x01\xFF\xFF\xFF\xFF\x07\x00\x00",
                          .value_size = 10}};
    file.size = 0;
    make_file(&file, list, 2, &zeros, 1, 1, 1);
    refuses_made(&file, "column 'n': ");
    /* row groups that all have the same bytes */
    zest_buffer texts = {0};
    for (uint32_t i = 0; i < 2000; i++) zest_buffer_add(&texts, "\x02\x00\x00\x00xy", 6);
    const node text[] = {{"root", -1, 0, 1, 0}, {"n", 6, 0, 0, 0}};
    made_column shared = {6, {.count = 2000, .values = texts.data, .value_size = texts.size}};
    file.size = 0;
    make_file(&file, text, 2, &shared, 1, 2000, 2000);
    refuses_made(&file, "unpacks to more than any real data");
    zest_buffer_free(&texts);
    zest_buffer_free(&file);
}

/* What the format does not allow, by name. */
static void test_made_refusals(void **state) {
    (void)state;
    const node nodes[] = {{"root", -1, 0, 1, 0}, {"n", 1, 0, 0, 0}};
    const struct {
        page page;
        const char *words;
    } bad[] = {{{.count = 3, .values = "\1\0\0\0\2\0\0", .value_size = 7}, "its values end early"},
               {{.count = 3, .encoding = 8, .values = "\1\2\1", .value_size = 3},
                "refers to a dictionary, but has none"},
               {{.count = 3, .encoding = 3, .values = "\0\0\0\0", .value_size = 4},
                "an encoding that the format does not"},
               {{.count = 3, .encoding = 6, .values = "\0\0\0\0", .value_size = 4},
                "an encoding that the format does not"},
               {{.count = 3, .encoding = 99, .values = "\0\0\0\0", .value_size = 4},
                "an encoding that zest does not read"},
               {{.count = 3, .encoding = 5, .values = "\x80\x01\x03\x03\x00", .value_size = 5},
                "its values are damaged"}};
    zest_buffer file = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_column column = {1, bad[i].page};
        file.size = 0;
        make_file(&file, nodes, 2, &column, 1, 3, 1);
        refuses_made(&file, bad[i].words);
    }
    zest_buffer deep = {0};
    node chain[80];
    for (size_t i = 0; i < 80; i++) chain[i] = (node){i ? "a" : "root", i < 79 ? -1 : 1, 0, i < 79, 0};
    made_column column = {1, {.count = 1, .values = "\0\0\0\0", .value_size = 4}};
    make_file(&deep, chain, 80, &column, 1, 1, 1);
    refuses_made(&deep, "nested more than 64 deep");
    zest_buffer_free(&deep);
    zest_buffer_free(&file);
}

/* Codecs that are not read. */
static void test_codecs(void **state) {
    (void)state;
    zest_buffer file = {0};
    zest_error error = {0};
    size_t rows, changed = 0;
    read_golden("chat-snappy.parquet", &file);
    for (size_t at = file.size / 2; at + 1 < file.size; at++) { /* codec: field 4 behind field 3, i32 */
        if (file.data[at] != 0x15 || file.data[at + 1] != 0x02) continue;
        file.data[at + 1] = 0x08;
        if (read_all(file.data, file.size, &rows, &error) && strstr(error.message, "its codec is BROTLI"))
            changed++;
        file.data[at + 1] = 0x02;
    }
    assert_true(changed > 0);
    zest_buffer_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_types_that_are_not_read),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_row_messages),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_old_lists),
        cmocka_unit_test(test_columns_that_disagree),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_made_refusals),
        cmocka_unit_test(test_codecs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
