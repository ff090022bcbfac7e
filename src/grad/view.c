/* The model as it is at a place: the same description, weights that point elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "grad/grad_internal.h"

/* ---- Pointing ---- */

static void point_weight(zest_weight *weight, const float *point) {
    if (!weight->data || weight->frozen) return;
    weight->data = point + weight->first;
    weight->dtype = ZEST_DTYPE_F32;
}

static void point_affines(zest_model_affine *affines, size_t count, const float *point) {
    for (size_t i = 0; i < count; i++) {
        point_weight(&affines[i].weight, point);
        point_weight(&affines[i].bias, point);
    }
}

static void point_model(zest_model *view, const float *point) {
    zest_weight *tables[] = {&view->tokens, &view->positions, &view->types};
    zest_model_affine *others[] = {
        &view->embedding_norm, &view->project_in, &view->final_norm, &view->project_out,
        &view->head_dense,     &view->head_norm,  &view->head};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) point_weight(tables[i], point);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) point_affines(others[i], 1, point);
    for (size_t i = 0; i < view->is.layers; i++)
        point_affines((zest_model_affine *)&view->layers[i],
                      sizeof view->layers[i] / sizeof(zest_model_affine), point);
}

_Static_assert(sizeof(zest_model_layer) % sizeof(zest_model_affine) == 0, "a layer is a row of affines");

/* ---- For the rest ---- */

zest_status zest_grad_view_new(zest_grad *grad, zest_error *error) {
    size_t bytes = (grad->model->is.layers + 1) * sizeof(zest_model_layer);
    grad->view = *grad->model;
    grad->view.layers = malloc(bytes);
    return grad->view.layers ? ZEST_OK : zest_error_memory(error, "a view of the model", bytes);
}

void zest_grad_view_place(zest_grad *grad, const zest_place *place) {
    zest_model_layer *layers = grad->view.layers;
    grad->view = *grad->model;
    grad->view.layers = layers;
    memcpy(layers, grad->model->layers, grad->model->is.layers * sizeof *layers);
    if (place->point) point_model(&grad->view, place->point);
}

float *zest_grad_of(const zest_grad_pass *pass, const zest_weight *weight) {
    return weight->data && !weight->frozen ? pass->job->gradient + weight->first : NULL;
}
