/* The tables of a sweep as plain text for a terminal: the conclusion first, then a table for each task and
 * kind of labels. table.md has more: what was chosen for each seed. */
#include <math.h>
#include <stdlib.h>

#include "run/sweep.h"
#include "run/text_table.h"

static const char plus_minus[] = " \xc2\xb1 ";

static void number_cell(zest_text_table *t, double value, double unit, int sign) {
    zest_buffer text = {0};
    if (!isnan(value)) zest_sweep_number(&text, value, unit, sign);
    zest_text_table_take(t, &text);
}

/* "84.1 ± 0.3" */
static void sample_cell(zest_text_table *t, const zest_sample *sample, double unit, int sign) {
    zest_buffer text = {0};
    if (sample->n) zest_sweep_number(&text, sample->mean, unit, sign);
    if (sample->n > 1 && !isnan(sample->error)) {
        zest_buffer_text(&text, plus_minus);
        zest_sweep_number(&text, sample->error, unit, 0);
    }
    zest_text_table_take(t, &text);
}

static void row_cell(zest_text_table *t, const zest_sweep_summary *s, size_t row) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    zest_text_table_take(t, &name);
}

/* ---- Results of a task ---- */

static void add_entry(zest_text_table *t, const zest_sweep_summary *s, const zest_sweep_entry *e) {
    double const unit = zest_sweep_unit(s, e->task);
    int const compared = e->base != ZEST_SWEEP_NONE && e->difference.n;
    zest_buffer interval = {0}, seeds = {0};
    row_cell(t, s, e->row);
    sample_cell(t, &e->test, unit, 0);
    sample_cell(t, &e->dev, unit, 0);
    number_cell(t, compared ? e->difference.mean : NAN, unit, 1);
    if (compared) zest_sweep_interval(&interval, e, unit);
    zest_text_table_take(t, &interval);
    zest_buffer_format(&seeds, "%zu", compared ? e->difference.n : e->test.n);
    zest_text_table_take(t, &seeds);
    zest_text_table_cell(t, e->complete ? zest_sweep_verdict(s, e) : "unfinished");
}

/* First-order methods first, as everywhere. */
static void add_entries(zest_text_table *t, const zest_sweep_summary *s, size_t noise, size_t task) {
    for (int first = 1; first >= 0; first--)
        for (size_t r = 0; r < s->row_count; r++) {
            const zest_sweep_entry *e = zest_sweep_entry_at(s, noise, task, r);
            if (e && zest_sweep_is_first_order(s, r) == first) add_entry(t, s, e);
        }
}

static void add_heading(const zest_sweep_summary *s, size_t noise, size_t task, const char *rest,
                        zest_buffer *out) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    zest_buffer text = {0};
    char name[128];
    zest_buffer_format(&text, "%s, ", zest_sweep_task_name(value ? value : "", name, sizeof name));
    zest_sweep_noise_name(s, noise, &text);
    zest_buffer_text(&text, rest);
    zest_buffer_text(out, "\n");
    zest_text_table_paragraph(out, text.data ? text.data : "");
    out->failed |= text.failed;
    zest_buffer_free(&text);
}

static void add_results(const zest_sweep_summary *s, size_t noise, size_t task, zest_buffer *out) {
    char base[32];
    zest_buffer minus = {0};
    zest_buffer_format(&minus, "test \xe2\x88\x92 %s", zest_sweep_base_name(s, base, sizeof base));
    zest_text_column const columns[] = {
        {"method", ZEST_TEXT_NAME},          {"test", ZEST_TEXT_NUMBER},
        {"dev", ZEST_TEXT_NUMBER},           {minus.data ? minus.data : "", ZEST_TEXT_NUMBER},
        {"95 % interval", ZEST_TEXT_NUMBER}, {"seeds", ZEST_TEXT_NUMBER},
        {"verdict", ZEST_TEXT_LEFT}};
    zest_text_table t = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
    add_entries(&t, s, noise, task);
    add_heading(s, noise, task, "", out);
    zest_text_table_write(&t, out);
    zest_text_table_free(&t);
    zest_buffer_free(&minus);
}

/* ---- By t ---- */

static void add_tilt(zest_text_table *t, const zest_sweep_summary *s, const zest_sweep_tilt_entry *e) {
    double const unit = zest_sweep_unit(s, e->task);
    zest_buffer tilt = {0}, steps = {0}, seconds = {0};
    row_cell(t, s, e->row);
    zest_buffer_format(&tilt, "%g", e->t);
    zest_text_table_take(t, &tilt);
    sample_cell(t, &e->test, unit, 0);
    sample_cell(t, &e->dev, unit, 0);
    sample_cell(t, &e->difference, unit, 1);
    zest_sweep_best_steps(s, e->chosen, ", ", &steps);
    zest_text_table_take(t, &steps);
    if (!isnan(e->seconds)) zest_buffer_format(&seconds, "%.0f", e->seconds);
    zest_text_table_take(t, &seconds);
}

static void add_tilts(const zest_sweep_summary *s, size_t noise, size_t task, zest_buffer *out) {
    char base[32];
    zest_buffer minus = {0};
    zest_buffer_format(&minus, "test \xe2\x88\x92 %s", zest_sweep_base_name(s, base, sizeof base));
    zest_text_column const columns[] = {{"method", ZEST_TEXT_NAME},
                                        {"t", ZEST_TEXT_NUMBER},
                                        {"test", ZEST_TEXT_NUMBER},
                                        {"dev", ZEST_TEXT_NUMBER},
                                        {minus.data ? minus.data : "", ZEST_TEXT_NUMBER},
                                        {"best steps", ZEST_TEXT_NAME},
                                        {"seconds", ZEST_TEXT_NUMBER}};
    zest_text_table t = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
    for (size_t i = 0; i < s->tilt_count; i++)
        if (s->tilts[i].noise == noise && s->tilts[i].task == task && !isnan(s->tilts[i].t))
            add_tilt(&t, s, &s->tilts[i]);
    if (t.count) {
        add_heading(s, noise, task, ", by t", out);
        zest_text_table_write(&t, out);
    }
    zest_text_table_free(&t);
    zest_buffer_free(&minus);
}

/* ---- The whole ---- */

static void add_conclusion(const zest_sweep_summary *s, zest_buffer *out) {
    size_t count;
    zest_conclusion *all = zest_sweep_conclude_all(s, &count);
    zest_buffer lead = {0};
    if (all) zest_conclusion_lead(all, count, &lead);
    out->failed |= !all || lead.failed;
    zest_text_table_paragraph(out, lead.data ? lead.data : "");
    zest_buffer_free(&lead);
    free(all);
}

static void add_failures(const zest_sweep_summary *s, zest_buffer *out) {
    zest_text_column const columns[] = {{"failed run", ZEST_TEXT_LEFT}, {"why", ZEST_TEXT_LEFT}};
    zest_text_table t = {.columns = columns, .column_count = 2};
    for (size_t i = 0; i < s->plan->count; i++) {
        const zest_sweep_run *run = &s->plan->runs[i];
        if (run->state != ZEST_SWEEP_FAILED) continue;
        zest_text_table_cell(&t, run->name);
        zest_text_table_cell(&t, run->message ? run->message : "");
    }
    if (t.count) zest_buffer_text(out, "\n");
    zest_text_table_write(&t, out);
    zest_text_table_free(&t);
}

void zest_sweep_plain(const zest_sweep_summary *s, zest_buffer *out) {
    if (s->finished) add_conclusion(s, out);
    zest_buffer_format(out, "%zu of %zu runs finished", s->finished, s->plan->count);
    if (s->failed) zest_buffer_format(out, ", %zu failed", s->failed);
    zest_buffer_format(out, ".\nPer cent unless it is a loss; %s; hyper-parameters chosen on dev.\n",
                       s->seed_count > 1 ? "mean \xc2\xb1 standard error over seeds" : "one seed");
    for (size_t n = 0; n < s->noise_count && s->finished; n++)
        for (size_t t = 0; t < s->task_count; t++)
            if (zest_sweep_has(s, n, t)) add_results(s, n, t, out);
    for (size_t n = 0; n < s->noise_count && s->finished && zest_sweep_several_tilts(s); n++)
        for (size_t t = 0; t < s->task_count; t++)
            if (zest_sweep_has(s, n, t)) add_tilts(s, n, t, out);
    add_failures(s, out);
}
