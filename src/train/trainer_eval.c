/* Evaluations on the dev examples, and the best weights: on disk with --out, else from the run's history in memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/trainer_internal.h"
#include "model/input_rows.h"

/* ---- Selection ---- */

zest_metric zest_trainer_selection(const zest_trainer *t) {
    uint64_t choice = zest_options_whole(t->options, ZEST_OPTION_SELECT);
    return choice ? (zest_metric)(choice - 1) : t->select;
}

/* The number to be maximised. A metric that the task does not have falls back on the loss. */
static double selection_value(const zest_trainer *t, const zest_metrics *m) {
    zest_metric by = zest_trainer_selection(t);
    double value = by == ZEST_METRIC_LOSS ? NAN : zest_metric_value(m, by);
    return isnan(value) ? -m->loss : value;
}

/* Of equal values the one with the lower loss, of equal losses the first. */
static int is_better(const zest_trainer *t, double value, double loss) {
    if (isnan(t->best) || value > t->best) return 1;
    if (value != t->best || t->first_of_equals) return 0;
    return loss < t->best_loss || (isnan(t->best_loss) && !isnan(loss));
}

static int update_best(zest_trainer *t, uint64_t step, const zest_metrics *m) {
    double value = selection_value(t, m);
    if (!t->has_dev && step == 0) t->start = *m;
    t->has_dev = 1;
    t->dev = *m;
    t->dev_step = step;
    if (!is_better(t, value, m->loss)) return 0;
    t->best = value;
    t->best_loss = m->loss;
    t->best_step = step;
    return 1;
}

/* ---- Evaluation ---- */

int zest_trainer_eval_due(const zest_trainer *t) {
    uint64_t every = zest_options_whole(t->options, ZEST_OPTION_EVAL_EVERY);
    if (!t->counts[ZEST_PART_DEV] || (t->has_dev && t->dev_step == t->step)) return 0;
    return t->step == 0 || (every && t->step % every == 0) ||
           t->step >= zest_options_whole(t->options, ZEST_OPTION_STEPS);
}

zest_status zest_trainer_evaluate_dev(zest_trainer *t) {
    zest_metrics metrics;
    int generate = zest_trainer_selection(t) != ZEST_METRIC_LOSS; /* free text costs far more than its loss */
    double began = zest_clock_now();
    zest_status status = t->source->evaluate(t, &t->loaded, ZEST_PART_DEV, generate, &metrics);
    if (status) return status;
    t->dev_seconds = zest_clock_now() - began;
    int best = update_best(t, t->step, &metrics);
    /* the weights first: an evaluation that is in the log has its weights on disk */
    if (t->has_output_dir)
        status = t->ops->save(t, best ? ZEST_SAVE_BEST : ZEST_SAVE_EVAL);
    else if (best && !t->is_kept)
        status = zest_trainer_copy_best(t);
    return status ? status : zest_trainer_log_eval(t, &metrics, best);
}

/* ---- Resuming ---- */

static zest_metrics from_log(const zest_log_eval *e) {
    return (zest_metrics){.n = (size_t)e->n,
                          .loss = e->loss,
                          .accuracy = e->accuracy,
                          .f1 = e->f1,
                          .em = e->em,
                          .low = e->low,
                          .high = e->high,
                          .value = e->value};
}

static int by_step(const void *left, const void *right) {
    const zest_log_eval *a = *(const zest_log_eval *const *)left, *b = *(const zest_log_eval *const *)right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a < b ? -1 : a > b; /* in the order of the log */
}

/* The evaluations of the dev examples in the log, by their steps. To be freed; NULL: out of memory. */
static const zest_log_eval **sort_evals(const zest_log *log, size_t *count) {
    const zest_log_eval **list = malloc((log->eval_count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < log->eval_count; i++)
        if (!strcmp(log->evals[i].part, "dev")) list[(*count)++] = &log->evals[i];
    if (list) qsort(list, *count, sizeof *list, by_step);
    return list;
}

/* The first step from `from` on, before the last one, that is evaluated and whose weights may be there; UINT64_MAX:
 * none. Of a first-order run those are the kept steps, so that the time does not depend on the step that a file names. */
static uint64_t next_to_repeat(const zest_trainer *t, const uint64_t kept[2], uint64_t from) {
    uint64_t every = zest_options_whole(t->options, ZEST_OPTION_EVAL_EVERY), next = UINT64_MAX;
    if (!from && t->step) return 0;
    if (!every) return UINT64_MAX;
    if (!zest_options_first_order(t->options)) next = from + (every - from % every) % every;
    for (int i = 0; i < 2; i++)
        if (kept[i] >= from && kept[i] < next && kept[i] % every == 0) next = kept[i];
    return next < t->step ? next : UINT64_MAX;
}

/* Repeats an evaluation that the log has lost with the end of the file, with the weights of its step. Where there are
 * none of that step, the log does without. */
static zest_status repeat_eval(zest_trainer *t, uint64_t step) {
    uint64_t now = t->step;
    zest_status status = t->ops->load_step(t, step);
    if (status == ZEST_ERROR_STATE) return ZEST_OK;
    t->step = step;
    if (!status) status = zest_trainer_evaluate_dev(t);
    t->step = now;
    return status;
}

zest_status zest_trainer_restore_evals(zest_trainer *t, const zest_log *log) {
    zest_status status = ZEST_OK;
    size_t count, i = 0;
    uint64_t kept[2] = {UINT64_MAX, UINT64_MAX}; /* steps of checkpoints */
    int reloaded = 0;
    if (!t->counts[ZEST_PART_DEV]) return ZEST_OK;
    const zest_log_eval **evals = sort_evals(log, &count);
    if (!evals)
        return zest_error_memory(t->error, "the evaluations of a log", log->eval_count * sizeof *evals);
    if (zest_options_first_order(t->options)) {
        zest_checkpoint_step(t->folder.best, &kept[0]);
        zest_checkpoint_step(t->folder.last, &kept[1]);
    }
    for (uint64_t step = 0; step <= t->step && !status; step++) {
        uint64_t repeated = next_to_repeat(t, kept, step), logged = i < count ? evals[i]->step : UINT64_MAX;
        step = repeated < logged ? repeated : logged;
        if (step > t->step) break;
        if (step == logged) {
            zest_metrics m = from_log(evals[i]);
            update_best(t, step, &m);
        } else {
            reloaded = 1;
            status = repeat_eval(t, step);
        }
        while (i < count && evals[i]->step == step) i++;
    }
    free(evals);
    return reloaded && !status ? t->ops->load_step(t, t->step) : status;
}

/* ---- The best weights of a run without --out ----
 *
 * A zeroth-order run keeps the losses of its steps, some bytes each, and replays the steps up to the best one from the
 * start: memory stays that of inference. A first-order run cannot, and keeps a copy of the weights. */

void zest_trainer_start_history(zest_trainer *t) {
    if (!zest_options_first_order(t->options))
        t->history.start = zest_params_fingerprint(&t->loaded.model->params);
}

zest_status zest_trainer_add_history(zest_trainer *t, const zest_record *record) {
    zest_buffer *steps = &t->history.steps;
    zest_buffer_add(steps, &record->lr, sizeof record->lr);
    zest_buffer_add(steps, record->losses, record->count * sizeof *record->losses);
    return steps->failed ? zest_error_memory(t->error, "the losses of the run", steps->size) : ZEST_OK;
}

static size_t bytes_of(const zest_tensor *tensor) {
    return (size_t)tensor->count * zest_dtype_size(tensor->dtype);
}

/* Between the trained tensors and the copy, which holds them one after the other. */
static void copy(const zest_params *params, char *bytes, int back) {
    for (size_t i = 0; i < params->count; i++) {
        size_t size = bytes_of(&params->tensors[i]);
        if (back)
            memcpy(params->tensors[i].data, bytes, size);
        else
            memcpy(bytes, params->tensors[i].data, size);
        bytes += size;
    }
}

static zest_status copy_best(zest_trainer *t) {
    const zest_params *params = &t->loaded.model->params;
    size_t size = 0;
    for (size_t i = 0; i < params->count; i++) size += bytes_of(&params->tensors[i]);
    if (!t->history.best) t->history.best = malloc(size + 1);
    if (!t->history.best)
        return zest_error_set(t->error, ZEST_ERROR_MEMORY,
                              "not enough memory for a copy of the best weights (%zu bytes); with --out RUN "
                              "they are kept on disk",
                              size);
    zest_status status = zest_model_download(t->loaded.runner, t->error);
    if (!status) copy(params, t->history.best, 0);
    return status;
}

zest_status zest_trainer_copy_best(zest_trainer *t) {
    return zest_options_first_order(t->options) ? copy_best(t) : ZEST_OK;
}

static zest_status replay(zest_trainer *t) {
    zest_progress_callback progress = {t->hooks->on_rebuild, t->hooks->user};
    zest_step *taken = &t->tuner->step;
    zest_record record = {.count = 2 * (taken->tilt.k + taken->tilt.ball_pairs)};
    zest_tilt_report report;
    size_t most;
    float *inputs = zest_model_take_inputs(t->loaded.model, &most);
    zest_load_free(&t->loaded);
    zest_status status = zest_trainer_load_model(t);
    if (status || t->sent.folder) {
        free(inputs);
        return status; /* rank 0 sends the weights */
    }
    if (inputs) status = zest_model_set_inputs(t->loaded.model, inputs, most, t->error);
    if (status) return status;
    if (zest_params_fingerprint(&t->loaded.model->params) != t->history.start)
        status = zest_error_set(t->error, ZEST_ERROR_FILE,
                                "%s: the model changed while the run went on, so the best weights, of step "
                                "%llu, cannot be rebuilt; with --out RUN they are saved",
                                zest_options_text(t->options, ZEST_OPTION_MODEL),
                                (unsigned long long)t->best_step);
    if (status) return status;
    zest_step_storage storage = zest_load_storage(&t->loaded);
    const double *next = (const double *)(const void *)t->history.steps.data;
    zest_step_forget(taken); /* the run's last steps: it begins anew */
    for (record.step = 1; record.step <= t->best_step && !status; record.step++) {
        record.lr = next[0];
        record.losses = next + 1;
        next += 1 + record.count;
        status = zest_step_replay(taken, &record, &storage, &report, t->error);
        zest_progress_call(&progress, record.step, t->best_step);
    }
    return status;
}

zest_status zest_trainer_restore_best(zest_trainer *t) {
    if (!zest_options_first_order(t->options)) return replay(t);
    copy(&t->loaded.model->params, t->history.best, 1);
    return zest_model_upload(t->loaded.runner, t->error);
}

void zest_trainer_free_history(zest_trainer *t) {
    zest_buffer_free(&t->history.steps);
    free(t->history.best);
    t->history.best = NULL;
}
