/* A run from start to end: load, prepare, make the folder, the loop of steps, the result with the best weights. */
#include "train/trainer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/clock.h"
#include "base/file.h"
#include "model/input_rows.h"
#include "optim/directions.h"
#include "train/trainer_internal.h"

const char *zest_trainer_reason(zest_trained_reason reason) {
    static const char *const names[] = {"steps done", "no progress", "time is up", "interrupted",
                                        "loss diverged"};
    return names[reason];
}

double zest_trainer_seconds(const zest_trainer *t) { return t->earlier + zest_clock_now() - t->began; }

/* ---- Starting ---- */

void zest_trainer_select_ops(zest_trainer *t) {
    int text = *zest_options_text(t->options, ZEST_OPTION_CORPUS) != '\0';
    t->source = text ? &zest_trainer_text : &zest_trainer_task;
    t->ops = zest_options_first_order(t->options) ? &zest_trainer_first_order : &zest_trainer_zeroth_order;
    t->users = text ? ZEST_FOR_TRAINING : ZEST_FOR_TRAIN;
}

zest_status zest_trainer_load_model(zest_trainer *t) {
    return t->sent.folder ? zest_load_blank(&t->loaded, NULL, t->options, t->error)
                          : zest_load_start(&t->loaded, t->options, t->error);
}

zest_status zest_trainer_load(zest_trainer *t) {
    t->data.places = t->sent.folder ? t->sent.places : NULL;
    zest_status status = t->source->load(t);
    size_t count = t->counts[ZEST_PART_TRAIN];
    if (!status && !count)
        status = zest_error_set(t->error, ZEST_ERROR_ARGUMENT, "the split has no training examples");
    if (!status) status = zest_load_resolve_steps(t->options, count, t->error);
    if (status) return status;
    t->order = malloc(count * sizeof *t->order);
    t->epoch = UINT64_MAX;
    return t->order ? ZEST_OK : zest_error_memory(t->error, "the order of the examples", count * 4);
}

zest_status zest_trainer_open_logs(zest_trainer *t) {
    zest_status status = zest_log_open(t->folder.log, &t->log, t->error);
    return status ? status : zest_tensorboard_open(t->folder.path, &t->events, t->error);
}

/* A path that means the same from another working directory. */
static zest_status make_absolute(zest_options *options, zest_option_id id, zest_error *error) {
    const char *path = zest_options_text(options, id);
    if (*path == '/')
        return ZEST_OK; /* not resolved: a pulled model is a link to a hash, and keeps its name */
    if (!*path || (id == ZEST_OPTION_TASK && !strchr(path, '/') && access(path, F_OK))) return ZEST_OK;
    char *whole = realpath(path, NULL);
    zest_status status = whole ? zest_options_set_id(options, id, whole, error) : ZEST_OK;
    free(whole);
    return status;
}

/* The run's inputs: its task, and the fingerprints of data and model files. */
static zest_status record_inputs(zest_trainer *t) {
    const char *model = zest_options_text(t->options, ZEST_OPTION_MODEL),
               *corpus = zest_options_text(t->options, ZEST_OPTION_CORPUS);
    zest_inputs *in = &t->inputs;
    zest_status status = zest_inputs_add_model(in, model, t->loaded.model, t->error);
    for (int part = 0; part < 3 && !status; part++)
        if (t->data.files[part].path)
            status = zest_inputs_add_data(in, zest_load_part_names[part], t->data.files[part].path,
                                          t->data.files[part].print, t->error);
    if (!status && *corpus) status = zest_inputs_add_data(in, "text", corpus, t->corpus.print, t->error);
    in->task_name = strdup(t->task);
    if (t->data.task.path) in->task_file = strdup(zest_options_text(t->options, ZEST_OPTION_TASK));
    if (!in->task_name || (t->data.task.path && !in->task_file))
        return zest_error_memory(t->error, t->task, strlen(t->task));
    return status ? status
                  : zest_inputs_write(in, &t->folder, t->data.task.text, t->options, t->users,
                                      &t->loaded.model->params, t->error);
}

/* A new folder: everything is on disk before the first step. The journal is written last and marks the start of the
 * run: a kill before that leaves a folder in which the run can be started again, a kill after it a run that can be
 * resumed. The journal's lock is taken first, so that of two processes one gives up. */
static zest_status make_folder(zest_trainer *t) {
    static const zest_option_id paths[] = {ZEST_OPTION_MODEL, ZEST_OPTION_DATA, ZEST_OPTION_TASK,
                                           ZEST_OPTION_CORPUS};
    const char *out = zest_options_text(t->options, ZEST_OPTION_OUT);
    struct stat info;
    if (!stat(out, &info) && !S_ISDIR(info.st_mode))
        return zest_error_set(t->error, ZEST_ERROR_ARGUMENT, "--out %s: is a file; give the name of a folder",
                              out);
    zest_status status = zest_run_folder_of(out, &t->folder, t->error);
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++)
        status = make_absolute(t->options, paths[i], t->error);
    if (!status) status = zest_file_make_folder(t->folder.path, t->error);
    if (!status) status = zest_run_folder_check_links(&t->folder, t->error);
    if (!status) status = zest_journal_reserve(&t->journal, t->folder.journal, t->error);
    if (!status) zest_run_folder_remove_temporaries(&t->folder);
    if (!status) status = record_inputs(t);
    if (!status && t->loaded.model->inputs)
        status = zest_model_save_inputs(t->loaded.model, t->folder.covariance, t->error);
    if (!status) status = zest_run_folder_write_options(&t->folder, t->users, t->options, t->error);
    if (!status) status = zest_journal_commit(&t->journal, t->options, &t->loaded.model->params, t->error);
    if (!status) status = zest_trainer_open_logs(t);
    return status;
}

zest_status zest_trainer_check_ranks(const zest_trainer *t) {
    char methods[64];
    if (t->comm->ranks == 1 || !zest_options_first_order(t->options) ||
        zest_options_whole(t->options, ZEST_OPTION_ACCUMULATE) > 1)
        return ZEST_OK;
    return zest_error_set(
        t->error, ZEST_ERROR_ARGUMENT,
        "%d ranks: the losses of %s are divided over ranks, but gradients of a batch that has one part are "
        "not; give --accumulate %d or more parts, or start one process",
        t->comm->ranks, zest_option_name_methods(ZEST_METHODS_FORWARD, "and", methods, sizeof methods),
        t->comm->ranks);
}

/* Model, examples and what steps need. */
static zest_status load_start(zest_trainer *t) {
    zest_status status = ZEST_OK;
    if (*zest_options_text(t->options, ZEST_OPTION_CORPUS))
        status = zest_options_set_id(t->options, ZEST_OPTION_METHOD, "adamw", t->error);
    if (status) return status;
    zest_trainer_select_ops(t);
    if (!*zest_options_text(t->options, ZEST_OPTION_MODEL))
        return zest_error_set(t->error, ZEST_ERROR_ARGUMENT,
                              "say which model to train: --model DIR (a Hugging Face folder or a GGUF file)");
    status = zest_directions_read_scales(t->options, t->error);
    if (status) return status;
    status =
        zest_options_check_method(t->options, zest_options_whole(t->options, ZEST_OPTION_METHOD), t->error);
    if (!status && t->ops->check) status = t->ops->check(t->options, t->error);
    if (!status) status = zest_trainer_check_ranks(t);
    if (!status) status = zest_trainer_load_model(t);
    if (!status) status = zest_load_resolve_defaults(t->options, t->loaded.model->config.causal, t->error);
    if (!status)
        status = zest_directions_set_batch(t->options, zest_options_whole(t->options, ZEST_OPTION_BATCH),
                                           t->error);
    if (!status) status = zest_trainer_load(t);
    return status ? status : t->ops->prepare(t);
}

/* What rank 0 has loaded, where the others have only its shape. */
static zest_status send_start(zest_trainer *t, zest_status status) {
    if (!t->sent.used) return status;
    status = zest_comm_agree(t->comm, status, t->error);
    return status ? status : zest_trainer_send_weights(t, &t->loaded);
}

static zest_status start(zest_trainer *t) {
    zest_status status = zest_broadcast_files(t->comm, NULL, t->options, &t->sent, t->error);
    if (status) return status;
    status = zest_broadcast_redirect(&t->sent, t->options, t->error);
    if (!status) status = load_start(t);
    status = zest_trainer_compare_start(t, send_start(t, status));
    if (!status) status = zest_trainer_start_inputs(t);
    if (!status) {
        if (t->has_output_dir) status = make_folder(t);
        status = zest_comm_agree(t->comm, status, t->error);
    }
    if (!status && !t->is_kept) zest_trainer_start_history(t);
    if (!status && !t->dry_run) zest_trainer_report_start(t);
    return status || t->dry_run ? status : zest_trainer_log_start(t, 0);
}

/* ---- Running ---- */

static int why_stop(const zest_trainer *t, zest_trained_reason *reason) {
    uint64_t patience = zest_options_whole(t->options, ZEST_OPTION_PATIENCE);
    double limit = zest_options_number(t->options, ZEST_OPTION_SECONDS);
    int guarded = zest_options_whole(t->options, ZEST_OPTION_ON_DIVERGENCE) == ZEST_CHOICE_STOP;
    if (t->comm->ranks > 1) { /* what only one of them knows they have told each other */
        if (zest_trainer_ranks_stop(t, reason)) return 1;
        limit = 0;
    } else if (t->hooks->stop && *t->hooks->stop) {
        return *reason = ZEST_TRAINED_INTERRUPTED, 1;
    }
    if (guarded && zest_divergence_found(&t->divergence)) return *reason = ZEST_TRAINED_DIVERGED, 1;
    if (t->step >= zest_options_whole(t->options, ZEST_OPTION_STEPS)) return *reason = ZEST_TRAINED_STEPS, 1;
    if (patience && t->has_dev && t->dev_step >= t->best_step + patience)
        return *reason = ZEST_TRAINED_PATIENCE, 1;
    if (limit > 0 && zest_clock_now() - t->began >= limit) return *reason = ZEST_TRAINED_TIME, 1;
    return 0;
}

static zest_status loop(zest_trainer *t, zest_trained_reason *reason) {
    zest_status status = zest_trainer_eval_due(t) ? zest_trainer_evaluate_dev(t) : ZEST_OK;
    while (!status && !why_stop(t, reason)) {
        zest_step_stats stats;
        status = t->ops->step(t, &stats);
        if (!status) zest_divergence_note(&t->divergence, stats.loss);
        if (!status) status = zest_trainer_log_step(t, &stats);
        if (!status && t->has_output_dir) status = t->ops->save(t, ZEST_SAVE_STEP);
        if (!status) status = zest_trainer_compare_weights(t, 0);
        if (!status && zest_trainer_eval_due(t)) status = zest_trainer_evaluate_dev(t);
    }
    return status;
}

/* The peak of a device's memory is lost with its model: call this before the model is freed. */
static void update_device_peak(const zest_loaded *loaded, zest_trainer_result *r) {
    const zest_device *device = loaded->runner ? zest_model_runner_device(loaded->runner) : NULL;
    size_t peak = 0;
    if (device) (void)device->operations->device->bytes_allocated(device, &peak);
    if (peak > r->device_peak_bytes) r->device_peak_bytes = peak;
}

/* Evaluates the best weights on dev and test. The model in memory is freed first: there is never a second one. */
static zest_status evaluate_best(zest_trainer *t, zest_trainer_result *r) {
    zest_loaded best = {0};
    const zest_loaded *evaluated = &t->loaded;
    int other = t->has_dev && t->best_step != t->step;
    zest_status status = ZEST_OK;
    update_device_peak(&t->loaded, r);
    if (other && !t->is_kept) status = zest_trainer_restore_best(t);
    t->ops->release(t);
    if (other && t->has_output_dir) {
        zest_load_free(&t->loaded);
        zest_progress_callback progress = {t->hooks->on_rebuild, t->hooks->user};
        status = zest_rebuild_run(t->ctx, &t->folder, t->options, "best", &progress, &r->best_step, &best,
                                  t->error);
        evaluated = &best;
    }
    double timeout = t->comm->timeout;
    t->comm->timeout = 0; /* rank 0 may have steps to replay */
    status = zest_comm_agree(t->comm, status, t->error);
    t->comm->timeout = timeout;
    if (!status && other && (t->is_kept || t->sent.used)) status = zest_trainer_send_weights(t, evaluated);
    if (!status) status = t->source->evaluate(t, evaluated, ZEST_PART_DEV, 1, &r->dev);
    if (!status) status = t->source->evaluate(t, evaluated, ZEST_PART_TEST, 1, &r->test);
    update_device_peak(evaluated, r);
    zest_load_free(&best);
    return status;
}

/* null: there were no examples. NULL: out of memory. */
static json_t *metrics_json(const zest_metrics *m) {
    if (!m->n) return json_null();
    json_t *out = json_object();
    const struct {
        const char *name;
        double value;
    } all[] = {{"loss", m->loss},   {"accuracy", m->accuracy}, {"f1", m->f1},    {"em", m->em},
               {"value", m->value}, {"low", m->low},           {"high", m->high}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (isfinite(all[i].value)) zest_json_set(&out, all[i].name, json_real(all[i].value));
    zest_json_set(&out, "n", json_integer((json_int_t)m->n));
    return out;
}

static zest_status write_result(const zest_trainer *t, const zest_trainer_result *r) {
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:s, s:o, s:o, s:f, s:I}", "reason", zest_trainer_reason(r->reason),
                  "step", (json_int_t)r->step, "best_step", (json_int_t)r->best_step, "metric", r->metric,
                  "dev", metrics_json(&r->dev), "test", metrics_json(&r->test), "seconds", r->seconds,
                  "peak_bytes", (json_int_t)r->peak_bytes);
    if (r->device_peak_bytes)
        zest_json_set(&object, "device_peak_bytes", json_integer((json_int_t)r->device_peak_bytes));
    char *text = object ? zest_json_dump(object, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!text) return zest_error_memory(t->error, t->folder.result, 0);
    zest_status status = zest_file_write(t->folder.result, text, strlen(text), t->error);
    free(text);
    return status;
}

static zest_status finish(zest_trainer *t, zest_trainer_result *r) {
    struct rusage usage;
    r->step = t->step;
    r->best_step = t->has_dev ? t->best_step : t->step;
    r->start = t->start;
    r->dropped_pairs = t->dropped;
    r->divergence = t->divergence;
    r->train = t->counts[ZEST_PART_TRAIN];
    r->dev_count = t->counts[ZEST_PART_DEV];
    r->test_count = t->counts[ZEST_PART_TEST];
    r->cut = t->cut;
    strncpy(r->metric, zest_metric_name(t->metric), sizeof r->metric - 1);
    zest_status status = zest_trainer_compare_weights(t, 1);
    if (!status && t->has_output_dir) status = t->ops->save(t, ZEST_SAVE_END);
    if (!status && r->reason != ZEST_TRAINED_INTERRUPTED) status = evaluate_best(t, r);
    update_device_peak(&t->loaded, r);
    r->seconds = zest_trainer_seconds(t);
    r->peak_bytes = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
    if (!status) status = zest_trainer_log_end(t, r);
    if (!status && t->has_output_dir && r->reason != ZEST_TRAINED_INTERRUPTED) status = write_result(t, r);
    return status;
}

static zest_status close_all(zest_trainer *t, zest_status status) {
    zest_error late = {0};
    zest_status closing = zest_log_close(t->log, &late);
    zest_status events = zest_tensorboard_close(t->events, closing ? NULL : &late);
    zest_journal_finish(&t->journal);
    if (t->ops) t->ops->release(t);
    zest_trainer_ranks_free(t);
    if (t->source) t->source->free(t);
    zest_load_free(&t->loaded);
    zest_run_folder_free(&t->folder);
    zest_inputs_free(&t->inputs);
    zest_broadcast_free(&t->sent);
    zest_checkpoint_free(&t->resumed_from);
    zest_trainer_free_history(t);
    free(t->order);
    if (!closing) closing = events;
    if (!status && closing) return zest_error_set(t->error, closing, "%s", late.message);
    return status;
}

static zest_status run(zest_trainer *t, zest_status status, zest_trainer_result *result) {
    *result = (zest_trainer_result){0};
    if (!status) status = loop(t, &result->reason);
    if (!status) status = finish(t, result);
    result->step = t->step;
    return close_all(t, status);
}

static zest_trainer new_trainer(zest_ctx *ctx, zest_options *options, const zest_trainer_hooks *hooks,
                                zest_error *error) {
    return (zest_trainer){.ctx = ctx,
                          .comm = ctx->comm,
                          .format = ZEST_FORMAT,
                          .options = options,
                          .hooks = hooks,
                          .error = error,
                          .journal = {.descriptor = -1},
                          .saved_step = UINT64_MAX,
                          .best = NAN,
                          .best_loss = NAN,
                          .dev_seconds = NAN,
                          .began = zest_clock_now(),
                          .saved = zest_clock_now()};
}

zest_status zest_trainer_run(zest_ctx *ctx, zest_options *options, const zest_trainer_hooks *hooks,
                             zest_trainer_result *result, zest_error *error) {
    zest_trainer t = new_trainer(ctx, options, hooks, error);
    t.is_kept = *zest_options_text(options, ZEST_OPTION_OUT) != '\0';
    t.has_output_dir = t.is_kept && !t.comm->rank;
    return run(&t, start(&t), result);
}

zest_status zest_trainer_dry_run(zest_ctx *ctx, zest_options *options, const zest_trainer_hooks *hooks,
                                 zest_error *error) {
    zest_trainer t = new_trainer(ctx, options, hooks, error);
    t.dry_run = 1;
    zest_status status = start(&t);
    if (!status) status = zest_trainer_time_steps(&t);
    return close_all(&t, status);
}

zest_status zest_trainer_resume(zest_ctx *ctx, const char *folder, const zest_options *given,
                                const zest_trainer_hooks *hooks, zest_trainer_result *result,
                                zest_error *error) {
    zest_options options;
    zest_trainer t = new_trainer(ctx, &options, hooks, error);
    t.is_kept = 1;
    t.has_output_dir = !t.comm->rank;
    zest_options mine; /* with the paths of what rank 0 has sent */
    *result = (zest_trainer_result){0};
    zest_status status = zest_options_copy(&mine, given, error);
    if (!status) status = zest_broadcast_files(t.comm, folder, given, &t.sent, error);
    if (!status) status = zest_broadcast_redirect(&t.sent, &mine, error);
    if (!status) status = zest_run_folder_of(t.sent.run ? t.sent.run : folder, &t.folder, error);
    if (!status && !zest_run_folder_is_training(&t.folder))
        status = zest_error_set(error, ZEST_ERROR_FILE,
                                access(t.folder.options, F_OK)
                                    ? "%s: is no run of zest train (a folder with options and a journal)"
                                    : "%s: the run was stopped before it began; start it again with --out",
                                folder);
    if (!status) status = zest_run_folder_check_links(&t.folder, error);
    if (!status) status = zest_run_folder_read_options(&t.folder, ZEST_FOR_TRAINING, &options, error);
    if (status) {
        zest_run_folder_free(&t.folder);
        zest_broadcast_free(&t.sent);
        zest_options_free(&mine);
        return status;
    }
    status = run(&t, zest_trainer_restore(&t, &mine), result);
    zest_options_free(&options);
    zest_options_free(&mine);
    return status;
}
