/* Sweeps: the runs of a grid, and their names. */
#include <ctype.h>

#include "tests/sweep.h"

static void refused(const char *text, const char *words) {
    zest_sweep_grid grid;
    zest_sweep_plan plan = {0};
    zest_error error = {0};
    zest_status status = zest_sweep_grid_read(&grid, text, "test", &error);
    if (!status) status = zest_sweep_plan_make(&grid, &plan, &error);
    zest_sweep_grid_free(&grid);
    zest_sweep_plan_free(&plan);
    assert_int_not_equal(status, ZEST_OK);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
}

static void assert_names(const zest_sweep_plan *plan, const char *const *names, size_t count) {
    for (size_t i = 0; i < count && i < plan->count; i++) assert_string_equal(plan->runs[i].name, names[i]);
    assert_int_equal(plan->count, count);
}

static void a_grid_is_all_combinations_in_order(void **state) {
    (void)state;
    static const char *const names[] = {"SST-2-lr1e-5-seed42", "SST-2-lr2e-5-seed42", "TREC-lr1e-5-seed42",
                                        "TREC-lr2e-5-seed42",  "SST-2-lr1e-5-seed13", "SST-2-lr2e-5-seed13",
                                        "TREC-lr1e-5-seed13",  "TREC-lr2e-5-seed13"};
    zest_sweep_plan plan =
        plan_of("# a comment\nlr = 1e-5, 2e-5\nseed = 42,13\n\ntask = SST-2 ,TREC\nsteps = 10");
    assert_names(&plan, names, 8);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_STEPS], "10");
    assert_null(plan.runs[0].value[ZEST_OPTION_T]);
    zest_sweep_plan_free(&plan);
}

static void what_is_the_same_is_made_once(void **state) {
    (void)state;
    static const char *const names[] = {"mezo", "zest-n-t1", "zest-n-t5", "zest-bc-t1", "zest-bc-t5"};
    zest_sweep_plan plan = plan_of("method = mezo, zest-n, zest-bc\nt = 0, 1, 5, 1.0, 5e0");
    assert_names(&plan, names, 5);
    zest_sweep_plan_free(&plan);
    /* a word that stands for a number is no number: auto is neither 0, which is MeZO, nor equal to another t */
    static const char *const tilts[] = {"mezo", "zest-n-tauto", "zest-n-t1"};
    plan = plan_of("method = zest-n\nt = 0, auto, 1, auto");
    assert_names(&plan, tilts, 3);
    assert_true(isnan(zest_sweep_tilt(&plan.runs[1])) && zest_sweep_tilt(&plan.runs[0]) == 0);
    zest_sweep_plan_free(&plan);
    plan = plan_of("lr = 1e-5, 0.00001\nseed = 18446744073709551615, 18446744073709551614\nuntie-head=yes,1");
    assert_int_equal(plan.count, 2);
    zest_sweep_plan_free(&plan);
    plan = plan_of("method = mezo\nt = 1,5,20\ndenominator = shared, ball");
    assert_int_equal(plan.count, 1);
    assert_string_equal(plan.runs[0].name, "run");
    zest_sweep_plan_free(&plan);
}

static void values_may_hold_commas(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("freeze = *bias,*norm*; *embed*\ndata = a,b;");
    assert_int_equal(plan.count, 2);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_FREEZE], "*bias,*norm*");
    assert_string_equal(plan.runs[1].value[ZEST_OPTION_FREEZE], "*embed*");
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_DATA], "a,b");
    zest_sweep_plan_free(&plan);
}

static void names_are_unique_and_fit_for_file_systems(void **state) {
    (void)state;
    zest_sweep_plan plan =
        plan_of("task = /a/x.task, /b/x.task, ../We ird*|name?.task, .hidden, X\nmodel = /m/one, "
                "/n/one\nlr=1,2");
    for (size_t i = 0; i < plan.count; i++) {
        const char *name = plan.runs[i].name;
        assert_true(*name && *name != '.' && *name != '-' && strlen(name) < 200);
        for (const char *c = name; *c; c++) assert_true(isalnum((unsigned char)*c) || strchr(".+=-_~", *c));
        for (size_t j = 0; j < i; j++) assert_true(strcasecmp(name, plan.runs[j].name) != 0);
    }
    assert_int_equal(plan.count, 20);
    zest_sweep_plan_free(&plan);
    char text[2000] = "lr = 1,2\ntask = ";
    memset(text + strlen(text), 'x', 1500);
    strcat(text, ", y");
    plan = plan_of(text);
    assert_true(plan.count == 4 && strlen(plan.runs[0].name) < 200);
    assert_string_not_equal(plan.runs[0].name, plan.runs[1].name);
    zest_sweep_plan_free(&plan);
}

static void mistakes_are_explained(void **state) {
    (void)state;
    refused("lr = 1e-5,,2\n", "empty value");
    refused("lr = ", "empty value");
    refused("lr = 1e-5, fast", "'fast' is not allowed");
    refused("steps = 10\nlrr = 1", "line 2: unknown option 'lrr'; did you mean 'lr'?");
    refused("just words", "line 1");
    refused("out = here", "command line");
    refused("seed = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n"
            "shots = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n"
            "warmup = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n",
            "more than 20000");
}

static void blocks_and_changes(void **state) {
    (void)state;
    zest_sweep_grid grid, again;
    zest_sweep_plan plan;
    zest_options given;
    zest_error error = {0};
    zest_buffer text = {0}, second = {0};
    const char *blocks =
        "task = RTE\nseed = 1\n[slow]\nmethod = mezo, zest-n\nlr = 1e-6\n[fast]\nmethod = zest-bc\nt "
        "= 20\nlr = 1e-3\n";
    assert_int_equal(zest_sweep_grid_read(&grid, blocks, "test", &error), ZEST_OK);
    assert_int_equal(grid.count, 2);
    zest_sweep_grid_print(&grid, &text);
    assert_int_equal(zest_sweep_grid_read(&again, text.data, "again", &error), ZEST_OK);
    zest_sweep_grid_print(&again, &second);
    assert_string_equal(text.data, second.data);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    assert_int_equal(plan.count, 3);
    zest_sweep_plan_free(&plan);
    /* --method chooses between the blocks, other options replace */
    zest_options_init(&given);
    zest_options_set_unchecked(&given, ZEST_OPTION_METHOD, "zest-bc,zest-n", NULL);
    zest_options_set_unchecked(&given, ZEST_OPTION_SEED, "1,2", NULL);
    assert_int_equal(zest_sweep_grid_override(&grid, &given, &error), ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    assert_int_equal(plan.count, 4);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_METHOD], "zest-n");
    assert_string_equal(plan.runs[2].value[ZEST_OPTION_LR], "1e-3");
    zest_sweep_plan_free(&plan);
    zest_sweep_grid_free(&again);
    zest_sweep_grid_free(&grid);
    zest_options_free(&given);
    zest_buffer_free(&text);
    zest_buffer_free(&second);
    assert_int_equal(zest_sweep_grid_read(&grid, "lr=1", "test", &error), ZEST_OK);
    assert_int_not_equal(zest_sweep_grid_scale(&grid, 0.1, &error), ZEST_OK);
    zest_sweep_grid_free(&grid);
}

static size_t count_method(const zest_sweep_plan *plan, const char *method) {
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++) count += !strcmp(zest_sweep_method(&plan->runs[i]), method);
    return count;
}

/* SAM takes one ascent step, where k does not matter, or k random points, where it does and makes a row of
 * its own. */
static void sam_searches_in_two_ways(void **state) {
    (void)state;
    zest_sweep_grid grid;
    zest_sweep_plan plan;
    zest_error error = {0};
    assert_int_equal(
        zest_sweep_grid_read(&grid, "method=sam, sgd\nsam-search=ascent, random\nk=3, 5\n", "test", &error),
        ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    assert_int_equal(count_method(&plan, "sam"), 3);
    assert_int_equal(count_method(&plan, "sgd"), 1);
    for (size_t i = 0; i < plan.count; i++) {
        const char *search = plan.runs[i].value[ZEST_OPTION_SAM_SEARCH];
        assert_true(!plan.runs[i].value[ZEST_OPTION_K] == !(search && !strcmp(search, "random")));
    }
    assert_true(zest_sweep_distinguishes_rows(&plan, ZEST_OPTION_SAM_SEARCH));
    zest_sweep_plan_free(&plan);
    zest_sweep_grid_free(&grid);
}

/* The paper's: 8 tasks; 3 lr for MeZO and, with 3 t, for both kinds of ZEST; 5 lr and 2 batches for SGD, with
 * 5 radii for ESAM and SAM, and 3 t for TSAM. */
static void presets_are_the_papers(void **state) {
    (void)state;
    zest_sweep_grid grid;
    zest_sweep_plan plan;
    zest_error error = {0};
    assert_int_equal(zest_sweep_grid_preset(&grid, "paper-table-2", &error), ZEST_OK);
    assert_int_equal(zest_sweep_grid_scale(&grid, 0.1, &error), ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    static const struct {
        const char *method;
        size_t runs;
    } rows[] = {{"sgd", 8 * 10}, {"esam", 8 * 50},  {"sam", 8 * 50},    {"tsam", 8 * 150},
                {"mezo", 8 * 3}, {"zest-n", 8 * 9}, {"zest-bc", 8 * 9}, {"adamw", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(count_method(&plan, rows[i].method), rows[i].runs);
    const zest_sweep_run *sgd = &plan.runs[0], *bc = &plan.runs[plan.count - 1];
    assert_string_equal(sgd->value[ZEST_OPTION_EPOCHS], "20"); /* a tenth of 200, and of 700 */
    assert_string_equal(sgd->value[ZEST_OPTION_LR], "2e-3");
    assert_string_equal(sgd->value[ZEST_OPTION_BATCH], "8");
    assert_null(sgd->value[ZEST_OPTION_RADIUS]);
    assert_null(sgd->value[ZEST_OPTION_RHO]);
    /* of MeZO's code, on which the paper's is based: for the methods with gradients alone */
    for (size_t i = 0; i < plan.count; i++) {
        const zest_sweep_run *run = &plan.runs[i];
        int first = zest_sweep_method_is_first_order(zest_sweep_method(run));
        static const struct {
            zest_option_id id;
            const char *value;
        } basis[] = {{ZEST_OPTION_SCHEDULE, "linear"}, {ZEST_OPTION_CLIP, "1"}, {ZEST_OPTION_DROPOUT, "0.1"}};
        for (size_t j = 0; j < 3; j++)
            if (first)
                assert_string_equal(run->value[basis[j].id], basis[j].value);
            else
                assert_null(run->value[basis[j].id]);
    }
    assert_string_equal(bc->value[ZEST_OPTION_EPOCHS], "70");
    assert_string_equal(bc->value[ZEST_OPTION_BATCH], "128");
    zest_sweep_plan_free(&plan);
    /* --steps takes the place of a preset's epochs, which would have the last word in a run */
    zest_options given;
    zest_options_init(&given);
    zest_options_set_unchecked(&given, ZEST_OPTION_STEPS, "9", NULL);
    assert_int_equal(zest_sweep_grid_override(&grid, &given, &error), ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    assert_null(plan.runs[0].value[ZEST_OPTION_EPOCHS]);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_STEPS], "9");
    zest_options_free(&given);
    zest_sweep_plan_free(&plan);
    zest_sweep_grid_free(&grid);
    assert_int_equal(zest_sweep_grid_preset(&grid, "paper-table-4", &error), ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_LR], "5e-5"); /* SGD has its own, SAM the others' */
    assert_int_equal(count_method(&plan, "sgd"), 4 * 3);
    assert_int_equal(count_method(&plan, "sam"), 4 * 3 * 5);
    zest_sweep_plan_free(&plan);
    zest_sweep_grid_free(&grid);
    assert_int_not_equal(zest_sweep_grid_preset(&grid, "paper-table-9", &error), ZEST_OK);
}

static void values_may_be_for_some(void **state) {
    (void)state;
    static const char *const names[] = {"SST-2-mezo-lr1", "SST-2-mezo-lr2", "SST-2-sgd", "TREC-mezo",
                                        "TREC-sgd"};
    zest_sweep_plan plan = plan_of("task = SST-2, TREC\nmethod = mezo, sgd\nlr = 1, 2, TREC: 3, sgd: 5\n"
                                   "clip = first: 1\nweights = first: f32\nsteps = 9, trec:7");
    assert_int_equal(plan.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const zest_sweep_run *run = &plan.runs[i];
        int sgd = !strcmp(zest_sweep_method(run), "sgd"),
            trec = !strcmp(run->value[ZEST_OPTION_TASK], "TREC");
        assert_string_equal(run->name, names[i]);
        assert_string_equal(run->value[ZEST_OPTION_LR], sgd ? "5" : trec ? "3" : i ? "2" : "1");
        assert_string_equal(run->value[ZEST_OPTION_STEPS], trec ? "7" : "9");
        if (sgd)
            assert_string_equal(run->value[ZEST_OPTION_WEIGHTS], "f32");
        else
            assert_null(run->value[ZEST_OPTION_WEIGHTS]);
        assert_true(!run->value[ZEST_OPTION_CLIP] == !sgd);
    }
    zest_sweep_plan_free(&plan);
    /* texts have colons of their own */
    plan = plan_of("data = a:b, sgd:c\nmethod = sgd, mezo");
    assert_int_equal(plan.count, 2);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_DATA], "c");
    assert_string_equal(plan.runs[1].value[ZEST_OPTION_DATA], "a:b");
    zest_sweep_plan_free(&plan);
    /* a task file is known by its name */
    plan = plan_of("task = /x/mine.task, RTE\nlr = 1, mine: 2");
    assert_int_equal(plan.count, 2);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_LR], "2");
    zest_sweep_plan_free(&plan);
    refused("lr = 1, sdg: 2", "'sdg' before the colon is neither a method");
    refused("lr = 1, sgd:", "empty value");
    refused("method = first: sgd", "'first: sgd' is not allowed");
}

/* Lists keep their labels when they are changed and written. */
static void labels_survive(void **state) {
    (void)state;
    zest_sweep_grid grid;
    zest_buffer text = {0};
    zest_error error = {0};
    assert_int_equal(zest_sweep_grid_read(&grid, "steps = 100, 200, first:10,20, TREC: 50\n", "test", &error),
                     ZEST_OK);
    assert_int_equal(zest_sweep_grid_scale(&grid, 0.5, &error), ZEST_OK);
    zest_sweep_grid_print(&grid, &text);
    assert_string_equal(text.data, "steps = 50,100,first:5,10,TREC:25\n");
    zest_sweep_grid_free(&grid);
    zest_buffer_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_is_all_combinations_in_order),
        cmocka_unit_test(what_is_the_same_is_made_once),
        cmocka_unit_test(values_may_hold_commas),
        cmocka_unit_test(values_may_be_for_some),
        cmocka_unit_test(labels_survive),
        cmocka_unit_test(names_are_unique_and_fit_for_file_systems),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(blocks_and_changes),
        cmocka_unit_test(sam_searches_in_two_ways),
        cmocka_unit_test(presets_are_the_papers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
