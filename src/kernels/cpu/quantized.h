/* Products with weights that stay in the blocks of a GGUF file. What all instruction sets share: the types, and the
 * activations, which become 8-bit integers too.
 *
 * A group is 32 inputs. Its activations are d_a q_a, with d_a = max |x| / 127 and q_a = x / d_a rounded to even; its
 * weights are d_w q_w - m (d_w of each half of a group, and m = 0 in most types). So a group adds
 *
 *     (d_w d_a) sum of q_w q_a  -  m (d_a sum of q_a)
 *
 * Integers are exact. Floats are added in one order: of the first part sixteen running sums, elements 4i .. 4i+3 of
 * group g in sum 8 (g % 2) + i; of the second eight, group g in sum g % 8; each added up by halves. So every
 * instruction set gives the same bits, and a row's result does not depend on the other rows.
 *
 * Against fp32 activations the error of an output is at most the sum over all inputs of |w| d_a / 2. */
#ifndef ZEST_KERNELS_CPU_QUANTIZED_H
#define ZEST_KERNELS_CPU_QUANTIZED_H

#include "io/gguf.h"
#include "kernels/cpu/ops_cpu.h"

enum { Q_GROUP = 32, Q_GROUPS = 8 /* that are read together: the largest block */ };

/* Rows of quantised activations: integers, then d_a and d_a sum q_a of every group, and zeros up to Q_GROUPS. */
typedef struct {
    const zest_linear *job;
    size_t inputs, outputs, groups;
    size_t block_bytes, row_bytes; /* of weights */
    size_t a_stride, scales;       /* bytes of a row of activations; where its floats begin */
    const char *a[2];
} q_plan;

static inline size_t q_padded(size_t groups) { return (groups + Q_GROUPS - 1) / Q_GROUPS * Q_GROUPS; }
static inline const int8_t *q_row_of(const q_plan *p, int lane, size_t m) {
    return (const int8_t *)(p->a[lane] + m * p->a_stride);
}
static inline const float *q_scales_of(const q_plan *p, int lane, size_t m) {
    return (const float *)(p->a[lane] + m * p->a_stride + p->scales);
}

/* One group. What is not finite makes d_a NaN, so that it reaches the loss. */
static inline void q_quantize_group(const float *x, int8_t *q, float *scale, float *sum) {
    const float shift = 12582912.0f; /* 1.5·2^23: adding it rounds to an integer */
    uint32_t most = 0, shift_bits = zest_dtype_float_bits(shift);
    int total = 0;
    for (int i = 0; i < Q_GROUP; i++) {
        uint32_t magnitude = zest_dtype_float_bits(x[i]) & 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    int finite = most < 0x7f800000;
    float largest = zest_dtype_bits_float(most), inverse = finite && largest > 1e-36f ? 127.0f / largest : 0;
    for (int i = 0; i < Q_GROUP; i++) {
        float y = (finite ? x[i] : 0.0f) * inverse + shift;
        int level = (int)(zest_dtype_float_bits(y) - shift_bits);
        q[i] = (int8_t)level;
        total += level;
    }
    *scale = !finite ? zest_dtype_bits_float(0x7fc00000) : inverse != 0 ? largest / 127.0f : 0;
    *sum = *scale * (float)total;
}

static inline void q_quantize_row(const q_plan *p, int lane, size_t m) {
    const float *x = (const float *)p->job->a[lane] + m * p->job->a_stride;
    char *row = (char *)(uintptr_t)q_row_of(p, lane, m);
    float *scales = (float *)(row + p->scales), *sums = scales + q_padded(p->groups);
    for (size_t g = 0; g < q_padded(p->groups); g++)
        if (g < p->groups)
            q_quantize_group(x + g * Q_GROUP, (int8_t *)row + g * Q_GROUP, &scales[g], &sums[g]);
        else
            scales[g] = sums[g] = 0;
}

/* Everything but the activations themselves. 0: there is not enough memory. */
static inline int q_make_plan(const zest_linear *job, zest_workspace *scratch, q_plan *p) {
    size_t elements = 1;
    *p = (q_plan){.job = job, .inputs = job->weight.columns, .outputs = job->weight.rows};
    (void)zest_gguf_block_size((uint32_t)job->weight.block_type, &elements, &p->block_bytes);
    p->groups = p->inputs / Q_GROUP;
    p->row_bytes = p->inputs / elements * p->block_bytes;
    p->scales = zest_scratch_round(p->inputs);
    p->a_stride = p->scales + zest_scratch_round(2 * q_padded(p->groups) * sizeof(float));
    size_t lane_bytes = job->rows * p->a_stride;
    if (zest_scratch_reserve(scratch, (size_t)job->perturbation.lanes * lane_bytes)) return 0;
    p->a[0] = scratch->data;
    p->a[1] = p->a[0] + (job->perturbation.lanes - 1) * (ptrdiff_t)lane_bytes;
    return 1;
}

#endif
