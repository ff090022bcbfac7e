/* TSV, CSV and JSONL: valid files, and every error. */
#include "tests/rows.h"

/* ---- TSV ---- */

static void test_tsv(void **state) {
    (void)state;
    zest_rows rows = parse("\xEF\xBB\xBFindex\tsentence\tlabel\n"
                           "0\t\"a\" b, \t1\r\n"
                           "\n"
                           "1\t\t0",
                           TSV("text=1 label=-1"));
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.name_count, 2);
    assert_field(rows, 0, "text", "\"a\" b, "); /* quotes are text, and nothing is stripped */
    assert_field(rows, 0, "label", "1");
    assert_field(rows, 1, "text", "");
    assert_field(rows, 1, "label", "0");
    assert_int_equal(rows.lines[0], 2);
    assert_int_equal(rows.lines[1], 4);
    assert_string_equal(rows.path, "f");
    assert_int_equal(zest_rows_field(&rows, "index"), -1);
    zest_rows_free(&rows);
    zest_rows_free(&rows);
    zest_rows_free(NULL);
}

static void test_tsv_names(void **state) {
    (void)state;
    zest_rows rows = parse("#1 ID\tlabel\na\tb\n", TSV(NULL)); /* the header's own names */
    assert_field(rows, 0, "#1 ID", "a");
    zest_rows_free(&rows);
    rows = parse("\xEF\xBB\xBF"
                 "id\tx\na\tb\n",
                 TSV(NULL)); /* the byte order mark is no part of them */
    assert_field(rows, 0, "id", "a");
    zest_rows_free(&rows);
    rows = parse("s1\tgold\na\tb\n", TSV("premise=s1, gold")); /* by name */
    assert_field(rows, 0, "premise", "a");
    assert_field(rows, 0, "gold", "b");
    zest_rows_free(&rows);
    zest_rows_layout bare = {.format = ZEST_ROWS_TSV};
    rows = parse("a\tb\n", bare); /* no names at all: numbers */
    assert_field(rows, 0, "1", "b");
    zest_rows_free(&rows);
}

static void test_tsv_refusals(void **state) {
    (void)state;
    refuses("a\tb\n1\t2\n3\n", TSV("x=0"), "f, line 3: has 1 field, but the header has 2");
    refuses("a\tb\n1\t2\t3\n", TSV("x=0"), "line 2: has 3 fields, but the header has 2");
    /* the limits of 64 bits and beyond, and what strtol takes for a number */
    static const char *const columns[] = {"x=-9223372036854775808",
                                          "x=-9223372036854775807",
                                          "x=9223372036854775807",
                                          "x=9223372036854775808",
                                          "x=-99999999999999999999",
                                          "x=-3",
                                          "x=2",
                                          "x=+1",
                                          "x=0x1",
                                          "x=1.0",
                                          "x=-",
                                          "x=--1"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        refuses("a\tb\n1\t2\n", TSV(columns[i]), "has no column");
    zest_rows ends = parse("a\tb\n1\t2\n", TSV("x=-2 y=-1"));
    assert_field(ends, 0, "x", "1");
    assert_field(ends, 0, "y", "2");
    zest_rows_free(&ends);
    refuses("a\tb\n", TSV("x=0"), "no rows");
    refuses("\n\n", TSV("x=0"), "no rows");
    refuses("a\tb\n1\t2\n", TSV("x=2"), "no column '2'");
    refuses("a\tb\n1\t2\n", TSV("x=-3"), "no column '-3'");
    refuses("a\tb\n1\t2\n", TSV("x=99999999999999999999"), "no column");
    refuses("a\tb\n1\t2\n", TSV("x=c"), "its columns are a, b");
    refuses("a\tb\n1\t2\n", TSV("x="), "'x=' is half");
    refuses("a\tb\n1\t2\n", TSV("=1"), "is half");
    refuses("a\tb\n1\t2\n", TSV("x=0 x=1"), "comes twice");
    refuses("a\tb\n1\t2\n", TSV(" "), "is empty");
    refuses("a\ta\n1\t2\n", TSV(NULL), "'a' appears twice");
}

/* QQP has rows that end early: they do not count, where the layout says so. */
static void test_short_rows(void **state) {
    (void)state;
    zest_rows_layout layout = TSV("x=0 y=1");
    layout.skip_short = 1;
    zest_rows rows = parse("a\tb\n1\t2\n3\n4\t5\n", layout);
    assert_int_equal(rows.count, 2);
    assert_field(rows, 1, "x", "4");
    assert_int_equal(rows.lines[1], 4);
    zest_rows_free(&rows);
    refuses("a\tb\n1\t2\t3\n", layout, "has 3 fields");
}

/* ---- CSV ---- */

static void test_csv(void **state) {
    (void)state;
    zest_rows rows = parse("1,plain\n"
                           "2,\"with, comma\"\r\n"
                           "3,\"two\nlines and \"\"quotes\"\"\"\n"
                           "4,in the \"middle\"\n"
                           "5,\"\"\n"
                           "6,\"\"\"\"",
                           CSV("label=0 text=1"));
    assert_int_equal(rows.count, 6);
    assert_field(rows, 0, "text", "plain");
    assert_field(rows, 1, "text", "with, comma");
    assert_field(rows, 2, "text", "two\nlines and \"quotes\"");
    assert_field(rows, 3, "text", "in the \"middle\"");
    assert_field(rows, 4, "text", "");
    assert_field(rows, 5, "text", "\"");
    assert_field(rows, 5, "label", "6");
    assert_int_equal(rows.lines[2], 3);
    assert_int_equal(rows.lines[3], 5);
    zest_rows_free(&rows);
    rows = parse("a,\nb,\"x\"\r", CSV(NULL));
    assert_field(rows, 0, "1", "");
    assert_field(rows, 1, "1", "x");
    zest_rows_free(&rows);
}

static void test_csv_refusals(void **state) {
    (void)state;
    refuses("1,a\n2,\"never\nclosed\n", CSV("l=0 t=1"), "f, line 2: the quote that starts here");
    refuses("1,\"", CSV("l=0 t=1"), "line 1: the quote");
    refuses("1,\"a\nb\" c\n", CSV("l=0 t=1"), "line 2: text follows a closing quote");
    refuses("1,a\n2,b,c\n", CSV("l=0 t=1"), "line 2: has 3 fields, but the first row has 2");
    refuses("1,a\n", CSV("l=0 t=text"), "without header has no names");
}

/* ---- JSONL ---- */

static void test_jsonl(void **state) {
    (void)state;
    static const char text[] = "{\"text\": \"a\\nb\", \"label\": true, \"n\": 3, \"x\": 0.1, \"none\": null,"
                               " \"many\": [\"p\", 2, false], \"deep\": {\"er\": \"d\", \"e.r\": \"q\"}}\n"
                               "  \r\n"
                               "{\"deep\": {\"er\": \"e\", \"e.r\": \"\"}, \"text\": \"\\u00e9\", \"label\": "
                               "false, \"n\": -1, \"x\": 1e300, \"none\": \"\", \"many\": []}";
    zest_rows rows = parse(text, JSONL(NULL));
    assert_int_equal(rows.count, 2);
    assert_field(rows, 0, "text", "a\nb");
    assert_field(rows, 0, "label", "true");
    assert_field(rows, 0, "n", "3");
    assert_field(rows, 0, "x", "0.1");
    assert_field(rows, 0, "none", "");
    assert_field(rows, 0, "many", "p|2|false");
    assert_field(rows, 0, "deep.er", "d");
    assert_field(rows, 1, "text", "\xC3\xA9");
    assert_field(rows, 1, "label", "false");
    assert_field(rows, 1, "many", "");
    assert_int_equal(rows.lines[1], 3);
    zest_rows_free(&rows);
    rows = parse(text, JSONL("t=text d=deep.er q=deep.e.r label"));
    assert_int_equal(rows.name_count, 4);
    assert_field(rows, 1, "t", "\xC3\xA9");
    assert_field(rows, 1, "d", "e");
    assert_field(rows, 0, "q", "q"); /* a key with a dot in it */
    zest_rows_free(&rows);
    rows = parse("{\"a\": 123456789012345678901234567890}", JSONL("a")); /* more digits than a double has */
    assert_field(rows, 0, "a", "123456789012345678901234567890");
    zest_rows_free(&rows);
    rows = parse("{\"a\": [{\"t\": \"x\"}, {\"t\": \"y\"}], \"b\": {\"t\": [\"z\"]}}", JSONL("a.t b.t"));
    assert_field(rows, 0, "a.t", "x|y");
    assert_field(rows, 0, "b.t", "z");
    zest_rows_free(&rows);
}

static void test_jsonl_refusals(void **state) {
    (void)state;
    refuses("{\"a\": 1}\n[1]\n", JSONL("a"), "f, line 2: is JSON, but not an object");
    refuses("\"text\"\n", JSONL("a"), "line 1");
    refuses("{\"a\": 1}\n{\"a\": 1\n", JSONL("a"), "f, line 2: is not a valid JSON object: '}' expected");
    refuses("{\"a\": 1} {\"a\": 1}\n", JSONL("a"), "line 1: is not a valid JSON object");
    refuses("{\"a\": 1, \"a\": 2}\n", JSONL("a"), "duplicate");
    refuses("{\"a\": \"\\u0000\"}\n", JSONL("a"), "zero byte");
    refuses("{\"a\": 1}\n{\"b\": 1}\n", JSONL("a"), "line 2: has no text \"a\"");
    refuses("{\"a\": 1}\n{\"b\": 1}\n", JSONL(NULL), "which the first row has");
    refuses("{\"a\": {\"b\": {}}}\n", JSONL("a.b"), "has no text \"a.b\"");
    refuses("{\"a\": 1}\n", JSONL("a.b.c"), "has no text \"a.b.c\"");
    refuses("{\"a\": {}}\n", JSONL(NULL), "has no text");
    refuses("{}\n", JSONL(NULL), "has no text");
    refuses(" \n\n", JSONL(NULL), "no rows");
}

static void test_deep_nesting(void **state) {
    (void)state;
    zest_buffer text = {0};
    zest_buffer_text(&text, "{\"a\": ");
    for (int i = 0; i < 100000; i++) zest_buffer_text(&text, "[");
    refuses_bytes(text.data, text.size, JSONL("a"), "depth");
    zest_buffer_free(&text);
    zest_buffer_text(&text, "{\"a\": ");
    for (int i = 0; i < 1500; i++) zest_buffer_text(&text, "[");
    for (int i = 0; i < 1500; i++) zest_buffer_text(&text, "]");
    zest_buffer_text(&text, "}");
    zest_rows rows = parse(text.data, JSONL("a")); /* lists within lists of nothing: no text */
    assert_field(rows, 0, "a", "");
    zest_rows_free(&rows);
    zest_buffer_free(&text);
}

/* ---- Bytes ---- */

static void test_bytes(void **state) {
    (void)state;
    zest_rows_layout layouts[] = {TSV("a=0"), CSV("a=0"), JSONL("a"), SPECIAL(ZEST_ROWS_SQUAD)};
    for (size_t i = 0; i < 4; i++) {
        refuses_bytes("", 0, layouts[i], "no rows");
        refuses_bytes("a\nb\nc\xFF\n", 7, layouts[i], "f, line 3: byte 0xFF is not valid UTF-8");
        refuses_bytes("a\nb\xC3", 4, layouts[i], "f, line 2: byte 0xC3");
        refuses_bytes("a\xED\xA0\x80", 4, layouts[i], "line 1: byte 0xED"); /* half a surrogate pair */
        refuses_bytes("a\nb\0c\n", 6, layouts[i], "f, line 2: has a zero byte");
        refuses_bytes("PAR1\x15\0\x15", 7, layouts[i], "is a Parquet file");
    }
    zest_rows rows;
    zest_error error = {0};
    zest_rows_layout by_ending = {.format = ZEST_ROWS_BY_EXTENSION};
    assert_int_equal(zest_rows_parse("a", 1, "f.txt", &by_ending, &rows, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "unknown file extension"));
    assert_int_equal(zest_rows_parse("{\"a\":1}", 7, "f.JSONL", &by_ending, &rows, &error), ZEST_OK);
    zest_rows_free(&rows);
    assert_int_equal(zest_rows_read("/nonexistent/f", &by_ending, &rows, &error), ZEST_ERROR_FILE);
    assert_null(rows.texts);
}

/* A line of many megabytes, and a file of many lines, take time in proportion. */
static void test_huge(void **state) {
    (void)state;
    size_t size = (size_t)32 << 20;
    char *text = malloc(size + 100), shown[64];
    assert_non_null(text);
    memcpy(text, "{\"a\": \"", 7);
    memset(text + 7, 'x', size);
    strcpy(text + 7 + size, "\"}\n");
    zest_rows rows = parse(text, JSONL("a"));
    assert_int_equal(strlen(rows.texts[0]), size);
    zest_rows_show(rows.texts[0], shown);
    assert_int_equal(strlen(shown), 59);
    zest_rows_free(&rows);
    for (size_t i = 0; i < size; i++) text[i] = "1,\"\"\n"[i % 5];
    size_t whole = size / 5 * 5;
    text[whole] = '\0';
    rows = parse(text, CSV("l=0 t=1"));
    assert_int_equal(rows.count, whole / 5);
    zest_rows_free(&rows);
    free(text);
}

static void test_show(void **state) {
    (void)state;
    char buffer[64];
    assert_string_equal(zest_rows_show("a\x1b[31m\n\xC2\x9B\xC3\xA9", buffer), "a?[31m??\xC3\xA9");
    char four[200] = "";
    for (int i = 0; i < 40; i++) strcat(four, "\xF0\x9F\x98\x80");
    zest_rows_show(four, buffer);
    assert_int_equal(strlen(buffer), 59); /* cut between characters */
}

/* ---- Files made to cost time or memory: without the limits these take minutes and gigabytes ---- */

static zest_buffer repeated(const char *before, const char *one, int count, const char *after) {
    zest_buffer text = {0};
    zest_buffer_text(&text, before);
    for (int i = 0; i < count; i++) zest_buffer_format(&text, one, i);
    zest_buffer_text(&text, after);
    assert_false(text.failed);
    return text;
}

static void test_many_columns(void **state) {
    (void)state;
    zest_buffer text = repeated("", "c%d\t", 300000, "z\n");
    zest_buffer row = repeated("", "%d\t", 300000, "z\n");
    zest_buffer_text(&text, row.data);
    refuses(text.data, TSV(NULL), "more than 4096 fields");
    refuses(text.data, (zest_rows_layout){.format = ZEST_ROWS_TSV}, "more than 4096 fields");
    zest_rows rows = parse(text.data, TSV("a=c299999 b=-1")); /* a wide table of which little is selected */
    assert_field(rows, 0, "a", "299999");
    assert_field(rows, 0, "b", "z");
    zest_rows_free(&rows);
    zest_buffer_free(&row);
    zest_buffer_free(&text);
    text = repeated("{\"a\":1", ",\"c%d\":1", 300000, "}\n");
    refuses(text.data, JSONL(NULL), "more than 4096 fields");
    zest_buffer_free(&text);
}

/* One column under 4,000 names: 48 KB for each row of two bytes. */
static void test_fields_selected_again(void **state) {
    (void)state;
    zest_buffer fields = repeated("", "f%d=0 ", 4000, ""), text = repeated("x\n", "1\n", 30000, "");
    refuses(text.data, TSV(fields.data), "its rows need more than 16777216 bytes (64 times its size");
    zest_buffer_free(&text);
    text = repeated("", "{\"0\":\"x\"}\n", 30000, "");
    refuses(text.data, JSONL(fields.data), "its rows need more than");
    zest_buffer_free(&text);
    zest_buffer_free(&fields);
}

/* ReCoRD's options: a long entity for each of many placeholders, each of many entities, for each of many queries. */
static void test_record_growth(void **state) {
    (void)state;
    enum { SIZE = 40000 };
    char *passage = malloc(SIZE + 1);
    memset(passage, 'x', SIZE);
    passage[SIZE] = '\0';
    zest_buffer marks = repeated("{\"start\":0,\"end\":0}", ",{\"start\":%d,\"end\":39999}", 20000, ""),
                holes = repeated("", "@placeholder", 20000, ""), text = {0};
    for (int longer = 0; longer < 2; longer++) {
        text.size = 0;
        zest_buffer_format(&text,
                           "{\"passage\":{\"text\":\"%s\",\"entities\":[%s]},\"qas\":[{\"query\":\"%s\","
                           "\"answers\":[{\"text\":\"x\"}]}]}\n",
                           passage, longer ? "{\"start\":0,\"end\":39999}" : marks.data,
                           longer ? holes.data : "@placeholder");
        assert_false(text.failed);
        refuses(text.data, SPECIAL(ZEST_ROWS_RECORD), "its rows need more than");
    }
    zest_buffer_free(&text);
    zest_buffer_free(&holes);
    zest_buffer_free(&marks);
    free(passage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tsv),           cmocka_unit_test(test_tsv_names),
        cmocka_unit_test(test_tsv_refusals),  cmocka_unit_test(test_short_rows),
        cmocka_unit_test(test_csv),           cmocka_unit_test(test_csv_refusals),
        cmocka_unit_test(test_jsonl),         cmocka_unit_test(test_jsonl_refusals),
        cmocka_unit_test(test_deep_nesting),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_huge),          cmocka_unit_test(test_show),
        cmocka_unit_test(test_many_columns),  cmocka_unit_test(test_fields_selected_again),
        cmocka_unit_test(test_record_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
