/* The operations of the backward pass with vectors: the sums of backward_plain.c in its order. Include a
 * simd_*.h first, and define v_step and PRODUCT_ROWS. */
#ifndef ZEST_GRAD_BACKWARD_SIMD_H
#define ZEST_GRAD_BACKWARD_SIMD_H

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/ops_cpu.h"
#include "grad/backward.h"
#include "grad/activation_grad.h"
#include "kernels/cpu/activations.h"

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
    const float *x = (const float *)job->x + zest_norm_backward_at(job, job->x_stride, row);
    const float *dy = (const float *)job->dy + zest_norm_backward_at(job, job->dy_stride, row);
    float *dx = (float *)job->dx + zest_norm_backward_at(job, job->dx_stride, row), mean,
          scale = scale_of(job, x, &mean);
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
    size_t rows = zest_norm_vectors(job->rows, job->heads), width = job->width;
    size_t runs = (rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS;
    if (zest_scratch_reserve(scratch, 2 * runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < rows ? (run + 1) * ZEST_BACKWARD_ROWS : rows;
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

static int sum_columns(const void *activations, size_t stride, size_t rows, size_t width, float *out,
                       int threads, zest_workspace *scratch) {
    const float *x = activations;
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

static inline __attribute__((always_inline)) void activation_grad_run(float *d, float *d_up, const float *x,
                                                                      const float *up, size_t count,
                                                                      zest_activation activation) {
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        vec dy = load_some(d + i, part), at = load_some(x + i, part);
        if (up) store_some(d_up + i, part, v_mul(f_activate(at, activation), dy));
        if (up) dy = v_mul(load_some(up + i, part), dy);
        store_some(d + i, part, v_mul(f_activation_grad(at, activation), dy));
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

static void activate(void *result, const void *input, const void *gated, size_t count,
                     zest_activation activation, int threads, zest_workspace *scratch) {
    const float *x = input, *up = gated;
    float *out = result;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
#define ONE(kind) activate_run(out + i, x + i, up ? up + i : NULL, here, kind)
        FOR_EACH_ACTIVATION(ONE)
#undef ONE
    }
}

static void activate_backward(void *d_result, void *d_gated, const void *input, const void *gated,
                              size_t count, zest_activation activation, int threads,
                              zest_workspace *scratch) {
    const float *x = input, *up = gated;
    float *d = d_result, *d_up = d_gated;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
#define ONE(kind) activation_grad_run(d + i, up ? d_up + i : NULL, x + i, up ? up + i : NULL, here, kind)
        FOR_EACH_ACTIVATION(ONE)
#undef ONE
    }
}

/* ---- Dropout ---- */

static void drop(void *result, const void *input, const void *added, size_t count, const zest_mask *mask,
                 int threads, zest_workspace *scratch) {
    const float *x = input, *residual = added;
    float *out = result;
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

/* The attention's gradients with vectors: the sums of backward_plain.c in its order. Include a simd_*.h
 * first, and define PRODUCT_ROWS.
 *
 * A task is one sequence and key head. Keys and values are transposed once; then QUERIES queries at
 * a time go through scores, softmax and five products. Everything is padded to whole vectors. */

enum { QUERIES = 32, UNIT = 2 * WIDTH };

/* ---- A small product ---- */

/* c (+)= a b: element (m, k) of a is a[m a_row + k a_step], rows of b and c are b_stride and c_stride apart.
 * Every element of c is one chain over the steps. */
static inline __attribute__((always_inline)) void product_tile(const int rows, size_t steps, const float *a,
                                                               size_t a_row, size_t a_step, const float *b,
                                                               size_t b_stride, float *c, size_t c_stride,
                                                               int add) {
    vec sum[PRODUCT_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++)
            sum[r][v] = add ? v_load(c + (size_t)r * c_stride + v * WIDTH) : v_set(0.0f);
    for (size_t k = 0; k < steps; k++, a += a_step, b += b_stride) {
        vec first = v_load(b), second = v_load(b + WIDTH);
        for (int r = 0; r < rows; r++) {
            vec x = v_set(a[(size_t)r * a_row]);
            sum[r][0] = v_fma(x, first, sum[r][0]);
            sum[r][1] = v_fma(x, second, sum[r][1]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < 2; v++) v_store(c + (size_t)r * c_stride + v * WIDTH, sum[r][v]);
}

/* columns: a multiple of UNIT */
static void product(size_t rows, size_t columns, size_t steps, const float *a, size_t a_row, size_t a_step,
                    const float *b, size_t b_stride, float *c, size_t c_stride, int add) {
    for (size_t n = 0; n < columns; n += UNIT) {
        size_t m = 0;
        for (; m + PRODUCT_ROWS <= rows; m += PRODUCT_ROWS)
            product_tile(PRODUCT_ROWS, steps, a + m * a_row, a_row, a_step, b + n, b_stride,
                         c + m * c_stride + n, c_stride, add);
        for (; m < rows; m++)
            product_tile(1, steps, a + m * a_row, a_row, a_step, b + n, b_stride, c + m * c_stride + n,
                         c_stride, add);
    }
}

/* ---- Workspace of a thread: offsets and sizes in floats ---- */

typedef struct {
    size_t keys, head; /* padded: of the longest sequence, of a head */
    size_t k_columns, v_columns, k, v, dk, dv, q, d_out, dq, p, m, ds, slopes, all;
} attention_workspace;

static attention_workspace attention_workspace_of(const zest_attention *job) {
    attention_workspace r = {0};
    r.keys = round_up(zest_attention_max_keys(job), UNIT);
    r.head = round_up(job->head_dim, UNIT);
    size_t by_keys = r.keys * r.head, by_queries = QUERIES * r.head, scores = QUERIES * r.keys, at = 0;
    size_t *const parts[] = {&r.k_columns, &r.v_columns, &r.k, &r.v, &r.dk, &r.dv,    &r.q,
                             &r.d_out,     &r.dq,        &r.p, &r.m, &r.ds, &r.slopes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = at;
        at += i < 6 ? by_keys : i < 9 ? by_queries : i < 12 || job->soft_cap != 0 ? scores : 0;
    }
    r.all = round_up(at, ZEST_MEMORY_LINE / sizeof(float));
    return r;
}

/* Rows of `size` elements, `head` apart, the rest zero. */
static void copy_rows(const float *from, size_t stride, size_t rows, size_t size, size_t head, float *out) {
    for (size_t i = 0; i < rows; i++, out += head) {
        memcpy(out, from + i * stride, size * sizeof *out);
        memset(out + size, 0, (head - size) * sizeof *out);
    }
}

/* The same as columns: out[element][row], rows padded with zeros to `stride`. */
static void copy_columns(const float *rows, size_t count, size_t head, size_t size, size_t stride,
                         float *out) {
    for (size_t j = 0; j < round_up(count, WIDTH); j += WIDTH)
        for (size_t d = 0; d < size; d += WIDTH) { /* rows are padded to full vectors */
            vec t[WIDTH];
            for (size_t r = 0; r < WIDTH; r++)
                t[r] = j + r < count ? v_load(rows + (j + r) * head + d) : v_set(0.0f);
            v_transpose(t);
            for (size_t i = 0; i < WIDTH && d + i < size; i++) v_store(out + (d + i) * stride + j, t[i]);
        }
    for (size_t d = 0; d < size; d++)
        memset(out + d * stride + round_up(count, WIDTH), 0,
               (round_up(count, UNIT) - round_up(count, WIDTH)) * sizeof *out);
}

/* ---- Softmax ---- */

/* The scaled scores of a row, capped, in place, and the slopes of the cap. */
static void cap_row(float *p, size_t keys, float scale, float cap, float *slopes) {
    for (size_t j = 0; j < keys; j += WIDTH) {
        vec ratio = f_tanh(v_div(v_mul(v_load(p + j), v_set(scale)), v_set(cap)));
        v_store(slopes + j, v_fma(v_sub(v_set(0.0f), ratio), ratio, v_set(1.0f)));
        v_store(p + j, v_mul(v_set(cap), ratio));
    }
}

/* A row of scores becomes its softmax over the keys from `first` to before `keys`; the rest up to `end` zeros. Without a
 * window `first` is a constant, and what asks for it is gone. */
static inline __attribute__((always_inline)) void softmax_range(float *p, size_t first, size_t keys,
                                                                size_t end, float scale) {
    vec row_max = v_set(-INFINITY), factor = v_set(scale);
    running sums = running_zero();
    for (size_t j = first / WIDTH * WIDTH; j < keys; j += WIDTH) {
        vec s = v_mul(v_load(p + j), factor);
        if (keys - j < WIDTH) s = v_first(keys - j, s, row_max);
        if (first > j) s = v_first(first - j, row_max, s);
        row_max = v_max(s, row_max);
    }
    row_max = v_set(v_largest(row_max));
    for (size_t j = 0; j < end; j += WIDTH) {
        vec e = v_set(0.0f);
        if (j < keys && j + WIDTH > first) {
            e = f_exp(v_sub(v_mul(v_load(p + j), factor), row_max));
            if (keys - j < WIDTH) e = v_first(keys - j, e, v_set(0.0f));
            if (first > j) e = v_first(first - j, v_set(0.0f), e);
            size_t part = j / WIDTH % SUM_VECTORS;
            sums.part[part] = v_add(sums.part[part], e);
        }
        v_store(p + j, e);
    }
    vec inverse = v_set(1.0f / running_total(&sums));
    for (size_t j = 0; j < keys; j += WIDTH) v_store(p + j, v_mul(v_load(p + j), inverse));
}

static void softmax_row(float *p, size_t keys, size_t end, float scale) {
    softmax_range(p, 0, keys, end, scale);
}

static void softmax_window(float *p, size_t first, size_t keys, size_t end, float scale) {
    softmax_range(p, first, keys, end, scale);
}

/* dp to ds, in place. m: the mask's factors, or NULL; there p becomes m p. slopes: of the soft cap, or NULL. */
static void softmax_backward(float *p, const float *m, const float *slopes, size_t keys, float scale,
                             float *ds) {
    running sums = running_zero();
    for (size_t j = 0; j < keys; j += WIDTH) {
        size_t part = j / WIDTH % SUM_VECTORS;
        vec d = v_load(ds + j);
        if (m) d = v_mul(d, v_load(m + j));
        v_store(ds + j, d);
        sums.part[part] = v_fma(v_load(p + j), d, sums.part[part]);
    }
    vec mean = v_set(running_total(&sums)), factor = v_set(scale);
    for (size_t j = 0; j < keys; j += WIDTH) {
        vec w = v_load(p + j);
        vec d = v_mul(v_mul(w, v_sub(v_load(ds + j), mean)), factor);
        v_store(ds + j, slopes ? v_mul(d, v_load(slopes + j)) : d);
        if (m) v_store(p + j, v_mul(w, v_load(m + j)));
    }
}

/* ---- Tasks ---- */

typedef struct {
    const zest_attention_backward *job;
    const attention_workspace *r;
    float *work;
    size_t keys; /* of the sequence */
} head_task;

/* Queries of one head that go through together, and the keys that they see: from `start`, a multiple of UNIT, to before
 * `last`. */
typedef struct {
    size_t rows, row, at; /* row: of the first query in the batch; at: the key that it stands at */
    size_t head, start, last;
} query_block;

static query_block block_of(const head_task *t, size_t rows, size_t row, size_t at, size_t head) {
    const zest_attention *job = &t->job->forward;
    return (query_block){rows,
                         row,
                         at,
                         head,
                         zest_attention_first_key(job, at) / UNIT * UNIT,
                         zest_attention_end_key(job, at + rows - 1, t->keys)};
}

/* Softmax and mask of a block's rows, over its keys; `end` is their number, padded. */
static void block_weights(const head_task *t, const query_block *block, size_t end) {
    const zest_attention *job = &t->job->forward;
    const attention_workspace *r = t->r;
    float *work = t->work;
    product(block->rows, end, job->head_dim, work + r->q, r->head, 1, work + r->k_columns + block->start,
            r->keys, work + r->p, r->keys, 0);
    for (size_t i = 0; i < block->rows; i++) {
        size_t first = zest_attention_first_key(job, block->at + i) - block->start;
        size_t keys = zest_attention_end_key(job, block->at + i, t->keys) - block->start;
        float *m = work + r->m + i * r->keys, *p = work + r->p + i * r->keys;
        float scale = job->soft_cap != 0 ? 1.0f : job->scale;
        if (job->soft_cap != 0) cap_row(p, end, job->scale, job->soft_cap, work + r->slopes + i * r->keys);
        if (job->window)
            softmax_window(p, first, keys, end, scale);
        else
            softmax_row(p, keys, end, scale);
        if (!t->job->mask) continue;
        uint64_t row = (uint64_t)((block->row + i) * job->heads + block->head) * t->job->longest;
        zest_plain_mask(&VECTOR_NOISE, t->job->mask, row + block->start, keys, m);
        memset(m + keys, 0, (end - keys) * sizeof *m);
    }
}

static void block_backward(const head_task *t, const query_block *block) {
    const zest_attention *job = &t->job->forward;
    const attention_workspace *r = t->r;
    float *work = t->work;
    size_t rows = block->rows, keys = block->last - block->start, end = round_up(keys, UNIT);
    size_t h = block->head * job->head_dim, shift = block->start * r->head;
    copy_rows((const float *)job->q + block->row * job->q_stride + h, job->q_stride, rows, job->head_dim,
              r->head, work + r->q);
    copy_rows((const float *)t->job->d_out + block->row * job->out_stride + h, job->out_stride, rows,
              job->head_dim, r->head, work + r->d_out);
    block_weights(t, block, end);
    product(rows, end, job->head_dim, work + r->d_out, r->head, 1, work + r->v_columns + block->start,
            r->keys, work + r->ds, r->keys, 0);
    for (size_t i = 0; i < rows; i++) /* beyond the keys that a row sees p is zero, and so is ds */
        softmax_backward(work + r->p + i * r->keys, t->job->mask ? work + r->m + i * r->keys : NULL,
                         job->soft_cap != 0 ? work + r->slopes + i * r->keys : NULL, end, job->scale,
                         work + r->ds + i * r->keys);
    product(rows, r->head, keys, work + r->ds, r->keys, 1, work + r->k + shift, r->head, work + r->dq,
            r->head, 0);
    product(keys, r->head, rows, work + r->ds, 1, r->keys, work + r->q, r->head, work + r->dk + shift,
            r->head, 1);
    product(keys, r->head, rows, work + r->p, 1, r->keys, work + r->d_out, r->head, work + r->dv + shift,
            r->head, 1);
    for (size_t i = 0; i < rows; i++)
        memcpy((float *)t->job->dq + (block->row + i) * job->q_stride + h, work + r->dq + i * r->head,
               job->head_dim * sizeof(float));
}

static void block_forward(const head_task *t, const query_block *block) {
    const zest_attention *job = &t->job->forward;
    const attention_workspace *r = t->r;
    float *work = t->work;
    size_t rows = block->rows, keys = block->last - block->start, end = round_up(keys, UNIT);
    size_t h = block->head * job->head_dim;
    copy_rows((const float *)job->q + block->row * job->q_stride + h, job->q_stride, rows, job->head_dim,
              r->head, work + r->q);
    block_weights(t, block, end);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < end; j += WIDTH) {
            float *p = work + r->p + i * r->keys + j;
            v_store(p, v_mul(v_load(p), v_load(work + r->m + i * r->keys + j)));
        }
    product(rows, r->head, keys, work + r->p, r->keys, 1, work + r->v + block->start * r->head, r->head,
            work + r->dq, r->head, 0);
    for (size_t i = 0; i < rows; i++)
        memcpy((float *)job->out + (block->row + i) * job->out_stride + h, work + r->dq + i * r->head,
               job->head_dim * sizeof(float));
}

static void run_task(const zest_attention_backward *backward, const attention_workspace *r, size_t task,
                     int forward, float *work) {
    const zest_attention *job = &backward->forward;
    size_t sequence = task / job->kv_heads, kv_head = task % job->kv_heads, size = job->head_dim;
    size_t q0 = job->q_start[sequence], queries = job->q_start[sequence + 1] - q0;
    size_t k0 = job->kv_start[sequence], keys = job->kv_start[sequence + 1] - k0;
    size_t at = k0 * job->kv_stride + kv_head * size, group = job->heads / job->kv_heads;
    head_task t = {backward, r, work, keys};
    copy_rows((const float *)job->k + at, job->kv_stride, keys, size, r->head, work + r->k);
    copy_rows((const float *)job->v + at, job->kv_stride, keys, size, r->head, work + r->v);
    copy_columns(work + r->k, keys, r->head, size, r->keys, work + r->k_columns);
    copy_columns(work + r->v, keys, r->head, size, r->keys, work + r->v_columns);
    memset(work + r->dk, 0, keys * r->head * sizeof *work);
    memset(work + r->dv, 0, keys * r->head * sizeof *work);
    for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (size_t i = 0; i < queries; i += QUERIES) {
            size_t rows = queries - i < QUERIES ? queries - i : QUERIES;
            query_block block = block_of(&t, rows, q0 + i, keys - queries + i, head);
            (forward ? block_forward : block_backward)(&t, &block);
        }
    for (size_t j = 0; j < keys && !forward; j++) {
        size_t key = at + j * job->kv_stride;
        memcpy((float *)backward->dk + key, work + r->dk + j * r->head, size * sizeof *work);
        memcpy((float *)backward->dv + key, work + r->dv + j * r->head, size * sizeof *work);
    }
}

static int run_tasks(const zest_attention_backward *job, int forward, int threads, zest_workspace *scratch) {
    attention_workspace r = attention_workspace_of(&job->forward);
    size_t tasks = job->forward.sequences * job->forward.kv_heads;
    if (zest_scratch_reserve(scratch, (size_t)threads * r.all * sizeof(float) + 1)) return -1;
    float *data = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t task = 0; task < tasks; task++)
        run_task(job, &r, task, forward, data + r.all * (size_t)omp_get_thread_num());
    return 0;
}

static int attention_backward(const zest_attention_backward *job, int threads, zest_workspace *scratch) {
    return run_tasks(job, 0, threads, scratch);
}

static int attention_masked(const zest_attention_backward *job, int threads, zest_workspace *scratch) {
    return run_tasks(job, 1, threads, scratch);
}

#endif
