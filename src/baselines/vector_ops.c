#include <stdlib.h>
#include <string.h>

#include "baselines/vector_ops.h"
#include "base/memory.h"
#include "optim/lanes.h"

zest_status zest_optim_vectors_open(zest_optim_vectors *s, const zest_params *params,
                                    const zest_vector_ops *ops, int threads, zest_device *device,
                                    zest_error *error) {
    *s = (zest_optim_vectors){.table = &zest_sweeps_host,
                              .params = *params,
                              .ops = ops,
                              .threads = zest_direction_threads(threads),
                              .device = device};
    if (!device) return ZEST_OK;
#ifdef ZEST_CUDA
    s->table = &zest_sweeps_cuda;
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
    if (!s->device) return zest_error_memory(error, "a method's step", 0);
    return zest_device_take_error(s->device, error);
}

/* The sweeps in the host's memory: slices that stay in the first cache, shared out among threads. */

enum { SLICE = 2048 };

static size_t slice_of(uint64_t count, uint64_t first) {
    return count - first < SLICE ? (size_t)(count - first) : SLICE;
}

/* ---- Arrays ---- */

static int clear(const zest_optim_vectors *s, float *x) {
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

static int squares(const zest_optim_vectors *s, const float *x, double *sums) {
    uint64_t count = s->params.dimension;
    int64_t blocks = (int64_t)((count + ZEST_SWEEPS_BLOCK - 1) / ZEST_SWEEPS_BLOCK);
#pragma omp parallel for schedule(static) num_threads(s->threads)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t first = (uint64_t)b * ZEST_SWEEPS_BLOCK, left = count - first;
        sums[b] = s->ops->square_sum(x + first, left < ZEST_SWEEPS_BLOCK ? (size_t)left : ZEST_SWEEPS_BLOCK);
    }
    return 0;
}

static int sphere(const zest_optim_vectors *s, uint64_t seed, zest_direction *direction) {
    zest_error unseen = {0};
    return zest_direction_make(s->ops, s->threads, direction, ZEST_SPHERE, seed, s->params.dimension,
                               &unseen) != ZEST_OK;
}

/* ---- Weights ---- */

static void uphill_slice(const zest_optim_vectors *s, const zest_eval_point *from, const zest_tensor *tensor,
                         uint64_t first, float c, float *point) {
    float values[SLICE];
    size_t count = slice_of(tensor->count, first);
    zest_eval_point_read(from, s->ops, tensor, first, count, values);
    s->ops->fma_f32(point, values, c, point, count);
}

static int uphill(const zest_optim_vectors *s, const zest_eval_point *from, float c, float *point) {
    for (size_t t = 0; t < s->params.count; t++) {
        const zest_tensor *tensor = &s->params.tensors[t];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(s->threads)
        for (int64_t i = 0; i < slices; i++) {
            uint64_t first = (uint64_t)i * SLICE;
            uphill_slice(s, from, tensor, first, c, point + tensor->first + first);
        }
    }
    return 0;
}

/* What a move does to a run of weights: x as floats, numbers from `first` on. */
typedef void each_run(const zest_vector_ops *ops, const zest_sweeps_move *move, const void *numbers,
                      uint64_t first, size_t count, float *x);

static void move_slice(const zest_optim_vectors *s, const zest_sweeps_move *move, each_run *each,
                       const void *numbers, const zest_tensor *tensor, uint64_t first) {
    const zest_vector_ops *ops = s->ops;
    uint64_t number = tensor->first + first;
    size_t count = slice_of(tensor->count, first);
    if (tensor->dtype == ZEST_DTYPE_F32) {
        each(ops, move, numbers, number, count, (float *)tensor->data + first);
        return;
    }
    float wide[SLICE];
    uint16_t random[SLICE], *x = (uint16_t *)tensor->data + first;
    int brain = tensor->dtype == ZEST_DTYPE_BF16;
    (brain ? ops->load_bf16 : ops->load_f16)(wide, x, count);
    each(ops, move, numbers, number, count, wide);
    if (move->nearest)
        for (size_t i = 0; i < count; i++) random[i] = 0x8000; /* bits that stand for one half */
    else
        ops->noise->round(random, move->rounding, number, count);
    (brain ? ops->store_bf16 : ops->store_f16)(x, wide, random, count);
}

static int move_all(const zest_optim_vectors *s, const zest_sweeps_move *move, each_run *each,
                    const void *numbers) {
    for (size_t t = 0; t < s->params.count; t++) {
        const zest_tensor *tensor = &s->params.tensors[t];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(s->threads)
        for (int64_t i = 0; i < slices; i++) move_slice(s, move, each, numbers, tensor, (uint64_t)i * SLICE);
    }
    return 0;
}

static void each_sgd(const zest_vector_ops *ops, const zest_sweeps_move *move, const void *numbers,
                     uint64_t first, size_t count, float *x) {
    const zest_sgd_numbers *c = numbers;
    const float *g = move->gradient + first;
    float *m = move->first ? move->first + first : NULL;
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

static int sgd(const zest_optim_vectors *s, const zest_sweeps_move *move, const zest_sgd_numbers *numbers) {
    return move_all(s, move, each_sgd, numbers);
}

static void each_adamw(const zest_vector_ops *ops, const zest_sweeps_move *move, const void *numbers,
                       uint64_t first, size_t count, float *x) {
    const float *g = move->gradient + first;
    float *m = move->first + first, *v = move->second + first;
    (void)ops;
    for (size_t i = 0; i < count; i++) zest_adamw_one(numbers, g[i], &m[i], &v[i], &x[i]);
}

static int adamw(const zest_optim_vectors *s, const zest_sweeps_move *move,
                 const zest_adamw_numbers *numbers) {
    return move_all(s, move, each_adamw, numbers);
}

const zest_sweeps_table zest_sweeps_host = {clear, scale, squares, sphere, uphill, sgd, adamw};
