/* The tables of a sweep as Markdown: test results, differences from the base, results by t, what was chosen.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/sweep.h"

/* Several of these texts are made by functions that add to a buffer and know nothing of Markdown. */
static void add_escaped(zest_buffer *out, zest_buffer *text) {
    zest_sweep_escape_markdown(out, text->data ? text->data : "");
    out->failed |= text->failed;
    zest_buffer_free(text);
}

static void add_task(const zest_sweep_summary *s, size_t task, zest_buffer *out) {
    const char *name = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    char room[128];
    zest_sweep_escape_markdown(out, zest_sweep_task_name(name ? name : "", room, sizeof room));
}

static void add_row(const zest_sweep_summary *s, size_t row, zest_buffer *out) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    add_escaped(out, &name);
}

static void add_noise(const zest_sweep_summary *s, size_t noise, zest_buffer *out) {
    zest_buffer name = {0};
    zest_sweep_noise_name(s, noise, &name);
    add_escaped(out, &name);
}

static void add_sample(zest_buffer *out, const zest_sample *sample, double unit) {
    zest_sweep_number(out, sample->mean, unit, 0);
    if (sample->n < 2) return;
    zest_buffer_text(out, " \xc2\xb1 ");
    zest_sweep_number(out, sample->error, unit, 0);
}

static void add_value(const zest_sweep_run *run, zest_option_id id, zest_buffer *out) {
    zest_sweep_escape_markdown(out, run->value[id] ? run->value[id] : "default");
}

/* "| task | labels | method" */
static void begin_line(const zest_sweep_summary *s, size_t task, size_t noise, size_t row, zest_buffer *out) {
    zest_buffer_text(out, "| ");
    add_task(s, task, out);
    zest_buffer_text(out, " | ");
    add_noise(s, noise, out);
    zest_buffer_text(out, " | ");
    add_row(s, row, out);
}

/* ---- Test results: methods below each other, tasks side by side ---- */

static void add_cell(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_buffer *out) {
    int best = e && zest_sweep_is_best(s, e);
    zest_buffer_text(out, best ? " | **" : " | ");
    if (e) add_sample(out, &e->test, zest_sweep_unit(s, e->task));
    if (best) zest_buffer_text(out, "**");
    if (e && !e->complete) zest_buffer_text(out, " (unfinished)");
}

static void add_result_row(const zest_sweep_summary *s, size_t noise, size_t row, const char *order,
                           zest_buffer *out) {
    int any = 0;
    for (size_t t = 0; t < s->task_count; t++) any |= zest_sweep_entry_at(s, noise, t, row) != NULL;
    if (!any) return;
    zest_buffer_format(out, "| %s", order);
    add_row(s, row, out);
    for (size_t t = 0; t < s->task_count; t++)
        if (zest_sweep_has(s, noise, t)) add_cell(s, zest_sweep_entry_at(s, noise, t, row), out);
    zest_buffer_text(out, " |\n");
}

static void add_results(const zest_sweep_summary *s, size_t noise, zest_buffer *out) {
    int both = zest_sweep_rows_of_order(s, 0) && zest_sweep_rows_of_order(s, 1);
    zest_buffer_text(out, "\n**Test, ");
    add_noise(s, noise, out);
    zest_buffer_format(out, "**\n\n|%s method", both ? " order |" : "");
    for (size_t t = 0; t < s->task_count; t++)
        if (zest_sweep_has(s, noise, t)) zest_buffer_text(out, " | "), add_task(s, t, out);
    zest_buffer_format(out, " |\n|---%s", both ? "|---" : "");
    for (size_t t = 0; t < s->task_count; t++)
        if (zest_sweep_has(s, noise, t)) zest_buffer_text(out, "|---");
    zest_buffer_text(out, "|\n");
    for (int first = 1; first >= 0; first--)
        for (size_t r = 0; r < s->row_count; r++)
            if (zest_sweep_is_first_order(s, r) == first)
                add_result_row(s, noise, r, !both ? "" : first ? "1st | " : "0th | ", out);
}

/* ---- Differences ---- */

static void add_difference(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_buffer *out) {
    double unit = zest_sweep_unit(s, e->task);
    begin_line(s, e->task, e->noise, e->row, out);
    zest_buffer_text(out, " | ");
    zest_sweep_number(out, e->difference.mean, unit, 1);
    zest_buffer_text(out, " | ");
    zest_sweep_interval(out, e, unit);
    zest_buffer_format(out, " | %zu | %s |\n", e->difference.n, zest_sweep_verdict(s, e));
}

static void add_differences(const zest_sweep_summary *s, zest_buffer *out) {
    char base[32];
    int any = 0;
    for (size_t i = 0; i < s->entry_count; i++) {
        if (s->entries[i].base == ZEST_SWEEP_NONE || !s->entries[i].difference.n) continue;
        if (!any++)
            zest_buffer_format(out,
                               "\n**Test minus %s's of the same seed** (95 %% interval of the paired "
                               "differences; with one seed "
                               "p of the exact McNemar test)\n\n| task | labels | method | difference | 95 "
                               "%% interval | seeds | "
                               "verdict |\n|---|---|---|---|---|---|---|\n",
                               zest_sweep_base_name(s, base, sizeof base));
        add_difference(s, &s->entries[i], out);
    }
}

/* ---- By t, and what was chosen ---- */

static void add_tilt(const zest_sweep_summary *s, const zest_sweep_tilt_entry *e, int several,
                     zest_buffer *out) {
    double unit = zest_sweep_unit(s, e->task);
    begin_line(s, e->task, e->noise, e->row, out);
    if (!several)
        zest_buffer_text(out, " | ");
    else if (isnan(e->t))
        zest_buffer_text(out, " |  | ");
    else
        zest_buffer_format(out, " | %g | ", e->t);
    add_sample(out, &e->dev, unit);
    zest_buffer_text(out, " | ");
    add_sample(out, &e->loss, 1);
    zest_buffer_text(out, " | ");
    add_sample(out, &e->test, unit);
    zest_buffer_text(out, " | ");
    if (e->difference.n) zest_sweep_number(out, e->difference.mean, unit, 1);
    if (e->difference.n > 1 && !isnan(e->difference.error)) {
        zest_buffer_text(out, " \xc2\xb1 ");
        zest_sweep_number(out, e->difference.error, unit, 0);
    }
    zest_buffer_text(out, " | ");
    zest_sweep_best_steps(s, e->chosen, ", ", out);
    if (isnan(e->seconds))
        zest_buffer_text(out, " |  |\n");
    else
        zest_buffer_format(out, " | %.0f |\n", e->seconds);
}

static void add_tilts(const zest_sweep_summary *s, zest_buffer *out) {
    char base[32];
    int several = zest_sweep_several_tilts(s);
    zest_buffer_format(
        out,
        "\n**%s\n\n| task | labels | method |%s dev | dev loss | test | test \xe2\x88\x92 %s | best step | "
        "seconds |\n|---|---|---%s|---|---|---|---|---|---|\n",
        several ? "By t** (other hyper-parameters chosen by dev for each t; MeZO is t = 0)"
                : "In detail** (hyper-parameters chosen by dev)",
        several ? " t |" : "", zest_sweep_base_name(s, base, sizeof base), several ? "|---" : "");
    for (size_t i = 0; i < s->tilt_count; i++) add_tilt(s, &s->tilts[i], several, out);
}

static void add_chosen_line(const zest_sweep_summary *s, const zest_sweep_entry *e, size_t run,
                            zest_buffer *out) {
    const zest_sweep_run *r = &s->plan->runs[run];
    double unit = zest_sweep_unit(s, e->task);
    zest_buffer name = {0};
    begin_line(s, e->task, e->noise, e->row, out);
    zest_buffer_text(out, " | ");
    add_value(r, ZEST_OPTION_SEED, out);
    zest_buffer_text(out, " | ");
    zest_sweep_chosen_name(s, run, &name);
    add_escaped(out, &name);
    zest_buffer_text(out, " | ");
    zest_sweep_number(out, r->dev.value, unit, 0);
    zest_buffer_text(out, " | ");
    zest_sweep_number(out, r->test.value, unit, 0);
    zest_buffer_format(out, " | %llu |\n", (unsigned long long)r->best_step);
}

static void add_chosen(const zest_sweep_summary *s, zest_buffer *out) {
    zest_buffer_text(out,
                     "\n**Chosen by dev**\n\n| task | labels | method | seed | chosen | dev | test | best "
                     "step |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < s->entry_count; i++)
        for (size_t j = 0; j < s->seed_count; j++)
            if (s->entries[i].chosen[j] != ZEST_SWEEP_NONE)
                add_chosen_line(s, &s->entries[i], s->entries[i].chosen[j], out);
}

static void add_failures(const zest_sweep_summary *s, zest_buffer *out) {
    if (s->failed) zest_buffer_text(out, "\n**Failed**\n\n| run | why |\n|---|---|\n");
    for (size_t i = 0; i < s->plan->count; i++) {
        const zest_sweep_run *run = &s->plan->runs[i];
        if (run->state != ZEST_SWEEP_FAILED) continue;
        zest_buffer_text(out, "| ");
        zest_sweep_escape_markdown(out, run->name);
        zest_buffer_text(out, " | ");
        zest_sweep_escape_markdown(out, run->message ? run->message : "");
        zest_buffer_text(out, " |\n");
    }
}

static void add_conclusion(const zest_sweep_summary *s, zest_buffer *out) {
    size_t count;
    zest_conclusion *all = zest_sweep_conclude_all(s, &count);
    zest_buffer lead = {0};
    if (!all) out->failed = 1;
    if (all) zest_conclusion_lead(all, count, &lead);
    if (lead.size) add_escaped(out, &lead), zest_buffer_text(out, "\n\n");
    zest_buffer_free(&lead);
    free(all);
}

void zest_sweep_markdown(const zest_sweep_summary *s, zest_buffer *out) {
    if (s->finished) add_conclusion(s, out);
    zest_buffer_format(out, "%zu of %zu runs finished", s->finished, s->plan->count);
    if (s->failed) zest_buffer_format(out, ", %zu failed", s->failed);
    zest_buffer_format(out, ". Per cent unless it is a loss; %s; hyper-parameters chosen by dev.\n",
                       s->seed_count > 1 ? "mean \xc2\xb1 standard error over seeds" : "one seed");
    for (size_t n = 0; n < s->noise_count && s->finished; n++) add_results(s, n, out);
    if (s->finished) {
        add_differences(s, out);
        add_tilts(s, out);
        add_chosen(s, out);
    }
    add_failures(s, out);
}
