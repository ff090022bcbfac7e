/* Truncation of examples that are too long. */
#include "tests/examples.h"

static const char long_rows[] =
    "{\"a\":\"the rain had been on for hours and hours, and we had no pain before\",\"b\":\"that was "
    "better\"}\n"
    "{\"a\":\"no\",\"b\":\"the rain had been on for hours and hours, and we had no pain before\"}\n";

/* For every length the mask is present; the rest is a part of the full text; nothing is truncated
 * needlessly. */
static void mask_survives(void **state) {
    (void)state;
    static const char *const templates[] = {"{a} It was{mask}.", "{a}{mask}, {b}", "{a} {b} is{mask}!",
                                            "{mask}: {a}"};
    zest_tokenizer *t = small();
    uint32_t mask = (uint32_t)zest_tokenizer_special(t, ZEST_TOKEN_MASK);
    zest_rows rows = rows_of(long_rows);
    for (size_t k = 0; k < sizeof templates / sizeof *templates; k++) {
        zest_task task = masked_task(templates[k], 0);
        zest_examples whole, e;
        must_make(&task, &rows, t, &masked_model, NULL, &whole);
        assert_int_equal(whole.cut, 0);
        for (task.max_length = 8; task.max_length < 80; task.max_length++) {
            must_make(&task, &rows, t, &masked_model, NULL, &e);
            size_t cut = 0;
            for (size_t i = 0; i < e.count; i++) {
                const zest_example_text *w = &whole.texts[i], *s = &e.texts[i];
                size_t length = w->length < task.max_length ? w->length : task.max_length;
                cut += w->length > task.max_length;
                assert_int_equal(s->length, length);
                assert_true(s->target < s->length && e.tokens[s->first + s->target] == mask);
                assert_int_equal(e.tokens[s->first], 0); /* <s> */
                /* as published wherever that leaves the mask: the end is removed */
                if (w->target < task.max_length)
                    assert_memory_equal(e.tokens + s->first, whole.tokens + w->first, length * 4);
                else if (k != 1) /* else the template's end and </s> are kept */
                    assert_memory_equal(e.tokens + s->first + s->target, whole.tokens + w->first + w->target,
                                        (w->length - w->target) * 4);
            }
            assert_int_equal(e.cut, cut);
            zest_examples_free(&e);
        }
        zest_examples_free(&whole);
    }
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

static void field_limits(void **state) {
    (void)state;
    zest_tokenizer *t = small();
    zest_rows rows = rows_of(long_rows);
    zest_task task = masked_task("{a}{mask}{b}", 0);
    zest_examples whole, e;
    must_make(&task, &rows, t, &masked_model, NULL, &whole);
    task.first_limit = 5;
    task.other_limit = 2;
    must_make(&task, &rows, t, &masked_model, NULL, &e);
    assert_int_equal(e.cut, 2);
    const zest_example_text *w = &whole.texts[0], *s = &e.texts[0];
    assert_int_equal(s->length, 1 + 5 + 1 + 2 + 1);
    assert_int_equal(s->target, 6);
    assert_memory_equal(e.tokens + s->first, whole.tokens + w->first, 6 * 4);
    assert_memory_equal(e.tokens + s->first + 6, whole.tokens + w->first + w->target, 3 * 4);
    assert_int_equal(e.tokens[s->first + 9], 1); /* </s> */
    zest_examples_free(&whole);
    zest_examples_free(&e);
    /* the model has less room than the task allows */
    zest_model_config tight = masked_model;
    tight.max_positions = 9;
    task.max_length = 100;
    must_make(&task, &rows, t, &tight, NULL, &e);
    for (size_t i = 0; i < e.count; i++) assert_true(e.texts[i].length <= 9);
    zest_examples_free(&e);
    tight.max_positions = 4;
    task.masked = "It was long ago:{mask} {a}";
    assert_int_equal(make(&task, &rows, t, &tight, NULL, &e), ZEST_ERROR_FORMAT);
    assert_message(&error, "rows.jsonl:1: the mask does not fit into 4 tokens");
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* The start token and the last tokens are kept; the answer is what followed the prompt. */
static void causal_cut(void **state) {
    (void)state;
    zest_tokenizer *t = small();
    zest_rows rows = rows_of(long_rows);
    zest_task task = {.name = "T",
                      .kind = ZEST_TASK_CLASSES,
                      .causal = "{a}\\n{b} {answer}",
                      .classes = {{"0", "it was the rain that was before"}, {"1", "better"}},
                      .class_count = 2};
    zest_examples whole, e;
    must_make(&task, &rows, t, &causal_model, NULL, &whole);
    assert_int_equal(whole.cut, 0);
    for (size_t length = 2; length < 60; length++) {
        task.causal_length = length;
        must_make(&task, &rows, t, &causal_model, NULL, &e);
        size_t cut = 0;
        for (size_t i = 0; i < 4; i++) {
            const zest_example_text *w = &whole.texts[i], *s = &e.texts[i];
            size_t kept = w->length < length ? w->length : length, answer = w->length - w->target;
            cut += w->length > length;
            assert_int_equal(s->length, kept);
            assert_int_equal(e.tokens[s->first], 0);
            assert_memory_equal(e.tokens + s->first + 1, whole.tokens + w->first + w->length - (kept - 1),
                                (kept - 1) * 4);
            assert_int_equal(s->length - s->target, answer < kept - 1 ? answer : kept - 1);
        }
        assert_int_equal(e.cut, cut);
        zest_examples_free(&e);
    }
    zest_examples_free(&whole);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* A prompt that was cut keeps more than the full text has of it, as generation does not need the answer's
 * room. */
static void text_cut(void **state) {
    (void)state;
    zest_tokenizer *t = small();
    zest_rows rows = rows_of("{\"a\":\"the rain had been on for hours and hours, and we had no pain before\","
                             "\"answers\":\"that was better\"}\n");
    zest_task task = {.name = "T",
                      .kind = ZEST_TASK_TEXT,
                      .causal = "{a}: {answer}",
                      .label = "answers",
                      .max_tokens = 10,
                      .causal_length = 24};
    zest_examples e;
    must_make(&task, &rows, t, &causal_model, NULL, &e);
    assert_int_equal(e.max_tokens, 10);
    assert_int_equal(e.texts[0].length, 14);
    assert_int_equal(e.prompts[0].length, 14);
    assert_true(e.prompts[0].first != e.texts[0].first);
    assert_int_equal(e.cut, 1);
    uint32_t answer = e.texts[0].length - e.texts[0].target;
    assert_true(answer > 1);
    assert_int_equal(e.tokens[e.texts[0].length - 1], 201); /* newline */
    assert_memory_equal(e.tokens + 1, e.tokens + e.prompts[0].first + 1 + answer, (13 - answer) * 4);
    zest_examples_free(&e);
    task.causal_length = 8; /* no more than half for new tokens */
    must_make(&task, &rows, t, &causal_model, NULL, &e);
    assert_true(e.max_tokens == 4 && e.texts[0].length == 4);
    zest_examples_free(&e);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_survives),
        cmocka_unit_test(field_limits),
        cmocka_unit_test(causal_cut),
        cmocka_unit_test(text_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
