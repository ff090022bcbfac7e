/* What the tables of a sweep amount to, in words. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/sweep.h"

/* As figures show it: "ZEST-N, weights=bf16". */
static void name_row(const zest_sweep_summary *s, size_t row, char *text, size_t size) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    zest_sensitivity_name(name.data ? name.data : "", text, size);
    zest_buffer_free(&name);
}

/* What tells the examples of an entry from those of others: its task, its labels, both or nothing. */
static void name_examples(const zest_sweep_summary *s, const zest_sweep_entry *e, char *text, size_t size) {
    const char *task = s->plan->runs[s->tasks[e->task]].value[ZEST_OPTION_TASK];
    zest_buffer labels = {0};
    char name[128] = "";
    if (s->task_count > 1) zest_sweep_task_name(task ? task : "", name, sizeof name);
    if (s->noise_count > 1) zest_sweep_noise_name(s, e->noise, &labels);
    snprintf(text, size, "%s%s%s", name, *name && labels.data ? ", " : "", labels.data ? labels.data : "");
    zest_buffer_free(&labels);
}

/* Over seeds; an interval never narrower than the binomial error of the test examples. */
static zest_sample value_of(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    double *values = malloc((s->seed_count + 1) * sizeof *values);
    zest_sample value = e->test;
    size_t examples = 0;
    for (size_t i = 0; values && i < s->seed_count; i++) {
        const zest_sweep_run *run = e->chosen[i] == ZEST_SWEEP_NONE ? NULL : &s->plan->runs[e->chosen[i]];
        values[i] = run ? run->test.value : NAN;
        if (run && !zest_conclusion_lower_is_better(run->metric)) examples = run->test.n;
    }
    if (values) value = zest_paired_sample(values, s->seed_count, examples);
    free(values);
    return value;
}

void zest_sweep_conclude(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_conclusion *c) {
    *c = (zest_conclusion){.part = "test", .value = value_of(s, e), .difference = e->difference};
    name_row(s, e->row, c->method, sizeof c->method);
    name_examples(s, e, c->where, sizeof c->where);
    snprintf(c->metric, sizeof c->metric, "%s", zest_sweep_metric(s, e->chosen));
    if (e->base != ZEST_SWEEP_NONE) name_row(s, s->entries[e->base].row, c->base, sizeof c->base);
}

const char *zest_sweep_verdict(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    zest_conclusion c;
    zest_sweep_conclude(s, e, &c);
    return zest_conclusion_verdict(&c);
}

/* By dev, since test is what is to be told. */
static const zest_sweep_entry *best_entry(const zest_sweep_summary *s) {
    const zest_sweep_entry *best = NULL;
    for (size_t i = 0; i < s->entry_count; i++) {
        const zest_sweep_entry *e = &s->entries[i];
        int const lower = zest_conclusion_lower_is_better(zest_sweep_metric(s, e->chosen));
        if (isnan(e->dev.mean)) continue;
        if (!best || (lower ? e->dev.mean < best->dev.mean : e->dev.mean > best->dev.mean)) best = e;
    }
    return best;
}

zest_conclusion *zest_sweep_conclude_all(const zest_sweep_summary *s, size_t *count) {
    zest_conclusion *all = calloc(s->entry_count + 1, sizeof *all);
    *count = 0;
    for (size_t i = 0; all && i < s->entry_count; i++) {
        zest_sweep_conclude(s, &s->entries[i], &all[*count]);
        *count += (size_t)zest_conclusion_compares(&all[*count]);
    }
    const zest_sweep_entry *best = all && !*count ? best_entry(s) : NULL;
    if (best) zest_sweep_conclude(s, best, &all[(*count)++]);
    return all;
}
