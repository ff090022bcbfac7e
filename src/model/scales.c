/* Scales per tensor, option scales, and the rank of directions: the laws of the tensors' noise.
 *
 *     v = S z,   S = diag(s_T) over the elements of each tensor T          lane   x + rho S z
 *                                                                          update x -= lr sum_i g_i S z_i
 *
 * z has the distribution of the run. The estimate of a slope does not change: (f+ - f-) / (2 rho) is the derivative
 * along v. So E[update] = -lr S^2 grad F, where F averages f over N(0, rho^2 S^2) in place of N(0, rho^2 I): a scale
 * multiplies a tensor's perturbation by s_T, and its learning rate by s_T^2. With s_T = 1 for all this is the run
 * without scales, to the bit. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/scales.h"

/* ---- Laws ---- */

typedef struct {
    const zest_tensor *tensor;
} law_args;

/* A tied head reads the tensor of the embeddings, and a stacked matrix is read in parts. */
static void set_law(zest_weight *weight, void *user) {
    const zest_tensor *tensor = ((const law_args *)user)->tensor;
    const char *begin = tensor->data, *data = weight->data;
    if (!data || data < begin || data >= begin + tensor->count * zest_dtype_size(tensor->dtype)) return;
    weight->law = tensor->law;
}

void zest_model_spread_laws(zest_model *model) {
    model->law_changes++;
    for (size_t i = 0; i < model->tensor_count; i++)
        zest_model_each_weight(model, set_law, &(law_args){&model->tensors[i]});
    for (size_t i = 0, j = 0; model->trained && i < model->tensor_count && j < model->params.count; i++)
        if (model->trained[j].name == model->tensors[i].name) model->trained[j++].law = model->tensors[i].law;
}

/* A low rank pays where its factors have fewer numbers than the matrix. */
static int is_low_rank(const zest_model_tensor_shape *shape, size_t rank) {
    if (!rank || shape->rank != 2) return 0;
    double factors = (double)rank * ((double)shape->shape[0] + (double)shape->shape[1]);
    return factors < (double)shape->shape[0] * (double)shape->shape[1];
}

void zest_model_set_laws(zest_model *model, size_t rank, const double *scales) {
    for (size_t i = 0; i < model->tensor_count; i++) {
        zest_tensor *tensor = &model->tensors[i];
        double scale = scales ? scales[i] : 1;
        tensor->law = (zest_noise_law){.first = tensor->first};
        if (is_low_rank(&model->shapes[i], rank)) {
            tensor->law.rows = model->shapes[i].shape[0];
            tensor->law.columns = model->shapes[i].shape[1];
            tensor->law.rank = (uint32_t)rank;
            scale /= sqrt((double)rank);
        }
        if (scale != 1) tensor->law.factor = (float)scale;
    }
    zest_model_spread_laws(model);
}

int zest_model_has_laws(const zest_model *model) {
    for (size_t i = 0; i < model->tensor_count; i++)
        if (model->tensors[i].law.rank || model->tensors[i].law.factor != 0) return 1;
    return 0;
}

size_t zest_model_most_rank(const zest_model *model) {
    size_t rank = 0;
    for (size_t i = 0; i < model->tensor_count; i++)
        if (model->tensors[i].law.rank > rank) rank = model->tensors[i].law.rank;
    return rank;
}

/* ---- The text of the option ---- */

static zest_status refuse(const char *piece, size_t length, const char *why, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--scales: '%.*s' %s",
                          (int)(length < 200 ? length : 200), piece, why);
}

/* One "PATTERN=NUMBER". */
static zest_status read_one(const zest_model *model, const char *piece, size_t length, double *scales,
                            zest_error *error) {
    char pattern[256], *end;
    const char *equals = memchr(piece, '=', length);
    size_t name = equals ? (size_t)(equals - piece) : 0, found = 0;
    if (!name || name >= sizeof pattern) return refuse(piece, length, "should read PATTERN=NUMBER", error);
    memcpy(pattern, piece, name);
    pattern[name] = '\0';
    double scale = zest_number_parse(equals + 1, &end);
    if (end != piece + length || !(scale >= ZEST_MODEL_SCALE_LEAST && scale <= ZEST_MODEL_SCALE_MOST))
        return refuse(piece, length, "needs a number from 0.001 to 1000; --freeze leaves tensors as they are",
                      error);
    for (size_t i = 0; i < model->tensor_count; i++)
        if (!fnmatch(pattern, model->tensors[i].name, 0)) scales[i] = scale, found++;
    if (found) return ZEST_OK;
    char why[400];
    snprintf(why, sizeof why, "matches no tensor; names are like '%.150s' and '%.150s'",
             model->tensors[0].name, model->tensors[model->tensor_count - 1].name);
    return refuse(piece, length, why, error);
}

zest_status zest_model_read_scales(const zest_model *model, const char *text, double *scales,
                                   zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < model->tensor_count; i++) scales[i] = 1;
    for (const char *at = text; *at && !status;) {
        size_t length = strcspn(at, ",;");
        if (length) status = read_one(model, at, length, scales, error);
        at += length + (at[length] != '\0');
    }
    return status;
}

zest_status zest_model_shape_noise(zest_model *model, size_t rank, const char *text, zest_error *error) {
    if (!rank && !*text) return ZEST_OK;
    double *scales = malloc(model->tensor_count * sizeof *scales);
    if (!scales) return zest_error_memory(error, "scales", model->tensor_count * sizeof *scales);
    zest_status status = zest_model_read_scales(model, text, scales, error);
    if (!status) zest_model_set_laws(model, rank, scales);
    free(scales);
    return status;
}
