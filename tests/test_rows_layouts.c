/* Layouts of published data sets: SuperGLUE, SQuAD and DROP; and all layouts with damaged bytes. */
#include "tests/rows.h"

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
    refuses("[]", layout, "not an object");
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
        layout, "is not text");
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
        "\"x\", \"label\": 0}]}]}}",
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
        cmocka_unit_test(test_record), cmocka_unit_test(test_record_refusals), cmocka_unit_test(test_multirc),
        cmocka_unit_test(test_wsc),    cmocka_unit_test(test_squad),           cmocka_unit_test(test_drop),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
