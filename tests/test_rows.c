/* Data files: the layouts as they should be, and everything that can be wrong with them. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "data/rows.h"

#define TSV(names) \
    (zest_rows_layout) { .format = ZEST_ROWS_TSV, .header = 1, .fields = names }
#define CSV(names) \
    (zest_rows_layout) { .format = ZEST_ROWS_CSV, .fields = names }
#define JSONL(names) \
    (zest_rows_layout) { .format = ZEST_ROWS_JSONL, .fields = names }
#define SPECIAL(which) \
    (zest_rows_layout) { .format = which }

/* ---- Help ---- */

/* Parses a copy that ends where its allocation ends, so that the address sanitizer sees a step outside. */
static zest_status parse_bytes(const void *bytes, size_t size, zest_rows_layout layout, zest_rows *rows,
                               zest_error *error) {
    void *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    zest_status status = zest_rows_parse(copy, size, "f", &layout, rows, error);
    free(copy);
    return status;
}

static zest_rows parse(const char *text, zest_rows_layout layout) {
    zest_rows rows;
    zest_error error = {0};
    if (parse_bytes(text, strlen(text), layout, &rows, &error)) fail_msg("%s", error.message);
    return rows;
}

/* Refuses the bytes with a sentence that has these words. */
static void refuses_bytes(const void *bytes, size_t size, zest_rows_layout layout, const char *words) {
    zest_rows rows, empty = {0};
    zest_error error = {0};
    zest_status status = parse_bytes(bytes, size, layout, &rows, &error);
    if (!status) fail_msg("accepted, but should say '%s': %.60s", words, (const char *)bytes);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
    assert_memory_equal(&rows, &empty, sizeof rows);
    assert_int_equal(error.status, status);
}

static void refuses(const char *text, zest_rows_layout layout, const char *words) {
    refuses_bytes(text, strlen(text), layout, words);
}

/* The texts of a field with bars between them. */
static const char *field(const zest_rows *rows, size_t row, const char *name) {
    static char room[4096];
    int number = zest_rows_field(rows, name);
    size_t count, used = 0;
    if (number < 0) fail_msg("no field '%s'", name);
    const char *const *texts = zest_rows_get(rows, row, number, &count);
    room[0] = '\0';
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(room + used, sizeof room - used, "%s%s", i ? "|" : "", texts[i]);
    return room;
}

#define assert_field(rows, row, name, text) assert_string_equal(field(&(rows), row, name), text)

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
    refuses("a\tb\n", TSV("x=0"), "no rows");
    refuses("\n\n", TSV("x=0"), "no rows");
    refuses("a\tb\n1\t2\n", TSV("x=2"), "no column '2'");
    refuses("a\tb\n1\t2\n", TSV("x=-3"), "no column '-3'");
    refuses("a\tb\n1\t2\n", TSV("x=99999999999999999999"), "no column");
    refuses("a\tb\n1\t2\n", TSV("x=c"), "its columns are a, b");
    refuses("a\tb\n1\t2\n", TSV("x="), "'x=' is half");
    refuses("a\tb\n1\t2\n", TSV("=1"), "is half");
    refuses("a\tb\n1\t2\n", TSV("x=0 x=1"), "comes twice");
    refuses("a\tb\n1\t2\n", TSV(" "), "names nothing");
    refuses("a\ta\n1\t2\n", TSV(NULL), "'a' comes twice");
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
    refuses("1,a\n2,\"never\nclosed\n", CSV("l=0 t=1"), "f, line 2: the quote that begins here");
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
    rows = parse("{\"a\": [{\"t\": \"x\"}, {\"t\": \"y\"}], \"b\": {\"t\": [\"z\"]}}", JSONL("a.t b.t"));
    assert_field(rows, 0, "a.t", "x|y");
    assert_field(rows, 0, "b.t", "z");
    zest_rows_free(&rows);
}

static void test_jsonl_refusals(void **state) {
    (void)state;
    refuses("{\"a\": 1}\n[1]\n", JSONL("a"), "f, line 2: is JSON, but no object");
    refuses("\"text\"\n", JSONL("a"), "line 1");
    refuses("{\"a\": 1}\n{\"a\": 1\n", JSONL("a"), "f, line 2: is no sound JSON object: '}' expected");
    refuses("{\"a\": 1} {\"a\": 1}\n", JSONL("a"), "line 1: is no sound JSON object");
    refuses("{\"a\": 1, \"a\": 2}\n", JSONL("a"), "duplicate");
    refuses("{\"a\": \"\\u0000\"}\n", JSONL("a"), "\\u0000");
    refuses("{\"a\": 1}\n{\"b\": 1}\n", JSONL("a"), "line 2: has no text \"a\"");
    refuses("{\"a\": 1}\n{\"b\": 1}\n", JSONL(NULL), "which the first row has");
    refuses("{\"a\": {\"b\": {}}}\n", JSONL("a.b"), "has no text \"a.b\"");
    refuses("{\"a\": 1}\n", JSONL("a.b.c"), "has no text \"a.b.c\"");
    refuses("{\"a\": {}}\n", JSONL(NULL), "holds no text");
    refuses("{}\n", JSONL(NULL), "holds no text");
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
        refuses_bytes("a\nb\nc\xFF\n", 7, layouts[i], "f, line 3: byte 0xFF is no UTF-8");
        refuses_bytes("a\nb\xC3", 4, layouts[i], "f, line 2: byte 0xC3");
        refuses_bytes("a\xED\xA0\x80", 4, layouts[i], "line 1: byte 0xED"); /* half a surrogate pair */
        refuses_bytes("a\nb\0c\n", 6, layouts[i], "f, line 2: has a zero byte");
    }
    zest_rows rows;
    zest_error error = {0};
    zest_rows_layout by_ending = {.format = ZEST_ROWS_BY_ENDING};
    assert_int_equal(zest_rows_parse("a", 1, "f.txt", &by_ending, &rows, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "ending does not tell"));
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
    char room[64];
    assert_string_equal(zest_rows_show("a\x1b[31m\n\xC2\x9B\xC3\xA9", room), "a?[31m??\xC3\xA9");
    char four[200] = "";
    for (int i = 0; i < 40; i++) strcat(four, "\xF0\x9F\x98\x80");
    zest_rows_show(four, room);
    assert_int_equal(strlen(room), 59); /* cut between characters */
}

/* ---- SuperGLUE ---- */

#define RECORD(text, entities, query, answers)                                                             \
    "{\"passage\": {\"text\": \"" text "\", \"entities\": [" entities "]}, \"qas\": [{\"query\": \"" query \
    "\", \"answers\": [" answers "]}]}\n"
#define MARK(start, end) "{\"start\": " #start ", \"end\": " #end "}"
#define ANSWER(text) "{\"text\": \"" text "\", \"start\": 0, \"end\": 1}"

static void test_record(void **state) {
    (void)state;
    /* characters count, not bytes: é is one */
    zest_rows rows =
        parse(RECORD("\xC3\xA9 Bob met Al.\\n@highlight\\nBob left",
                     MARK(2, 4) "," MARK(10, 11) "," MARK(25, 27) "," MARK(0, 0),
                     "@placeholder and @placeholder met", ANSWER("Bob") "," ANSWER("Al") "," ANSWER("Bob")),
              SPECIAL(ZEST_ROWS_RECORD));
    assert_int_equal(rows.count, 1);
    assert_field(rows, 0, "passage", "\xC3\xA9 Bob met Al.\n- Bob left");
    assert_field(rows, 0, "entities", "Al|Bob|\xC3\xA9");
    assert_field(rows, 0, "answers", "Al|Bob");
    assert_field(rows, 0, "options", "Al and Al met|Bob and Bob met|\xC3\xA9 and \xC3\xA9 met");
    assert_field(rows, 0, "label", "0|1");
    assert_field(rows, 0, "query", "@placeholder and @placeholder met");
    zest_rows_free(&rows);
}

static void test_record_refusals(void **state) {
    (void)state;
    zest_rows_layout layout = SPECIAL(ZEST_ROWS_RECORD);
    refuses(RECORD("abc", MARK(0, 3), "@placeholder", ANSWER("abc")), layout, "f, line 1: entity 1");
    refuses(RECORD("abc", MARK(-1, 1), "@placeholder", ANSWER("ab")), layout, "entity 1");
    refuses(RECORD("abc", MARK(2, 1), "@placeholder", ANSWER("ab")), layout, "entity 1");
    refuses(RECORD("abc", MARK(0, 9223372036854775807), "@placeholder", ANSWER("a")), layout, "entity 1");
    refuses(RECORD("", MARK(0, 0), "@placeholder", ANSWER("a")), layout, "entity 1");
    refuses(RECORD("abc", "{}", "@placeholder", ANSWER("ab")), layout, "entity 1");
    refuses(RECORD("abc", "", "@placeholder", ANSWER("ab")), layout, "no answer to the query");
    refuses(RECORD("abc", MARK(0, 1), "@placeholder", ANSWER("c")), layout, "no answer to the query");
    refuses(RECORD("abc", MARK(0, 1), "nobody", ANSWER("ab")), layout, "no @placeholder");
    refuses(RECORD("abc", MARK(0, 1), "@placeholder", "{}"), layout, "needs the text \"text\"");
    refuses("{\"passage\": {\"text\": \"a\", \"entities\": []}}\n", layout, "needs the list \"qas\"");
    refuses("{\"passage\": \"a\"}\n", layout, "needs the text \"text\"");
}

static void test_multirc(void **state) {
    (void)state;
    zest_rows_layout layout = SPECIAL(ZEST_ROWS_MULTIRC);
    zest_rows rows =
        parse("{\"passage\": {\"text\": \"P\", \"questions\": [{\"question\": \"Q\", \"answers\": ["
              "{\"text\": \"x\", \"label\": 0}, {\"text\": \"y\", \"label\": 1}]},"
              "{\"question\": \"R\", \"answers\": [{\"text\": \"z\", \"label\": 1}]}]}}\n",
              layout);
    assert_int_equal(rows.count, 3);
    assert_field(rows, 1, "paragraph", "P");
    assert_field(rows, 1, "question", "Q");
    assert_field(rows, 1, "candidate", "y");
    assert_field(rows, 1, "label", "1");
    assert_field(rows, 2, "question", "R");
    assert_ptr_equal(rows.texts[0], rows.texts[4]); /* the paragraph is kept once */
    zest_rows_free(&rows);
    refuses("{\"passage\": {\"text\": \"P\", \"questions\": [{\"question\": \"Q\", \"answers\": "
            "[{\"text\": \"x\"}]}]}}",
            layout, "has no \"label\"");
    refuses("{\"passage\": {\"text\": \"P\"}}", layout, "needs the list \"questions\"");
}

#define WSC(text, span1, index1, span2, index2)                                                      \
    "{\"text\": \"" text "\", \"target\": {\"span1_text\": \"" span1 "\", \"span1_index\": " #index1 \
    ", \"span2_text\": \"" span2 "\", \"span2_index\": " #index2 "}, \"label\": true}\n"

static void test_wsc(void **state) {
    (void)state;
    zest_rows_layout layout = SPECIAL(ZEST_ROWS_WSC);
    zest_rows rows = parse(WSC("The lawyer saw the cat.", "the lawyer", 0, "the cat", 3)
                               WSC("The lawyer saw the cat .", "The lawyer", 0, "The cat.", 3)
                                   WSC("He said \\\" a b \\\" .", "a\\nb", 3, "He", 0)
                                       WSC("Kamenev met Zinoviev.", "Kamenev and Zinoviev", 0, "Z..", 0),
                           layout);
    assert_int_equal(rows.count, 4);
    assert_field(rows, 0, "span1_text", "The lawyer"); /* in the case of the word at its index */
    assert_field(rows, 0, "span2_text", "the cat");
    assert_field(rows, 1, "span2_text", "the cat"); /* and without the dot */
    assert_field(rows, 2, "span1_text", "a b");
    assert_field(rows, 3, "span1_text", "Kamenev and Zinoviev"); /* cannot be put right */
    assert_field(rows, 3, "label", "true");
    zest_rows_free(&rows);
    refuses(WSC("One two.", "x", 2, "One", 0), layout, "line 1: \"span1_text\" is not in the text");
    refuses(WSC("One two.", "One", 0, "x", -1), layout, "\"span2_text\" is not in the text");
    refuses("{\"text\": \"a\", \"label\": true}", layout, "needs the text \"span1_text\"");
    refuses("{\"text\": \"a\"}", layout, "has no \"label\"");
}

/* ---- SQuAD and DROP ---- */

#define SQUAD(answers)                                                                        \
    "{\"data\": [{\"title\": \"T\", \"paragraphs\": [{\"context\": \"\xC3\xA9 b\", \"qas\": " \
    "[{\"question\": "                                                                        \
    "\" Q? \", \"answers\": [" answers "]}]}]}]}"

static void test_squad(void **state) {
    (void)state;
    zest_rows_layout layout = SPECIAL(ZEST_ROWS_SQUAD);
    zest_rows rows = parse(
        SQUAD("{\"text\": \"b\", \"answer_start\": 2}, {\"text\": \"B\", \"answer_start\": 3}"), layout);
    assert_int_equal(rows.count, 1);
    assert_field(rows, 0, "title", "T");
    assert_field(rows, 0, "context", "\xC3\xA9 b");
    assert_field(rows, 0, "question", " Q? ");
    assert_field(rows, 0, "answers", "b|B");
    assert_int_equal(rows.lines[0], 1);
    zest_rows_free(&rows);
    refuses(SQUAD("{\"text\": \"b\", \"answer_start\": 4}"), layout, "f, question 1: \"answer_start\"");
    refuses(SQUAD("{\"text\": \"b\", \"answer_start\": -1}"), layout, "\"answer_start\"");
    refuses(SQUAD("{\"text\": \"b\", \"answer_start\": \"1\"}"), layout, "\"answer_start\"");
    refuses(SQUAD("{\"answer_start\": 0}"), layout, "needs its \"text\"");
    refuses(SQUAD(""), layout, "has no answer");
    refuses("{\"data\": {}}", layout, "no list \"data\"");
    refuses("{\"data\": [{}]}", layout, "needs the list \"paragraphs\"");
    refuses("{\"data\": [{\"paragraphs\": [{}]}]}", layout, "needs the text \"context\"");
    refuses("{\"data\": []}", layout, "no rows");
    refuses("{\"data\":\n[}", layout, "f, line 2");
    refuses("[]", layout, "no object");
}

#define DATE(d, m, y) "{\"day\": \"" d "\", \"month\": \"" m "\", \"year\": \"" y "\"}"
#define DROP_ANSWER(number, date, spans) \
    "{\"number\": \"" number "\", \"date\": " date ", \"spans\": [" spans "]}"
#define DROP_QA(question, answer, all) \
    "{\"question\": \"" question "\", \"answer\": " answer ", \"validated_answers\": [" all "]}"

static void test_drop(void **state) {
    (void)state;
    static const char text[] = "{\"p\": {\"passage\": \"P\", \"qa_pairs\": [" DROP_QA(
        "a", DROP_ANSWER("5", "{}", ""),
        DROP_ANSWER("5", "{}", "") "," DROP_ANSWER(
            "", "{}",
            "\"five\", \"V\"")) "," DROP_QA("b", DROP_ANSWER("", DATE("3", "May", ""), ""),
                                            DROP_ANSWER(
                                                "", DATE("", "May", "1990"),
                                                "")) "," DROP_QA("both", DROP_ANSWER("5", "{}", "\"x\""),
                                                                 DROP_ANSWER(
                                                                     "5", DATE("1", "", ""),
                                                                     "")) "," DROP_QA("none",
                                                                                      DROP_ANSWER(
                                                                                          "",
                                                                                          DATE("", "", ""),
                                                                                          ""),
                                                                                      "") "," DROP_QA("c",
                                                                                                      DROP_ANSWER(
                                                                                                          "",
                                                                                                          "{"
                                                                                                          "}",
                                                                                                          "\""
                                                                                                          "x"
                                                                                                          "\""
                                                                                                          ", "
                                                                                                          "\""
                                                                                                          "y"
                                                                                                          "\""),
                                                                                                      DROP_ANSWER("", "{}", "") "," DROP_ANSWER(
                                                                                                          "",
                                                                                                          DATE(
                                                                                                              "1",
                                                                                                              "",
                                                                                                              "2"),
                                                                                                          "")) "]}}";
    zest_rows_layout layout = SPECIAL(ZEST_ROWS_DROP);
    zest_rows rows = parse(text, layout);
    assert_int_equal(rows.count, 3);
    assert_field(rows, 0, "passage", "P");
    assert_field(rows, 0, "answers", "5");
    assert_field(rows, 1, "answers", "3 May");
    assert_field(rows, 2, "question", "c");
    assert_field(rows, 2, "answers", "x|y");
    assert_int_equal(rows.lines[2], 5);
    zest_rows_free(&rows);
    layout.all_answers = 1;
    rows = parse(text, layout);
    assert_int_equal(rows.count, 3);
    assert_field(rows, 0, "answers", "5|five|V");
    assert_field(rows, 1, "answers", "May 1990");
    assert_field(rows, 2, "answers", "1  2"); /* as the reference joins it */
    zest_rows_free(&rows);
    refuses("{\"p\": {\"passage\": \"P\", \"qa_pairs\": [{\"question\": \"a\"}]}}", layout,
            "f, question 1: needs the list \"validated_answers\"");
    refuses("{\"p\": {\"passage\": \"P\"}}", layout, "needs the text \"passage\" and the list");
    refuses(
        "{\"p\": {\"passage\": \"P\", \"qa_pairs\": [" DROP_QA("a", "{}", DROP_ANSWER("", "{}", "1")) "]}}",
        layout, "is no text");
}

/* ---- Any bytes ---- */

/* Every prefix, and every byte changed: rows or a sentence, never a crash. */
static void test_damage(void **state) {
    (void)state;
    static const char *const texts[] = {
        "a\tb\n1\t2\r\n\xC3\xA9\t4\n",
        "1,\"a\"\"b\"\n2,c\n",
        "{\"a\": [\"x\", true], \"b\": {\"c\": 1.5}}\n{\"a\": \"\", \"b\": {\"c\": null}}\n",
        RECORD("\xC3\xA9 Bob", MARK(2, 4), "@placeholder", ANSWER("Bob")),
        "{\"passage\": {\"text\": \"P\", \"questions\": [{\"question\": \"Q\", \"answers\": [{\"text\": "
        "\"x\", "
        "\"label\": 0}]}]}}",
        WSC("The cat saw.", "the cat.", 0, "The", 0),
        SQUAD("{\"text\": \"b\", \"answer_start\": 2}"),
        "{\"p\": {\"passage\": \"P\", \"qa_pairs\": [" DROP_QA("a", DROP_ANSWER("5", "{}", ""),
                                                               DROP_ANSWER("5", "{}", "")) "]}}"};
    zest_error error;
    zest_rows rows;
    for (int format = 0; format < 8; format++) {
        const char *text = texts[format];
        size_t size = strlen(text);
        char *copy = strdup(text);
        zest_rows_layout layout = {.format = (zest_rows_format)format, .header = format == 0};
        rows = parse(text, layout);
        zest_rows_free(&rows);
        for (size_t i = 0; i < size; i++) {
            if (!parse_bytes(text, i, layout, &rows, &error)) zest_rows_free(&rows);
            for (int byte = 0; byte < 256; byte += TEST_SLOW) {
                copy[i] = (char)byte;
                error.message[0] = '\0';
                if (parse_bytes(copy, size, layout, &rows, &error)) assert_true(error.message[0] != '\0');
                zest_rows_free(&rows);
            }
            copy[i] = text[i];
        }
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tsv),          cmocka_unit_test(test_tsv_names),
        cmocka_unit_test(test_tsv_refusals), cmocka_unit_test(test_short_rows),
        cmocka_unit_test(test_csv),          cmocka_unit_test(test_csv_refusals),
        cmocka_unit_test(test_jsonl),        cmocka_unit_test(test_jsonl_refusals),
        cmocka_unit_test(test_deep_nesting), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_huge),         cmocka_unit_test(test_show),
        cmocka_unit_test(test_record),       cmocka_unit_test(test_record_refusals),
        cmocka_unit_test(test_multirc),      cmocka_unit_test(test_wsc),
        cmocka_unit_test(test_squad),        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
