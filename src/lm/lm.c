/* Language models of include/zest_lm.h: loading, runs, saving. */
#include <stdlib.h>
#include <string.h>

#include "io/hub.h"
#include "lm/lm.h"
#include "lm/target.h"
#include "model/gguf_export.h"

/* ---- Checks ---- */

zest_status zest_lm_need(zest_ctx *ctx, const void *argument, const char *name) {
    if (ctx && argument) return ZEST_OK;
    return zest_error_set(zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT, "the argument %s is NULL", name);
}

zest_status zest_lm_check(const zest_lm *lm) {
    if (!lm) return ZEST_ERROR_ARGUMENT;
    if (lm->loaded.runner) return ZEST_OK;
    return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_STATE,
                          "this is a tokenizer without a model; load the weights with zest_lm_load");
}

zest_status zest_lm_check_ids(const zest_lm *lm, const int32_t *ids, size_t count, const char *what) {
    zest_status status = zest_lm_check(lm);
    if (status) return status;
    const zest_model_config *config = &lm->loaded.model->config;
    zest_error *error = zest_lm_sink(lm);
    if (!ids || !count) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s has no tokens", what);
    if (count > config->max_positions)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%s has %zu tokens, and the model reads at most %zu", what, count,
                              config->max_positions);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= config->vocab_size)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "%s: token %zu is %d, which is outside the vocabulary of %zu", what, i,
                                  (int)ids[i], config->vocab_size);
    return ZEST_OK;
}

/* ---- Loading ---- */

static zest_lm *new_lm(zest_ctx *ctx) {
    zest_lm *lm = calloc(1, sizeof *lm);
    if (!lm) {
        zest_error_memory(&ctx->error, "a model", sizeof *lm);
        return NULL;
    }
    lm->ctx = ctx;
    zest_options_init(&lm->options);
    return lm;
}

static zest_status need_path(zest_ctx *ctx, const char *path) {
    if (path && *path) return ZEST_OK;
    return zest_error_set(&ctx->error, ZEST_ERROR_ARGUMENT,
                          "no model was named; give a folder, a GGUF file or ORG/NAME");
}

static zest_lm *done(zest_lm *lm, zest_status status) {
    if (!status) return lm;
    zest_lm_free(lm);
    return NULL;
}

static zest_status set_options(zest_lm *lm, const char *options) {
    return options ? zest_options_set_all(&lm->options, ZEST_FOR_LM, options, "options", zest_lm_sink(lm))
                   : ZEST_OK;
}

/* Where a model is that may be the name of a pulled one. */
static zest_status find_home(zest_lm *lm, char **home) {
    const char *model = zest_options_text(&lm->options, ZEST_OPTION_MODEL);
    *home = NULL;
    return *model ? zest_hub_find(model, home, zest_lm_sink(lm)) : ZEST_OK;
}

zest_lm *zest_lm_load(zest_ctx *ctx, const char *model, const char *options) {
    char *path = NULL, *home = NULL;
    if (!ctx || need_path(ctx, model)) return NULL;
    zest_lm *lm = new_lm(ctx);
    if (!lm) return NULL;
    zest_status status = set_options(lm, options);
    if (!status) status = zest_hub_find(model, &path, &ctx->error);
    if (!status) status = find_home(lm, &home);
    if (!status) status = zest_load_model(&lm->loaded, path, home, &lm->options, &ctx->error);
    free(path);
    free(home);
    return done(lm, status);
}

/* Takes over what the target has loaded. */
static zest_status open_run(zest_lm *lm, const char *path, const char *step,
                            const zest_target_callbacks *callbacks) {
    zest_target target;
    zest_error *error = zest_lm_sink(lm);
    zest_status status = zest_options_set_id(&lm->options, ZEST_OPTION_STEP, step ? step : "best", error);
    if (status) return status;
    status = zest_target_open(lm->ctx, &target, path, &lm->options, callbacks, error);
    if (!status) {
        zest_options own = lm->options;
        lm->loaded = target.loaded;
        lm->options = target.options;
        lm->step = target.step;
        target.loaded = (zest_loaded){0};
        target.options = own;
    }
    zest_target_close(&target);
    return status;
}

zest_lm *zest_lm_open_run(zest_ctx *ctx, const char *path, const char *step, const char *options,
                          zest_lm_progress progress, void *user) {
    zest_run_folder folder;
    char *home = NULL;
    zest_target_callbacks callbacks = {.rebuild = {progress, user}};
    if (!ctx || need_path(ctx, path) || zest_run_folder_of(path, &folder, &ctx->error)) return NULL;
    int is_run = !zest_target_is_model(path) && zest_run_folder_is_training(&folder);
    zest_run_folder_free(&folder);
    if (!is_run) {
        zest_error_set(&ctx->error, ZEST_ERROR_ARGUMENT, "%s is no run of zest train", path);
        return NULL;
    }
    zest_lm *lm = new_lm(ctx);
    if (!lm) return NULL;
    zest_status status = set_options(lm, options);
    if (!status) status = find_home(lm, &home);
    if (!status && home) status = zest_options_set_id(&lm->options, ZEST_OPTION_MODEL, home, &ctx->error);
    if (!status) status = open_run(lm, path, step, &callbacks);
    free(home);
    return done(lm, status);
}

/* That of a run is the tokenizer of its checkpoints. */
static zest_status open_tokenizer(zest_lm *lm, const char *path) {
    zest_run_folder folder;
    zest_error *error = zest_lm_sink(lm);
    zest_tokenizer **tokenizer = &lm->loaded.tokenizer;
    zest_status status = zest_run_folder_of(path, &folder, error);
    if (status) return status;
    if (zest_run_folder_is_training(&folder)) {
        *tokenizer = zest_tokenizer_open(folder.best, error);
        if (!*tokenizer) *tokenizer = zest_tokenizer_open(folder.last, error);
    } else {
        *tokenizer = zest_tokenizer_open(path, error);
    }
    zest_run_folder_free(&folder);
    return *tokenizer ? ZEST_OK : error->status;
}

zest_lm *zest_lm_load_tokenizer(zest_ctx *ctx, const char *model) {
    char *path = NULL;
    if (!ctx || need_path(ctx, model)) return NULL;
    zest_lm *lm = new_lm(ctx);
    if (!lm) return NULL;
    zest_status status = zest_hub_find(model, &path, &ctx->error);
    if (!status) status = open_tokenizer(lm, path);
    free(path);
    return done(lm, status);
}

void zest_lm_free(zest_lm *lm) {
    if (!lm) return;
    if (lm->loaded.runner) zest_generate_kept_free(&lm->kept, lm->loaded.runner);
    zest_load_free(&lm->loaded);
    zest_options_free(&lm->options);
    free(lm->lanes);
    free(lm);
}

/* ---- Saving, and what a model is ---- */

zest_status zest_lm_save(zest_lm *lm, const char *folder) {
    zest_status status = zest_lm_check(lm);
    if (status) return status;
    if (!folder || !*folder)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "no folder was named to save the model in");
    status = zest_model_download(lm->loaded.runner, zest_lm_sink(lm));
    return status ? status : zest_load_save(&lm->loaded, folder, zest_lm_sink(lm));
}

zest_status zest_lm_save_gguf(zest_lm *lm, const char *path, const char *type) {
    int found;
    zest_status status = zest_lm_check(lm);
    if (status) return status;
    if (!path || !*path)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "no file was named to write the model to");
    if (!zest_model_find_gguf_type(type ? type : "stored", &found))
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "'%.40s' is no type of GGUF files that zest writes", type);
    status = zest_model_download(lm->loaded.runner, zest_lm_sink(lm));
    return status ? status : zest_load_save_gguf(&lm->loaded, path, found, zest_lm_sink(lm));
}

int zest_lm_option(size_t i, zest_option *option) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!(row->users & ZEST_FOR_LM) || i--) continue;
        *option = (zest_option){row->name, zest_option_kind_name(row->kind), row->fallback, row->help, ""};
        zest_option_range(row, option->values, sizeof option->values);
        return 1;
    }
    return 0;
}

static uint64_t parameters(const zest_model *model) {
    uint64_t sum = 0;
    for (size_t i = 0; i < model->tensor_count; i++) sum += model->tensors[i].count;
    return sum;
}

zest_status zest_lm_get_info(const zest_lm *lm, zest_lm_info *info) {
    if (!lm || zest_lm_need(lm->ctx, info, "info")) return ZEST_ERROR_ARGUMENT;
    *info = (zest_lm_info){.family = "", .weights = "", .compute = "", .device = ""};
    info->tokens = (size_t)zest_tokenizer_size(lm->loaded.tokenizer);
    const zest_model *model = lm->loaded.model;
    if (!model) return ZEST_OK;
    const zest_model_config *config = &model->config;
    info->family = config->family;
    info->weights = zest_dtype_name(model->tensors[0].dtype);
    info->compute = zest_options_text(&lm->options, ZEST_OPTION_COMPUTE);
    info->device = zest_options_text(&lm->options, ZEST_OPTION_DEVICE);
    info->parameters = parameters(model);
    info->trained = model->params.dimension;
    info->step = lm->step;
    info->vocab_size = config->vocab_size;
    info->hidden_size = config->hidden_size;
    info->layers = config->layers;
    info->heads = config->heads;
    info->kv_heads = config->kv_heads;
    info->ffn_size = config->ffn_size;
    info->max_positions = config->max_positions;
    info->causal = config->causal;
    info->has_weights = 1;
    return ZEST_OK;
}
