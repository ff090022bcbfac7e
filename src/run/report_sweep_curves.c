/* The dev set over time by t, means over the seeds of a sweep: the paper's figure 3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/report_page.h"

/* What a figure is made of, until it is drawn. */
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

/* Steps at which all chosen runs were evaluated. Returns how many. */
static size_t average(const zest_report *report, const zest_sweep_tilt_entry *e, double *numbers,
                      size_t room) {
    const zest_sweep_summary *s = report->sweep;
    double *values = malloc((s->seed_count + 1) * sizeof *values);
    size_t used = 0, wanted = 0;
    const zest_report_run *first = NULL;
    for (size_t i = 0; i < s->seed_count; i++) {
        const zest_report_run *run = run_of(report, e, i);
        wanted += run != NULL;
        if (!first) first = run;
    }
    for (size_t j = 0; values && first && j < first->log.eval_count && used < room; j++) {
        if (strcmp(first->log.evals[j].part, "dev")) continue;
        size_t known = 0;
        for (size_t i = 0; i < s->seed_count; i++) {
            const zest_report_run *run = run_of(report, e, i);
            const zest_log_eval *eval = run ? dev_at(run, first->log.evals[j].step) : NULL;
            if (eval) values[known++] = eval->value;
        }
        zest_sample const sample = zest_sample_of(values, known);
        if (sample.n != wanted) continue;
        numbers[used] = (double)first->log.evals[j].step;
        numbers[room + used] = sample.mean;
        numbers[2 * room + used] = sample.error;
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
    size_t const room = first->log.eval_count;
    double *numbers = calloc(room, 3 * sizeof *numbers);
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
                                 .count = average(report, e, numbers, room),
                                 .steps = numbers,
                                 .means = numbers + room,
                                 .errors = numbers + 2 * room};
    return 1;
}

/* MeZO's curves and those of one row. */
static int gather(const zest_report *report, size_t row, course *c) {
    const zest_sweep_summary *s = report->sweep;
    *c = (course){.curves = calloc(s->tilt_count + 1, sizeof *c->curves),
                  .texts = calloc(s->tilt_count + 1, sizeof *c->texts),
                  .numbers = calloc(s->tilt_count + 1, sizeof *c->numbers)};
    int good = c->curves && c->texts && c->numbers;
    for (size_t i = 0; i < s->tilt_count && good; i++)
        if (s->tilts[i].row == row || s->tilts[i].t == 0) good = add_curve(report, &s->tilts[i], c);
    return good;
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
