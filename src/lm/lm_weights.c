/* Weights of include/zest_lm.h: a tuner over them, replay of its journal, and the tensors themselves. */
#include "lm/lm.h"
#include "optim/journal.h"
#include "optim/tuner.h"

/* On a device the weights that the host sees are those of the last download. */
static zest_status refresh(zest_lm *lm) {
    zest_status status = zest_lm_check(lm);
    if (!status) lm->kept.count = 0; /* keys and values: the caller may be about to write */
    if (!status) status = zest_model_refuse_quantized(lm->loaded.model, "tensors are read", zest_lm_sink(lm));
    return status ? status : zest_model_download(lm->loaded.runner, zest_lm_sink(lm));
}

zest_tuner *zest_lm_tuner(zest_lm *lm) {
    if (refresh(lm)) return NULL; /* a journal begins with the fingerprint of what the host sees */
    zest_step_storage storage = zest_load_storage(&lm->loaded);
    zest_tuner *tuner = zest_tuner_new_storage(
        lm->ctx, &storage, "the weights are where they were before them; try a smaller lr or rho",
        zest_lm_sink(lm));
    if (!tuner) return NULL;
    if (!zest_options_set_default(&tuner->options, "rho=0.002 lr=1e-5", zest_lm_sink(lm))) return tuner;
    zest_tuner_free(tuner);
    return NULL;
}

zest_status zest_lm_replay(zest_lm *lm, zest_journal *journal, uint64_t step) {
    zest_status status = refresh(lm);
    if (!status) status = zest_lm_need(lm->ctx, journal, "journal");
    if (status) return status;
    zest_step_storage storage = zest_load_storage(&lm->loaded);
    return zest_journal_replay(journal, step, &storage);
}

zest_status zest_lm_fingerprint(zest_lm *lm, uint64_t *fingerprint) {
    zest_status status = refresh(lm);
    if (!status) status = zest_lm_need(lm->ctx, fingerprint, "fingerprint");
    if (!status) *fingerprint = zest_params_fingerprint(&lm->loaded.model->params);
    return status;
}

/* ---- Tensors ---- */

static int is_trained(const zest_model *model, const zest_tensor *tensor) {
    for (size_t i = 0; i < model->params.count; i++)
        if (model->params.tensors[i].data == tensor->data) return 1;
    return 0;
}

int zest_lm_get_tensor(const zest_lm *lm, size_t i, zest_lm_tensor *out) {
    if (!lm || !out || !lm->loaded.model || i >= lm->loaded.model->tensor_count) return 0;
    const zest_model *model = lm->loaded.model;
    const zest_model_tensor_shape *shape = &model->shapes[i];
    *out = (zest_lm_tensor){.name = model->tensors[i].name,
                            .dtype = zest_dtype_name(model->tensors[i].dtype),
                            .rank = shape->rank,
                            .shape = {shape->shape[0], shape->rank > 1 ? shape->shape[1] : 1},
                            .count = (size_t)model->tensors[i].count,
                            .trained = is_trained(model, &model->tensors[i])};
    return 1;
}

/* Where a slice of a tensor is on the host. */
static zest_status find(zest_lm *lm, size_t i, size_t first, size_t count, const float *values, char **data,
                        zest_dtype *dtype) {
    zest_status status = refresh(lm);
    if (!status) status = zest_lm_need(lm->ctx, values, "values");
    if (status) return status;
    const zest_model *model = lm->loaded.model;
    if (i >= model->tensor_count)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "the model has %zu tensors, and no number %zu", model->tensor_count, i);
    const zest_tensor *tensor = &model->tensors[i];
    if (first > tensor->count || count > tensor->count - first)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "elements %zu and %zu further ones do not lie within the %llu of %s", first,
                              count, (unsigned long long)tensor->count, tensor->name);
    *dtype = tensor->dtype;
    *data = (char *)tensor->data + first * zest_dtype_size(tensor->dtype);
    return ZEST_OK;
}

zest_status zest_lm_read_tensor(zest_lm *lm, size_t i, size_t first, size_t count, float *values) {
    char *data;
    zest_dtype dtype;
    zest_status status = find(lm, i, first, count, values, &data, &dtype);
    return status ? status : zest_dtype_to_float(dtype, data, count, values);
}

zest_status zest_lm_write_tensor(zest_lm *lm, size_t i, size_t first, size_t count, const float *values) {
    char *data;
    zest_dtype dtype;
    zest_status status = find(lm, i, first, count, values, &data, &dtype);
    if (!status) status = zest_dtype_from_float(dtype, values, count, data);
    return status ? status : zest_model_upload(lm->loaded.runner, zest_lm_sink(lm));
}
