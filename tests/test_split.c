/* Splits: against NumPy's own draws (tests/data/tasks/splits.txt), and label noise. */
#include <math.h>

#include "task/split.h"
#include "tests/task.h"

/* ---- Help ---- */

static void assert_done(zest_status status, const zest_error *error) {
    if (status) fail_msg("%s", error->message);
}

static uint64_t hash(const zest_split *split) {
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < split->count; i++)
        for (int byte = 0; byte < 4; byte++)
            h = (h ^ ((split->rows[i] >> (8 * byte)) & 0xFF)) * 0x100000001B3u;
    return h;
}

/* A task of these many classes, "0" to ..., and rows of them in turn. */
static zest_task small_task(size_t classes) {
    static const char *const numbers[] = {"0", "1", "2", "3", "4", "5"};
    zest_task task = {.name = "small", .kind = ZEST_TASK_CLASSES, .label = "label", .class_count = classes};
    task.source_count = 1;
    for (size_t i = 0; i < classes; i++) task.classes[i] = (zest_task_class){numbers[i], numbers[i]};
    return task;
}

static zest_rows small_rows(size_t classes, size_t count) {
    zest_buffer text = {0};
    zest_rows rows;
    zest_error error = {0};
    zest_rows_layout layout = {.format = ZEST_ROWS_TSV, .fields = "label=0"};
    for (size_t i = 0; i < count; i++) zest_buffer_format(&text, "%zu\n", i % classes);
    assert_done(zest_rows_parse(text.data, text.size, "small.tsv", &layout, &rows, &error), &error);
    zest_buffer_free(&text);
    return rows;
}

/* ---- NumPy's splits ---- */

/* The data of a task, read once for all the lines about it. */
typedef struct {
    char name[32];
    int causal;
    zest_task task;
    zest_rows train, test;
} loaded;

static void load(loaded *l, const char *name, int causal) {
    zest_error error = {0};
    if (!strcmp(l->name, name) && l->causal == causal) return;
    zest_rows_free(&l->train);
    zest_rows_free(&l->test);
    snprintf(l->name, sizeof l->name, "%s", name);
    l->causal = causal;
    if (!*name) return;
    assert_done(zest_task_open(name, &l->task, &error), &error);
    assert_done(zest_task_read(&l->task, shared_data(), causal, ZEST_PART_TRAIN, &l->train, &error), &error);
    assert_done(zest_task_read(&l->task, shared_data(), causal, ZEST_PART_TEST, &l->test, &error), &error);
}

static void check_golden(loaded *l, const char *line) {
    char name[32], kind[16], part[16];
    unsigned seed, first[5];
    size_t count;
    unsigned long long expected;
    assert_int_equal(sscanf(line, "%31s %15s %u %15s %zu %llx %u %u %u %u %u", name, kind, &seed, part,
                            &count, &expected, &first[0], &first[1], &first[2], &first[3], &first[4]),
                     11);
    int shots = !strcmp(kind, "shots");
    load(l, name, !shots);
    zest_split_options options = {.shots = shots ? 512 : 0, .seed = seed};
    zest_split train = {0}, dev = {0}, test = {0}, *asked = !strcmp(part, "train") ? &train : &dev;
    zest_error error = {0};
    if (!strcmp(part, "test")) {
        asked = &test;
        assert_done(zest_split_test(&l->task, &l->test, &options, &test, &error), &error);
    } else {
        assert_done(zest_split_train(&l->task, &l->train, &options, &train, &dev, &error), &error);
    }
    if (asked->count != count || memcmp(asked->rows, first, sizeof first) || hash(asked) != expected)
        fail_msg("not as NumPy has it (%zu rows, hash %016llx): %s", asked->count,
                 (unsigned long long)hash(asked), line);
    const zest_rows *rows = asked == &test ? &l->test : &l->train;
    for (size_t i = 0; asked->answers && i < asked->count; i++) {
        uint32_t answer;
        assert_done(zest_task_class_of(&l->task, rows, asked->rows[i], &answer, &error), &error);
        assert_int_equal(asked->answers[i], answer);
    }
    assert_int_equal(asked->answers != NULL, l->task.kind == ZEST_TASK_CLASSES);
    zest_split_free(&train);
    zest_split_free(&dev);
    zest_split_free(&test);
}

static void test_goldens(void **state) {
    (void)state;
    if (!shared_data()) skip();
    FILE *file = fopen("tests/data/tasks/splits.txt", "r");
    char line[512];
    size_t checked = 0;
    loaded l = {0};
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (*line == '#') continue;
        check_golden(&l, line);
        checked++;
    }
    fclose(file);
    load(&l, "", 0);
    assert_true(checked >= 100);
}

/* The sizes that the publications have. */
static void test_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t shots, train, dev, test;
    } sizes[] = {{"SST-2", 512, 1024, 1024, 872},  {"TREC", 512, 2646, 2243, 500},
                 {"sst-5", 512, 2560, 2560, 1000}, {"MNLI", 512, 1536, 1536, 1000},
                 {"COPA", 0, 300, 100, 100},       {"CB", 0, 150, 100, 56},
                 {"BoolQ", 0, 1000, 500, 1000},    {"SQuAD", 0, 1000, 500, 1000}};
    if (!shared_data()) skip();
    loaded l = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        zest_split_options options = {.shots = sizes[i].shots, .seed = 42};
        zest_split train, dev, test;
        zest_error error = {0};
        load(&l, sizes[i].name, !sizes[i].shots);
        assert_done(zest_split_train(&l.task, &l.train, &options, &train, &dev, &error), &error);
        assert_done(zest_split_test(&l.task, &l.test, &options, &test, &error), &error);
        assert_int_equal(train.count, sizes[i].train);
        assert_int_equal(dev.count, sizes[i].dev);
        assert_int_equal(test.count, sizes[i].test);
        zest_split_free(&train);
        zest_split_free(&dev);
        zest_split_free(&test);
    }
    load(&l, "", 0);
}

/* ---- The rules, on small rows ---- */

static void test_few_rows(void **state) {
    (void)state;
    zest_task task = small_task(3);
    zest_rows rows = small_rows(3, 10); /* 4, 3 and 3 of the classes */
    zest_split train, dev;
    zest_error error = {0};
    zest_split_options options = {.shots = 2, .seed = 13};
    assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
    assert_int_equal(train.count, 6);
    assert_int_equal(dev.count, 4); /* 2, 1 and 1 are left */
    size_t seen[10] = {0};
    for (size_t i = 0; i < 6; i++) seen[train.rows[i]]++;
    for (size_t i = 0; i < 4; i++) seen[dev.rows[i]]++;
    for (size_t i = 0; i < 10; i++) assert_int_equal(seen[i], 1);
    /* the order of first appearance in NumPy's permutation of ten with seed 13: 3 5 6 1 4 7 8 9 0 2 */
    static const uint32_t order[] = {3, 6, 5, 8, 1, 4};
    assert_memory_equal(train.rows, order, sizeof order);
    zest_split_free(&train);
    zest_split_free(&dev);
    options = (zest_split_options){.train_size = 4, .dev_size = 3, .seed = 13};
    assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
    static const uint32_t sampled[] = {3, 5, 6, 1}, for_dev[] = {4, 7, 8};
    assert_int_equal(train.count, 4);
    assert_memory_equal(train.rows, sampled, sizeof sampled);
    assert_memory_equal(dev.rows, for_dev, sizeof for_dev);
    zest_split_free(&train);
    zest_split_free(&dev);
    zest_split_free(&dev);
    options.train_size = 1000; /* all that dev leaves */
    assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
    assert_int_equal(train.count, 7);
    assert_int_equal(dev.rows[2], 2);
    zest_split_free(&train);
    zest_split_free(&dev);
    options.dev_size = 10;
    assert_int_equal(zest_split_train(&task, &rows, &options, &train, &dev, &error), ZEST_ERROR_ARGUMENT);
    assert_message(&error, "small.tsv: has 10 rows, but dev needs 10");
    assert_null(train.rows);
    assert_null(dev.rows);
    zest_rows_free(&rows);
}

static void test_refusals(void **state) {
    (void)state;
    zest_task task = small_task(2), choice = small_task(0);
    zest_rows rows = small_rows(3, 10); /* class "2" is not the task's */
    zest_split train, dev, test;
    zest_error error = {0};
    zest_split_options options = {.shots = 2};
    assert_int_equal(zest_split_train(&task, &rows, &options, &train, &dev, &error), ZEST_ERROR_FORMAT);
    assert_message(&error, "small.tsv, line 3: the label is '2'");
    assert_null(train.rows);
    assert_int_equal(zest_split_test(&task, &rows, &options, &test, &error), ZEST_ERROR_FORMAT);
    assert_null(test.rows);
    choice.kind = ZEST_TASK_CHOICE;
    assert_int_equal(zest_split_train(&choice, &rows, &options, &train, &dev, &error), ZEST_ERROR_ARGUMENT);
    assert_message(&error, "--train-size");
    options = (zest_split_options){.dev_size = 2, .label_noise = 0.3};
    assert_int_equal(zest_split_train(&choice, &rows, &options, &train, &dev, &error), ZEST_ERROR_ARGUMENT);
    assert_message(&error, "no labels to switch");
    zest_rows_free(&rows);
}

/* A task file with its own data files: complete and in order, unless sizes are set. */
static void test_own_files(void **state) {
    (void)state;
    zest_task task = small_task(2);
    zest_rows rows = small_rows(2, 1500);
    zest_split train, dev, test;
    zest_error error = {0};
    zest_split_options options = {.seed = 1};
    char path[] = "own.task", file[] = "dev.tsv";
    task.path = path;
    task.sources[0].train = task.sources[0].dev = task.sources[0].test = file;
    assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
    assert_int_equal(train.count, 1500);
    assert_int_equal(dev.count, 0);
    for (uint32_t i = 0; i < 1500; i++) assert_int_equal(train.rows[i], i);
    zest_split_free(&train);
    zest_split_free(&dev);
    assert_done(zest_split_dev(&task, &rows, &options, &dev, &error), &error);
    assert_done(zest_split_test(&task, &rows, &options, &test, &error), &error);
    assert_int_equal(dev.count, 1500);
    assert_int_equal(test.count, 1500);
    assert_int_equal(test.rows[1], 1);
    zest_split_free(&dev);
    zest_split_free(&test);
    options = (zest_split_options){.seed = 1, .train_size = 7, .dev_size = 8, .test_size = 9};
    assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
    assert_int_equal(train.count, 7);
    assert_true(train.rows[0] != 0 || train.rows[1] != 1);
    zest_split_free(&train);
    zest_split_free(&dev);
    options.noisy_dev = 1;
    options.label_noise = 0.5;
    assert_done(zest_split_dev(&task, &rows, &options, &dev, &error), &error);
    assert_done(zest_split_test(&task, &rows, &options, &test, &error), &error);
    assert_int_equal(dev.count, 8);
    assert_int_equal(test.count, 9);
    size_t switched = 0;
    for (size_t i = 0; i < 8; i++) switched += dev.answers[i] != dev.rows[i] % 2;
    assert_int_equal(switched, 4);
    for (size_t i = 0; i < 9; i++) assert_int_equal(test.answers[i], test.rows[i] % 2); /* always clean */
    zest_split_free(&dev);
    zest_split_free(&test);
    options = (zest_split_options){.seed = 1, .shots = 16};
    assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
    assert_int_equal(train.count, 32);
    assert_int_equal(dev.count, 0);
    zest_split_free(&train);
    zest_split_free(&dev);
    zest_rows_free(&rows);
}

/* ---- Label noise ---- */

static zest_split labels(size_t count, size_t classes) {
    zest_split split = {.rows = calloc(count + 1, sizeof *split.rows),
                        .answers = calloc(count + 1, sizeof *split.answers),
                        .count = count};
    assert_true(split.rows && split.answers);
    for (size_t i = 0; i < count; i++) split.answers[i] = (uint32_t)(i % classes);
    return split;
}

static size_t switched(const zest_split *split, size_t classes) {
    size_t count = 0;
    for (size_t i = 0; i < split->count; i++) count += split->answers[i] != i % classes;
    return count;
}

static void test_noise_count(void **state) {
    (void)state;
    static const struct {
        size_t count, classes;
        double fraction;
        size_t expected;
    } cases[] = {{1024, 2, 0.3, 307}, {2646, 6, 0.3, 794}, {10, 3, 0.25, 3}, {10, 2, 0.04, 0},
                 {7, 4, 1, 7},        {1, 2, 0.5, 1},      {0, 2, 0.3, 0},   {5, 2, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t seed = 0; seed < 50; seed++) {
            zest_split split = labels(cases[i].count, cases[i].classes);
            zest_error error = {0};
            assert_done(zest_split_add_noise(&split, cases[i].classes, cases[i].fraction, seed, &error),
                        &error);
            assert_int_equal(switched(&split, cases[i].classes), cases[i].expected);
            for (size_t j = 0; j < split.count; j++) assert_true(split.answers[j] < cases[i].classes);
            zest_split_free(&split);
        }
}

static void test_noise_seeds(void **state) {
    (void)state;
    zest_split one = labels(1000, 5), same = labels(1000, 5), other = labels(1000, 5);
    zest_error error = {0};
    assert_done(zest_split_add_noise(&one, 5, 0.3, 7, &error), &error);
    assert_done(zest_split_add_noise(&same, 5, 0.3, 7, &error), &error);
    assert_done(zest_split_add_noise(&other, 5, 0.3, 8, &error), &error);
    assert_memory_equal(one.answers, same.answers, 1000 * sizeof *one.answers);
    assert_memory_not_equal(one.answers, other.answers, 1000 * sizeof *one.answers);
    zest_split_free(&one);
    zest_split_free(&same);
    zest_split_free(&other);
}

/* Which labels are switched, and to what, is uniform: two chi-square statistics over 2000 seeds (100 under
 * the sanitizers), of 59 and 8 degrees of freedom, against their means plus 5 and 6 standard deviations. Good
 * noise fails with probability 3e-5 + 9e-5; since the seeds are fixed, it did or did not once and for all. */
static void test_noise_uniform(void **state) {
    (void)state;
    enum { COUNT = 60, CLASSES = 4, WANTED = 18 };
    size_t chosen[COUNT] = {0}, became[CLASSES][CLASSES] = {{0}}, seeds = 2000 / TEST_SLOW;
    for (uint32_t seed = 0; seed < seeds; seed++) {
        zest_split split = labels(COUNT, CLASSES);
        zest_error error = {0};
        assert_done(zest_split_add_noise(&split, CLASSES, 0.3, seed, &error), &error);
        for (size_t i = 0; i < COUNT; i++) {
            chosen[i] += split.answers[i] != i % CLASSES;
            if (split.answers[i] != i % CLASSES) became[i % CLASSES][split.answers[i]]++;
        }
        zest_split_free(&split);
    }
    /* without replacement the counts vary less than binomial ones: that much the statistic is scaled */
    double expected = (double)seeds * WANTED / COUNT, p = (double)WANTED / COUNT, chi = 0, to = 0;
    for (size_t i = 0; i < COUNT; i++)
        chi += pow((double)chosen[i] - expected, 2) / (expected * (1 - p)) * (COUNT - 1) / COUNT;
    for (size_t from = 0; from < CLASSES; from++) {
        double all = 0;
        for (size_t c = 0; c < CLASSES; c++) all += (double)became[from][c];
        assert_int_equal(became[from][from], 0);
        for (size_t c = 0; c < CLASSES; c++)
            if (c != from)
                to += pow((double)became[from][c] - all / (CLASSES - 1), 2) / (all / (CLASSES - 1));
    }
    double chi_free = COUNT - 1, to_free = CLASSES * (CLASSES - 2);
    if (chi > chi_free + 5 * sqrt(2 * chi_free)) fail_msg("chosen unevenly: chi-square %g", chi);
    if (to > to_free + 6 * sqrt(2 * to_free)) fail_msg("switched unevenly: chi-square %g", to);
}

static void test_noise_refusals(void **state) {
    (void)state;
    zest_split split = labels(10, 2);
    zest_error error = {0};
    assert_int_equal(zest_split_add_noise(&split, 2, -0.1, 0, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_split_add_noise(&split, 2, 1.1, 0, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_split_add_noise(&split, 2, NAN, 0, &error), ZEST_ERROR_ARGUMENT);
    assert_message(&error, "a fraction from 0 to 1");
    assert_int_equal(zest_split_add_noise(&split, 1, 0.3, 0, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(switched(&split, 2), 0);
    zest_split_free(&split);
}

/* Only train is noisy unless dev is requested, and both are drawn independently. */
static void test_noisy_parts(void **state) {
    (void)state;
    zest_task task = small_task(2);
    zest_rows rows = small_rows(2, 400);
    for (int noisy = 0; noisy < 2; noisy++) {
        zest_split train, dev;
        zest_error error = {0};
        zest_split_options options = {
            .shots = 100, .seed = 42, .label_noise = 0.3, .noise_seed = 5, .noisy_dev = noisy};
        size_t counts[2] = {0}, together = 0;
        assert_done(zest_split_train(&task, &rows, &options, &train, &dev, &error), &error);
        assert_int_equal(train.count, 200);
        assert_int_equal(dev.count, 200);
        for (size_t i = 0; i < 200; i++) {
            int first = train.answers[i] != train.rows[i] % 2, second = dev.answers[i] != dev.rows[i] % 2;
            counts[0] += (size_t)first;
            counts[1] += (size_t)second;
            together += first && second;
        }
        assert_int_equal(counts[0], 60);
        assert_int_equal(counts[1], noisy ? 60 : 0);
        assert_true(together < 40); /* 18 are expected of independent draws, 60 of equal ones */
        zest_split_free(&train);
        zest_split_free(&dev);
    }
    zest_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_few_rows),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_own_files),      cmocka_unit_test(test_noise_count),
        cmocka_unit_test(test_noise_seeds),    cmocka_unit_test(test_noise_uniform),
        cmocka_unit_test(test_noise_refusals), cmocka_unit_test(test_noisy_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
