/* Curves of the report: loss, effective sample size, spread and speed against the step; dev set over time;
 * results against t. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "lab/report/report_page.h"
#include "optim/choose_t.h"

enum { POINTS = 240, BINS = 500, SPEED_POINTS = 40 };
enum { WINDOWS = 10, MIN_WINDOW = 15 }; /* means are over a tenth of the steps, and at least so many */

typedef double (*read_step)(const zest_log_step *step);

static double loss_of(const zest_log_step *s) { return s->loss; }
static double ess_of(const zest_log_step *s) { return s->ess; }
static double spread_of(const zest_log_step *s) { return s->spread; }
static double slope_of(const zest_log_step *s) { return s->slope; }
static double curvature_of(const zest_log_step *s) { return s->curvature; }
static double t_of(const zest_log_step *s) { return s->t; }

/* ---- From a million steps to a curve ---- */

/* The minimum and the maximum of each bin, in their order. */
static int thin_raw(zest_report_page *page, zest_report_curve *c, const zest_log *log, read_step read) {
    size_t const n = log->step_count, bins = n < BINS ? n : BINS;
    c->raw_x = malloc((4 * bins + 1) * sizeof *c->raw_x);
    if (!c->raw_x) return page->status = zest_error_memory(&page->error, "a curve", bins), 0;
    c->raw_y = c->raw_x + 2 * bins;
    for (size_t b = 0; b < bins; b++) {
        size_t low = n, high = n;
        for (size_t i = b * n / bins; i < (b + 1) * n / bins; i++) {
            double const y = read(&log->steps[i]);
            if (!isfinite(y)) continue;
            if (low == n || y < read(&log->steps[low])) low = i;
            if (high == n || y > read(&log->steps[high])) high = i;
        }
        if (low == n) continue;
        size_t const order[2] = {low < high ? low : high, low < high ? high : low};
        for (int k = 0; k < (low == high ? 1 : 2); k++) {
            c->raw_x[c->raw_count] = (double)log->steps[order[k]].step;
            c->raw_y[c->raw_count++] = read(&log->steps[order[k]]);
        }
    }
    return 1;
}

/* Means over a window around evenly spaced steps, with weights that decrease from the centre: smoother
 * than equal ones. */
static int smooth(zest_report_page *page, zest_report_curve *c, const zest_log *log, read_step read,
                  size_t window) {
    size_t const n = log->step_count, points = n < POINTS ? n : POINTS, half = window / 2;
    if (!n || !zest_report_curve_reserve(page, c, points, 0)) return 0;
    for (size_t p = 0; p < points; p++) {
        size_t const middle = points > 1 ? p * (n - 1) / (points - 1) : 0;
        size_t const first = middle > half ? middle - half : 0,
                     end = middle + half + 1 < n ? middle + half + 1 : n;
        double sum = 0,
               weights = 0; /* recomputed each time: in a running sum a spike would leave rounding errors */
        for (size_t i = first; i < end; i++) {
            double const weight = (double)(half + 1 - (i < middle ? middle - i : i - middle));
            if (!isfinite(read(&log->steps[i]))) continue;
            sum += weight * read(&log->steps[i]);
            weights += weight;
        }
        c->x[p] = (double)log->steps[middle].step;
        c->y[p] = weights > 0 ? sum / weights : NAN;
    }
    return 1;
}

/* Steps in a mean: 1 for runs that are too short. */
static size_t window_of(const zest_report *report) {
    size_t max_steps = 0;
    for (size_t i = 0; i < report->count; i++)
        if (report->runs[i].log.step_count > max_steps) max_steps = report->runs[i].log.step_count;
    if (max_steps <= MIN_WINDOW) return 1;
    return max_steps / WINDOWS > MIN_WINDOW ? max_steps / WINDOWS | 1 : MIN_WINDOW;
}

#define PALE_AND_STRONG " Pale: every step. Strong: weighted mean over %zu steps."

/* A figure of one value of every step. */
static int step_figure(zest_report_page *page, zest_report_figure *f, read_step read) {
    size_t const window = window_of(page->report);
    int const seeds = zest_report_has_seeds(page->report); /* pale curves are the seeds then */
    f->x = "step";
    f->metric = "";
    f->split = 1;
    if (!zest_report_figure_begin(page, f)) return zest_report_figure_end(page, f);
    for (size_t i = 0; i < f->count && !page->status; i++) {
        const zest_log *log = &page->report->runs[i].log;
        if (!log->step_count) continue;
        if (window > 1 && !seeds) thin_raw(page, &f->curves[i], log, read);
        if (!page->status) smooth(page, &f->curves[i], log, read, window);
    }
    if (window > 1)
        zest_buffer_format(&f->caption,
                           seeds ? " Curves are weighted means over %zu steps." : PALE_AND_STRONG, window);
    return zest_report_figure_end(page, f);
}

static void open_figures(zest_report_page *page) {
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
}

/* Closes what open_figures began, or removes it when there was no figure. */
static void close_figures(zest_report_page *page, size_t before, int any) {
    if (any)
        zest_buffer_text(&page->body, "</div>\n");
    else
        page->body.size = before;
}

/* ---- Sections ---- */

void zest_report_losses(zest_report_page *page) {
    size_t const before = page->body.size;
    zest_report_figure f = {.id = "loss",
                            .title = "Training loss",
                            .description = "Training loss against the step, one curve a run.",
                            .y = "loss",
                            .wide = 1,
                            .guide = NAN};
    open_figures(page);
    zest_buffer_text(&f.caption,
                     "Mean of the 2<i>k</i> losses of a step; with gradients, the loss of the batch.");
    close_figures(page, before, step_figure(page, &f, loss_of));
}

/* k if it is the same in all runs; NaN otherwise. */
static double most_samples(const zest_report *report) {
    double max = NAN;
    for (size_t i = 0; i < report->count; i++) {
        const char *k = zest_log_find_option(&report->runs[i].log, "k");
        double const here = k ? zest_number_parse(k, NULL) : NAN;
        if (!(here > 0) || (i && here != max)) return NAN;
        max = here;
    }
    return max;
}

enum { ADVICE_RUNS = 6 };

/* The effect of t, from the last losses in the run's journal; steps = 0: unknown. */
static zest_tilt_advice tilt_of(zest_ctx *ctx, const zest_report_run *run) {
    zest_tilt_advice advice = {0};
    char *path = zest_file_join(run->path, "journal");
    zest_journal *journal = path ? zest_journal_open(ctx, path) : NULL;
    if (journal && zest_choose_t_journal(journal, &advice, NULL)) advice.steps = 0;
    zest_journal_close(journal);
    free(path);
    return advice;
}

/* A sentence on t for each of the first few runs, from their last steps. */
static void add_advice(const zest_report *report, zest_buffer *out) {
    zest_ctx *ctx = zest_ctx_new();
    size_t sentences = 0;
    for (size_t i = 0; ctx && i < report->count && sentences < ADVICE_RUNS; i++) {
        zest_tilt_advice const advice = tilt_of(ctx, &report->runs[i]);
        zest_buffer text = {0};
        if (!advice.steps || !(advice.t > 0)) continue;
        zest_choose_t_text(&advice, &text);
        zest_buffer_text(out, sentences++ ? " " : " By the losses of the last steps: ");
        zest_report_escape(out, report->runs[i].name);
        zest_buffer_text(out, ": ");
        zest_report_escape(out, text.failed ? "" : text.data);
        zest_buffer_text(out, ".");
        out->failed |= text.failed;
        zest_buffer_free(&text);
    }
    zest_ctx_free(ctx);
}

static int ess_figure(zest_report_page *page) {
    double const max = most_samples(page->report);
    zest_report_figure ess = {.id = "ess",
                              .title = "Effective sample size",
                              .description = "Effective sample size of the tilt weights against the step.",
                              .y = "effective pairs",
                              .from_zero = 1,
                              .guide = max,
                              .guide_text = "k"};
    zest_buffer_text(&ess.caption,
                     "How many of the <i>k</i> pairs of losses carry the weight of a step: all of them "
                     "at <i>t</i>\xe2\x80\xaf=\xe2\x80\xaf"
                     "0, only one when <i>t</i> is too large.");
    if (isfinite(max)) zest_buffer_format(&ess.caption, " Dashed: <i>k</i>\xe2\x80\xaf=\xe2\x80\xaf%g.", max);
    add_advice(page->report, &ess.caption);
    return step_figure(page, &ess, ess_of);
}

/* The spread of the losses and its two parts: logs of older versions have the spread alone. */
static const struct {
    const char *id, *title, *description, *caption;
    read_step read;
} spreads[] = {
    {"spread", "Spread of the losses", "Standard deviation of the losses of a step against the step.",
     "Standard deviation of the 2<i>k</i> losses of a step. The tilt depends on <i>t</i> times this, through "
     "the "
     "two parts below.",
     spread_of},
    {"slope", "Spread through the slope",
     "Standard deviation of half the differences of the pairs of losses against the step.",
     "Of half the difference of the two losses of a pair. It is about <i>\xcf\x81</i> times the length of "
     "the "
     "gradient. Where <i>t</i> times this is large, the tilt only shortens the steps.",
     slope_of},
    {"curvature", "Spread through curvature",
     "Standard deviation of the means of the pairs of losses against the step.",
     "Of the mean of the two losses of a pair. It grows like <i>\xcf\x81</i>\xc2\xb2 times the curvature. "
     "Where "
     "<i>t</i> times this is not small, the tilt prefers flat directions.",
     curvature_of},
    {"auto-t", "Tilt", "The tilt that --t auto chose, against the step.",
     "The <i>t</i> of a step, which <code>--t auto</code> chose from the losses of the 64 steps before it.",
     t_of},
};

void zest_report_tilt(zest_report_page *page) {
    size_t const before = page->body.size;
    open_figures(page);
    int any = ess_figure(page);
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads && !page->status; i++) {
        zest_report_figure f = {.id = spreads[i].id,
                                .title = spreads[i].title,
                                .description = spreads[i].description,
                                .y = spreads[i].read == t_of ? "t" : "standard deviation",
                                .guide = NAN};
        zest_buffer_text(&f.caption, spreads[i].caption);
        any |= step_figure(page, &f, spreads[i].read);
    }
    close_figures(page, before, any);
}

static int ascending(const void *a, const void *b) {
    double const x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time of the steps from `from` to `to`, which an evaluation in between does not change.
 * buffer: as many numbers. */
static double step_time(const zest_log *log, size_t from, size_t to, double *buffer) {
    size_t used = 0;
    for (size_t i = from + 1; i <= to; i++) {
        double const time = (log->steps[i].seconds - log->steps[i - 1].seconds) /
                            (double)(log->steps[i].step - log->steps[i - 1].step);
        if (isfinite(time)) buffer[used++] = time;
    }
    qsort(buffer, used, sizeof *buffer, ascending);
    return used ? buffer[used / 2] : NAN;
}

/* Forward tokens of a step over all lanes, as on the terminal. Older logs have no number of passes: 2k for
 * a zeroth-order step, which has a spread. */
static double forward_tokens(const zest_log *log, const zest_log_step *step) {
    const char *k = zest_log_find_option(log, "k");
    double passes = (double)step->passes;
    if (!step->passes) passes = isfinite(step->spread) && k ? 2 * zest_number_parse(k, NULL) : 1;
    return (double)step->tokens * passes;
}

static void speed_curve(zest_report_page *page, zest_report_curve *c, const zest_log *log, int tokens) {
    size_t const n = log->step_count, points = n - 1 < SPEED_POINTS ? n - 1 : SPEED_POINTS;
    if (n < 2 || !zest_report_curve_reserve(page, c, points, 0)) return;
    double *buffer = malloc(n * sizeof *buffer);
    if (!buffer) page->status = zest_error_memory(&page->error, "a curve", n * sizeof *buffer);
    for (size_t p = 0; buffer && p < points; p++) {
        size_t const from = p * (n - 1) / points, to = (p + 1) * (n - 1) / points;
        double const time = step_time(log, from, to, buffer);
        double work = 0;
        for (size_t i = from + 1; i <= to; i++) work += tokens ? forward_tokens(log, &log->steps[i]) : 1;
        c->x[p] = (double)log->steps[to].step;
        c->y[p] = time > 0 && work > 0 ? work / (double)(to - from) / time : NAN;
    }
    free(buffer);
}

static int speed_figure(zest_report_page *page, zest_report_figure *f, int tokens) {
    f->x = "step";
    f->metric = "";
    f->from_zero = 1;
    f->guide = NAN;
    if (!zest_report_figure_begin(page, f)) return zest_report_figure_end(page, f);
    for (size_t i = 0; i < f->count && !page->status; i++)
        speed_curve(page, &f->curves[i], &page->report->runs[i].log, tokens);
    return zest_report_figure_end(page, f);
}

void zest_report_speed(zest_report_page *page) {
    size_t const before = page->body.size;
    zest_report_figure steps = {.id = "steps-per-second",
                                .title = "Steps a second",
                                .description = "Steps a second against the step.",
                                .y = "steps / s"};
    zest_report_figure tokens = {.id = "tokens-per-second",
                                 .title = "Forward tokens a second",
                                 .description = "Forward tokens a second against the step.",
                                 .y = "tokens / s"};
    zest_buffer_text(&steps.caption, "By the median time of a step; the time of evaluations does not count.");
    zest_buffer_text(&tokens.caption,
                     "Tokens of the batch times the passes of a step (2<i>k</i> lanes, or gradients), as the "
                     "terminal shows.");
    open_figures(page);
    int any = speed_figure(page, &steps, 0);
    if (!page->status) any |= speed_figure(page, &tokens, 1);
    zest_buffer_free(&tokens.caption);
    close_figures(page, before, any);
}

/* ---- Evaluations: dev set over time, test set over t ---- */

/* The metric that all runs share, or "". */
static const char *shared_metric(const zest_report *report) {
    const char *first = report->count ? zest_report_metric(&report->runs[0]) : "";
    for (size_t i = 1; i < report->count; i++)
        if (strcmp(first, zest_report_metric(&report->runs[i]))) return "";
    return first;
}

/* "accuracy (%)" */
static void label_of(const char *metric, char *buffer, size_t size) {
    char *clean = zest_report_clean(metric);
    snprintf(buffer, size, "%s%s", clean && *clean ? clean : "value of the metric",
             zest_report_is_share(metric) ? " (%)" : "");
    free(clean);
}

/* "Dev accuracy", "Dev metric" where runs have different ones */
static void title_of(const char *part, const char *metric, const char *rest, char *buffer, size_t size) {
    char *clean = zest_report_clean(metric);
    snprintf(buffer, size, "%s %s%s", part, clean && *clean ? clean : "metric", rest);
    free(clean);
}

/* ---- Dev set ---- */

static double value_of(const zest_log_eval *e) { return e->value; }
static double report_evals_loss_of(const zest_log_eval *e) { return e->loss; }

static int dev_curve(zest_report_page *page, zest_report_curve *c, const zest_report_run *run,
                     double (*read)(const zest_log_eval *), int intervals) {
    size_t count = 0;
    for (size_t i = 0; i < run->log.eval_count; i++) count += !strcmp(run->log.evals[i].part, "dev");
    if (!count || !zest_report_curve_reserve(page, c, count, intervals)) return 0;
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
    if (!page->status) any |= dev_figure(page, &loss, report_evals_loss_of, 0);
    zest_buffer_free(&loss.caption);
    if (any)
        zest_buffer_text(&page->body, "</div>\n");
    else
        page->body.size = before;
}

/* ---- Results against t ---- */

enum { MAX_TILTS = 24 };

/* The result of a run on one part. */
static const zest_log_eval *result(const zest_report_run *run, int test) {
    return test ? &run->test : &run->dev;
}

static int counts(const zest_report_run *run, int test) {
    return isfinite(run->tilt) && isfinite(result(run, test)->value);
}

/* The distinct values of t, ascending, as text; 0 when there are too many for a figure or only one. */
static size_t find_tilts(const zest_report *report, const char **names) {
    double tilts[MAX_TILTS + 1];
    size_t count = 0;
    for (size_t i = 0; i < report->count; i++) {
        const zest_report_run *run = &report->runs[i];
        size_t at = 0;
        if (!counts(run, 0) && !counts(run, 1)) continue;
        while (at < count && tilts[at] < run->tilt) at++;
        if (at < count && tilts[at] == run->tilt) continue;
        if (count == MAX_TILTS) return 0;
        memmove(tilts + at + 1, tilts + at, (count - at) * sizeof *tilts);
        memmove(names + at + 1, names + at, (count - at) * sizeof *names);
        tilts[at] = run->tilt;
        names[at] = run->t;
        count++;
    }
    return count > 1 ? count : 0;
}

/* Runs of the same t are adjacent. */
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
    if (!zest_report_curve_reserve(page, c, 1, 1)) return;
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
    const char *names[MAX_TILTS + 1];
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
