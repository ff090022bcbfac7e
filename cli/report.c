/* zest report: an HTML page that compares runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/output.h"
#include "lab/report/report.h"
#include "lab/stats/stats.h"

/* ---- JSON ---- */

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
    if (run->device_peak_bytes)
        zest_output_set(&object, "device_peak_bytes", json_integer((json_int_t)run->device_peak_bytes));
    zest_buffer_free(&command);
    return object;
}

/* The sentence at the top of the page, and one for each comparison. */
static json_t *conclusion_json(const zest_report *report) {
    size_t count;
    zest_conclusion *all = zest_report_conclude(report, &count);
    json_t *sentences = all ? zest_conclusion_json(all, count) : NULL;
    free(all);
    return sentences ? sentences : json_null();
}

static int print_json(const zest_report *report, const char *path) {
    json_t *runs = json_array();
    for (size_t i = 0; i < report->count; i++) zest_output_append(&runs, run_json(report, &report->runs[i]));
    return zest_output_json(
        json_pack("{s:o, s:o, s:s?}", "conclusion", conclusion_json(report), "runs", runs, "out", path));
}

/* ---- Text ---- */

/* "76.0 (66.6–83.5)" */
static void eval_cell(zest_text_table *t, const zest_report_run *run, const zest_log_eval *eval) {
    const char *metric = zest_report_metric(run);
    zest_buffer text = {0};
    if (*eval->part) zest_report_value(&text, metric, eval->value);
    if (*eval->part && isfinite(eval->low) && isfinite(eval->high)) {
        zest_buffer_text(&text, " (");
        zest_report_value(&text, metric, eval->low);
        zest_buffer_text(&text, "\xe2\x80\x93");
        zest_report_value(&text, metric, eval->high);
        zest_buffer_text(&text, ")");
    }
    zest_text_table_cell_buffer(t, &text);
}

static void run_cells(zest_text_table *t, const zest_report_run *run) {
    zest_buffer step = {0}, steps = {0}, seconds = {0};
    zest_text_table_cell(t, run->name);
    eval_cell(t, run, &run->dev);
    eval_cell(t, run, &run->test);
    zest_text_table_cell(t, run->method);
    zest_text_table_cell(t, run->t);
    zest_text_table_cell(t, run->lr);
    zest_text_table_cell(t, run->seed);
    if (*run->dev.part) zest_buffer_format(&step, "%llu", (unsigned long long)run->best_step);
    zest_text_table_cell_buffer(t, &step);
    zest_buffer_format(&steps, "%llu", (unsigned long long)run->steps);
    zest_text_table_cell_buffer(t, &steps);
    if (isfinite(run->seconds)) zest_buffer_format(&seconds, "%.0f s", run->seconds);
    zest_text_table_cell_buffer(t, &seconds);
    zest_text_table_cell(t, run->state == ZEST_REPORT_FINISHED ? "" : zest_report_state_name(run->state));
}

static void add_conclusion(const zest_report *report, zest_buffer *out) {
    size_t count;
    zest_conclusion *all = zest_report_conclude(report, &count);
    zest_buffer lead = {0};
    if (all) zest_conclusion_lead(all, count, &lead);
    out->failed |= !all || lead.failed;
    zest_text_table_paragraph(out, lead.data ? lead.data : "");
    if (lead.size) zest_buffer_text(out, "\n");
    zest_buffer_free(&lead);
    free(all);
}

static int print_table(const zest_report *report, const char *path) {
    static const zest_text_column columns[] = {
        {"run", ZEST_TEXT_NAME},    {"dev", ZEST_TEXT_NUMBER},  {"test", ZEST_TEXT_NUMBER},
        {"method", ZEST_TEXT_LEFT}, {"t", ZEST_TEXT_NUMBER},    {"lr", ZEST_TEXT_NUMBER},
        {"seed", ZEST_TEXT_NUMBER}, {"best", ZEST_TEXT_NUMBER}, {"steps", ZEST_TEXT_NUMBER},
        {"time", ZEST_TEXT_NUMBER}, {"state", ZEST_TEXT_LEFT}};
    zest_text_table t = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
    zest_buffer text = {0};
    add_conclusion(report, &text);
    for (size_t i = 0; i < report->count; i++) run_cells(&t, &report->runs[i]);
    zest_text_table_write(&t, &text);
    zest_text_table_free(&t);
    zest_buffer_format(&text, "page  %s\n", path);
    return zest_output_buffer(&text);
}

/* ---- Command ---- */

/* The default path of the page: in the run or sweep, or in the current folder for several. To be freed. */
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
    int const writes_page = *out || !json || *zest_options_text(options, ZEST_OPTION_FIGURES);
    char *path = *out ? strdup(out) : default_path(&report, words[0]);
    int code = path ? ZEST_EXIT_OK : zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for a path");
    if (path && writes_page) code = write_page(&report, options, path);
    if (!code && json) code = print_json(&report, writes_page ? path : NULL);
    if (!code && !json) code = print_table(&report, path);
    free(path);
    zest_report_free(&report);
    return code;
}

const zest_command zest_command_report = {
    .name = "report",
    .words = "RUN|SWEEP...",
    .min_words = 1,
    .max_words = 1024,
    .summary = "compare runs in one HTML page",
    .description =
        "Reads the log of each run (a folder of zest train, finished or not; a sweep means all its runs) "
        "and writes one HTML page that needs no network and no script. The page starts with the result as "
        "a sentence: with MeZO among the runs, the difference of each other setting on the same seeds, its "
        "95 % interval and a verdict, which needs 3 seeds. Then come a table of the runs, curves of the "
        "loss, the dev metric, the tilt and the speed, the test metric against t when runs differ in it, "
        "and the options and the command of each run. Without --out the page is RUN/report.html, or "
        "report.html for several runs. The sentence and the table are printed, too. The page of a sweep "
        "starts with its tables, results against t (means and standard errors over seeds, MeZO as a band) "
        "and the dev metric over time for each t.\n\n"
        "--json prints them as JSON instead; with --out or --figures it writes the page as well.",
    .examples = "zest report run1\twrites run1/report.html\n"
                "zest report mezo zest-t1 zest-t5 --out compare.html\tcompares three runs\n"
                "zest report run1 --figures plots\talso writes each figure as an SVG file\n"
                "zest report sweep1 --out sweep1.html --figures plots\ta sweep; results against t are "
                "plots/by-t-test.svg",
    .options = "out\tpage to write; without it RUN/report.html, or report.html for several runs",
    .defaults = "",
    .users = ZEST_FOR_REPORT,
    .run = run,
};
