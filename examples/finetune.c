/* Fine-tunes a masked language model with an objective of one's own, through zest_lm.h.
 *
 *     finetune [MODEL [OUT]]      OUT, a new folder, gets the journal and the tuned model
 *
 * Six sentences, each with the mask where "great" or "bad" should stand. The objective is the loss of that
 * choice, for every lane of a step. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zest_lm.h>

typedef struct {
    zest_lm *lm;
    zest_lm_batch *batch;
} job;

static int objective(const zest_lanes *lanes, double *losses, void *user) {
    job *j = user;
    return zest_lm_losses(j->lm, lanes, j->batch, NULL, losses); /* one mean loss for each lane */
}

static int add_examples(job *j) {
    static const char *const texts[] = {"a warm and funny film .",       "dull , slow and far too long .",
                                        "an honest , moving story .",    "a waste of two hours .",
                                        "brilliant from start to end .", "i left after ten minutes ."};
    int32_t words[2], ids[64], mask = zest_lm_special_token(j->lm, ZEST_LM_MASK);
    size_t count, at;
    if (zest_lm_encode(j->lm, " great", ZEST_LM_WHOLE, 0, &words[0], 1, &count) ||
        zest_lm_encode(j->lm, " bad", ZEST_LM_WHOLE, 0, &words[1], 1, &count) ||
        zest_lm_batch_set_label_words(j->batch, words, 2))
        return 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s It was<mask>.", texts[i]);
        if (zest_lm_encode(j->lm, text, ZEST_LM_WHOLE, ZEST_LM_ADD_SPECIAL, ids, 64, &count)) return 1;
        for (at = 0; at < count && ids[at] != mask;) at++;
        if (zest_lm_batch_add_masked(j->batch, ids, count, at, i % 2)) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "examples/roberta-tiny", *out = argc > 2 ? argv[2] : NULL;
    char journal[1024];
    double before = 0;
    zest_result result = {0};
    zest_ctx *ctx = zest_ctx_new();
    job j = {.lm = zest_lm_load(ctx, model, "weights=f32 threads=1")};
    j.batch = zest_lm_batch_new(j.lm);
    int bad = !j.batch || add_examples(&j) || zest_lm_losses(j.lm, NULL, j.batch, NULL, &before);
    zest_tuner *tuner = bad ? NULL : zest_lm_tuner(j.lm);
    bad = !tuner || zest_tuner_set(tuner, "steps", "80") || zest_tuner_set(tuner, "k", "2") ||
          zest_tuner_set(tuner, "lr", "3e-4") || zest_tuner_objective_lanes(tuner, objective, &j);
    snprintf(journal, sizeof journal, "%.1000s/journal", out ? out : "");
    if (!bad && out) bad = mkdir(out, 0777) || zest_tuner_start_journal(tuner, journal);
    bad = bad || zest_tuner_run(tuner, &result) || (out && zest_lm_save(j.lm, out));
    if (bad)
        fprintf(stderr, "failed: %s\n", zest_ctx_error(ctx));
    else
        printf("loss %.4f before, %.4f after %llu steps\n", before, result.loss,
               (unsigned long long)result.steps);
    zest_tuner_free(tuner);
    zest_lm_batch_free(j.batch);
    zest_lm_free(j.lm);
    zest_ctx_free(ctx);
    return bad || !(result.loss < 0.5 * before);
}
