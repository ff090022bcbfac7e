/* Operands of a multiplication in the order in which the tiles read them. Include a simd_*.h first, and define
 *
 *   PAIRS       1: a step of the inner dimension is a pair of bf16 in the place of a float; 0: it is one float
 *   TILE_ROWS   rows of activations in a block
 *
 * Activations: [block of TILE_ROWS rows][line of 16 steps][row][16 steps], so that a tile walks one stream,
 * whatever the stride of the matrix, and no transpose is needed. Weights:
 * [group of WIDTH outputs][step][WIDTH outputs].
 *
 * In bf16 without pairs, rounded operands stay floats, and each two inputs are swapped: so the sums are
 * taken in the order of the instruction on pairs. */
#ifndef ZEST_KERNELS_CPU_PACK_H
#define ZEST_KERNELS_CPU_PACK_H

#include "kernels/cpu/perturbed_weight.h"

enum { LINE = 16, STEP_INPUTS = PAIRS ? 2 : 1, LINE_INPUTS = LINE * STEP_INPUTS };

/* ---- Activations ---- */

/* One row's `count` inputs, written at every stride-th line. */
static void pack_row(const float *a, size_t count, int bf16, float *out, size_t stride) {
    for (size_t k = 0; k < count; k += LINE_INPUTS, out += stride) {
#if PAIRS
        size_t left = count - k, high = left > LINE ? left - LINE : 0;
        (void)bf16;
        v_store(out, v_pairs(v_load_part(a + k, left < LINE ? left : LINE),
                             high ? v_load_part(a + k + LINE, high < LINE ? high : LINE) : v_set(0.0f)));
#else
        for (size_t i = 0; i < LINE; i += WIDTH) {
            size_t left = count - k > i ? count - k - i : 0;
            vec x = left >= WIDTH ? v_load(a + k + i) : left ? v_load_part(a + k + i, left) : v_set(0.0f);
            v_store(out + i, bf16 ? v_swap_pairs(v_round_bf16(x)) : x);
        }
#endif
    }
}

static void pack_rows(const float *a, size_t stride, size_t rows, size_t inputs, int bf16, float *out) {
    for (size_t m = 0; m < rows; m++)
        pack_row(a + m * stride, inputs, bf16, out + m * LINE, (size_t)TILE_ROWS * LINE);
}

/* The inputs' part of `rows` rows (at most a vector) of input k, where rows lie side by side. */
static inline vec pack_load(const float *a, size_t stride, size_t rows, size_t inputs, size_t k) {
    return k < inputs ? load_some(a + k * stride, rows) : v_set(0.0f);
}

/* The same as pack_rows from a matrix of inputs × rows: squares are transposed on the way. */
static void pack_columns(const float *a, size_t stride, size_t rows, size_t inputs, int bf16, float *out) {
    for (size_t k = 0; k < inputs; k += LINE_INPUTS, out += (size_t)TILE_ROWS * LINE)
        for (size_t m = 0; m < rows; m += WIDTH)
            for (size_t s = 0; s < LINE; s += WIDTH) {
                size_t here = part_of(rows, m);
                vec t[WIDTH];
                for (size_t i = 0; i < WIDTH; i++) {
                    size_t at = k + (s + i) * STEP_INPUTS;
                    t[i] = pack_load(a + m, stride, here, inputs, at);
#if PAIRS
                    t[i] = v_pairs_of_rows(t[i], pack_load(a + m, stride, here, inputs, at + 1));
#else
                    if (bf16) t[i] = v_round_bf16(t[i]);
#endif
                }
                v_transpose(t);
                for (size_t r = 0; r < here; r++)
                    v_store(out + (m + r) * LINE + s, bf16 && !PAIRS ? v_swap_pairs(t[r]) : t[r]);
            }
}

/* ---- Weights ---- */

/* Part of a weight: `outputs` from n on, `inputs` from k on. `steps`: of each group in out. */
typedef struct {
    const zest_weight *weight;
    const zest_perturbation *perturbation;
    const zest_noise *noise; /* NULL: the weights as they are, and out[0] alone */
    int lanes, bf16;
    size_t n, outputs, k, inputs, steps;
    float *out[2];
} panel_part;

static inline vec lane_value(const panel_part *p, int lane, vec w, vec z) {
    int perturbed = p->noise && p->perturbation->scale[lane] != 0;
    vec x = perturbed ? v_fma(v_set(p->perturbation->scale[lane]), z, w) : w;
    return p->bf16 && !PAIRS ? v_round_bf16(x) : x;
}

/* WIDTH outputs by WIDTH steps, from rows of stored weights to columns. z: their noise, NOISE_RUN apart. */
static inline void pack_square(const panel_part *p, size_t group, size_t rows, size_t k, const float *z) {
    const zest_weight *weight = p->weight;
    vec w[WIDTH * STEP_INPUTS];
    size_t left = p->inputs - k;
    for (size_t r = 0; r < WIDTH; r++)
        for (size_t h = 0; h < STEP_INPUTS; h++) {
            size_t here = left > h * WIDTH ? left - h * WIDTH : 0;
            size_t at = (p->n + group * WIDTH + r) * weight->columns + p->k + k + h * WIDTH;
            w[r * STEP_INPUTS + h] =
                r < rows && here ? widen_part(weight->dtype, zest_weight_at(weight, at), here) : v_set(0.0f);
        }
    for (int l = 0; l < p->lanes; l++) {
        vec t[WIDTH];
        float *out = p->out[l] + (group * p->steps + k / STEP_INPUTS) * WIDTH;
        for (size_t r = 0; r < WIDTH; r++) {
            const float *noise = z + r * NOISE_RUN;
#if PAIRS
            t[r] = v_pairs(lane_value(p, l, w[2 * r], v_load(noise)),
                           lane_value(p, l, w[2 * r + 1], v_load(noise + WIDTH)));
#else
            t[r] = lane_value(p, l, w[r], v_load(noise));
#endif
        }
        v_transpose(t);
        for (size_t i = 0; i < WIDTH; i++) v_store(out + (p->bf16 && !PAIRS ? i ^ 1 : i) * WIDTH, t[i]);
    }
}

/* outputs × inputs. What is beyond the last row or column stays zero: noise is drawn for stored elements
 * alone. */
static void pack_by_rows(const panel_part *p) {
    const size_t square = (size_t)WIDTH * STEP_INPUTS;
    float z[WIDTH * NOISE_RUN] __attribute__((aligned(64))) = {0};
    for (size_t n = 0; n < p->outputs; n += WIDTH)
        for (size_t run = 0; run < p->inputs; run += NOISE_RUN) {
            size_t count = p->inputs - run < NOISE_RUN ? p->inputs - run : NOISE_RUN;
            size_t rows = p->outputs - n < WIDTH ? p->outputs - n : WIDTH,
                   past = (count + square - 1) / square * square;
            for (size_t r = 0; p->noise && r < WIDTH; r++) {
                float *to = z + r * NOISE_RUN;
                size_t real = r < rows ? count : 0;
                if (real)
                    zest_weight_noise(p->weight, p->perturbation, p->noise,
                                      (p->n + n + r) * p->weight->columns + p->k + run, real, to);
                memset(to + real, 0, (past - real) * sizeof *to);
            }
            for (size_t k = 0; k < count; k += square) pack_square(p, n / WIDTH, rows, run + k, z + k);
        }
}

/* WIDTH outputs of one step, from stored rows of outputs. z: the noise of the step's inputs. */
static inline void pack_step(const panel_part *p, size_t group, size_t k, const float *z) {
    size_t n = group * WIDTH, count = p->outputs - n < WIDTH ? p->outputs - n : WIDTH;
    vec w[STEP_INPUTS];
    for (size_t h = 0; h < STEP_INPUTS; h++) {
        size_t at = (p->k + k + h) * p->weight->columns + p->n + n;
        w[h] = k + h < p->inputs ? widen_part(p->weight->dtype, zest_weight_at(p->weight, at), count)
                                 : v_set(0.0f);
    }
    for (int l = 0; l < p->lanes; l++) {
        float *out = p->out[l] + (group * p->steps + k / STEP_INPUTS) * WIDTH;
#if PAIRS
        v_store(out, v_pairs_of_rows(lane_value(p, l, w[0], v_load(z + n)),
                                     lane_value(p, l, w[1], v_load(z + NOISE_RUN + n))));
#else
        if (p->bf16) out += k % 2 ? -WIDTH : WIDTH;
        v_store(out, lane_value(p, l, w[0], v_load(z + n)));
#endif
    }
}

/* inputs × outputs; at most NOISE_RUN outputs. Steps without an input, to the end of the line, are zeros. */
static void pack_by_columns(const panel_part *p) {
    float z[2 * NOISE_RUN] __attribute__((aligned(64))) = {0};
    size_t end = (p->inputs + LINE_INPUTS - 1) / LINE_INPUTS * LINE_INPUTS;
    for (size_t k = 0; k < end; k += STEP_INPUTS) {
        for (size_t h = 0; p->noise && h < STEP_INPUTS; h++) {
            if (k + h < p->inputs)
                zest_weight_noise(p->weight, p->perturbation, p->noise,
                                  (p->k + k + h) * p->weight->columns + p->n, p->outputs, z + h * NOISE_RUN);
            else
                memset(z + h * NOISE_RUN, 0, NOISE_RUN * sizeof *z);
        }
        for (size_t n = 0; n < p->outputs; n += WIDTH) pack_step(p, n / WIDTH, k, z);
    }
}

#endif
