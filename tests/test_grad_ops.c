/* The operations of the backward pass: every level equals the plain one bit for bit, for any number of
 * threads; and the plain ones are right. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grad/backward.h"
#include "grad/grad.h"
#include "tests/support.h"

enum { LEVELS = 3 };

static size_t cpu_count(const zest_backward *out[LEVELS]) {
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    size_t count = 0;
    out[count++] = &zest_backward_plain;
#if defined(__x86_64__)
    if (cpu >= ZEST_CPU_AVX2) out[count++] = &zest_backward_avx2;
    if (cpu >= ZEST_CPU_AVX512) out[count++] = &zest_backward_avx512;
#endif
    return count;
}

static float *numbers(size_t count, uint64_t seed, float scale) {
    float *out = malloc((count ? count : 1) * sizeof *out);
    assert_non_null(out);
    zest_noise_plain.normal(out, seed, 0, count);
    for (size_t i = 0; i < count; i++) out[i] *= scale;
    return out;
}

/* ---- Attention ---- */

typedef struct {
    size_t sequences, heads, kv_heads, head_dim;
    int causal, past, masked;
    size_t window;  /* 0: none */
    float soft_cap; /* 0: none */
} attention_case;

static const attention_case attention_cases[] = {
    {3, 2, 2, 64, 0, 0, 0, 0, 0},   {3, 4, 2, 64, 1, 0, 0, 0, 0},     {2, 3, 1, 5, 1, 0, 0, 0, 0},
    {3, 2, 1, 80, 1, 7, 0, 0, 0},   {3, 2, 2, 16, 0, 0, 1, 0, 0},     {2, 4, 2, 33, 1, 3, 1, 0, 0},
    {1, 1, 1, 1, 1, 0, 1, 0, 0},    {3, 2, 1, 20, 1, 0, 0, 1, 0},     {3, 4, 2, 20, 1, 0, 0, 33, 0},
    {3, 2, 2, 20, 1, 40, 1, 30, 0}, {3, 2, 1, 20, 0, 0, 0, 9, 0},     {3, 2, 1, 20, 0, 0, 1, 40, 0},
    {3, 2, 1, 36, 1, 0, 0, 0, 2},   {3, 2, 1, 16, 1, 3, 1, 35, 0.7f},
};
static const uint32_t sequence_lengths[3] = {37, 1, 70};

typedef struct {
    zest_attention_backward job;
    uint32_t q_start[4], kv_start[4];
    float *q, *k, *v, *d, *dq, *dk, *dv, *out;
    zest_mask mask;
    size_t q_count, kv_count, out_count;
} attention_data;

static void make_attention(const attention_case *c, attention_data *a) {
    memset(a, 0, sizeof *a);
    for (size_t s = 0; s < c->sequences; s++) {
        a->q_start[s + 1] = a->q_start[s] + sequence_lengths[s];
        a->kv_start[s + 1] = a->kv_start[s] + sequence_lengths[s] + (uint32_t)c->past;
    }
    size_t q_stride = c->heads * c->head_dim + 3, kv_stride = c->kv_heads * c->head_dim + 1;
    size_t rows = a->q_start[c->sequences], keys = a->kv_start[c->sequences];
    a->q_count = rows * q_stride, a->kv_count = keys * kv_stride;
    a->out_count = rows * c->heads * c->head_dim;
    a->q = numbers(a->q_count, 1, 1), a->k = numbers(a->kv_count, 2, 1), a->v = numbers(a->kv_count, 3, 1);
    a->d = numbers(a->out_count, 4, 1);
    a->dq = calloc(a->q_count, sizeof(float)), a->dk = calloc(a->kv_count, sizeof(float));
    a->dv = calloc(a->kv_count, sizeof(float)), a->out = calloc(a->out_count, sizeof(float));
    zest_dropout dropout = {0, 0, 0.3, 9};
    a->mask = zest_dropout_mask(&dropout, dropout.attention, 1, ZEST_DROPOUT_ATTENTION);
    a->job = (zest_attention_backward){.forward = {.q = a->q,
                                                   .k = a->k,
                                                   .v = a->v,
                                                   .out = a->out,
                                                   .q_stride = q_stride,
                                                   .kv_stride = kv_stride,
                                                   .out_stride = c->heads * c->head_dim,
                                                   .q_start = a->q_start,
                                                   .kv_start = a->kv_start,
                                                   .sequences = c->sequences,
                                                   .heads = c->heads,
                                                   .kv_heads = c->kv_heads,
                                                   .head_dim = c->head_dim,
                                                   .causal = c->causal,
                                                   .scale = 1.0f / sqrtf((float)c->head_dim),
                                                   .window = c->window,
                                                   .soft_cap = c->soft_cap},
                                       .d_out = a->d,
                                       .dq = a->dq,
                                       .dk = a->dk,
                                       .dv = a->dv,
                                       .mask = c->masked ? &a->mask : NULL,
                                       .longest = 128};
}

static void free_attention(attention_data *a) {
    float *all[] = {a->q, a->k, a->v, a->d, a->dq, a->dk, a->dv, a->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void attention_levels(void **state) {
    (void)state;
    const zest_backward *tables[LEVELS];
    size_t count = cpu_count(tables);
    for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; i++) {
        attention_data first, other;
        zest_workspace scratch = {0};
        make_attention(&attention_cases[i], &first);
        assert_int_equal(zest_backward_plain.attention(&first.job, 1, &scratch), 0);
        if (first.job.mask) zest_backward_plain.attention_masked(&first.job, 1, &scratch);
        for (size_t l = 0; l < count; l++)
            for (int threads = 1; threads < 4; threads++) {
                make_attention(&attention_cases[i], &other);
                assert_int_equal(tables[l]->attention(&other.job, threads, &scratch), 0);
                if (other.job.mask) tables[l]->attention_masked(&other.job, threads, &scratch);
                assert_memory_equal(other.dq, first.dq, first.q_count * sizeof(float));
                assert_memory_equal(other.dk, first.dk, first.kv_count * sizeof(float));
                assert_memory_equal(other.dv, first.dv, first.kv_count * sizeof(float));
                assert_memory_equal(other.out, first.out, first.out_count * sizeof(float));
                free_attention(&other);
            }
        free_attention(&first);
        free(scratch.data);
    }
}

/* sum of d·out at moved inputs, by the masked forward pass (a mask that keeps all where there is none) */
static double attention_value(attention_data *a) {
    zest_workspace scratch = {0};
    zest_mask all = {1, 0, 1.0f};
    zest_attention_backward job = a->job;
    if (!job.mask) job.mask = &all;
    assert_int_equal(zest_backward_plain.attention_masked(&job, 1, &scratch), 0);
    double sum = 0;
    for (size_t i = 0; i < a->out_count; i++) sum += (double)a->d[i] * (double)a->out[i];
    free(scratch.data);
    return sum;
}

static void attention_differences(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; i++) {
        attention_data a;
        zest_workspace scratch = {0};
        make_attention(&attention_cases[i], &a);
        assert_int_equal(zest_backward_plain.attention(&a.job, 1, &scratch), 0);
        float *const x[3] = {a.q, a.k, a.v}, *const d[3] = {a.dq, a.dk, a.dv};
        size_t const counts[3] = {a.q_count, a.kv_count, a.kv_count};
        for (int w = 0; w < 3; w++) {
            float *v = numbers(counts[w], 20, 1), *kept = malloc(counts[w] * sizeof *kept);
            memcpy(kept, x[w], counts[w] * sizeof *kept);
            double slope = 0, side[2], norm = 0, h = 1e-2;
            for (size_t j = 0; j < counts[w]; j++) {
                slope += (double)d[w][j] * (double)v[j];
                norm += (double)d[w][j] * (double)d[w][j];
            }
            for (int sign = 0; sign < 2; sign++) {
                for (size_t j = 0; j < counts[w]; j++) x[w][j] = kept[j] + (float)(sign ? -h : h) * v[j];
                side[sign] = attention_value(&a);
            }
            memcpy(x[w], kept, counts[w] * sizeof *kept);
            assert_true(fabs((side[0] - side[1]) / (2 * h) - slope) <= 5e-3 * (sqrt(norm) + 1));
            free(v);
            free(kept);
        }
        free_attention(&a);
        free(scratch.data);
    }
}

/* ---- Norm, columns ---- */

static void norm_levels(void **state) {
    (void)state;
    const zest_backward *tables[LEVELS];
    size_t count = cpu_count(tables), rows = 150;
    static const size_t widths[] = {1, 7, 16, 40, 768};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int form = 0; form < 8; form++) {
            size_t width = widths[w], all = rows * width;
            float *x = numbers(all, 1, 2), *dy = numbers(all, 2, 1), *gain = numbers(width, 3, 1),
                  *one = NULL;
            for (size_t l = 0; l < count; l++)
                for (int threads = 1; threads < 4; threads++) {
                    zest_workspace scratch = {0};
                    float *out = calloc(all + 3 * width, sizeof *out);
                    zest_norm_backward job = {.x = x,
                                              .dy = dy,
                                              .gain = form & 1 ? gain : NULL,
                                              .dx = out,
                                              .add = form >> 1 & 1,
                                              .rms = form >> 2 & 1,
                                              .epsilon = 1e-5f,
                                              .d_gain = out + all,
                                              .d_bias = out + all + width,
                                              .rows = rows,
                                              .width = width};
                    assert_int_equal(tables[l]->norm(&job, threads, &scratch), 0);
                    assert_int_equal(tables[l]->sum_columns(dy, width, rows, width, out + all + 2 * width,
                                                            threads, &scratch),
                                     0);
                    if (one) assert_memory_equal(out, one, (all + 3 * width) * sizeof *out);
                    free(scratch.data);
                    if (!one)
                        one = out;
                    else
                        free(out);
                }
            assert_memory_equal(one + all + width, one + all + 2 * width, width * sizeof *one);
            free(x);
            free(dy);
            free(gain);
            free(one);
        }
}

/* Several vectors a row, in place: each as a row of its own, in the same order for the gain's gradient. */
static void norm_of_heads_levels(void **state) {
    (void)state;
    const zest_backward *tables[LEVELS];
    enum { ROWS = 30, HEADS = 3, GAP = 3 };
    static const size_t widths[] = {1, 7, 16, 40};
    size_t count = cpu_count(tables);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t l = 0; l < count; l++) {
            size_t width = widths[w], row = HEADS * width, x_stride = row + GAP, stride = row + 2 * GAP;
            float *x = numbers(ROWS * x_stride, 1, 2), *d = numbers(ROWS * stride, 2, 1),
                  *gain = numbers(width, 3, 1), *kept = numbers(ROWS * stride, 2, 1);
            float *packed_x = calloc(ROWS * row, sizeof *x), *packed_d = calloc(ROWS * row, sizeof *x),
                  *sums = calloc(2 * width, sizeof *x);
            for (size_t m = 0; m < ROWS; m++) {
                memcpy(packed_x + m * row, x + m * x_stride, row * sizeof *x);
                memcpy(packed_d + m * row, d + m * stride, row * sizeof *x);
            }
            zest_workspace scratch = {0};
            zest_norm_backward job = {.x = packed_x,
                                      .dy = packed_d,
                                      .gain = gain,
                                      .dx = packed_d,
                                      .rms = 1,
                                      .epsilon = 1e-6f,
                                      .d_gain = sums,
                                      .rows = ROWS * HEADS,
                                      .width = width};
            assert_int_equal(tables[l]->norm(&job, 1, &scratch), 0);
            job.x = x, job.dy = job.dx = d, job.d_gain = sums + width;
            job.rows = ROWS, job.heads = HEADS;
            job.x_stride = x_stride, job.dy_stride = job.dx_stride = stride;
            assert_int_equal(tables[l]->norm(&job, 2, &scratch), 0);
            assert_memory_equal(sums, sums + width, width * sizeof *sums);
            for (size_t m = 0; m < ROWS; m++) {
                assert_memory_equal(d + m * stride, packed_d + m * row, row * sizeof *d);
                assert_memory_equal(d + m * stride + row, kept + m * stride + row, 2 * GAP * sizeof *d);
            }
            float *const made[] = {x, d, gain, kept, packed_x, packed_d, sums, scratch.data};
            for (size_t i = 0; i < sizeof made / sizeof *made; i++) free(made[i]);
        }
}

/* ---- Activations ---- */

static double reference(double x, zest_activation activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return x > 0 ? x : 0;
    case ZEST_ACT_GELU: return x * 0.5 * erfc(-x / sqrt(2.0));
    case ZEST_ACT_GELU_TANH: return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case ZEST_ACT_SILU: return x / (1 + exp(-x));
    default: return x;
    }
}

static void activation_gradients(void **state) {
    (void)state;
    const zest_backward *tables[LEVELS];
    size_t count = cpu_count(tables);
    enum { COUNT = 4001 };
    for (int kind = ZEST_ACT_NONE; kind <= ZEST_ACT_SILU; kind++)
        for (int gated = 0; gated < 2; gated++) {
            zest_activation activation = (zest_activation)kind;
            float x[COUNT], *up = numbers(COUNT, 4, 1), first[3][COUNT] = {{0}};
            for (int i = 0; i < COUNT; i++) x[i] = (float)(i - 2000) * 0.004f + 0.0013f;
            for (size_t l = 0; l < count; l++) {
                float y[COUNT], d[COUNT], d_up[COUNT] = {0};
                tables[l]->activate(y, x, gated ? up : NULL, COUNT, activation, 2, NULL);
                for (int i = 0; i < COUNT; i++) d[i] = 0.5f;
                tables[l]->activate_backward(d, d_up, x, gated ? up : NULL, COUNT, activation, 2, NULL);
                if (!l)
                    memcpy(first[0], y, sizeof y), memcpy(first[1], d, sizeof d),
                        memcpy(first[2], d_up, sizeof d);
                assert_memory_equal(first[0], y, sizeof y);
                assert_memory_equal(first[1], d, sizeof d);
                assert_memory_equal(first[2], d_up, sizeof d);
            }
            for (int i = 0; i < COUNT; i++) {
                double at = (double)x[i], u = gated ? (double)up[i] : 1, h = 1e-5;
                double slope = (reference(at + h, activation) - reference(at - h, activation)) / (2 * h);
                assert_true(fabs((double)first[0][i] - u * reference(at, activation)) <=
                            2e-6 * (1 + fabs(u)));
                assert_true(fabs((double)first[1][i] - 0.5 * u * slope) <= 2e-6 * (1 + fabs(u)));
                if (gated) assert_true(fabs((double)first[2][i] - 0.5 * reference(at, activation)) <= 2e-6);
            }
            free(up);
        }
}

/* ---- Dropout ---- */

static void masks(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    const zest_backward *tables[LEVELS];
    size_t count = cpu_count(tables);
    float *x = numbers(COUNT, 1, 1), *first = malloc(COUNT * sizeof *first),
          *out = malloc(COUNT * sizeof *out);
    for (int r = 0; r < 3; r++) {
        static const double rates[3] = {0.1, 0.5, 0.9};
        zest_dropout dropout = {0, rates[r], 0, 77};
        zest_mask mask = zest_dropout_mask(&dropout, rates[r], 3, ZEST_DROPOUT_MLP);
        double kept = 0, together = 0;
        for (size_t l = 0; l < count; l++) {
            for (size_t i = 0; i < COUNT; i++) out[i] = 1;
            tables[l]->drop(out, out, x, COUNT, &mask, 1 + (int)l, NULL);
            if (!l) memcpy(first, out, COUNT * sizeof *out);
            assert_memory_equal(first, out, COUNT * sizeof *out);
        }
        zest_plain_mask(&zest_noise_plain, &mask, 0, COUNT, out);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(first[i] == out[i] + x[i]);
            assert_true(out[i] == 0 || fabs((double)out[i] * (1 - rates[r]) - 1) < 2e-4);
            kept += out[i] != 0;
            together += i && out[i] != 0 && out[i - 1] != 0;
        }
        double keep = 1 - rates[r], spread = sqrt(keep * (1 - keep) / COUNT);
        assert_true(fabs(kept / COUNT - keep) <= 5 * spread);
        assert_true(fabs(together / COUNT - keep * keep) <= 10 * spread); /* neighbours are independent */
    }
    zest_dropout a = {0.1, 0.1, 0.1, 1}, b = {0.1, 0.1, 0.1, 2};
    uint64_t keys[4] = {zest_dropout_mask(&a, 0.1, 0, ZEST_DROPOUT_MLP).key,
                        zest_dropout_mask(&a, 0.1, 1, ZEST_DROPOUT_MLP).key,
                        zest_dropout_mask(&a, 0.1, 0, ZEST_DROPOUT_ATTENDED).key,
                        zest_dropout_mask(&b, 0.1, 0, ZEST_DROPOUT_MLP).key};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) assert_true(keys[i] != keys[j]);
    assert_int_equal(zest_dropout_mask(NULL, 0.5, 0, ZEST_DROPOUT_MLP).threshold, 0);
    free(x);
    free(first);
    free(out);
}

/* ---- The product that gradients of weights take ---- */

static void turned_activations(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 1}, {5, 3, 7}, {64, 33, 70}, {45, 2100, 50}, {33, 65, 300}};
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int cpu = ZEST_CPU_PLAIN; cpu <= (int)best; cpu++)
            for (int compute = 0; compute < 2; compute++) {
                size_t rows = shapes[s][0], inputs = shapes[s][1], outputs = shapes[s][2], stride = rows + 3;
                float *a = numbers(inputs * stride, 1, 1), *w = numbers(inputs * outputs, 2, 1);
                float *turned = malloc(rows * inputs * sizeof *turned);
                float *out = numbers(2 * rows * outputs, 3, 1);
                memcpy(out + rows * outputs, out, rows * outputs * sizeof *out);
                for (size_t m = 0; m < rows; m++)
                    for (size_t k = 0; k < inputs; k++) turned[m * inputs + k] = a[k * stride + m];
                for (int form = 0; form < 2; form++) {
                    zest_workspace scratch = {0};
                    float *to = out + (size_t)form * rows * outputs;
                    zest_linear job = {.weight = {w, ZEST_DTYPE_F32, inputs, outputs, 0, 1},
                                       .transposed = 1,
                                       .perturbation = {.lanes = 1},
                                       .a = {form ? turned : a, NULL},
                                       .a_stride = form ? inputs : stride,
                                       .a_transposed = !form,
                                       .rows = rows,
                                       .out = {to, NULL},
                                       .out_stride = outputs,
                                       .residual = {to, NULL},
                                       .residual_stride = outputs,
                                       .compute = (zest_compute)compute};
                    assert_int_equal(zest_ops_for((zest_cpu)cpu)->linear(&job, 1 + form, &scratch), 0);
                    free(scratch.data);
                }
                assert_memory_equal(out, out + rows * outputs, rows * outputs * sizeof *out);
                free(a);
                free(w);
                free(turned);
                free(out);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_levels),     cmocka_unit_test(attention_differences),
        cmocka_unit_test(norm_levels),          cmocka_unit_test(norm_of_heads_levels),
        cmocka_unit_test(activation_gradients), cmocka_unit_test(masks),
        cmocka_unit_test(turned_activations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
