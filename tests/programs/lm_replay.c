/* lm_replay MODEL OPTIONS JOURNAL STEP OUT: the model after a step of a tuner's journal, saved. By zest_lm.h alone. */
#include <stdio.h>
#include <stdlib.h>
#include <zest_lm.h>

int main(int argc, char **argv) {
    zest_ctx *ctx = zest_ctx_new();
    if (argc != 6 || !ctx) return 2;
    zest_lm *lm = zest_lm_load(ctx, argv[1], argv[2]);
    zest_journal *journal = zest_journal_open(ctx, argv[3]);
    int bad = !lm || !journal || zest_lm_replay(lm, journal, strtoul(argv[4], NULL, 10)) ||
              zest_lm_save(lm, argv[5]);
    if (bad) fprintf(stderr, "lm_replay: %s\n", zest_ctx_error(ctx));
    zest_journal_close(journal);
    zest_lm_free(lm);
    zest_ctx_free(ctx);
    return bad;
}
