/* The tables of a sweep: Markdown, LaTeX in the layout of the paper, and plain text for terminals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/stats/stats.h"
#include "lab/sweep/sweep.h"

/* ---- Markdown ----
 *
 * Some texts come from functions that append plain text, which is then escaped. */
static void add_escaped(zest_buffer *out, zest_buffer *text) {
    zest_sweep_escape_markdown(out, text->data ? text->data : "");
    out->failed |= text->failed;
    zest_buffer_free(text);
}

static void add_task(const zest_sweep_summary *s, size_t task, zest_buffer *out) {
    const char *name = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    char buffer[128];
    zest_sweep_escape_markdown(out, zest_sweep_task_name(name ? name : "", buffer, sizeof buffer));
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

/* ---- Test results: one row per method, one column per task ---- */

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
            if (zest_sweep_row_is_first_order(s, r) == first)
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
                               "\n"
                               "**Test minus %s's of the same seed** (95 %% interval of the paired "
                               "differences; with one seed p of the exact McNemar test)\n\n"
                               "| task | labels | method | difference | 95 %% interval | seeds | verdict "
                               "|\n"
                               "|---|---|---|---|---|---|---|\n",
                               zest_sweep_base_name(s, base, sizeof base));
        add_difference(s, &s->entries[i], out);
    }
}

/* ---- By t, and the chosen hyper-parameters ---- */

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

/* ---- LaTeX, in the layout of the paper's tables 2 to 4: one table per noise level ---- */

static void sweep_latex_add_escaped(zest_buffer *out, zest_buffer *text) {
    zest_sweep_escape_latex(out, text->data ? text->data : "");
    out->failed |= text->failed;
    zest_buffer_free(text);
}

/* The paper's spelling of a method, and the other options of its row. */
static void add_method(const zest_sweep_summary *s, size_t row, zest_buffer *out) {
    static const struct {
        const char *name, *latex;
    } known[] = {{"zest-bc", "$\\text{ZEST}_{\\text{BC}}$"},
                 {"zest-n", "$\\text{ZEST}_{\\text{N}}$"},
                 {"mezo", "MeZO"},
                 {"sgd", "SGD"},
                 {"adamw", "AdamW"},
                 {"esam", "ESAM"},
                 {"tsam", "TSAM"},
                 {"sam", "SAM"}};
    zest_buffer name = {0}, rest = {0};
    zest_sweep_row_name(s, row, &name);
    const char *text = name.data ? name.data : "";
    size_t length = strcspn(text, ",");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length && !strncmp(known[i].name, text, length)) {
            zest_buffer_text(out, known[i].latex);
            zest_buffer_text(&rest, text + length);
            sweep_latex_add_escaped(out, &rest);
            zest_buffer_free(&name);
            return;
        }
    sweep_latex_add_escaped(out, &name);
}

static void add_number(zest_buffer *out, double value, double unit) {
    zest_buffer text = {0};
    zest_sweep_number(&text, value, unit, 0);
    zest_buffer_text(out, value == value && text.data ? text.data : "--"); /* NaN: a LaTeX dash */
    out->failed |= text.failed;
    zest_buffer_free(&text);
}

static void sweep_latex_add_cell(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_buffer *out) {
    zest_buffer_text(out, " & ");
    if (!e) {
        zest_buffer_text(out, "--");
        return;
    }
    double unit = zest_sweep_unit(s, e->task);
    int best = zest_sweep_is_best(s, e);
    if (best) zest_buffer_text(out, "\\textbf{");
    add_number(out, e->test.mean, unit);
    if (best) zest_buffer_text(out, "}");
    if (e->test.n > 1) {
        zest_buffer_text(out, "{\\tiny$\\pm$");
        add_number(out, e->test.error, unit);
        zest_buffer_text(out, "}");
    }
}

/* The rows of first-order or of zeroth-order methods. */
static void add_order(const zest_sweep_summary *s, size_t noise, int first, zest_buffer *out) {
    size_t rows = zest_sweep_rows_of_order(s, first);
    if (!rows) return;
    zest_buffer_format(out, "\\midrule\n\\multirow{%zu}{*}{\\makecell{%s-\\\\order}}\n", rows,
                       first ? "1st" : "0th");
    for (size_t r = 0; r < s->row_count; r++) {
        if (zest_sweep_row_is_first_order(s, r) != first) continue;
        zest_buffer_text(out, "  & ");
        add_method(s, r, out);
        for (size_t t = 0; t < s->task_count; t++)
            sweep_latex_add_cell(s, zest_sweep_entry_at(s, noise, t, r), out);
        zest_buffer_text(out, " \\\\\n");
    }
}

/* ---- The header: tasks and their types ---- */

static const struct {
    const char *task, *kind;
} kinds[] = {{"SST-2", "sentiment cls."},
             {"SST-5", "sentiment cls."},
             {"QQP", "paraphrase"},
             {"MRPC", "paraphrase"},
             {"TREC", "topic cls."},
             {"MNLI", "natural language inference"},
             {"SNLI", "natural language inference"},
             {"RTE", "natural language inference"},
             {"COPA", "multiple choice"},
             {"ReCoRD", "multiple choice"},
             {"SQuAD", "generation"},
             {"DROP", "generation"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The paper's spelling of a task: "SST-5" for sst-5. */
static const char *task_name(const zest_sweep_summary *s, size_t task, char *buffer, size_t size,
                             const char **kind) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK],
               *name = zest_sweep_task_name(value ? value : "", buffer, size);
    *kind = "";
    for (size_t i = 0; i < KINDS; i++)
        if (!strcasecmp(kinds[i].task, name)) return *kind = kinds[i].kind, kinds[i].task;
    return name;
}

static void add_head(const zest_sweep_summary *s, zest_buffer *out) {
    char buffer[128];
    const char *kind, *next = "";
    int any = 0;
    for (size_t t = 0; t < s->task_count; t++)
        task_name(s, t, buffer, sizeof buffer, &kind), any |= *kind != '\0';
    zest_buffer_text(out, any ? "\\multirow{2}{*}{Type} & \\multirow{2}{*}{Method}" : "Type & Method");
    for (size_t t = 0; t < s->task_count; t++) {
        zest_buffer_text(out, " & \\textbf{");
        zest_sweep_escape_latex(out, task_name(s, t, buffer, sizeof buffer, &kind));
        zest_buffer_text(out, "}");
    }
    zest_buffer_text(out, any ? " \\\\\n &" : "");
    for (size_t t = 0, end; any && t < s->task_count; t = end) {
        task_name(s, t, buffer, sizeof buffer, &kind);
        for (end = t + 1; end < s->task_count; end++) {
            task_name(s, end, buffer, sizeof buffer, &next);
            if (strcmp(kind, next)) break;
        }
        if (end - t > 1)
            zest_buffer_format(out, " & \\multicolumn{%zu}{c}{%s}", end - t, kind);
        else
            zest_buffer_format(out, " & %s", kind);
    }
    zest_buffer_text(out, " \\\\\n");
}

static void add_table(const zest_sweep_summary *s, size_t noise, zest_buffer *out) {
    zest_buffer name = {0};
    zest_buffer_text(out, "\\begin{table}[htbp]\n\\small\\centering\n\\caption{Test results, ");
    zest_sweep_noise_name(s, noise, &name);
    sweep_latex_add_escaped(out, &name);
    zest_buffer_format(out, "; %s; hyper-parameters chosen on validation data.}\n\\begin{tabular}{ll",
                       s->seed_count > 1 ? "mean and standard error over seeds" : "one seed");
    for (size_t t = 0; t < s->task_count; t++) zest_buffer_text(out, "c");
    zest_buffer_text(out, "}\n\\toprule\n");
    add_head(s, out);
    add_order(s, noise, 1, out);
    add_order(s, noise, 0, out);
    zest_buffer_text(out, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

void zest_sweep_latex(const zest_sweep_summary *s, zest_buffer *out) {
    zest_buffer_text(out, "% made by zest sweep; needs amsmath, booktabs, makecell and multirow\n");
    for (size_t n = 0; n < s->noise_count; n++) add_table(s, n, out);
}

/* ---- Plain text for a terminal: the conclusion first, then a table for each task and kind of labels ---- */

static const char plus_minus[] = " \xc2\xb1 ";

static void number_cell(zest_text_table *t, double value, double unit, int sign) {
    zest_buffer text = {0};
    if (!isnan(value)) zest_sweep_number(&text, value, unit, sign);
    zest_text_table_cell_buffer(t, &text);
}

/* "84.1 ± 0.3" */
static void sample_cell(zest_text_table *t, const zest_sample *sample, double unit, int sign) {
    zest_buffer text = {0};
    if (sample->n) zest_sweep_number(&text, sample->mean, unit, sign);
    if (sample->n > 1 && !isnan(sample->error)) {
        zest_buffer_text(&text, plus_minus);
        zest_sweep_number(&text, sample->error, unit, 0);
    }
    zest_text_table_cell_buffer(t, &text);
}

static void row_cell(zest_text_table *t, const zest_sweep_summary *s, size_t row) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    zest_text_table_cell_buffer(t, &name);
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
    zest_text_table_cell_buffer(t, &interval);
    zest_buffer_format(&seeds, "%zu", compared ? e->difference.n : e->test.n);
    zest_text_table_cell_buffer(t, &seeds);
    zest_text_table_cell(t, e->complete ? zest_sweep_verdict(s, e) : "unfinished");
}

/* First-order methods first, as everywhere. */
static void add_entries(zest_text_table *t, const zest_sweep_summary *s, size_t noise, size_t task) {
    for (int first = 1; first >= 0; first--)
        for (size_t r = 0; r < s->row_count; r++) {
            const zest_sweep_entry *e = zest_sweep_entry_at(s, noise, task, r);
            if (e && zest_sweep_row_is_first_order(s, r) == first) add_entry(t, s, e);
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

static void sweep_plain_add_results(const zest_sweep_summary *s, size_t noise, size_t task,
                                    zest_buffer *out) {
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

static void sweep_plain_add_tilt(zest_text_table *t, const zest_sweep_summary *s,
                                 const zest_sweep_tilt_entry *e) {
    double const unit = zest_sweep_unit(s, e->task);
    zest_buffer tilt = {0}, steps = {0}, seconds = {0};
    row_cell(t, s, e->row);
    zest_buffer_format(&tilt, "%g", e->t);
    zest_text_table_cell_buffer(t, &tilt);
    sample_cell(t, &e->test, unit, 0);
    sample_cell(t, &e->dev, unit, 0);
    sample_cell(t, &e->difference, unit, 1);
    zest_sweep_best_steps(s, e->chosen, ", ", &steps);
    zest_text_table_cell_buffer(t, &steps);
    if (!isnan(e->seconds)) zest_buffer_format(&seconds, "%.0f", e->seconds);
    zest_text_table_cell_buffer(t, &seconds);
}

static void sweep_plain_add_tilts(const zest_sweep_summary *s, size_t noise, size_t task, zest_buffer *out) {
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
            sweep_plain_add_tilt(&t, s, &s->tilts[i]);
    if (t.count) {
        add_heading(s, noise, task, ", by t", out);
        zest_text_table_write(&t, out);
    }
    zest_text_table_free(&t);
    zest_buffer_free(&minus);
}

/* ---- All tables ---- */

static void sweep_plain_add_conclusion(const zest_sweep_summary *s, zest_buffer *out) {
    size_t count;
    zest_conclusion *all = zest_sweep_conclude_all(s, &count);
    zest_buffer lead = {0};
    if (all) zest_conclusion_lead(all, count, &lead);
    out->failed |= !all || lead.failed;
    zest_text_table_paragraph(out, lead.data ? lead.data : "");
    zest_buffer_free(&lead);
    free(all);
}

static void sweep_plain_add_failures(const zest_sweep_summary *s, zest_buffer *out) {
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
    if (s->finished) sweep_plain_add_conclusion(s, out);
    zest_buffer_format(out, "%zu of %zu runs finished", s->finished, s->plan->count);
    if (s->failed) zest_buffer_format(out, ", %zu failed", s->failed);
    zest_buffer_format(out, ".\nPer cent unless it is a loss; %s; hyper-parameters chosen on dev.\n",
                       s->seed_count > 1 ? "mean \xc2\xb1 standard error over seeds" : "one seed");
    for (size_t n = 0; n < s->noise_count && s->finished; n++)
        for (size_t t = 0; t < s->task_count; t++)
            if (zest_sweep_has(s, n, t)) sweep_plain_add_results(s, n, t, out);
    for (size_t n = 0; n < s->noise_count && s->finished && zest_sweep_several_tilts(s); n++)
        for (size_t t = 0; t < s->task_count; t++)
            if (zest_sweep_has(s, n, t)) sweep_plain_add_tilts(s, n, t, out);
    sweep_plain_add_failures(s, out);
}
