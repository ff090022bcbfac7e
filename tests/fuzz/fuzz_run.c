/* The folder of a run: options, inputs.json, task, journal, log, checkpoints, the model it started from and its data.
 * An error with a sentence, or a run that is opened at several steps, evaluated, and goes on for a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "tests/fuzz/fuzz.h"
#include "train/log.h"
#include "train/rebuild.h"
#include "zest_lm.h"

static int stop_at_once(const zest_lm_train_progress *progress, void *user) {
    (void)progress, (void)user;
    return 1;
}

/* Whether a step costs next to nothing: a run may say of itself that it has a million directions. */
static int is_cheap(void) {
    zest_run_folder folder;
    zest_options options;
    zest_error error = {0};
    if (zest_run_folder_of(".", &folder, &error)) return 0;
    int cheap = !zest_run_folder_read_options(&folder, ZEST_FOR_TRAINING, &options, &error);
    if (cheap) {
        cheap = zest_options_whole(&options, ZEST_OPTION_K) <= 8 &&
                zest_options_whole(&options, ZEST_OPTION_BATCH) <= 64;
        zest_options_free(&options);
    }
    zest_run_folder_free(&folder);
    return cheap;
}

static void read_log(void) {
    zest_log log;
    zest_error error = {0};
    if (zest_log_read("log.jsonl", &log, &error)) {
        if (!error.message[0]) __builtin_trap();
        return;
    }
    for (size_t i = 1; i < log.step_count; i++)
        if (log.steps[i].step <= log.steps[i - 1].step) __builtin_trap();
    zest_log_free(&log);
}

static void open_steps(zest_ctx *ctx) {
    static const char *const steps[] = {"last", "best", "0", "1"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        zest_lm *lm = zest_lm_open_run(ctx, ".", steps[i], "threads=1", NULL, NULL);
        if (!lm && !*zest_ctx_error(ctx)) __builtin_trap();
        zest_lm_free(lm);
    }
}

static void evaluate(zest_ctx *ctx) {
    zest_lm_evaluation evaluation;
    zest_lm_options *options = zest_lm_options_new(ctx, "eval");
    if (!options) abort();
    zest_lm_options_set(options, "threads", "1");
    zest_lm_options_set(options, "split", "dev");
    if (zest_lm_evaluate(ctx, ".", options, NULL, &evaluation) && !*zest_ctx_error(ctx)) __builtin_trap();
    zest_lm_options_free(options);
}

static void resume(zest_ctx *ctx) {
    zest_lm_callbacks callbacks = {.on_progress = stop_at_once};
    zest_lm_options *options = zest_lm_options_new(ctx, "train");
    if (!options) abort();
    zest_lm_options_set(options, "steps", "5");
    zest_lm_options_set(options, "threads", "1");
    if (zest_lm_resume(ctx, ".", options, &callbacks, NULL) && !*zest_ctx_error(ctx)) __builtin_trap();
    zest_lm_options_free(options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bundle_unpack(data, size);
    char before[4096];
    if (!getcwd(before, sizeof before) || chdir(fuzz_folder())) abort();
    zest_ctx *ctx = zest_ctx_new();
    read_log();
    if (is_cheap()) {
        open_steps(ctx);
        evaluate(ctx);
        resume(ctx);
    }
    zest_ctx_free(ctx);
    if (chdir(before)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_BUNDLE, data, size, max, seed);
}

/* ---- Seeds: runs of a tiny model with the methods that have different folders ---- */

static void train(zest_ctx *ctx, const char *method) {
    char text[400];
    zest_lm_options *options = zest_lm_options_new(ctx, "train");
    if (!options) abort();
    snprintf(text, sizeof text,
             "model=model task=./x.task out=run steps=3 eval-every=2 batch=2 shots=0 threads=1 k=2 %s",
             method);
    if (zest_lm_options_set_all(options, text) || zest_lm_train(ctx, options, NULL, NULL)) {
        fprintf(stderr, "%s: %s\n", method, zest_ctx_error(ctx));
        exit(2);
    }
    zest_lm_options_free(options);
}

/* The files of a folder, with paths that are relative to it. */
static void add_relative(zest_buffer *out, const char *path, const char *prefix) {
    zest_buffer found = {0};
    fuzz_file files[FUZZ_MAX_FILES];
    fuzz_bundle_add_folder(&found, path, prefix);
    size_t count = fuzz_bundle_read((uint8_t *)found.data, found.size, files), length = strlen(fuzz_folder());
    for (size_t i = 0; i < count; i++) {
        zest_buffer text = {0};
        const char *at = (const char *)files[i].data, *end = at + files[i].size, *hit;
        while ((hit = memmem(at, (size_t)(end - at), fuzz_folder(), length))) {
            zest_buffer_add(&text, at, (size_t)(hit - at));
            zest_buffer_text(&text, ".");
            at = hit + length;
        }
        zest_buffer_add(&text, at, (size_t)(end - at));
        fuzz_bundle_add(out, files[i].name, text.data, text.size);
        zest_buffer_free(&text);
    }
    zest_buffer_free(&found);
}

/* model/ and the data as they were, and the run's files beside them. */
static void add_run(zest_ctx *ctx, const char *method, fuzz_add add, void *user) {
    static const char task[] =
        "train = x.tsv\ndev = x.tsv\nlabel = label\nwords = 0:a, 1:the\ntemplate = {text} it{mask}.\n",
                      rows[] = "text\tlabel\nthe tea\t0\na sat\t1\nin the\t0\na\t1\n";
    zest_buffer model = {0}, out = {0};
    fuzz_file files[FUZZ_MAX_FILES];
    char before[4096], name[FUZZ_MAX_NAME];
    fuzz_model_bundle(0, &model);
    fuzz_empty_folder();
    size_t count = fuzz_bundle_read((uint8_t *)model.data, model.size, files);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "model/%.40s", files[i].name);
        fuzz_put(name, files[i].data, files[i].size);
    }
    fuzz_put("x.task", task, sizeof task - 1);
    fuzz_put("x.tsv", rows, sizeof rows - 1);
    if (!getcwd(before, sizeof before) || chdir(fuzz_folder())) abort();
    train(ctx, method);
    add_relative(&out, ".", "");
    add_relative(&out, "model", "model");
    add_relative(&out, "run", "");
    add_relative(&out, "run/last", "last");
    add_relative(&out, "run/best", "best");
    if (chdir(before)) abort();
    add(out.data, out.size, user);
    zest_buffer_free(&model);
    zest_buffer_free(&out);
}

void fuzz_seeds(fuzz_add add, void *user) {
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) abort();
    add_run(ctx, "method=zest-n", add, user);
    add_run(ctx, "method=adamw", add, user);
    zest_ctx_free(ctx);
}
