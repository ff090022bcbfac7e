/* Options of include/zest_lm.h's calls for a whole run. */
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"
#include "io/hub.h"
#include "optim/context.h"

static const struct {
    const char *name;
    unsigned users;
    const char *defaults;
} commands[] = {{"train", ZEST_FOR_TRAIN, ZEST_TRAIN_DEFAULTS},
                {"pretrain", ZEST_FOR_PRETRAIN, ZEST_PRETRAIN_DEFAULTS},
                {"eval", ZEST_FOR_EVAL, ZEST_EVAL_DEFAULTS},
                {"predict", ZEST_FOR_PREDICT, ZEST_EVAL_DEFAULTS}};

zest_lm_options *zest_lm_options_new(zest_ctx *ctx, const char *command) {
    size_t i = 0, count = sizeof commands / sizeof *commands;
    if (!ctx) return NULL;
    while (i < count && (!command || strcmp(command, commands[i].name))) i++;
    if (i == count) {
        zest_error_set(&ctx->error, ZEST_ERROR_ARGUMENT,
                       "'%.40s' is no command with options for a run; there are train, pretrain, eval and "
                       "predict",
                       command ? command : "");
        return NULL;
    }
    zest_lm_options *options = calloc(1, sizeof *options);
    if (!options) {
        zest_error_memory(&ctx->error, "options", sizeof *options);
        return NULL;
    }
    options->ctx = ctx;
    options->users = commands[i].users;
    zest_options_init(&options->values);
    zest_options_init(&options->defaults);
    if (!zest_options_set_default(&options->values, commands[i].defaults, &ctx->error) &&
        !zest_options_set_default(&options->defaults, commands[i].defaults, &ctx->error))
        return options;
    zest_lm_options_free(options);
    return NULL;
}

void zest_lm_options_free(zest_lm_options *options) {
    if (!options) return;
    zest_options_free(&options->values);
    zest_options_free(&options->defaults);
    free(options);
}

zest_status zest_lm_options_set(zest_lm_options *options, const char *name, const char *value) {
    if (!options) return ZEST_ERROR_ARGUMENT;
    if (!name || !value)
        return zest_error_set(&options->ctx->error, ZEST_ERROR_ARGUMENT,
                              "an option needs a name and a value");
    return zest_options_set(&options->values, options->users, name, value, &options->ctx->error);
}

zest_status zest_lm_options_set_all(zest_lm_options *options, const char *text) {
    if (!options || zest_lm_need(options->ctx, text, "text")) return ZEST_ERROR_ARGUMENT;
    return zest_options_set_all(&options->values, options->users, text, "options", &options->ctx->error);
}

const char *zest_lm_options_get(const zest_lm_options *options, const char *name) {
    if (!options || !name) return NULL;
    zest_option_id id = zest_option_find(name, options->users);
    return id == ZEST_OPTION_COUNT ? NULL : zest_options_text(&options->values, id);
}

int zest_lm_options_list(const zest_lm_options *options, size_t i, zest_option *option) {
    for (int id = 0; options && id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!(row->users & options->users) || i--) continue;
        *option = (zest_option){row->name, zest_option_kind_name(row->kind),
                                zest_options_text(&options->defaults, (zest_option_id)id), row->help, ""};
        zest_option_range(row, option->values, sizeof option->values);
        return 1;
    }
    return 0;
}

zest_status zest_lm_options_copy(const zest_lm_options *from, zest_options *to, zest_error *error) {
    char *path = NULL;
    if (!from) {
        zest_options_init(to);
        return ZEST_OK;
    }
    zest_status status = zest_options_copy(to, &from->values, error);
    const char *model = status ? "" : zest_options_text(to, ZEST_OPTION_MODEL);
    int sent = from->ctx->comm->rank && zest_options_whole(&from->values, ZEST_OPTION_BROADCAST);
    if (*model && !sent) /* else rank 0 finds it */
        status = zest_hub_find(model, &path, error);
    if (path && strcmp(path, model)) status = zest_options_set_id(to, ZEST_OPTION_MODEL, path, error);
    free(path);
    return status;
}
