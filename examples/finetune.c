/* Fine-tunes a masked language model with an objective of one's own, through zest_lm.h.
 *
 *     finetune [MODEL [OUT [JOURNAL]]]      OUT: a new folder for the tuned model; JOURNAL: a new file
 *
 * Six sentences, each with the mask where " great" or " bad" should stand. The objective is the loss of that
 * choice, in every lane of a step. */
#include <stdio.h>
#include <zest_lm.h>

typedef struct {
    zest_lm *lm;
    zest_lm_batch *batch;
} job;

static int objective(const zest_lanes *lanes, double *losses, void *user) {
    job *j = user;
    return zest_lm_losses(j->lm, lanes, j->batch, NULL, losses); /* one mean loss for each lane */
}

static const char *const texts[] = {
    "a warm and funny film . It was<mask>.",    "dull and far too long . It was<mask>.",
    "an honest , moving story . It was<mask>.", "a waste of two hours . It was<mask>.",
    "brilliant to the end . It was<mask>.",     "i left before the end . It was<mask>."};

int main(int argc, char **argv) {
    zest_ctx *ctx = zest_ctx_new();
    job j = {.lm = zest_lm_load(ctx, argc > 1 ? argv[1] : "examples/roberta-tiny", "weights=f32 threads=1")};
    j.batch = zest_lm_batch_new(j.lm);
    int32_t words[2];
    int bad = !j.batch || zest_lm_single_token(j.lm, " great", &words[0]) ||
              zest_lm_single_token(j.lm, " bad", &words[1]) ||
              zest_lm_batch_set_label_words(j.batch, words, 2);
    for (size_t i = 0; i < 6 && !bad; i++)
        bad = zest_lm_batch_add_masked_text(j.batch, texts[i], i % 2) != ZEST_OK;

    double before = 0;
    zest_result result = {0};
    zest_tuner *tuner = bad ? NULL : zest_lm_tuner(j.lm);
    bad = !tuner || zest_tuner_set_all(tuner, "steps=80 k=2 lr=3e-4") ||
          zest_tuner_objective_lanes(tuner, objective, &j) ||
          zest_lm_losses(j.lm, NULL, j.batch, NULL, &before) ||
          (argc > 3 && zest_tuner_start_journal(tuner, argv[3])) || zest_tuner_run(tuner, &result) ||
          (argc > 2 && zest_lm_save(j.lm, argv[2]));
    if (bad) fprintf(stderr, "failed: %s\n", zest_ctx_error(ctx));
    if (!bad) printf("loss %.4f before, %.4f after %u steps\n", before, result.loss, (unsigned)result.steps);
    zest_tuner_free(tuner);
    zest_lm_batch_free(j.batch);
    zest_lm_free(j.lm);
    zest_ctx_free(ctx);
    return bad || result.loss >= 0.5 * before;
}
