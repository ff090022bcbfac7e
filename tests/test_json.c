/* JSON from files: what is accepted, what stays exact, what is an error. */
#include <string.h>

#include "base/memory.h"
#include "base/json.h"
#include "support.h"

static json_t *load(const char *text, zest_json_big big) {
    json_error_t problem;
    json_t *json = zest_json_load(text, strlen(text), big, &problem);
    if (!json) fail_msg("%s: %s", text, problem.text);
    return json;
}

/* Numbers beside a big one stay integers with all their digits. */
static void big_integers_do_not_spoil_the_others(void **state) {
    (void)state;
    const char *text =
        "{\"model_max_length\": 1000000000000000019884624838656, \"largest\": 9223372036854775807,"
        "\"smallest\": -9223372036854775808, \"list\": [-9223372036854775809, 9223372036854775808],"
        "\"real\": 1.0, \"text\": \"a \\\" 99999999999999999999\", \"id\": 9007199254740993}";
    json_t *json = load(text, ZEST_JSON_BIG_AS_REAL);
    assert_true(json_is_real(json_object_get(json, "model_max_length")));
    assert_true(json_real_value(json_object_get(json, "model_max_length")) ==
                1000000000000000019884624838656.0);
    assert_true(json_integer_value(json_object_get(json, "largest")) == INT64_MAX);
    assert_true(json_integer_value(json_object_get(json, "smallest")) == INT64_MIN);
    assert_true(json_integer_value(json_object_get(json, "id")) == 9007199254740993); /* no double has it */
    assert_true(json_is_real(json_object_get(json, "real")));
    assert_string_equal(json_string_value(json_object_get(json, "text")), "a \" 99999999999999999999");
    const json_t *list = json_object_get(json, "list");
    assert_true(json_real_value(json_array_get(list, 0)) == -9223372036854775808.0);
    assert_true(json_real_value(json_array_get(list, 1)) == 9223372036854775808.0);
    json_decref(json);
    json = load(text, ZEST_JSON_BIG_AS_TEXT);
    assert_string_equal(json_string_value(json_object_get(json, "model_max_length")),
                        "1000000000000000019884624838656");
    assert_true(json_is_integer(json_object_get(json, "largest")));
    json_decref(json);
}

static void refuses(const char *text, const char *fragment) {
    zest_error error = {0};
    json_t *json = NULL;
    assert_int_equal(zest_json_parse(text, strlen(text), "f.json", &json, &error), ZEST_ERROR_FORMAT);
    assert_null(json);
    if (!strstr(error.message, fragment)) fail_msg("'%s' is not in: %s", fragment, error.message);
    for (const char *c = error.message; *c; c++) assert_true((unsigned char)*c >= ' ' && *c != 127);
}

static void bad_files_are_refused(void **state) {
    (void)state;
    refuses("", "f.json: is not valid JSON at line 1");
    refuses("[1]", "f.json: is not a JSON object");
    refuses("{\"a\": 1, \"a\": 2}", "duplicate object key");
    refuses("{\"a\": 1,\n\"b\": \x1b[2J}", "line 2");
    refuses("{\"a\": 99999999999999999999, \"a\": 2}",
            "duplicate object key"); /* also where it is read twice */
    refuses("{\"a\": 1e999}", "real number overflow");
    refuses("{\"a\": 00000000000000000000001}", "not valid JSON");
    refuses("{\"a\": 99999999999999999999x}", "not valid JSON");
    refuses("{\"a\": \"99999999999999999999", "not valid JSON");
    refuses("{\"a\": 99999999999999999999, \"b\": \"\\", "not valid JSON");
    zest_buffer deep = {0};
    for (int i = 0; i < 100000; i++) zest_buffer_text(&deep, "[");
    refuses(deep.data, "maximum parsing depth");
    zest_buffer_free(&deep);
    deep = (zest_buffer){0}; /* an integer that is no double either */
    zest_buffer_text(&deep, "{\"a\": 1");
    for (int i = 0; i < 400; i++) zest_buffer_text(&deep, "0");
    zest_buffer_text(&deep, "}");
    refuses(deep.data, "real number overflow");
    zest_buffer_free(&deep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_integers_do_not_spoil_the_others),
        cmocka_unit_test(bad_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
