/* lm_train OPTIONS [STEP]: trains as `zest train` does, by zest_lm.h alone; "name=value name=value ...". With a
 * step it stops there, and goes on by zest_lm_resume. Then it prints the accuracy twice, as training found it and as
 * zest_lm_evaluate does, and fingerprints of the weights after step 3 and of the best ones. */
#include <stdio.h>
#include <stdlib.h>
#include <zest_lm.h>

static int stop_at(const zest_lm_train_progress *progress, void *user) {
    unsigned long step = *(const unsigned long *)user;
    return step && !progress->evaluated && progress->step >= step;
}

static void say(const char *sentences, void *user) {
    (void)user;
    fprintf(stderr, "%s\n", sentences);
}

static unsigned long long fingerprint(zest_lm *lm) {
    uint64_t print = 0;
    if (lm && zest_lm_fingerprint(lm, &print)) print = 0;
    return print;
}

/* What zest_lm_open_run makes of the run. */
static int print_models(zest_ctx *ctx, const char *run, unsigned long best_step) {
    zest_lm_info info = {0};
    zest_lm *third = zest_lm_open_run(ctx, run, "3", NULL, NULL, NULL),
            *best = zest_lm_open_run(ctx, run, NULL, "threads=1", NULL, NULL);
    int bad = !third || !best || zest_lm_get_info(best, &info) || info.step != best_step;
    if (!bad) printf("%016llx %016llx\n", fingerprint(third), fingerprint(best));
    zest_lm_free(third);
    zest_lm_free(best);
    return bad;
}

int main(int argc, char **argv) {
    unsigned long step = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    zest_ctx *ctx = zest_ctx_new();
    zest_lm_options *options = zest_lm_options_new(ctx, "train"), *eval = zest_lm_options_new(ctx, "eval");
    zest_lm_callbacks callbacks = {.on_progress = stop_at, .on_note = say, .user = &step};
    zest_lm_train_result result;
    zest_lm_evaluation evaluation;
    int bad = argc < 2 || zest_lm_options_set_all(options, argv[1]) ||
              zest_lm_train(ctx, options, &callbacks, &result);
    const char *run = zest_lm_options_get(options, "out");
    if (!bad && step) {
        bad = result.reason != ZEST_LM_INTERRUPTED || result.step != step;
        step = 0;
        bad = bad || zest_lm_resume(ctx, run, NULL, &callbacks, &result);
    }
    bad = bad || result.reason != ZEST_LM_DONE || zest_lm_evaluate(ctx, run, eval, &callbacks, &evaluation);
    if (bad)
        fprintf(stderr, "lm_train: %s\n", zest_ctx_error(ctx));
    else
        printf("%.17g %.17g\n", result.test.accuracy, evaluation.metrics.accuracy);
    bad = bad || print_models(ctx, run, (unsigned long)result.best_step);
    zest_lm_options_free(options);
    zest_lm_options_free(eval);
    zest_ctx_free(ctx);
    return bad;
}
