/* What the evaluations tell: the dev set over time, and the test set over t. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "run/report_page.h"

/* The metric that all runs share, or "". */
static const char *shared_metric(const zest_report *report) {
    const char *first = report->count ? zest_report_metric(&report->runs[0]) : "";
    for (size_t i = 1; i < report->count; i++)
        if (strcmp(first, zest_report_metric(&report->runs[i]))) return "";
    return first;
}

/* "accuracy (%)" */
static void label_of(const char *metric, char *room, size_t size) {
    char *clean = zest_report_clean(metric);
    snprintf(room, size, "%s%s", clean && *clean ? clean : "value of the metric",
             zest_report_is_share(metric) ? " (%)" : "");
    free(clean);
}

/* "Dev accuracy", "Dev metric" where runs have different ones */
static void title_of(const char *part, const char *metric, const char *rest, char *room, size_t size) {
    char *clean = zest_report_clean(metric);
    snprintf(room, size, "%s %s%s", part, clean && *clean ? clean : "metric", rest);
    free(clean);
}

/* ---- Dev ---- */

static double value_of(const zest_log_eval *e) { return e->value; }
static double loss_of(const zest_log_eval *e) { return e->loss; }

static int dev_curve(zest_report_page *page, zest_report_curve *c, const zest_report_run *run,
                     double (*read)(const zest_log_eval *), int intervals) {
    size_t count = 0;
    for (size_t i = 0; i < run->log.eval_count; i++) count += !strcmp(run->log.evals[i].part, "dev");
    if (!count || !zest_report_curve_room(page, c, count, intervals)) return 0;
    count = 0;
    for (size_t i = 0; i < run->log.eval_count; i++) {
        const zest_log_eval *e = &run->log.evals[i];
        if (strcmp(e->part, "dev")) continue;
        c->x[count] = (double)e->step;
        c->y[count] = read(e);
        if (intervals) c->low[count] = e->low, c->high[count] = e->high;
        if (e->step == run->best_step && *run->dev.part) c->best = count;
        count++;
    }
    return 1;
}

static int dev_figure(zest_report_page *page, zest_report_figure *f, double (*read)(const zest_log_eval *),
                      int intervals) {
    f->x = "step";
    f->marks = 1;
    f->guide = NAN;
    if (zest_report_figure_begin(page, f))
        for (size_t i = 0; i < f->count && !page->status; i++)
            dev_curve(page, &f->curves[i], &page->report->runs[i], read, intervals);
    return zest_report_figure_end(page, f);
}

static int has_dev_loss(const zest_report *report) {
    for (size_t i = 0; i < report->count; i++)
        for (size_t j = 0; j < report->runs[i].log.eval_count; j++) {
            const zest_log_eval *e = &report->runs[i].log.evals[j];
            if (!strcmp(e->part, "dev") && isfinite(e->loss)) return 1;
        }
    return 0;
}

void zest_report_dev(zest_report_page *page) {
    size_t const before = page->body.size;
    const char *metric = shared_metric(page->report);
    char label[80], title[80];
    label_of(metric, label, sizeof label);
    title_of("Dev", metric, "", title, sizeof title);
    zest_report_figure value = {.id = "dev",
                                .title = title,
                                .description =
                                    "Metric on the dev set against the step; the best point is a star.",
                                .y = label,
                                .metric = metric,
                                .wide = !has_dev_loss(page->report)};
    zest_report_figure loss = {.id = "dev-loss",
                               .title = strcmp(metric, "loss") ? "Dev loss" : "Mean dev loss",
                               .description =
                                   "Loss on the dev set against the step; the chosen point is a star.",
                               .y = "loss",
                               .metric = ""};
    zest_buffer_text(&value.caption, "Star: the best point of a run, whose weights are kept.");
    if (page->report->count <= 2)
        zest_buffer_text(&value.caption, " Shaded: the 95\xe2\x80\xaf% interval of a run on its examples.");
    zest_buffer_text(&loss.caption, "Star: the point whose weights are kept.");
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    int any = dev_figure(page, &value, value_of, 1);
    if (!page->status) any |= dev_figure(page, &loss, loss_of, 0);
    zest_buffer_free(&loss.caption);
    if (any)
        zest_buffer_text(&page->body, "</div>\n");
    else
        page->body.size = before;
}

/* ---- t ---- */

enum { TILTS_MOST = 24 };

/* The result of a run on one part. */
static const zest_log_eval *result(const zest_report_run *run, int test) {
    return test ? &run->test : &run->dev;
}

static int counts(const zest_report_run *run, int test) {
    return isfinite(run->tilt) && isfinite(result(run, test)->value);
}

/* The values of t, ascending, as text; 0 when there are too many for a figure or only one. */
static size_t find_tilts(const zest_report *report, const char **names) {
    double tilts[TILTS_MOST + 1];
    size_t count = 0;
    for (size_t i = 0; i < report->count; i++) {
        const zest_report_run *run = &report->runs[i];
        size_t at = 0;
        if (!counts(run, 0) && !counts(run, 1)) continue;
        while (at < count && tilts[at] < run->tilt) at++;
        if (at < count && tilts[at] == run->tilt) continue;
        if (count == TILTS_MOST) return 0;
        memmove(tilts + at + 1, tilts + at, (count - at) * sizeof *tilts);
        memmove(names + at + 1, names + at, (count - at) * sizeof *names);
        tilts[at] = run->tilt;
        names[at] = run->t;
        count++;
    }
    return count > 1 ? count : 0;
}

/* Runs of the same t stand side by side. */
static void place_run(zest_report_page *page, zest_report_figure *f, size_t index, int test) {
    const zest_report_run *run = &page->report->runs[index];
    size_t before = 0, sharing = 0, at = 0;
    if (!counts(run, test)) return;
    while (at + 1 < f->name_count && zest_number_parse(f->names[at], NULL) != run->tilt) at++;
    for (size_t j = 0; j < page->report->count; j++) {
        const zest_report_run *other = &page->report->runs[j];
        if (!counts(other, test) || other->tilt != run->tilt) continue;
        before += j < index;
        sharing++;
    }
    zest_report_curve *c = &f->curves[index];
    if (!zest_report_curve_room(page, c, 1, 1)) return;
    double const gap = fmin(0.12, 0.7 / (double)sharing);
    c->x[0] = (double)at + gap * ((double)before - 0.5 * (double)(sharing - 1));
    c->y[0] = result(run, test)->value;
    c->low[0] = result(run, test)->low;
    c->high[0] = result(run, test)->high;
}

static int tilt_figure(zest_report_page *page, zest_report_figure *f, int test) {
    f->x = "t";
    f->marks = 1;
    f->guide = NAN;
    zest_buffer_format(
        &f->caption,
        "%s set at the best step of each run, with the 95\xe2\x80\xaf%% interval of the run on its "
        "examples; <i>t</i>\xe2\x80\xaf=\xe2\x80\xaf"
        "0 is MeZO.",
        test ? "Test" : "Dev");
    if (zest_report_figure_begin(page, f))
        for (size_t i = 0; i < f->count && !page->status; i++) place_run(page, f, i, test);
    return zest_report_figure_end(page, f);
}

void zest_report_sensitivity(zest_report_page *page) {
    const char *names[TILTS_MOST + 1];
    size_t const count = page->report->sweep ? 0 : find_tilts(page->report, names), before = page->body.size;
    const char *metric = shared_metric(page->report);
    char label[80], titles[2][80];
    if (!count) return;
    label_of(metric, label, sizeof label);
    title_of("Test", metric, " against t", titles[0], sizeof titles[0]);
    title_of("Dev", metric, " against t", titles[1], sizeof titles[1]);
    zest_report_figure test = {.id = "t-test",
                               .title = titles[0],
                               .description =
                                   "Metric on the test set of each run against its t, with intervals.",
                               .y = label,
                               .metric = metric,
                               .names = names,
                               .name_count = count};
    zest_report_figure dev = test;
    dev.id = "t-dev";
    dev.title = titles[1];
    dev.description = "Metric on the dev set of each run against its t, with intervals.";
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    int any = tilt_figure(page, &test, 1);
    if (!page->status) any |= tilt_figure(page, &dev, 0);
    if (any)
        zest_buffer_text(&page->body, "</div>\n");
    else
        page->body.size = before;
}
