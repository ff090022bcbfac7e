/* Tables of the report: all runs, means over seeds, and the details of each run with the command that
 * repeats it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "lab/report/report_page.h"

#define EN_DASH "\xe2\x80\x93"

enum { MAX_EXTRA = 4 };

/* Options that differ between the runs but do not describe the method. */
static int is_plain(const char *name) {
    static const char *const plain[] = {"method", "t",     "lr",      "seed", "steps", "out", "resume",
                                        "quiet",  "model", "threads", "data", "json",  "live"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (!strcmp(plain[i], name)) return 1;
    return 0;
}

/* Options in which the runs differ and which get a column. */
static size_t find_extra(const zest_report *report, const char **extra) {
    size_t count = 0;
    if (!report->count) return 0;
    const zest_log *first = &report->runs[0].log;
    const zest_log_start *start = &first->starts[first->start_count - 1];
    for (size_t i = 0; i < start->option_count && count < MAX_EXTRA; i++) {
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

/* The best value of a column; NaN when runs have different metrics, or there is only one. */
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
    zest_report_chip(out, &report->series[run->series].style);
    zest_report_escape(out, run->name);
    zest_buffer_text(out, "</a></th>");
    metric_cell(out, run, &run->dev, run->dev.value == top_of(report, 0));
    metric_cell(out, run, &run->test, run->test.value == top_of(report, 1));
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
    zest_buffer_text(out, "</td><td class=\"n\">");
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
    const char *extra[MAX_EXTRA], *metric = metric_of_all(report);
    size_t const extra_count = find_extra(report, extra);
    if (report->sweep) zest_buffer_format(out, "<details><summary>All %zu runs</summary>\n", report->count);
    zest_buffer_text(
        out, "<div class=\"scroll runs\" tabindex=\"0\" role=\"region\" aria-labelledby=\"runs\"><table>\n"
             "<thead><tr><th scope=\"col\">run</th>");
    metric_heading(out, "dev", metric);
    metric_heading(out, "test", metric);
    zest_buffer_text(out, "<th scope=\"col\">method</th><th scope=\"col\" class=\"n\">t</th>"
                          "<th scope=\"col\" class=\"n\">lr</th><th scope=\"col\" class=\"n\">seed</th>");
    extra_headings(out, extra, extra_count);
    zest_buffer_text(out,
                     "<th scope=\"col\" class=\"n\">steps</th><th scope=\"col\" class=\"n\">best step</th>"
                     "<th scope=\"col\" class=\"n\">time</th><th scope=\"col\" class=\"n\">peak memory</th>"
                     "<th scope=\"col\">state</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < report->count; i++) run_row(out, report, i, extra, extra_count);
    zest_buffer_text(
        out,
        "</tbody></table></div>\n<p class=\"note\">Dev and test at the best step, with the 95\xe2\x80\xaf% "
        "interval of one run on its examples.");
    if (report->count > 1) zest_buffer_text(out, " Bold: the best value, which may be chance.");
    zest_buffer_text(out, report->sweep ? "</p>\n</details>\n" : "</p>\n");
}

/* ---- Means over seeds ---- */

/* Over the runs of a setting. */
static zest_sample mean_of(const zest_report *report, size_t setting, int test, double *values) {
    size_t used = 0;
    for (size_t i = 0; i < report->count; i++)
        if (report->runs[i].setting == setting)
            values[used++] = test ? report->runs[i].test.value : report->runs[i].dev.value;
    return zest_sample_of(values, used);
}

/* "84.1 \xc2\xb1 0.3": the error is that of the mean. */
static void mean_cell(zest_buffer *out, const char *metric, const zest_sample *mean) {
    zest_buffer_text(out, "<td class=\"n\">");
    zest_report_value(out, metric, mean->mean);
    if (mean->n > 1) {
        zest_buffer_text(out, " \xc2\xb1\xe2\x80\xaf");
        zest_report_value(out, metric, mean->error);
    }
    zest_buffer_text(out, "</td>");
}

static void setting_row(zest_buffer *out, const zest_report *report, size_t setting, double *values) {
    const zest_report_setting *s = &report->settings[setting];
    const char *metric = zest_report_metric(&report->runs[s->first]);
    zest_sample const dev = mean_of(report, setting, 0, values), test = mean_of(report, setting, 1, values);
    zest_buffer_text(out, "<tr><th scope=\"row\">");
    zest_report_chip(out, &report->series[report->runs[s->first].series].style);
    zest_report_escape(out, s->name);
    zest_buffer_text(out, "</th>");
    mean_cell(out, metric, &dev);
    mean_cell(out, metric, &test);
    zest_buffer_format(out, "<td class=\"n\">%zu</td></tr>\n", s->count);
}

/* The tables of a sweep already have them. */
void zest_report_settings(zest_report_page *page) {
    const zest_report *report = page->report;
    zest_buffer *out = &page->body;
    if (report->sweep || report->setting_count == report->count) return;
    double *values = malloc((report->count + 1) * sizeof *values);
    if (!values) {
        page->status = zest_error_memory(&page->error, "means", report->count * sizeof *values);
        return;
    }
    zest_buffer_text(
        out,
        "<div class=\"scroll runs\" tabindex=\"0\" role=\"region\" aria-labelledby=\"settings\"><table>\n"
        "<thead><tr><th scope=\"col\">setting</th>");
    metric_heading(out, "dev", metric_of_all(report));
    metric_heading(out, "test", metric_of_all(report));
    zest_buffer_text(out, "<th scope=\"col\" class=\"n\">runs</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < report->setting_count; i++) setting_row(out, report, i, values);
    zest_buffer_text(out,
                     "</tbody></table></div>\n<p class=\"note\">Runs that differ in the seed alone: mean "
                     "\xc2\xb1 standard error over seeds.</p>\n");
    free(values);
}

/* ---- Details of each run ---- */

enum { COMMAND_WIDTH = 96 };

/* ---- The command ---- */

/* A word quoted for the shell. */
static void add_word(zest_buffer *out, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";
    if (*text && strspn(text, plain) == strlen(text)) {
        zest_buffer_text(out, text);
        return;
    }
    zest_buffer_text(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            zest_buffer_text(out, "'\\''");
        else
            zest_buffer_add(out, text, 1);
    }
    zest_buffer_text(out, "'");
}

/* The default of `zest train`; NULL for an option of another version. */
static const char *default_of(const zest_options *defaults, const char *name) {
    zest_option_id const id = zest_option_find(name, ZEST_FOR_TRAINING);
    return id == ZEST_OPTION_COUNT ? NULL : zest_options_text(defaults, id);
}

static int is_changed(const zest_options *defaults, const zest_log_option *option) {
    const char *fallback = default_of(defaults, option->name);
    return !fallback || strcmp(fallback, option->value);
}

static void apply_defaults(const zest_report *report, zest_options *defaults) {
    zest_options_init(defaults);
    if (report->defaults) zest_options_set_default(defaults, report->defaults, NULL);
}

/* "--name value", quoted for the shell. */
static void add_option(zest_buffer *out, const zest_log_option *option) {
    zest_option_id const id = zest_option_find(option->name, ZEST_FOR_TRAINING);
    int const flag = id != ZEST_OPTION_COUNT && zest_option_row_at(id)->kind == ZEST_KIND_FLAG;
    zest_buffer name = {0};
    zest_buffer_format(&name, "--%s%s", flag && !strcmp(option->value, "no") ? "no-" : "", option->name);
    add_word(out, name.data ? name.data : "");
    out->failed |= name.failed;
    zest_buffer_free(&name);
    if (flag) return;
    zest_buffer_text(out, " ");
    add_word(out, option->value);
}

/* A run on plain text is one of zest pretrain, which sets some options itself. */
static int is_pretraining(const zest_report_run *run) {
    const char *text = zest_log_find_option(&run->log, "text");
    return text && *text;
}

static int is_implied(const zest_report_run *run, const char *name) {
    return is_pretraining(run) && zest_option_find(name, ZEST_FOR_PRETRAIN) == ZEST_OPTION_COUNT;
}

/* In lines of about so many characters, continued by a backslash. */
static void add_command(const zest_report *report, const zest_report_run *run, size_t width,
                        zest_buffer *out) {
    const zest_log_start *start = &run->log.starts[run->log.start_count - 1];
    size_t line = out->size;
    zest_options defaults;
    apply_defaults(report, &defaults);
    zest_buffer_text(out, is_pretraining(run) ? "zest pretrain" : "zest train");
    for (size_t i = 0; i < start->option_count; i++) {
        zest_buffer words = {0};
        if (!is_changed(&defaults, &start->options[i]) || !strcmp(start->options[i].name, "resume") ||
            is_implied(run, start->options[i].name))
            continue;
        add_option(&words, &start->options[i]);
        zest_buffer_text(out, " ");
        if (out->size - line + words.size > width) {
            zest_buffer_text(out, "\\\n");
            line = out->size;
            zest_buffer_text(out, "  ");
        }
        zest_buffer_add(out, words.data, words.size);
        out->failed |= words.failed;
        zest_buffer_free(&words);
    }
    zest_options_free(&defaults);
}

void zest_report_command(const zest_report *report, const zest_report_run *run, zest_buffer *out) {
    add_command(report, run, SIZE_MAX, out);
}

/* ---- Facts ---- */

static void fact(zest_buffer *out, const char *name, const char *text) {
    if (!text || !*text) return;
    zest_buffer_format(out, "<dt>%s</dt><dd>", name);
    zest_report_escape(out, text);
    zest_buffer_text(out, "</dd>\n");
}

static void count_fact(zest_buffer *out, const char *name, uint64_t count) {
    zest_buffer_format(out, "<dt>%s</dt><dd>", name);
    zest_report_count(out, count);
    zest_buffer_text(out, "</dd>\n");
}

static void model_facts(zest_buffer *out, const zest_log_start *start) {
    fact(out, "model", start->model.family);
    count_fact(out, "parameters", start->model.parameters);
    if (start->model.trained != start->model.parameters)
        count_fact(out, "of them trained", start->model.trained);
    fact(out, "weights", start->model.weights);
    fact(out, "arithmetic", start->model.compute);
    fact(out, "device", start->model.device);
    fact(out, "task", start->task.name);
    fact(out, "metric", start->task.metric);
    zest_buffer_text(out, "<dt>examples</dt><dd>");
    zest_report_count(out, start->train);
    zest_buffer_text(out, " train, ");
    zest_report_count(out, start->dev);
    zest_buffer_text(out, " dev, ");
    zest_report_count(out, start->test);
    zest_buffer_text(out, " test</dd>\n");
}

static void course_facts(zest_buffer *out, const zest_report_run *run) {
    const zest_log *log = &run->log;
    uint64_t dropped = 0;
    for (size_t i = 0; i < log->step_count; i++) dropped += log->steps[i].dropped;
    fact(out, "folder", run->path);
    zest_buffer_text(out, "<dt>started</dt><dd>");
    zest_report_time(out, log->starts[0].time);
    if (log->start_count > 1) zest_buffer_format(out, ", in %zu sessions", log->start_count);
    zest_buffer_text(out, "</dd>\n");
    fact(out, "zest", log->starts[log->start_count - 1].version);
    if (log->end) fact(out, "ended because", log->end->reason);
    if (dropped) {
        zest_buffer_text(out, "<dt>left out</dt><dd>");
        zest_report_count(out, dropped);
        zest_buffer_format(out, " pair%s with a loss that is not finite</dd>\n", dropped > 1 ? "s" : "");
    }
    if (log->bad) {
        zest_buffer_text(out, "<dt>log</dt><dd>");
        zest_report_count(out, log->bad);
        zest_buffer_format(out, " line%s cannot be read</dd>\n", log->bad > 1 ? "s" : "");
    }
    if (log->torn) fact(out, "log", "the last line is torn, as after a kill");
}

static void add_options(zest_buffer *out, const zest_options *defaults, const zest_log_start *start) {
    zest_buffer_text(out, "<h4>Options</h4>\n<ul class=\"options\">\n");
    for (int changed = 1; changed >= 0; changed--)
        for (size_t i = 0; i < start->option_count; i++) {
            if (is_changed(defaults, &start->options[i]) != changed) continue;
            zest_buffer_text(out, changed ? "<li class=\"changed\">" : "<li>");
            zest_report_escape(out, start->options[i].name);
            zest_buffer_text(out, " = ");
            zest_report_escape(out, start->options[i].value);
            zest_buffer_text(out, "</li>\n");
        }
    zest_buffer_text(out, "</ul>\n<p class=\"note\">In bold what differs from the defaults.</p>\n");
}

/* zest_report_escape removes line breaks; here they are needed. */
static void write_command(zest_report_page *page, const zest_report_run *run) {
    zest_buffer command = {0};
    add_command(page->report, run, COMMAND_WIDTH, &command);
    zest_buffer_text(&page->body, "<h4>To run it again</h4>\n<pre><code>");
    for (char *line = command.data, *end; line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) *end = '\0';
        zest_report_escape(&page->body, line);
        if (end) zest_buffer_text(&page->body, "\n");
    }
    zest_buffer_text(&page->body, "</code></pre>\n");
    page->body.failed |= command.failed;
    zest_buffer_free(&command);
}

void zest_report_details(zest_report_page *page) {
    zest_buffer *out = &page->body;
    zest_options defaults;
    apply_defaults(page->report, &defaults);
    for (size_t i = 0; i < page->report->count; i++) {
        const zest_report_run *run = &page->report->runs[i];
        const zest_log_start *start = &run->log.starts[run->log.start_count - 1];
        zest_buffer_format(out, "<details class=\"run\" id=\"run-%zu\"%s><summary>", i + 1,
                           page->report->count == 1 ? " open" : "");
        zest_report_chip(out, &page->report->series[run->series].style);
        zest_buffer_text(out, "<b>");
        zest_report_escape(out, run->name);
        zest_buffer_text(out, "</b><span>");
        zest_report_escape(out, run->method);
        zest_buffer_text(out, ", t = ");
        zest_report_escape(out, run->t);
        zest_buffer_text(out, "</span></summary>\n<dl>\n");
        course_facts(out, run);
        model_facts(out, start);
        zest_buffer_text(out, "</dl>\n");
        write_command(page, run);
        add_options(out, &defaults, start);
        zest_buffer_text(out, "</details>\n");
    }
    zest_options_free(&defaults);
}
