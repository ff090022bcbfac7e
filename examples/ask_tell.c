/* Rungs 2 and 3 of zest.h: options by name, a journal, and a loop of your own in which the lanes of a step
 * are evaluated in parallel. The journal makes the run resumable; here it is resumed at once, and replayed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zest.h>

enum { N = 1000 };

/* The loss of one lane. Nothing is perturbed in memory: the lane is read slice by slice. */
static double loss_of(const zest_lanes *lanes, size_t lane) {
    float slice[100];
    double sum = 0;
    for (size_t first = 0; first < N; first += 100) {
        if (zest_lanes_read_f32(lanes, lane, first, 100, slice)) return NAN;
        for (int i = 0; i < 100; i++) sum += pow(slice[i] - 0.5, 2);
    }
    return sum / N;
}

int main(void) {
    char path[] = "/tmp/zest-example-XXXXXX";
    float x[N] = {0}, again[N] = {0};
    int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    unlink(path); /* the journal wants to make the file itself */

    zest_ctx *ctx = zest_ctx_new();
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, N);
    int bad = !tuner || zest_tuner_set_all(tuner, "method=zest-bc k=8 lr=3") ||
              zest_tuner_start_journal(tuner, path);
    zest_step_report report = {0};
    for (int step = 0; step < 2000 && !bad; step++) {
        const zest_lanes *lanes;
        double losses[16];
        bad = zest_tuner_ask(tuner, &lanes) != ZEST_OK;
#pragma omp parallel for
        for (int lane = 0; lane < 16; lane++) losses[lane] = loss_of(lanes, (size_t)lane);
        bad = bad || zest_tuner_tell(tuner, losses, &report);
    }
    zest_tuner_free(tuner);

    zest_journal *journal = zest_journal_open(ctx, path);
    bad = bad || !journal || zest_journal_replay_f32(journal, zest_journal_steps(journal), again, N);
    for (int i = 0; i < N && !bad; i++) bad = again[i] != x[i];
    if (bad)
        fprintf(stderr, "failed: %s\n", zest_ctx_error(ctx));
    else
        printf("loss %.2e after %llu steps; the replay has the same %d numbers, bit for bit\n", report.loss,
               (unsigned long long)report.step, N);
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    unlink(path);
    return bad || report.loss > 1e-3;
}
