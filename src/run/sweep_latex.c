/* The tables of a sweep in the layout of the paper's tables 2 to 4: tasks side by side, methods below each
 * other, one table for each share of noise. */
#include <string.h>

#include "run/sweep.h"

static void add_escaped(zest_buffer *out, zest_buffer *text) {
    zest_sweep_escape_latex(out, text->data ? text->data : "");
    out->failed |= text->failed;
    zest_buffer_free(text);
}

/* The paper's way to write a method, with what else its row says behind it. */
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
            add_escaped(out, &rest);
            zest_buffer_free(&name);
            return;
        }
    add_escaped(out, &name);
}

static void add_number(zest_buffer *out, double value, double unit) {
    zest_buffer text = {0};
    zest_sweep_number(&text, value, unit, 0);
    zest_buffer_text(out, value == value && text.data ? text.data : "--"); /* NaN: a dash of LaTeX's own */
    out->failed |= text.failed;
    zest_buffer_free(&text);
}

static void add_cell(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_buffer *out) {
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
        if (zest_sweep_is_first_order(s, r) != first) continue;
        zest_buffer_text(out, "  & ");
        add_method(s, r, out);
        for (size_t t = 0; t < s->task_count; t++) add_cell(s, zest_sweep_entry_at(s, noise, t, r), out);
        zest_buffer_text(out, " \\\\\n");
    }
}

/* ---- The head: tasks, and what kinds of tasks they are ---- */

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

/* As the paper writes it, where the paper has it: "SST-5" for sst-5. */
static const char *task_name(const zest_sweep_summary *s, size_t task, char *room, size_t size,
                             const char **kind) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK],
               *name = zest_sweep_task_name(value ? value : "", room, size);
    *kind = "";
    for (size_t i = 0; i < KINDS; i++)
        if (!strcasecmp(kinds[i].task, name)) return *kind = kinds[i].kind, kinds[i].task;
    return name;
}

static void add_head(const zest_sweep_summary *s, zest_buffer *out) {
    char room[128];
    const char *kind, *next = "";
    int any = 0;
    for (size_t t = 0; t < s->task_count; t++)
        task_name(s, t, room, sizeof room, &kind), any |= *kind != '\0';
    zest_buffer_text(out, any ? "\\multirow{2}{*}{Type} & \\multirow{2}{*}{Method}" : "Type & Method");
    for (size_t t = 0; t < s->task_count; t++) {
        zest_buffer_text(out, " & \\textbf{");
        zest_sweep_escape_latex(out, task_name(s, t, room, sizeof room, &kind));
        zest_buffer_text(out, "}");
    }
    zest_buffer_text(out, any ? " \\\\\n &" : "");
    for (size_t t = 0, end; any && t < s->task_count; t = end) {
        task_name(s, t, room, sizeof room, &kind);
        for (end = t + 1; end < s->task_count; end++) {
            task_name(s, end, room, sizeof room, &next);
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
    add_escaped(out, &name);
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
