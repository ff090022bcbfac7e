/* Resuming a run: its options merged with those given now, its inputs checked, and its weights, evaluations and
 * divergence check brought to the last recorded step. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/trainer_internal.h"

static int may_change(zest_option_id id) { return zest_option_row_at(id)->changes & ZEST_CHANGES_ON_RESUME; }

static zest_status merge_given(zest_options *options, const zest_options *given, zest_error *error) {
    zest_status status = zest_load_check_length(given, error);
    for (int i = 0; i < ZEST_OPTION_COUNT && !status; i++) {
        zest_option_id id = (zest_option_id)i;
        if (!zest_options_given(given, id)) continue;
        if (!may_change(id) && strcmp(zest_options_text(given, id), zest_options_text(options, id)))
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                    "--%s is '%s' in this run and cannot change any more; start a new run",
                                    zest_option_row_at(id)->name, zest_options_text(options, id));
        else
            status = zest_options_set_id(options, id, zest_options_text(given, id), error);
    }
    /* else the run's --epochs would override --steps */
    if (!status && zest_options_given(given, ZEST_OPTION_STEPS) &&
        !zest_options_given(given, ZEST_OPTION_EPOCHS))
        status = zest_options_set_id(options, ZEST_OPTION_EPOCHS, "0", error);
    return status;
}

/* The run's inputs; a task file that was given has to be the same. */
static zest_status restore_inputs(zest_trainer *t, const zest_options *given) {
    zest_buffer notes = {0};
    zest_status status = zest_inputs_read(&t->inputs, &t->folder, t->error);
    t->inputs.allow_changed = (int)zest_options_whole(t->options, ZEST_OPTION_ALLOW_CHANGED);
    t->data.recorded = &t->inputs;
    t->first_of_equals = !t->inputs.recorded;
    if (!status && zest_options_given(given, ZEST_OPTION_TASK))
        status = zest_inputs_check_task(&t->inputs, zest_options_text(given, ZEST_OPTION_TASK), t->error);
    if (status) return status;
    zest_inputs_notes(&t->inputs, &t->folder, zest_options_text(t->options, ZEST_OPTION_TASK), &notes);
    if (notes.size && !notes.failed && t->hooks->on_note) t->hooks->on_note(notes.data, t->hooks->user);
    zest_buffer_free(&notes);
    return ZEST_OK;
}

/* What the log says about the run so far: evaluations and, of a first-order run, steps. */
static zest_status read_log(zest_trainer *t, zest_log *log) {
    zest_log_parts parts = zest_options_first_order(t->options) ? ZEST_LOG_ALL : ZEST_LOG_WITHOUT_STEPS;
    zest_status status = zest_log_continue(t->folder.log, t->step, &t->earlier, t->error);
    if (status || (access(t->folder.log, F_OK) && errno == ENOENT)) return status;
    status = zest_log_read_parts(t->folder.log, parts, log, t->error);
    return status == ZEST_ERROR_FORMAT ? ZEST_OK : status; /* not even its first line is left */
}

/* The state of the divergence check, from the losses so far: the journal's, or of a first-order run the log's, which
 * is on disk up to the last checkpoint. */
static zest_status restore_divergence(zest_trainer *t, const zest_log *log) {
    zest_record record;
    zest_tilt_report report;
    if (zest_options_first_order(t->options)) {
        for (size_t i = 0; i < log->step_count && log->steps[i].step <= t->step; i++)
            zest_divergence_note(&t->divergence, log->steps[i].loss);
        return ZEST_OK;
    }
    const zest_tilt_options *tilt = &t->record->tilt;
    double *coefficients = malloc(tilt->k * sizeof *coefficients);
    zest_status status =
        coefficients ? ZEST_OK : zest_error_memory(t->error, "coefficients", tilt->k * sizeof *coefficients);
    for (uint64_t step = 1; step <= t->step && !status; step++) {
        status = zest_journal_read(t->record, step, &record);
        if (status)
            status = zest_error_set(t->error, status, "%s", zest_ctx_error(t->ctx));
        else
            zest_tilt_compute(tilt, record.losses, coefficients, &report);
        if (!status) zest_divergence_note(&t->divergence, report.mean);
    }
    free(coefficients);
    return status;
}

/* Weights, examples and state as they were after the last recorded step, from the run's folder. */
static zest_status restore_state(zest_trainer *t) {
    zest_log log = {0};
    zest_status status = zest_journal_continue(&t->journal, t->record, t->error); /* takes the lock */
    if (!status) zest_run_folder_remove_temporaries(&t->folder);
    if (!status) status = t->ops->restore(t);
    if (!status) status = zest_trainer_load(t);
    if (!status) status = zest_run_folder_write_options(&t->folder, t->users, t->options, t->error);
    if (!status) status = read_log(t, &log);
    if (!status) status = restore_divergence(t, &log);
    if (!status) status = zest_trainer_open_logs(t);
    if (!status) status = zest_trainer_log_start(t, 1);
    if (!status) status = zest_trainer_restore_evals(t, &log);
    zest_log_free(&log);
    return status;
}

static zest_status open_record(zest_trainer *t) {
    t->record = zest_journal_open(t->ctx, t->folder.journal);
    if (!t->record) return zest_error_set(t->error, t->ctx->error.status, "%s", t->ctx->error.message);
    t->format = t->record->format;
    return zest_run_check(&t->folder, t->record, t->error);
}

/* Of several ranks rank 0 alone reads the journal and the log, and repeats what they lack. The others load the model that
 * the run started from and the examples; weights and state are sent to them. */
static zest_status restore_ranks(zest_trainer *t) {
    zest_comm *comm = t->comm;
    double timeout = comm->timeout;
    zest_status status;
    if (!comm->rank) {
        t->comm = &t->alone;
        zest_comm_alone(t->comm);
        status = open_record(t);
        if (!status) status = restore_state(t);
        t->comm = comm;
    } else {
        status = zest_trainer_load_model(t);
        if (!status) status = zest_trainer_load(t);
    }
    comm->timeout = 0; /* rank 0 may replay many steps */
    status = zest_comm_agree(comm, status, t->error);
    comm->timeout = timeout;
    if (!status && comm->ranks > 1) status = zest_trainer_send_state(t);
    if (status) return status;
    status = zest_trainer_compare_start(t, t->ops->prepare(t));
    return status || comm->ranks == 1 || !t->ops->share ? status : t->ops->share(t);
}

zest_status zest_trainer_restore(zest_trainer *t, const zest_options *given) {
    zest_status status = merge_given(t->options, given, t->error);
    if (status) return status;
    zest_trainer_select_ops(t);
    status = zest_options_check_method(given, zest_options_whole(t->options, ZEST_OPTION_METHOD), t->error);
    if (!status && t->ops->check) status = t->ops->check(t->options, t->error);
    if (!status) status = zest_trainer_check_ranks(t);
    if (!status) status = restore_inputs(t, given);
    status = zest_comm_agree(t->comm, status, t->error);
    if (!status) status = restore_ranks(t);
    if (!status) zest_trainer_report_start(t);
    if (t->record) zest_journal_close(t->record);
    t->record = NULL;
    return status;
}
