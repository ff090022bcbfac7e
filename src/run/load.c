#include "run/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "models/freeze.h"

/* ---- The model ---- */

static int has_tokenizer(const char *path) {
    static const char *const files[] = {"tokenizer.json", "vocab.json", "tokenizer.model"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *file = zest_file_join(path, files[i]);
        int found = file && access(file, F_OK) == 0;
        free(file);
        if (found) return 1;
    }
    return 0;
}

zest_model_options zest_load_model_options(const zest_options *options) {
    return (zest_model_options){.storage =
                                    (zest_model_storage)zest_options_whole(options, ZEST_OPTION_WEIGHTS),
                                .untie_head = (int)zest_options_whole(options, ZEST_OPTION_UNTIE_HEAD),
                                .threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS)};
}

zest_model_runner_options zest_load_runner_options(const zest_options *options) {
    return (zest_model_runner_options){
        .compute = (zest_compute)zest_options_whole(options, ZEST_OPTION_COMPUTE),
        .threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS),
        .live_pairs = (size_t)zest_options_whole(options, ZEST_OPTION_LIVE),
        .device = (zest_device_kind)zest_options_whole(options, ZEST_OPTION_DEVICE)};
}

static zest_status open_model(zest_loaded *loaded, const char *weights, const zest_options *options,
                              zest_error *error) {
    zest_model_options load = zest_load_model_options(options);
    zest_model_runner_options run = zest_load_runner_options(options);
    zest_status status = zest_model_load(weights, &load, &loaded->model, error);
    if (!status)
        status = zest_freeze(loaded->model, zest_options_text(options, ZEST_OPTION_TRAIN_ONLY),
                             zest_options_text(options, ZEST_OPTION_FREEZE), error);
    return status ? status : zest_model_open_runner(loaded->model, &run, &loaded->runner, error);
}

zest_status zest_load_model(zest_loaded *loaded, const char *weights, const char *home,
                            const zest_options *options, zest_error *error) {
    *loaded = (zest_loaded){0};
    zest_status status = open_model(loaded, weights, options, error);
    if (status) return status;
    int here = !home || !loaded->model->folder || has_tokenizer(weights);
    loaded->tokenizer = zest_tokenizer_open(here ? weights : home, error);
    return loaded->tokenizer ? ZEST_OK : error->status;
}

void zest_load_free(zest_loaded *loaded) {
    zest_model_runner_free(loaded->runner);
    zest_tokenizer_free(loaded->tokenizer);
    zest_model_free(loaded->model);
    *loaded = (zest_loaded){0};
}

/* ---- Options that depend on the model ---- */

typedef struct {
    zest_option_id id;
    const char *masked, *causal;
} setting;

/* The paper's: RoBERTa with 512 shots, OPT with 1000 rows. */
static const setting settings[] = {
    {ZEST_OPTION_BATCH, "128", "16"},
    {ZEST_OPTION_LR, "1e-5", "2e-6"},
    {ZEST_OPTION_STEPS, "5600", "20000"},
    {ZEST_OPTION_EVAL_EVERY, "100", "500"},
};

zest_status zest_load_settle(zest_options *options, int causal, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !status; i++)
        if (!zest_options_given(options, settings[i].id))
            status = zest_options_set_id(options, settings[i].id,
                                         causal ? settings[i].causal : settings[i].masked, error);
    int sampled = zest_options_whole(options, ZEST_OPTION_TRAIN_SIZE) > 0,
        own = zest_task_is_file(zest_options_text(options, ZEST_OPTION_TASK));
    if (!status && !causal && !sampled && !own && !zest_options_whole(options, ZEST_OPTION_SHOTS))
        status = zest_options_set_id(options, ZEST_OPTION_SHOTS, "512", error);
    return status;
}

zest_status zest_load_settle_steps(zest_options *options, size_t examples, zest_error *error) {
    uint64_t epochs = zest_options_whole(options, ZEST_OPTION_EPOCHS),
             batch = zest_options_whole(options, ZEST_OPTION_BATCH);
    if (!epochs) return ZEST_OK;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)(epochs * ((examples + batch - 1) / batch)));
    return zest_options_set_id(options, ZEST_OPTION_STEPS, text, error);
}
