/* Templates: rendering of a row, and errors. */
#include <math.h>

#include "task/template.h"
#include "tests/task.h"

static zest_error error;

static zest_template *parsed(const char *text) {
    zest_template *t;
    if (zest_template_parse(text, "task T", &t, &error)) fail_msg("%s", error.message);
    return t;
}

/* ---- Changes ---- */

static void expect_option(const zest_rows *rows, const char *template, const char *option,
                          const char *wanted) {
    zest_template *t = parsed(template);
    zest_buffer out = {0};
    assert_int_equal(zest_template_render_option(t, rows, 0, option, &out, &error), ZEST_OK);
    if (strcmp(out.data, wanted) != 0) fail_msg("%s: '%s', not '%s'", template, out.data, wanted);
    zest_buffer_free(&out);
    zest_template_free(t);
}

static void changes(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"[{option|strip}]", " \t a b\n\xE3\x80\x80", "[a b]"},
        {"[{option|strip-end}]", " a \n ", "[ a]"},
        {"[{option|strip}]", "", "[]"},
        {"[{option|strip}]", "  ", "[]"},
        {"[{option|drop-last}]", "a guitar.", "[a guitar]"},
        {"[{option|drop-last}]", "caf\xC3\xA9", "[caf]"}, /* a character, not a byte */
        {"[{option|drop-last}]", "", "[]"},
        {"[{option|drop-dot}]", "so.", "[so]"},
        {"[{option|drop-dot}]", "so..", "[so.]"},
        {"[{option|drop-dot}]", "so", "[so]"},
        {"[{option|drop-dot}]", "", "[]"},
        {"[{option|question-mark}]", "is it", "[is it?]"},
        {"[{option|question-mark}]", "is it?", "[is it?]"},
        {"[{option|question-mark}]", "", "[?]"},
        {"[{option|lower-first}]", "The End", "[the End]"},
        {"[{option|lower-first}]", "\xC3\x89t\xC3\xA9", "[\xC3\xA9t\xC3\xA9]"}, /* Été */
        {"[{option|upper-first}]", "\xCE\xB1\xCE\xB2", "[\xCE\x91\xCE\xB2]"},   /* αβ */
        {"[{option|upper-first}]", "\xC3\xBFx", "[\xC5\xB8x]"},
        {"[{option|upper-first}]", "\xC3\x9Fx", "[\xC3\x9Fx]"}, /* ß stays */
        {"[{option|lower}]", "THEM \xD0\x96\xD0\x81", "[them \xD0\xB6\xD1\x91]"},
        {"[{option|lower-word}]", "THE Sun", "[the Sun]"},
        {"[{option|lower-word}]", "I ran", "[I ran]"},
        {"[{option|lower-word}]", "I'm Late", "[i'm Late]"},
        {"[{option|lower-word}]", "I", "[I]"},
        {"[{option|effect=>so|cause=>because}]", "cause", "[because]"},
        {"[{option|effect=>so|cause=>because}]", "effect", "[so]"},
        {"[{option|aa=>a}]", "aaaa a", "[aa a]"}, /* what was put in is not looked at again */
        {"[{option|a=>aa}]", "banana", "[baanaanaa]"},
        {"[{option|a=>}]", "banana", "[bnn]"},
        {"[{option|@highlight\\n=>- }]", "x\n@highlight\ny", "[x\n- y]"},
        {"[{option| strip | lower }]", " A ", "[a]"},
        {"[{option|\\|=>\\}}]", "a|b", "[a}b]"},
        {"{{{option}}}\\\\\\t", "x", "{x}\\\t"},
        {"  {option} ", " x ", "x"},
        {"{option}",
         "a\xFF"
         "b",
         "a\xEF\xBF\xBD"
         "b"}, /* not UTF-8 */
    };
    zest_rows rows = rows_of("{\"query\":\"@placeholder is @placeholder\"}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_option(&rows, cases[i][0], cases[i][1], cases[i][2]);
    expect_option(&rows, "{query|@placeholder=>{option|lower}}!", "Bob", "bob is bob!");
    zest_rows_free(&rows);
}

/* Every pair maps in both directions; other scripts are unchanged. */
static void letters(void **state) {
    (void)state;
    size_t pairs = 0;
    for (uint32_t c = 0; c < 0x11000; c++) {
        uint32_t low = zest_template_lower(c), high = zest_template_upper(c);
        if (low != c) assert_int_equal(zest_template_upper(low), c);
        if (high != c) assert_int_equal(zest_template_lower(high), c);
        assert_true(low == c || high == c);
        pairs += low != c;
    }
    assert_int_equal(pairs, 26 + 30 + 24 + 3 + 8 + 23 + 1 + 3 + 3 + 1 + 8 + 9 + 20 + 1 + 3 + 1 + 2 + 17 + 9 +
                                16 + 32 + 17 + 27 + 1 + 7 + 48 + 38 + 75 + 48 + 26);
}

/* ---- Prompts ---- */

static void expect_causal(const char *jsonl, const char *template, const char *answer, const char *prompt,
                          const char *full) {
    zest_rows rows = rows_of(jsonl);
    zest_template *t = parsed(template);
    zest_buffer out = {0};
    assert_int_equal(zest_template_expect(t, ZEST_TEMPLATE_CAUSAL, &error), ZEST_OK);
    assert_int_equal(zest_template_check(t, &rows, &error), ZEST_OK);
    assert_int_equal(zest_template_render(t, &rows, 0, NULL, &out, &error), ZEST_OK);
    assert_string_equal(out.data, prompt);
    out.size = 0;
    assert_int_equal(zest_template_render(t, &rows, 0, answer, &out, &error), ZEST_OK);
    assert_string_equal(out.data, full);
    zest_buffer_free(&out);
    zest_template_free(t);
    zest_rows_free(&rows);
}

static void prompts(void **state) {
    (void)state;
    expect_causal("{\"sentence\":\" a fine film \"}\n", "{sentence|strip} It was {answer}", "great",
                  "a fine film It was", "a fine film It was great");
    expect_causal("{\"p\":\"P\",\"h\":\"H\"}\n",
                  "{p}\\nDoes this mean that \"{h}\" is true? Yes or No?\\n{answer}", "Yes",
                  "P\nDoes this mean that \"H\" is true? Yes or No?\n",
                  "P\nDoes this mean that \"H\" is true? Yes or No?\nYes");
    expect_causal("{\"p\":\"My body cast a shadow. \",\"q\":\"cause\"}\n",
                  "{p|strip-end|drop-dot} {q|effect=>so|cause=>because} {answer}", "the sun rose.",
                  "My body cast a shadow because", "My body cast a shadow because the sun rose.");
    /* spaces off both ends, then all whitespace at the front; newlines at the end stay */
    expect_causal("{\"a\":\" \\n\\t x\"}\n", "{a} {answer} ", "z \n", "x", "x z \n");
    /* of several texts the first; of none, nothing */
    expect_causal("{\"a\":[\"one\",\"two\"],\"b\":[]}\n", "{a}[{b}]{answer}", "!", "one[]", "one[]!");
}

static void expect_parts(const zest_rows *rows, const char *template, const char *wanted) {
    static const char *const kinds[] = {"text", "field", "mask"};
    zest_template *t = parsed(template);
    zest_template_segments parts = {0};
    zest_buffer seen = {0};
    assert_int_equal(zest_template_expect(t, ZEST_TEMPLATE_MASKED, &error), ZEST_OK);
    assert_int_equal(zest_template_render_segments(t, rows, 0, &parts, &error), ZEST_OK);
    for (size_t i = 0; i < parts.count; i++)
        zest_buffer_format(&seen, "%s%s(%.*s)", kinds[parts.segments[i].kind],
                           parts.segments[i].other ? "+" : "", (int)parts.segments[i].size,
                           parts.text.data + parts.segments[i].first);
    assert_string_equal(seen.data, wanted);
    zest_buffer_free(&seen);
    zest_template_segments_free(&parts);
    zest_template_free(t);
}

static void parts(void **state) {
    (void)state;
    zest_rows rows = rows_of("{\"a\":\"A man.\",\"b\":\"The end \",\"e\":\"\"}\n");
    expect_parts(&rows, "{b} It was{mask}.", "field(The end )text( It was)mask()text(.)");
    expect_parts(&rows, "{b} It was {mask}.", "field(The end )text( It was)mask()text(.)");
    expect_parts(&rows, "{a|drop-last}?{mask}, {b|lower-first}",
                 "field(A man)text(?)mask()text(,)field+( the end )");
    expect_parts(&rows, "{mask}: {a}", "mask()text(:)field( A man.)");
    expect_parts(&rows, " {a} {b}{a}{mask}",
                 "text()field( A man.)text()field+( The end )field(A man.)mask()");
    expect_parts(&rows, "{e}{mask} {e}", "field()mask()text()field( )");
    zest_rows_free(&rows);
}

/* ---- Refusals ---- */

static void refused(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"It {was", "task T: template 'It {was', character 4", "write {{"},
        {"It was}", "character 7", "write }}"},
        {"\xC3\xA9{}", "character 2", "name a field"},
        {"{a|lowr-first}", "character 4", "did you mean 'lower-first'"},
        {"{a|reverse-everything}", "unknown filter 'reverse-everything'", "question-mark"},
        {"{a|=>x}", "character 4", "old=>new"},
        {"{a|x=>{mask}}", "character 7", "not allowed in a replacement"},
        {"{a|x=>{b}", "character 1", "never closed"},
        {"a\\q", "character 2", "write \\\\"},
        {"a\\", "character 2", "write \\\\"},
        {"{mask|lower}", "character 6", "mask"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_template *t;
        assert_int_equal(zest_template_parse(cases[i][0], "task T", &t, &error), ZEST_ERROR_ARGUMENT);
        assert_null(t);
        assert_message(&error, cases[i][1]);
        assert_message(&error, cases[i][2]);
    }
}

static void refused_uses(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
        zest_template_use use;
    } cases[] = {
        {"{a} is", "a masked model needs {mask}", ZEST_TEMPLATE_MASKED},
        {"{a} is {answer}", "{answer} is not allowed", ZEST_TEMPLATE_MASKED},
        {"{mask}{mask}", "character 7: a second {mask}", ZEST_TEMPLATE_MASKED},
        {"{a} is {mask}", "{mask} is not allowed", ZEST_TEMPLATE_CAUSAL},
        {"{a}", "needs {answer}", ZEST_TEMPLATE_CAUSAL},
        {"{a|x=>{option}}{answer}", "{option} is not allowed", ZEST_TEMPLATE_CAUSAL},
        {"{a}", "needs {option}", ZEST_TEMPLATE_OPTION},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_template *t = parsed(cases[i].text);
        assert_int_equal(zest_template_expect(t, cases[i].use, &error), ZEST_ERROR_ARGUMENT);
        assert_message(&error, cases[i].says);
        zest_template_free(t);
    }
    zest_rows rows = rows_of("{\"sentence\":\"x\",\"label\":\"0\"}\n");
    zest_template *t = parsed("Say {sentence|x=>{sentense}}");
    assert_int_equal(zest_template_check(t, &rows, &error), ZEST_ERROR_ARGUMENT);
    assert_message(&error, "character 18: rows.jsonl has no field 'sentense'; it has sentence, label");
    zest_template_free(t);
    zest_template_free(NULL);
    zest_rows_free(&rows);
}

/* Every built-in task's templates are what they are used for. */
static void built_in(void **state) {
    (void)state;
    const zest_task *task;
    size_t seen = 0;
    for (size_t i = 0; (task = zest_task_at(i)); i++) {
        const char *const texts[] = {task->masked, task->causal, task->option_form};
        for (int use = 0; use < 3; use++) {
            zest_template *t;
            if (!texts[use]) continue;
            if (zest_template_parse(texts[use], task->name, &t, &error)) fail_msg("%s", error.message);
            if (zest_template_expect(t, (zest_template_use)use, &error)) fail_msg("%s", error.message);
            zest_template_free(t);
            seen++;
        }
    }
    assert_true(seen > 8);
}

/* ---- Templates made to cost time or memory ---- */

static void expect_too_long(const zest_rows *rows, const char *template) {
    zest_template *t = parsed(template);
    zest_template_segments segments = {0};
    zest_buffer out = {0};
    assert_int_equal(zest_template_render_segments(t, rows, 0, &segments, &error), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "makes more than 16 MiB of text from one row"));
    assert_int_equal(zest_template_render(t, rows, 0, NULL, &out, &error), ZEST_ERROR_FORMAT);
    out.failed = 0;
    assert_int_equal(zest_template_render_option(t, rows, 0, "a", &out, &error), ZEST_ERROR_FORMAT);
    zest_buffer_free(&out);
    zest_template_segments_free(&segments);
    zest_template_free(t);
}

/* 4^20 bytes from one, in a row of filters and one inside the other; and a field many times. */
static void texts_do_not_grow_without_end(void **state) {
    (void)state;
    zest_buffer text = {0}, row = {0};
    zest_rows rows = rows_of("{\"s\":\"a\"}\n");
    zest_buffer_text(&text, "{s");
    for (int i = 0; i < 20; i++) zest_buffer_text(&text, "|a=>aaaa");
    zest_buffer_text(&text, "}");
    expect_too_long(&rows, text.data);
    expect_too_long(&rows, "{s|a=>{s|a=>aaaaaaaa|a=>aaaaaaaa|a=>aaaaaaaa|a=>aaaaaaaa|a=>aaaaaaaa}|"
                           "a=>{s|a=>aaaaaaaa|a=>aaaaaaaa|a=>aaaaaaaa|a=>aaaaaaaa|a=>aaaaaaaa}}");
    zest_rows_free(&rows);
    zest_buffer_text(&row, "{\"s\":\"");
    for (int i = 0; i < 1 << 16; i++) zest_buffer_text(&row, "aaaaaaaa");
    zest_buffer_text(&row, "\"}\n");
    rows = rows_of(row.data);
    text.size = 0;
    for (int i = 0; i < 64; i++) zest_buffer_text(&text, "{s}");
    expect_too_long(&rows, text.data);
    zest_rows_free(&rows);
    zest_buffer_free(&row);
    zest_buffer_free(&text);
}

/* Filters take time in proportion to the text: moving its tail at every hit takes the square, here minutes. */
static void filters_of_a_long_text(void **state) {
    (void)state;
    enum { SIZE = 2 << 20 };
    zest_rows rows = rows_of("{\"s\":\"a\"}\n");
    char *text = malloc(SIZE + 1), *wanted = malloc(3 * (size_t)SIZE + 1);
    memset(text, 'A', SIZE);
    memset(wanted, 'a', 3 * (size_t)SIZE);
    text[SIZE] = wanted[3 * (size_t)SIZE] = '\0';
    expect_option(&rows, "{option|A=>aaa}", text, wanted);
    expect_option(&rows, "{option|lower}", text, wanted + 2 * (size_t)SIZE);
    free(wanted);
    free(text);
    zest_rows_free(&rows);
}

static void large_templates_are_refused(void **state) {
    (void)state;
    zest_template *t;
    zest_buffer text = {0};
    for (int i = 0; i < 9; i++) zest_buffer_text(&text, "{s|a=>");
    for (int i = 0; i < 9; i++) zest_buffer_text(&text, "}");
    assert_int_equal(zest_template_parse(text.data, "task T", &t, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "replacements may be nested 8 deep, not deeper"));
    text.size = 0;
    for (int i = 0; i < 100000; i++) zest_buffer_text(&text, "{s|a=>");
    assert_int_equal(zest_template_parse(text.data, "task T", &t, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "600000 bytes, more than the 65536 allowed"));
    zest_buffer_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes),
        cmocka_unit_test(letters),
        cmocka_unit_test(prompts),
        cmocka_unit_test(parts),
        cmocka_unit_test(refused),
        cmocka_unit_test(refused_uses),
        cmocka_unit_test(built_in),
        cmocka_unit_test(texts_do_not_grow_without_end),
        cmocka_unit_test(filters_of_a_long_text),
        cmocka_unit_test(large_templates_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
