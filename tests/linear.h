/* What the tests of linear share: the cases, their operands, and how one is run. */
#ifndef ZEST_TESTS_LINEAR_H
#define ZEST_TESTS_LINEAR_H

#include "tests/ops_support.h"

enum { BF16 = ZEST_DTYPE_BF16, F16 = ZEST_DTYPE_F16, F32 = ZEST_DTYPE_F32 };
enum { NONE, SEPARATE, IN_PLACE }; /* residual */

/* In bf16 AMX alone adds in another order than the definition: it keeps one sum for the first and one for the
 * second inputs of all pairs of a tile. Both differ from the exact sum by rounding errors of fp32; tolerance
 * is what the case allows there, as absolute difference (operands are about 1 and 0.05). Everything else is
 * to be bit-identical. */
typedef struct {
    const char *name;
    size_t rows, inputs, outputs;
    int transposed, dtype, bias, residual, lanes, signs, frozen;
    float scale[2];
    zest_activation activation;
    size_t pad; /* strides are longer than the rows by this */
    double tolerance;
} linear_case;

static const linear_case cases[] = {
    {"one element", 1, 1, 1, 0, F32, 1, NONE, 2, 0, 0, {0.1f, -0.1f}, ZEST_ACT_NONE, 0, 1e-6},
    {"one element, transposed", 1, 1, 1, 1, F32, 0, NONE, 2, 0, 0, {0.1f, -0.1f}, ZEST_ACT_NONE, 0, 1e-6},
    {"a column", 5, 3, 1, 0, F32, 1, NONE, 1, 0, 0, {0.1f, 0}, ZEST_ACT_NONE, 3, 1e-6},
    {"odd everything", 17, 37, 51, 0, F32, 1, SEPARATE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_GELU, 5, 1e-5},
    {"odd, transposed", 17, 37, 51, 1, F32, 1, SEPARATE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_GELU, 5, 1e-5},
    {"fp16", 15, 64, 66, 0, F16, 1, NONE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_RELU, 0, 1e-5},
    {"fp16, transposed", 15, 65, 66, 1, F16, 1, NONE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_RELU, 0, 1e-5},
    {"bf16", 29, 96, 100, 0, BF16, 1, IN_PLACE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_SILU, 1, 1e-5},
    {"bf16, transposed", 29, 99, 100, 1, BF16, 1, IN_PLACE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_SILU, 1, 1e-5},
    {"signs", 13, 70, 40, 0, F32, 1, NONE, 2, 1, 0, {0.02f, -0.02f}, ZEST_ACT_GELU_TANH, 0, 1e-5},
    {"signs, transposed", 13, 70, 40, 1, F32, 1, NONE, 2, 1, 0, {0.02f, -0.02f}, ZEST_ACT_GELU_TANH, 0, 1e-5},
    {"frozen", 14, 48, 48, 0, F32, 1, SEPARATE, 2, 0, 1, {0.02f, -0.02f}, ZEST_ACT_NONE, 0, 1e-5},
    {"scale 0", 28, 48, 48, 0, F32, 1, IN_PLACE, 2, 0, 0, {0, 0}, ZEST_ACT_NONE, 0, 1e-5},
    {"one lane still", 28, 48, 47, 0, F32, 1, NONE, 2, 0, 0, {0, 0.1f}, ZEST_ACT_NONE, 0, 1e-5},
    {"no pair", 30, 48, 47, 0, F32, 1, NONE, 2, 0, 0, {0.03f, 0.1f}, ZEST_ACT_NONE, 0, 1e-5},
    {"one lane", 31, 80, 33, 0, F32, 0, NONE, 1, 0, 0, {0.03f, 0}, ZEST_ACT_NONE, 0, 1e-5},
    {"several chunks", 30, 2501, 70, 0, BF16, 1, IN_PLACE, 2, 0, 0, {0.01f, -0.01f}, ZEST_ACT_NONE, 2, 1e-4},
    {"several chunks, transposed",
     19,
     4097,
     35,
     1,
     F32,
     1,
     NONE,
     2,
     0,
     0,
     {0.01f, -0.01f},
     ZEST_ACT_NONE,
     0,
     1e-4},
    {"whole tiles", 64, 1024, 128, 0, F32, 1, NONE, 2, 0, 0, {0.01f, -0.01f}, ZEST_ACT_NONE, 0, 1e-4},
    {"many outputs", 3, 40, 1030, 0, F16, 1, NONE, 2, 0, 0, {0.01f, -0.01f}, ZEST_ACT_GELU, 0, 1e-5},
    {"a row, fp32", 1, 37, 51, 0, F32, 1, SEPARATE, 1, 0, 0, {0, 0}, ZEST_ACT_GELU, 5, 1e-5},
    {"a row, fp16", 1, 129, 64, 0, F16, 0, IN_PLACE, 1, 0, 0, {0, 0}, ZEST_ACT_NONE, 0, 1e-5},
    {"a row, bf16", 1, 2501, 70, 0, BF16, 1, NONE, 1, 0, 0, {0, 0}, ZEST_ACT_SILU, 0, 1e-4},
    {"two rows, bf16", 2, 96, 130, 0, BF16, 0, SEPARATE, 1, 0, 0, {0, 0}, ZEST_ACT_NONE, 3, 1e-5},
    {"three rows, frozen", 3, 70, 43, 0, F16, 1, NONE, 1, 0, 1, {0.1f, 0}, ZEST_ACT_RELU, 1, 1e-5},
    {"four rows, fp32", 4, 1100, 39, 0, F32, 1, IN_PLACE, 1, 0, 0, {0, 0}, ZEST_ACT_NONE, 0, 1e-4},
    {"one row, few outputs", 1, 40, 31, 0, F32, 1, SEPARATE, 1, 0, 0, {0, 0}, ZEST_ACT_NONE, 0, 1e-5},
    {"four rows, bf16", 4, 31, 64, 0, BF16, 1, NONE, 1, 0, 0, {0, 0}, ZEST_ACT_GELU_TANH, 2, 1e-5},
    {"no rows", 0, 8, 8, 0, F32, 1, NONE, 2, 0, 0, {0.01f, -0.01f}, ZEST_ACT_NONE, 0, 0},
};

typedef struct {
    zest_linear job;
    size_t outputs, out_floats;
    float *out[2], *residual[2],
        *fresh[2]; /* fresh: what out holds before, when the residual is added in place */
} operands;

static inline operands make(const linear_case *c, zest_compute compute) {
    operands o = {.outputs = c->outputs};
    size_t stride = c->outputs + c->pad;
    o.job = (zest_linear){.transposed = c->transposed,
                          .rows = c->rows,
                          .a_stride = c->inputs + c->pad,
                          .out_stride = stride,
                          .residual_stride = stride,
                          .activation = c->activation,
                          .compute = compute};
    o.job.perturbation = (zest_perturbation){.seed = 0x1234567890abcdefu,
                                             .signs = c->signs,
                                             .scale = {c->scale[0], c->scale[1]},
                                             .lanes = c->lanes};
    o.job.weight = weight((zest_dtype)c->dtype, c->transposed ? c->inputs : c->outputs,
                          c->transposed ? c->outputs : c->inputs, 3, 0.05f, 1001);
    o.job.weight.frozen = c->frozen;
    if (c->bias) o.job.bias = weight((zest_dtype)c->dtype, 1, c->outputs, 4, 0.1f, 5000003);
    o.out_floats = c->rows * stride;
    for (int l = 0; l < c->lanes; l++) {
        o.job.a[l] = normals(c->rows * o.job.a_stride, 10 + (uint64_t)l, 1);
        o.out[l] = guarded(o.out_floats);
        o.fresh[l] = normals(o.out_floats, 20 + (uint64_t)l, 1);
        o.residual[l] = normals(o.out_floats, 30 + (uint64_t)l, 1);
    }
    return o;
}

static inline void discard(operands *o) {
    release(&o->job.weight);
    release(&o->job.bias);
    for (int l = 0; l < 2; l++) {
        free((void *)(uintptr_t)o->job.a[l]);
        free(o->out[l]);
        free(o->fresh[l]);
        free(o->residual[l]);
    }
}

static inline void run(const zest_ops *forward, operands *o, int residual, int threads,
                       zest_workspace *scratch) {
    for (int l = 0; l < o->job.perturbation.lanes; l++) {
        memcpy(o->out[l], o->fresh[l], o->out_floats * sizeof(float));
        o->job.out[l] = o->out[l];
        o->job.residual[l] = residual == NONE ? NULL : residual == SEPARATE ? o->residual[l] : o->out[l];
    }
    assert_int_equal(forward->linear(&o->job, threads, scratch), 0);
}

#endif
