/* The loops over all weights in host memory: slices that stay in the first cache, divided among threads. */
#include <stdlib.h>
#include <string.h>

#include "baselines/vector_ops.h"
#include "base/memory.h"
#include "optim/lanes.h"

zest_status zest_optim_vectors_open(zest_optim_vectors *s, const zest_params *params,
                                    const zest_vector_ops *ops, int threads, zest_device *device,
                                    zest_error *error) {
    *s = (zest_optim_vectors){.functions = &zest_optim_vector_ops_host,
                              .params = *params,
                              .ops = ops,
                              .threads = zest_direction_threads(threads),
                              .device = device};
    if (!device) return ZEST_OK;
#ifdef ZEST_CUDA
    s->functions = &zest_optim_vector_ops_cuda;
    return zest_optim_vectors_done(s, zest_optim_vectors_cuda_open(s), error);
#else
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "this zest was built without CUDA");
#endif
}

void zest_optim_vectors_close(zest_optim_vectors *s) {
    if (s->device) {
        s->device->operations->device->release(s->device, s->tensors);
        s->device->operations->device->release(s->device, s->sums);
    }
    s->tensors = s->sums = NULL;
}

float *zest_optim_vectors_new(const zest_optim_vectors *s, size_t count) {
    size_t bytes = count * sizeof(float);
    return s->device ? s->device->operations->device->allocate(s->device, bytes) : zest_memory_new(bytes);
}

void zest_optim_vectors_free(const zest_optim_vectors *s, float *x) {
    if (s->device)
        s->device->operations->device->release(s->device, x);
    else
        free(x);
}

zest_status zest_optim_vectors_done(const zest_optim_vectors *s, int failed, zest_error *error) {
    if (!failed) return ZEST_OK;
    if (!s->device) return zest_error_memory(error, "an optimizer's step", 0);
    return zest_device_take_error(s->device, error);
}

/* ---- Host memory ---- */

enum { SLICE = 2048 };

static size_t slice_of(uint64_t count, uint64_t first) {
    return count - first < SLICE ? (size_t)(count - first) : SLICE;
}

static int zero(const zest_optim_vectors *s, float *x) {
    int64_t count = (int64_t)s->params.dimension;
#pragma omp parallel for schedule(static) num_threads(s->threads)
    for (int64_t i = 0; i < count; i += SLICE)
        memset(x + i, 0, slice_of((uint64_t)count, (uint64_t)i) * sizeof *x);
    return 0;
}

static int scale(const zest_optim_vectors *s, float *x, float c) {
    int64_t count = (int64_t)s->params.dimension;
#pragma omp parallel for schedule(static) num_threads(s->threads)
    for (int64_t i = 0; i < count; i += SLICE)
        s->ops->scale_f32(x + i, c, slice_of((uint64_t)count, (uint64_t)i));
    return 0;
}

static int square_sums(const zest_optim_vectors *s, const float *x, double *sums) {
    uint64_t count = s->params.dimension;
    int64_t blocks = (int64_t)((count + ZEST_OPTIM_BLOCK - 1) / ZEST_OPTIM_BLOCK);
#pragma omp parallel for schedule(static) num_threads(s->threads)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t first = (uint64_t)b * ZEST_OPTIM_BLOCK, left = count - first;
        sums[b] = s->ops->square_sum(x + first, left < ZEST_OPTIM_BLOCK ? (size_t)left : ZEST_OPTIM_BLOCK);
    }
    return 0;
}

static int draw_sphere(const zest_optim_vectors *s, uint64_t seed, zest_direction *direction) {
    zest_error unseen = {0};
    return zest_direction_make(s->ops, s->threads, direction, ZEST_SPHERE, seed, s->params.dimension,
                               &unseen) != ZEST_OK;
}

static void ascend_slice(const zest_optim_vectors *s, const zest_eval_point *from, const zest_tensor *tensor,
                         uint64_t first, float c, float *point) {
    float values[SLICE];
    size_t count = slice_of(tensor->count, first);
    zest_eval_point_read(from, s->ops, tensor, first, count, values);
    s->ops->fma_f32(point, values, c, point, count);
}

static int ascend(const zest_optim_vectors *s, const zest_eval_point *from, float c, float *point) {
    for (size_t t = 0; t < s->params.count; t++) {
        const zest_tensor *tensor = &s->params.tensors[t];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(s->threads)
        for (int64_t i = 0; i < slices; i++) {
            uint64_t first = (uint64_t)i * SLICE;
            ascend_slice(s, from, tensor, first, c, point + tensor->first + first);
        }
    }
    return 0;
}

/* Updates a run of weights: x as floats, elements from `first` on. */
typedef void update_run(const zest_vector_ops *ops, const zest_optim_update *update, const void *coefficients,
                        uint64_t first, size_t count, float *x);

static void update_slice(const zest_optim_vectors *s, const zest_optim_update *update, update_run *run,
                         const void *coefficients, const zest_tensor *tensor, uint64_t first) {
    const zest_vector_ops *ops = s->ops;
    uint64_t number = tensor->first + first;
    size_t count = slice_of(tensor->count, first);
    if (tensor->dtype == ZEST_DTYPE_F32) {
        run(ops, update, coefficients, number, count, (float *)tensor->data + first);
        return;
    }
    float wide[SLICE];
    uint16_t random[SLICE], *x = (uint16_t *)tensor->data + first;
    int brain = tensor->dtype == ZEST_DTYPE_BF16;
    (brain ? ops->load_bf16 : ops->load_f16)(wide, x, count);
    run(ops, update, coefficients, number, count, wide);
    if (update->nearest)
        for (size_t i = 0; i < count; i++) random[i] = 0x8000; /* bits that stand for one half */
    else
        ops->noise->round(random, update->rounding, number, count);
    (brain ? ops->store_bf16 : ops->store_f16)(x, wide, random, count);
}

static int update_all(const zest_optim_vectors *s, const zest_optim_update *update, update_run *run,
                      const void *coefficients) {
    for (size_t t = 0; t < s->params.count; t++) {
        const zest_tensor *tensor = &s->params.tensors[t];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(s->threads)
        for (int64_t i = 0; i < slices; i++)
            update_slice(s, update, run, coefficients, tensor, (uint64_t)i * SLICE);
    }
    return 0;
}

static void sgd_run(const zest_vector_ops *ops, const zest_optim_update *update, const void *coefficients,
                    uint64_t first, size_t count, float *x) {
    const zest_sgd_coefficients *c = coefficients;
    const float *g = update->gradient + first;
    float *m = update->first ? update->first + first : NULL;
    if (!m) {
        if (c->decay != 0) ops->scale_f32(x, c->keep, count);
        ops->fma_f32(x, x, c->slope, g, count);
        return;
    }
    ops->scale_f32(m, c->momentum, count);
    ops->fma_f32(m, m, c->factor, g, count);
    if (c->decay != 0) ops->fma_f32(m, m, c->decay, x, count);
    ops->fma_f32(x, x, c->back, m, count);
}

static int sgd(const zest_optim_vectors *s, const zest_optim_update *update,
               const zest_sgd_coefficients *coefficients) {
    return update_all(s, update, sgd_run, coefficients);
}

static void adamw_run(const zest_vector_ops *ops, const zest_optim_update *update, const void *coefficients,
                      uint64_t first, size_t count, float *x) {
    const float *g = update->gradient + first;
    float *m = update->first + first, *v = update->second + first;
    (void)ops;
    for (size_t i = 0; i < count; i++) zest_adamw_element(coefficients, g[i], &m[i], &v[i], &x[i]);
}

static int adamw(const zest_optim_vectors *s, const zest_optim_update *update,
                 const zest_adamw_coefficients *coefficients) {
    return update_all(s, update, adamw_run, coefficients);
}

const zest_optim_vector_ops zest_optim_vector_ops_host = {zero,   scale, square_sums, draw_sphere,
                                                          ascend, sgd,   adamw};
