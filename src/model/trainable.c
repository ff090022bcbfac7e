#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

/* ---- Patterns ---- */

/* Does one of the patterns match? */
static int matches(const char *patterns, const char *name) {
    char one[256];
    for (const char *at = patterns; *at;) {
        size_t length = strcspn(at, ",");
        if (length && length < sizeof one) {
            memcpy(one, at, length);
            one[length] = '\0';
            if (!fnmatch(one, name, 0)) return 1;
        }
        at += length + (at[length] == ',');
    }
    return 0;
}

static zest_status check_patterns(const zest_model *model, const char *patterns, zest_error *error) {
    char one[256];
    for (const char *at = patterns; *at;) {
        size_t length = strcspn(at, ","), found = 0;
        if (length >= sizeof one)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "a pattern of tensor names is too long: %.40s...", at);
        memcpy(one, at, length);
        one[length] = '\0';
        for (size_t i = 0; i < model->tensor_count; i++) found += !fnmatch(one, model->tensors[i].name, 0);
        if (!found)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "no tensor is called '%s'; names are like '%s' and '%s', and * stands for "
                                  "any characters",
                                  one, model->tensors[0].name, model->tensors[model->tensor_count - 1].name);
        at += length + (at[length] == ',');
    }
    return ZEST_OK;
}

/* ---- Weights ---- */

/* Tells the weights that read this tensor (a tied head is a second one) their number or that it is frozen. */
typedef struct {
    const void *data;
    uint64_t first;
    int frozen;
} telling;

static void tell(zest_weight *weight, void *user) {
    const telling *t = user;
    if (!weight->data || weight->data != t->data) return;
    weight->first = t->first;
    weight->frozen = t->frozen;
}

zest_status zest_trainable_select(zest_model *model, const char *only, const char *not_these,
                                  zest_error *error) {
    if (!*only && !*not_these) return ZEST_OK;
    zest_status status = check_patterns(model, only, error);
    if (!status) status = check_patterns(model, not_these, error);
    if (status) return status;
    zest_tensor *trained = calloc(model->tensor_count, sizeof *trained);
    if (!trained) return zest_error_memory(error, "names of tensors", model->tensor_count * sizeof *trained);
    zest_params params = {.tensors = trained};
    for (size_t i = 0; i < model->tensor_count; i++) {
        zest_tensor *tensor = &model->tensors[i];
        int frozen = (*only && !matches(only, tensor->name)) || matches(not_these, tensor->name);
        zest_model_each_weight(model, tell, &(telling){tensor->data, params.dimension, frozen});
        if (frozen) continue;
        tensor->first = params.dimension;
        trained[params.count++] = *tensor;
        params.dimension += tensor->count;
    }
    free(model->trained);
    model->trained = trained;
    model->params = params;
    if (params.count) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "every tensor is frozen: --train-only '%s' and --freeze '%s' leave nothing to train", only,
        not_these);
}

/* Every place of a model that reads a tensor. */

_Static_assert(sizeof(zest_model_layer) % sizeof(zest_model_affine) == 0, "a layer is a row of affines");

void zest_model_each_weight(zest_model *model, void (*visit)(zest_weight *weight, void *user), void *user) {
    zest_weight *tables[] = {&model->tokens, &model->positions, &model->types};
    zest_model_affine *others[] = {
        &model->embedding_norm, &model->project_in, &model->final_norm, &model->project_out,
        &model->head_dense,     &model->head_norm,  &model->head};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) visit(tables[i], user);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        visit(&others[i]->weight, user), visit(&others[i]->bias, user);
    for (size_t i = 0; i < model->config.layers; i++) {
        zest_model_affine *row = (zest_model_affine *)&model->layers[i];
        for (size_t j = 0; j < sizeof model->layers[i] / sizeof *row; j++)
            visit(&row[j].weight, user), visit(&row[j].bias, user);
    }
}
