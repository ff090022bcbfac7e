/* Tasks by name: the table, and the files of the built-in tasks where they are available. */
#include "tests/task.h"

/* ---- The table ---- */

static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {"SST-2",   "sst-5", "QQP",    "MRPC",  "TREC", "MNLI",
                                        "SNLI",    "RTE",   "CB",     "BoolQ", "WSC",  "WIC",
                                        "MultiRC", "COPA",  "ReCoRD", "SQuAD", "DROP"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        zest_task task = open_task(names[i]);
        assert_string_equal(task.name, names[i]);
        assert_ptr_equal(zest_task_at(i)->name, task.name);
        zest_task_free(&task);
        zest_task_free(&task);
    }
    assert_null(zest_task_at(sizeof names / sizeof names[0]));
    static const char *const others[][2] = {{"sst2", "SST-2"}, {"SST-5", "sst-5"}, {"sst5", "sst-5"},
                                            {"trec", "TREC"},  {"WiC", "WIC"},     {"copa", "COPA"},
                                            {"squad", "SQuAD"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        zest_task task = open_task(others[i][0]);
        assert_string_equal(task.name, others[i][1]);
    }
    refuses_name("SST", "no task is called 'SST'");
    refuses_name("MNLA", "did you mean 'MNLI'?");
    refuses_name("multirk", "did you mean 'MultiRC'?");
    refuses_name("imagenet", "built in are SST-2, ");
    refuses_name("", "no task is called ''");
    refuses_name("nowhere.task", "cannot be opened");
    refuses_name("a/b", "cannot be opened");
}

/* What every row of the table must have. */
static void test_table(void **state) {
    (void)state;
    const zest_task *task;
    for (size_t i = 0; (task = zest_task_at(i)); i++) {
        assert_true(task->masked || task->causal);
        assert_non_null(task->about);
        assert_true(task->source_count >= 1 && task->source_count <= ZEST_TASK_SOURCES);
        assert_non_null(task->label);
        assert_true(!task->masked || (strstr(task->masked, "{mask}") && task->kind == ZEST_TASK_CLASSES));
        assert_true(!task->masked || !strstr(task->masked, " {mask}"));
        assert_true(!task->causal || strstr(task->causal, "{answer}"));
        assert_int_equal(task->class_count > 0, task->kind == ZEST_TASK_CLASSES);
        assert_int_equal(task->options != NULL, task->kind == ZEST_TASK_CHOICE);
        for (size_t j = 0; j < task->class_count; j++) {
            assert_true(task->classes[j].label && task->classes[j].word[0] != ' ');
            for (size_t k = 0; k < j; k++) {
                assert_string_not_equal(task->classes[j].label, task->classes[k].label);
                assert_string_not_equal(task->classes[j].word, task->classes[k].word);
            }
        }
        assert_null(task->classes[task->class_count].label);
        for (size_t j = 0; j < task->source_count; j++) {
            assert_non_null(task->sources[j].folder);
            assert_non_null(task->sources[j].train);
            assert_non_null(task->sources[j].test);
            assert_null(task->sources[j].dev);
        }
    }
}

/* The published facts once more, as the specification lists them. */
static void test_published(void **state) {
    (void)state;
    static const struct {
        const char *name, *words, *masked;
        size_t max_length, first_limit, other_limit;
        zest_metric select;
    } facts[] = {
        {"SST-2", "0:terrible 1:great ", "{sentence} It was{mask}.", 128, 0, 0, ZEST_METRIC_ACCURACY},
        {"sst-5", "0:terrible 1:bad 2:okay 3:good 4:great ", "{sentence} It was{mask}.", 128, 110, 20,
         ZEST_METRIC_ACCURACY},
        {"QQP", "0:No 1:Yes ", "{text_a}{mask}, {text_b|lower-first}", 128, 0, 0, ZEST_METRIC_F1},
        {"MRPC", "0:No 1:Yes ", "{text_a}{mask}, {text_b|lower-first}", 128, 0, 0, ZEST_METRIC_F1},
        {"TREC", "0:Description 1:Entity 2:Expression 3:Human 4:Location 5:Number ", "{mask}: {question}",
         128, 110, 0, ZEST_METRIC_ACCURACY},
        {"MNLI", "contradiction:No entailment:Yes neutral:Maybe ",
         "{premise|drop-last}?{mask}, {hypothesis|lower-first}", 256, 240, 0, ZEST_METRIC_ACCURACY},
        {"SNLI", "contradiction:No entailment:Yes neutral:Maybe ",
         "{premise|drop-last}?{mask}, {hypothesis|lower-first}", 256, 0, 0, ZEST_METRIC_ACCURACY},
        {"RTE", "entailment:Yes not_entailment:No ", "{premise|drop-last}?{mask}, {hypothesis|lower-first}",
         256, 240, 0, ZEST_METRIC_ACCURACY}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        zest_task task = open_task(facts[i].name);
        zest_buffer words = {0};
        for (size_t c = 0; c < task.class_count; c++)
            zest_buffer_format(&words, "%s:%s ", task.classes[c].label, task.classes[c].word);
        assert_string_equal(words.data, facts[i].words);
        assert_string_equal(task.masked, facts[i].masked);
        assert_int_equal(task.max_length, facts[i].max_length);
        assert_int_equal(task.first_limit, facts[i].first_limit);
        assert_int_equal(task.other_limit, facts[i].other_limit);
        assert_int_equal(task.metric, ZEST_METRIC_ACCURACY);
        assert_int_equal(task.select, facts[i].select);
        zest_buffer_free(&words);
    }
    static const char *const only_causal[] = {"COPA", "ReCoRD", "SQuAD", "DROP"};
    for (int i = 0; i < 4; i++) {
        zest_task task = open_task(only_causal[i]);
        assert_null(task.masked);
        assert_int_equal(task.train_as_text, i < 2);
        assert_int_equal(task.metric, i < 2 ? ZEST_METRIC_ACCURACY : ZEST_METRIC_F1);
    }
    assert_int_equal(open_task("CB").dev_size, 100);
    assert_int_equal(open_task("COPA").dev_size, 100);
    assert_string_equal(open_task("BoolQ").classes[0].word, "Yes"); /* MeZO's order of candidates */
    assert_string_equal(open_task("CB").classes[1].word, "No");
}

/* Every template of the table can be understood, and (where the data is) has its fields. */
static void check_use(const zest_task *task, const char *text, zest_template_use use) {
    zest_template *template = NULL;
    zest_error error = {0};
    zest_rows rows = {0};
    if (!text) return;
    if (zest_template_parse(text, task->name, &template, &error) ||
        zest_template_expect(template, use, &error))
        fail_msg("%s", error.message);
    if (shared_data()) {
        rows = read_part(task, shared_data(), use != ZEST_TEMPLATE_MASKED, ZEST_PART_TEST);
        if (zest_template_check(template, &rows, &error)) fail_msg("%s", error.message);
    }
    zest_template_free(template);
    zest_rows_free(&rows);
}

static void test_templates(void **state) {
    (void)state;
    const zest_task *task;
    for (size_t i = 0; (task = zest_task_at(i)); i++) {
        check_use(task, task->masked, ZEST_TEMPLATE_MASKED);
        check_use(task, task->causal, ZEST_TEMPLATE_CAUSAL);
        check_use(task, task->option_form, ZEST_TEMPLATE_OPTION);
    }
}

/* ---- The data ---- */

typedef struct {
    const char *name;
    int causal;
    zest_task_part part;
    size_t count, labels[6]; /* in the order of the task's classes */
} size_row;

static const size_row sizes[] = {
    {"SST-2", 0, ZEST_PART_TRAIN, 67349, {29780, 37569}},
    {"SST-2", 0, ZEST_PART_TEST, 872, {428, 444}},
    {"MRPC", 0, ZEST_PART_TRAIN, 3668, {1194, 2474}},
    {"MRPC", 0, ZEST_PART_TEST, 408, {129, 279}},
    {"RTE", 0, ZEST_PART_TRAIN, 2490, {1249, 1241}},
    {"RTE", 0, ZEST_PART_TEST, 277, {146, 131}},
    {"RTE", 1, ZEST_PART_TRAIN, 2490, {1249, 1241}},
    {"RTE", 1, ZEST_PART_TEST, 277, {146, 131}},
    {"sst-5", 0, ZEST_PART_TRAIN, 8544, {1092, 2218, 1624, 2322, 1288}},
    {"sst-5", 0, ZEST_PART_TEST, 2210, {279, 633, 389, 510, 399}},
    {"TREC", 0, ZEST_PART_TRAIN, 5452, {1162, 1250, 86, 1223, 835, 896}},
    {"TREC", 0, ZEST_PART_TEST, 500, {138, 94, 9, 65, 81, 113}},
    {"MNLI", 0, ZEST_PART_TRAIN, 10048, {3413, 3288, 3347}},
    {"MNLI", 0, ZEST_PART_TEST, 9815, {3213, 3479, 3123}},
    {"SNLI", 0, ZEST_PART_TRAIN, 30000, {10000, 10000, 10000}},
    {"SNLI", 0, ZEST_PART_TEST, 9842, {3278, 3329, 3235}},
    {"QQP", 0, ZEST_PART_TRAIN, 8652, {5370, 3282}},
    {"QQP", 0, ZEST_PART_TEST, 7599, {4871, 2728}},
    {"CB", 1, ZEST_PART_TRAIN, 250, {115, 119, 16}},
    {"CB", 1, ZEST_PART_TEST, 56, {23, 28, 5}},
    {"WSC", 1, ZEST_PART_TRAIN, 554, {295, 259}},
    {"WSC", 1, ZEST_PART_TEST, 104, {66, 38}},
    {"WIC", 1, ZEST_PART_TRAIN, 5428, {2714, 2714}},
    {"WIC", 1, ZEST_PART_TEST, 638, {319, 319}},
    {"MultiRC", 1, ZEST_PART_TRAIN, 27243, {15218, 12025}},
    {"MultiRC", 1, ZEST_PART_TEST, 4848, {2773, 2075}},
    {"BoolQ", 1, ZEST_PART_TRAIN, 2000, {1241, 759}},
    {"BoolQ", 1, ZEST_PART_TEST, 3270, {2033, 1237}},
    {"COPA", 1, ZEST_PART_TRAIN, 400, {0}},
    {"COPA", 1, ZEST_PART_TEST, 100, {0}},
    {"ReCoRD", 1, ZEST_PART_TRAIN, 160, {0}},
    {"ReCoRD", 1, ZEST_PART_TEST, 64, {0}},
    {"SQuAD", 1, ZEST_PART_TRAIN, 7938, {0}},
    {"SQuAD", 1, ZEST_PART_TEST, 1190, {0}},
    {"DROP", 1, ZEST_PART_TRAIN, 6201, {0}},
    {"DROP", 1, ZEST_PART_TEST, 3335, {0}},
};

static void test_sizes(void **state) {
    (void)state;
    const char *data = shared_data();
    if (!data) skip();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_row *row = &sizes[i];
        zest_task task = open_task(row->name);
        zest_rows rows = read_part(&task, data, row->causal, row->part);
        size_t counts[ZEST_TASK_MAX_CLASSES] = {0};
        if (rows.count != row->count) fail_msg("%s: %zu rows", rows.path, rows.count);
        for (size_t r = 0; task.kind == ZEST_TASK_CLASSES && r < rows.count; r++) {
            uint32_t answer;
            zest_error error = {0};
            if (zest_task_class_of(&task, &rows, r, &answer, &error)) fail_msg("%s", error.message);
            counts[answer]++;
        }
        for (size_t c = 0; c < task.class_count; c++)
            if (counts[c] != row->labels[c]) fail_msg("%s: class %zu has %zu", rows.path, c, counts[c]);
        zest_rows_free(&rows);
    }
}

/* All spans of WSC occur in their texts after the correction; every right option of ReCoRD exists. */
static void test_special_data(void **state) {
    (void)state;
    const char *data = shared_data();
    if (!data) skip();
    zest_task task = open_task("WSC");
    size_t count;
    for (int part = 0; part < 3; part += 2) {
        zest_rows rows = read_part(&task, data, 1, (zest_task_part)part);
        for (size_t r = 0; r < rows.count; r++)
            for (int span = 1; span <= 2; span++)
                assert_non_null(
                    strstr(*zest_rows_get(&rows, r, 0, &count), *zest_rows_get(&rows, r, span, &count)));
        zest_rows_free(&rows);
    }
    task = open_task("ReCoRD");
    zest_rows rows = read_part(&task, data, 1, ZEST_PART_TEST);
    size_t options, right;
    for (size_t r = 0; r < rows.count; r++) {
        const char *const *labels = zest_rows_get(&rows, r, zest_rows_field(&rows, "label"), &right);
        zest_rows_get(&rows, r, zest_rows_field(&rows, "options"), &options);
        assert_true(right > 0 && options > 0);
        for (size_t i = 0; i < right; i++) assert_true(strtoul(labels[i], NULL, 10) < options);
        assert_null(strstr(*zest_rows_get(&rows, r, 0, &count), "@highlight"));
    }
    zest_rows_free(&rows);
}

/* ---- Where data is looked for ---- */

static void test_places(void **state) {
    (void)state;
    char buffer[64], path[300];
    const char *folder = test_folder(buffer);
    zest_error error = {0};
    zest_rows rows;
    zest_task task = open_task("RTE");
    assert_int_equal(zest_task_read(&task, folder, 0, ZEST_PART_TRAIN, &rows, &error), ZEST_ERROR_FILE);
    assert_message(&error, "RTE: its train data was not found; set its folder with --data");
    assert_message(&error, "/RTE/train.tsv");
    assert_message(&error, "/superglue/RTE/train.jsonl");
    assert_message(&error, "/rte/train.tsv");
    /* from the last place to the first, each hides those before */
    test_put(folder, "train.jsonl",
             "{\"premise\": \"itself\", \"hypothesis\": \"\", \"label\": \"entailment\"}\n");
    static const char *const places[] = {"rte", "superglue", "superglue/RTE", "RTE"};
    for (int i = -1; i < 4; i++) {
        if (i >= 0) {
            snprintf(path, sizeof path, "%s/%s", folder, places[i]);
            assert_int_equal(zest_file_make_folder(path, &error), ZEST_OK);
            if (i == 1) continue;
            char text[200];
            snprintf(text, sizeof text,
                     "{\"premise\": \"%s\", \"hypothesis\": \"\", \"label\": \"entailment\"}\n", places[i]);
            test_put(path, "train.jsonl", text);
        }
        for (int causal = 0; causal < 2; causal++) {
            rows = read_part(&task, folder, causal, ZEST_PART_TRAIN);
            assert_string_equal(rows.texts[0], i < 0 ? "itself" : places[i]);
            zest_rows_free(&rows);
        }
    }
    /* both layouts: each kind of model has its own */
    snprintf(path, sizeof path, "%s/RTE", folder);
    test_put(path, "train.tsv", "i\ta\tb\tlabel\n0\ttsv\t\tentailment\n");
    rows = read_part(&task, folder, 0, ZEST_PART_TRAIN);
    assert_string_equal(rows.texts[0], "tsv");
    zest_rows_free(&rows);
    rows = read_part(&task, folder, 1, ZEST_PART_TRAIN);
    assert_string_equal(rows.texts[0], "RTE");
    zest_rows_free(&rows);
    rows = read_part(&task, folder, 1, ZEST_PART_DEV); /* there is none, which is no error */
    assert_int_equal(rows.count, 0);
    assert_int_equal(zest_task_read(&task, folder, 1, ZEST_PART_TEST, &rows, &error), ZEST_ERROR_FILE);
    assert_message(&error, "its test data was not found");
    test_remove(folder);
}

/* DROP trains on the first answer and accepts every annotator's in tests. */
static void test_drop_answers(void **state) {
    (void)state;
    static const char text[] =
        "{\"p\": {\"passage\": \"P\", \"qa_pairs\": [{\"question\": \"Q\", \"answer\": {\"number\": \"1\"}, "
        "\"validated_answers\": [{\"number\": \"1\"}, {\"spans\": [\"one\", \"two\"]}]}]}}";
    char buffer[64];
    const char *folder = test_folder(buffer);
    zest_task task = open_task("DROP");
    test_put(folder, "drop_dataset_train.json", text);
    test_put(folder, "drop_dataset_dev.json", text);
    for (int part = 0; part < 3; part += 2) {
        zest_rows rows = read_part(&task, folder, 1, (zest_task_part)part);
        size_t count;
        zest_rows_get(&rows, 0, zest_rows_field(&rows, "answers"), &count);
        assert_int_equal(count, part ? 3 : 1);
        zest_rows_free(&rows);
    }
    test_remove(folder);
}

static void test_labels(void **state) {
    (void)state;
    char buffer[64];
    const char *folder = test_folder(buffer);
    zest_task task = open_task("MRPC");
    zest_error error = {0};
    uint32_t answer;
    test_put(folder, "train.tsv", "q\ta\tb\tc\td\n1\t\t\tx\ty\n2\x1b\t\t\tx\ty\n");
    zest_rows rows = read_part(&task, folder, 0, ZEST_PART_TRAIN);
    assert_int_equal(zest_task_class_of(&task, &rows, 0, &answer, &error), ZEST_OK);
    assert_int_equal(answer, 1);
    assert_int_equal(zest_task_class_of(&task, &rows, 1, &answer, &error), ZEST_ERROR_FORMAT);
    assert_message(&error, "train.tsv, line 3: the label is '2?', but the task MRPC has only 0, 1");
    task.label = "nothing";
    assert_int_equal(zest_task_class_of(&task, &rows, 0, &answer, &error), ZEST_ERROR_ARGUMENT);
    zest_rows_free(&rows);
    test_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_table),
        cmocka_unit_test(test_published), cmocka_unit_test(test_templates),
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_special_data),
        cmocka_unit_test(test_places),    cmocka_unit_test(test_drop_answers),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
