/* Text tables: alignment by characters, width of a terminal, no control characters. */
#include "lab/stats/stats.h"

#include <stdio.h>
#include <string.h>

#include "tests/support.h"

static const zest_text_column columns[] = {{"run", ZEST_TEXT_NAME},
                                           {"test", ZEST_TEXT_NUMBER},
                                           {"empty", ZEST_TEXT_LEFT},
                                           {"verdict", ZEST_TEXT_LEFT}};

static zest_text_table begin(void) { return (zest_text_table){.columns = columns, .column_count = 4}; }

static void add_row(zest_text_table *t, const char *run, const char *test, const char *verdict) {
    zest_text_table_cell(t, run);
    zest_text_table_cell(t, test);
    zest_text_table_cell(t, "");
    zest_text_table_cell(t, verdict);
}

static void columns_line_up(void **state) {
    (void)state;
    zest_text_table t = begin();
    zest_buffer out = {0};
    add_row(&t, "mezo", "6.3 \xc2\xb1 1.6", "");
    add_row(&t, "\xc3\xa4-run", "67.5 \xc2\xb1 12.7", "better");
    add_row(&t, "none", "", "worse");
    zest_text_table_write(&t, &out);
    assert_string_equal(out.data, "run           test  verdict\n"
                                  "mezo     6.3 \xc2\xb1 1.6\n"
                                  "\xc3\xa4-run  67.5 \xc2\xb1 12.7  better\n"
                                  "none                worse\n");
    zest_buffer_free(&out);
    zest_text_table_free(&t);
    zest_text_table nothing = begin();
    zest_text_table_write(&nothing, &out);
    assert_int_equal(out.size, 0);
}

static void long_names_lose_their_middle(void **state) {
    (void)state;
    zest_text_table t = begin();
    zest_buffer out = {0};
    char name[300];
    memset(name, 'x', sizeof name);
    memcpy(name, "begins", 6);
    strcpy(name + sizeof name - 7, "-ends!");
    add_row(&t, name, "67.5", "no difference shown");
    zest_text_table_write(&t, &out);
    char *line = strchr(out.data, '\n') + 1;
    assert_int_equal(strlen(line), ZEST_TEXT_WIDTH + 2 + 1); /* the dots are three bytes; the line's end */
    assert_int_equal(strncmp(line, "begins", 6), 0);
    assert_non_null(strstr(line, "\xe2\x80\xa6"));
    assert_non_null(strstr(line, "-ends!  67.5  no difference shown\n"));
    zest_buffer_free(&out);
    zest_text_table_free(&t);
}

/* Escape sequences of one byte and of two, a line break, bytes that are no UTF-8. */
static void terminals_get_text_alone(void **state) {
    (void)state;
    zest_text_table t = begin();
    zest_buffer out = {0};
    add_row(&t, "a\x1b[31mred\n\x7f",
            "\xc2\x9b"
            "31m7",
            "b\xff");
    zest_text_table_write(&t, &out);
    assert_string_equal(strchr(out.data, '\n') + 1, "a[31mred  31m7  b\xef\xbf\xbd\n");
    zest_buffer_free(&out);
    zest_text_table_free(&t);
}

static void paragraphs_are_broken_at_blanks(void **state) {
    (void)state;
    zest_buffer text = {0}, out = {0};
    for (int i = 0; i < 40; i++)
        zest_buffer_format(&text, "w\xc3\xb6rd%02d  ", i); /* 6 characters, 7 bytes */
    zest_buffer_text(&text, "\x1b");
    zest_text_table_paragraph(&out, text.data);
    char *second = strchr(out.data, '\n') + 1;
    assert_int_equal(second - out.data,
                     14 * 8); /* 14 words and 13 blanks: 97 characters, and the line's end */
    assert_int_equal(strncmp(second, "w\xc3\xb6rd14 w", 9), 0);
    assert_string_equal(out.data + out.size - 8, "w\xc3\xb6rd39\n");
    zest_buffer_free(&text);
    zest_buffer_free(&out);
    zest_text_table_paragraph(&out, " ");
    assert_int_equal(out.size, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up), cmocka_unit_test(long_names_lose_their_middle),
        cmocka_unit_test(terminals_get_text_alone), cmocka_unit_test(paragraphs_are_broken_at_blanks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
