/* The laws of the noise of a model's tensors: scales per tensor, and the rank of directions. */
#ifndef ZEST_MODEL_SCALES_H
#define ZEST_MODEL_SCALES_H

#include "model/model.h"

#define ZEST_MODEL_SCALE_LEAST 0.001
#define ZEST_MODEL_SCALE_MOST 1000.0

/* Scales out of "PATTERN=NUMBER,PATTERN=NUMBER" (or with semicolons, as in the lists of a sweep), one for each of model->tensors: 1 without a pattern that matches, else
 * that of the last one. */
zest_status zest_model_read_scales(const zest_model *model, const char *text, double *scales,
                                   zest_error *error);
/* Sets the laws of all tensors and of the weights that read them. rank 0: dense; scales NULL: 1. After
 * zest_model_select_trainable. A runner on a device takes changed laws over in its next pass or update. */
void zest_model_set_laws(zest_model *model, size_t rank, const double *scales);
/* Gives the weights, and the list of the trained tensors, the laws of model->tensors. */
void zest_model_spread_laws(zest_model *model);
/* Reads scales and sets laws. */
zest_status zest_model_shape_noise(zest_model *model, size_t rank, const char *scales, zest_error *error);
/* Whether any tensor's noise is other than dense of scale 1. */
int zest_model_has_laws(const zest_model *model);
/* The highest rank of any tensor's noise; 0: all of it is dense. */
size_t zest_model_most_rank(const zest_model *model);

#endif
