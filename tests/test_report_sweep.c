/* The report of a sweep: its tables and figures, for any names of tasks. */
#include "train/run_folder.h"
#include "lab/report/report.h"
#include "tests/temp_folder.h"
#include "tests/sweep.h"

/* ---- A made-up sweep ---- */

static double worth(const zest_sweep_run *run) {
    double t = zest_sweep_tilt(run), seed = strtod(run->value[ZEST_OPTION_SEED], NULL);
    return 0.5 + (t > 0 ? 0.01 * t : 0) + 0.001 * seed;
}

static void write_log(const zest_run_folder *names, const zest_sweep_run *run) {
    zest_log_writer *w;
    zest_log_option const options[] = {{"method", run->value[ZEST_OPTION_METHOD]},
                                       {"t", run->value[ZEST_OPTION_T] ? run->value[ZEST_OPTION_T] : "1"},
                                       {"seed", run->value[ZEST_OPTION_SEED]}};
    zest_log_start start = {.time = 1.75e9, .version = "1", .options = options, .option_count = 3};
    start.model.family = "roberta", start.task.name = run->value[ZEST_OPTION_TASK],
    start.task.metric = "accuracy", start.train = 7, start.dev = 5, start.test = 6;
    assert_int_equal(zest_log_open(names->log, &w, NULL), ZEST_OK);
    assert_int_equal(zest_log_write_start(w, &start, NULL), ZEST_OK);
    for (uint64_t step = 0; step <= 200; step += 100) {
        zest_log_eval e = zest_log_eval_none();
        e.step = step, e.n = 10, e.best = 1;
        e.value = e.accuracy = worth(run) * (double)(step + 100) / 300;
        strcpy(e.part, "dev");
        assert_int_equal(zest_log_write_eval(w, &e, NULL), ZEST_OK);
    }
    assert_int_equal(zest_log_close(w, NULL), ZEST_OK);
}

static void write_run(const zest_sweep_run *run) {
    char path[512], result[300];
    zest_run_folder names;
    zest_options options;
    snprintf(path, sizeof path, "%s/%s", temp_path("runs"), run->name);
    assert_int_equal(zest_file_make_folder(path, NULL), ZEST_OK);
    assert_int_equal(zest_run_folder_of(path, &names, NULL), ZEST_OK);
    zest_options_init(&options);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (run->value[id])
            assert_int_equal(zest_options_set_id(&options, (zest_option_id)id, run->value[id], NULL),
                             ZEST_OK);
    assert_int_equal(zest_run_folder_write_options(&names, ZEST_FOR_TRAIN, &options, NULL), ZEST_OK);
    snprintf(result, sizeof result,
             "{\"metric\": \"accuracy\", \"best_step\": 200, \"seconds\": 9, \"dev\": {\"value\": %.3f, "
             "\"accuracy\": %.3f, \"loss\": 0.5}, \"test\": {\"value\": %.3f, \"accuracy\": %.3f, "
             "\"loss\": 0.6}}",
             worth(run), worth(run), worth(run), worth(run));
    assert_int_equal(zest_file_write(names.result, result, strlen(result), NULL), ZEST_OK);
    write_log(&names, run);
    zest_options_free(&options);
    zest_run_folder_free(&names);
}

static void write_sharpness(const char *name) {
    static const char text[] =
        "{\"task\": \"SST-2\", \"split\": \"train\", \"examples\": 5, \"samples\": 7, \"loss\": 1, "
        "\"neighbourhood\": [{\"radius\": 1, \"mean\": {\"value\": 2}, \"spread\": {\"value\": 0.5}}], "
        "\"hessian\": {\"top\": [{\"value\": 9, \"residual\": 1}, {\"value\": -1, \"residual\": 0.1}]}}";
    char path[512];
    snprintf(path, sizeof path, "runs/%s/sharpness.json", name);
    test_put(test_temp_folder, path, text);
}

/* All runs but the last `missing` of them. */
static size_t make_sweep(const char *grid, size_t missing) {
    zest_sweep_plan plan = plan_of(grid);
    assert_int_equal(zest_file_make_folder(temp_path("runs"), NULL), ZEST_OK);
    test_put(test_temp_folder, "grid", grid);
    for (size_t i = 0; i + missing < plan.count; i++) write_run(&plan.runs[i]);
    size_t count = plan.count;
    zest_sweep_plan_free(&plan);
    return count;
}

static char *page_of(size_t runs) {
    const char *out = temp_path("page.html");
    char *path = test_temp_folder;
    zest_report report;
    zest_error error = {0};
    if (zest_report_load(&path, 1, &report, &error)) fail_msg("%s", error.message);
    assert_int_equal(report.count, runs);
    if (zest_report_write(&report, out, temp_path("figures"), &error)) fail_msg("%s", error.message);
    zest_report_free(&report);
    return test_get(out);
}

static void has(const char *page, const char *words) {
    if (!strstr(page, words)) fail_msg("'%s' is not in the page", words);
}

/* ---- Tests ---- */

static void a_sweep_is_one_page(void **state) {
    (void)state;
    size_t count =
        make_sweep("task = SST-2, /x/<b>&\"evil\".task\nmethod = mezo, zest-n, sgd\nt = 1, 5, 20\nseed = "
                   "1, 2, 3\nlabel-noise = 0, 0.3\n",
                   0);
    assert_int_equal(count, 2 * 2 * 3 * 5);
    write_sharpness("SST-2-noise0-mezo-seed1");
    write_sharpness("SST-2-noise0-mezo-seed2");
    char *page = page_of(count);
    has(page, "A sweep of 60 runs");
    has(page, "standard error over 2 runs");
    has(page, "<h3>Test, clean labels</h3>");
    has(page, "<h3>Test, 30 % of the labels switched</h3>");
    has(page, "Difference from MeZO of the same seed");
    /* two tasks, two kinds of labels, two methods; MeZO's differences from ZEST-N's are the same for all
     * seeds */
    has(page, "<p class=\"lead\">8 comparisons with MeZO (3 seeds): too few seeds to tell.</p>");
    has(page, "<li>ZEST-N reached 70.2 % accuracy on test (SST-2, clean labels), 20.0 points above MeZO (3 "
              "seeds, all with the same difference): too few seeds to tell.</li>");
    has(page, "id=\"figure-by-t-test\"");
    has(page, "id=\"figure-t-curves-zest-n\""); /* ZEST-N, after MeZO */
    has(page, "id=\"figure-sharpness-SST-2\"");
    has(page, ">MeZO</text>");
    has(page, "&lt;b&gt;&amp;&quot;evil&quot;");
    assert_null(strstr(page, "<b>&"));
    assert_null(strstr(page, "Examples:"));          /* the two tasks have their own */
    assert_null(strstr(page, "id=\"figure-loss\"")); /* curves of different tasks say nothing side by side */
    free(page);
    static const char *const files[] = {"figures/by-t-test.svg", "figures/by-t-dev.svg",
                                        "figures/t-curves-zest-n.svg"};
    for (size_t i = 0; i < 3; i++) {
        char *svg = test_get(temp_path(files[i]));
        has(svg, "MeZO (t = 0)");
        has(svg, "&lt;b&gt;&amp;&quot;evil&quot;, clean labels");
        free(svg);
    }
}

/* Every method has its colour, in the figures of its results and in the chips of its runs. */
static void colours_are_those_of_methods(void **state) {
    (void)state;
    size_t count = make_sweep("task = SST-2\nmethod = zest-bc, mezo, zest-n\nt = 5, 20\nseed = 1, 2, 3\n", 0);
    char *page = page_of(count);
    static const struct {
        const char *run, *line;
    } wanted[] = {{"mezo-seed1", "class=\"s1\""},
                  {"zest-n-t5-seed2", "class=\"s2\""},
                  {"zest-n-t20-seed3", "class=\"s2\""},
                  {"zest-bc-t20-seed1", "class=\"s3\""}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char cell[80];
        snprintf(cell, sizeof cell, ">%s</a></th>", wanted[i].run);
        const char *end = strstr(page, cell), *chip = NULL;
        assert_non_null(end);
        for (const char *at = page; (at = strstr(at, "<svg class=\"chip\"")) && at < end; at++) chip = at;
        assert_true(chip && end - chip < 250);
        const char *line = strstr(chip, wanted[i].line);
        if (!line || line > end) fail_msg("%s is not drawn with %s", wanted[i].run, wanted[i].line);
    }
    /* the line style encodes t: solid, then dashed */
    has(page, "<span>ZEST-N, t = 5 (3 runs)</span>");
    has(page, "<span>ZEST-N, t = 20 (3 runs)</span>");
    assert_null(strstr(page, "Sensitivity to t")); /* "Results by t" says more */
    free(page);
}

/* A running sweep: finished runs count; with one t there is no figure. */
static void an_unfinished_sweep_has_a_page(void **state) {
    (void)state;
    size_t count = make_sweep("task = SST-2\nmethod = mezo, zest-n\nt = 5\nseed = 1, 2\n", 1);
    char *page = page_of(count - 1);
    has(page, "3 of 4 runs are finished");
    has(page, "Examples: 7 to train, 5 dev, 6 test.");
    assert_null(strstr(page, "figure-by-t-test"));
    has(page, "id=\"figure-dev\""); /* few runs of one task: curves */
    has(page,
        "<p class=\"lead\">ZEST-N reached 55.1 % accuracy on test, 5.0 points above MeZO (1 seed): too few "
        "seeds to tell.</p>");
    free(page);
}

static void a_sweep_without_runs_is_refused(void **state) {
    (void)state;
    char *path = test_temp_folder;
    zest_report report;
    zest_error error = {0};
    make_sweep("task = SST-2\nmethod = mezo\nseed = 1\n", 1);
    assert_int_equal(zest_report_load(&path, 1, &report, &error), ZEST_ERROR_FORMAT);
    has(error.message, "no run of this sweep has started");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(a_sweep_is_one_page),
        IN_TEMP_FOLDER(colours_are_those_of_methods),
        IN_TEMP_FOLDER(an_unfinished_sweep_has_a_page),
        IN_TEMP_FOLDER(a_sweep_without_runs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
