/* The HTML report: its sections, the head of the page, and the conclusions. To add a section, write a
 * function that appends HTML to page->body and add a row to the list. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lab/report/report.h"
#include "lab/report/report_page.h"

typedef struct {
    const char *id, *heading;
    void (*write)(zest_report_page *page); /* adds nothing when the runs have no data for it */
    int curves;                            /* has a curve for each run */
} section;

static const section sections[] = {
    {"results", "Results", zest_report_sweep, 0},
    {"by-t", "Results by t", zest_report_sweep_tilts, 0},
    {"runs", "Runs", zest_report_runs, 0},
    {"settings", "Mean over seeds", zest_report_settings, 0},
    {"training", "Training", zest_report_losses, 1},
    {"evaluation", "Development set", zest_report_dev, 1},
    {"sensitivity", "Sensitivity to t", zest_report_sensitivity, 1},
    {"tilt", "Tilt", zest_report_tilt, 1},
    {"sharpness", "Sharpness", zest_report_sharpness, 0},
    {"speed", "Speed", zest_report_speed, 1},
    {"details", "Each run", zest_report_details, 0},
};
enum { SECTIONS = sizeof sections / sizeof sections[0], LEGEND_BEFORE = 4 };
/* With more runs a sweep shows only means. With more series there is no legend. */
enum { MAX_CURVES = 30, MAX_SERIES = 24, MAX_SENTENCES = 8 };

/* ---- Head of the page ---- */

/* A value that all runs share, or NULL. */
static const char *shared(const zest_report *report, const char *(*fact)(const zest_report_run *)) {
    const char *first = report->count ? fact(&report->runs[0]) : NULL;
    for (size_t i = 1; first && i < report->count; i++) {
        const char *other = fact(&report->runs[i]);
        if (!other || strcmp(first, other)) return NULL;
    }
    return first && *first ? first : NULL;
}

static const zest_log_start *session(const zest_report_run *run) {
    return &run->log.starts[run->log.start_count - 1];
}
static const char *task_of(const zest_report_run *run) { return session(run)->task.name; }
static const char *family_of(const zest_report_run *run) { return session(run)->model.family; }
static const char *device_of(const zest_report_run *run) { return session(run)->model.device; }

static void write_title(const zest_report *report, zest_buffer *out) {
    const char *task = shared(report, task_of);
    if (report->count == 1)
        zest_report_escape(out, report->runs[0].name);
    else
        zest_buffer_format(out, "%s%zu runs", report->sweep ? "A sweep of " : "", report->count);
    if (!task) return;
    zest_buffer_text(out, report->count == 1 ? ": " : " on ");
    zest_report_escape(out, task);
}

/* Runs on several tasks, or on samples of several sizes, have no numbers in common. */
static int same_examples(const zest_report *report) {
    for (size_t i = 1; i < report->count; i++) {
        const zest_log_start *a = session(&report->runs[0]), *b = session(&report->runs[i]);
        if (a->train != b->train || a->dev != b->dev || a->test != b->test) return 0;
    }
    return shared(report, task_of) != NULL;
}

/* The result first. */
static void write_conclusion(zest_report_page *page, zest_buffer *out) {
    size_t count;
    zest_conclusion *all = zest_report_conclude(page->report, &count);
    zest_buffer text = {0};
    if (!all) page->status = zest_error_memory(&page->error, "the conclusion", 0);
    if (all) zest_conclusion_lead(all, count, &text);
    if (text.size) {
        zest_buffer_text(out, "<p class=\"lead\">");
        zest_report_escape(out, text.data);
        zest_buffer_text(out, "</p>\n");
    }
    if (all && count > 1 && count <= MAX_SENTENCES) {
        zest_buffer_text(out, "<ul class=\"conclusions\">\n");
        for (size_t i = 0; i < count; i++) {
            text.size = 0;
            zest_conclusion_sentence(&all[i], &text);
            zest_buffer_text(out, "<li>");
            zest_report_escape(out, text.data ? text.data : "");
            zest_buffer_text(out, "</li>\n");
        }
        zest_buffer_text(out, "</ul>\n");
    }
    out->failed |= text.failed;
    zest_buffer_free(&text);
    free(all);
}

static void write_header(zest_report_page *page, zest_buffer *out) {
    const zest_report *report = page->report;
    const char *family = shared(report, family_of), *device = shared(report, device_of);
    const zest_log_start *start = report->count ? session(&report->runs[0]) : NULL;
    zest_buffer_text(out, "<header>\n<h1>");
    write_title(report, out);
    zest_buffer_text(out, "</h1>\n");
    write_conclusion(page, out);
    zest_buffer_text(out, "<p class=\"facts\">");
    if (family) {
        zest_report_escape(out, family);
        zest_buffer_text(out, ", ");
        zest_report_count(out, start->model.parameters);
        zest_buffer_text(out, " parameters");
        if (device) zest_buffer_text(out, " on "), zest_report_escape(out, device);
        zest_buffer_text(out, ". ");
    }
    if (start && start->train && same_examples(report)) {
        zest_buffer_text(out, "Examples: ");
        zest_report_count(out, start->train);
        zest_buffer_text(out, " to train, ");
        zest_report_count(out, start->dev);
        zest_buffer_text(out, " dev, ");
        zest_report_count(out, start->test);
        zest_buffer_text(out, " test.");
    }
    zest_buffer_text(out, "</p>\n</header>\n");
}

/* ---- Legend: one checkbox per series ---- */

static void write_legend(const zest_report *report, zest_buffer *out) {
    if (report->count < 2 || report->series_count > MAX_SERIES) return;
    zest_buffer_text(out, "<fieldset class=\"legend\"><legend>Runs shown in the figures</legend>\n");
    for (size_t i = 0; i < report->series_count; i++) {
        const zest_report_series *series = &report->series[i];
        zest_buffer_format(out, "<label><input type=\"checkbox\" id=\"show-%zu\" checked>", i + 1);
        zest_report_chip(out, &series->style);
        zest_buffer_text(out, "<span>");
        zest_report_escape(out, series->name);
        if (series->count > 1) zest_buffer_format(out, " (%zu runs)", series->count);
        zest_buffer_text(out, "</span></label>\n");
    }
    zest_buffer_text(out, "</fieldset>\n");
}

/* Works without script: an unchecked box hides its series. */
static void write_toggles(const zest_report *report, zest_buffer *out) {
    for (size_t i = 1; i <= report->series_count && report->series_count <= MAX_SERIES; i++)
        zest_buffer_format(out, "body:has(#show-%zu:not(:checked)) figure>svg .g%zu{display:none}\n", i, i);
}

/* ---- Page ---- */

/* The runs of a sweep are too many for curves of their own, or are of different tasks. */
static int has_curves(const zest_report *report) {
    const zest_sweep_summary *s = report->sweep;
    return !s || (s->task_count == 1 && s->noise_count == 1 && report->count <= MAX_CURVES);
}

static void write_sections(zest_report_page *page) {
    for (size_t i = 0; i < SECTIONS && !page->status; i++) {
        if (sections[i].curves && !has_curves(page->report)) continue;
        if (i == LEGEND_BEFORE) write_legend(page->report, &page->body);
        size_t const before = page->body.size;
        zest_buffer_format(&page->body, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n",
                           sections[i].id, sections[i].id, sections[i].heading);
        size_t const opened = page->body.size;
        sections[i].write(page);
        if (page->body.size == opened)
            page->body.size = before;
        else
            zest_buffer_text(&page->body, "</section>\n");
    }
}

static void assemble(zest_report_page *page, zest_buffer *out) {
    zest_buffer_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    write_title(page->report, out);
    zest_buffer_text(out, " \xc2\xb7 zest report</title>\n");
    zest_buffer_add(out, page->style.data, page->style.size);
    zest_buffer_text(out, "<style>\n");
    zest_buffer_text(out, zest_report_css);
    write_toggles(page->report, out);
    zest_buffer_text(out, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#runs\">To the results</a>\n");
    write_header(page, out);
    zest_buffer_text(out, "<main>\n");
    zest_buffer_add(out, page->body.data, page->body.size);
    zest_buffer_text(out, "</main>\n<footer>Made by zest " ZEST_VERSION ", ");
    zest_report_time(out, page->report->now);
    zest_buffer_text(out, ".</footer>\n<script>\n");
    zest_buffer_text(out, zest_report_js);
    zest_buffer_text(out, "</script>\n</body>\n</html>\n");
}

/* The colours of the legend, even on a page without a figure. */
static void extract_style(zest_report_page *page) {
    zest_buffer svg = {0};
    zest_plot *plot = zest_plot_new(1, 1, 100, 100);
    if (zest_plot_svg(plot, &svg)) {
        page->status = zest_error_memory(&page->error, "the report", 0);
    } else {
        const char *from = strstr(svg.data, "<style>"), *to = strstr(svg.data, "</style>");
        if (from && to) zest_buffer_add(&page->style, from, (size_t)(to - from) + strlen("</style>\n"));
    }
    zest_plot_free(plot);
    zest_buffer_free(&svg);
}

zest_status zest_report_write(const zest_report *report, const char *path, const char *figures,
                              zest_error *error) {
    zest_report_page page = {.report = report, .figures = figures};
    zest_buffer out = {0};
    if (figures) page.status = zest_file_make_folder(figures, &page.error);
    if (!page.status) extract_style(&page);
    if (!page.status) write_sections(&page);
    if (!page.status) assemble(&page, &out);
    if (!page.status && (out.failed || page.body.failed || page.style.failed))
        page.status = zest_error_memory(&page.error, path, out.size);
    if (!page.status) page.status = zest_file_write(path, out.data, out.size, &page.error);
    if (page.status) zest_error_set(error, page.status, "%s", page.error.message);
    zest_buffer_free(&page.body);
    zest_buffer_free(&page.style);
    zest_buffer_free(&out);
    return page.status;
}

/* ---- Conclusions: the settings of each method against MeZO, seed by seed ---- */

static double value_of(const zest_report_run *run, int test) {
    return test ? run->test.value : run->dev.value;
}

static size_t examples_of(const zest_report_run *run, int test) {
    const zest_log_eval *eval = test ? &run->test : &run->dev;
    return zest_report_is_share(zest_report_metric(run)) ? (size_t)eval->n : 0;
}

/* The first run of the setting with this seed, or NULL. */
static const zest_report_run *with_seed(const zest_report *report, size_t setting, const char *seed) {
    for (size_t i = report->settings[setting].first; i < report->count; i++)
        if (report->runs[i].setting == setting && !strcmp(report->runs[i].seed, seed))
            return &report->runs[i];
    return NULL;
}

/* Over seeds; base: a setting to subtract, or ZEST_SWEEP_NONE. values: as many numbers as runs. */
static zest_sample sample_of(const zest_report *report, size_t setting, size_t base, int test,
                             double *values) {
    size_t used = 0, examples = SIZE_MAX;
    for (size_t i = 0; i < report->count; i++) {
        const zest_report_run *run = &report->runs[i];
        if (run->setting != setting || with_seed(report, setting, run->seed) != run) continue;
        const zest_report_run *other = base == ZEST_SWEEP_NONE ? NULL : with_seed(report, base, run->seed);
        if (base != ZEST_SWEEP_NONE && !other) continue;
        values[used++] = value_of(run, test) - (other ? value_of(other, test) : 0);
        if (isnan(values[used - 1])) continue;
        if (examples_of(run, test) < examples) examples = examples_of(run, test);
    }
    return zest_paired_sample(values, used, examples == SIZE_MAX ? 0 : examples);
}

/* With one seed the interval is that of the examples. */
static zest_sample value_sample(const zest_report *report, size_t setting, int test, double *values) {
    zest_sample s = sample_of(report, setting, ZEST_SWEEP_NONE, test, values);
    const zest_report_run *run = &report->runs[report->settings[setting].first];
    if (s.n == 1 && report->settings[setting].count == 1) {
        s.low = test ? run->test.low : run->dev.low;
        s.high = test ? run->test.high : run->dev.high;
    }
    return s;
}

/* ---- Selection of comparisons ---- */

static int is_method(const zest_report *report, size_t setting, const char *method) {
    return !strcmp(report->runs[report->settings[setting].first].method, method);
}

/* The same examples: of the same task, as many, with as much label noise. */
static int conclusion_same_examples(const zest_report_run *a, const zest_report_run *b) {
    const zest_log_start *x = &a->log.starts[a->log.start_count - 1],
                         *y = &b->log.starts[b->log.start_count - 1];
    const char *noise = zest_log_find_option(&a->log, "label-noise"),
               *other = zest_log_find_option(&b->log, "label-noise");
    return x->task.name && y->task.name && !strcmp(x->task.name, y->task.name) && x->train == y->train &&
           x->dev == y->dev && x->test == y->test && !strcmp(noise ? noise : "", other ? other : "") &&
           !strcmp(zest_report_metric(a), zest_report_metric(b));
}

/* The best setting on dev of a method (NULL: of any), or ZEST_SWEEP_NONE. */
static size_t best_setting(const zest_report *report, const char *method, double *values) {
    size_t best = ZEST_SWEEP_NONE;
    double top = NAN;
    for (size_t i = 0; i < report->setting_count; i++) {
        const char *metric = zest_report_metric(&report->runs[report->settings[i].first]);
        double const dev = sample_of(report, i, ZEST_SWEEP_NONE, 0, values).mean;
        if ((method && !is_method(report, i, method)) || isnan(dev)) continue;
        if (best == ZEST_SWEEP_NONE || (zest_conclusion_lower_is_better(metric) ? dev < top : dev > top))
            best = i, top = dev;
    }
    return best;
}

static void conclude(const zest_report *report, size_t setting, size_t base, int test, double *values,
                     zest_conclusion *c) {
    const zest_report_run *run = &report->runs[report->settings[setting].first];
    *c = (zest_conclusion){.value = value_sample(report, setting, test, values)};
    snprintf(c->method, sizeof c->method, "%s", report->settings[setting].name);
    snprintf(c->metric, sizeof c->metric, "%s", zest_report_metric(run));
    snprintf(c->part, sizeof c->part, "%s", test ? "test" : "dev");
    if (base == ZEST_SWEEP_NONE) return;
    snprintf(c->base, sizeof c->base, "%s", report->settings[base].name);
    c->difference = sample_of(report, setting, base, test, values);
}

static int any_test(const zest_report *report) {
    for (size_t i = 0; i < report->count; i++)
        if (isfinite(report->runs[i].test.value)) return 1;
    return 0;
}

static size_t find_base(const zest_report *report, double *values) {
    size_t const mezo = best_setting(report, "mezo", values);
    return mezo != ZEST_SWEEP_NONE ? mezo : best_setting(report, "sgd", values);
}

/* All comparisons with the base; without any, the best setting on dev. */
static size_t conclude_all(const zest_report *report, double *values, zest_conclusion *all) {
    int const test = any_test(report);
    size_t const base = find_base(report, values);
    size_t count = 0;
    for (size_t i = 0; base != ZEST_SWEEP_NONE && i < report->setting_count; i++) {
        const zest_report_run *own = &report->runs[report->settings[i].first],
                              *other = &report->runs[report->settings[base].first];
        if (!strcmp(own->method, other->method) || !conclusion_same_examples(own, other)) continue;
        conclude(report, i, base, test, values, &all[count]);
        count += (size_t)zest_conclusion_compares(&all[count]);
    }
    size_t const best = count ? ZEST_SWEEP_NONE : best_setting(report, NULL, values);
    if (best != ZEST_SWEEP_NONE) conclude(report, best, ZEST_SWEEP_NONE, test, values, &all[count++]);
    return count;
}

zest_conclusion *zest_report_conclude(const zest_report *report, size_t *count) {
    if (report->sweep) return zest_sweep_conclude_all(report->sweep, count);
    zest_conclusion *all = calloc(report->setting_count + 1, sizeof *all);
    double *values = malloc((report->count + 1) * sizeof *values);
    *count = all && values ? conclude_all(report, values, all) : 0;
    if (!values) free(all), all = NULL;
    free(values);
    return all;
}
