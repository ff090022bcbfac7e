/* Sweeps: the chosen runs, the comparisons, and the tables. */
#include "tests/sweep.h"

static void has(const zest_buffer *out, const char *words) {
    if (!strstr(out->data, words)) fail_msg("'%s' is not in:\n%s", words, out->data);
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
        run->dev.f1 = run->dev.em = run->test.f1 = run->test.em = run->test.loss = NAN;
        run->dev.loss = 0.5;
        run->seconds = 12;
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
    assert_string_equal(zest_sweep_verdict(&s, e), "better");
    assert_string_equal(zest_sweep_verdict(&s, zest_sweep_entry_at(&s, 0, 0, 0)), "");
    assert_true(e->complete && s.finished == 9 && zest_sweep_is_best(&s, e));
    /* by t: MeZO's 0, then 1 and 5 */
    assert_int_equal(s.tilt_count, 3);
    assert_true(s.tilts[0].t == 0 && s.tilts[1].t == 1 && s.tilts[2].t == 5);
    assert_close(s.tilts[2].test.mean, (0.99 + 0.66 + 0.10) / 3, 1e-12);
    zest_sweep_summary_free(&s);
    finish(&plan, "mezo-seed3", 0.7, 0.80); /* differences 0.03, 0.04, -0.11 */
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_string_equal(zest_sweep_verdict(&s, zest_sweep_entry_at(&s, 0, 0, 1)), "no difference shown");
    zest_sweep_summary_free(&s);
    plan.runs[0].state = ZEST_SWEEP_STARTED;
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(s.finished, 8);
    assert_int_equal(zest_sweep_entry_at(&s, 0, 0, 1)->difference.n, 2);
    assert_string_equal(zest_sweep_verdict(&s, zest_sweep_entry_at(&s, 0, 0, 1)), "too few seeds to tell");
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

/* McNemar's p is about the two runs, not about the methods: it is shown, but it is no verdict. */
static void one_seed_has_a_p_and_no_verdict(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("task=RTE\nmethod = mezo, zest-n\n");
    zest_sweep_summary s;
    finish(&plan, "mezo", 0.7, 0.60);
    finish(&plan, "zest-n", 0.7, 0.70);
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_true(isnan(zest_sweep_entry_at(&s, 0, 0, 1)->p));
    zest_sweep_summary_free(&s);
    answer(&plan.runs[0], 100, 60);
    answer(&plan.runs[1], 100, 70);
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_close(zest_sweep_entry_at(&s, 0, 0, 1)->p, 2.0 / 1024, 1e-12);
    assert_string_equal(zest_sweep_verdict(&s, zest_sweep_entry_at(&s, 0, 0, 1)), "too few seeds to tell");
    zest_buffer md = {0};
    zest_sweep_markdown(&s, &md);
    has(&md,
        "ZEST-N reached 70.0 % accuracy on test, 10.0 points above MeZO (1 seed): too few seeds to tell.");
    has(&md, "| zest-n | +10.0 | McNemar p = 0.002 | 1 | too few seeds to tell |");
    zest_buffer_free(&md);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

/* Two seeds, each ahead by the same two of 80 examples: this was "better", with an interval of no width. The
 * same with three seeds, whose variance is 0 too; and a loss is better when it is lower. */
static void equal_differences_have_no_verdict(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("task=RTE\nmethod = mezo, zest-n\nseed = 1,2,3\n");
    zest_sweep_summary s;
    zest_buffer md = {0};
    static const double base[] = {0.6, 0.65, 0.7};
    for (size_t i = 0; i < plan.count; i++) {
        zest_sweep_run *run = &plan.runs[i];
        double const seed = run->value[ZEST_OPTION_SEED][0] - '1';
        if (seed == 2) continue;
        finish(&plan, run->name, 0.7, base[(int)seed] + (zest_sweep_is_mezo(run) ? 0 : 0.025));
        run->test.n = 80;
    }
    for (size_t seeds = 2; seeds <= 3; seeds++) {
        assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
        const zest_sweep_entry *e = zest_sweep_entry_at(&s, 0, 0, 1);
        assert_true(e->difference.n == seeds && isnan(e->difference.low));
        assert_string_equal(zest_sweep_verdict(&s, e), "too few seeds to tell");
        zest_sweep_markdown(&s, &md);
        has(&md, seeds == 2 ? "| +2.5 | \xe2\x80\x93 | 2 | too few seeds to tell |"
                            : "| +2.5 | \xe2\x80\x93 | 3 | too few seeds to tell |");
        zest_buffer_free(&md);
        zest_sweep_summary_free(&s);
        finish(&plan, "mezo-seed3", 0.7, base[2]);
        finish(&plan, "zest-n-seed3", 0.7, base[2] + 0.025);
    }
    for (size_t i = 0; i < plan.count; i++) {
        zest_sweep_run *run = &plan.runs[i];
        strcpy(run->metric, "loss");
        run->test.value = zest_sweep_is_mezo(run) ? 0.7 : 0.5 + 0.01 * (double)i;
    }
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    zest_conclusion c;
    zest_sweep_conclude(&s, zest_sweep_entry_at(&s, 0, 0, 1), &c);
    zest_conclusion_sentence(&c, &md);
    assert_string_equal(md.data, "ZEST-N reached a loss of 0.5300 on test, 0.1700 below MeZO (95 % interval "
                                 "\xe2\x88\x92"
                                 "0.2197 to \xe2\x88\x92"
                                 "0.1203, 3 seeds): better than MeZO.");
    zest_buffer_free(&md);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

/* Of equal dev values the lower dev loss is chosen, then the first. */
static void ties_go_to_the_lower_dev_loss(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("task=RTE\nmethod = mezo\nlr = 1, 2, 3\n");
    zest_sweep_summary s;
    static const double losses[] = {0.5, 0.4, 0.4};
    for (size_t i = 0; i < 3; i++) {
        finish(&plan, plan.runs[i].name, 0.7, 0.6);
        plan.runs[i].dev.loss = losses[i];
    }
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(s.entries[0].chosen[0], 1);
    zest_sweep_summary_free(&s);
    plan.runs[0].dev.loss = NAN;
    plan.runs[1].worth = NAN;
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(s.entries[0].chosen[0], 2);
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
    has(&md, "| RTE | clean labels | mezo | 0 | 70.0 \xc2\xb1 0.0 | 0.5000 \xc2\xb1 0.0000 | 62.0 \xc2\xb1 "
             "1.2 |  | 100, 100, 100 | 12 |");
    has(&md, "| RTE | clean labels | zest-n | 1 | 71.3 \xc2\xb1 0.9 | 0.5000 \xc2\xb1 0.0000 | 77.0 "
             "\xc2\xb1 11.1 | +15.0 \xc2\xb1 11.0 | 100, 100, 100 | 12 |");
    has(&md, "| RTE | clean labels | zest-n | 2 | t=5 | 72.0 | 66.0 | 100 |");
    zest_sweep_latex(&s, &tex);
    has(&tex, "\\multirow{2}{*}{Type} & \\multirow{2}{*}{Method} & \\textbf{RTE} \\\\\n & & natural language "
              "inference \\\\\n\\midrule");
    has(&tex, "  & $\\text{ZEST}_{\\text{N}}$ & \\textbf{66.0}{\\tiny$\\pm$1.7} \\\\");
    zest_sweep_csv(&s, &csv);
    has(&csv, "RTE,0,zest-n,yes,3,0.72,");
    has(&csv, ",better\n");
    zest_sweep_csv_by_t(&s, &csv);
    has(&csv, "\nRTE,0,zest-n,5,3,0.51,");
    has(&csv, ",12,100 100 100\n");
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

/* First-order rows stand apart, and are compared with MeZO though they want other weights. */
static void first_order_rows_are_compared_too(void **state) {
    (void)state;
    zest_sweep_plan plan =
        plan_of("task=RTE, sst-5, SST-2\nmethod = mezo, zest-n, sgd, sam\nseed = 1,2\nweights = first:f32\n"
                "batch = 128, first: 8, 32\n");
    zest_sweep_summary s;
    zest_buffer md = {0}, tex = {0};
    for (size_t i = 0; i < plan.count; i++) {
        zest_sweep_run *run = &plan.runs[i];
        int first = zest_sweep_method_is_first_order(zest_sweep_method(run));
        double seed = strtod(run->value[ZEST_OPTION_SEED], NULL), gain = first ? 0.125 : 0;
        int small = !strcmp(run->value[ZEST_OPTION_BATCH], "8");
        finish(&plan, run->name, 0.5 + gain + (small ? 0.125 : 0), 0.5 + gain + seed / 16);
    }
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_true(s.row_count == 4 && s.entry_count == 12 && s.tilt_count == 12);
    const zest_sweep_entry *e = zest_sweep_entry_at(&s, 0, 0, 2);
    assert_close(e->difference.mean, 0.125, 1e-12);
    assert_int_equal(s.entries[e->base].row, 0);
    assert_true(isnan(s.tilts[2].t) && s.tilts[2].difference.n == 2);
    zest_sweep_markdown(&s, &md);
    has(&md, "| order | method | RTE | sst-5 | SST-2 |\n|---|---|---|---|---|\n| 1st | sgd | ");
    has(&md, "| 0th | mezo | **59.4");
    has(&md, "| RTE | clean labels | sgd | 1 | batch=8 | 75.0 |");
    has(&md, "| RTE | clean labels | mezo | 1 |  | 50.0 |");
    zest_sweep_latex(&s, &tex);
    has(&tex, " & \\textbf{RTE} & \\textbf{SST-5} & \\textbf{SST-2} \\\\\n & & natural language inference & "
              "\\multicolumn{2}{c}{sentiment cls.} \\\\");
    has(&tex, "\\multirow{2}{*}{\\makecell{1st-\\\\order}}\n  & SGD & ");
    zest_buffer_free(&md);
    zest_buffer_free(&tex);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

/* Without MeZO the base is SGD. What follows from the task makes no row of its own, and a task that was not
 * run with some labels no column. */
static void without_mezo_the_base_is_sgd(void **state) {
    (void)state;
    zest_sweep_plan plan =
        plan_of("task=RTE, SST-2\nmethod = sgd, sam\nseed = 1,2\nselect = task, RTE: accuracy\n"
                "label-noise = 0, SST-2: 0, 0.3\nbatch = 8\n");
    zest_sweep_summary s;
    zest_buffer md = {0}, svg = {0};
    assert_int_equal(plan.count, 12);
    assert_true(plan.by_task[ZEST_OPTION_SELECT] && !plan.by_task[ZEST_OPTION_METHOD] &&
                !plan.by_task[ZEST_OPTION_LABEL_NOISE] && !plan.by_task[ZEST_OPTION_BATCH]);
    for (size_t i = 0; i < plan.count; i++) {
        zest_sweep_run *run = &plan.runs[i];
        double seed = strtod(run->value[ZEST_OPTION_SEED], NULL);
        int sam = !strcmp(zest_sweep_method(run), "sam");
        finish(&plan, run->name, 0.5, 0.5 + seed / 16 + (sam ? seed / 64 : 0));
    }
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_true(s.row_count == 2 && s.entry_count == 6 && !zest_sweep_several_tilts(&s));
    assert_string_equal(s.base, "sgd");
    const zest_sweep_entry *e = zest_sweep_entry_at(&s, 0, 0, 1);
    assert_close(e->difference.mean, 1.5 / 64, 1e-12);
    assert_int_equal(s.entries[e->base].row, 0);
    zest_sweep_markdown(&s, &md);
    has(&md, "| method | RTE | SST-2 |\n|---|---|---|\n| sgd | 59.4");
    has(&md, "| method | SST-2 |\n|---|---|\n| sgd | 59.4");
    has(&md, "**Test minus SGD's of the same seed**");
    has(&md, "| RTE | clean labels | sam | +2.3 |");
    has(&md, "**In detail** (hyper-parameters chosen by dev)\n\n"
             "| task | labels | method | dev | dev loss | test | test \xe2\x88\x92 SGD | best step | "
             "seconds |\n"
             "|---|---|---|---|---|---|---|---|---|\n");
    zest_plot *plot = zest_sweep_methods(&s, 1, (zest_sensitivity_style){.title = "By method"});
    assert_int_equal(zest_plot_svg(plot, &svg), ZEST_OK);
    has(&svg, ">SGD</text>"), has(&svg, ">SAM</text>"), has(&svg, ">RTE, clean labels</text>");
    has(&svg, ">SST-2, 30 % of the labels switched</text>");
    zest_plot_free(plot);
    zest_buffer_free(&svg);
    zest_buffer_free(&md);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

/* Values that --compare names have rows of their own, also when the grid is read again; the others are
 * chosen. */
static void compared_values_have_rows(void **state) {
    (void)state;
    static const char text[] =
        "task=RTE\nmethod = sgd, sam\nseed = 1,2\nlr = 1e-2, 1e-3\nradius = 0.01, 0.05\n"
        "compare = radius\n";
    zest_sweep_grid grid, again;
    zest_sweep_plan plan;
    zest_sweep_summary s;
    zest_buffer printed = {0}, md = {0}, svg = {0};
    assert_int_equal(zest_sweep_grid_read(&grid, text, "test", NULL), ZEST_OK);
    zest_sweep_grid_print(&grid, &printed);
    assert_int_equal(zest_sweep_grid_read(&again, printed.data, "again", NULL), ZEST_OK);
    assert_int_equal(zest_sweep_plan_make(&again, &plan, NULL), ZEST_OK);
    assert_int_equal(plan.count, 2 * (2 + 4));
    for (size_t i = 0; i < plan.count; i++) {
        zest_sweep_run *run = &plan.runs[i];
        const char *radius = run->value[ZEST_OPTION_RADIUS];
        int far = radius && !strcmp(radius, "0.05"), fast = !strcmp(run->value[ZEST_OPTION_LR], "1e-2");
        finish(&plan, run->name, fast ? 0.75 : 0.5,
               (radius ? (far ? 0.25 : 0.75) : 0.5) + (fast ? 0 : 0.125));
    }
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_int_equal(s.row_count, 3);
    zest_sweep_markdown(&s, &md);
    has(&md, "| sgd | 50.0");
    has(&md, "| sam, radius=0.01 | **75.0");
    has(&md, "| sam, radius=0.05 | 25.0");
    has(&md, "| RTE | clean labels | sam, radius=0.05 | -25.0 |");
    has(&md, "| RTE | clean labels | sam, radius=0.01 | 2 | lr=1e-2 | 75.0 |");
    zest_plot *plot = zest_sweep_methods(&s, 1, (zest_sensitivity_style){.title = "By method"});
    assert_int_equal(zest_plot_svg(plot, &svg), ZEST_OK);
    has(&svg, ">SAM, radius=0.05</text>"); /* in the legend: too long for the axis */
    zest_plot_free(plot);
    zest_buffer_free(&svg);
    zest_buffer_free(&md);
    zest_buffer_free(&printed);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
    zest_sweep_grid_free(&grid);
    zest_sweep_grid_free(&again);
}

/* In every block of a grid, or twice: that is no mistake. */
static void what_is_compared_may_be_said_again(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("task = RTE\ncompare = radius, t, radius\nradius = 0.01, 0.05\n[1]\n"
                                   "method = sam\n[2]\nmethod = tsam\n");
    assert_int_equal(plan.count, 4);
    assert_true(plan.compared[ZEST_OPTION_RADIUS] && plan.compared[ZEST_OPTION_T] &&
                !plan.compared[ZEST_OPTION_LR]);
    zest_sweep_plan_free(&plan);
}

static void only_what_dev_chooses_is_compared(void **state) {
    (void)state;
    static const char *const wrong[][2] = {{"seed", "not an option that dev chooses"},
                                           {"weights", "not an option that dev chooses"},
                                           {"radious", "did you mean 'radius'?"},
                                           {"radius, sam: lr", "not an option that dev chooses"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        zest_sweep_grid grid;
        zest_sweep_plan plan;
        zest_error error = {0};
        char text[128];
        snprintf(text, sizeof text, "task = RTE\nmethod = sam\ncompare = %s\n", wrong[i][0]);
        assert_int_equal(zest_sweep_grid_read(&grid, text, "test", NULL), ZEST_OK);
        assert_int_equal(zest_sweep_plan_make(&grid, &plan, &error), ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, wrong[i][1]));
        zest_sweep_plan_free(&plan);
        zest_sweep_grid_free(&grid);
    }
}

/* A base that was never run is none; one row is nothing to compare. */
static void no_base_and_nothing_to_compare(void **state) {
    (void)state;
    zest_sweep_plan plan = plan_of("task=RTE\nmethod = sam\nseed = 1,2\n");
    zest_sweep_summary s;
    zest_buffer md = {0};
    for (size_t i = 0; i < plan.count; i++) finish(&plan, plan.runs[i].name, 0.5, 0.5);
    assert_int_equal(zest_sweep_summarise(&plan, &s, NULL), ZEST_OK);
    assert_true(!s.base && s.entries[0].base == ZEST_SWEEP_NONE);
    assert_string_equal(zest_sweep_verdict(&s, &s.entries[0]), "");
    assert_null(zest_sweep_methods(&s, 1, (zest_sensitivity_style){.title = "By method"}));
    zest_sweep_markdown(&s, &md);
    assert_null(strstr(md.data, "of the same seed"));
    zest_buffer_free(&md);
    zest_sweep_summary_free(&s);
    zest_sweep_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student_and_mcnemar),
        cmocka_unit_test(dev_chooses_and_seeds_are_paired),
        cmocka_unit_test(one_seed_has_a_p_and_no_verdict),
        cmocka_unit_test(equal_differences_have_no_verdict),
        cmocka_unit_test(ties_go_to_the_lower_dev_loss),
        cmocka_unit_test(rows_tell_more_than_methods),
        cmocka_unit_test(text_from_outside_stays_text),
        cmocka_unit_test(tables_say_what_the_summary_says),
        cmocka_unit_test(first_order_rows_are_compared_too),
        cmocka_unit_test(without_mezo_the_base_is_sgd),
        cmocka_unit_test(no_base_and_nothing_to_compare),
        cmocka_unit_test(compared_values_have_rows),
        cmocka_unit_test(what_is_compared_may_be_said_again),
        cmocka_unit_test(only_what_dev_chooses_is_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
