/* The report: contains every run, escapes all text from outside, uses no network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <utime.h>

#include "base/file.h"
#include "base/text.h"
#include "lab/report/report.h"
#include "tests/temp_folder.h"

#define EVIL "<script>alert('x')</script>&\"quotes\"\xef\xbf\xbf"

/* ---- Made-up runs ---- */

typedef struct {
    const char *name, *method, *t, *seed, *task, *reason; /* reason NULL: no end */
    uint64_t steps;
    double level; /* where its accuracy ends */
} plan;

static zest_log_eval eval_at(uint64_t step, const char *part, double value) {
    zest_log_eval e = zest_log_eval_none();
    double const half = 1.96 * sqrt(value * (1 - value) / 872);
    e.step = step, e.n = 872;
    snprintf(e.part, sizeof e.part, "%s", part);
    e.accuracy = e.value = value, e.low = value - half, e.high = value + half;
    e.loss = 1 - value;
    return e;
}

static void start_run(zest_log_writer *w, const plan *p) {
    zest_log_option const options[] = {
        {"method", p->method}, {"t", p->t},          {"k", "5"},
        {"lr", "1e-6"},        {"seed", p->seed},    {"rho", "0.002"},
        {"quiet", "yes"},      {"untie-head", "no"}, {"model", "it's a/model"}};
    zest_log_start start = {.time = 1.75e9, .version = "1", .options = options, .option_count = 9};
    start.model.family = "roberta", start.model.parameters = 124697433, start.model.trained = 124697433;
    start.task.name = p->task, start.task.metric = "accuracy", start.task.classes = 2;
    start.train = 1024, start.dev = 1024, start.test = 872;
    assert_int_equal(zest_log_write_start(w, &start, NULL), ZEST_OK);
}

static char *make_run(const plan *p) {
    char *path = zest_file_join(test_temp_folder, p->name), *log = zest_file_join(path, "log.jsonl");
    zest_log_writer *w;
    zest_log_eval best = zest_log_eval_none();
    assert_int_equal(zest_file_make_folder(path, NULL), ZEST_OK);
    assert_int_equal(zest_log_open(log, &w, NULL), ZEST_OK);
    start_run(w, p);
    for (uint64_t i = 1; i <= p->steps; i++) {
        double const x = (double)i, fall = exp(-x / 200);
        zest_log_step const step = {.step = i,
                                    .loss = i == 50   ? NAN
                                            : i == 60 ? 1e30
                                                      : 0.2 + 0.5 * fall + 0.03 * sin(x * x),
                                    .lr = 1e-6,
                                    .ess = 9 - fall,
                                    .spread = 0.01 + 0.01 * fall,
                                    .slope = 0.01 + 0.01 * fall,
                                    .curvature = 0.002,
                                    .t = NAN, /* no --t auto: no figure of it */
                                    .scale = NAN,
                                    .dropped = i == 50,
                                    .seconds = 0.1 * x,
                                    .tokens = 1600};
        assert_int_equal(zest_log_write_step(w, &step, NULL), ZEST_OK);
        if (i % 100) continue;
        zest_log_eval e = eval_at(i, "dev", p->level - 0.3 * fall);
        e.best = 1;
        best = e;
        assert_int_equal(zest_log_write_eval(w, &e, NULL), ZEST_OK);
    }
    zest_log_end end = {
        .reason = p->reason, .step = p->steps, .best_step = best.step, .dev = best, .seconds = 3700};
    end.test = eval_at(best.step, "test", p->level - 0.01);
    end.peak_bytes = (uint64_t)2 << 30;
    end.device_peak_bytes = (uint64_t)5 << 30;
    if (p->reason) assert_int_equal(zest_log_write_end(w, &end, NULL), ZEST_OK);
    assert_int_equal(zest_log_close(w, NULL), ZEST_OK);
    free(log);
    return path;
}

static char *report_of(char **paths, size_t count, const char *figures) {
    zest_report report;
    zest_error error = {0};
    const char *out = temp_path("report.html");
    if (zest_report_load(paths, count, &report, &error)) fail_msg("%s", error.message);
    if (zest_report_write(&report, out, figures, &error)) fail_msg("%s", error.message);
    zest_report_free(&report);
    return test_get(out);
}

/* ---- Checks of a page ---- */

static size_t occurrences(const char *text, const char *what) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) count++;
    return count;
}

/* Tags open and close in order; void elements of HTML need not close. A small check of our own: the tests
 * need no parser. */
static void assert_balanced(const char *text) {
    static const char *const alone[] = {"meta", "input", "!DOCTYPE"};
    char stack[64][24];
    int depth = 0;
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        char name[24];
        int const closing = at[1] == '/';
        assert_non_null(end);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1 + closing, " >/\n"), at + 1 + closing);
        int skip = end[-1] == '/';
        for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) skip |= !strcmp(name, alone[i]);
        if (closing) {
            if (!depth || strcmp(stack[depth - 1], name))
                fail_msg("</%s> closes %s", name, depth ? stack[depth - 1] : "nothing");
            depth--;
        } else if (!skip) {
            assert_true(depth < 64);
            strcpy(stack[depth++], name);
        }
        at = end;
        if (!closing && (!strcmp(name, "script") || !strcmp(name, "style"))) {
            at = strstr(at, !strcmp(name, "script") ? "</script>" : "</style>");
            assert_non_null(at);
        }
    }
    assert_int_equal(depth, 0);
}

/* No two elements share an id. */
static void assert_ids_differ(const char *page) {
    for (const char *at = page; (at = strstr(at, " id=\"")); at++) {
        char id[80];
        snprintf(id, sizeof id, "%.*s\"", (int)strcspn(at + 5, "\"") + 5, at);
        if (occurrences(page, id) != 1) fail_msg("twice: %s", id);
    }
}

/* No two headings, of sections or of figures, are the same. */
static void assert_headings_differ(const char *page) {
    for (const char *at = page; (at = strstr(at, "<h")); at++) {
        char text[120];
        if (at[2] != '2' && at[2] != '3') continue;
        const char *from = strchr(at, '>');
        snprintf(text, sizeof text, "%.*s</h", (int)strcspn(from, "<"), from);
        if (occurrences(page, text) != 1) fail_msg("a heading stands twice: %s", text + 1);
    }
}

static void assert_sound(const char *page) {
    assert_balanced(page);
    assert_ids_differ(page);
    assert_headings_differ(page);
    assert_int_equal(occurrences(page, "http"), 0);
    assert_int_equal(occurrences(page, "url("), 0);
    assert_int_equal(occurrences(page, "@import"), 0);
    assert_int_equal(occurrences(page, " src="), 0);
    assert_int_equal(occurrences(page, "<link"), 0);
    assert_int_equal(occurrences(page, "<script"), 1);
    /* figures: two drawings each, with words for those who do not see them, and a table */
    size_t const figures = occurrences(page, "<figure ");
    assert_int_equal(occurrences(page, "<figcaption>"), figures);
    assert_int_equal(occurrences(page, "role=\"img\""), 2 * figures);
    assert_int_equal(occurrences(page, "<desc>"), 2 * figures);
    assert_int_equal(occurrences(page, "<summary>Numbers"), figures);
    assert_int_equal(occurrences(page, "<th"),
                     occurrences(page, "<th scope=") + occurrences(page, "<thead>"));
}

/* ---- Tests ---- */

static const plan usual[] = {
    {"mezo", "mezo", "1", "1", "SST-2", "steps done", 400, 0.90},
    {"zest-1", "zest-n", "1", "1", "SST-2", "steps done", 400, 0.92},
    {"zest-1-again", "zest-n", "1", "2", "SST-2", "stopped on request", 300, 0.91},
    {"zest-20", "zest-n", "20", "1", "SST-2", NULL, 250, 0.89},
};
enum { USUAL = sizeof usual / sizeof usual[0] };

static void shows_every_run(void **state) {
    (void)state;
    char *paths[USUAL];
    const char *figures = temp_path("figures");
    for (size_t i = 0; i < USUAL; i++) paths[i] = make_run(&usual[i]);
    char *page = report_of(paths, USUAL, figures);
    assert_sound(page);
    for (size_t i = 0; i < USUAL; i++) {
        char words[120];
        snprintf(words, sizeof words, "</svg>%s</a></th>", usual[i].name);
        if (!strstr(page, words)) fail_msg("no row for %s", usual[i].name);
        free(paths[i]);
    }
    assert_int_equal(occurrences(page, "<figure "), 11);
    assert_non_null(strstr(page, "4 runs on SST-2"));
    assert_non_null(strstr(page, ">running<") ? strstr(page, ">stopped<") : NULL);
    assert_non_null(strstr(page, "Mean over seeds"));
    assert_non_null(strstr(page, "Sensitivity to t"));
    assert_non_null(strstr(page, "1\xe2\x80\xafh 1\xe2\x80\xafmin"));
    assert_non_null(strstr(page, "2.0\xe2\x80\xafGiB + GPU 5.0\xe2\x80\xafGiB"));
    assert_non_null(strstr(page, "1 pair with a loss"));
    static const char *const names[] = {"loss", "dev",    "dev-loss", "t-test",   "t-dev",
                                        "ess",  "spread", "slope",    "curvature"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char file[200];
        snprintf(file, sizeof file, "%s/%s.svg", figures, names[i]);
        char *svg = test_get(file);
        assert_balanced(svg);
        assert_non_null(strstr(svg, "xmlns"));
        assert_non_null(strstr(svg, "<title>"));
        free(svg);
    }
    free(page);
}

/* The result comes first, also on a phone. */
static void results_come_first(void **state) {
    (void)state;
    char *path = make_run(&usual[0]), *page = report_of(&path, 1, NULL);
    const char *table = strstr(page, "<div class=\"scroll runs\"");
    assert_non_null(table);
    static const char *const order[] = {
        ">run</th>",  ">dev accuracy (%)</th>", ">test accuracy (%)</th>", ">method</th>", ">seed</th>",
        ">steps</th>"};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        table = strstr(table, order[i]);
        if (!table) fail_msg("%s is not where it should be", order[i]);
    }
    const char *lead =
        strstr(page, "<p class=\"lead\">MeZO reached 89.0 % accuracy on test (95 % interval 86.9 to "
                     "91.1, 1 seed).</p>");
    assert_true(lead && lead < strstr(page, "<h2"));
    free(page);
    free(path);
}

/* Three seeds of two methods: the sentence has the mean, the paired interval and the verdict. Test values are
 * those of dev minus 0.01; differences are 0.02, 0.03 and 0.04, so 3.0 points, and half the interval is
 * 4.3027 / sqrt 3 points = 2.48; the binomial error of 872 examples is smaller. */
static void the_page_begins_with_the_conclusion(void **state) {
    (void)state;
    static const double levels[2][3] = {{0.88, 0.90, 0.91}, {0.90, 0.93, 0.95}};
    char *paths[6], names[6][16], seeds[6][4];
    for (size_t i = 0; i < 6; i++) {
        snprintf(names[i], sizeof names[i], "run%zu", i);
        snprintf(seeds[i], sizeof seeds[i], "%zu", i % 3);
        plan const p = {names[i], i < 3 ? "mezo" : "zest-n", "1", seeds[i], "RTE", "steps done",
                        200,      levels[i / 3][i % 3]};
        paths[i] = make_run(&p);
    }
    char *page = report_of(paths, 6, temp_path("figures"));
    assert_sound(page);
    static const char lead[] =
        "<p class=\"lead\">ZEST-N reached 91.7 % accuracy on test, 3.0 points above MeZO (95 % "
        "interval 0.5 to 5.5, 3 seeds): better than MeZO.</p>";
    if (!strstr(page, lead)) fail_msg("%.600s", strstr(page, "<header>"));
    /* the curves of both methods would overlap: a panel each, with the other one in grey */
    char *svg = test_get(temp_path("figures/loss.svg"));
    assert_non_null(strstr(svg, ">MeZO</text>"));
    assert_non_null(strstr(svg, ">ZEST-N</text>"));
    for (int series = 1; series <= 2; series++) {
        char own[64], grey[64];
        snprintf(own, sizeof own, "class=\"s%d g%d\" stroke-width=\"2.2\"", series, series);
        snprintf(grey, sizeof grey, "class=\"s8 g%d\"", series);
        assert_int_equal(occurrences(svg, own), 2);  /* the mean over seeds; and the legend */
        assert_int_equal(occurrences(svg, grey), 1); /* the same, in the other panel */
    }
    assert_int_equal(occurrences(page, "type=\"checkbox\""), 2);
    assert_non_null(strstr(page, "<span>MeZO (3 runs)</span>"));
    free(svg);
    free(page);
    for (size_t i = 0; i < 6; i++) free(paths[i]);
}

/* 0.1 s a step, 1600 tokens, k = 5: 10 steps a second and 160 thousand forward tokens, in older logs that do
 * not say how many passes there were. */
static void speed_counts_all_lanes(void **state) {
    (void)state;
    char *path = make_run(&usual[0]), *page = report_of(&path, 1, NULL);
    static const struct {
        const char *title;
        double value;
    } wanted[] = {{"Steps a second", 10}, {"Forward tokens a second", 160000}};
    for (size_t i = 0; i < 2; i++) {
        static const char cell[] = "<td class=\"n\">";
        char label[80];
        snprintf(label, sizeof label, "aria-label=\"Numbers: %s\"", wanted[i].title);
        const char *at = strstr(page, label), *end = at ? strstr(at, "</table>") : NULL;
        size_t rows = 0;
        assert_non_null(end);
        for (; (at = strstr(at, cell)) && at < end; at++, rows++)
            assert_close(zest_number_parse(at + strlen(cell), NULL), wanted[i].value, 1e-3 * wanted[i].value);
        assert_int_equal(rows, 40);
    }
    free(page);
    free(path);
}

/* Losses of 0 and 1 in turn: their mean over any 30 steps with weights that fall evenly is within 1/15 of
 * 1/2. Steps near the ends have fewer neighbours. */
static void noise_is_smoothed(void **state) {
    (void)state;
    char *path = zest_file_join(test_temp_folder, "noisy"), *log = zest_file_join(path, "log.jsonl");
    plan const p = {"noisy", "zest-n", "1", "1", "SST-2", NULL, 0, 0};
    zest_log_writer *w;
    assert_int_equal(zest_file_make_folder(path, NULL), ZEST_OK);
    assert_int_equal(zest_log_open(log, &w, NULL), ZEST_OK);
    start_run(w, &p);
    for (uint64_t i = 1; i <= 300; i++) {
        zest_log_step const step = {.step = i, .loss = (double)(i % 2), .seconds = (double)i, .tokens = 1};
        assert_int_equal(zest_log_write_step(w, &step, NULL), ZEST_OK);
    }
    assert_int_equal(zest_log_close(w, NULL), ZEST_OK);
    char *page = report_of(&path, 1, NULL);
    assert_non_null(strstr(page, "Pale: every step. Strong: weighted mean over 31 steps."));
    const char *at = strstr(page, "aria-label=\"Numbers: Training loss\""), *end = strstr(at, "</table>");
    size_t rows = 0;
    for (; (at = strstr(at, "<td class=\"n\">")) && at < end; at++, rows++) {
        double const value = zest_number_parse(at + strlen("<td class=\"n\">"), NULL);
        if (fabs(value - 0.5) > 1.0 / 15) fail_msg("row %zu: %g", rows, value);
    }
    assert_int_equal(rows, 60);
    free(page);
    free(log);
    free(path);
}

static void one_run_is_simple(void **state) {
    (void)state;
    char *path = make_run(&usual[1]), *log = zest_file_join(path, "log.jsonl");
    char *page = report_of(&log, 1, NULL); /* the log itself will do */
    assert_sound(page);
    assert_null(strstr(page, "<fieldset"));
    assert_null(strstr(page, "Sensitivity to t"));
    assert_null(strstr(page, "Mean over seeds"));
    assert_non_null(strstr(page, "open><summary>"));
    assert_non_null(strstr(page, "<h1>zest-1: SST-2</h1>"));
    free(page);
    free(log);
    free(path);
}

static void words_from_outside_stay_words(void **state) {
    (void)state;
    plan const evil[] = {{"a\"><img onerror=x> & 'boo'", EVIL, EVIL, EVIL, EVIL, EVIL, 150, 0.9},
                         {"<script>\xff", "zest-n", "1", "1", EVIL, NULL, 120, 0.9}};
    char *paths[2] = {make_run(&evil[0]), make_run(&evil[1])};
    char *page = report_of(paths, 2, temp_path("figures"));
    assert_sound(page);
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "'boo'"));
    assert_null(strstr(page, "\xef\xbf\xbf"));
    assert_null(strchr(page, '\xff'));
    assert_non_null(strstr(page, "&lt;script&gt;alert(&#39;x&#39;)"));
    assert_non_null(strstr(page, "a&quot;&gt;&lt;img onerror=x&gt; &amp; &#39;boo&#39;"));
    char *svg = test_get(temp_path("figures/loss.svg"));
    assert_balanced(svg);
    assert_null(strstr(svg, "<img"));
    free(svg);
    free(page);
    free(paths[0]);
    free(paths[1]);
}

static void a_run_without_steps_has_a_row(void **state) {
    (void)state;
    plan const young = {"young", "zest-n", "1", "1", "SST-2", NULL, 0, 0.5};
    char *path = make_run(&young), *page = report_of(&path, 1, NULL);
    assert_sound(page);
    assert_int_equal(occurrences(page, "<figure "), 0);
    assert_non_null(strstr(page, ">running<"));
    free(page);
    plan const single = {"single", "zest-n", "1", "1", "SST-2", NULL, 1, 0.5};
    char *other = make_run(&single), *both[2] = {path, other};
    page = report_of(both, 2, NULL);
    assert_sound(page);
    free(page);
    free(path);
    free(other);
}

static void many_runs_share_colours(void **state) {
    (void)state;
    enum { MANY = 12 };
    static const char *const tilts[] = {"0", "1", "5"};
    char *paths[MANY], names[MANY][16], seeds[MANY][16];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "run%zu", i);
        snprintf(seeds[i], sizeof seeds[i], "%zu", i);
        plan const p = {names[i], "zest-n",     tilts[i % 3], seeds[i],
                        "RTE",    "steps done", 120,          0.6 + 0.01 * (double)i};
        paths[i] = make_run(&p);
    }
    char *page = report_of(paths, MANY, NULL);
    assert_sound(page);
    assert_int_equal(occurrences(page, "type=\"checkbox\""), 3);
    assert_int_equal(occurrences(page, "(4 runs)"), 3);
    for (size_t i = 0; i < MANY; i++) free(paths[i]);
    free(page);
}

static void a_silent_run_is_broken_off(void **state) {
    (void)state;
    char *path = make_run(&usual[3]), *log = zest_file_join(path, "log.jsonl");
    struct utimbuf const old = {1, 1};
    zest_report report;
    assert_int_equal(utime(log, &old), 0);
    assert_int_equal(zest_report_load(&path, 1, &report, NULL), ZEST_OK);
    assert_int_equal(report.runs[0].state, ZEST_REPORT_BROKEN);
    assert_int_equal(report.runs[0].best_step, 200);
    assert_string_equal(report.runs[0].dev.part, "dev");
    assert_string_equal(report.runs[0].test.part, "");
    zest_report_free(&report);
    free(log);
    free(path);
}

static void the_command_makes_it_again(void **state) {
    (void)state;
    char *path = make_run(&usual[0]);
    zest_report report;
    zest_buffer command = {0};
    assert_int_equal(zest_report_load(&path, 1, &report, NULL), ZEST_OK);
    assert_string_equal(report.runs[0].t, "0"); /* MeZO has t = 0, regardless of the option */
    zest_report_command(&report, &report.runs[0], &command);
    assert_string_equal(command.data,
                        "zest train --method mezo --lr 1e-6 --rho 0.002 --quiet --model 'it'\\''s a/model'");
    zest_buffer_free(&command);
    report.defaults = "rho=0.002 k=3 quiet=yes untie-head=yes"; /* what the command starts from counts */
    zest_report_command(&report, &report.runs[0], &command);
    assert_string_equal(
        command.data, "zest train --method mezo --k 5 --lr 1e-6 --no-untie-head --model 'it'\\''s a/model'");
    zest_buffer_free(&command);
    zest_report_free(&report);
    free(path);
}

static void what_is_no_run_is_named(void **state) {
    (void)state;
    zest_report report;
    zest_error error;
    char *nowhere = zest_file_join(test_temp_folder, "nowhere"), *good = make_run(&usual[0]),
         *paths[2] = {good, test_temp_folder};
    assert_int_equal(zest_report_load(&nowhere, 1, &report, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, nowhere));
    assert_int_equal(zest_report_load(paths, 2, &report, &error), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "no log.jsonl"));
    assert_int_equal(report.count, 0);
    assert_int_equal(zest_report_load(&good, 1, &report, &error), ZEST_OK);
    assert_int_equal(zest_report_write(&report, "/nowhere/at/all.html", NULL, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "/nowhere/at/all.html"));
    assert_int_equal(zest_report_write(&report, nowhere, "/nowhere/at/all", &error), ZEST_ERROR_FILE);
    zest_report_free(&report);
    free(nowhere);
    free(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(shows_every_run),
        IN_TEMP_FOLDER(results_come_first),
        IN_TEMP_FOLDER(the_page_begins_with_the_conclusion),
        IN_TEMP_FOLDER(speed_counts_all_lanes),
        IN_TEMP_FOLDER(noise_is_smoothed),
        IN_TEMP_FOLDER(one_run_is_simple),
        IN_TEMP_FOLDER(words_from_outside_stay_words),
        IN_TEMP_FOLDER(a_run_without_steps_has_a_row),
        IN_TEMP_FOLDER(many_runs_share_colours),
        IN_TEMP_FOLDER(a_silent_run_is_broken_off),
        IN_TEMP_FOLDER(the_command_makes_it_again),
        IN_TEMP_FOLDER(what_is_no_run_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
