/* The model as it is at a place: the same description, weights that point elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "grad/grad_internal.h"

/* ---- Pointing ---- */

static void point_weight(zest_weight *weight, void *point) {
    if (!weight->data || weight->frozen) return;
    weight->data = (const float *)point + weight->first;
    weight->dtype = ZEST_DTYPE_F32;
}

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
    if (place->point) zest_model_each_weight(&grad->view, point_weight, (void *)(uintptr_t)place->point);
}

float *zest_grad_of(const zest_grad_pass *pass, const zest_weight *weight) {
    return weight->data && !weight->frozen ? pass->job->gradient + weight->first : NULL;
}
