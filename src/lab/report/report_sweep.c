/* A sweep in the report: its tables and methods, results against t, and the dev set over time by t. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/report/report_page.h"
#include "lab/sweep/sweep.h"

enum { GRID_LIMIT = 1 << 20 };

/* ---- Reading ---- */

int zest_report_is_sweep(const char *path) {
    char *grid = zest_file_join(path, "grid"), *runs = zest_file_join(path, "runs");
    int found = grid && runs && !access(grid, F_OK) && !access(runs, F_OK);
    free(grid);
    free(runs);
    return found;
}

/* The answers that are compared when there is one seed; without them there is no verdict. */
static zest_status read_answers(zest_sweep_plan *plan, const char *folder, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < plan->count && !status; i++) {
        zest_buffer path = {0};
        zest_buffer_format(&path, "%s/answers/%s.jsonl", folder, plan->runs[i].name);
        status = path.failed ? zest_error_memory(error, folder, path.size)
                             : zest_sweep_answers_read(&plan->runs[i], path.data, error);
        zest_buffer_free(&path);
    }
    return status;
}

zest_status zest_report_read_sweep(const char *folder, zest_sweep_plan *plan, zest_error *error) {
    zest_sweep_grid grid = {0};
    zest_buffer text = {0};
    char *path = zest_file_join(folder, "grid");
    *plan = (zest_sweep_plan){0};
    zest_status status =
        path ? zest_file_read(path, GRID_LIMIT, &text, error) : zest_error_memory(error, folder, 0);
    if (!status) status = zest_sweep_grid_read(&grid, text.data ? text.data : "", path, error);
    if (!status) status = zest_sweep_plan_make(&grid, plan, error);
    if (!status) status = zest_sweep_results_read(plan, folder, error);
    if (!status) status = read_answers(plan, folder, error);
    zest_sweep_grid_free(&grid);
    zest_buffer_free(&text);
    free(path);
    return status;
}

/* ---- Tables ---- */

/* Text of functions that append plain text. */
static void add_text(zest_buffer *out, zest_buffer *text) {
    zest_report_escape(out, text->data ? text->data : "");
    out->failed |= text->failed;
    zest_buffer_free(text);
}

static void add_row_name(const zest_sweep_summary *s, size_t row, zest_buffer *out) {
    zest_buffer name = {0};
    char buffer[128];
    zest_sweep_row_name(s, row, &name);
    zest_report_escape(out, zest_sensitivity_name(name.data ? name.data : "", buffer, sizeof buffer));
    out->failed |= name.failed;
    zest_buffer_free(&name);
}

static void add_noise(const zest_sweep_summary *s, size_t noise, zest_buffer *out) {
    zest_buffer name = {0};
    zest_sweep_noise_name(s, noise, &name);
    add_text(out, &name);
}

static void add_task(const zest_sweep_summary *s, size_t task, zest_buffer *out) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    char buffer[128];
    zest_report_escape(out, zest_sweep_task_name(value ? value : "", buffer, sizeof buffer));
}

static void open_table(zest_buffer *out, const char *label) {
    zest_buffer_format(out,
                       "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table>\n"
                       "<thead><tr>",
                       label);
}

static void add_cell(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_buffer *out) {
    zest_buffer_format(out, "<td class=\"n%s\">", e && zest_sweep_is_best(s, e) ? " top" : "");
    if (e) zest_sweep_number(out, e->test.mean, zest_sweep_unit(s, e->task), 0);
    if (e && e->test.n > 1) {
        zest_buffer_text(out, " \xc2\xb1\xe2\x80\xaf");
        zest_sweep_number(out, e->test.error, zest_sweep_unit(s, e->task), 0);
    }
    zest_buffer_text(out, "</td>");
}

static void add_results(const zest_sweep_summary *s, size_t noise, zest_buffer *out) {
    zest_buffer_text(out, "<h3>Test, ");
    add_noise(s, noise, out);
    zest_buffer_text(out, "</h3>\n");
    open_table(out, "Test results");
    zest_buffer_text(out, "<th scope=\"col\">method</th>");
    for (size_t t = 0; t < s->task_count; t++) {
        if (!zest_sweep_has(s, noise, t)) continue;
        zest_buffer_text(out, "<th scope=\"col\" class=\"n\">");
        add_task(s, t, out);
        zest_buffer_text(out, "</th>");
    }
    zest_buffer_text(out, "</tr></thead>\n<tbody>\n");
    for (int first = 1; first >= 0; first--)
        for (size_t r = 0; r < s->row_count; r++) {
            if (zest_sweep_row_is_first_order(s, r) != first) continue;
            zest_buffer_text(out, "<tr><th scope=\"row\">");
            add_row_name(s, r, out);
            zest_buffer_text(out, "</th>");
            for (size_t t = 0; t < s->task_count; t++)
                if (zest_sweep_has(s, noise, t)) add_cell(s, zest_sweep_entry_at(s, noise, t, r), out);
            zest_buffer_text(out, "</tr>\n");
        }
    zest_buffer_text(out, "</tbody></table></div>\n");
}

static void add_difference(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_buffer *out) {
    double const unit = zest_sweep_unit(s, e->task);
    zest_buffer_text(out, "<tr><th scope=\"row\">");
    add_row_name(s, e->row, out);
    zest_buffer_text(out, "</th>");
    if (s->task_count > 1)
        zest_buffer_text(out, "<td>"), add_task(s, e->task, out), zest_buffer_text(out, "</td>");
    if (s->noise_count > 1)
        zest_buffer_text(out, "<td>"), add_noise(s, e->noise, out), zest_buffer_text(out, "</td>");
    zest_buffer_text(out, "<td class=\"n\">");
    zest_sweep_number(out, e->difference.mean, unit, 1);
    zest_buffer_text(out, "</td><td class=\"n\">");
    zest_sweep_interval(out, e, unit);
    zest_buffer_format(out, "</td><td>%s</td><td class=\"n\">%zu</td></tr>\n", zest_sweep_verdict(s, e),
                       e->difference.n);
}

static void add_differences(const zest_sweep_summary *s, zest_buffer *out) {
    char base[32];
    int any = 0;
    for (size_t i = 0; i < s->entry_count; i++) {
        if (s->entries[i].base == ZEST_SWEEP_NONE || !s->entries[i].difference.n) continue;
        if (!any++) {
            zest_buffer_format(out, "<h3>Difference from %s of the same seed</h3>\n",
                               zest_sweep_base_name(s, base, sizeof base));
            open_table(out, "Differences");
            zest_buffer_format(
                out,
                "<th scope=\"col\">method</th>%s%s<th scope=\"col\" class=\"n\">difference</th>"
                "<th scope=\"col\" class=\"n\">95\xe2\x80\xaf%% interval</th>"
                "<th scope=\"col\">verdict</th><th scope=\"col\" class=\"n\">seeds</th>"
                "</tr></thead>\n<tbody>\n",
                s->task_count > 1 ? "<th scope=\"col\">task</th>" : "",
                s->noise_count > 1 ? "<th scope=\"col\">labels</th>" : "");
        }
        add_difference(s, &s->entries[i], out);
    }
    if (any)
        zest_buffer_text(
            out, "</tbody></table></div>\n<p class=\"note\">A verdict needs at least 3 seeds. Each row is "
                 "a test at 5\xe2\x80\xaf%: of 20 rows without a difference, one is called better or worse "
                 "on average.</p>\n");
}

/* For the page, for phones, and for a file. */
static zest_report_drawing three_times(const zest_sweep_summary *s, zest_sweep_figure_of make, int test,
                                       const char *id, const char *title) {
    return (zest_report_drawing){
        .id = id,
        .title = title,
        .wide = make(s, test, (zest_sensitivity_style){.width = ZEST_REPORT_WIDE}),
        .narrow =
            make(s, test, (zest_sensitivity_style){.width = ZEST_REPORT_PHONE, .columns = 1, .height = 220}),
        .alone = make(s, test, (zest_sensitivity_style){.title = title})};
}

/* The tables above have the numbers. */
static void add_methods_figure(zest_report_page *page) {
    const zest_sweep_summary *s = page->report->sweep;
    zest_report_drawing d = three_times(s, zest_sweep_methods, 1, "methods-test", "Test results by method");
    if (!d.wide) return;
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    zest_report_draw(page, &d,
                     s->seed_count > 1 ? "Mean and standard error over seeds. Rings: the seeds. Dashed: the "
                                         "mean that the others are compared with."
                                       : "One seed. Dashed: the value that the others are compared with.",
                     NULL, NULL);
    zest_buffer_text(&page->body, "</div>\n");
}

void zest_report_sweep(zest_report_page *page) {
    const zest_sweep_summary *s = page->report->sweep;
    zest_buffer *out = &page->body;
    if (!s || !s->finished) return;
    zest_buffer_format(out,
                       "<p>%zu of %zu runs are finished. Hyper-parameters are chosen on dev for each method, "
                       "task and seed. Values are in per cent, losses as they are; %s.</p>\n",
                       s->finished, s->plan->count,
                       s->seed_count > 1 ? "mean \xc2\xb1 standard error over seeds" : "one seed");
    for (size_t n = 0; n < s->noise_count; n++) add_results(s, n, out);
    add_differences(s, out);
    add_methods_figure(page);
}

/* ---- Results against t ---- */

static void add_tilt_numbers(zest_report_page *page, const void *user) {
    const zest_sweep_summary *s = page->report->sweep;
    int const test = *(const int *)user;
    zest_buffer *out = &page->body;
    zest_buffer_text(out, "<details><summary>Numbers</summary>\n");
    open_table(out, test ? "Test results by t" : "Dev results by t");
    zest_buffer_text(
        out, "<th scope=\"col\">method</th><th scope=\"col\" class=\"n\">t</th><th scope=\"col\">task</th>"
             "<th scope=\"col\">labels</th><th scope=\"col\" class=\"n\">mean</th><th scope=\"col\" "
             "class=\"n\">standard error</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        const zest_sample *value = test ? &e->test : &e->dev;
        if (isnan(e->t)) continue;
        zest_buffer_text(out, "<tr><th scope=\"row\">");
        add_row_name(s, e->row, out);
        zest_buffer_format(out, "</th><td class=\"n\">%g</td><td>", e->t);
        add_task(s, e->task, out);
        zest_buffer_text(out, "</td><td>");
        add_noise(s, e->noise, out);
        zest_buffer_text(out, "</td><td class=\"n\">");
        zest_sweep_number(out, value->mean, zest_sweep_unit(s, e->task), 0);
        zest_buffer_text(out, "</td><td class=\"n\">");
        zest_sweep_number(out, value->error, zest_sweep_unit(s, e->task), 0);
        zest_buffer_text(out, "</td></tr>\n");
    }
    zest_buffer_text(out, "</tbody></table></div></details>\n");
}

static void add_tilt_figure(zest_report_page *page, int test) {
    const zest_sweep_summary *s = page->report->sweep;
    zest_report_drawing d = test ? three_times(s, zest_sweep_figure, 1, "by-t-test", "Test results against t")
                                 : three_times(s, zest_sweep_figure, 0, "by-t-dev", "Dev results against t");
    zest_report_draw(page, &d,
                     s->seed_count > 1
                         ? "Mean and standard error over seeds. All else is chosen on dev for each t. "
                           "Dashed, with its band: MeZO."
                         : "One seed. All else is chosen on dev for each t. Dashed: MeZO.",
                     add_tilt_numbers, &test);
}

void zest_report_sweep_tilts(zest_report_page *page) {
    size_t const before = page->body.size;
    if (!page->report->sweep || !zest_sweep_several_tilts(page->report->sweep)) return;
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    size_t const opened = page->body.size;
    add_tilt_figure(page, 1);
    if (!page->status) add_tilt_figure(page, 0);
    if (!page->status) zest_report_sweep_curves(page);
    if (page->body.size == opened)
        page->body.size = before;
    else
        zest_buffer_text(&page->body, "</div>\n");
}

/* ---- Dev set over time by t, means over seeds: the paper's figure 3 ---- */

/* Memory of a figure until it is drawn. */
typedef struct {
    zest_sensitivity_curve *curves;
    char (*texts)[2][96]; /* by curve: task, kind of labels */
    double **numbers;     /* by curve */
    size_t count;
} course;

static void free_course(course *c) {
    for (size_t i = 0; i < c->count; i++) free(c->numbers[i]);
    free(c->curves);
    free(c->texts);
    free(c->numbers);
}

static const zest_log_eval *dev_at(const zest_report_run *run, uint64_t step) {
    for (size_t i = 0; i < run->log.eval_count; i++)
        if (run->log.evals[i].step == step && !strcmp(run->log.evals[i].part, "dev"))
            return &run->log.evals[i];
    return NULL;
}

static const zest_report_run *run_of(const zest_report *report, const zest_sweep_tilt_entry *e, size_t seed) {
    size_t at = e->chosen[seed] == ZEST_SWEEP_NONE ? ZEST_SWEEP_NONE : report->of_plan[e->chosen[seed]];
    return at == ZEST_SWEEP_NONE ? NULL : &report->runs[at];
}

/* Steps at which all chosen runs were evaluated. Returns their number. */
static size_t average(const zest_report *report, const zest_sweep_tilt_entry *e, double *numbers,
                      size_t buffer) {
    const zest_sweep_summary *s = report->sweep;
    double *values = malloc((s->seed_count + 1) * sizeof *values);
    size_t used = 0, runs_needed = 0;
    const zest_report_run *first = NULL;
    for (size_t i = 0; i < s->seed_count; i++) {
        const zest_report_run *run = run_of(report, e, i);
        runs_needed += run != NULL;
        if (!first) first = run;
    }
    for (size_t j = 0; values && first && j < first->log.eval_count && used < buffer; j++) {
        if (strcmp(first->log.evals[j].part, "dev")) continue;
        size_t known = 0;
        for (size_t i = 0; i < s->seed_count; i++) {
            const zest_report_run *run = run_of(report, e, i);
            const zest_log_eval *eval = run ? dev_at(run, first->log.evals[j].step) : NULL;
            if (eval) values[known++] = eval->value;
        }
        zest_sample const sample = zest_sample_of(values, known);
        if (sample.n != runs_needed) continue;
        numbers[used] = (double)first->log.evals[j].step;
        numbers[buffer + used] = sample.mean;
        numbers[2 * buffer + used] = sample.error;
        used++;
    }
    free(values);
    return used;
}

static int add_curve(const zest_report *report, const zest_sweep_tilt_entry *e, course *c) {
    const zest_sweep_summary *s = report->sweep;
    const zest_report_run *first = NULL;
    for (size_t i = 0; i < s->seed_count && !first; i++) first = run_of(report, e, i);
    if (!first || !first->log.eval_count) return 1;
    size_t const buffer = first->log.eval_count;
    double *numbers = calloc(buffer, 3 * sizeof *numbers);
    zest_buffer labels = {0};
    const char *task = s->plan->runs[s->tasks[e->task]].value[ZEST_OPTION_TASK];
    char(*texts)[96] = c->texts[c->count];
    if (!numbers) return 0;
    zest_sweep_task_name(task ? task : "", texts[0], sizeof texts[0]);
    zest_sweep_noise_name(s, e->noise, &labels);
    snprintf(texts[1], sizeof texts[1], "%s", labels.data ? labels.data : "");
    zest_buffer_free(&labels);
    c->numbers[c->count] = numbers;
    c->curves[c->count++] =
        (zest_sensitivity_curve){.task = texts[0],
                                 .labels = texts[1],
                                 .method = zest_sweep_method(&s->plan->runs[s->rows[e->row]]),
                                 .metric = zest_report_metric(first),
                                 .t = e->t,
                                 .count = average(report, e, numbers, buffer),
                                 .steps = numbers,
                                 .means = numbers + buffer,
                                 .errors = numbers + 2 * buffer};
    return 1;
}

/* The curves of MeZO and those of one row. */
static int gather(const zest_report *report, size_t row, course *c) {
    const zest_sweep_summary *s = report->sweep;
    *c = (course){.curves = calloc(s->tilt_count + 1, sizeof *c->curves),
                  .texts = calloc(s->tilt_count + 1, sizeof *c->texts),
                  .numbers = calloc(s->tilt_count + 1, sizeof *c->numbers)};
    int ok = c->curves && c->texts && c->numbers;
    for (size_t i = 0; i < s->tilt_count && ok; i++)
        if (s->tilts[i].row == row || s->tilts[i].t == 0) ok = add_curve(report, &s->tilts[i], c);
    return ok;
}

static void draw_row(zest_report_page *page, size_t row) {
    const zest_sweep_summary *s = page->report->sweep;
    course c;
    zest_buffer name = {0}, title = {0}, id = {0};
    char shown[128];
    zest_sweep_row_name(s, row, &name);
    zest_sensitivity_name(name.data ? name.data : "", shown, sizeof shown);
    zest_buffer_format(&title, "Dev metric over time: %s by t", shown);
    zest_buffer_text(&id, "t-curves-");
    zest_sweep_safe(&id, name.data ? name.data : "");
    if (!gather(page->report, row, &c) || name.failed || title.failed || id.failed)
        page->status = zest_error_memory(&page->error, "curves of a sweep", s->tilt_count);
    if (!page->status) {
        zest_sensitivity_style const wide = {.width = ZEST_REPORT_WIDE},
                                     narrow = {.width = ZEST_REPORT_PHONE, .columns = 1, .height = 220},
                                     alone = {.title = title.data};
        zest_report_drawing const d = {.id = id.data,
                                       .title = title.data,
                                       .wide = zest_sensitivity_curves(c.curves, c.count, wide),
                                       .narrow = zest_sensitivity_curves(c.curves, c.count, narrow),
                                       .alone = zest_sensitivity_curves(c.curves, c.count, alone)};
        zest_report_draw(page, &d,
                         "Mean over seeds with its standard error. All else is chosen on dev for each t.",
                         NULL, NULL);
    }
    free_course(&c);
    zest_buffer_free(&name);
    zest_buffer_free(&title);
    zest_buffer_free(&id);
}

void zest_report_sweep_curves(zest_report_page *page) {
    const zest_sweep_summary *s = page->report->sweep;
    for (size_t r = 0; s && r < s->row_count && !page->status; r++) {
        int tilted = 0;
        for (size_t i = 0; i < s->tilt_count; i++) tilted |= s->tilts[i].row == r && s->tilts[i].t > 0;
        if (tilted) draw_row(page, r);
    }
}
