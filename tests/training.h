/* Runs in tests: a small model, a folder, runs that are stopped or whose folder is copied at a step. */
#ifndef ZEST_TESTS_TRAINING_H
#define ZEST_TESTS_TRAINING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "train/checkpoint.h"
#include "train/log.h"
#include "train/rebuild.h"
#include "train/trainer.h"
#include "tests/temp_folder.h"

#define TRAINING_CONFIG                                                                                      \
    "{\"model_type\": \"roberta\", \"vocab_size\": 4096, \"hidden_size\": 16, \"num_hidden_layers\": 2, "    \
    "\"num_attention_heads\": 2, \"intermediate_size\": 32, \"hidden_act\": \"gelu\", "                      \
    "\"max_position_embeddings\": 130, \"type_vocab_size\": 1, \"layer_norm_eps\": 1e-5, \"pad_token_id\": " \
    "1, \"tie_word_embeddings\": true, \"architectures\": [\"RobertaForMaskedLM\"]}"

#define assert_fine(call)                                    \
    do {                                                     \
        zest_error error_ = {0};                             \
        zest_error *const error = &error_;                   \
        if (call) fail_msg("%s: %s", #call, error_.message); \
    } while (0)

static char training_model[64]; /* for all tests */

/* A path, which lasts for some further calls. */
static inline const char *training_path(const char *folder, const char *name) {
    static char buffer[16][400];
    static int next;
    char *out = buffer[next++ % 16];
    snprintf(out, 400, "%s/%s", folder, name);
    return out;
}

/* The demo's tokenizer into a folder, beside a config.json. */
static inline void training_copy_tokenizer(const char *to) {
    static const char *const files[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};
    for (size_t i = 0; i < 3; i++)
        test_copy_file(training_path("examples/roberta-tiny", files[i]), training_path(to, files[i]));
}

/* A model that has learnt nothing but is fast. */
static inline int training_make_model(void **state) {
    (void)state;
    zest_model *model;
    zest_error error = {0};
    zest_model_options options = {.storage = ZEST_MODEL_BF16};
    if (!test_folder(training_model) || zest_model_random(TRAINING_CONFIG, 5, &options, &model, &error))
        return -1;
    int failed = zest_model_save(model, training_model, &error) != ZEST_OK;
    training_copy_tokenizer(training_model);
    zest_model_free(model);
    return failed;
}

static inline int training_remove_model(void **state) {
    (void)state;
    test_remove(training_model);
    return 0;
}

static inline void training_shell(const char *command) {
    if (system(command)) fail_msg("%s", command);
}

static inline void training_copy(const char *from, const char *to) {
    char command[900];
    snprintf(command, sizeof command, "cp -r '%s' '%s'", from, to);
    training_shell(command);
}

/* Stops a run at a step, as Ctrl-C would; or copies its folder at a step, which is what a kill leaves. */
typedef struct {
    volatile sig_atomic_t stop;
    uint64_t stop_at, copy_at;
    const char *from, *to;
} training_events;

static inline void training_on_progress(const zest_trainer_progress *progress, void *user) {
    training_events *w = user;
    if (progress->evaluated) return;
    if (w->copy_at && progress->step == w->copy_at) training_copy(w->from, w->to);
    if (w->stop_at && progress->step >= w->stop_at) w->stop = 1;
}

static inline zest_status training_run(const char *options, const char *out, training_events *w,
                                       zest_trainer_result *result, zest_error *error) {
    zest_options o;
    training_events none = {0};
    if (!w) w = &none;
    zest_options_init(&o);
    zest_trainer_hooks hooks = {.on_progress = training_on_progress, .user = w, .stop = &w->stop};
    zest_ctx *ctx = zest_ctx_new();
    zest_status status = zest_options_set_all(&o, ZEST_FOR_TRAINING, options, "test", error);
    if (!status && out) status = zest_options_set_id(&o, ZEST_OPTION_OUT, out, error);
    if (!status && !*zest_options_text(&o, ZEST_OPTION_MODEL))
        status = zest_options_set_id(&o, ZEST_OPTION_MODEL, training_model, error);
    if (!status) status = zest_trainer_run(ctx, &o, &hooks, result, error);
    zest_options_free(&o);
    zest_ctx_free(ctx);
    return status;
}

static inline zest_status training_resume(const char *folder, const char *given, zest_trainer_result *result,
                                          zest_error *error) {
    zest_options o;
    zest_options_init(&o);
    zest_trainer_hooks hooks = {0};
    zest_ctx *ctx = zest_ctx_new();
    zest_status status = zest_options_set_all(&o, ZEST_FOR_TRAINING, given, "test", error);
    if (!status) status = zest_trainer_resume(ctx, folder, &o, &hooks, result, error);
    zest_options_free(&o);
    zest_ctx_free(ctx);
    return status;
}

static inline int training_exists(const char *path) { return access(path, F_OK) == 0; }

static inline void same_file(const char *a, const char *b) {
    zest_buffer x = {0}, y = {0};
    assert_fine(zest_file_read(a, (size_t)1 << 30, &x, error));
    assert_fine(zest_file_read(b, (size_t)1 << 30, &y, error));
    if (x.size != y.size || memcmp(x.data, y.data, x.size)) fail_msg("%s and %s differ", a, b);
    zest_buffer_free(&x);
    zest_buffer_free(&y);
}

/* The steps and evaluations that two logs tell of are the same. */
static inline void same_log(const char *a, const char *b) {
    zest_log x, y;
    assert_fine(zest_log_read(training_path(a, "log.jsonl"), &x, error));
    assert_fine(zest_log_read(training_path(b, "log.jsonl"), &y, error));
    assert_int_equal(x.step_count, y.step_count);
    assert_int_equal(x.eval_count, y.eval_count);
    for (size_t i = 0; i < x.step_count; i++)
        assert_true(x.steps[i].step == y.steps[i].step && x.steps[i].loss == y.steps[i].loss &&
                    x.steps[i].norm == y.steps[i].norm && x.steps[i].lr == y.steps[i].lr);
    for (size_t i = 0; i < x.eval_count; i++)
        assert_true(x.evals[i].step == y.evals[i].step && x.evals[i].loss == y.evals[i].loss &&
                    x.evals[i].best == y.evals[i].best);
    zest_log_free(&x);
    zest_log_free(&y);
}

/* Weights, state, notes and logs of two runs are the same, bit for bit, and nothing is left lying about. */
static inline void same_first_order_run(const char *a, const char *b) {
    static const char *const folders[] = {"last", "best"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char model[64];
        uint64_t step[2], fingerprint[2];
        snprintf(model, sizeof model, "%s/model.safetensors", folders[i]);
        same_file(training_path(a, model), training_path(b, model));
        assert_true(zest_checkpoint_read(training_path(a, folders[i]), &step[0], &fingerprint[0]));
        assert_true(zest_checkpoint_read(training_path(b, folders[i]), &step[1], &fingerprint[1]));
        assert_true(step[0] == step[1] && fingerprint[0] == fingerprint[1]);
    }
    assert_int_equal(training_exists(training_path(a, "last/state.safetensors")),
                     training_exists(training_path(b, "last/state.safetensors")));
    if (training_exists(training_path(a, "last/state.safetensors")))
        same_file(training_path(a, "last/state.safetensors"), training_path(b, "last/state.safetensors"));
    same_log(a, b);
    assert_false(training_exists(training_path(b, "last.new")) ||
                 training_exists(training_path(b, "last.old")));
}

#endif
