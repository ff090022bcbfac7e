/* What the runs of a report amount to: the settings of each method against MeZO, seed by seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/report_page.h"

/* ---- Values of a setting ---- */

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

/* Over seeds; base: a setting to take from it, or ZEST_SWEEP_NONE. values: as many numbers as runs. */
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

/* ---- What is compared with what ---- */

static int is_method(const zest_report *report, size_t setting, const char *method) {
    return !strcmp(report->runs[report->settings[setting].first].method, method);
}

/* The same examples: of the same task, as many, with as much label noise. */
static int same_examples(const zest_report_run *a, const zest_report_run *b) {
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
        if (!strcmp(own->method, other->method) || !same_examples(own, other)) continue;
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
