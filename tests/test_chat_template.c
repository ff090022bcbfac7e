/* Chat templates against the answers of transformers and jinja2.
 *
 * ZEST_CHAT_ANSWERS=FILE also compares with the many answers of `tools/make_chat_goldens.py large FILE COUNT`. Without the
 * variable they are left out. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat/chat_template.h"
#include "support.h"

#define DATA "tests/data/chat"

static zest_error error;

/* ---- Answers: lines of JSON, see tools/make_chat_goldens.py ---- */

static json_t *given; /* the variables of lines without */

/* The template of a line: its own text, or a file. */
static char *source_of(const json_t *line) {
    const char *name = json_string_value(json_object_get(line, "template"));
    char path[256];
    if (!name) return strdup(json_string_value(json_object_get(line, "source")));
    snprintf(path, sizeof path, DATA "/%s", name);
    return test_get(path);
}

static void check_spans(const json_t *line, const zest_jinja_spans *spans, size_t number) {
    const json_t *wanted = json_object_get(line, "spans");
    if (spans->count != json_array_size(wanted)) fail_msg("line %zu: %zu spans", number, spans->count);
    for (size_t i = 0; i < spans->count; i++) {
        const json_t *pair = json_array_get(wanted, i);
        assert_int_equal(spans->data[i].start, json_integer_value(json_array_get(pair, 0)));
        assert_int_equal(spans->data[i].end, json_integer_value(json_array_get(pair, 1)));
    }
}

/* Renders a line. What jinja2 refuses has to be refused. What zest refuses, and jinja2 does not, is counted: it must be
 * said that it is not supported. */
static size_t check_line(const json_t *line, size_t number) {
    char *source = source_of(line);
    const json_t *variables = json_object_get(line, "variables"), *text = json_object_get(line, "text");
    zest_buffer out = {0};
    zest_jinja_spans spans = {0};
    zest_jinja_input input = {.variables = variables ? variables : given,
                              .now = json_integer_value(json_object_get(line, "now")),
                              .spans = &spans};
    zest_jinja *jinja = zest_jinja_parse(source, strlen(source), "answers", &error);
    zest_status status = jinja ? zest_jinja_render(jinja, &input, &out, &error) : error.status;
    size_t refused = text && status;
    if (refused && !strstr(error.message, "not supported") && !strstr(error.message, "cannot be printed"))
        fail_msg("line %zu: %s\n%.2000s", number, error.message, source);
    if (!text && !status) fail_msg("line %zu: rendered as %s\n%.2000s", number, out.data, source);
    if (text && !status) {
        const char *wanted = json_string_value(text);
        if (strlen(wanted) != out.size || memcmp(wanted, out.data, out.size))
            fail_msg("line %zu: %.2000s\nwanted: %s\n   got: %s", number, source, wanted, out.data);
        check_spans(line, &spans, number);
    }
    zest_jinja_spans_free(&spans);
    zest_buffer_free(&out);
    zest_jinja_free(jinja);
    free(source);
    return refused;
}

static size_t check_answers(const char *path, size_t *lines) {
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be opened", path);
    char *text = NULL;
    size_t room = 0, refused = 0;
    for (*lines = 1; getline(&text, &room, file) > 0; ++*lines) {
        json_t *line = json_loads(text, 0, NULL), *own = json_object_get(line, "given");
        assert_non_null(line);
        if (own) {
            json_decref(given);
            given = json_incref(own);
        } else {
            refused += check_line(line, *lines);
        }
        json_decref(line);
    }
    json_decref(given);
    given = NULL;
    free(text);
    fclose(file);
    return refused;
}

static void test_answers(void **unused) {
    (void)unused;
    size_t lines, refused = check_answers(DATA "/answers.jsonl", &lines);
    assert_true(lines > 700);
    print_message("%zu answers, %zu of them refused by name\n", lines, refused);
    assert_true(refused < 20);
}

static void test_many_answers(void **unused) {
    (void)unused;
    const char *path = getenv("ZEST_CHAT_ANSWERS");
    size_t lines;
    if (!path) skip();
    size_t refused = check_answers(path, &lines);
    print_message("%zu answers, %zu of them refused by name\n", lines, refused);
    assert_int_equal(refused, 0);
}

/* ---- What is not supported is named ---- */

static void refused(const char *source, const char *words) {
    json_t *none = json_object();
    zest_buffer out = {0};
    zest_jinja_input input = {.variables = none};
    zest_jinja *jinja = zest_jinja_parse(source, strlen(source), "test", &error);
    if (jinja) {
        if (!zest_jinja_render(jinja, &input, &out, &error)) fail_msg("%.200s: rendered", source);
    }
    if (!strstr(error.message, words))
        fail_msg("%.200s: '%s' does not say '%s'", source, error.message, words);
    zest_jinja_free(jinja);
    zest_buffer_free(&out);
    json_decref(none);
}

static void test_refused(void **unused) {
    (void)unused;
    static const char *const cases[][2] = {
        {"{% include 'x' %}", "test, line 1 of the chat template: the statement 'include' is not supported"},
        {"a\n{% call m() %}{% endcall %}", "line 2 of the chat template: the statement 'call'"},
        {"{% extends 'x' %}", "'extends'"},
        {"{% block x %}{% endblock %}", "'block'"},
        {"{% for i in [] recursive %}{% endfor %}", "recursive loops are not supported"},
        {"{{ 'a' | xmlattr }}", "the filter 'xmlattr' is not supported"},
        {"{{ ('a' | safe) ~ '<' }}", "the filter 'safe' is not supported"},
        {"{{ '%s' % 1 }}", "str % int is not supported"},
        {"{{ 'a'.zfill(3) }}", "the method 'zfill' of a text is not supported"},
        {"{{ [].append(1) }}", "the method 'append' of a list is not supported"},
        {"{{ 1 is filter }}", "the test 'filter' with 0 arguments is not supported"},
        {"{{ dict(*[1]) }}", "arguments with * or ** are not supported"},
        {"{{ cycler('a') }}", "the function 'cycler' is not defined"},
        {"{{ strftime_now('%Y') }}", "the function 'strftime_now' is not defined"},
        {"{{ 'ß' | upper }}", "upper of letters beyond ASCII is not supported"},
        {"{{ raise_exception('one at a time') }}", "line 1 of the chat template: one at a time"},
        {"{{ 9223372036854775807 + 1 }}", "an integer of more than 64 bits"},
        {"{{ 9223372036854775808 }}", "is too large"},
        {"{{ '\\N{DASH}' }}", "escape that is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(cases[i][0], cases[i][1]);
}

/* ---- Hostile templates ---- */

static char *repeated(const char *before, const char *part, size_t times, const char *after) {
    zest_buffer text = {0};
    zest_buffer_text(&text, before);
    for (size_t i = 0; i < times; i++) zest_buffer_text(&text, part);
    zest_buffer_text(&text, after);
    assert_false(text.failed);
    return text.data;
}

static void refused_repeated(const char *before, const char *part, size_t times, const char *after,
                             const char *words) {
    char *source = repeated(before, part, times, after);
    refused(source, words);
    free(source);
}

static void test_hostile(void **unused) {
    (void)unused;
    clock_t start = clock();
    refused("{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
            "endfor %}{% endfor %}",
            "damaged or hostile");
    refused(
        "{% set n = namespace(s='aaaaaaaa') %}{% for a in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "damaged or hostile");
    refused("{% set n = namespace(l=[1]) %}{% for a in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}",
            "damaged or hostile");
    refused("{% set l = range(99999)|list %}{% for a in range(99999) %}{{ -1 in l }}{% endfor %}",
            "damaged or hostile");
    refused(
        "{% set l = range(99999)|list %}{% for a in range(99999) %}{{ l|max }}{{ l == l[:] }}{% endfor %}",
        "damaged or hostile");
    refused("{% set s = 'ab' * 99999 %}{% for a in range(99999) %}{{ s|length }}{{ s[99999] }}{{ "
            "s.rfind('bb') }}{% endfor %}",
            "damaged or hostile");
    refused("{{ 'a' * 9223372036854775807 }}", "damaged or hostile");
    refused("{{ [1] * 9223372036854775807 }}", "damaged or hostile");
    refused("{% set n = namespace(s='aaaaaaaa') %}{% for a in range(99) %}{% set n.s = n.s.replace('a', n.s) "
            "%}{% endfor %}",
            "too long");
    refused("{% for a in range(99999) %}{% for b in range(999) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% "
            "endfor %}{% endfor %}",
            "damaged or hostile");
    refused("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "macros call each other");
    refused("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
            "damaged or hostile");
    refused(
        "{% set n = namespace(l=[]) %}{% for a in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
        "nested too deep");
    char *closed = repeated("1", ")", 100000, " }}");
    refused_repeated("{{ ", "(", 100000, closed, "nested more than");
    free(closed);
    refused_repeated("{{ ", "not ", 100000, "1 }}", "nested more than");
    refused_repeated("{{ ", "-", 100000, "1 }}", "nested more than");
    refused_repeated("", "{% if 1 %}", 50000, "", "nested more than");
    refused_repeated("{{ 1", " + 1", 100000, " }}", "nested too deep");
    refused_repeated("{{ x", ".a", 100000, " }}", "nested too deep");
    refused_repeated("{{ 'a'", "|trim", 100000, " }}", "nested too deep");
    refused_repeated("{# ", "x", ZEST_JINJA_MAX_SIZE, " #}", "bytes, more than");
    refused_repeated("{{ {", "'a': 1, ", 100000, "}['a'] + 'a' }}", "is not supported");
    refused_repeated("{{ range(99999)", "|list", 100,
                     "|sort|sort|sort|sort|sort|sort|sort|sort|sort|sort + 1 }}", "needs more than");
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("hostile templates: %.1f s\n", seconds);
    assert_true(seconds < 20 * TEST_SLOW);
}

/* Work that grows with the product of two texts, or with the depth of a value, and that one step of a template can ask for. */
static void test_hostile_values(void **unused) {
    (void)unused;
    static const char *const twice =
        "{% set n = namespace(s='aaaaaaaa') %}{% for a in range(20) %}{% set n.s = n.s ~ n.s %}{% endfor %}";
    static const char *const parts[] = {
        "{% for a in range(99999) %}{{ n.s.upper() is upper }}{% endfor %}",
        "{% set s = n.s.upper() %}{% for a in range(99999) %}{{ s is upper }}{% endfor %}",
        "{% for a in range(99999) %}{% set x = n.s.removeprefix(n.s) %}{% endfor %}",
        "{{ n.s.rsplit(n.s[:4000000] ~ 'b') }}",
        "{{ ('b' * 9999).strip(n.s ~ 'b') }}",
        "{{ ('b' * 9999)|trim(n.s ~ 'b') }}"};
    clock_t start = clock();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        zest_buffer source = {0};
        zest_buffer_format(&source, "%s%s", twice, parts[i]);
        refused(source.data, "damaged or hostile");
        zest_buffer_free(&source);
    }
    static const char *const deep[] = {"[n.a]", "(n.a, 1)", "{1: n.a}"};
    static const char *const compared[] = {"n.a == n.b", "n.a < n.b", "n.a in [n.b]", "[n.b].count(n.a)"};
    for (size_t i = 0; i < 3; i++)
        for (size_t c = 0; c < 4; c++) {
            zest_buffer source = {0};
            zest_buffer_format(
                &source,
                "{%% set n = namespace(a=[], b=[], c=[]) %%}{%% for k in range(9) %%}{%% for i in "
                "range(9999) %%}{%% set n.a = %s %%}{%% if loop.last and k == 3 %%}{%% set n.b = n.a "
                "%%}{%% set n.a = [] %%}{%% endif %%}{%% endfor %%}{%% endfor %%}{{ %s }}",
                deep[i], compared[c]);
            refused(source.data, i == 2 && c == 1 ? "have no order" : "nested too deep");
            zest_buffer_free(&source);
        }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("hostile values: %.1f s\n", seconds);
    assert_true(seconds < 20 * TEST_SLOW);
}

/* ---- The template of a model ---- */

static zest_tokenizer *tokenizer_with(const char *config, const char *file) {
    char folder[64], path[128];
    test_folder(folder);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    test_copy_file("tests/data/tokenizers/llama.json", path);
    if (config) test_put(folder, "tokenizer_config.json", config);
    if (file) test_put(folder, "chat_template.jinja", file);
    zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    test_remove(folder);
    return tokenizer;
}

static void renders(const zest_tokenizer *tokenizer, const zest_chat_input *input, const char *wanted) {
    zest_buffer out = {0};
    zest_buffer_text(&out, ">");
    zest_chat_template *chat = zest_chat_template_new(tokenizer, &error);
    if (!chat || zest_chat_template_render(chat, input, &out, NULL, &error)) fail_msg("%s", error.message);
    assert_string_equal(out.data, wanted);
    zest_chat_template_free(chat);
    zest_buffer_free(&out);
}

static void test_model(void **unused) {
    (void)unused;
    static const char plain[] =
        "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"chat_template\": "
        "\"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ x }}{{ tools is none }}"
        "{% if add_generation_prompt %}!{% endif %}\"}",
                      named[] = "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"no\"}, "
                                "{\"name\": \"default\", \"template\": \"yes\"}]}";
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Hi"),
           *x = json_pack("{s:i}", "x", 7);
    zest_tokenizer *tokenizer = tokenizer_with(plain, NULL);
    renders(tokenizer, &(zest_chat_input){.messages = messages}, "><s>Hi</s>True");
    renders(tokenizer,
            &(zest_chat_input){
                .messages = messages, .variables = x, .tools = messages, .add_generation_prompt = 1},
            "><s>Hi</s>7False!");
    zest_tokenizer_free(tokenizer);
    tokenizer = tokenizer_with(named, NULL);
    renders(tokenizer, &(zest_chat_input){.messages = messages}, ">yes");
    zest_tokenizer_free(tokenizer);
    tokenizer = tokenizer_with(named, "the file {{ messages|length }}\n");
    renders(tokenizer, &(zest_chat_input){.messages = messages}, ">the file 1");
    zest_tokenizer_free(tokenizer);
    tokenizer = tokenizer_with(NULL, NULL);
    assert_null(zest_tokenizer_chat_template(tokenizer, NULL));
    assert_null(zest_chat_template_new(tokenizer, &error));
    assert_non_null(strstr(error.message, "the model has no chat template"));
    zest_tokenizer_free(tokenizer);
    json_decref(messages);
    json_decref(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_many_answers),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_hostile_values), cmocka_unit_test(test_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
