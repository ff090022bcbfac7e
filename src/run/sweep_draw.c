/* The figure of a sweep: results against t. */
#include <stdlib.h>
#include <string.h>

#include "run/sensitivity.h"
#include "run/sweep.h"

/* The texts that the points name: tasks, kinds of labels, rows. */
typedef struct {
    char **texts;
    size_t count;
} words;

static void free_words(words *w) {
    for (size_t i = 0; i < w->count; i++) free(w->texts[i]);
    free(w->texts);
}

/* Tasks first, then kinds of labels, then rows. */
static int find_words(const zest_sweep_summary *s, words *w) {
    w->texts = calloc(s->task_count + s->noise_count + s->row_count + 1, sizeof *w->texts);
    int failed = !w->texts;
    for (size_t t = 0; t < s->task_count && !failed; t++) {
        const char *task = s->plan->runs[s->tasks[t]].value[ZEST_OPTION_TASK];
        char room[128];
        w->texts[w->count] = strdup(zest_sweep_task_name(task ? task : "", room, sizeof room));
        failed = !w->texts[w->count++];
    }
    for (size_t i = 0; i < s->noise_count + s->row_count && !failed; i++) {
        zest_buffer name = {0};
        if (i < s->noise_count)
            zest_sweep_noise_name(s, i, &name);
        else
            zest_sweep_row_name(s, i - s->noise_count, &name);
        w->texts[w->count++] = name.data;
        failed = name.failed;
    }
    return !failed;
}

zest_plot *zest_sweep_figure(const zest_sweep_summary *s, int test, zest_sensitivity_style style) {
    zest_sensitivity_point *points = calloc(s->tilt_count + 1, sizeof *points);
    words w = {0};
    zest_plot *plot = NULL;
    if (points && find_words(s, &w)) {
        for (size_t i = 0; i < s->tilt_count; i++) {
            const zest_sweep_tilt_entry *e = &s->tilts[i];
            points[i] = (zest_sensitivity_point){.task = w.texts[e->task],
                                                 .labels = w.texts[s->task_count + e->noise],
                                                 .method = w.texts[s->task_count + s->noise_count + e->row],
                                                 .t = e->t,
                                                 .metric = zest_sweep_metric(s, e->chosen),
                                                 .value = test ? e->test : e->dev};
        }
        plot = zest_sensitivity_figure(points, s->tilt_count, style);
    }
    free_words(&w);
    free(points);
    return plot;
}
