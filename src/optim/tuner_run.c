/* Whole runs: stop criteria, journal and resume, and the one-call form. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "optim/tuner.h"

void zest_tuner_on_step(zest_tuner *tuner, int (*on_step)(const zest_step_report *, void *), void *user) {
    tuner->on_step = on_step;
    tuner->on_step_user = user;
}

void zest_tuner_stop(zest_tuner *tuner) { tuner->stop = 1; }

/* f at x itself. */
static zest_status final_loss(zest_tuner *tuner, double *loss) {
    zest_lanes center = {.ops = tuner->ctx->ops, .params = &tuner->params, .has_center = 1};
    return zest_tuner_evaluate(tuner, &center, loss);
}

/* Evaluations that the next step takes. */
static size_t next_cost(const zest_tuner *tuner) {
    zest_tilt_options tilt = zest_journal_tilt(&tuner->options, tuner->format);
    uint64_t every = zest_options_whole(&tuner->options, ZEST_OPTION_EVAL_EVERY);
    return 2 * (tilt.k + tilt.ball_pairs) + (every && tuner->state.steps % every == 0);
}

static zest_stop why_stop(const zest_tuner *tuner, double began) {
    if (tuner->stop) return ZEST_STOP_CALLBACK;
    return zest_stop_state_check(&tuner->state, &tuner->options, next_cost(tuner), zest_clock_now() - began);
}

zest_status zest_tuner_run(zest_tuner *tuner, zest_result *result) {
    double began = zest_clock_now(), loss = NAN;
    zest_stop why = ZEST_STOP_NONE;
    zest_status status = zest_tuner_prepare(tuner);
    while (!status && (why = why_stop(tuner, began)) == ZEST_STOP_NONE) {
        zest_step_report report;
        status = zest_tuner_step(tuner, &report);
        if (!status && tuner->on_step && tuner->on_step(&report, tuner->on_step_user)) tuner->stop = 1;
    }
    if (!status) status = final_loss(tuner, &loss);
    tuner->stop = 0;
    if (!result) return status;
    *result = (zest_result){.stop = why,
                            .steps = tuner->state.steps,
                            .evaluations = tuner->state.evaluations + (status ? 0 : 1),
                            .dropped_pairs = tuner->state.dropped_pairs,
                            .loss = loss,
                            .best = tuner->state.best,
                            .best_step = tuner->state.best_step,
                            .seconds = zest_clock_now() - began};
    return status;
}

/* ---- Journal ---- */

static zest_status no_journal_yet(const zest_tuner *tuner) {
    if (tuner->journal.descriptor < 0 && !tuner->state.steps) return ZEST_OK;
    return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_STATE,
                          "a journal starts before the first step, and a tuner keeps one journal");
}

zest_status zest_tuner_start_journal(zest_tuner *tuner, const char *path) {
    zest_status status = no_journal_yet(tuner);
    if (!status)
        status = zest_tuner_prepare(tuner); /* options that do not fit are refused before a file is made */
    if (!status)
        status = zest_journal_create(&tuner->journal, path, &tuner->options, &tuner->params,
                                     zest_tuner_sink(tuner));
    if (status) zest_journal_finish(&tuner->journal);
    return status;
}

/* Takes x and the state of the run through every step on record. */
static zest_status catch_up(zest_tuner *tuner, zest_journal *journal) {
    for (uint64_t s = 1; s <= zest_journal_steps(journal); s++) {
        zest_record record;
        zest_tilt_report report;
        zest_status status = zest_journal_read(journal, s, &record);
        if (!status)
            status =
                zest_step_replay(&tuner->stepper, &record, &tuner->params, &report, zest_tuner_sink(tuner));
        if (status) return status;
        zest_stop_state_update(&tuner->state, &tuner->options, &report, record.count,
                               record.has_center ? &record.losses[record.count - 1] : NULL);
    }
    return ZEST_OK;
}

zest_status zest_tuner_resume_journal(zest_tuner *tuner, const char *path) {
    zest_status status = no_journal_yet(tuner);
    if (status) return status;
    zest_tuner_reset(tuner);
    zest_journal *journal = zest_journal_open(tuner->ctx, path);
    if (!journal) return zest_tuner_sink(tuner)->status;
    status = zest_journal_check_start(journal, &tuner->params, zest_tuner_sink(tuner));
    if (!status) status = zest_journal_continue(&tuner->journal, journal, zest_tuner_sink(tuner));
    if (!status) {
        zest_options_free(&tuner->options);
        status = zest_options_copy(&tuner->options, &journal->options, zest_tuner_sink(tuner));
    }
    tuner->format = journal->format;
    if (!status) status = zest_tuner_prepare(tuner);
    if (!status) status = catch_up(tuner, journal);
    if (status) zest_journal_finish(&tuner->journal);
    zest_journal_close(journal);
    return status;
}

/* ---- One call ---- */

static zest_status minimise(zest_ctx *ctx, zest_tuner *tuner, const char *options, zest_result *result) {
    if (!tuner) return ctx ? ctx->error.status : ZEST_ERROR_ARGUMENT;
    zest_status status = ZEST_OK;
    if (options)
        status = zest_options_set_all(&tuner->options, ZEST_FOR_TUNER, options, "options", &ctx->error);
    if (!status) status = zest_tuner_run(tuner, result);
    zest_tuner_free(tuner);
    return status;
}

zest_status zest_minimize_f32(zest_ctx *ctx, zest_objective_f32 f, void *user, float *x, size_t n,
                              const char *options, zest_result *result) {
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, n);
    if (tuner) zest_tuner_objective_f32(tuner, f, user);
    return minimise(ctx, tuner, options, result);
}

zest_status zest_minimize_f64(zest_ctx *ctx, zest_objective_f64 f, void *user, double *x, size_t n,
                              const char *options, zest_result *result) {
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, n);
    if (tuner) zest_tuner_objective_f64(tuner, f, user);
    return minimise(ctx, tuner, options, result);
}
