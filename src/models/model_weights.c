/* Every place of a model that reads a tensor. */
#include "models/model.h"

_Static_assert(sizeof(zest_model_layer) % sizeof(zest_model_affine) == 0, "a layer is a row of affines");

void zest_model_each_weight(zest_model *model, void (*visit)(zest_weight *weight, void *user), void *user) {
    zest_weight *tables[] = {&model->tokens, &model->positions, &model->types};
    zest_model_affine *others[] = {
        &model->embedding_norm, &model->project_in, &model->final_norm, &model->project_out,
        &model->head_dense,     &model->head_norm,  &model->head};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) visit(tables[i], user);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        visit(&others[i]->weight, user), visit(&others[i]->bias, user);
    for (size_t i = 0; i < model->is.layers; i++) {
        zest_model_affine *row = (zest_model_affine *)&model->layers[i];
        for (size_t j = 0; j < sizeof model->layers[i] / sizeof *row; j++)
            visit(&row[j].weight, user), visit(&row[j].bias, user);
    }
}
