/* long_run RUN STEPS: makes a short run as long as one of weeks. Appends records with drawn losses to its journal and,
 * of zest train, steps to its log, and says in last/zest.json that the weights there are those after the last step. No
 * such run ever was; it is for measuring how long opening and resuming one takes (tests/faults/long.sh). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "optim/context.h"
#include "optim/journal.h"
#include "train/checkpoint.h"
#include "train/log.h"
#include "train/run_folder.h"

static zest_error error;

static void check(zest_status status) {
    if (!status) return;
    fprintf(stderr, "long_run: %s\n", error.message);
    exit(1);
}

/* Between 0 and 1, from the step. */
static double drawn(uint64_t step, uint64_t i) {
    uint64_t bits = (step * 64 + i + 1) * 0x9e3779b97f4a7c15u;
    return (double)((bits ^ bits >> 29) >> 11) / 9007199254740992.0;
}

static void write_note(const char *last, uint64_t step, uint64_t fingerprint, uint32_t checksum) {
    char text[160], *path = zest_file_join(last, "zest.json");
    snprintf(text, sizeof text,
             "{\"step\": %" PRIu64 ", \"fingerprint\": \"%016" PRIx64 "\", \"journal\": \"%08" PRIx32 "\"}\n",
             step, fingerprint, checksum);
    check(zest_file_write(path, text, strlen(text), &error));
    free(path);
}

static void log_step(zest_log_writer *log, uint64_t step, double loss, size_t count, uint64_t every) {
    zest_log_step line = {.step = step,
                          .loss = loss,
                          .lr = 1e-4,
                          .ess = 1,
                          .spread = 0.01,
                          .norm = NAN,
                          .seconds = (double)step * 0.01,
                          .tokens = 64,
                          .passes = count};
    check(zest_log_write_step(log, &line, &error));
    if (!every || step % every) return;
    zest_log_eval eval = zest_log_eval_none(); /* worse than that of the start */
    eval.step = step, eval.loss = 9, eval.accuracy = eval.value = 0, eval.n = 8;
    strcpy(eval.part, "dev");
    check(zest_log_write_eval(log, &eval, &error));
}

int main(int argc, char **argv) {
    uint64_t steps = argc == 3 ? strtoull(argv[2], NULL, 10) : 0, step, fingerprint;
    zest_run_folder folder;
    zest_journal_writer writer;
    zest_log_writer *log = NULL; /* a run of zest minimize has neither log nor checkpoint */
    double losses[64];
    if (!steps) return fprintf(stderr, "usage: long_run RUN STEPS\n"), 2;
    zest_ctx *ctx = zest_ctx_new();
    check(zest_run_folder_of(argv[1], &folder, &error));
    zest_journal *journal = zest_journal_open(ctx, folder.journal);
    if (!journal) return fprintf(stderr, "long_run: %s\n", zest_ctx_error(ctx)), 1;
    size_t count = 2 * journal->tilt.k;
    uint64_t every = strtoull(zest_journal_option(journal, "eval-every"), NULL, 10);
    check(zest_journal_continue(&writer, journal, &error));
    if (zest_run_folder_is_training(&folder)) check(zest_log_open(folder.log, &log, &error));
    for (step = zest_journal_steps(journal) + 1; step <= steps && count <= 64; step++) {
        for (size_t i = 0; i < count; i++) losses[i] = 0.5 + 0.1 * drawn(step, i);
        check(zest_journal_append(&writer, step, 1e-4, losses, count, 0, &error));
        if (log) log_step(log, step, losses[0], count, every);
    }
    if (log && zest_checkpoint_read(folder.last, &step, &fingerprint))
        write_note(folder.last, steps, fingerprint, writer.checksum);
    zest_journal_finish(&writer);
    check(zest_log_close(log, &error));
    zest_journal_close(journal);
    zest_run_folder_free(&folder);
    zest_ctx_free(ctx);
    return 0;
}
