/* zest replay: the point of a run at any of its steps, rebuilt from its start and its journal. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/run_folder.h"
#include "run/vector_file.h"

static zest_status which_step(const zest_options *options, const zest_journal *journal, uint64_t *step,
                              zest_error *error) {
    const char *text = zest_options_text(options, ZEST_OPTION_STEP);
    char *end;
    *step = zest_journal_steps(journal);
    if (!strcmp(text, "last")) return ZEST_OK;
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || number > *step)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--step takes a number from 0 to %llu for this run, or 'last'",
                              (unsigned long long)*step);
    *step = number;
    return ZEST_OK;
}

static int print(const zest_options *options, uint64_t step, const double *x, size_t n) {
    if (zest_options_whole(options, ZEST_OPTION_JSON)) {
        json_t *point = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(point, zest_output_real(x[i]));
        return zest_output_json(json_pack("{s:I, s:o}", "step", (json_int_t)step, "x", point));
    }
    for (size_t i = 0; i < n; i++) printf("%.17g\n", x[i]);
    return fflush(stdout) ? zest_output_fail(ZEST_ERROR_FILE, "standard output cannot be written")
                          : ZEST_EXIT_OK;
}

static int rebuild(zest_ctx *ctx, const zest_options *options, const char *path, const char *start) {
    zest_error error = {0};
    double *x = NULL;
    size_t n = 0;
    uint64_t step = 0;
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_journal *journal = zest_journal_open(ctx, path);
    if (!journal) return zest_output_fail(ZEST_ERROR_FORMAT, zest_ctx_error(ctx));
    zest_status status = which_step(options, journal, &step, &error);
    if (!status && !start)
        status = zest_error_set(&error, ZEST_ERROR_FILE,
                                "%s: its starting point, a file called start beside it, is missing", path);
    if (!status) status = zest_vector_file_read(start, &x, &n, &error);
    if (!status) {
        status = zest_journal_replay_f64(journal, step, x, n);
        if (status) zest_error_set(&error, status, "%s", zest_ctx_error(ctx));
    }
    if (!status && *out) status = zest_vector_file_write(out, x, n, &error);
    int code = status ? zest_output_fail(status, error.message) : ZEST_EXIT_OK;
    if (!status && (!*out || zest_options_whole(options, ZEST_OPTION_JSON)))
        code = print(options, step, x, n);
    free(x);
    zest_journal_close(journal);
    return code;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    char *journal, *start;
    zest_status status = zest_run_folder_find(words[0], &journal, &start, &error);
    if (status) return zest_output_fail(status, error.message);
    zest_ctx *ctx = zest_output_context();
    int code = ctx ? rebuild(ctx, options, journal, start) : ZEST_EXIT_FAILURE;
    zest_ctx_free(ctx);
    free(journal);
    free(start);
    return code;
}

const zest_command zest_command_replay = {
    .name = "replay",
    .words = "RUN",
    .least = 1,
    .most = 1,
    .summary = "rebuild x at any step of a run, bit for bit",
    .description =
        "Reads the journal and the starting point of a run that `zest minimize --out RUN` kept, takes the "
        "steps "
        "again without evaluating anything, and prints x (or writes it with --out). Works on any machine and "
        "gives the same bits.",
    .examples =
        "zest replay run1 --step 100\tx after 100 steps\nzest replay run1 --step 0\tthe starting point",
    .defaults = "",
    .users = ZEST_FOR_REPLAY,
    .run = run,
};
