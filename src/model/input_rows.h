/* Rows of the inputs of a model's matrices, of which directions are made with --covariance inputs.
 *
 * Of a matrix of low-rank noise, W of m outputs x n inputs, up to S rows x_i of its inputs are kept. The directions are
 * v = (1/sqrt(r)) sum over j of u_j a_j' with
 *
 *     a = sum over i of z_i y_i,   y_i = x_i sqrt(n / sum_l |x_l|^2),   z_i independent normals or signs
 *
 * So E a a' = n C / tr C with C = (1/S) sum x_i x_i', the inputs' second moment, and E|a|^2 = n as that of independent
 * numbers. The matrices are those of the layers, projections, and the dense layer before the head; embeddings and head
 * keep independent numbers. */
#ifndef ZEST_MODEL_INPUT_ROWS_H
#define ZEST_MODEL_INPUT_ROWS_H

#include "model/forward_pass.h"

/* Takes the rows over (frees them if it fails), in the order of the tensors, at most `most` (S) of each: a matrix of
 * fewer inputs has as many rows as inputs. Sets the laws. Rows that are all 0 leave their matrix as it is. After
 * zest_model_set_laws, which undoes it. */
zest_status zest_model_set_inputs(zest_model *model, float *rows, size_t most, zest_error *error);
/* Gives them back, for another model of the same shape; NULL: there are none. The laws of this one are then stale. */
float *zest_model_take_inputs(zest_model *model, size_t *most);
/* Floats of all matrices. After zest_model_set_laws. */
zest_status zest_model_count_inputs(const zest_model *model, size_t most, size_t *count, zest_error *error);
/* A fingerprint of those that are set. */
uint64_t zest_model_print_inputs(const zest_model *model);

/* A safetensors file with the rows y of every matrix, (rows, inputs), under its name. */
zest_status zest_model_save_inputs(const zest_model *model, const char *path, zest_error *error);
/* Reads and sets them. print: of the rows, which must be these. */
zest_status zest_model_load_inputs(zest_model *model, size_t most, uint64_t print, const char *path,
                                   zest_error *error);

/* ---- Keeping the rows of forward passes ---- */

/* What a runner keeps, while its capture points here: one row of the inputs of every matrix from each example. */
struct zest_input_capture {
    zest_model *model;
    size_t most, example;
    uint64_t seed; /* which row is a function of seed and example */
    float *rows;
    unsigned char *seen;             /* (tensors): in this example */
    struct zest_input_place *places; /* (tensors) */
};

zest_status zest_input_capture_begin(zest_input_capture *capture, zest_model *model, size_t most,
                                     uint64_t seed, zest_error *error);
/* Before the pass of example 0, 1, ... most-1, on which the model is evaluated as it is, alone. */
void zest_input_capture_next(zest_input_capture *capture, size_t example);
/* By the runner, whose capture this is, before a linear map. */
zest_status zest_input_capture_take(zest_model_runner *runner, const zest_linear *job, zest_error *error);
/* Scales the rows and gives them to the model. */
zest_status zest_input_capture_end(zest_input_capture *capture, zest_error *error);
void zest_input_capture_free(zest_input_capture *capture);

#endif
