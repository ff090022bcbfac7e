#include "base/option_suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { LONGEST = 64 };

/* Names in transformers, MeZO's code, llama.cpp and the usual training scripts, and what zest calls the same
 * thing: an option, perhaps with a value. Of several rows with one name, the first whose option is known to
 * the command counts. */
static const struct {
    const char *theirs, *ours;
} names[] = {
    {"learning-rate", "lr"},
    {"per-device-train-batch-size", "batch"},
    {"train-batch-size", "batch"},
    {"micro-batch-size", "batch"},
    {"batch-size", "batch"},
    {"bs", "batch"},
    {"num-train-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"n-epochs", "epochs"},
    {"max-epochs", "epochs"},
    {"max-steps", "steps"},
    {"num-steps", "steps"},
    {"train-steps", "steps"},
    {"num-iterations", "steps"},
    {"iterations", "steps"},
    {"max-iter", "steps"},
    {"max-iters", "steps"},
    {"iters", "steps"},
    {"max-evals", "evals"},
    {"max-time", "seconds"},
    {"time-limit", "seconds"},
    {"output-dir", "out"},
    {"output", "out"},
    {"out-dir", "out"},
    {"save-dir", "out"},
    {"save-path", "out"},
    {"model-name-or-path", "model"},
    {"model-name", "model"},
    {"model-path", "model"},
    {"base-model", "model"},
    {"pretrained", "model"},
    {"task-name", "task"},
    {"dataset", "task"},
    {"dataset-name", "task"},
    {"data-dir", "data"},
    {"data-path", "data"},
    {"train-file", "text"},
    {"corpus", "text"},
    {"eval-steps", "eval-every"},
    {"eval-interval", "eval-every"},
    {"evaluation-steps", "eval-every"},
    {"save-steps", "save-every"},
    {"save-interval", "save-every"},
    {"checkpoint-every", "save-every"},
    {"lr-scheduler-type", "schedule"},
    {"lr-scheduler", "schedule"},
    {"lr-schedule", "schedule"},
    {"scheduler", "schedule"},
    {"warmup-steps", "warmup"},
    {"min-lr", "final-lr"},
    {"max-grad-norm", "clip"},
    {"grad-clip", "clip"},
    {"clip-grad-norm", "clip"},
    {"gradient-clipping", "clip"},
    {"adam-beta1", "beta1"},
    {"adam-beta2", "beta2"},
    {"adam-eps", "adam-epsilon"},
    {"wd", "weight-decay"},
    {"optim", "method"},
    {"optimizer", "method"},
    {"optimiser", "method"},
    {"algorithm", "method"},
    {"algo", "method"},
    {"trainer", "method"},
    {"gradient-checkpointing", "recompute"},
    {"activation-checkpointing", "recompute"},
    {"early-stopping-patience", "patience"},
    {"metric-for-best-model", "select"},
    {"metric", "select"},
    {"resume-from-checkpoint", "resume"},
    {"resume-from", "resume"},
    {"checkpoint", "step"},
    {"dtype", "weights"},
    {"torch-dtype", "weights"},
    {"precision", "weights"},
    {"load-bfloat16", "weights bf16"},
    {"load-float16", "weights f16"},
    {"bf16", "weights bf16"},
    {"fp16", "weights f16"},
    {"random-seed", "seed"},
    {"manual-seed", "seed"},
    {"train-set-seed", "seed"},
    {"zo-eps", "rho"},
    {"zo-epsilon", "rho"},
    {"eps", "rho"},
    {"perturbation-scale", "rho"},
    {"smoothing", "rho"},
    {"tilt", "t"},
    {"num-perturbations", "k"},
    {"num-directions", "k"},
    {"num-queries", "k"},
    {"q", "k"},
    {"num-train", "train-size"},
    {"num-dev", "dev-size"},
    {"num-eval", "test-size"},
    {"num-test", "test-size"},
    {"num-k", "shots"},
    {"k-shot", "shots"},
    {"num-shots", "shots"},
    {"few-shot", "shots"},
    {"noise-rate", "label-noise"},
    {"sam-rho", "radius"},
    {"mlm-probability", "mask"},
    {"mask-prob", "mask"},
    {"max-length", "length"},
    {"max-seq-length", "length"},
    {"seq-length", "length"},
    {"block-size", "length"},
    {"seq-len", "tokens"},
    {"max-new-tokens", "max-tokens"},
    {"max-length", "max-tokens"},
    {"n-predict", "max-tokens"},
    {"predict", "max-tokens"},
    {"ngl", "device cuda"},
    {"n-gpu-layers", "device cuda"},
    {"gpu-layers", "device cuda"},
    {"gpu", "device cuda"},
    {"cuda", "device cuda"},
    {"use-cuda", "device cuda"},
    {"num-threads", "threads"},
    {"n-threads", "threads"},
    {"nthreads", "threads"},
    {"num-workers", "jobs"},
    {"workers", "jobs"},
    {"num-workers", "threads"},
    {"input-file", "input"},
    {"file", "input"},
    {"sentence", "text"},
    {"silent", "quiet"},
    {"config-file", "config"},
};

static void normalise(const char *name, size_t size, char out[LONGEST]) {
    if (size >= LONGEST) size = LONGEST - 1;
    for (size_t i = 0; i < size; i++) out[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    out[size] = '\0';
}

/* Does the row's option belong to the users? It may stand before a value. */
static int is_known(const char *ours, unsigned users) {
    char option[LONGEST];
    normalise(ours, strcspn(ours, " "), option);
    return zest_option_find(option, users) != ZEST_OPTION_COUNT;
}

static const char *translate(const char *name, unsigned users) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].theirs, name) && is_known(names[i].ours, users)) return names[i].ours;
    return NULL;
}

static const char *nearest(const char *name, unsigned users) {
    const char *best = NULL;
    size_t least = 3; /* further away is no typing mistake */
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!(row->users & users)) continue;
        size_t d = zest_edit_distance(name, strlen(name), row->name);
        if (d < least && d < strlen(row->name)) least = d, best = row->name;
    }
    return best;
}

const char *zest_option_suggest(const char *name, unsigned users, int quoted, char *text) {
    char plain[LONGEST];
    normalise(name, strlen(name), plain);
    int exact = is_known(plain, users);
    const char *translated = exact ? NULL : translate(plain, users), *meant = exact ? plain
                                                                              : translated
                                                                                  ? translated
                                                                                  : nearest(plain, users);
    text[0] = '\0';
    if (meant)
        snprintf(text, ZEST_OPTION_SUGGESTION_SIZE, "; %s %s%s%s%s",
                 translated ? "zest calls it" : "did you mean", quoted ? "'" : "--", meant, quoted ? "'" : "",
                 translated ? "" : "?");
    return text;
}

int zest_option_is_long_name(const char *name, size_t size, unsigned users) {
    char plain[LONGEST];
    if (size < 2) return 0;
    normalise(name, size, plain);
    return is_known(plain, users) || translate(plain, users);
}
