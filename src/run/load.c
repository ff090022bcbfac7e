#include "run/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "models/freeze.h"
#include "text/save.h"

enum { CONFIG_LIMIT = 16 << 20 };

/* ---- The model ---- */

static int has_any(const char *folder, const char *const *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *file = zest_file_join(folder, files[i]);
        int found = file && access(file, F_OK) == 0;
        free(file);
        if (found) return 1;
    }
    return 0;
}

static int has_tokenizer(const char *path) {
    static const char *const files[] = {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"};
    return has_any(path, files, sizeof files / sizeof *files);
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

/* A model that there is only a config.json of. */
static zest_status make_model(zest_loaded *loaded, const char *folder, const zest_options *options,
                              zest_error *error) {
    zest_model_options how = zest_load_model_options(options);
    zest_buffer config = {0};
    char *path = zest_file_join(folder, "config.json");
    zest_status status = path ? zest_file_read(path, CONFIG_LIMIT, &config, error)
                              : zest_error_memory(error, folder, strlen(folder));
    if (how.storage == ZEST_MODEL_AS_STORED) how.storage = ZEST_MODEL_F32;
    if (!status)
        status =
            zest_model_random(config.data ? config.data : "", zest_options_whole(options, ZEST_OPTION_SEED),
                              &how, &loaded->model, error);
    if (!status && !(loaded->model->folder = strdup(folder)))
        status = zest_error_memory(error, folder, strlen(folder));
    zest_buffer_free(&config);
    free(path);
    return status;
}

static zest_status open_model(zest_loaded *loaded, const char *weights, int invented,
                              const zest_options *options, zest_error *error) {
    zest_model_options load = zest_load_model_options(options);
    zest_model_runner_options run = zest_load_runner_options(options);
    zest_status status = invented ? make_model(loaded, weights, options, error)
                                  : zest_model_load(weights, &load, &loaded->model, error);
    if (!status)
        status = zest_freeze(loaded->model, zest_options_text(options, ZEST_OPTION_TRAIN_ONLY),
                             zest_options_text(options, ZEST_OPTION_FREEZE), error);
    return status ? status : zest_model_open_runner(loaded->model, &run, &loaded->runner, error);
}

static zest_status load(zest_loaded *loaded, const char *weights, const char *home, int invented,
                        const zest_options *options, zest_error *error) {
    *loaded = (zest_loaded){0};
    zest_status status = open_model(loaded, weights, invented, options, error);
    if (status) return status;
    int here = !home || !loaded->model->folder || has_tokenizer(weights);
    loaded->home_tokenizer = !here;
    loaded->tokenizer = zest_tokenizer_open(here ? weights : home, error);
    return loaded->tokenizer ? ZEST_OK : error->status;
}

zest_status zest_load_model(zest_loaded *loaded, const char *weights, const char *home,
                            const zest_options *options, zest_error *error) {
    return load(loaded, weights, home, 0, options, error);
}

zest_status zest_load_checkpoint(zest_loaded *loaded, const char *folder, const zest_options *options,
                                 zest_error *error) {
    zest_options as_stored;
    *loaded = (zest_loaded){0};
    zest_status status = zest_options_copy(&as_stored, options, error);
    if (!status) status = zest_options_set_id(&as_stored, ZEST_OPTION_WEIGHTS, "stored", error);
    if (!status) status = zest_options_set_id(&as_stored, ZEST_OPTION_UNTIE_HEAD, "no", error);
    if (!status)
        status =
            zest_load_model(loaded, folder, zest_options_text(options, ZEST_OPTION_MODEL), &as_stored, error);
    zest_options_free(&as_stored);
    return status;
}

static int has_weights(const char *folder) {
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    return has_any(folder, files, sizeof files / sizeof *files);
}

zest_status zest_load_start(zest_loaded *loaded, const zest_options *options, zest_error *error) {
    const char *model = zest_options_text(options, ZEST_OPTION_MODEL);
    struct stat info;
    int folder = !stat(model, &info) && S_ISDIR(info.st_mode);
    int text = *zest_options_text(options, ZEST_OPTION_CORPUS) != '\0';
    return load(loaded, model, NULL, text && folder && !has_weights(model), options, error);
}

void zest_load_free(zest_loaded *loaded) {
    zest_model_runner_free(loaded->runner);
    zest_tokenizer_free(loaded->tokenizer);
    zest_model_free(loaded->model);
    *loaded = (zest_loaded){0};
}

zest_status zest_load_save(const zest_loaded *loaded, const char *folder, zest_error *error) {
    zest_status status = zest_model_save(loaded->model, folder, error);
    int written = loaded->model->folder || !loaded->tokenizer || !zest_save_can(loaded->tokenizer);
    return status || written ? status : zest_save_tokenizer(loaded->tokenizer, folder, error);
}

/* ---- Options that depend on the model ---- */

typedef struct {
    zest_option_id id;
    const char *masked, *causal;
} setting;

enum { SETTINGS = 5 };

/* The paper's: RoBERTa with 512 shots a class for 700 epochs, which is 5600 steps for two classes; OPT with
 * 1000 rows. With other splits the epochs do not count, and masked models take the 5600 steps. */
static const setting zeroth[SETTINGS] = {
    {ZEST_OPTION_BATCH, "128", "16"},     {ZEST_OPTION_LR, "1e-5", "2e-6"},
    {ZEST_OPTION_STEPS, "5600", "20000"}, {ZEST_OPTION_EVAL_EVERY, "100", "500"},
    {ZEST_OPTION_EPOCHS, "700", "0"},
};
enum { PAPER_SHOTS = 512 };

/* The middle of the paper's grids for SGD; 200 epochs, or 30 of 1000 rows. How often it evaluates it does not
 * say. */
static const setting first[SETTINGS] = {
    {ZEST_OPTION_BATCH, "32", "8"},   {ZEST_OPTION_LR, "1e-3", "1e-5"},
    {ZEST_OPTION_STEPS, "0", "3750"}, {ZEST_OPTION_EVAL_EVERY, "100", "125"},
    {ZEST_OPTION_EPOCHS, "200", "0"},
};

static const setting pretraining[SETTINGS] = {
    {ZEST_OPTION_BATCH, "32", "32"},     {ZEST_OPTION_LR, "1e-3", "1e-3"},
    {ZEST_OPTION_STEPS, "1000", "1000"}, {ZEST_OPTION_EVAL_EVERY, "100", "100"},
    {ZEST_OPTION_EPOCHS, "0", "0"},
};

/* --epochs decides the steps, so a value of --steps beside it would be given in vain. */
zest_status zest_load_check_length(const zest_options *given, zest_error *error) {
    static const zest_option_id both[] = {ZEST_OPTION_STEPS, ZEST_OPTION_EPOCHS};
    for (int i = 0; i < 2; i++)
        if (!zest_options_given(given, both[i]) || !zest_options_whole(given, both[i])) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "--steps and --epochs both say how long to train; give one of them, and 0 for the "
                          "other if it comes from a file");
}

zest_status zest_load_settle(zest_options *options, int causal, zest_error *error) {
    int text = *zest_options_text(options, ZEST_OPTION_CORPUS) != '\0';
    const setting *settings = text ? pretraining : zest_options_first_order(options) ? first : zeroth;
    int sampled = zest_options_whole(options, ZEST_OPTION_TRAIN_SIZE) > 0,
        own = zest_task_is_file(zest_options_text(options, ZEST_OPTION_TASK));
    zest_status status = zest_load_check_length(options, error);
    if (!status && !causal && !sampled && !own && !text && !zest_options_whole(options, ZEST_OPTION_SHOTS))
        status = zest_options_set_id(options, ZEST_OPTION_SHOTS, "512", error);
    int recipe = !own && zest_options_whole(options, ZEST_OPTION_SHOTS) == PAPER_SHOTS;
    int limited = zest_options_given(options, ZEST_OPTION_STEPS) ||
                  zest_options_given(options, ZEST_OPTION_EPOCHS) || (settings == zeroth && !recipe);
    for (size_t i = 0; i < SETTINGS && !status; i++) {
        const setting *s = &settings[i];
        if (!zest_options_given(options, s->id) && !(s->id == ZEST_OPTION_EPOCHS && limited))
            status = zest_options_set_id(options, s->id, causal ? s->causal : s->masked, error);
    }
    return status;
}

zest_status zest_load_settle_steps(zest_options *options, size_t examples, zest_error *error) {
    uint64_t epochs = zest_options_whole(options, ZEST_OPTION_EPOCHS),
             batch = zest_options_whole(options, ZEST_OPTION_BATCH);
    if (!epochs) return ZEST_OK;
    uint64_t steps_an_epoch = (examples + batch - 1) / batch; /* the last batch may be smaller */
    if (steps_an_epoch && epochs > UINT32_MAX / steps_an_epoch)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--epochs %llu of %llu steps each are more steps than a run can have, %u",
                              (unsigned long long)epochs, (unsigned long long)steps_an_epoch, UINT32_MAX);
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)(epochs * steps_an_epoch));
    /* what is written down of the run has one length, so that it can be given again */
    zest_status status = zest_options_set_id(options, ZEST_OPTION_EPOCHS, "0", error);
    return status ? status : zest_options_set_id(options, ZEST_OPTION_STEPS, text, error);
}
