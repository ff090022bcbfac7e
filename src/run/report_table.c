/* The table of the runs, and the means over seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/report_page.h"

#define EN_DASH "\xe2\x80\x93"

enum { EXTRA_MOST = 4 };

/* Options that differ between the runs but say nothing about the method. */
static int is_plain(const char *name) {
    static const char *const plain[] = {"method", "t",     "lr",      "seed", "steps", "out", "resume",
                                        "quiet",  "model", "threads", "data", "json",  "live"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (!strcmp(plain[i], name)) return 1;
    return 0;
}

/* Options in which the runs differ and which deserve a column. */
static size_t find_extra(const zest_report *report, const char **extra) {
    size_t count = 0;
    if (!report->count) return 0;
    const zest_log *first = &report->runs[0].log;
    const zest_log_start *start = &first->starts[first->start_count - 1];
    for (size_t i = 0; i < start->option_count && count < EXTRA_MOST; i++) {
        int differs = 0;
        for (size_t j = 1; j < report->count; j++) {
            const char *other = zest_log_find_option(&report->runs[j].log, start->options[i].name);
            differs |= !other || strcmp(other, start->options[i].value);
        }
        if (differs && !is_plain(start->options[i].name)) extra[count++] = start->options[i].name;
    }
    return count;
}

static void text_cell(zest_buffer *out, const char *class_name, const char *text) {
    zest_buffer_format(out, "<td%s>", class_name);
    if (text && *text)
        zest_report_escape(out, text);
    else
        zest_buffer_text(out, EN_DASH);
    zest_buffer_text(out, "</td>");
}

static void metric_cell(zest_buffer *out, const zest_report_run *run, const zest_log_eval *eval, int top) {
    zest_buffer_format(out, "<td class=\"n%s\">", top ? " top" : "");
    zest_report_value(out, zest_report_metric(run), eval->value);
    zest_report_interval(out, zest_report_metric(run), *eval);
    zest_buffer_text(out, "</td>");
}

/* The best value of a column; NaN when runs are judged by different metrics, or there is but one. */
static double top_of(const zest_report *report, int test) {
    double top = NAN;
    int const lower = report->count && !strcmp(zest_report_metric(&report->runs[0]), "loss");
    for (size_t i = 0; i < report->count; i++) {
        double const value = test ? report->runs[i].test.value : report->runs[i].dev.value;
        if (strcmp(zest_report_metric(&report->runs[i]), zest_report_metric(&report->runs[0]))) return NAN;
        if (isfinite(value) && !(lower ? value >= top : value <= top)) top = value;
    }
    return report->count > 1 && zest_report_is_share(zest_report_metric(&report->runs[0])) ? top : NAN;
}

static void run_row(zest_buffer *out, const zest_report *report, size_t index, const char **extra,
                    size_t extra_count) {
    const zest_report_run *run = &report->runs[index];
    const char *state = zest_report_state_name(run->state);
    zest_buffer_format(out, "<tr><th scope=\"row\"><a href=\"#run-%zu\">", index + 1);
    zest_report_chip(out, run->colour);
    zest_report_escape(out, run->name);
    zest_buffer_text(out, "</a></th>");
    text_cell(out, "", run->method);
    text_cell(out, " class=\"n\"", run->t);
    text_cell(out, " class=\"n\"", run->lr);
    text_cell(out, " class=\"n\"", run->seed);
    for (size_t i = 0; i < extra_count; i++)
        text_cell(out, " class=\"n\"", zest_log_find_option(&run->log, extra[i]));
    zest_buffer_text(out, "<td class=\"n\">");
    zest_report_count(out, run->steps);
    zest_buffer_text(out, "</td><td class=\"n\">");
    if (*run->dev.part)
        zest_report_count(out, run->best_step);
    else
        zest_buffer_text(out, EN_DASH);
    zest_buffer_text(out, "</td>");
    metric_cell(out, run, &run->dev, run->dev.value == top_of(report, 0));
    metric_cell(out, run, &run->test, run->test.value == top_of(report, 1));
    zest_buffer_text(out, "<td class=\"n\">");
    zest_report_duration(out, run->seconds);
    zest_buffer_text(out, "</td><td class=\"n\">");
    zest_report_bytes(out, run->peak_bytes);
    if (run->device_peak_bytes) {
        zest_buffer_text(out, " + GPU ");
        zest_report_bytes(out, run->device_peak_bytes);
    }
    zest_buffer_format(out, "</td><td class=\"state-%.*s\">%s</td></tr>\n", (int)strcspn(state, " "), state,
                       state);
}

static void metric_heading(zest_buffer *out, const char *part, const char *metric) {
    zest_buffer_format(out, "<th scope=\"col\" class=\"n\">%s", part);
    if (*metric) zest_buffer_text(out, " "), zest_report_escape(out, metric);
    if (zest_report_is_share(metric)) zest_buffer_text(out, " (%)");
    zest_buffer_text(out, "</th>");
}

static const char *metric_of_all(const zest_report *report) {
    const char *metric = report->count ? zest_report_metric(&report->runs[0]) : "";
    for (size_t i = 1; i < report->count; i++)
        if (strcmp(metric, zest_report_metric(&report->runs[i]))) return "";
    return metric;
}

static void extra_headings(zest_buffer *out, const char *const *extra, size_t count) {
    for (size_t i = 0; i < count; i++) {
        zest_buffer_text(out, "<th scope=\"col\" class=\"n\">");
        zest_report_escape(out, extra[i]);
        zest_buffer_text(out, "</th>");
    }
}

void zest_report_runs(zest_report_page *page) {
    const zest_report *report = page->report;
    zest_buffer *out = &page->body;
    const char *extra[EXTRA_MOST], *metric = metric_of_all(report);
    size_t const extra_count = find_extra(report, extra);
    zest_buffer_text(
        out, "<div class=\"scroll runs\" tabindex=\"0\" role=\"region\" aria-labelledby=\"runs\"><table>\n"
             "<thead><tr><th scope=\"col\">run</th>"
             "<th scope=\"col\">method</th><th scope=\"col\" class=\"n\">t</th>"
             "<th scope=\"col\" class=\"n\">lr</th><th scope=\"col\" class=\"n\">seed</th>");
    extra_headings(out, extra, extra_count);
    zest_buffer_text(out,
                     "<th scope=\"col\" class=\"n\">steps</th><th scope=\"col\" class=\"n\">best step</th>");
    metric_heading(out, "dev", metric);
    metric_heading(out, "test", metric);
    zest_buffer_text(out,
                     "<th scope=\"col\" class=\"n\">time</th><th scope=\"col\" class=\"n\">peak memory</th>"
                     "<th scope=\"col\">state</th>"
                     "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < report->count; i++) run_row(out, report, i, extra, extra_count);
    zest_buffer_text(
        out, "</tbody></table></div>\n<p class=\"note\">Dev and test at the best step, with 95\xe2\x80\xaf% "
             "intervals.");
    if (report->count > 1)
        zest_buffer_text(out, " Bold: the best; where intervals overlap widely, that is no evidence.");
    zest_buffer_text(out, "</p>\n");
}

/* ---- Means over seeds ---- */

/* Do two runs differ in nothing but the seed and where they are written? */
static int same_setting(const zest_report_run *a, const zest_report_run *b) {
    const zest_log_start *start = &a->log.starts[a->log.start_count - 1];
    const zest_log_start *other_start = &b->log.starts[b->log.start_count - 1];
    if (start->option_count != other_start->option_count) return 0;
    for (size_t i = 0; i < start->option_count; i++) {
        const char *name = start->options[i].name, *other = zest_log_find_option(&b->log, name);
        int const aside =
            !strcmp(name, "seed") || (is_plain(name) && strcmp(name, "method") && strcmp(name, "t") &&
                                      strcmp(name, "lr") && strcmp(name, "steps") && strcmp(name, "model"));
        if (!aside && (!other || strcmp(other, start->options[i].value))) return 0;
    }
    return 1;
}

typedef struct {
    size_t count;
    double mean, sd;
} moments;

static moments moments_of(const zest_report *report, size_t index, int test) {
    moments m = {0};
    double sum = 0, squares = 0;
    for (int round = 0; round < 2; round++) {
        m.count = 0;
        for (size_t i = 0; i < report->count; i++) {
            const zest_report_run *run = &report->runs[i];
            double const value = test ? run->test.value : run->dev.value;
            if (!isfinite(value) || !same_setting(&report->runs[index], run)) continue;
            m.count++;
            if (round)
                squares += (value - m.mean) * (value - m.mean);
            else
                sum += value;
        }
        m.mean = m.count ? sum / (double)m.count : NAN;
    }
    m.sd = m.count > 1 ? sqrt(squares / (double)(m.count - 1)) : NAN;
    return m;
}

static void moments_cells(zest_buffer *out, const char *metric, moments m) {
    zest_buffer_format(out, "<td class=\"n\">");
    zest_report_value(out, metric, m.mean);
    zest_buffer_text(out, "</td><td class=\"n\">");
    zest_report_value(out, metric, m.sd);
    zest_buffer_text(out, "</td>");
}

static int is_first(const zest_report *report, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (same_setting(&report->runs[index], &report->runs[i])) return 0;
    return 1;
}

static size_t most_seeds(const zest_report *report) {
    size_t most = 0;
    for (size_t i = 0; i < report->count; i++) {
        size_t const dev = moments_of(report, i, 0).count, test = moments_of(report, i, 1).count;
        if (dev > most) most = dev;
        if (test > most) most = test;
    }
    return most;
}

void zest_report_settings(zest_report_page *page) {
    const zest_report *report = page->report;
    zest_buffer *out = &page->body;
    const char *extra[EXTRA_MOST];
    size_t const extra_count = find_extra(report, extra);
    if (most_seeds(report) < 2) return;
    zest_buffer_text(
        out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"settings\"><table>\n"
             "<thead><tr><th scope=\"col\">method</th><th scope=\"col\" class=\"n\">t</th>"
             "<th scope=\"col\" class=\"n\">lr</th>");
    extra_headings(out, extra, extra_count);
    zest_buffer_text(out, "<th scope=\"col\" class=\"n\">runs</th>"
                          "<th scope=\"col\" class=\"n\">dev mean</th><th scope=\"col\" class=\"n\">sd</th>"
                          "<th scope=\"col\" class=\"n\">test mean</th><th scope=\"col\" class=\"n\">sd</th>"
                          "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < report->count; i++) {
        const zest_report_run *run = &report->runs[i];
        if (!is_first(report, i)) continue;
        moments const dev = moments_of(report, i, 0), test = moments_of(report, i, 1);
        zest_buffer_text(out, "<tr><th scope=\"row\">");
        zest_report_escape(out, run->method);
        zest_buffer_text(out, "</th>");
        text_cell(out, " class=\"n\"", run->t);
        text_cell(out, " class=\"n\"", run->lr);
        for (size_t e = 0; e < extra_count; e++)
            text_cell(out, " class=\"n\"", zest_log_find_option(&run->log, extra[e]));
        zest_buffer_format(out, "<td class=\"n\">%zu</td>", dev.count > test.count ? dev.count : test.count);
        moments_cells(out, zest_report_metric(run), dev);
        moments_cells(out, zest_report_metric(run), test);
        zest_buffer_text(out, "</tr>\n");
    }
    zest_buffer_text(
        out, "</tbody></table></div>\n<p class=\"note\">Runs that differ in nothing but the seed; sd: "
             "standard deviation between them.</p>\n");
}
