/* The tuner: options, objective, one step as ask and tell, whole runs, journal and resume, the one-call form. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/tuner.h"
#include "base/text.h"
#include "optim/directions.h"
#include "optim/step.h"
#include "base/clock.h"

/* ---- New tuners and options ---- */

static const char vector_advice[] =
    "x is where it was before them; try a smaller lr or rho, or look at the objective";

zest_tuner *zest_tuner_new_storage(zest_ctx *ctx, const zest_step_storage *storage, const char *bad_advice,
                                   zest_error *error) {
    zest_tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner) {
        zest_error_memory(error, "a tuner", sizeof *tuner);
        return NULL;
    }
    tuner->ctx = ctx;
    tuner->error = error;
    tuner->storage = *storage;
    tuner->bad_advice = bad_advice;
    tuner->journal.descriptor = -1;
    tuner->format = ZEST_FORMAT;
    zest_options_init(&tuner->options);
    zest_stop_state_init(&tuner->state);
    return tuner;
}

static zest_tuner *new_vector(zest_ctx *ctx, zest_dtype dtype, void *x, size_t n) {
    if (!ctx) return NULL;
    if (!x || !n) {
        zest_error_set(&ctx->error, ZEST_ERROR_ARGUMENT, "a tuner needs a vector of at least one element");
        return NULL;
    }
    zest_tuner *tuner =
        zest_tuner_new_storage(ctx, &(zest_step_storage){.params = NULL}, vector_advice, &ctx->error);
    if (!tuner) return NULL;
    tuner->tensor = (zest_tensor){"x", dtype, 0, n, x, {0}};
    tuner->params = (zest_params){&tuner->tensor, 1, n};
    tuner->storage.params = &tuner->params;
    return tuner;
}

zest_tuner *zest_tuner_new_f32(zest_ctx *ctx, float *x, size_t n) {
    return new_vector(ctx, ZEST_DTYPE_F32, x, n);
}
zest_tuner *zest_tuner_new_f64(zest_ctx *ctx, double *x, size_t n) {
    return new_vector(ctx, ZEST_DTYPE_F64, x, n);
}

void zest_tuner_free(zest_tuner *tuner) {
    if (!tuner) return;
    zest_journal_finish(&tuner->journal);
    zest_step_free(&tuner->step);
    zest_options_free(&tuner->options);
    free(tuner->losses);
    free(tuner->point);
    free(tuner);
}

void zest_tuner_on_record(zest_tuner *tuner, zest_tuner_record record, void *user) {
    tuner->record = record;
    tuner->record_user = user;
}

int zest_tuner_option(size_t i, zest_option *option) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!(row->users & ZEST_FOR_TUNER) || i--) continue;
        *option = (zest_option){row->name, zest_option_kind_name(row->kind), row->fallback, row->help, ""};
        zest_option_range(row, option->values, sizeof option->values);
        if (id == ZEST_OPTION_METHOD) /* a tuner has no gradients */
            zest_option_name_methods(ZEST_METHODS_FORWARD, "or", option->values, sizeof option->values);
        return 1;
    }
    return 0;
}

/* Frees what prepare made, so that it is made again with other options. Only before the first step. */
static void reset(zest_tuner *tuner) {
    zest_step_free(&tuner->step);
    free(tuner->losses);
    tuner->losses = NULL;
    tuner->started = tuner->has_lanes = 0;
}

/* A tuner has no gradients. */
static zest_status refuse_method(zest_tuner *tuner, const char *before) {
    char refused[32], known[64];
    snprintf(refused, sizeof refused, "%s", zest_options_text(&tuner->options, ZEST_OPTION_METHOD));
    zest_status status =
        zest_options_set_id(&tuner->options, ZEST_OPTION_METHOD, before, zest_tuner_sink(tuner));
    return status
               ? status
               : zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_ARGUMENT,
                                "method %s needs gradients: only zest train has them; here it is %s", refused,
                                zest_option_name_methods(ZEST_METHODS_FORWARD, "or", known, sizeof known));
}

zest_status zest_tuner_set(zest_tuner *tuner, const char *name, const char *value) {
    zest_option_id id = zest_option_find(name, ZEST_FOR_TUNER);
    int fixed = id != ZEST_OPTION_COUNT && !(zest_option_row_at(id)->changes & ZEST_CHANGES_RUNNING);
    int underway = tuner->state.steps || tuner->journal.descriptor >= 0;
    if (fixed && underway && strcmp(value, zest_options_text(&tuner->options, id)))
        return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_STATE,
                              "option %s is %s in this run and cannot change any more", name,
                              zest_options_text(&tuner->options, id));
    char before[32];
    snprintf(before, sizeof before, "%s", zest_options_text(&tuner->options, ZEST_OPTION_METHOD));
    zest_status status =
        zest_options_set(&tuner->options, ZEST_FOR_TUNER, name, value, zest_tuner_sink(tuner));
    if (!status && zest_options_first_order(&tuner->options)) return refuse_method(tuner, before);
    if (!status && fixed && !underway) reset(tuner);
    if (!status && id == ZEST_OPTION_THREADS)
        tuner->step.threads = (int)zest_options_whole(&tuner->options, id);
    return status;
}

zest_status zest_tuner_set_number(zest_tuner *tuner, const char *name, double value) {
    char text[64];
    zest_number_format(text, sizeof text, value == floor(value) && fabs(value) < 1e15 ? "%.0f" : "%.17g",
                       value);
    return zest_tuner_set(tuner, name, text);
}

static zest_status set_in_tuner(void *user, const char *name, const char *value, zest_error *error) {
    zest_tuner *tuner = user;
    zest_status status = zest_tuner_set(tuner, name, value);
    if (status) *error = *zest_tuner_sink(tuner);
    return status;
}

zest_status zest_tuner_set_all(zest_tuner *tuner, const char *text) {
    return zest_options_parse(text, "options", set_in_tuner, tuner, zest_tuner_sink(tuner));
}

const char *zest_tuner_get(const zest_tuner *tuner, const char *name) {
    zest_option_id id = zest_option_find(name, ZEST_FOR_TUNER);
    return id == ZEST_OPTION_COUNT ? NULL : zest_options_text(&tuner->options, id);
}

/* A vector objective needs x to be a vector of its type. */
static zest_status check_dtype(zest_tuner *tuner, zest_dtype dtype) {
    if (!tuner->params.count)
        return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_ARGUMENT,
                              "this tuner has no vector: use the objective for lanes");
    if (tuner->tensor.dtype == dtype) return ZEST_OK;
    return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_ARGUMENT,
                          "this tuner works on %s: use the objective for that type, or the one for lanes",
                          tuner->tensor.dtype == ZEST_DTYPE_F64 ? "double" : "float");
}

zest_status zest_tuner_objective_f32(zest_tuner *tuner, zest_objective_f32 f, void *user) {
    zest_status status = check_dtype(tuner, ZEST_DTYPE_F32);
    if (status) return status;
    tuner->objective_f32 = f;
    tuner->objective_lanes = NULL;
    tuner->objective_user = user;
    return ZEST_OK;
}

zest_status zest_tuner_objective_f64(zest_tuner *tuner, zest_objective_f64 f, void *user) {
    zest_status status = check_dtype(tuner, ZEST_DTYPE_F64);
    if (status) return status;
    tuner->objective_f64 = f;
    tuner->objective_lanes = NULL;
    tuner->objective_user = user;
    return ZEST_OK;
}

zest_status zest_tuner_objective_lanes(zest_tuner *tuner, zest_objective_lanes f, void *user) {
    tuner->objective_lanes = f;
    tuner->objective_user = user;
    return ZEST_OK;
}

/* ---- Steps ---- */

/* Makes the step and its buffers, once. */
static zest_status prepare(zest_tuner *tuner) {
    if (tuner->started) return ZEST_OK;
    zest_status status =
        tuner->params.count ? zest_directions_check_vector(&tuner->options, zest_tuner_sink(tuner)) : ZEST_OK;
    if (!status)
        status = zest_step_init(&tuner->step, tuner->ctx->ops, &tuner->options, tuner->format,
                                zest_tuner_sink(tuner));
    if (status) return status;
    size_t count = 2 * (tuner->step.tilt.k + tuner->step.tilt.ball_pairs) + 1;
    tuner->losses = malloc(count * sizeof *tuner->losses);
    if (!tuner->losses) {
        zest_step_free(&tuner->step);
        return zest_error_memory(zest_tuner_sink(tuner), "the losses of a step",
                                 count * sizeof *tuner->losses);
    }
    tuner->started = 1;
    return ZEST_OK;
}

zest_status zest_tuner_configure(zest_tuner *tuner, const zest_options *options, int format, uint64_t steps) {
    reset(tuner);
    zest_options_free(&tuner->options);
    zest_status status = zest_options_copy(&tuner->options, options, tuner->error);
    if (!status) status = zest_options_set_id(&tuner->options, ZEST_OPTION_EVAL_EVERY, "0", tuner->error);
    tuner->format = format;
    zest_stop_state_init(&tuner->state);
    tuner->state.steps = steps;
    return status ? status : prepare(tuner);
}

/* The vector objectives want a vector: one lane at a time is written into `point`. */
static zest_status evaluate_vectors(zest_tuner *tuner, const zest_lanes *lanes, double *losses) {
    size_t n = (size_t)tuner->tensor.count, bytes = n * zest_dtype_size(tuner->tensor.dtype);
    if (!tuner->point && !(tuner->point = malloc(bytes)))
        return zest_error_memory(zest_tuner_sink(tuner), "one perturbed copy of x", bytes);
    for (size_t i = 0; i < zest_lanes_count(lanes); i++) {
        zest_lanes_fill_tensor(lanes, i, &tuner->tensor, tuner->step.threads, tuner->point);
        losses[i] = tuner->tensor.dtype == ZEST_DTYPE_F64
                        ? tuner->objective_f64(tuner->point, n, tuner->objective_user)
                        : tuner->objective_f32(tuner->point, n, tuner->objective_user);
    }
    return ZEST_OK;
}

/* An objective may call the library itself, with the same context: its message says why it gave up. */
static zest_status evaluate_lanes(zest_tuner *tuner, const zest_lanes *lanes, double *losses) {
    zest_error *error = zest_tuner_sink(tuner), inner;
    zest_status before = error->status;
    error->status = ZEST_OK;
    int failed = tuner->objective_lanes(lanes, losses, tuner->objective_user);
    inner = *error;
    if (!error->status) error->status = before;
    if (!failed) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_OBJECTIVE, "the objective gave up in step %llu%s%.900s",
                          (unsigned long long)tuner->state.steps + 1, inner.status ? ": " : "",
                          inner.status ? inner.message : "");
}

/* Fills losses with the losses of all lanes. */
static zest_status evaluate(zest_tuner *tuner, const zest_lanes *lanes, double *losses) {
    if (tuner->objective_lanes) return evaluate_lanes(tuner, lanes, losses);
    if (tuner->tensor.dtype == ZEST_DTYPE_F64 ? tuner->objective_f64 != NULL : tuner->objective_f32 != NULL)
        return evaluate_vectors(tuner, lanes, losses);
    return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_STATE,
                          "set an objective first, or use ask and tell");
}

zest_status zest_tuner_ask(zest_tuner *tuner, const zest_lanes **lanes) {
    zest_status status = prepare(tuner);
    if (status) return status;
    zest_step *step = &tuner->step;
    if (!tuner->has_lanes) {
        uint64_t index = tuner->state.steps,
                 every = zest_options_whole(&tuner->options, ZEST_OPTION_EVAL_EVERY);
        status = zest_step_draw_directions(step, index, tuner->storage.params->dimension, 1,
                                           zest_tuner_sink(tuner));
        if (status) return status;
        tuner->lanes = (zest_lanes){.ops = tuner->ctx->ops,
                                    .params = tuner->storage.params,
                                    .directions = step->directions,
                                    .pairs = step->tilt.k + step->tilt.ball_pairs,
                                    .rho = step->tilt.rho,
                                    .has_center = every && index % every == 0};
        tuner->has_lanes = 1;
    }
    *lanes = &tuner->lanes;
    return ZEST_OK;
}

static zest_status too_many_bad(zest_tuner *tuner) {
    return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_OBJECTIVE,
                          "%llu steps in a row without one finite pair of losses: %s",
                          (unsigned long long)tuner->state.bad_in_a_row, tuner->bad_advice);
}

/* To the tuner's journal, or to whoever keeps the records. */
static zest_status record_step(zest_tuner *tuner, double lr, const double *losses) {
    zest_record record = {.step = tuner->state.steps + 1,
                          .lr = lr,
                          .count = zest_lanes_count(&tuner->lanes),
                          .losses = losses,
                          .has_center = tuner->lanes.has_center};
    if (tuner->record) return tuner->record(tuner->record_user, &record, zest_tuner_sink(tuner));
    if (tuner->journal.descriptor < 0) return ZEST_OK;
    return zest_journal_append(&tuner->journal, record.step, lr, losses, record.count, record.has_center,
                               zest_tuner_sink(tuner));
}

zest_status zest_tuner_tell(zest_tuner *tuner, const double *losses, zest_step_report *report) {
    if (!tuner->has_lanes)
        return zest_error_set(zest_tuner_sink(tuner), ZEST_ERROR_STATE, "ask before you tell");
    size_t count = zest_lanes_count(&tuner->lanes);
    const double *center = tuner->lanes.has_center ? &losses[count - 1] : NULL;
    double lr = zest_step_lr(&tuner->options, tuner->state.steps);
    zest_tilt_report tilt;
    zest_step_tilt(&tuner->step, losses, lr, &tilt);
    /* first on record, then in x: whatever happens in between, the journal can make x again */
    zest_status status = record_step(tuner, lr, losses);
    if (!status) status = zest_step_apply(&tuner->step, &tuner->storage, lr, &tilt, zest_tuner_sink(tuner));
    if (status) return status;
    zest_stop_state_update(&tuner->state, &tuner->options, &tilt, count, center);
    tuner->has_lanes = 0;
    if (report)
        *report = (zest_step_report){tuner->state.steps, tuner->state.evaluations, lr,
                                     center ? *center : tilt.mean, tilt};
    uint64_t limit = zest_options_whole(&tuner->options, ZEST_OPTION_MAX_BAD);
    return tuner->state.bad_in_a_row >= limit ? too_many_bad(tuner) : ZEST_OK;
}

zest_status zest_tuner_step(zest_tuner *tuner, zest_step_report *report) {
    const zest_lanes *lanes;
    zest_status status = zest_tuner_ask(tuner, &lanes);
    if (!status) status = evaluate(tuner, lanes, tuner->losses);
    return status ? status : zest_tuner_tell(tuner, tuner->losses, report);
}

/* ---- Whole runs ---- */

void zest_tuner_on_step(zest_tuner *tuner, int (*on_step)(const zest_step_report *, void *), void *user) {
    tuner->on_step = on_step;
    tuner->on_step_user = user;
}

void zest_tuner_stop(zest_tuner *tuner) { tuner->stop = 1; }

/* f at x itself. */
static zest_status final_loss(zest_tuner *tuner, double *loss) {
    zest_lanes center = {.ops = tuner->ctx->ops, .params = tuner->storage.params, .has_center = 1};
    return evaluate(tuner, &center, loss);
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
    zest_status status = prepare(tuner);
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

zest_status zest_tuner_reserve_journal(zest_tuner *tuner, const char *path) {
    zest_status status = no_journal_yet(tuner);
    if (!status) status = prepare(tuner); /* options that do not fit are refused before a file is made */
    if (status) return status;
    status = zest_journal_reserve(&tuner->journal, path, zest_tuner_sink(tuner));
    if (status) zest_journal_finish(&tuner->journal);
    return status;
}

zest_status zest_tuner_commit_journal(zest_tuner *tuner) {
    zest_status status =
        zest_journal_commit(&tuner->journal, &tuner->options, tuner->storage.params, zest_tuner_sink(tuner));
    if (status) zest_journal_finish(&tuner->journal);
    return status;
}

zest_status zest_tuner_start_journal(zest_tuner *tuner, const char *path) {
    zest_status status = zest_tuner_reserve_journal(tuner, path);
    return status ? status : zest_tuner_commit_journal(tuner);
}

/* Replays every recorded step on x and on the state of the stop criteria. */
static zest_status replay_journal(zest_tuner *tuner, zest_journal *journal) {
    for (uint64_t s = 1; s <= zest_journal_steps(journal); s++) {
        zest_record record;
        zest_tilt_report report;
        zest_status status = zest_journal_read(journal, s, &record);
        if (!status)
            status =
                zest_step_replay(&tuner->step, &record, &tuner->storage, &report, zest_tuner_sink(tuner));
        if (status) return status;
        zest_stop_state_update(&tuner->state, &tuner->options, &report, record.count,
                               record.has_center ? &record.losses[record.count - 1] : NULL);
    }
    return ZEST_OK;
}

zest_status zest_tuner_resume_journal(zest_tuner *tuner, const char *path) {
    zest_status status = no_journal_yet(tuner);
    if (status) return status;
    reset(tuner);
    zest_journal *journal = zest_journal_open(tuner->ctx, path);
    if (!journal) return zest_tuner_sink(tuner)->status;
    status = zest_journal_check_start(journal, tuner->storage.params, zest_tuner_sink(tuner));
    if (!status) status = zest_journal_continue(&tuner->journal, journal, zest_tuner_sink(tuner));
    if (!status) {
        zest_options_free(&tuner->options);
        status = zest_options_copy(&tuner->options, &journal->options, zest_tuner_sink(tuner));
    }
    tuner->format = journal->format;
    if (!status) status = prepare(tuner);
    if (!status) status = replay_journal(tuner, journal);
    if (status) zest_journal_finish(&tuner->journal);
    zest_journal_close(journal);
    return status;
}

/* ---- One call ---- */

static zest_status minimise(zest_ctx *ctx, zest_tuner *tuner, const char *options, zest_result *result) {
    if (!tuner) return ctx ? ctx->error.status : ZEST_ERROR_ARGUMENT;
    zest_status status = ZEST_OK;
    if (options) status = zest_tuner_set_all(tuner, options);
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
