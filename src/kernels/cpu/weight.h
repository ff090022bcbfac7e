/* Stored weights as floats, and the noise that goes with them. */
#ifndef ZEST_KERNELS_CPU_WEIGHT_H
#define ZEST_KERNELS_CPU_WEIGHT_H

#include "kernels/ops.h"

static inline const void *zest_weight_at(const zest_weight *weight, size_t element) {
    return (const char *)weight->data + element * zest_dtype_size(weight->dtype);
}

/* Whether lane l sees anything but the stored weights. */
static inline int zest_weight_moves(const zest_weight *weight, const zest_perturbation *p, int lane) {
    return !weight->frozen && p->scale[lane] != 0;
}

static inline int zest_weight_needs_noise(const zest_weight *weight, const zest_perturbation *p) {
    return zest_weight_moves(weight, p, 0) || (p->lanes > 1 && zest_weight_moves(weight, p, 1));
}

/* z of `count` elements from `element` on */
static inline void zest_weight_noise(const zest_weight *weight, const zest_perturbation *p,
                                     const zest_noise *noise, size_t element, size_t count, float *z) {
    (p->signs ? noise->sign : noise->normal)(z, p->seed, weight->first + element, count);
}

#endif
