/* Zeroth-order runs: losses of 2k lanes, tilt, journal, move. The journal makes the weights of any step
 * again; checkpoints only save time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "optim/step.h"
#include "model/transformer.h"
#include "train/checkpoint.h"
#include "train/trainer_internal.h"

enum { OBJECTIVE_LOSS, OBJECTIVE_ACCURACY, OBJECTIVE_F1 }; /* as the option table lists them */

/* At least this long between checkpoints of the last weights: they only save time on resume. */
static const double seconds_between_saves = 60;

/* ---- Getting ready ---- */

/* Options that only gradients look at: given here, they would be given in vain. */
static const char *refuses(const zest_options *options) {
    static const zest_option_id others[] = {ZEST_OPTION_MOMENTUM, ZEST_OPTION_CLIP,
                                            ZEST_OPTION_ASCENT,   ZEST_OPTION_SAM_SEARCH,
                                            ZEST_OPTION_DROPOUT,  ZEST_OPTION_RECOMPUTE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (zest_options_number(options, others[i]) > 0 || zest_options_whole(options, others[i]))
            return "momentum, clip, ascent, sam-search, dropout and recompute belong to methods that take "
                   "gradients: "
                   "--method sgd, adamw, sam, esam or tsam";
    return NULL;
}

static zest_status arm(zest_trainer *t) {
    zest_status status = ZEST_OK;
    if (!t->stepper.directions)
        status = zest_step_init(&t->stepper, t->ctx->ops, t->options, ZEST_FORMAT, t->error);
    if (status) return status;
    size_t lanes = 2 * (t->stepper.tilt.k + t->stepper.tilt.ball_pairs);
    t->lanes = malloc(lanes * sizeof *t->lanes);
    t->means = malloc(lanes * sizeof *t->means);
    t->recent = malloc(ZEST_TILT_ADVICE_STEPS * lanes * sizeof *t->recent);
    return t->lanes && t->means && t->recent ? ZEST_OK
                                             : zest_error_memory(t->error, "lanes", lanes * sizeof *t->lanes);
}

static void release(zest_trainer *t) {
    zest_step_free(&t->stepper);
    free(t->lanes);
    free(t->means);
    free(t->recent);
    free(t->losses);
    free(t->scores);
    t->lanes = NULL;
    t->means = t->recent = t->losses = t->scores = NULL;
    t->losses_capacity = t->scores_capacity = 0;
}

static zest_status weights(zest_trainer *t, uint64_t step) {
    zest_rebuild_job job = {.folder = &t->folder,
                            .options = t->options,
                            .journal = t->record,
                            .stepper = &t->stepper,
                            .progress = {t->hooks->on_rebuild, t->hooks->user}};
    zest_load_free(&t->loaded);
    return zest_rebuild(&job, step, &t->loaded, t->error);
}

static zest_status restore(zest_trainer *t) {
    zest_status status = zest_step_init(&t->stepper, t->ctx->ops, t->options, t->record->format, t->error);
    t->step = zest_journal_steps(t->record);
    return status ? status : weights(t, t->step);
}

static zest_status save(zest_trainer *t, zest_save_reason moment) {
    int due = zest_clock_now() - t->saved > seconds_between_saves;
    if (moment == ZEST_SAVE_STEP || (moment == ZEST_SAVE_EVAL && !due)) return ZEST_OK;
    zest_status status = zest_model_download(t->loaded.runner, t->error);
    if (!status)
        status = zest_checkpoint_write(moment == ZEST_SAVE_BEST ? t->folder.best : t->folder.last, &t->loaded,
                                       t->step, t->error);
    t->saved = zest_clock_now();
    return status;
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
    const zest_model_objective *objective = t->objective;
    uint64_t kind = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE);
    size_t examples = objective->kind == ZEST_LOSS_CHOICES ? objective->examples : objective->items;
    size_t width = objective->items * (objective->kind == ZEST_LOSS_LABEL_WORDS ? objective->word_count : 1);
    int scored = kind != OBJECTIVE_LOSS;
    zest_status status = room_for(&t->losses, &t->losses_capacity, lanes * examples, t->error);
    if (!status && scored) status = room_for(&t->scores, &t->scores_capacity, lanes * width, t->error);
    if (!status)
        status = zest_model_losses(t->loaded.runner, t->lanes, lanes, objective, t->losses, t->means,
                                   scored ? t->scores : NULL, t->error);
    zest_metric metric = kind == OBJECTIVE_F1 ? ZEST_METRIC_F1 : ZEST_METRIC_ACCURACY;
    for (size_t l = 0; l < lanes && scored && !status; l++)
        t->means[l] = zest_metric_error(&t->batch, metric, t->scores + l * width);
    return status;
}

/* ---- The step ---- */

static size_t make_lanes_of_step(zest_trainer *t) {
    const zest_step *stepper = &t->stepper;
    size_t pairs = stepper->tilt.k + stepper->tilt.ball_pairs;
    for (size_t i = 0; i < 2 * pairs; i++)
        t->lanes[i] =
            (zest_model_lane){stepper->directions[i / 2], i % 2 ? -stepper->tilt.rho : stepper->tilt.rho};
    return 2 * pairs;
}

zest_status zest_trainer_count_bad(zest_trainer *t, int bad, const char *hint) {
    t->bad_in_a_row = bad ? t->bad_in_a_row + 1 : 0;
    if (t->bad_in_a_row < zest_options_whole(t->options, ZEST_OPTION_MAX_BAD)) return ZEST_OK;
    return zest_error_set(
        t->error, ZEST_ERROR_OBJECTIVE,
        "%llu steps in a row %s: the weights are where they were before them; try a smaller %s",
        (unsigned long long)t->bad_in_a_row,
        zest_options_first_order(t->options) ? "without a finite loss and gradient"
                                             : "without one finite pair of losses",
        hint);
}

static zest_status step(zest_trainer *t, zest_step_stats *stats) {
    double began = zest_clock_now(), lr = zest_step_lr(t->options, t->step);
    zest_update update;
    zest_tilt_report report;
    zest_status status =
        zest_step_draw_directions(&t->stepper, t->step, t->loaded.model->params.dimension, 1, t->error);
    if (!status) status = t->source->batch(t);
    if (status) return status;
    size_t lanes = make_lanes_of_step(t);
    status = lanes_losses(t, lanes);
    if (status) return status;
    zest_step_tilt(&t->stepper, t->means, &report);
    memcpy(t->recent + t->recent_count++ % ZEST_TILT_ADVICE_STEPS * lanes, t->means,
           lanes * sizeof *t->means);
    /* first on record, then in the weights: whatever happens in between, the journal can make them again */
    status = t->has_output_dir
                 ? zest_journal_append(&t->journal, t->step + 1, lr, t->means, lanes, 0, t->error)
                 : zest_trainer_memory_step(t, lr, t->means);
    if (!status && zest_step_update(&t->stepper, lr, &report, &update))
        status = zest_model_apply_update(t->loaded.runner, &update, t->error);
    if (status) return status;
    t->step++;
    t->dropped += report.dropped;
    *stats = (zest_step_stats){.loss = report.mean,
                               .lr = lr,
                               .effective = report.effective,
                               .spread = report.spread,
                               .norm = NAN,
                               .dropped = report.dropped,
                               .passes = lanes,
                               .seconds = zest_clock_now() - began};
    return zest_trainer_count_bad(t, report.dropped >= t->stepper.tilt.k, "--lr or --rho");
}

static uint64_t memory(zest_trainer *t, size_t tokens, size_t *live) {
    size_t pairs = t->stepper.tilt.k + t->stepper.tilt.ball_pairs;
    zest_model_budget budget = zest_model_runner_budget(t->loaded.runner, tokens, pairs);
    *live = budget.live;
    if (zest_model_runner_device(t->loaded.runner)) return budget.bytes;
    return budget.bytes + zest_model_plan_memory(&t->loaded.model->config, tokens, 1).operands;
}

const zest_trainer_ops zest_trainer_zeroth_order = {refuses, restore, weights, arm,
                                                    step,    save,    memory,  release};
