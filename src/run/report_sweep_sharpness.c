/* What `zest sharpness` found about the runs of a sweep: a figure for each task and share of noise, runs that
 * differ in the seed alone taken together. The paper's figures 2 and 4. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "run/report_page.h"
#include "run/sharpness.h"

typedef struct {
    zest_sharpness_series *series;
    json_t **found;
    char (*names)[128];
    size_t count;
} material;

static void free_material(material *m) {
    for (size_t i = 0; i < m->count; i++) json_decref(m->found[i]);
    free(m->series);
    free(m->found);
    free(m->names);
}

/* "ZEST-N t=100" */
static void name_series(const zest_sweep_summary *s, const zest_sweep_tilt_entry *e, char *room,
                        size_t size) {
    zest_buffer row = {0};
    zest_sweep_row_name(s, e->row, &row);
    zest_sensitivity_name(row.data ? row.data : "", room, size);
    zest_buffer_free(&row);
    size_t length = strlen(room);
    if (e->t > 0) zest_number_format(room + length, size - length, " t=%g", e->t);
}

/* The runs of one task and share of noise that were measured, in the order of the table. */
static int gather(const zest_report *report, size_t task, size_t noise, material *m) {
    const zest_sweep_summary *s = report->sweep;
    size_t const room = s->tilt_count * s->seed_count + 1;
    *m = (material){.series = calloc(room, sizeof *m->series),
                    .found = calloc(room, sizeof *m->found),
                    .names = calloc(room, sizeof *m->names)};
    if (!m->series || !m->found || !m->names) return 0;
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        for (size_t j = 0; j < s->seed_count && e->task == task && e->noise == noise; j++) {
            size_t at = e->chosen[j] == ZEST_SWEEP_NONE ? ZEST_SWEEP_NONE : report->of_plan[e->chosen[j]];
            json_t *found = at == ZEST_SWEEP_NONE ? NULL : zest_report_read_sharpness(&report->runs[at]);
            if (!found) continue;
            name_series(s, e, m->names[m->count], sizeof m->names[m->count]);
            m->found[m->count] = found;
            m->series[m->count] = (zest_sharpness_series){
                found, m->names[m->count],
                zest_sensitivity_colour(zest_sweep_method(&s->plan->runs[s->rows[e->row]]))};
            m->count++;
        }
    }
    return 1;
}

static void draw(zest_report_page *page, size_t task, size_t noise, const material *m) {
    const zest_sweep_summary *s = page->report->sweep;
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    zest_buffer title = {0}, id = {0}, caption = {0};
    char name[128];
    zest_buffer_format(&title, "Sharpness: %s, ",
                       zest_sweep_task_name(value ? value : "", name, sizeof name));
    zest_sweep_noise_name(s, noise, &title);
    zest_buffer_text(&id, "sharpness-");
    zest_sweep_safe(&id, name);
    if (noise) zest_buffer_format(&id, "-noise%zu", noise);
    zest_buffer_text(&caption,
                     "Left: mean loss of perturbed weights; radius 0 is the weights themselves. Right: the "
                     "largest eigenvalues of the Hessian. ");
    zest_sharpness_settings(m->series, m->count, &caption);
    zest_buffer_text(&caption, ".");
    if (title.failed || id.failed || caption.failed) {
        page->status = zest_error_memory(&page->error, "a figure", 0);
    } else {
        zest_sharpness_style const wide = {.width = ZEST_REPORT_WIDE},
                                   narrow = {.width = ZEST_REPORT_PHONE, .stacked = 1},
                                   alone = {.title = title.data};
        zest_report_drawing const d = {.id = id.data,
                                       .title = title.data,
                                       .wide = zest_sharpness_figure(m->series, m->count, wide),
                                       .narrow = zest_sharpness_figure(m->series, m->count, narrow),
                                       .alone = zest_sharpness_figure(m->series, m->count, alone)};
        zest_report_draw(page, &d, caption.data, NULL, NULL);
    }
    zest_buffer_free(&title);
    zest_buffer_free(&id);
    zest_buffer_free(&caption);
}

void zest_report_sweep_sharpness(zest_report_page *page) {
    const zest_sweep_summary *s = page->report->sweep;
    size_t const before = page->body.size;
    zest_buffer_text(&page->body, "<div class=\"figures\">\n");
    size_t const opened = page->body.size;
    for (size_t n = 0; n < s->noise_count; n++)
        for (size_t t = 0; t < s->task_count && !page->status; t++) {
            material m;
            if (!gather(page->report, t, n, &m))
                page->status = zest_error_memory(&page->error, "sharpness", 0);
            if (!page->status && m.count) draw(page, t, n, &m);
            free_material(&m);
        }
    if (page->body.size == opened)
        page->body.size = before;
    else
        zest_buffer_text(&page->body, "</div>\n");
}
