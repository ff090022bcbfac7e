/* out = act(a W^T + b) + residual over packed operands. Include pack.h first, and define what multiplies a
 * block:
 *
 *   LINEAR_BLOCK(rows, groups, a, b, group, steps, first, c, c_stride)    as tile_block in gemm_tile.h
 *   or LINEAR_BLOCK_FOR(..., out, out_stride), which also gets the address of the block's finished results
 *   (NULL: they are not finished), so that it can prefetch those lines while it multiplies
 *   LINEAR_BEGIN, LINEAR_END   statements around the blocks, where a thread has to prepare for them
 *   LINEAR_QUANTIZED           linear with quantised weights
 *   LINEAR_OUTPUTS             outputs of a panel (a multiple of two groups)
 *   LINEAR_CHUNK               inputs of a chunk (a multiple of NOISE_RUN)
 *
 * A thread takes a panel of outputs; for one chunk of the inputs after another it packs the panel's weights,
 * both signs from one draw, and multiplies all rows of both lanes while they are in its cache. Sums of
 * unfinished chunks wait in memory as floats, which changes no bit. */
#ifndef ZEST_KERNELS_CPU_GEMM_H
#define ZEST_KERNELS_CPU_GEMM_H

#include <omp.h>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/ops_cpu.h"

#ifndef LINEAR_BEGIN
#define LINEAR_BEGIN (void)0
#define LINEAR_END (void)0
#endif

/* Bytes of packed activations of one lane. More rows go in several blocks, each with its own draw of the noise:
 * at this size that costs less than one percent. */
enum { LINEAR_PACKED_BYTES = 32 << 20 };

typedef struct {
    const zest_linear *job;
    size_t inputs, outputs, lines; /* lines: of LINE steps */
    size_t panel;                  /* outputs of one */
    size_t row_block;              /* rows that are packed at a time, a multiple of TILE_ROWS */
    int lanes, noisy, bf16;
    float *a[2];                                /* packed activations of a row block */
    float *workspace;                           /* of the threads */
    size_t a_floats, weight_floats, sum_floats; /* floats of a lane */
    size_t thread_floats;                       /* floats of a thread */
} linear_plan;

/* What is multiplied at a time: `rows` rows from `row` on, `outputs` from n on, `inputs` from k on. */
typedef struct {
    size_t row, rows, n, outputs, k, inputs;
} linear_part;

static linear_plan linear_make_plan(const zest_linear *job, int threads) {
    linear_plan p = {.job = job, .lanes = job->perturbation.lanes};
    p.outputs = job->transposed ? job->weight.columns : job->weight.rows;
    p.inputs = job->transposed ? job->weight.rows : job->weight.columns;
    p.bf16 = job->compute == ZEST_COMPUTE_BF16;
    p.noisy = zest_weight_needs_noise(&job->weight, &job->perturbation);
    p.lines = (p.inputs + LINE_INPUTS - 1) / LINE_INPUTS;
    p.panel = LINEAR_OUTPUTS; /* narrower ones where there would not be enough for all threads */
    while (p.panel > LINEAR_OUTPUTS / 4 && p.panel % 4 == 0 && p.outputs < 2 * p.panel * (size_t)threads)
        p.panel /= 2;
    p.panel = round_up(p.panel, 2 * WIDTH);
    size_t fit = LINEAR_PACKED_BYTES / (p.lines ? p.lines * LINE * sizeof(float) : 1);
    if (fit < TILE_ROWS) fit = TILE_ROWS;
    p.row_block = round_up(job->rows < fit ? job->rows : fit, TILE_ROWS);
    p.a_floats = p.row_block * p.lines * LINE;
    size_t chunk = p.inputs < LINEAR_CHUNK ? p.inputs : LINEAR_CHUNK;
    p.weight_floats = p.panel * round_up(chunk, LINE_INPUTS) / STEP_INPUTS;
    p.sum_floats = p.panel * (p.inputs <= LINEAR_CHUNK ? TILE_ROWS : p.row_block);
    p.thread_floats = (size_t)p.lanes * (p.weight_floats + p.sum_floats + p.panel);
    return p;
}

/* Packed rows from m on, of a row block: chunk by chunk, so that a panel reads them in one stream. */
static inline float *packed_rows(const linear_plan *p, size_t lane, size_t m, size_t k, size_t inputs) {
    size_t lines = (inputs + LINE_INPUTS - 1) / LINE_INPUTS;
    return p->a[lane] + (k / LINE_INPUTS * p->row_block + m * lines) * LINE;
}

static inline size_t chunk_at(const linear_plan *p, size_t k) {
    return p->inputs - k < LINEAR_CHUNK ? p->inputs - k : LINEAR_CHUNK;
}

/* ---- Epilogue: bias, activation, residual ---- */

static inline __attribute__((always_inline)) void epilogue_rows(const linear_plan *p, const linear_part *part,
                                                                int lane, size_t m, size_t rows,
                                                                const float *c, const float *bias,
                                                                zest_activation activation) {
    const zest_linear *job = p->job;
    for (size_t row = part->row + m; row < part->row + m + rows; row++, c += p->panel) {
        float *out = (float *)job->out[lane] + row * job->out_stride + part->n;
        const float *residual = job->residual[lane];
        if (residual) residual += row * job->residual_stride + part->n;
        for (size_t i = 0; i < part->outputs; i += WIDTH) {
            size_t here = part_of(part->outputs, i);
            vec y = v_load(c + i);
            if (job->bias.data) y = v_add(y, v_load(bias + i));
            y = f_activate(y, activation);
            if (residual) y = v_add(y, load_some(residual + i, here));
            store_some(out + i, here, y);
        }
    }
}

static void epilogue(const linear_plan *p, const linear_part *part, int lane, size_t m, size_t rows,
                     const float *c, const float *bias) {
    switch (p->job->activation) { /* outside the loops */
    case ZEST_ACT_RELU: epilogue_rows(p, part, lane, m, rows, c, bias, ZEST_ACT_RELU); break;
    case ZEST_ACT_GELU: epilogue_rows(p, part, lane, m, rows, c, bias, ZEST_ACT_GELU); break;
    case ZEST_ACT_GELU_TANH: epilogue_rows(p, part, lane, m, rows, c, bias, ZEST_ACT_GELU_TANH); break;
    case ZEST_ACT_SILU: epilogue_rows(p, part, lane, m, rows, c, bias, ZEST_ACT_SILU); break;
    default: epilogue_rows(p, part, lane, m, rows, c, bias, ZEST_ACT_NONE); break;
    }
}

/* ---- A panel ---- */

/* All rows of a lane against one packed chunk. */
static void multiply(const linear_plan *p, const linear_part *part, int lane, const float *weights,
                     float *sums, const float *bias) {
    size_t steps = (part->inputs + STEP_INPUTS - 1) / STEP_INPUTS, group = round_up(steps, LINE) * WIDTH;
    size_t groups = round_up(part->outputs, 2 * WIDTH) / WIDTH;
    int accumulates = p->inputs > LINEAR_CHUNK, last = part->k + part->inputs == p->inputs;
    if (p->bf16 && !PAIRS) steps += steps % 2; /* pairs are whole */
    LINEAR_BEGIN;
    for (size_t m = 0; m < part->rows; m += TILE_ROWS) {
        size_t rows = part->rows - m < TILE_ROWS ? part->rows - m : TILE_ROWS;
        float *c = sums + (accumulates ? m * p->panel : 0);
        const float *a = packed_rows(p, (size_t)lane, m, part->k, part->inputs);
#ifdef LINEAR_BLOCK_FOR
        float *out = (float *)p->job->out[lane] + (part->row + m) * p->job->out_stride + part->n;
        LINEAR_BLOCK_FOR((int)rows, groups, a, weights, group, steps, part->k == 0, c, p->panel,
                         last ? out : NULL, p->job->out_stride);
#else
        LINEAR_BLOCK((int)rows, groups, a, weights, group, steps, part->k == 0, c, p->panel);
#endif
        if (last) epilogue(p, part, lane, m, rows, c, bias);
    }
    LINEAR_END;
}

/* The weights of a chunk, for every lane or, when they are not perturbed, for all at once. */
static void pack_panel(const linear_plan *p, const linear_part *part, float *const weights[2]) {
    const zest_linear *job = p->job;
    size_t steps = round_up(part->inputs, LINE_INPUTS) / STEP_INPUTS, real = round_up(part->outputs, WIDTH);
    panel_part panel = {.weight = &job->weight,
                        .perturbation = &job->perturbation,
                        .noise = p->noisy ? &VECTOR_NOISE : NULL,
                        .lanes = p->noisy ? p->lanes : 1,
                        .bf16 = p->bf16,
                        .n = part->n,
                        .outputs = part->outputs,
                        .k = part->k,
                        .inputs = part->inputs,
                        .steps = steps,
                        .out = {weights[0], weights[1]}};
    (job->transposed ? pack_by_columns : pack_by_rows)(&panel);
    if (real % (2 * WIDTH)) /* a tile has two groups of outputs: the one beyond the last output */
        for (int l = 0; l < panel.lanes; l++)
            memset(weights[l] + real * steps, 0, WIDTH * steps * sizeof(float));
}

static void run_panel(const linear_plan *p, linear_part part, float *workspace) {
    const zest_linear *job = p->job;
    size_t lanes = (size_t)p->lanes;
    float *weights[2] = {workspace, workspace + p->weight_floats},
          *sums = workspace + lanes * p->weight_floats;
    float *bias[2] = {sums + lanes * p->sum_floats, sums + lanes * p->sum_floats + p->panel};
    if (job->bias.data) {
        memset(bias[0], 0, lanes * p->panel * sizeof(float));
        weight_values(&job->bias, &job->perturbation, part.n, part.outputs, bias);
    }
    do {
        part.inputs = chunk_at(p, part.k);
        pack_panel(p, &part, weights);
        for (int l = 0; l < p->lanes; l++)
            multiply(p, &part, l, weights[p->noisy ? l : 0], sums + (size_t)l * p->sum_floats, bias[l]);
        part.k += part.inputs;
    } while (part.k < p->inputs);
}

/* Block m of a lane's rows, all chunks. */
static void pack_block(const linear_plan *p, const linear_part *block, size_t lane, size_t m) {
    const zest_linear *job = p->job;
    size_t rows = block->rows - m < TILE_ROWS ? block->rows - m : TILE_ROWS;
    size_t row_step = job->a_transposed ? 1 : job->a_stride, step = job->a_transposed ? job->a_stride : 1;
    for (size_t k = 0; k < p->inputs; k += LINEAR_CHUNK)
        (job->a_transposed ? pack_columns : pack_rows)(
            (const float *)job->a[lane] + (block->row + m) * row_step + k * step, job->a_stride, rows,
            chunk_at(p, k), p->bf16, packed_rows(p, lane, m, k, chunk_at(p, k)));
}

#ifndef LINEAR_BLOCK_FOR /* AMX sums in an order of its own */
#include "kernels/cpu/gemv.h"
#endif

static int linear(const zest_linear *job, int threads, zest_workspace *scratch) {
    if (job->weight.block_type) return LINEAR_QUANTIZED(job, threads, scratch);
#ifndef LINEAR_BLOCK_FOR
    if (gemv_takes(job)) return gemv(job, threads, scratch);
#endif
    threads = useful_threads(threads, (double)(job->rows + 8) * (double)job->weight.rows *
                                          (double)job->weight.columns);
    linear_plan p = linear_make_plan(job, threads);
    size_t lanes = (size_t)p.lanes,
           a_stride_floats = zest_scratch_round(p.a_floats * sizeof(float)) / sizeof(float);
    p.thread_floats = zest_scratch_round(p.thread_floats * sizeof(float)) / sizeof(float);
    if (!job->rows || !p.outputs) return 0;
    size_t floats = lanes * a_stride_floats + (size_t)threads * p.thread_floats;
    if (zest_scratch_reserve(scratch, floats * sizeof(float))) return -1;
    p.a[0] = scratch->data;
    p.a[1] = p.a[0] + a_stride_floats;
    p.workspace = p.a[0] + lanes * a_stride_floats;
    for (size_t row = 0; row < job->rows; row += p.row_block) {
        linear_part block = {.row = row,
                             .rows = job->rows - row < p.row_block ? job->rows - row : p.row_block};
        size_t blocks = (block.rows + TILE_ROWS - 1) / TILE_ROWS;
#pragma omp parallel num_threads(threads)
        {
#pragma omp for schedule(static)
            for (size_t i = 0; i < lanes * blocks; i++)
                pack_block(&p, &block, i / blocks, i % blocks * TILE_ROWS);
#pragma omp for schedule(dynamic)
            for (size_t n = 0; n < p.outputs; n += p.panel) {
                linear_part part = block;
                part.n = n;
                part.outputs = p.outputs - n < p.panel ? p.outputs - n : p.panel;
                run_panel(&p, part, p.workspace + p.thread_floats * (size_t)omp_get_thread_num());
            }
        }
    }
    return 0;
}

#endif
