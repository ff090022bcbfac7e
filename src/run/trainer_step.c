/* One step of training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/schedule.h"
#include "models/move.h"
#include "run/trainer_internal.h"

enum { OBJECTIVE_LOSS, OBJECTIVE_ACCURACY, OBJECTIVE_F1 }; /* as the option table lists them */

/* ---- The batch: a function of the step's number ---- */

static zest_status make_batch(zest_trainer *t) {
    const zest_examples *train = &t->data.parts[ZEST_PART_TRAIN];
    size_t size = (size_t)zest_options_whole(t->options, ZEST_OPTION_BATCH);
    size_t steps = (train->count + size - 1) / size;
    uint64_t epoch = t->step / steps;
    size_t first = (size_t)(t->step % steps) * size;
    size_t count = train->count - first < size ? train->count - first : size;
    if (epoch != t->epoch)
        zest_examples_order(train, zest_options_whole(t->options, ZEST_OPTION_SEED), epoch, t->order);
    t->epoch = epoch;
    int scored = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE) != OBJECTIVE_LOSS;
    return zest_batch_make(&t->batch, train, t->order + first, count,
                           scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN, t->error);
}

/* ---- Losses ---- */

static zest_status room_for(double **numbers, size_t *room, size_t count, zest_error *error) {
    if (count <= *room) return ZEST_OK;
    free(*numbers);
    *room = 0;
    *numbers = malloc(count * sizeof **numbers);
    if (!*numbers) return zest_error_memory(error, "the losses of a step", count * sizeof **numbers);
    *room = count;
    return ZEST_OK;
}

static zest_status lanes_losses(zest_trainer *t, size_t lanes) {
    const zest_model_objective *objective = &t->batch.objective;
    uint64_t kind = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE);
    size_t examples = objective->kind == ZEST_MODEL_OPTIONS ? objective->examples : objective->items;
    size_t width = objective->items * (objective->kind == ZEST_MODEL_WORDS ? objective->word_count : 1);
    int scored = kind != OBJECTIVE_LOSS;
    zest_status status = room_for(&t->losses, &t->losses_room, lanes * examples, t->error);
    if (!status && scored) status = room_for(&t->scores, &t->scores_room, lanes * width, t->error);
    if (!status)
        status = zest_model_losses(t->loaded.runner, t->lanes, lanes, objective, t->losses, t->means,
                                   scored ? t->scores : NULL, t->error);
    zest_metric metric = kind == OBJECTIVE_F1 ? ZEST_METRIC_F1 : ZEST_METRIC_ACCURACY;
    for (size_t l = 0; l < lanes && scored && !status; l++)
        t->means[l] = zest_metric_error(&t->batch, metric, t->scores + l * width);
    return status;
}

/* ---- The step ---- */

static size_t aim_lanes(zest_trainer *t) {
    const zest_stepper *stepper = &t->stepper;
    size_t pairs = stepper->tilt.k + stepper->tilt.ball_pairs;
    for (size_t i = 0; i < 2 * pairs; i++)
        t->lanes[i] =
            (zest_model_lane){stepper->directions[i / 2], i % 2 ? -stepper->tilt.rho : stepper->tilt.rho};
    return 2 * pairs;
}

static zest_status too_many_bad(zest_trainer *t) {
    return zest_error_set(t->error, ZEST_ERROR_OBJECTIVE,
                          "%llu steps in a row without one finite pair of losses: the weights are where they "
                          "were before them; try a smaller --lr or --rho",
                          (unsigned long long)t->bad_in_a_row);
}

zest_status zest_trainer_step(zest_trainer *t, zest_tilt_report *report, double *lr, double *seconds) {
    double began = zest_clock_now();
    zest_update update;
    zest_status status =
        zest_stepper_aim(&t->stepper, t->step, t->loaded.model->params.dimension, 1, t->error);
    if (!status) status = make_batch(t);
    if (status) return status;
    size_t lanes = aim_lanes(t);
    status = lanes_losses(t, lanes);
    if (status) return status;
    *lr = zest_schedule_lr(t->options, t->step);
    zest_stepper_tilt(&t->stepper, t->means, report);
    memcpy(t->recent + t->recent_count++ % ZEST_TILT_ADVICE_STEPS * lanes, t->means,
           lanes * sizeof *t->means);
    /* first on record, then in the weights: whatever happens in between, the journal can make them again */
    if (t->kept) status = zest_journal_append(&t->journal, t->step + 1, *lr, t->means, lanes, 0, t->error);
    if (!status && zest_stepper_update(&t->stepper, *lr, report, &update))
        status = zest_model_move(t->loaded.runner, &update, t->error);
    if (status) return status;
    t->step++;
    t->dropped += report->dropped;
    t->bad_in_a_row = report->dropped >= t->stepper.tilt.k ? t->bad_in_a_row + 1 : 0;
    *seconds = zest_clock_now() - began;
    return t->bad_in_a_row >= zest_options_whole(t->options, ZEST_OPTION_MAX_BAD) ? too_many_bad(t) : ZEST_OK;
}
