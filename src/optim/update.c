#include "optim/step.h"

#include "optim/lanes.h"

/* The slice of x stays in cache while all k directions are added to it. */
enum { SLICE = 2048, FEW = 8 };

static void update_f64(const zest_vector_ops *ops, double *x, uint64_t number, size_t count,
                       const zest_update *u) {
    float noise[SLICE];
    double keep = 1 - u->lr * u->decay;
    if (keep != 1) ops->scale_f64(x, keep, count);
    for (size_t i = 0; i < u->k; i++) {
        if (u->g[i] == 0) continue;
        zest_direction_raw(ops, &u->directions[i], number, count, noise);
        ops->fma_f64(x, x, -u->lr * u->g[i] * u->directions[i].gain, noise, count);
    }
}

static void update_f32(const zest_vector_ops *ops, float *x, uint64_t number, size_t count,
                       const zest_update *u) {
    float noise[SLICE];
    double keep = 1 - u->lr * u->decay;
    if (keep != 1) ops->scale_f32(x, (float)keep, count);
    for (size_t i = 0; i < u->k; i++) {
        if (u->g[i] == 0) continue;
        zest_direction_raw(ops, &u->directions[i], number, count, noise);
        ops->fma_f32(x, x, (float)(-u->lr * u->g[i] * u->directions[i].gain), noise, count);
    }
}

static void update_16(const zest_vector_ops *ops, zest_dtype dtype, uint16_t *x, uint64_t number,
                      size_t count, const zest_update *u) {
    float wide[SLICE];
    uint16_t random[SLICE];
    int brain = dtype == ZEST_DTYPE_BF16;
    (brain ? ops->load_bf16 : ops->load_f16)(wide, x, count);
    update_f32(ops, wide, number, count, u);
    if (u->nearest) /* bits that stand for one half */
        for (size_t i = 0; i < count; i++) random[i] = 0x8000;
    else
        ops->noise->round(random, u->rounding, number, count);
    (brain ? ops->store_bf16 : ops->store_f16)(x, wide, random, count);
}

static void update_slice(const zest_vector_ops *ops, const zest_tensor *tensor, int64_t slice,
                         const zest_update *u) {
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    size_t count = left < SLICE ? (size_t)left : SLICE;
    void *x = (char *)tensor->data + first * zest_dtype_size(tensor->dtype);
    if (tensor->dtype == ZEST_DTYPE_F64)
        update_f64(ops, x, tensor->first + first, count, u);
    else if (tensor->dtype == ZEST_DTYPE_F32)
        update_f32(ops, x, tensor->first + first, count, u);
    else
        update_16(ops, tensor->dtype, x, tensor->first + first, count, u);
}

void zest_update_apply(const zest_vector_ops *ops, int threads, const zest_params *params,
                       const zest_update *update) {
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *tensor = &params->tensors[i];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
        if (slices <= FEW) { /* a parallel region costs more than so little work */
            for (int64_t s = 0; s < slices; s++) update_slice(ops, tensor, s, update);
            continue;
        }
#pragma omp parallel for schedule(static) num_threads(zest_direction_threads(threads))
        for (int64_t s = 0; s < slices; s++) update_slice(ops, tensor, s, update);
    }
}
