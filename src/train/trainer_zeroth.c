/* Zeroth-order runs: ask the tuner for 2k lanes, compute their losses on the batch, tell the tuner, which records the
 * losses and updates the weights. The journal gives the weights of any step; checkpoints only save time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/forward_pass.h"
#include "optim/directions.h"
#include "train/checkpoint.h"
#include "train/trainer_internal.h"

/* At least this long between checkpoints of the last weights: they only save time on resume. */
static const double seconds_between_saves = 60;

/* ---- Preparing and saving ---- */

/* Of a step; and as many as go through the model at once. */
static size_t pairs_of(const zest_trainer *t) {
    return t->tuner->step.tilt.k + t->tuner->step.tilt.ball_pairs;
}

static size_t pairs_at_once(const zest_trainer *t) {
    return t->tuner->step.each ? t->tuner->step.each : pairs_of(t);
}

/* A step goes to the journal, or, without a folder, to memory. */
static zest_status record_step(void *user, const zest_record *record, zest_error *error) {
    zest_trainer *t = user;
    if (!t->is_kept) return zest_trainer_add_history(t, record);
    if (!t->has_output_dir) return ZEST_OK; /* rank 0 does */
    return zest_journal_append(&t->journal, record->step, record->lr, record->losses, record->count,
                               record->has_center, error);
}

/* A metric of the batch has no value for one example. */
static zest_status check_examples(zest_trainer *t) {
    int scored = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE) != ZEST_CHOICE_LOSS;
    if (!scored || !zest_directions_of(t->options).examples) return ZEST_OK;
    return zest_error_set(t->error, ZEST_ERROR_ARGUMENT,
                          "--directions example needs the loss of every example: use --objective loss");
}

static zest_status open_tuner(zest_trainer *t) {
    zest_status refused = check_examples(t);
    if (refused) return refused;
    zest_step_storage storage = zest_load_storage(&t->loaded);
    t->tuner = zest_tuner_new_storage(
        t->ctx, &storage, "the weights are where they were before them; try a smaller --lr or --rho",
        t->error);
    if (!t->tuner) return t->error->status;
    zest_tuner_on_record(t->tuner, record_step, t);
    zest_status status = zest_tuner_configure(t->tuner, t->options, t->format, t->step);
    if (status || !t->step || !zest_step_memory(&t->tuner->step)) return status;
    if (t->comm->ranks > 1) /* only rank 0 has the records */
        return zest_error_set(
            t->error, ZEST_ERROR_ARGUMENT,
            "a run with --t auto or --momentum cannot be resumed on %d ranks: its steps depend on "
            "recorded ones; resume it on one",
            t->comm->ranks);
    return t->record ? zest_journal_recall(t->record, t->step, &t->tuner->step, t->error) : ZEST_OK;
}

static zest_status prepare(zest_trainer *t) {
    zest_status status = open_tuner(t);
    if (status) return status;
    size_t lanes = 2 * pairs_of(t);
    t->lanes = malloc(lanes * sizeof *t->lanes);
    t->means = malloc(lanes * sizeof *t->means);
    t->recent = malloc(ZEST_TILT_ADVICE_STEPS * lanes * sizeof *t->recent);
    return t->lanes && t->means && t->recent ? ZEST_OK
                                             : zest_error_memory(t->error, "lanes", lanes * sizeof *t->lanes);
}

static void release(zest_trainer *t) {
    zest_tuner_free(t->tuner);
    free(t->lanes);
    free(t->means);
    free(t->recent);
    free(t->losses);
    zest_batch_free(&t->one);
    free(t->scores);
    t->tuner = NULL;
    t->lanes = NULL;
    t->means = t->recent = t->losses = t->scores = NULL;
    t->losses_capacity = t->scores_capacity = 0;
}

static zest_status load_step(zest_trainer *t, uint64_t step) {
    zest_rebuild_job job = {.folder = &t->folder,
                            .options = t->options,
                            .journal = t->record,
                            .progress = {t->hooks->on_rebuild, t->hooks->user}};
    zest_load_free(&t->loaded);
    zest_status status = zest_rebuild(&job, step, &t->loaded, t->error);
    return status ? status : zest_rebuild_inputs(&t->folder, t->record, &t->loaded, t->error);
}

static zest_status restore(zest_trainer *t) {
    t->step = zest_journal_steps(t->record);
    return load_step(t, t->step);
}

/* Of the journal at the step of the weights, which is not its last one while resuming repeats an evaluation. */
static uint32_t journal_checksum(const zest_trainer *t) {
    return t->record ? zest_journal_checksum_at(t->record, t->step) : t->journal.checksum;
}

static zest_status save(zest_trainer *t, zest_save_reason reason) {
    uint32_t checksum = journal_checksum(t);
    int due = zest_clock_now() - t->saved > seconds_between_saves;
    if (reason == ZEST_SAVE_STEP || (reason == ZEST_SAVE_EVAL && !due)) return ZEST_OK;
    zest_status status = zest_model_download(t->loaded.runner, t->error);
    if (!status) status = zest_journal_sync(&t->journal, t->error);
    if (!status)
        status = zest_checkpoint_write(reason == ZEST_SAVE_BEST ? t->folder.best : t->folder.last, &t->loaded,
                                       t->step, &checksum, t->error);
    t->saved = zest_clock_now();
    return status;
}

/* ---- Losses ---- */

static zest_status reserve(double **numbers, size_t *capacity, size_t count, zest_error *error) {
    if (count <= *capacity) return ZEST_OK;
    free(*numbers);
    *capacity = 0;
    *numbers = malloc(count * sizeof **numbers);
    if (!*numbers) return zest_error_memory(error, "the losses of a step", count * sizeof **numbers);
    *capacity = count;
    return ZEST_OK;
}

static zest_status lanes_losses(zest_trainer *t, size_t lanes) {
    const zest_model_objective *objective = t->objective;
    uint64_t kind = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE);
    size_t examples = objective->kind == ZEST_LOSS_CHOICES ? objective->examples : objective->items;
    size_t width = objective->items * (objective->kind == ZEST_LOSS_LABEL_WORDS ? objective->word_count : 1);
    int scored = kind != ZEST_CHOICE_LOSS;
    zest_status status = reserve(&t->losses, &t->losses_capacity, lanes * examples, t->error);
    if (!status && scored) status = reserve(&t->scores, &t->scores_capacity, lanes * width, t->error);
    if (status) return status;
    if (t->comm->ranks > 1) {
        status = zest_trainer_gather_losses(t, lanes, scored, scored ? t->scores : t->losses);
        if (!status && !scored) zest_loss_means(objective, t->losses, lanes, t->means);
    } else {
        status = zest_model_losses(t->loaded.runner, t->lanes, lanes, objective, t->losses, t->means,
                                   scored ? t->scores : NULL, t->error);
    }
    zest_metric metric = kind == ZEST_CHOICE_F1 ? ZEST_METRIC_F1 : ZEST_METRIC_ACCURACY;
    for (size_t l = 0; l < lanes && scored && !status; l++)
        t->means[l] = zest_metric_error(&t->batch, metric, t->scores + l * width);
    return status;
}

/* ---- The step ---- */

static zest_status step(zest_trainer *t, zest_step_stats *stats) {
    double began = zest_clock_now();
    const zest_lanes *lanes;
    zest_step_report report;
    size_t each = t->tuner->step.each;
    zest_status status = zest_tuner_ask(t->tuner, &lanes);
    if (!status) status = t->source->batch(t);
    if (status) return status;
    size_t count = zest_lanes_count(lanes);
    for (size_t i = 0; i < count; i++)
        zest_lanes_describe(lanes, i, &t->lanes[i].direction, &t->lanes[i].scale);
    status = each ? zest_trainer_example_losses(t, t->means) : lanes_losses(t, count);
    if (status) return status;
    memcpy(t->recent + t->recent_count++ % ZEST_TILT_ADVICE_STEPS * count, t->means,
           count * sizeof *t->means);
    status = zest_tuner_tell(t->tuner, t->means, &report);
    t->step = t->tuner->state.steps;
    if (status) return status;
    t->dropped += report.tilt.dropped;
    *stats = (zest_step_stats){.loss = report.loss,
                               .lr = report.lr,
                               .effective = report.tilt.effective,
                               .spread = report.tilt.spread,
                               .slope = report.tilt.slope,
                               .curvature = report.tilt.curvature,
                               .t = t->tuner->step.auto_t ? report.tilt.t : NAN,
                               .scale = zest_step_has_length(&t->tuner->step) ? report.tilt.scale : NAN,
                               .norm = NAN,
                               .dropped = report.tilt.dropped,
                               .passes = each ? 2 * each : count,
                               .seconds = zest_clock_now() - began};
    return ZEST_OK;
}

static uint64_t memory(zest_trainer *t, size_t tokens, size_t *live) {
    zest_model_budget budget = zest_model_runner_budget(t->loaded.runner, tokens, pairs_at_once(t));
    *live = budget.live;
    budget.bytes += t->loaded.model->input_count * sizeof(float);
    if (zest_model_runner_device(t->loaded.runner)) return budget.bytes;
    return budget.bytes + zest_model_plan_memory(&t->loaded.model->config, tokens, 1).operands;
}

const zest_trainer_ops zest_trainer_zeroth_order = {NULL, restore, load_step, prepare, NULL,
                                                    step, save,    memory,    release};
