/* Evaluations, and the weights that did best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/trainer_internal.h"

/* ---- What is best ---- */

zest_metric zest_trainer_selection(const zest_trainer *t) {
    uint64_t choice = zest_options_whole(t->options, ZEST_OPTION_SELECT);
    return choice ? (zest_metric)(choice - 1) : t->select;
}

/* The number to be maximised. A metric that the task does not have falls back on the loss. */
static double worth(const zest_trainer *t, const zest_metrics *m) {
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

static int note(zest_trainer *t, uint64_t step, const zest_metrics *m) {
    double value = worth(t, m);
    if (!t->any_dev && step == 0) t->start = *m;
    t->any_dev = 1;
    t->dev = *m;
    t->dev_step = step;
    if (!is_better(t, value, m->loss)) return 0;
    t->best = value;
    t->best_loss = m->loss;
    t->best_step = step;
    return 1;
}

/* ---- Evaluating on the way ---- */

int zest_trainer_dev_due(const zest_trainer *t) {
    uint64_t every = zest_options_whole(t->options, ZEST_OPTION_EVAL_EVERY);
    if (!t->counts[ZEST_PART_DEV] || (t->any_dev && t->dev_step == t->step)) return 0;
    return t->step == 0 || (every && t->step % every == 0) ||
           t->step >= zest_options_whole(t->options, ZEST_OPTION_STEPS);
}

zest_status zest_trainer_check_dev(zest_trainer *t) {
    zest_metrics metrics;
    int generate = zest_trainer_selection(t) != ZEST_METRIC_LOSS; /* free text costs far more than its loss */
    double began = zest_clock_now();
    zest_status status = t->source->evaluate(t, &t->loaded, ZEST_PART_DEV, generate, &metrics);
    if (status) return status;
    t->dev_seconds = zest_clock_now() - began;
    int best = note(t, t->step, &metrics);
    /* the weights first: an evaluation that is in the log has its weights on disk */
    if (t->kept)
        status = t->way->save(t, best ? ZEST_SAVE_BEST : ZEST_SAVE_EVAL);
    else if (best)
        status = zest_trainer_memory_best(t);
    return status ? status : zest_trainer_tell_eval(t, &metrics, best);
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

static const zest_log_eval *find_eval(const zest_log *log, uint64_t step) {
    for (size_t i = 0; i < log->eval_count; i++)
        if (log->evals[i].step == step && !strcmp(log->evals[i].part, "dev")) return &log->evals[i];
    return NULL;
}

/* An evaluation that should be in the log and is not (it was lost with the end of the file): made again, with
 * the weights of its step. Where these are not kept, the log does without. */
static zest_status make_again(zest_trainer *t, uint64_t step) {
    uint64_t now = t->step;
    zest_status status = t->way->weights(t, step);
    if (status == ZEST_ERROR_STATE) return ZEST_OK;
    t->step = step;
    if (!status) status = zest_trainer_check_dev(t);
    t->step = now;
    return status;
}

zest_status zest_trainer_recall(zest_trainer *t, const zest_log *log) {
    uint64_t every = zest_options_whole(t->options, ZEST_OPTION_EVAL_EVERY);
    zest_status status = ZEST_OK;
    int missed = 0;
    if (!t->counts[ZEST_PART_DEV]) return ZEST_OK;
    for (uint64_t step = 0; step <= t->step && !status; step++) {
        const zest_log_eval *e = find_eval(log, step);
        if (e) {
            zest_metrics m = from_log(e);
            note(t, step, &m);
        } else if (step < t->step && (step == 0 || (every && step % every == 0))) {
            missed = 1;
            status = make_again(t, step);
        }
    }
    return missed && !status ? t->way->weights(t, t->step) : status;
}
