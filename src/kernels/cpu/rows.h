/* Operations on single rows: norm, rotary, gate, gather, sums, soft caps. Include a simd_*.h first. */
#ifndef ZEST_KERNELS_CPU_ROWS_H
#define ZEST_KERNELS_CPU_ROWS_H

#include <math.h>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/perturbed_weight.h"

/* ---- Norm ---- */

static float row_sum(const float *x, size_t width) {
    running sums = running_zero();
    for (size_t i = 0; i < width; i += SUMS)
        for (size_t v = 0; v < SUM_VECTORS && i + v * WIDTH < width; v++)
            sums.part[v] = v_add(sums.part[v], load_some(x + i + v * WIDTH, part_of(width, i + v * WIDTH)));
    return running_total(&sums);
}

static float row_squares(const float *x, size_t width, float mean) {
    running sums = running_zero();
    for (size_t i = 0; i < width; i += SUMS)
        for (size_t v = 0; v < SUM_VECTORS && i + v * WIDTH < width; v++) {
            size_t part = part_of(width, i + v * WIDTH);
            vec d = v_sub(load_some(x + i + v * WIDTH, part), v_set(mean));
            if (part < WIDTH) d = v_first(part, d, v_set(0.0f));
            sums.part[v] = v_fma(d, d, sums.part[v]);
        }
    return running_total(&sums);
}

static void norm_row(const zest_norm *job, const float *x, const float *g, const float *b, float *out) {
    float mean = job->rms ? 0 : row_sum(x, job->width) / (float)job->width;
    float scale = 1.0f / sqrtf(row_squares(x, job->width, mean) / (float)job->width + job->epsilon);
    for (size_t i = 0; i < job->width; i += WIDTH) {
        size_t part = part_of(job->width, i);
        vec y = v_mul(v_sub(load_some(x + i, part), v_set(mean)), v_set(scale));
        if (g) y = v_mul(y, load_some(g + i, part));
        if (b) y = v_add(y, load_some(b + i, part));
        store_some(out + i, part, y);
    }
}

static int norm(const zest_norm *job, int threads, zest_workspace *scratch) {
    size_t width = job->width;
    const zest_perturbation *p = &job->perturbation;
    if (zest_scratch_reserve(scratch, 4 * width * sizeof(float))) return -1;
    float *data = scratch->data, *g[2] = {data, data + width}, *b[2] = {data + 2 * width, data + 3 * width};
    if (job->gain.data) weight_values(&job->gain, p, 0, width, g);
    if (job->bias.data) weight_values(&job->bias, p, 0, width, b);
    for (size_t i = 0; job->gain_offset != 0 && i < (size_t)p->lanes * width; i++)
        g[i / width][i % width] += job->gain_offset;
    size_t vectors = zest_norm_vectors(job->rows, job->heads), rows = (size_t)p->lanes * vectors;
    threads = useful_threads(threads, 4.0 * (double)rows * (double)width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        size_t l = i / vectors, m = i % vectors;
        norm_row(job, (const float *)job->x[l] + zest_norm_offset(m, job->heads, job->x_stride, width),
                 job->gain.data ? g[l] : NULL, job->bias.data ? b[l] : NULL,
                 (float *)job->out[l] + zest_norm_offset(m, job->heads, job->out_stride, width));
    }
    return 0;
}

/* ---- Rotary, gate ---- */

static void rotary(void *activations, size_t rows, size_t stride, size_t heads, size_t head_dim,
                   size_t rotary_dim, const uint32_t *positions, const float *cosines, const float *sines,
                   int threads, zest_workspace *scratch) {
    (void)scratch;
    float *x = activations;
    size_t half = rotary_dim / 2;
    threads = useful_threads(threads, 2.0 * (double)rows * (double)(heads * head_dim));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t m = 0; m < rows; m++)
        for (size_t h = 0; h < heads; h++) {
            float *low = x + m * stride + h * head_dim, *high = low + half;
            for (size_t i = 0; i < half; i += WIDTH) {
                size_t part = part_of(half, i);
                vec c = load_some(cosines + positions[m] * half + i, part);
                vec s = load_some(sines + positions[m] * half + i, part);
                vec a = load_some(low + i, part), b = load_some(high + i, part);
                store_some(low + i, part, v_sub(v_mul(a, c), v_mul(b, s)));
                store_some(high + i, part, v_add(v_mul(b, c), v_mul(a, s)));
            }
        }
}

static inline __attribute__((always_inline)) void gate_run(float *x, const float *up, size_t count,
                                                           zest_activation activation) {
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        vec y = v_mul(f_activate(load_some(x + i, part), activation), load_some(up + i, part));
        store_some(x + i, part, y);
    }
}

static void gate(void *gates, const void *ups, size_t count, zest_activation activation, int threads,
                 zest_workspace *scratch) {
    float *x = gates;
    const float *up = ups;
    (void)scratch;
    enum { RUN = 4096 };
    threads = useful_threads(threads, 16.0 * (double)count);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
        switch (activation) { /* outside the loop over the elements */
        case ZEST_ACT_RELU: gate_run(x + i, up + i, here, ZEST_ACT_RELU); break;
        case ZEST_ACT_GELU: gate_run(x + i, up + i, here, ZEST_ACT_GELU); break;
        case ZEST_ACT_GELU_TANH: gate_run(x + i, up + i, here, ZEST_ACT_GELU_TANH); break;
        case ZEST_ACT_SILU: gate_run(x + i, up + i, here, ZEST_ACT_SILU); break;
        default: gate_run(x + i, up + i, here, ZEST_ACT_NONE); break;
        }
    }
}

/* ---- Sums, soft caps ---- */

static void add_scaled(void *result, const void *input, float factor, const void *added, size_t count,
                       int threads, zest_workspace *scratch) {
    const float *x = input, *y = added;
    float *out = result;
    (void)scratch;
    threads = useful_threads(threads, (double)count);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        vec a = load_some(x + i, part), c = v_set(factor);
        store_some(out + i, part, y ? v_fma(c, a, load_some(y + i, part)) : v_mul(c, a));
    }
}

static void soft_cap(float *x, size_t count, float cap, int threads, zest_workspace *scratch) {
    (void)scratch;
    threads = useful_threads(threads, 16.0 * (double)count);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += WIDTH) {
        size_t part = part_of(count, i);
        store_some(x + i, part, f_soft_cap(load_some(x + i, part), cap));
    }
}

/* ---- Gather ---- */

static void gather_row(const zest_weight *table, const zest_perturbation *p, size_t row, void *const out[2],
                       size_t at, int add) {
    float w0[NOISE_RUN], w1[NOISE_RUN], *const w[2] = {w0, w1};
    for (size_t c = 0; c < table->columns; c += NOISE_RUN) {
        size_t count = table->columns - c < NOISE_RUN ? table->columns - c : NOISE_RUN;
        weight_values(table, p, row * table->columns + c, count, w);
        for (int l = 0; l < p->lanes; l++) {
            float *to = (float *)out[l] + at * table->columns + c;
            for (size_t i = 0; i < count; i += WIDTH) {
                size_t part = part_of(count, i);
                vec x = load_some(w[l] + i, part);
                store_some(to + i, part, add ? v_add(load_some(to + i, part), x) : x);
            }
        }
    }
}

static int gather(const zest_gather *job, int threads, zest_workspace *scratch) {
    (void)scratch;
    double rows = (double)job->count * (double)job->part_count;
    threads = useful_threads(threads, 32.0 * rows * (double)job->parts[0].table.columns);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < job->count; i++)
        for (size_t part = 0; part < job->part_count; part++)
            gather_row(&job->parts[part].table, &job->perturbation, job->parts[part].ids[i], job->out, i,
                       part || job->add);
    return 0;
}

#endif
