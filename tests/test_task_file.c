/* Task files: valid ones, and every error. */
#include "tests/task.h"

static void test_task_file(void **state) {
    (void)state;
    zest_task task = open_task("tests/data/tasks/reviews.task");
    assert_string_equal(task.name, "reviews");
    assert_string_equal(task.about, "is a review kind?");
    assert_string_equal(task.masked, "{review} It was{mask}. "); /* quotes preserve the space */
    assert_string_equal(task.causal, "{review|strip}\\nIt was {answer}");
    assert_int_equal(task.class_count, 2);
    assert_string_equal(task.classes[0].label, "bad");
    assert_string_equal(task.classes[1].word, "great");
    assert_int_equal(task.metric, ZEST_METRIC_F1);
    assert_int_equal(task.select, ZEST_METRIC_LOSS);
    assert_int_equal(task.max_length, 64);
    assert_int_equal(task.causal_length, 64);
    assert_int_equal(task.first_limit, 50);
    assert_int_equal(task.other_limit, 10);
    assert_int_equal(task.dev_size, 2);
    static const size_t counts[] = {4, 2, 1};
    for (int part = 0; part < 3; part++) { /* three formats, by their endings */
        assert_true(zest_task_has_part(&task, (zest_task_part)part));
        zest_rows rows = read_part(&task, part == 1 ? "nowhere" : "", 0, (zest_task_part)part);
        uint32_t answer;
        assert_int_equal(rows.count, counts[part]);
        assert_int_equal(zest_task_class_of(&task, &rows, 0, &answer, NULL), ZEST_OK);
        assert_int_equal(answer, 1);
        zest_rows_free(&rows);
    }
    zest_task_free(&task);
    task = open_task("tests/data/tasks/pairs.task");
    assert_string_equal(task.name, "pairs.task");
    assert_int_equal(task.kind, ZEST_TASK_CHOICE);
    assert_null(task.masked);
    assert_string_equal(task.option_form, "{option|lower-word}");
    assert_int_equal(task.metric, ZEST_METRIC_ACCURACY);
    assert_false(zest_task_has_part(&task, ZEST_PART_TEST));
    zest_rows rows = read_part(&task, NULL, 1, ZEST_PART_TRAIN);
    size_t count;
    zest_rows_get(&rows, 1, zest_rows_field(&rows, "options"), &count);
    assert_int_equal(count, 3);
    zest_rows_free(&rows);
    zest_task_free(&task);
}

#define GOOD "train = t.jsonl\nlabel = l\nwords = 0:a, 1:b\ntemplate = {x}{mask}\n"

static void test_bad_task_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "is empty"},
        {"\xFF", "not UTF-8"},
        {GOOD "tran = x\n", "t.task, line 5: unknown key 'tran'; did you mean 'train'?"},
        {GOOD "# fine\n\n  zzzzzz = x\n", "line 7: unknown key 'zzzzzz'"},
        {GOOD "hello\n", "line 5: expected key = value, got 'hello'"},
        {GOOD "label = m\n", "line 5: 'label' was already set in line 2"},
        {GOOD "name =\n", "line 5: 'name' has no value"},
        {GOOD "name = \"\"\n", "'name' has no value"},
        {"label = l\nwords = 0:a, 1:b\ntemplate = {x}{mask}\n",
         "'train' is missing; add a line like   train = "},
        {"train = t\nwords = 0:a, 1:b\ntemplate = {x}{mask}\n", "'label' is missing"},
        {"train = t\nlabel = l\ntemplate = {x}{mask}\n",
         "'words' is missing; add a line like   words = 0:terrible, 1:great"},
        {"train = t\nlabel = l\nwords = 0:a, 1:b\n", "'template' is missing"},
        {"train = t\nlabel = l\nwords = 0:a, 1:b\ntemplate = {x}\n", "line 4: template: needs {mask}"},
        {"train = t\nlabel = l\nwords = 0:a, 1:b\nmasked-template = {answer}\n", "needs {mask} where"},
        {GOOD "masked-template = {mask}\n", "a second masked-template; the first is in line 5"},
        {"train = t\nlabel = l\nwords = 0:a, 1b\ntemplate = {mask}\n", "got '1b'"},
        {"train = t\nlabel = l\nwords = 0:a, :b\ntemplate = {mask}\n", "is empty"},
        {"train = t\nlabel = l\nwords = 0:a,\ntemplate = {mask}\n", "expected label:word"},
        {"train = t\nlabel = l\nwords = 0:a, 0:b\ntemplate = {mask}\n", "repeats a label or a word"},
        {"train = t\nlabel = l\nwords = 0:a, 1:a\ntemplate = {mask}\n", "repeats a label or a word"},
        {"train = t\nlabel = l\nwords = 0:a\ntemplate = {mask}\n", "at least two classes"},
        {"train = t\nlabel = l\nkind = choice\ntemplate = {answer}\n", "'options' is missing"},
        {"train = t\nlabel = l\nkind = text\ntemplate = {mask}\n", "this kind of task needs"},
        {"train = t\nlabel = l\nkind = text\nwords = 0:a, 1:b\ntemplate = {answer}\n", "only a task of kind"},
        {"train = t\nlabel = l\nkind = text\nmetric = accuracy\ntemplate = {answer}\n", "no accuracy"},
        {GOOD "metric = em\n", "em is for kind = text"},
        {"train = t\nlabel = l\nwords = 0:a, 1:b, 2:c\nmetric = f1\ntemplate = {mask}\n", "f1 is for two"},
        {"train = t\nlabel = l\nkind = choice\noptions = o\noption-form = {opt}\ntemplate = {answer}\n",
         "line 5: option-form: needs {option}"},
        {GOOD "kind = picture\n", "line 5: kind = picture: must be one of classes|choice|text"},
        {GOOD "format = xls\n", "must be one of jsonl|parquet|csv|tsv"},
        {GOOD "header = maybe\n", "must be one of yes|no"},
        {GOOD "max-length = 0\n", "max-length = 0: must be an integer"},
        {GOOD "max-length = -5\n", "must be an integer"},
        {GOOD "max-length = 5x\n", "must be an integer"},
        {GOOD "max-length = 99999999999999999999999\n", "must be an integer"},
    };
    char buffer[64], path[300];
    const char *folder = test_folder(buffer);
    snprintf(path, sizeof path, "%s/t.task", folder);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_put(folder, "t.task", bad[i].text);
        refuses_name(path, bad[i].words);
    }
    zest_buffer many = {0};
    zest_buffer_text(&many, "words = ");
    for (int i = 0; i < 65; i++) zest_buffer_format(&many, "%s%d:w%d", i ? ", " : "", i, i);
    zest_buffer_text(&many, "\ntrain = t\nlabel = l\ntemplate = {mask}\n");
    test_put(folder, "t.task", many.data);
    refuses_name(path, "more than 64 classes");
    zest_buffer_free(&many);
    test_remove(folder);
}

/* A good task file whose data does not fit. */
static void test_bad_own_data(void **state) {
    (void)state;
    char buffer[64], path[300];
    const char *folder = test_folder(buffer);
    zest_error error = {0};
    zest_rows rows;
    snprintf(path, sizeof path, "%s/t.task", folder);
    test_put(folder, "t.task", "\xEF\xBB\xBF" GOOD);
    zest_task task = open_task(path);
    assert_int_equal(zest_task_read(&task, NULL, 0, ZEST_PART_TRAIN, &rows, &error), ZEST_ERROR_FILE);
    assert_message(&error, "paths in a task file are relative to its folder");
    assert_message(&error, "/t.jsonl");
    test_put(folder, "t.jsonl", "{\"x\": \"a\", \"lab\": 0}\n");
    assert_int_equal(zest_task_read(&task, NULL, 0, ZEST_PART_TRAIN, &rows, &error), ZEST_ERROR_ARGUMENT);
    assert_message(&error,
                   "has no field 'l', which the task t.task names as its label; the fields are x, lab");
    assert_null(rows.texts);
    test_put(folder, "t.jsonl", "{\"x\": \"a\", \"l\": [0, 1]}\n");
    rows = read_part(&task, NULL, 0, ZEST_PART_TRAIN);
    uint32_t answer;
    assert_int_equal(zest_task_class_of(&task, &rows, 0, &answer, &error), ZEST_ERROR_FORMAT);
    assert_message(&error, "line 1: has 2 labels instead of one");
    zest_rows_free(&rows);
    zest_task_free(&task);
    test_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_file),
        cmocka_unit_test(test_bad_task_files),
        cmocka_unit_test(test_bad_own_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
