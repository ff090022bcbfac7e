/* The operations on rows and single elements with vectors: the sums of backward_plain.c in its order. Include
 * a vector_*.h first, and define v_step. */
#ifndef ZEST_GRAD_BACKWARD_ROWS_H
#define ZEST_GRAD_BACKWARD_ROWS_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/workspace.h"
#include "grad/backward.h"
#include "grad/activation_grad.h"

enum { RUN = 4096 };

/* ---- Norm ---- */

/* Mean and scale, with the forward pass's bits. */
static float scale_of(const zest_norm_backward *job, const float *x, float *mean) {
    running sums = running_zero();
    for (size_t i = 0; i < job->width && !job->rms; i += WIDTH)
        sums.part[i / WIDTH % SUM_VECTORS] =
            v_add(sums.part[i / WIDTH % SUM_VECTORS], load_some(x + i, part_of(job->width, i)));
    *mean = job->rms ? 0 : running_total(&sums) / (float)job->width;
    sums = running_zero();
    for (size_t i = 0; i < job->width; i += WIDTH) {
        size_t part = part_of(job->width, i), s = i / WIDTH % SUM_VECTORS;
        vec d = v_sub(load_some(x + i, part), v_set(*mean));
        if (part < WIDTH) d = v_first(part, d, v_set(0.0f));
        sums.part[s] = v_fma(d, d, sums.part[s]);
    }
    return 1.0f / sqrtf(running_total(&sums) / (float)job->width + job->epsilon);
}

static void norm_row_backward(const zest_norm_backward *job, size_t row, float *g, float *b) {
    const float *x = job->x + row * job->width, *dy = job->dy + row * job->width;
    float *dx = job->dx + row * job->width, mean, scale = scale_of(job, x, &mean);
    running ones = running_zero(), along = running_zero();
    for (size_t i = 0; i < job->width; i += WIDTH) {
        size_t part = part_of(job->width, i), s = i / WIDTH % SUM_VECTORS;
        vec h = v_mul(v_sub(load_some(x + i, part), v_set(mean)), v_set(scale)), d = load_some(dy + i, part);
        vec e = job->gain ? v_mul(d, load_some(job->gain + i, part)) : d; /* zero beyond the width */
        ones.part[s] = v_add(ones.part[s], e);
        along.part[s] = v_fma(e, h, along.part[s]);
        store_some(g + i, part, v_fma(d, h, load_some(g + i, part)));
        store_some(b + i, part, v_add(load_some(b + i, part), d));
    }
    vec first = v_set(job->rms ? 0 : running_total(&ones) / (float)job->width);
    vec second = v_set(-(running_total(&along) / (float)job->width));
    for (size_t i = 0; i < job->width; i += WIDTH) {
        size_t part = part_of(job->width, i);
        vec h = v_mul(v_sub(load_some(x + i, part), v_set(mean)), v_set(scale)), d = load_some(dy + i, part);
        vec e = job->gain ? v_mul(d, load_some(job->gain + i, part)) : d;
        d = v_mul(v_fma(second, h, v_sub(e, first)), v_set(scale));
        store_some(dx + i, part, job->add ? v_add(load_some(dx + i, part), d) : d);
    }
}

static void add_run(float *out, const float *x, size_t count) {
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        store_some(out + i, part, v_add(load_some(out + i, part), load_some(x + i, part)));
    }
}

static int norm_backward(const zest_norm_backward *job, int threads, zest_workspace *scratch) {
    size_t runs = (job->rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS, width = job->width;
    if (zest_scratch_reserve(scratch, 2 * runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < job->rows ? (run + 1) * ZEST_BACKWARD_ROWS : job->rows;
        memset(sums + 2 * run * width, 0, 2 * width * sizeof *sums);
        for (size_t row = run * ZEST_BACKWARD_ROWS; row < end; row++)
            norm_row_backward(job, row, sums + 2 * run * width, sums + (2 * run + 1) * width);
    }
    for (size_t run = 0; run < runs; run++) {
        if (job->d_gain) add_run(job->d_gain, sums + 2 * run * width, width);
        if (job->d_bias) add_run(job->d_bias, sums + (2 * run + 1) * width, width);
    }
    return 0;
}

static int sum_columns(const float *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                       zest_workspace *scratch) {
    size_t runs = (rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS;
    if (zest_scratch_reserve(scratch, runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < rows ? (run + 1) * ZEST_BACKWARD_ROWS : rows;
        memset(sums + run * width, 0, width * sizeof *sums);
        for (size_t row = run * ZEST_BACKWARD_ROWS; row < end; row++)
            add_run(sums + run * width, x + row * stride, width);
    }
    for (size_t run = 0; run < runs; run++) add_run(out, sums + run * width, width);
    return 0;
}

/* ---- Activations ---- */

static inline __attribute__((always_inline)) void activate_run(float *out, const float *x, const float *up,
                                                               size_t count, zest_activation activation) {
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        vec y = f_activate(load_some(x + i, part), activation);
        store_some(out + i, part, up ? v_mul(y, load_some(up + i, part)) : y);
    }
}

static inline __attribute__((always_inline)) void
slope_run(float *d, float *d_up, const float *x, const float *up, size_t count, zest_activation activation) {
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        vec dy = load_some(d + i, part), at = load_some(x + i, part);
        if (up) store_some(d_up + i, part, v_mul(f_activate(at, activation), dy));
        if (up) dy = v_mul(load_some(up + i, part), dy);
        store_some(d + i, part, v_mul(f_slope(at, activation), dy));
    }
}

/* The activation is chosen outside the loops over the elements. */
#define FOR_EACH_ACTIVATION(call)                             \
    switch (activation) {                                     \
    case ZEST_ACT_RELU: call(ZEST_ACT_RELU); break;           \
    case ZEST_ACT_GELU: call(ZEST_ACT_GELU); break;           \
    case ZEST_ACT_GELU_TANH: call(ZEST_ACT_GELU_TANH); break; \
    case ZEST_ACT_SILU: call(ZEST_ACT_SILU); break;           \
    default: call(ZEST_ACT_NONE); break;                      \
    }

static void activate(float *out, const float *x, const float *up, size_t count, zest_activation activation,
                     int threads, zest_workspace *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
#define ONE(kind) activate_run(out + i, x + i, up ? up + i : NULL, here, kind)
        FOR_EACH_ACTIVATION(ONE)
#undef ONE
    }
}

static void activate_backward(float *d, float *d_up, const float *x, const float *up, size_t count,
                              zest_activation activation, int threads, zest_workspace *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
#define ONE(kind) slope_run(d + i, up ? d_up + i : NULL, x + i, up ? up + i : NULL, here, kind)
        FOR_EACH_ACTIVATION(ONE)
#undef ONE
    }
}

/* ---- Dropout ---- */

static void drop(float *out, const float *x, const float *residual, size_t count, const zest_mask *mask,
                 int threads, zest_workspace *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        float m[RUN];
        size_t here = count - i < RUN ? count - i : RUN;
        zest_plain_mask(&VECTOR_NOISE, mask, i, here, m);
        for (size_t j = 0; j < here; j += WIDTH) {
            size_t part = part_of(here, j);
            vec w = load_some(m + j, part), y = load_some(x + i + j, part);
            store_some(out + i + j, part,
                       residual ? v_fma(w, y, load_some(residual + i + j, part)) : v_mul(w, y));
        }
    }
}

#endif
