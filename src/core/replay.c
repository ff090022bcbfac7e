/* Replay: from the starting point and the journal's losses to the parameters at any step. */
#include "core/context.h"
#include "core/journal.h"
#include "core/stepper.h"

static zest_status replay(zest_journal *journal, uint64_t step, const zest_params *params) {
    zest_error *error = zest_ctx_sink(journal->ctx);
    if (step > journal->steps)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: has %llu steps, not %llu", journal->path,
                              (unsigned long long)journal->steps, (unsigned long long)step);
    zest_status status = zest_journal_check_start(journal, params, error);
    if (status) return status;
    zest_stepper stepper;
    status = zest_stepper_init(&stepper, journal->ctx->ops, &journal->options, journal->format, error);
    for (uint64_t s = 1; s <= step && !status; s++) {
        zest_record record;
        zest_tilt_report report;
        status = zest_journal_read(journal, s, &record);
        if (!status) status = zest_stepper_redo(&stepper, &record, params, &report, error);
    }
    zest_stepper_free(&stepper);
    return status;
}

static zest_status replay_vector(zest_journal *journal, uint64_t step, zest_dtype dtype, void *x, size_t n) {
    zest_tensor tensor = {"x", dtype, 0, n, x};
    return replay(journal, step, &(zest_params){&tensor, 1, n});
}

zest_status zest_journal_replay_f32(zest_journal *journal, uint64_t step, float *x, size_t n) {
    return replay_vector(journal, step, ZEST_DTYPE_F32, x, n);
}

zest_status zest_journal_replay_f64(zest_journal *journal, uint64_t step, double *x, size_t n) {
    return replay_vector(journal, step, ZEST_DTYPE_F64, x, n);
}
