/* zest report: what some runs did, as one HTML page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/output.h"
#include "run/report.h"

/* ---- As JSON ---- */

static json_t *eval_json(const zest_log_eval *eval) {
    if (!*eval->part) return json_null();
    return json_pack("{s:o, s:o, s:o, s:I}", "value", zest_output_real(eval->value), "low",
                     zest_output_real(eval->low), "high", zest_output_real(eval->high), "n",
                     (json_int_t)eval->n);
}

static json_t *run_json(const zest_report *report, const zest_report_run *run) {
    zest_buffer command = {0};
    zest_report_command(report, run, &command);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:I}", "run", run->name,
                  "state", zest_report_state_name(run->state), "method", run->method, "t", run->t, "lr",
                  run->lr, "seed", run->seed, "command", command.data ? command.data : "", "steps",
                  (json_int_t)run->steps, "best_step", (json_int_t)run->best_step, "metric",
                  zest_report_metric(run), "dev", eval_json(&run->dev), "test", eval_json(&run->test),
                  "seconds", zest_output_real(run->seconds), "peak_bytes", (json_int_t)run->peak_bytes);
    if (object && run->device_peak_bytes)
        json_object_set_new(object, "device_peak_bytes", json_integer((json_int_t)run->device_peak_bytes));
    zest_buffer_free(&command);
    return object;
}

static int print_json(const zest_report *report, const char *path) {
    json_t *runs = json_array();
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(runs, run_json(report, &report->runs[i]));
    return zest_output_json(json_pack("{s:o, s:s?}", "runs", runs, "out", path));
}

/* ---- As text ---- */

static void print_eval(const zest_log_eval *eval) {
    if (*eval->part)
        printf("  %.4f (%.4f to %.4f)", eval->value, eval->low, eval->high);
    else
        printf("  %25s", "-");
}

static int print_table(const zest_report *report, const char *path) {
    int width = 3;
    for (size_t i = 0; i < report->count; i++) {
        int length = (int)strlen(report->runs[i].name);
        width = length > width ? length : width;
    }
    printf("%-*s  %-8s  %4s  %6s  %6s  %-25s  %-25s  %8s\n", width, "run", "method", "t", "steps", "best",
           "dev", "test", "seconds");
    for (size_t i = 0; i < report->count; i++) {
        const zest_report_run *run = &report->runs[i];
        printf("%-*s  %-8s  %4s  %6llu  %6llu", width, run->name, run->method, run->t,
               (unsigned long long)run->steps, (unsigned long long)run->best_step);
        print_eval(&run->dev);
        print_eval(&run->test);
        printf("  %8.0f\n", run->seconds);
    }
    return printf("page  %s\n", path) < 0 || fflush(stdout)
               ? zest_output_fail(ZEST_ERROR_FILE, "standard output cannot be written")
               : ZEST_EXIT_OK;
}

/* ---- The command ---- */

/* Where the page goes when nobody says: into the run or sweep, or here when there are several. To be freed.
 */
static char *default_path(const zest_report *report, const char *word) {
    if (report->sweep) return zest_file_join(word, "report.html");
    return report->count == 1 ? zest_file_join(report->runs[0].path, "report.html") : strdup("report.html");
}

static int write_page(const zest_report *report, const zest_options *options, const char *path) {
    const char *figures = zest_options_text(options, ZEST_OPTION_FIGURES);
    zest_error error = {0};
    zest_status status = zest_report_write(report, path, *figures ? figures : NULL, &error);
    return status ? zest_output_fail(status, error.message) : ZEST_EXIT_OK;
}

static int run(const zest_options *options, char **words, int count) {
    zest_error error = {0};
    zest_report report;
    int const json = zest_options_whole(options, ZEST_OPTION_JSON) != 0;
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_status status = zest_report_load(words, (size_t)count, &report, &error);
    if (status) return zest_output_fail(status, error.message);
    const zest_command *train = zest_command_find("train");
    report.defaults = train ? train->defaults : NULL;
    int const wanted = *out || !json || *zest_options_text(options, ZEST_OPTION_FIGURES);
    char *path = *out ? strdup(out) : default_path(&report, words[0]);
    int code = path ? ZEST_EXIT_OK : zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for a path");
    if (path && wanted) code = write_page(&report, options, path);
    if (!code && json) code = print_json(&report, wanted ? path : NULL);
    if (!code && !json) code = print_table(&report, path);
    free(path);
    zest_report_free(&report);
    return code;
}

const zest_command zest_command_report = {
    .name = "report",
    .words = "RUN|SWEEP...",
    .least = 1,
    .most = 1024,
    .summary = "compare runs of zest train in one HTML page",
    .description =
        "Reads the log of each run (a folder that zest train made, finished or not; a sweep stands for its "
        "runs) and writes one page that "
        "needs no network and no script: a table of the runs with 95 % intervals, curves of the loss, the "
        "dev "
        "metric, the tilt and the speed, the test metric against t when runs differ in it, and the options "
        "and "
        "the command of each run. Without --out the page is RUN/report.html, or report.html for several "
        "runs. "
        "The table is printed, too. The page of a sweep begins with its tables, results against t (means and "
        "standard errors over seeds, MeZO as a band) and the dev metric over time for each t.\n\n"
        "--json prints the table instead; with --out or --figures it does both.",
    .examples = "zest report run1\twrites run1/report.html\n"
                "zest report mezo zest-t1 zest-t5 --out compare.html\tcompares three runs\n"
                "zest report run1 --figures plots\talso writes each figure as an SVG file\n"
                "zest report sweep1 --out sweep1.html --figures plots\ta sweep; results against t are "
                "plots/by-t-test.svg",
    .defaults = "",
    .users = ZEST_FOR_REPORT,
    .run = run,
};
