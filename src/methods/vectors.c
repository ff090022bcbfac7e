/* Sweeps over all numbers: slices that stay in the first cache, shared out among threads; every element is
 * treated alike, and sums run over blocks of fixed size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/direction.h"
#include "methods/method_internal.h"
#include "rng/seed.h"
#include "zest.h"

enum { SLICE = 2048, BLOCK = 65536, ROUNDING_INDEX = (1 << ZEST_SEED_INDEX_BITS) - 1 };

/* ---- Asking ---- */

zest_status zest_vectors_evaluate(zest_method_pass *pass, const zest_place *at, float *gradient,
                                  zest_grad_weigh *weigh, void *weigher, double *loss) {
    return pass->oracle->evaluate(pass->oracle->user, at, pass->report->evaluations++, gradient, weigh,
                                  weigher, loss, pass->error);
}

/* v of a direction on the sphere has norm sqrt(d). */
zest_status zest_vectors_neighbour(zest_method_pass *pass, size_t i, zest_direction *direction,
                                   zest_place *place) {
    const zest_method *method = pass->method;
    uint64_t dimension = method->params.dimension;
    zest_status status =
        zest_direction_make(method->ops, method->threads, direction, ZEST_SPHERE,
                            zest_seed(method->is.seed, pass->step, i), dimension, pass->error);
    *place = (zest_place){.direction = direction, .scale = method->is.radius / sqrt((double)dimension)};
    return status;
}

/* ---- Arrays of d floats ---- */

static size_t slice_of(uint64_t count, uint64_t first) {
    return count - first < SLICE ? (size_t)(count - first) : SLICE;
}

void zest_vectors_clear(const zest_method *method, float *x) {
    int64_t count = (int64_t)method->params.dimension;
#pragma omp parallel for schedule(static) num_threads(method->threads)
    for (int64_t i = 0; i < count; i += SLICE)
        memset(x + i, 0, slice_of((uint64_t)count, (uint64_t)i) * sizeof *x);
}

void zest_vectors_scale(const zest_method *method, float *x, double c) {
    int64_t count = (int64_t)method->params.dimension;
#pragma omp parallel for schedule(static) num_threads(method->threads)
    for (int64_t i = 0; i < count; i += SLICE)
        method->ops->scale_f32(x + i, (float)c, slice_of((uint64_t)count, (uint64_t)i));
}

zest_status zest_vectors_norm(const zest_method *method, const float *x, double *norm, zest_error *error) {
    uint64_t count = method->params.dimension;
    int64_t blocks = (int64_t)((count + BLOCK - 1) / BLOCK);
    double *sums = malloc((size_t)blocks * sizeof *sums), sum = 0;
    if (!sums) return zest_error_memory(error, "the norm of a gradient", (size_t)blocks * sizeof *sums);
#pragma omp parallel for schedule(static) num_threads(method->threads)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t first = (uint64_t)b * BLOCK, left = count - first;
        sums[b] = method->ops->square_sum(x + first, left < BLOCK ? (size_t)left : BLOCK);
    }
    for (int64_t b = 0; b < blocks; b++) sum += sums[b];
    *norm = sqrt(sum);
    free(sums);
    return ZEST_OK;
}

/* ---- Points ---- */

static void uphill_slice(const zest_method *method, const zest_place *from, const zest_tensor *tensor,
                         uint64_t first, float c) {
    float values[SLICE], *point = method->point + tensor->first + first;
    size_t count = slice_of(tensor->count, first);
    zest_place_read(from, method->ops, tensor, first, count, values);
    method->ops->fma_f32(point, values, c, point, count);
}

zest_status zest_vectors_uphill(zest_method_pass *pass, const zest_place *from, double length, int *finite) {
    const zest_method *method = pass->method;
    double norm = 0;
    zest_status status = zest_vectors_norm(method, method->point, &norm, pass->error);
    *finite = isfinite(norm);
    if (status || !*finite) return status;
    float c = (float)(length / (norm + 1e-12));
    for (size_t t = 0; t < method->params.count; t++) {
        const zest_tensor *tensor = &method->params.tensors[t];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(method->threads)
        for (int64_t s = 0; s < slices; s++) uphill_slice(method, from, tensor, (uint64_t)s * SLICE, c);
    }
    return ZEST_OK;
}

/* ---- Moves ---- */

static void move_slice(zest_method_pass *pass, zest_vectors_each *each, const void *user,
                       const zest_tensor *tensor, uint64_t first) {
    const zest_ops *ops = pass->method->ops;
    uint64_t number = tensor->first + first,
             seed = zest_seed(pass->method->is.seed, pass->step, ROUNDING_INDEX);
    size_t count = slice_of(tensor->count, first);
    if (tensor->dtype == ZEST_DTYPE_F32) {
        each(pass, user, number, count, (float *)tensor->data + first);
        return;
    }
    float wide[SLICE];
    uint16_t random[SLICE], *x = (uint16_t *)tensor->data + first;
    int brain = tensor->dtype == ZEST_DTYPE_BF16;
    (brain ? ops->load_bf16 : ops->load_f16)(wide, x, count);
    each(pass, user, number, count, wide);
    if (pass->method->is.nearest)
        for (size_t i = 0; i < count; i++) random[i] = 0x8000; /* bits that stand for one half */
    else
        ops->noise->round(random, seed, number, count);
    (brain ? ops->store_bf16 : ops->store_f16)(x, wide, random, count);
}

void zest_vectors_move(zest_method_pass *pass, zest_vectors_each *each, const void *user) {
    const zest_params *params = &pass->method->params;
    for (size_t t = 0; t < params->count; t++) {
        const zest_tensor *tensor = &params->tensors[t];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(pass->method->threads)
        for (int64_t s = 0; s < slices; s++) move_slice(pass, each, user, tensor, (uint64_t)s * SLICE);
    }
}
