/* Any bytes as a journal: opened, read and replayed without a crash. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "zest.h"

enum { LARGEST = 64, MOST_STEPS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_put("journal", data, size);
    zest_ctx *ctx = zest_ctx_new();
    zest_journal *journal = zest_journal_open(ctx, fuzz_path("journal"));
    if (!journal && !*zest_ctx_error(ctx)) __builtin_trap();
    if (journal) {
        double x[LARGEST] = {0};
        zest_record record;
        uint64_t steps = zest_journal_steps(journal);
        for (uint64_t step = 1; step <= steps; step++)
            if (zest_journal_read(journal, step, &record)) __builtin_trap();
        if (!zest_journal_read(journal, steps + 1, &record)) __builtin_trap();
        if (zest_journal_dimension(journal) <= LARGEST)
            zest_journal_replay_f64(journal, steps < MOST_STEPS ? steps : MOST_STEPS, x,
                                    (size_t)zest_journal_dimension(journal));
    }
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    return 0;
}

static double loss(const double *x, size_t n, void *user) {
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_JOURNAL, data, size, max, seed);
}

static void record(zest_ctx *ctx, const char *const *settings) {
    double x[4] = {1, 2, 3, 4};
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 4);
    zest_status status = zest_tuner_objective_f64(tuner, loss, NULL);
    for (; *settings && !status; settings += 2) status = zest_tuner_set(tuner, settings[0], settings[1]);
    if (!status) status = zest_tuner_start_journal(tuner, fuzz_path("journal"));
    if (!status) status = zest_tuner_run(tuner, NULL);
    if (status) abort();
    zest_tuner_free(tuner);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const settings[][9] = {
        {"k", "2", "steps", "4", "lr", "0.01", NULL},
        {"k", "3", "steps", "3", "distribution", "sphere", "denominator", "ball", NULL}};
    zest_buffer file = {0};
    fuzz_read("tests/data/journal-format-1", &file);
    add(file.data, file.size, user);
    for (size_t i = 0; i < 2; i++) {
        zest_ctx *ctx = zest_ctx_new();
        fuzz_empty_folder();
        record(ctx, settings[i]);
        zest_ctx_free(ctx);
        file.size = 0;
        fuzz_read(fuzz_path("journal"), &file);
        add(file.data, file.size, user);
    }
    zest_buffer_free(&file);
}
