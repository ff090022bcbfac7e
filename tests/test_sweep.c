/* Sweeps: which runs a grid has, what they are called, which one is chosen, what the tables say. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "run/sweep.h"
#include "tests/support.h"

/* ---- Grids ---- */

static zest_sweep_plan plan_of(const char *text) {
    zest_sweep_grid grid;
    zest_sweep_plan plan;
    zest_error error = {0};
    if (zest_sweep_grid_read(&grid, text, "test", &error)) fail_msg("%s", error.message);
    if (zest_sweep_plan_make(&grid, &plan, &error)) fail_msg("%s", error.message);
    zest_sweep_grid_free(&grid);
    return plan;
}

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
    refused("steps = 10\nlrr = 1", "line 2: no option is called 'lrr'; did you mean 'lr'?");
    refused("just words", "line 1");
    refused("out = here", "command line");
    refused("seed = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n"
            "shots = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n"
            "warmup = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n",
            "more than 20000");
}

static void blocks_presets_and_changes(void **state) {
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
    zest_options_keep(&given, ZEST_OPTION_METHOD, "zest-bc,zest-n", NULL);
    zest_options_keep(&given, ZEST_OPTION_SEED, "1,2", NULL);
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
    /* the paper's: 8 tasks, 3 lr, and 1 + 2 * 3 methods with their t */
    assert_int_equal(zest_sweep_grid_preset(&grid, "paper-table-2", &error), ZEST_OK);
    assert_int_equal(zest_sweep_grid_scale(&grid, 0.1, &error), ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_OK);
    assert_int_equal(plan.count, 8 * 3 * 7);
    assert_string_equal(plan.runs[0].value[ZEST_OPTION_EPOCHS], "70");
    zest_sweep_plan_free(&plan);
    zest_sweep_grid_free(&grid);
    assert_int_not_equal(zest_sweep_grid_preset(&grid, "paper-table-9", &error), ZEST_OK);
    assert_int_equal(zest_sweep_grid_read(&grid, "lr=1", "test", &error), ZEST_OK);
    assert_int_not_equal(zest_sweep_grid_scale(&grid, 0.1, &error), ZEST_OK);
    zest_sweep_grid_free(&grid);
}

/* ---- Statistics ---- */

static void student_and_mcnemar(void **state) {
    (void)state;
    static const struct {
        size_t degrees;
        double quantile; /* two-sided 95 %, from tables */
    } table[] = {{1, 12.7062047364}, {2, 4.3026527300}, {3, 3.1824463053},
                 {4, 2.7764451052},  {9, 2.2621571628}, {30, 2.0422724563}};
    for (size_t i = 0; i < 6; i++)
        assert_close(zest_sample_student_quantile(0.95, table[i].degrees), table[i].quantile, 1e-8);
    zest_sample s = zest_sample_of((double[]){1, 2, NAN, 6}, 4);
    assert_int_equal(s.n, 3);
    assert_close(s.mean, 3, 1e-15);
    assert_close(s.error, sqrt(7.0 / 3), 1e-15);
    assert_close(s.high, 3 + 4.3026527300 * sqrt(7.0 / 3), 1e-7);
    s = zest_sample_of((double[]){5}, 1);
    assert_true(s.mean == 5 && isnan(s.error) && isnan(s.low));
    assert_true(isnan(zest_sample_of(NULL, 0).mean));
    assert_close(zest_sample_mcnemar(0, 0), 1, 1e-12);
    assert_close(zest_sample_mcnemar(3, 3), 1, 1e-12);
    assert_close(zest_sample_mcnemar(0, 6), 2.0 / 64, 1e-12);
    assert_close(zest_sample_mcnemar(8, 1), 2.0 * 10 / 512, 1e-12);
    assert_true(zest_sample_mcnemar(2000, 1500) < 1e-15 && zest_sample_mcnemar(1000, 1010) > 0.8);
}

/* Finishes the run with these values of method, t, lr, seed ("" for any). */
static void finish(zest_sweep_plan *plan, const char *name, double dev, double test) {
    for (size_t i = 0; i < plan->count; i++) {
        zest_sweep_run *run = &plan->runs[i];
        if (strcmp(run->name, name)) continue;
        run->state = ZEST_SWEEP_FINISHED;
        strcpy(run->metric, "accuracy");
        run->worth = run->dev.value = run->dev.accuracy = dev;
        run->test.value = run->test.accuracy = test;
        run->dev.f1 = run->dev.em = run->dev.loss = run->test.f1 = run->test.em = run->test.loss = NAN;
        run->best_step = 100;
        return;
    }
    fail_msg("no run is called %s", name);
}

static zest_sweep_plan three_seeds(void) {
    zest_sweep_plan plan = plan_of("task=RTE\nmethod = mezo, zest-n\nt = 1, 5\nseed = 1,2,3\n");
    finish(&plan, "mezo-seed1", 0.7, 0.60);
    finish(&plan, "mezo-seed2", 0.7, 0.62);
    finish(&plan, "mezo-seed3", 0.7, 0.64);
    finish(&plan, "zest-n-t1-seed1", 0.71, 0.63); /* a tie: the first is chosen */
    finish(&plan, "zest-n-t5-seed1", 0.71, 0.99);
    finish(&plan, "zest-n-t1-seed2", 0.70, 0.99); /* better on test, worse on dev: not chosen */
    finish(&plan, "zest-n-t5-seed2", 0.72, 0.66);
    finish(&plan, "zest-n-t1-seed3", 0.73, 0.69);
    finish(&plan, "zest-n-t5-seed3", 0.10, 0.10);
    return plan;
}

static void dev_chooses_and_seeds_are_paired(void **state) {
    (void)state;
    zest_sweep_plan plan = three_seeds();
    zest_sweep_summary s;
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(s.entry_count, 2);
    const zest_sweep_entry *e = zest_sweep_entry_at(&s, 0, 0, 1);
    assert_non_null(e);
    assert_string_equal(plan.runs[e->chosen[0]].name, "zest-n-t1-seed1");
    assert_string_equal(plan.runs[e->chosen[1]].name, "zest-n-t5-seed2");
    assert_string_equal(plan.runs[e->chosen[2]].name, "zest-n-t1-seed3");
    assert_close(e->test.mean, 0.66, 1e-12);
    assert_close(e->test.error, 0.03 / sqrt(3), 1e-12);
    /* differences 0.03, 0.04, 0.05: mean 0.04, error 0.01 / sqrt 3 */
    assert_close(e->difference.mean, 0.04, 1e-12);
    assert_close(e->difference.error, 0.01 / sqrt(3), 1e-12);
    assert_close(e->difference.low, 0.04 - 4.3026527300 * 0.01 / sqrt(3), 1e-9);
    assert_int_equal(zest_sweep_judge(e), ZEST_SWEEP_BETTER);
    assert_int_equal(zest_sweep_judge(zest_sweep_entry_at(&s, 0, 0, 0)), ZEST_SWEEP_NO_BASE);
    assert_true(e->complete && s.finished == 9 && zest_sweep_is_best(&s, e));
    /* by t: MeZO's 0, then 1 and 5 */
    assert_int_equal(s.tilt_count, 3);
    assert_true(s.tilts[0].t == 0 && s.tilts[1].t == 1 && s.tilts[2].t == 5);
    assert_close(s.tilts[2].test.mean, (0.99 + 0.66 + 0.10) / 3, 1e-12);
    zest_sweep_summary_free(&s);
    finish(&plan, "mezo-seed3", 0.7, 0.80); /* differences 0.03, 0.04, -0.11 */
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(zest_sweep_judge(zest_sweep_entry_at(&s, 0, 0, 1)), ZEST_SWEEP_WITHIN_NOISE);
    zest_sweep_summary_free(&s);
    plan.runs[0].state = ZEST_SWEEP_STARTED;
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(s.finished, 8);
    assert_int_equal(zest_sweep_entry_at(&s, 0, 0, 1)->difference.n, 2);
    assert_false(zest_sweep_entry_at(&s, 0, 0, 0)->complete);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

static void answer(zest_sweep_run *run, size_t count, size_t right) {
    run->right = calloc(count, 1);
    assert_non_null(run->right);
    run->answers = count;
    for (size_t i = 0; i < right; i++) run->right[i] = 1;
}

static void one_seed_has_the_answers_or_no_error_bar(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("task=RTE\nmethod = mezo, zest-n\n");
    zest_sweep_summary s;
    finish(&plan, "mezo", 0.7, 0.60);
    finish(&plan, "zest-n", 0.7, 0.70);
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(zest_sweep_judge(zest_sweep_entry_at(&s, 0, 0, 1)), ZEST_SWEEP_NO_ERROR_BAR);
    zest_sweep_summary_free(&s);
    answer(&plan.runs[0], 100, 60);
    answer(&plan.runs[1], 100, 70);
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_close(zest_sweep_entry_at(&s, 0, 0, 1)->p, 2.0 / 1024, 1e-12);
    assert_int_equal(zest_sweep_judge(zest_sweep_entry_at(&s, 0, 0, 1)), ZEST_SWEEP_BETTER);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

static void rows_tell_more_than_methods(void **state) {
    (void)state;
    zest_sweep_plan plan =
        plan_of("task=RTE\nmethod = mezo, zest-n\nweights = f32, bf16\nlabel-noise=0,0.3\nlr=1,2\n");
    zest_sweep_summary s;
    zest_buffer name = {0};
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_true(s.row_count == 4 && s.noise_count == 2 && s.entry_count == 8);
    zest_sweep_row_name(&s, 1, &name);
    assert_string_equal(name.data, "mezo, weights=bf16");
    /* each is compared with MeZO of the same weights */
    const zest_sweep_entry *e = zest_sweep_entry_at(&s, 1, 0, 3);
    assert_int_equal(s.entries[e->base].row, 1);
    assert_int_equal(s.entries[e->base].noise, 1);
    zest_buffer_free(&name);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

/* ---- Tables ---- */

static void assert_escaped(void (*escape)(zest_buffer *, const char *), const char *text,
                           const char *wanted) {
    zest_buffer out = {0};
    escape(&out, text);
    assert_string_equal(out.data, wanted);
    zest_buffer_free(&out);
}

static void text_from_outside_stays_text(void **state) {
    (void)state;
    assert_escaped(zest_sweep_escape_markdown, "a|b*_`<&[x]\n\\", "a\\|b\\*\\_\\`&lt;&amp;\\[x\\] \\\\");
    assert_escaped(zest_sweep_escape_latex, "50% & $x_1^2 #{~}\\",
                   "50\\% \\& \\$x\\_1\\textasciicircum{}2 \\#\\{\\textasciitilde{}\\}\\textbackslash{}");
    assert_escaped(zest_sweep_escape_csv, "plain", "plain");
    assert_escaped(zest_sweep_escape_csv, "a,\"b\"", "\"a,\"\"b\"\"\"");
}

static void has(const zest_buffer *out, const char *words) {
    if (!strstr(out->data, words)) fail_msg("'%s' is not in:\n%s", words, out->data);
}

static void tables_say_what_the_summary_says(void **state) {
    (void)state;
    zest_sweep_plan plan = three_seeds();
    zest_sweep_summary s;
    zest_buffer md = {0}, tex = {0}, csv = {0}, json = {0};
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    zest_sweep_markdown(&s, &md);
    has(&md, "9 of 9 runs finished");
    has(&md, "| mezo | 62.0 \xc2\xb1 1.2 |\n| zest-n | **66.0 \xc2\xb1 1.7** |");
    has(&md, "| RTE | clean labels | zest-n | +4.0 | +1.5 to +6.5 | 3 | better |");
    has(&md, "| RTE | clean labels | mezo | 0 | 70.0 \xc2\xb1 0.0 | 62.0 \xc2\xb1 1.2 |");
    has(&md, "| RTE | clean labels | zest-n | 2 | t=5 | 72.0 | 66.0 | 100 |");
    zest_sweep_latex(&s, &tex);
    has(&tex, "Type & Method & \\textbf{RTE} \\\\");
    has(&tex, "  & $\\text{ZEST}_{\\text{N}}$ & \\textbf{66.0}{\\tiny$\\pm$1.7} \\\\");
    zest_sweep_csv(&s, &csv);
    has(&csv, "RTE,0,zest-n,yes,3,0.72,");
    has(&csv, ",better\n");
    assert_int_equal(zest_sweep_json(&s, &json, NULL), ZEST_OK);
    has(&json, "\"verdict\": \"better\"");
    zest_sweep_summary_free(&s);
    zest_buffer_free(&md);
    /* nothing finished, one failed: still a table of sorts */
    for (size_t i = 0; i < plan.count; i++) plan.runs[i].state = ZEST_SWEEP_PLANNED;
    plan.runs[0].state = ZEST_SWEEP_FAILED;
    plan.runs[0].message = strdup("no | room");
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    zest_sweep_markdown(&s, &md);
    has(&md, "| mezo-seed1 | no \\| room |");
    zest_buffer_free(&md);
    zest_buffer_free(&tex);
    zest_buffer_free(&csv);
    zest_buffer_free(&json);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_is_all_combinations_in_order),
        cmocka_unit_test(what_is_the_same_is_made_once),
        cmocka_unit_test(values_may_hold_commas),
        cmocka_unit_test(names_are_unique_and_fit_for_file_systems),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(blocks_presets_and_changes),
        cmocka_unit_test(student_and_mcnemar),
        cmocka_unit_test(dev_chooses_and_seeds_are_paired),
        cmocka_unit_test(one_seed_has_the_answers_or_no_error_bar),
        cmocka_unit_test(rows_tell_more_than_methods),
        cmocka_unit_test(text_from_outside_stays_text),
        cmocka_unit_test(tables_say_what_the_summary_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
