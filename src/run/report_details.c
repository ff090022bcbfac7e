/* Everything else about each run: facts, the command that makes it again, all options. */
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "run/report_page.h"

enum { COMMAND_WIDTH = 96 };

/* ---- The command ---- */

/* A word for the shell. */
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

/* What `zest train` takes when the option is not given; NULL for an option of another version. */
static const char *default_of(const zest_options *defaults, const char *name) {
    zest_option_id const id = zest_option_find(name, ZEST_FOR_TRAINING);
    return id == ZEST_OPTION_COUNT ? NULL : zest_options_text(defaults, id);
}

static int is_changed(const zest_options *defaults, const zest_log_option *option) {
    const char *fallback = default_of(defaults, option->name);
    return !fallback || strcmp(fallback, option->value);
}

static void take_defaults(const zest_report *report, zest_options *defaults) {
    zest_options_init(defaults);
    if (report->defaults) zest_options_preset(defaults, report->defaults, NULL);
}

/* "--name value" as the shell wants it. */
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

/* A run on text is one of zest pretrain, which chooses some of the options of zest train itself. */
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
    take_defaults(report, &defaults);
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

/* zest_report_escape leaves line breaks out; here they are wanted. */
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
    take_defaults(page->report, &defaults);
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
