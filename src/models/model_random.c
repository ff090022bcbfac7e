/* Shapes without files: random weights, and descriptions alone. */
#include <string.h>

#include "base/json.h"
#include "models/family.h"
#include "models/model_source.h"
#include "rng/noise.h"

enum { SLICE = 4096 };

static int is_gain(const zest_tensor *tensor, const zest_model_tensor_shape *shape) {
    size_t length = strlen(tensor->name);
    return shape->rank == 1 && length > 7 && !strcmp(tensor->name + length - 7, ".weight");
}

static void invent_slice(const zest_noise *noise, const zest_model_source *source, const zest_tensor *tensor,
                         int gain, int64_t slice) {
    float values[SLICE];
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    size_t count = left < SLICE ? (size_t)left : SLICE;
    noise->normal(values, source->seed, tensor->first + first, count);
    for (size_t i = 0; i < count; i++) values[i] = gain ? 1.0f : 0.02f * values[i];
    zest_dtype_from_float(tensor->dtype, values, count,
                          (char *)tensor->data + first * zest_dtype_size(tensor->dtype));
}

zest_status zest_model_source_invent(const zest_model_source *source, const zest_tensor *tensor,
                                     const zest_model_tensor_shape *shape, int threads) {
    zest_cpu cpu = ZEST_CPU_PLAIN;
    (void)zest_cpu_detect(&cpu, NULL); /* an unknown ZEST_CPU is reported by what runs the model */
    const zest_noise *noise = zest_noise_for(cpu);
    int gain = is_gain(tensor, shape);
    int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t s = 0; s < slices; s++) invent_slice(noise, source, tensor, gain, s);
    return ZEST_OK;
}

zest_status zest_model_describe(const char *config, zest_model_description *is, zest_error *error) {
    const zest_family_names *names;
    json_t *root;
    zest_status status = zest_json_parse(config, strlen(config), "the configuration", &root, error);
    if (!status) status = zest_family_describe(root, "the configuration", is, &names, error);
    json_decref(root);
    return status;
}
