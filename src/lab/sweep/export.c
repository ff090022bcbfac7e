/* A sweep for other programs: CSVs of the tables, and everything as JSON. The JSON has no times: the same
 * runs give the same bytes, however often they were broken off. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lab/sweep/sweep.h"

/* ---- CSV: a line for each place of the table ---- */

static void add_field(zest_buffer *out, double value) {
    zest_buffer_text(out, ",");
    if (!isnan(value)) zest_buffer_format(out, "%.10g", value);
}

static const char *noise_of(const zest_sweep_summary *s, size_t noise) {
    const char *value = s->plan->runs[s->noises[noise]].value[ZEST_OPTION_LABEL_NOISE];
    return value ? value : "0";
}

static const char *task_of(const zest_sweep_summary *s, size_t task) {
    const char *value = s->plan->runs[s->tasks[task]].value[ZEST_OPTION_TASK];
    return value ? value : "";
}

/* "SST-2,0.3,zest-n" */
static void begin_line(const zest_sweep_summary *s, size_t task, size_t noise, size_t row, zest_buffer *out) {
    zest_buffer name = {0};
    zest_sweep_escape_csv(out, task_of(s, task));
    zest_buffer_format(out, ",%s,", noise_of(s, noise));
    zest_sweep_row_name(s, row, &name);
    zest_sweep_escape_csv(out, name.data ? name.data : "");
    out->failed |= name.failed;
    zest_buffer_free(&name);
}

void zest_sweep_csv(const zest_sweep_summary *s, zest_buffer *out) {
    zest_buffer_text(out, "task,label_noise,method,complete,seeds,dev,dev_error,test,test_error,difference,"
                          "difference_low,difference_high,mcnemar_p,verdict\n");
    for (size_t i = 0; i < s->entry_count; i++) {
        const zest_sweep_entry *e = &s->entries[i];
        int compared = e->base != ZEST_SWEEP_NONE && e->difference.n;
        begin_line(s, e->task, e->noise, e->row, out);
        zest_buffer_format(out, ",%s,%zu", e->complete ? "yes" : "no", e->test.n);
        double fields[] = {e->dev.mean,
                           e->dev.error,
                           e->test.mean,
                           e->test.error,
                           compared ? e->difference.mean : NAN,
                           compared ? e->difference.low : NAN,
                           compared ? e->difference.high : NAN,
                           e->p};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) add_field(out, fields[f]);
        zest_buffer_text(out, ",");
        zest_sweep_escape_csv(out, zest_sweep_verdict(s, e));
        zest_buffer_text(out, "\n");
    }
}

void zest_sweep_csv_by_t(const zest_sweep_summary *s, zest_buffer *out) {
    zest_buffer_text(out, "task,label_noise,method,t,seeds,dev,dev_error,dev_loss,dev_loss_error,test,"
                          "test_error,difference,difference_error,seconds,best_steps\n");
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        begin_line(s, e->task, e->noise, e->row, out);
        add_field(out, e->t);
        zest_buffer_format(out, ",%zu", e->test.n);
        double fields[] = {e->dev.mean,
                           e->dev.error,
                           e->loss.mean,
                           e->loss.error,
                           e->test.mean,
                           e->test.error,
                           e->difference.n ? e->difference.mean : NAN,
                           e->difference.n ? e->difference.error : NAN,
                           e->seconds};
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) add_field(out, fields[f]);
        zest_buffer_text(out, ",");
        zest_sweep_best_steps(s, e->chosen, " ", out);
        zest_buffer_text(out, "\n");
    }
}

/* ---- JSON ---- */

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *figures(const zest_sweep_figures *f) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "value", real(f->value), "accuracy", real(f->accuracy),
                     "f1", real(f->f1), "em", real(f->em), "loss", real(f->loss));
}

static json_t *sample(const zest_sample *x) {
    if (!x->n) return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "n", (json_int_t)x->n, "mean", real(x->mean), "error",
                     real(x->error), "low", real(x->low), "high", real(x->high));
}

static json_t *run_json(const zest_sweep_run *run) {
    static const char *const states[] = {"planned", "started", "finished", "failed"};
    json_t *options = json_object();
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (run->value[id])
            json_object_set_new(options, zest_option_row_at((zest_option_id)id)->name,
                                json_string(run->value[id]));
    json_t *object =
        json_pack("{s:s, s:s, s:o}", "name", run->name, "state", states[run->state], "options", options);
    if (!object) return NULL;
    if (run->message) json_object_set_new(object, "message", json_string(run->message));
    if (run->state == ZEST_SWEEP_FINISHED) {
        json_object_set_new(object, "metric", json_string(run->metric));
        json_object_set_new(object, "best_step", json_integer((json_int_t)run->best_step));
        json_object_set_new(object, "dev", figures(&run->dev));
        json_object_set_new(object, "test", figures(&run->test));
    }
    return object;
}

static json_t *place_json(const zest_sweep_summary *s, size_t task, size_t noise, size_t row) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    json_t *object = json_pack("{s:s, s:s, s:s}", "task", task_of(s, task), "label_noise", noise_of(s, noise),
                               "method", name.data ? name.data : "");
    zest_buffer_free(&name);
    return object;
}

/* The names of the runs. */
static json_t *chosen_json(const zest_sweep_summary *s, const size_t *chosen) {
    json_t *names = json_array();
    for (size_t i = 0; i < s->seed_count; i++)
        if (chosen[i] != ZEST_SWEEP_NONE)
            json_array_append_new(names, json_string(s->plan->runs[chosen[i]].name));
    return names;
}

static json_t *entry_json(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    json_t *object = place_json(s, e->task, e->noise, e->row);
    json_object_set_new(object, "complete", json_boolean(e->complete));
    json_object_set_new(object, "chosen", chosen_json(s, e->chosen));
    json_object_set_new(object, "dev", sample(&e->dev));
    json_object_set_new(object, "test", sample(&e->test));
    json_object_set_new(object, "difference",
                        e->base == ZEST_SWEEP_NONE ? json_null() : sample(&e->difference));
    json_object_set_new(object, "mcnemar_p", real(e->p));
    json_object_set_new(object, "verdict", json_string(zest_sweep_verdict(s, e)));
    return object;
}

/* The sentence that the tables begin with, and one for each comparison. */
static json_t *conclusion_json(const zest_sweep_summary *s) {
    size_t count;
    zest_conclusion *all = zest_sweep_conclude_all(s, &count);
    json_t *sentences = all ? zest_conclusion_json(all, count) : NULL;
    free(all);
    return sentences ? sentences : json_null();
}

zest_status zest_sweep_json(const zest_sweep_summary *s, zest_buffer *out, zest_error *error) {
    json_t *runs = json_array(), *entries = json_array(), *tilts = json_array();
    for (size_t i = 0; i < s->plan->count; i++) json_array_append_new(runs, run_json(&s->plan->runs[i]));
    for (size_t i = 0; i < s->entry_count; i++) json_array_append_new(entries, entry_json(s, &s->entries[i]));
    for (size_t i = 0; i < s->tilt_count; i++) {
        const zest_sweep_tilt_entry *e = &s->tilts[i];
        json_t *object = place_json(s, e->task, e->noise, e->row);
        json_object_set_new(object, "t", real(e->t));
        json_object_set_new(object, "chosen", chosen_json(s, e->chosen));
        json_object_set_new(object, "dev", sample(&e->dev));
        json_object_set_new(object, "dev_loss", sample(&e->loss));
        json_object_set_new(object, "test", sample(&e->test));
        json_object_set_new(object, "difference", sample(&e->difference));
        json_array_append_new(tilts, object);
    }
    json_t *all = json_pack("{s:I, s:I, s:s?, s:o, s:o, s:o, s:o}", "finished", (json_int_t)s->finished,
                            "failed", (json_int_t)s->failed, "base", s->base, "conclusion",
                            conclusion_json(s), "runs", runs, "table", entries, "by_t", tilts);
    char *text = all ? zest_json_dump(all, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    if (!text) return zest_error_memory(error, "the results of a sweep", 0);
    zest_buffer_text(out, text);
    free(text);
    return out->failed ? zest_error_memory(error, "the results of a sweep", out->size) : ZEST_OK;
}
