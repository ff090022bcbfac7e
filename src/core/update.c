#include "core/update.h"

#include "core/direction.h"

/* The slice of x stays in cache while all k directions are added to it. */
enum { SLICE = 2048 };

static void update_slice(const zest_ops *ops, const zest_tensor *tensor, uint64_t first, size_t count,
                         const zest_direction *directions, const double *g, size_t k, double lr,
                         double decay) {
    float noise[SLICE];
    double keep = 1 - lr * decay;
    int wide = tensor->dtype == ZEST_DTYPE_F64;
    void *x = (char *)tensor->data + first * zest_dtype_size(tensor->dtype);
    if (keep != 1 && wide) ops->scale_f64(x, keep, count);
    if (keep != 1 && !wide) ops->scale_f32(x, (float)keep, count);
    for (size_t i = 0; i < k; i++) {
        if (g[i] == 0) continue;
        double c = -lr * g[i] * directions[i].gain;
        zest_direction_raw(ops, &directions[i], tensor->first + first, count, noise);
        if (wide)
            ops->fma_f64(x, x, c, noise, count);
        else
            ops->fma_f32(x, x, (float)c, noise, count);
    }
}

void zest_update_apply(const zest_ops *ops, int threads, const zest_params *params,
                       const zest_direction *directions, const double *g, size_t k, double lr, double decay) {
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *tensor = &params->tensors[i];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(zest_direction_threads(threads)) if (slices > 8)
        for (int64_t s = 0; s < slices; s++) {
            uint64_t first = (uint64_t)s * SLICE, left = tensor->count - first;
            update_slice(ops, tensor, first, left < SLICE ? (size_t)left : SLICE, directions, g, k, lr,
                         decay);
        }
    }
}
