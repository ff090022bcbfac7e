/* zest info: what a run is and where it stands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/run_folder.h"

/* The mean loss of the perturbed points of a step. */
static double loss_of(zest_journal *journal, uint64_t step, double *lr) {
    zest_record record;
    double sum = 0;
    size_t n = 0;
    if (zest_journal_read(journal, step, &record)) return NAN;
    size_t pairs = 2 * strtoul(zest_journal_option(journal, "k"), NULL, 10);
    for (size_t i = 0; i < pairs && i < record.count; i++)
        if (isfinite(record.losses[i])) sum += record.losses[i], n++;
    *lr = record.lr;
    return n ? sum / (double)n : NAN;
}

typedef struct {
    double first, last, best, lr;
    uint64_t best_step;
} course;

static course follow(zest_journal *journal) {
    course c = {.first = NAN, .last = NAN, .best = HUGE_VAL, .lr = NAN};
    for (uint64_t step = 1; step <= zest_journal_steps(journal); step++) {
        c.last = loss_of(journal, step, &c.lr);
        if (step == 1) c.first = c.last;
        if (c.last < c.best) c.best = c.last, c.best_step = step;
    }
    return c;
}

static int print_json(zest_journal *journal, const course *c) {
    zest_option option;
    json_t *options = json_object();
    for (size_t i = 0; zest_tuner_option(i, &option); i++)
        json_object_set_new(options, option.name, json_string(zest_journal_option(journal, option.name)));
    return zest_output_json(json_pack(
        "{s:I, s:I, s:s, s:I, s:o, s:o, s:o, s:I, s:o}", "steps", (json_int_t)zest_journal_steps(journal),
        "dimension", (json_int_t)zest_journal_dimension(journal), "type",
        zest_journal_is_f64(journal) ? "F64" : "F32", "torn_bytes", (json_int_t)zest_journal_torn(journal),
        "first_loss", zest_output_real(c->first), "last_loss", zest_output_real(c->last), "best_loss",
        zest_output_real(c->best), "best_step", (json_int_t)c->best_step, "options", options));
}

static int print_text(zest_journal *journal, const course *c) {
    printf("steps      %llu\n", (unsigned long long)zest_journal_steps(journal));
    printf("dimension  %llu (%s)\n", (unsigned long long)zest_journal_dimension(journal),
           zest_journal_is_f64(journal) ? "double" : "float");
    if (zest_journal_torn(journal))
        printf("torn       %llu bytes behind the last whole record; resuming cuts them off\n",
               (unsigned long long)zest_journal_torn(journal));
    if (zest_journal_steps(journal))
        printf("loss       %.6g in the first step, %.6g in the last, %.6g at best (step %llu)\n", c->first,
               c->last, c->best, (unsigned long long)c->best_step);
    zest_option option;
    printf("options   ");
    for (size_t i = 0; zest_tuner_option(i, &option); i++)
        if (strcmp(option.fallback, zest_journal_option(journal, option.name)))
            printf(" %s=%s", option.name, zest_journal_option(journal, option.name));
    printf("\n");
    return fflush(stdout) ? zest_output_fail(ZEST_ERROR_FILE, "standard output cannot be written")
                          : ZEST_EXIT_OK;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    char *path, *start;
    zest_status status = zest_run_folder_find(words[0], &path, &start, &error);
    if (status) return zest_output_fail(status, error.message);
    zest_ctx *ctx = zest_output_context();
    zest_journal *journal = ctx ? zest_journal_open(ctx, path) : NULL;
    int code = ZEST_EXIT_FAILURE;
    if (journal) {
        course c = follow(journal);
        code =
            zest_options_whole(options, ZEST_OPTION_JSON) ? print_json(journal, &c) : print_text(journal, &c);
    } else if (ctx) {
        code = zest_output_fail(ZEST_ERROR_FORMAT, zest_ctx_error(ctx));
    }
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    free(path);
    free(start);
    return code;
}

const zest_command zest_command_info = {
    .name = "info",
    .words = "RUN",
    .least = 1,
    .most = 1,
    .summary = "what a run is and where it stands",
    .description = "Reads the journal of a run (a folder, or the journal itself) and checks every record. "
                   "Prints its size, "
                   "its losses and the options that differ from the defaults.",
    .examples = "zest info run1\thow far it is",
    .defaults = "",
    .users = ZEST_FOR_INFO,
    .run = run,
};
