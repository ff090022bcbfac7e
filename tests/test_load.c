/* What a run takes when its options leave it open: the paper's limits in steps, for each of its tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/split.h"
#include "train/load.h"
#include "tests/support.h"

/* Steps of a run with these options ("name=value ...") on so many training examples. */
static uint64_t steps_of(const char *text, int causal, size_t examples) {
    zest_options options;
    zest_error error = {0};
    zest_options_init(&options);
    zest_status status = zest_options_set_all(&options, ~0u, text, "options", &error);
    if (!status) status = zest_load_resolve_defaults(&options, causal, &error);
    if (!status) status = zest_load_resolve_steps(&options, examples, &error);
    if (status) fail_msg("%s: %s", text, error.message);
    uint64_t steps = zest_options_whole(&options, ZEST_OPTION_STEPS);
    zest_options_free(&options);
    return steps;
}

/* 512 shots of every class, as the splits give them, where class `small` has so many rows in all. */
static size_t training_rows(const char *name, size_t small, size_t rows_of_small) {
    zest_task task;
    zest_error error = {0};
    zest_buffer text = {0};
    assert_int_equal(zest_task_open(name, &task, &error), ZEST_OK);
    for (size_t c = 0; c < task.class_count; c++)
        for (size_t i = 0; i < (c == small ? rows_of_small : 1100); i++)
            zest_buffer_format(&text, "%s\n", task.classes[c].label);
    char fields[64];
    snprintf(fields, sizeof fields, "%s=0", task.label);
    zest_rows_layout layout = {.format = ZEST_ROWS_TSV, .fields = fields};
    zest_rows rows;
    zest_split train = {0}, dev = {0};
    assert_int_equal(zest_rows_parse(text.data, text.size, "rows.tsv", &layout, &rows, &error), ZEST_OK);
    zest_split_options how = {.shots = 512, .seed = 42};
    assert_int_equal(zest_split_train(&task, &rows, &how, &train, &dev, &error), ZEST_OK);
    size_t count = train.count;
    zest_split_free(&train);
    zest_split_free(&dev);
    zest_rows_free(&rows);
    zest_buffer_free(&text);
    zest_task_free(&task);
    return count;
}

/* 700 epochs at batch 128 (appendix C of the paper): 8, 12, 20 and 21 steps an epoch. */
static void seven_hundred_epochs_depend_on_the_classes(void **state) {
    (void)state;
    static const struct {
        const char *task;
        unsigned steps;
    } of[] = {{"SST-2", 5600}, {"QQP", 5600},  {"MRPC", 5600},  {"RTE", 5600},
              {"MNLI", 8400},  {"SNLI", 8400}, {"sst-5", 14000}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[64];
        snprintf(text, sizeof text, "task=%s", of[i].task);
        size_t rows = training_rows(of[i].task, SIZE_MAX, 0);
        assert_int_equal(steps_of(text, 0, rows), of[i].steps);
    }
    size_t trec = training_rows("TREC", 2, 86);
    assert_int_equal(trec, 5 * 512 + 86);
    assert_int_equal(steps_of("task=TREC", 0, trec), 700 * 21);
    assert_int_equal(steps_of("task=TREC method=mezo batch=32", 0, trec), 700 * 83);
}

static void other_splits_and_models_have_their_own_lengths(void **state) {
    (void)state;
    assert_int_equal(steps_of("task=MNLI shots=512", 0, 1536), 8400);
    assert_int_equal(steps_of("task=SST-2 shots=16", 0, 32), 5600); /* the paper has no such split */
    assert_int_equal(steps_of("task=SST-2 train-size=1000", 0, 1000), 5600);
    assert_int_equal(steps_of("task=mine/own.task", 0, 100000), 5600); /* 700 epochs would be 547,400 */
    assert_int_equal(steps_of("task=COPA", 1, 300), 20000);
    assert_int_equal(steps_of("task=SST-2 method=sgd", 0, 1024), 200 * 32);
    assert_int_equal(steps_of("task=SST-2 method=sgd batch=8", 0, 1024), 25600);
    assert_int_equal(steps_of("task=COPA method=sgd", 1, 300), 3750);
}

static void what_is_given_counts(void **state) {
    (void)state;
    assert_int_equal(steps_of("task=MNLI steps=123", 0, 1536), 123);
    assert_int_equal(steps_of("task=MNLI epochs=3", 0, 1536), 36);
    assert_int_equal(steps_of("task=MNLI epochs=3 batch=1000", 0, 1536), 6);
    assert_int_equal(steps_of("task=MNLI steps=123 epochs=0", 0, 1536), 123);
    assert_int_equal(steps_of("task=MNLI steps=0 epochs=3", 0, 1536), 36);
    assert_int_equal(steps_of("task=MNLI method=sgd steps=123", 0, 1536), 123);
    assert_int_equal(steps_of("task=COPA epochs=3", 1, 300), 57);
}

/* The options that a run writes down are options that can be given: zest train --config RUN/options. */
static void what_is_settled_can_be_given_again(void **state) {
    (void)state;
    static const char *const runs[] = {"task=MNLI", "task=MNLI method=sgd", "task=MNLI epochs=3"};
    for (int i = 0; i < 3; i++) {
        zest_options first, again;
        zest_error error = {0};
        zest_buffer text = {0};
        zest_options_init(&first);
        zest_options_init(&again);
        assert_int_equal(zest_options_set_all(&first, ~0u, runs[i], "options", &error), ZEST_OK);
        assert_int_equal(zest_load_resolve_defaults(&first, 0, &error), ZEST_OK);
        assert_int_equal(zest_load_resolve_steps(&first, 1536, &error), ZEST_OK);
        zest_options_print(&first, ZEST_FOR_TRAIN, &text);
        assert_int_equal(zest_options_set_all(&again, ZEST_FOR_TRAIN, text.data, "options", &error), ZEST_OK);
        assert_int_equal(zest_load_resolve_defaults(&again, 0, &error), ZEST_OK);
        assert_int_equal(zest_load_resolve_steps(&again, 1536, &error), ZEST_OK);
        assert_int_equal(zest_options_whole(&again, ZEST_OPTION_STEPS),
                         zest_options_whole(&first, ZEST_OPTION_STEPS));
        zest_buffer_free(&text);
        zest_options_free(&first);
        zest_options_free(&again);
    }
}

static void contradictions_are_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {{"task=MNLI steps=9 epochs=3", "give one of them"},
                                         {"task=MNLI epochs=4000000000", "more steps than a run can have"}};
    for (int i = 0; i < 2; i++) {
        zest_options options;
        zest_error error = {0};
        zest_options_init(&options);
        assert_int_equal(zest_options_set_all(&options, ~0u, bad[i][0], "options", &error), ZEST_OK);
        zest_status status = zest_load_resolve_defaults(&options, 0, &error);
        if (!status) status = zest_load_resolve_steps(&options, 1536, &error);
        assert_int_equal(status, ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, bad[i][1]));
        zest_options_free(&options);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seven_hundred_epochs_depend_on_the_classes),
        cmocka_unit_test(other_splits_and_models_have_their_own_lengths),
        cmocka_unit_test(what_is_given_counts),
        cmocka_unit_test(what_is_settled_can_be_given_again),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
